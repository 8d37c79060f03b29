//! `cargo xtask peers`: this library beside other MPIs, in turn within each round.

mod applications;
mod cells;
mod collectives;
mod comparison;
mod distance;
mod heatmap;
mod imb;
mod installed;
mod layouts;
mod library;
mod messages;
mod operation;
mod page;
mod patterns;
mod programs;
mod rounds;
mod summary;
mod table;
mod transport;
mod verdict;
mod windows;

pub(crate) use installed::peers as installed;
pub(crate) use library::Netmod;
pub(crate) use programs::{Asked, programs};
