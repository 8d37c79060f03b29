//! Connections over endpoints that have none: the logical connection of each VC, without I/O.
//!
//! libfabric's reliable-datagram endpoints deliver what is sent to an address, in order per sender. That a message
//! is the peer's, and of the connection that both mean, is the [`Manager`]'s affair: it carries the authenticated
//! hello ([`netmod_hello`]) in frames of kind DIAL and ANSWER, gives each connection a [`crate::wire::Slot`] that the peer puts
//! into every frame, and ends connections by FIN and FIN_ACK. It reads no clock and sends nothing: the driver
//! tells it what came, and carries out its [`Action`]s in order, before the next call.

mod ending;
mod failure;
mod machine;
mod manager;
mod mutant;
mod slots;
mod strangers;
mod terms;
#[cfg(test)]
mod tests;
mod types;

pub use manager::Manager;
pub use types::{Action, Env, LocalTerms, Offer, Params, PeerTerms, StrangerId, To};
