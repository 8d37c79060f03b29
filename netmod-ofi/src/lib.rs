//! The libfabric netmod: messages and one-sided transfers over reliable-datagram endpoints.
//!
//! libfabric is loaded at run time ([`libfabric_sys`]); without it the netmod says what to install. [`choose`] says which of
//! what it offers is taken, and why; [`card`] is what peers learn of that; [`fi`] is its objects, made safe. Connections, streams and
//! transfers are those of [`netmod_framed`].

pub mod address;
pub mod card;
pub mod choose;
pub mod fi;
mod leftovers;
mod ofi;

use netmod_framed::FrameNetmod;

pub use ofi::{Ofi, Setup};

/// The libfabric netmod of one process.
pub type OfiNetmod = FrameNetmod<Ofi>;

/// Its name, as in `NETMOD=ofi`.
pub const NAME: &str = "ofi";
