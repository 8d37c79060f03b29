//! The connection of one VC: dialling, crossing dials, parting, loss.
//!
//! A [`Link`] performs no I/O and reads no clock. The netmod tells it what happened
//! ([`LinkEvent`]) and does what it answers ([`LinkAction`]), in order and before the next event.
//!
//! # The protocol
//!
//! A connection begins with the hello ([`netmod_connection`]). When the initiator has proved itself, the
//! responder's link ACCEPTs or REJECTs. ACCEPT is a promise, and binds only the responder: it sends no
//! message before READY. On ACCEPT the initiator adopts the connection, says READY, and may send at
//! once; on READY the responder adopts it. So one side decides about each connection, and a promise
//! that comes to nothing has lost nothing.
//!
//! When two dials cross, that of the greater name survives: the greater REJECTs, the lesser gives its
//! own dial up with GOODBYE and ACCEPTs. A lesser one that was rejected waits for the other's dial,
//! and dials again if it does not come.
//!
//! Every orderly end is announced, so that an end of file is never mistaken for one: an initiator that
//! gives a dial up says GOODBYE; a responder that takes a promise back says WITHDRAWN, because the
//! initiator may have sent messages behind its READY, and must learn that nobody read them; and
//! parting is GOODBYE behind the last message, answered by GOODBYE or the end of file. Whoever has said
//! GOODBYE reads, and delivers, until then, and takes any end of the connection for the answer, save
//! WITHDRAWN.
//!
//! # Sessions
//!
//! What was sent on an adopted connection that broke is not lost: both sides have a *session*, named after the
//! handshake that began it, and a dial that resumes it says so ([`Hail`]). Between the loss and the next connection
//! the link is *resuming*, in the phases of an ordinary dial, for at most `resume_timeout`; refusals by the peer's
//! address show earlier that the process is gone. Both sides may dial; the arbiter is the same.
//!
//! A responder has a session from its promise on, since the initiator may adopt it without the responder ever
//! learning of it. It is *provisional* until READY: a dial of this side's asks for it, and falls back to a fresh one
//! if the peer does not know it. A link whose own fresh dial is under way does not say that it does not know a
//! session: the ACCEPT that begins it may be on its way, or the word of a checkpoint that does. Of several dials of one incarnation the later one counts,
//! and a promise to an earlier one is void. ACCEPT says the number of its sender's last dial: where dials have crossed, the
//! one that was given up may be heard of when the connection that it was given up for is in use, and is no sign that this is lost.
//!
//! A process that has taken a dead one's name is told by its incarnation: it takes what is left of the old one
//! down, and a link that has failed is revived by it.
//!
//! # Better ways
//!
//! A connection that is whole can be left for one by a better way ([`LinkEvent::Moving`]). The netmod makes the new
//! connection first, and the link *offers* it: the hello asks for the session, like that of a dial that resumes it. From the
//! hello on the old connection is not read, because the hello says how far it was read. It is written to until the
//! peer has accepted the offer. An offer that comes to nothing costs a pause in reading and nothing else. If both sides
//! offer, the greater name's offer survives. A side offers only on a connection that it knows to be the peer's too: because
//! the peer said READY, or because something was read on it.
//!
//! # Checkpoints
//!
//! A process that is about to be checkpointed says so on each connection, and reads on until the peer has closed it.
//! Both links are *patient* then: resuming, without the signs by which a peer is known to be gone, for at most
//! `ckpt_timeout`, of which none passes while the process sleeps. The peer waits to be dialled.
//!
//! While a link is patient, a refusal by another process says only that the peer is elsewhere now.
//!
//! A connection without a session begins one for that ([`LinkEvent::BeginSession`]): its sender before it says that it will
//! sleep, the peer before it answers. Each side keeps what it sends from then on; what was sent before has been read when
//! the connection ends, unless it is lost. The session goes on after the checkpoint.
//!
//! # The table
//!
//! What an event does in each phase. "Fail" counts the attempt, and leads to `Backoff`, or to
//! `Failed` with `Down` if it is permanent or too late, or to `Idle` if nothing waits to be sent.
//! "Rest" leads to `Idle`, answers `Terminate` with `Terminated`, and dials anew if messages wait.
//! While the process sleeps, "dial" stands for waiting in `Backoff`, without a deadline.
//! When shutting down, `Shut` stands for `Idle` and `Failed`. A link that fails while it terminates
//! goes to `Idle`, and `Down` is the answer. Empty: nothing.
//!
//! | event | Idle | Dialing | Backoff | Promised | Up | Parting | Failed | Shut |
//! |---|---|---|---|---|---|---|---|---|
//! | WantSend | dial: Dialing | note | note | note | | dial after it | | |
//! | Incoming | ACCEPT: Promised | greater, at its first attempt: REJECT(Crossing); else: abandon own, ACCEPT: Promised | ACCEPT: Promised | later dial: close, ACCEPT | REJECT(AlreadyConnected) | REJECT(Closing) | REJECT(VcDown); new incarnation: ACCEPT: Promised | REJECT(Finalized) |
//! | Incoming, for the session | | as above | as above | as above | close, suspend, ACCEPT: Promised | close, rest, REJECT(NoSession) | | |
//! | Incoming, for another session | REJECT(NoSession) | no session: REJECT(Crossing); else: REJECT(NoSession) | REJECT(NoSession) | as Dialing | as Dialing | REJECT(NoSession) | REJECT(NoSession) | REJECT(Finalized) |
//! | Incoming, new incarnation | | resuming: abandon, Failed | resuming: Failed | close, ACCEPT; resuming: Failed | close, Failed | close, rest, REJECT(Closing) | ACCEPT: Promised | |
//! | Accepted | | READY, adopt: Up | | | | | | |
//! | Moving | close | close | close | close | session: offer it; else: close | close | close | close |
//! | Heard | | | | | note: may move | | | |
//! | Accepted, of what was offered | | | | | close the other, suspend, READY, adopt: Up | | | |
//! | Rejected, DialFailed | | fail | | | | | | |
//! | Ready | | | | adopt: Up | | | | |
//! | Goodbye, nothing waits | | fail | | fail | abandon, rest | rest | | |
//! | Goodbye, whole messages wait | | fail | | fail | abandon, dial: Dialing; terminating: drain | rest | | |
//! | Goodbye, a part has left | | fail | | fail | Failed; terminating: drain | rest | | |
//! | Lost | | fail | | fail | session: suspend, dial: Dialing; else: Failed | rest; withdrawn: Failed | | |
//! | Timer | | abandon, fail | dial: Dialing; too late: Failed | withdraw, fail | | close, rest | | |
//! | Terminate, nothing waits | rest | abandon, rest | rest | wait for READY | GOODBYE: Parting | | Terminated: Idle | Terminated |
//! | Terminate, messages wait | dial: Dialing | note | note | note | drain | | Terminated: Idle | Terminated |
//! | Drained | | | | | terminating: GOODBYE: Parting | | | |
//! | Revive | | | | | | | Idle | |
//! | Sleep | | abandon: Backoff | wait | withdraw: Backoff or rest | | | | |
//! | BeginSession | | | | | no session, no goodbye of the peer's: note | | | |
//! | Wake | | | pause, then dial | | | | | |
//! | PeerSleeps | | resuming: be patient | resuming: be patient | resuming: be patient | session: close, suspend: Backoff | | | |
//! | Abort | Failed | Failed | Failed | Failed | Failed | Failed | | |
//!
//! While a connection has been offered in place of the adopted one, an Incoming for the session is
//! rejected (Crossing) by the greater name; every other event that concerns the adopted one, and the timer, gives
//! the offered one up first.
//!
//! An event about a connection that is not the link's does nothing, except that an ACCEPT of it is
//! answered with GOODBYE, and a READY with WITHDRAWN.
//!
//! # The graph
//!
//! All changes of phase that exploration meets:
//!
//! ```dot
#![doc = include_str!("graph.dot")]
//! ```

mod arbiter;
mod backoff;
#[cfg(test)]
mod explore;
mod incoming;
mod machine;
mod moving;
mod mutant;
mod sleep;
#[cfg(test)]
mod tests;
mod types;

pub use arbiter::{Verdict, arbitrate, dial_survives};
pub use machine::Link;
pub use types::{
    Actions, ConnKey, DownCause, Failure, Hail, LinkAction, LinkConfig, LinkEvent, Pending, Phase,
};
