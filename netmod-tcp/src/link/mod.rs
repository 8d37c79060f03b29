//! The connection of one VC: dialling, crossing dials, parting, loss.
//!
//! A [`Link`] performs no I/O and reads no clock. The netmod tells it what happened
//! ([`LinkEvent`]) and does what it answers ([`LinkAction`]), in order and before the next event.
//!
//! # The protocol
//!
//! A connection comes about by the machine of [`netmod_connection::establish`]; its table holds
//! here, too. A promise is taken back by WITHDRAWN, a dial by GOODBYE.
//!
//! Every orderly end is announced, so that an end of file is never mistaken for one. Parting is
//! GOODBYE behind the last message, answered by GOODBYE or the end of file. Whoever has said
//! GOODBYE reads, and delivers, until then, and takes any end of the connection for the answer,
//! save WITHDRAWN.
//!
//! # Sessions
//!
//! Messages that were sent on an adopted connection that broke are not lost: both sides have a
//! *session*, named after the handshake that began it, and a dial that resumes it says so
//! ([`HandshakeParams`]). Between the loss and the next connection the link is *resuming*, in the
//! phases of an ordinary dial, for at most `resume_timeout`; refusals by the peer's address show
//! earlier that the process is gone. Both sides may dial; the arbiter is the same.
//!
//! A responder has a session from its promise on, since the initiator may adopt it without the
//! responder ever learning of it. It is *provisional* until READY: a dial of this side's asks for
//! it, and falls back to a fresh one if the peer does not know it. A link whose own fresh dial is
//! under way does not say that it does not know a session: the ACCEPT that begins it may be on its
//! way, or the word of a checkpoint that does.
//!
//! A process that has taken a dead one's name is told by its incarnation: it takes what is left of
//! the old one down, and a link that has failed is revived by it.
//!
//! # Better ways
//!
//! A connection that is whole can be left for one by a better way ([`LinkEvent::Moving`]). The
//! netmod makes the new connection first, and the link *offers* it: the hello asks for the session,
//! like that of a dial that resumes it. From the hello on the old connection is not read, because
//! the hello says how far it was read. It is written to until the peer has accepted the offer. An
//! offer that comes to nothing costs a pause in reading and nothing else. If both sides offer, the
//! greater name's offer survives. A side offers only on a connection that it knows to be the peer's
//! too: because the peer said READY, or because something was read on it.
//!
//! # Checkpoints
//!
//! A process that is about to be checkpointed says so on each connection, and reads on until the
//! peer has closed it. Both links are *patient* then: resuming, without the signs by which a peer
//! is known to be gone, for at most `ckpt_timeout`, of which none passes while the process sleeps.
//! The peer waits to be dialled.
//!
//! While a link is patient, a refusal by another process says only that the peer is elsewhere now.
//!
//! A connection without a session begins one for that ([`LinkEvent::BeginSession`]): its sender
//! before it says that it will sleep, the peer before it answers. Each side keeps what it sends
//! from then on; what was sent before has been read when the connection ends, unless it is lost.
//! The session goes on after the checkpoint.
//!
//! # The table
//!
//! The events since the connection was made, and what sessions and checkpoints add before.
//!
//! - *Making*: `Idle`, `Dialing`, `Backoff` and `Promised`. There an event is the machine's of the
//!   same name, unless the table says otherwise; `Unreachable` is fail. While the process sleeps,
//!   and its peer need not be told so, the machine is held.
//! - *rest*: to `Idle`; answers `Terminate` with `Terminated`, and dials anew if messages wait.
//! - *fail*: `Down: Failed`; `Idle` if the link terminates, and `Down` is the answer.
//! - *resume*: suspend, Want. *sleep*: suspend, Wait.
//! - *unknown*: REJECT(NoSession); REJECT(Crossing) while this side has no session and is dialing,
//!   promised or up.
//! - When shutting down, `Shut` stands for `Idle` and `Failed`. Empty: nothing.
//!
//! | event | Making | Up | Parting | Failed | Shut |
//! |---|---|---|---|---|---|
//! | WantSend | Want | | Want | | |
//! | Incoming, fresh | Incoming | REJECT | REJECT(Closing) | REJECT(VcDown) | REJECT(Finalized) |
//! | Incoming, fresh, resuming | REJECT | | | | |
//! | Incoming, for the session | Incoming | close, resume, Incoming | close, rest, REJECT | | |
//! | Incoming, for another session | unknown | unknown | unknown | unknown | REJECT(Finalized) |
//! | Incoming, new process | Incoming | close, fail, REJECT | close, rest, REJECT | Incoming | |
//! | the same, resuming | close, fail, REJECT | | | | |
//! | Moving | close | offer it, or close | close | close | close |
//! | Heard | | note: may move | | | |
//! | Accepted, of the offer | | close the other, suspend, READY: Up | | | |
//! | DialFailed, refused for too long | resuming: fail | | | | |
//! | Rejected(NoSession) | provisional: forget it | | | | |
//! | Goodbye, nothing waits | fresh session: forget it | abandon, rest | close, rest | | |
//! | Goodbye, terminating | the same | note | close, rest | | |
//! | Goodbye, whole messages wait | the same | abandon, rest | close, rest | | |
//! | Goodbye, a part has left | the same | close, fail | close, rest | | |
//! | Lost | Failed | session: resume; patient: sleep; else: fail | rest | | |
//! | Lost, withdrawn | Failed | the same | fail | | |
//! | Timer | Timer | | close, rest | | |
//! | Terminate, nothing waits | Cancel | GOODBYE: Parting | | rest | Terminated |
//! | Terminate, messages wait | Want | note | | rest | Terminated |
//! | Drained | | terminating: GOODBYE: Parting | | | |
//! | Revive | | | | Idle | |
//! | Sleep | Backoff: Wait | | | | |
//! | SleepNow | close, Failed; Backoff: Wait | close, Lost | close, Lost | | |
//! | BeginSession | | no session, no goodbye of the peer's: note | | | |
//! | Wake | Wake | | | | |
//! | PeerSleeps | resuming: patient, Extend | session: patient | | | |
//! | PeerKnows | | session, asleep: close, sleep | | | |
//! | Abort | Failed | Failed | Failed | | |
//!
//! While a connection has been offered in place of the adopted one, an Incoming for the session is
//! rejected (Crossing) by the greater name; every other event that concerns the adopted one, and
//! the timer, gives the offered one up first.
//!
//! # The graph
//!
//! All changes of phase that exploration meets:
//!
//! ```dot
#![doc = include_str!("graph.dot")]
//! ```

#[cfg(test)]
mod explore;
mod incoming;
mod machine;
mod moving;
mod sleep;
#[cfg(test)]
mod tests;
mod types;

pub use machine::Link;
pub use types::{
    Actions, ConnKey, DownCause, Failure, HandshakeParams, LinkAction, LinkConfig, LinkEvent, Pending, Phase,
};
