//! The state machine by which a connection comes about, the same for every netmod.
//!
//! A [`Machine`] performs no I/O and reads no clock. Its owner, the netmod's state of one VC, tells
//! it what happened ([`Event`]) and carries out the answer ([`Action`]), in order and before the
//! next event. How a connection lives and ends is the owner's: it begins at [`Action::Made`] and
//! ends with [`Event::Ended`].
//!
//! # The protocol
//!
//! A connection begins with the handshake of this crate. The machine hears of a peer's dial when
//! the PROOF was right ([`Event::Incoming`]). ACCEPT is a *promise* and binds only the responder:
//! it sends no message before READY. On ACCEPT the initiator makes the connection, sends READY, and
//! may send messages at once. On READY the responder makes it. So one side decides about each
//! connection, and a promise that comes to nothing has lost nothing.
//!
//! **Ends are announced.** An initiator that gives its dial up says GOODBYE. A responder that takes
//! a promise back says so, because the initiator may have sent messages behind its READY.
//!
//! **Crossing dials.** The dial of the greater name survives (Nemesis's rule): the greater side
//! answers REJECT(Crossing), the lesser gives its own dial up and accepts. Only the first attempt
//! insists. A dial that failed before may fail for ever, if only the peer can reach this process.
//!
//! **Dials are numbered** by the process that dials. ACCEPT carries the number of its sender's last
//! dial. So each side knows which dials of the peer are void, however late they arrive. A later
//! dial of the same process means that the peer has given the earlier ones up.
//!
//! **Incarnations.** A process that has taken a dead one's name has another incarnation. The
//! numbers of the old one say nothing about its dials.
//!
//! # What differs between netmods
//!
//! - *Sessions*: the owner says of each incoming dial whether it may be accepted ([`Claim`]).
//! - *Lost handshakes*: [`Rules::retransmit`] is the first pause after which HELLO and ACCEPT are
//!   sent again. It is [`Duration::MAX`](core::time::Duration::MAX) where the network loses
//!   nothing.
//! - *Announcements*: `Abandon` and `Withdraw` are frames or control records of the netmod's own.
//! - *A made connection*: a later dial of the peer says that it has lost or ended that connection.
//!   The verdict is [`Verdict::Contested`]. The owner ends the connection, waits for its end, or
//!   refuses the dial.
//! - *Checkpoints*: while [`Rules::held`] is set, no dial begins and no time passes.
//!
//! # The table
//!
//! - *dial*: to `Dialing`; to `Backoff` without a deadline while held.
//! - *fail*: counts the attempt. To `Backoff`; to `Idle` if no message waits; to `Idle` with
//!   `Unreachable` if the failure is permanent or the deadline has passed.
//! - *cross*: Reject(Crossing) at the first attempt of the greater side; else Abandon own, Accept.
//! - *replace*: Close the earlier one, Accept.
//! - *pass*: dial; Unreachable and `Idle` at the deadline.
//! - Accept leads to `Promised`. Empty: nothing.
//!
//! | event | Idle | Dialing | Backoff | Promised | Made |
//! |---|---|---|---|---|---|
//! | Want | dial | note | note | note | note |
//! | Dialing | Abandon it | the dial's key | Abandon it | Abandon it | Abandon it |
//! | Incoming, void | Reject(AlreadyConnected) | same | same | same | same |
//! | Incoming, refused by the owner | Reject | same | same | same | same |
//! | Incoming | Accept | cross | Accept | replace | contested |
//! | Accepted | | Made, with READY | | | |
//! | Rejected | | Close, fail | | | |
//! | Failed | | fail | | fail | |
//! | Ready | | | | Made | |
//! | Goodbye | | Close, fail | | Close, fail | |
//! | Timer, retransmission | | Retransmit | | Retransmit | |
//! | Timer | | Abandon, fail | pass | Withdraw, fail | |
//! | Cancel | | Abandon: Idle | Idle | no message waits | no message waits |
//! | Abort | | Abandon: Idle | Idle | Withdraw: Idle | Idle |
//! | Forget | | Idle | Idle | Idle | Idle |
//! | Ended | | | | | Idle; dial if messages wait |
//! | Wait | Backoff, for the peer's dial | | same | | same |
//! | Extend | | new deadline | new deadline | new deadline | |
//! | Wake | | | a pause, new deadline | | |
//!
//! An event about another connection than the machine's does nothing, with two exceptions. An
//! ACCEPT of it is answered with GOODBYE (`Abandon`), since the dial was given up. A READY of it is
//! answered with `Withdraw`, since the promise was taken back.
//!
//! `explore` runs two machines through all orders of messages, losses, timers, deaths and ends,
//! over both kinds of network; and machines with known mistakes, which must go wrong.

mod backoff;
#[cfg(test)]
mod explore;
mod machine;
#[cfg(test)]
mod tests;
mod types;

pub use machine::Machine;
pub use types::{Action, Actions, Claim, Event, Incoming, Phase, Rules, Setback, Verdict, dial_survives};
