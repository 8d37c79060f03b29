//! A netmod over any device that moves frames: what netmods over libfabric and over verbs have in
//! common.
//!
//! The [`device`] sends frames to numbered addresses and says when they have left; it moves memory,
//! if it can. All else is here: connections with an authenticated hello ([`conn`]), the stream of
//! each VC in frames, windows, one-sided transfers in parts, the death of peers ([`life`]).
//! [`wire`] is what frames look like.

mod actions;
mod book;
pub mod conn;
pub mod device;
mod doubt;
mod ending;
mod ends;
pub mod life;
mod link;
mod loss_probe;
pub mod memory;
mod netmod;
mod recv;
mod rma;
mod send;
mod stage;
mod sys;
mod token;
mod transfers;
mod turn;
mod vc_life;
pub mod wire;

pub use netmod::{FrameNetmod, FrameStats};
