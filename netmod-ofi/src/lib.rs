//! The libfabric netmod: messages and one-sided transfers over reliable-datagram endpoints.
//!
//! libfabric is loaded at run time ([`libfabric_sys`]); without it the netmod says what to install. [`choose`] says which of
//! what it offers is taken, and why; [`card`] is what peers learn of that; [`conn`] makes connections where libfabric knows none.

mod actions;
pub mod address;
mod book;
pub mod card;
pub mod choose;
pub mod conn;
pub mod fi;
pub mod life;
mod link;
mod netmod;
mod own;
mod recv;
mod rma;
mod send;
mod sys;
pub mod wire;

pub use netmod::{OfiNetmod, OfiStats};

/// Its name, as in `NETMOD=ofi`.
pub const NAME: &str = "ofi";
