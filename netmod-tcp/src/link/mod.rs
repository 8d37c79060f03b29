//! The connection of one VC: dialling, crossing dials, parting, loss.
//!
//! A [`Link`] performs no I/O and reads no clock. The netmod tells it what happened
//! ([`LinkEvent`]) and does what it answers ([`LinkAction`]), in order and before the next event.
//!
//! # The protocol
//!
//! A connection begins with the hello ([`crate::hello`]). When the initiator has proved itself, the
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
//! # The table
//!
//! What an event does in each phase. "Fail" counts the attempt, and leads to `Backoff`, or to
//! `Failed` with `Down` if it is permanent or too late, or to `Idle` if nothing waits to be sent.
//! "Rest" leads to `Idle`, answers `Terminate` with `Terminated`, and dials anew if messages wait.
//! When shutting down, `Shut` stands for `Idle` and `Failed`. A link that fails while it terminates
//! goes to `Idle`, and `Down` is the answer. Empty: nothing.
//!
//! | event | Idle | Dialing | Backoff | Promised | Up | Parting | Failed | Shut |
//! |---|---|---|---|---|---|---|---|---|
//! | WantSend | dial: Dialing | note | note | note | | dial after it | | |
//! | Incoming | ACCEPT: Promised | greater, at its first attempt: REJECT(Crossing); else: abandon own, ACCEPT: Promised | ACCEPT: Promised | REJECT(AlreadyConnected) | REJECT(AlreadyConnected) | REJECT(Closing) | REJECT(VcDown) | REJECT(Finalized) |
//! | Accepted | | READY, adopt: Up | | | | | | |
//! | Rejected, DialFailed | | fail | | | | | | |
//! | Ready | | | | adopt: Up | | | | |
//! | Goodbye, nothing waits | | fail | | fail | abandon, rest | rest | | |
//! | Goodbye, whole messages wait | | fail | | fail | abandon, dial: Dialing; terminating: drain | rest | | |
//! | Goodbye, a part has left | | fail | | fail | Failed; terminating: drain | rest | | |
//! | Lost | | fail | | fail | Failed | rest; withdrawn: Failed | | |
//! | Timer | | abandon, fail | dial: Dialing; too late: Failed | withdraw, fail | | close, rest | | |
//! | Terminate, nothing waits | rest | abandon, rest | rest | wait for READY | GOODBYE: Parting | | Terminated: Idle | Terminated |
//! | Terminate, messages wait | dial: Dialing | note | note | note | drain | | Terminated: Idle | Terminated |
//! | Drained | | | | | terminating: GOODBYE: Parting | | | |
//! | Revive | | | | | | | Idle | |
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
mod machine;
mod mutant;
#[cfg(test)]
mod tests;
mod types;

pub use arbiter::{Verdict, arbitrate, dial_survives};
pub use machine::Link;
pub use types::{Actions, ConnKey, DownCause, Failure, LinkAction, LinkConfig, LinkEvent, Pending, Phase};
