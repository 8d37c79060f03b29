//! A netmod over any device that moves frames: the common part of the netmods over libfabric and
//! over verbs.
//!
//! The [`device`] sends frames to numbered addresses, reports when they have left, and moves memory
//! if it can. All else is here: connections with an authenticated handshake ([`conn`]), the stream
//! of each VC in frames, windows, one-sided transfers in parts, the death of peers ([`life`]).
//! [`wire`] has the layout of frames.

mod actions;
mod addresses;
mod book;
mod clock;
pub mod conn;
mod connections;
pub mod device;
mod ending;
mod endpoints;
mod error;
pub mod life;
mod link;
mod liveness;
mod loss_probe;
pub mod memory;
mod netmod;
mod outbox;
mod probes;
mod recv;
mod rma;
mod send;
mod shutdown;
mod stage;
mod sys;
mod token;
mod transfers;
mod vc_life;
pub mod wire;
mod work;

pub use netmod::{FrameNetmod, FrameStats};
