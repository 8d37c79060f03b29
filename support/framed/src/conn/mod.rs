//! Connections over endpoints that have none: the logical connection of each VC, without I/O.
//!
//! The device's endpoints deliver what is sent to an address, in order per sender. That a message
//! is the peer's, and of the connection that both mean, is the [`Manager`]'s affair: it carries the authenticated
//! hello ([`netmod_connection`]) in frames of kind DIAL and ANSWER, gives each connection a [`crate::wire::Slot`] that the
//! peer puts into every frame, and ends connections by FIN and FIN_ACK. It reads no clock and sends nothing: the driver
//! tells it what came, and carries out its [`Action`]s in order, before the next call.
//!
//! # The protocol
//!
//! One handshake opens both directions. HELLO and ACCEPT carry each side's slot, window, longest frame and
//! address ([`LocalTerms`]). A responder answers to the address that HELLO claims, and lets nothing of it touch a VC
//! before PROOF; ACCEPT is a promise, and the responder sends nothing before READY. All frames of a connection
//! take the way of the dial that made it, between the same two endpoints, and so stay in order; those of different
//! connections may overtake each other.
//!
//! When two dials cross, that of the lesser name survives: the lesser REJECTs the other's, and the greater gives its
//! own up with GOODBYE and ACCEPTs. This is decided when PROOF has come, since a HELLO may be anybody's. A dial that
//! has failed before insists on nothing: its card may be of a process that is no more.
//!
//! Dials are numbered. HELLO says its own number, ACCEPT the number of the responder's last dial, so that each side
//! knows which dials of the other are void, however late they come. A later one says that the peer has ended
//! the connection there is; what it said last may still be on its way, and the dial waits for that, for at most
//! `parting_timeout`. Another incarnation of the peer does not wait.
//!
//! Where frames of handshakes may be lost ([`crate::device::Device::LOSES_HANDSHAKES`]) HELLO and ACCEPT are said again, in growing pauses, and whoever
//! hears something again answers as before (`retransmit`). An ACCEPT of a dial that was given up is answered by GOODBYE.
//!
//! # The table
//!
//! "Rest": the connection is forgotten; `Terminated` if that was asked for; then a dial that waits is accepted, or this
//! side dials if messages wait. "Fail" counts the attempt, and leads to `Backoff`, or to `Failed` with `Down` if it is
//! permanent or too late, or to rest if nothing waits to be sent.
//!
//! | event | Idle | Dialing | Backoff | Promised | Up | Left | Parting | Failed |
//! |---|---|---|---|---|---|---|---|---|
//! | connect | dial: Dialing | note | note | note | | note | note | |
//! | PROOF, later dial | ACCEPT: Promised | lesser, at its first attempt: REJECT(Crossing); else: GOODBYE, ACCEPT: Promised | ACCEPT: Promised | ACCEPT: Promised | it waits | it waits | it waits | REJECT(VcDown) |
//! | PROOF, other incarnation | as above | as above | as above | as above | PeerLeft: Left | it waits | rest | ACCEPT: Promised |
//! | PROOF, void dial | REJECT(AlreadyConnected) | same | same | same | same | same | same | same |
//! | ACCEPT | | READY, Opened: Up | | | | | | |
//! | REJECT | | fail | | | | | | |
//! | READY | | | | Opened: Up | | | | |
//! | any frame behind READY | | | | READY is lost: RESET, Down: Failed | | | | |
//! | GOODBYE | | | | fail | | | | |
//! | terminate | Terminated | GOODBYE, rest | rest | wait for READY, then FIN unless messages wait | FIN: Parting | note | | Terminated: Idle |
//! | FIN | | | | | PeerLeft: Left | | FIN_ACK | |
//! | FIN_ACK | | | | | Down: Failed | Down: Failed | rest | |
//! | RESET | | | | | Down: Failed | Down: Failed | FIN has come: rest; else Down: Failed | |
//! | settle, idle | | | | | | FIN_ACK to a FIN, rest | | |
//! | settle, error | | | | | | FIN_ACK to a FIN, Down: Failed | | |
//! | pause | | HELLO again | | ACCEPT again | | | | |
//! | timer | | GOODBYE, fail | dial: Dialing | RESET, fail | a dial waits: PeerLeft: Left | | RESET, rest | |
//! | abort | Down: Failed | GOODBYE, Down: Failed | Down: Failed | RESET, Down: Failed | RESET, Down: Failed | Down: Failed | RESET, Down: Failed | |
//! | revive | | | | | | | | Idle |
//!
//! A VC that fails while it terminates goes to `Idle`, and `Down` is the answer. Exploration of all orders of events
//! (`explore`) holds this to its promises.

mod ending;
#[cfg(test)]
mod explore;
mod failure;
mod inbound;
mod machine;
mod manager;
mod mutant;
mod retransmit;
mod slots;
mod terms;
#[cfg(test)]
mod tests;
mod types;

pub use manager::Manager;
pub use types::{Action, Env, InboundId, LocalTerms, Offer, Params, PeerTerms, To};
