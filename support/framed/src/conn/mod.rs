//! Connections over endpoints that have none: the logical connection of each VC, without I/O.
//!
//! The device's endpoints deliver what is sent to an address, in order per sender. The [`Manager`]
//! makes sure that a frame is the peer's, and of the connection that both mean. It carries the
//! authenticated handshake ([`netmod_connection`]) in frames of kind DIAL and ANSWER, gives each
//! connection a [`crate::wire::Slot`] that the peer puts into every frame, and ends connections by
//! FIN and FIN_ACK. It reads no clock and sends nothing: the driver tells it what came, and carries
//! out its [`Action`]s in order, before the next call.
//!
//! # How a connection comes about
//!
//! By the machine of [`netmod_connection::establish`]; its table holds here, too. HELLO and ACCEPT
//! carry each side's slot, window, longest frame and address ([`LocalTerms`]). A responder answers
//! to the address that HELLO claims, and lets nothing of it touch a VC before PROOF. All frames of
//! a connection take the route of the dial that made it, between the same two endpoints, and so
//! stay in order; those of different connections may overtake each other. One handshake opens both
//! directions.
//!
//! A promise is taken back by RESET. Where frames of handshakes may be lost
//! ([`crate::device::Device::LOSES_HANDSHAKES`]), they are retransmitted (`retransmit`). A frame
//! that comes behind a READY which was lost ends the connection.
//!
//! A later dial of the peer, while a connection is up, says that the peer has ended it. What it
//! said last may still be on its way: the dial waits for that, for at most `parting_timeout`. A
//! dial of another incarnation does not wait.
//!
//! # How it ends
//!
//! - *Making*: the phases before a connection is made, in the table of the machine.
//! - *rest*: the connection is forgotten; `Terminated` if that was asked for; then a dial that
//!   waits is accepted, or this side dials if messages wait.
//! - *fail*: `Down: Failed`. *left*: `PeerLeft: Left`. *wait*: the dial waits.
//! - *cancel*: Cancel; `Terminated` when idle. A promise is kept until READY; then FIN, unless
//!   messages wait.
//!
//! | event | Making | Up | Left | Parting | Failed |
//! |---|---|---|---|---|---|
//! | connect | Want | | Want | Want | |
//! | PROOF, later dial | Incoming | wait | wait | wait | REJECT(VcDown) |
//! | PROOF, other incarnation | Incoming | wait, left | wait | wait, rest | Incoming: Making |
//! | frame behind READY, in Promised | RESET, fail | | | | |
//! | terminate | cancel | FIN: Parting | note | | Terminated: Making |
//! | FIN | | left | | FIN_ACK | |
//! | FIN_ACK | | fail | fail | rest | |
//! | RESET | | fail | fail | FIN has come: rest; else fail | |
//! | settle, idle | | | FIN_ACK to a FIN, rest | | |
//! | settle, error | | | FIN_ACK to a FIN, fail | | |
//! | timer | Timer; Unreachable: fail | a dial waits: left | | RESET, rest | |
//! | abort | Abort, fail | RESET, fail | fail | RESET, fail | |
//! | revive | | | | | Making |
//!
//! A VC that fails while it terminates goes to `Making`, and `Down` is the answer. Exploration of
//! all orders of events (`explore`) holds the whole connection to its promises.

mod accept;
mod ending;
#[cfg(test)]
mod explore;
mod failure;
mod inbound;
mod link;
mod machine;
mod manager;
mod retransmit;
mod slots;
mod terms;
#[cfg(test)]
mod tests;
mod types;

pub use manager::Manager;
pub use terms::{LocalTerms, PeerTerms};
pub use types::{Action, Env, InboundId, Offer, Params, To};
