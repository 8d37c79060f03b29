//! A netmod over any device that moves frames: what netmods over libfabric and over verbs have in
//! common.
//!
//! The [`device`] sends frames to numbered addresses and says when they have left; it moves memory,
//! if it can. All else is here: connections with an authenticated hello ([`conn`]), the stream of
//! each VC in frames, windows, one-sided transfers in parts, the death of peers ([`life`]).
//! [`wire`] is what frames look like.

mod actions;
mod addresses;
mod book;
mod clock;
pub mod conn;
mod connections;
pub mod device;
mod doubt;
mod ending;
mod ends;
mod flow;
pub mod life;
mod link;
mod liveness;
mod loss_probe;
pub mod memory;
mod netmod;
mod outbox;
mod recv;
mod rma;
mod send;
mod shutdown;
mod stage;
mod sys;
mod token;
mod transfers;
mod turn;
mod vc_life;
pub mod wire;
mod work;

pub use netmod::{FrameNetmod, FrameStats};
