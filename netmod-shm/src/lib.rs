//! The shared-memory netmod: the ranks of one node talk through rings in memory that they share.
//!
//! # Parts
//!
//! - [`segment`]: the memory, how ranks find it, and how it disappears;
//! - [`ring`]: one direction between two ranks, with its memory layout and protocol;
//! - [`bell`]: how a rank learns which peers have something for it, and is woken;
//! - `channel`: both directions between two ranks, and the streams in them;
//! - `transfers`, `rma`: one-sided transfers by cross-memory attach (`reach`); `joint`: gets that
//!   both sides copy; `region`: how their memory is taken back;
//! - [`attach`]: the memory of another process, by which transfers copy;
//! - `survey`: what can be told without a job;
//! - `checkpoint`, `stage`: all of it let go, and taken up again; `pause`: how two ranks agree on
//!   that;
//! - `vc`, `vc_life`, `send`, `recv`, `watch`, `watched`, `helper`, `ending`, [`ShmNetmod`]: VCs
//!   over channels, under the contract of [`netmod_core::Netmod`].
//!
//! State has its own files, which do not know the netmod; the others implement [`ShmNetmod`].
#![allow(rustdoc::private_intra_doc_links)]

pub mod attach;
mod bell;
mod card;
mod channel;
mod checkpoint;
mod config;
mod ending;
mod helper;
mod joint;
#[cfg(test)]
mod joint_model;
mod netmod;
mod pause;
#[cfg(test)]
mod pause_model;
mod reach;
mod recv;
mod region;
#[cfg(test)]
mod region_model;
mod ring;
mod rma;
mod segment;
mod send;
mod stage;
mod survey;
mod sys;
#[cfg(test)]
mod tests;
mod transfers;
mod vc;
mod vc_life;
mod watch;
mod watched;

/// The atomics of `region` and `joint`; loom's in their models.
mod sync {
    pub(crate) use core::sync::atomic::{AtomicU64, Ordering};
}

pub use config::ShmConfig;
pub use netmod::{ShmNetmod, ShmStats};
pub use survey::{AttachError, attach_here, joint_from, room_between, segment_bytes};

/// The netmod's name, and that of its section of the business card.
pub const NAME: &str = "shm";
