//! The libfabric netmod: messages and one-sided transfers over reliable-datagram endpoints.
//!
//! libfabric is loaded at run time ([`libfabric_sys`]); without it the netmod's error says what to
//! install. [`choose`] selects among libfabric's providers and domains. [`card`] is what peers
//! learn of the selection. [`fi`] wraps libfabric's objects in safe types. [`netmod_framed`] has
//! the connections, streams and transfers.

pub mod address;
pub mod card;
pub mod choose;
mod config;
mod error;
pub mod fi;
mod leftovers;
mod ofi;

use netmod_framed::FrameNetmod;

pub use config::OfiConfig;
pub use error::{FabricError, NoOffer, OpenError, PairError, ProviderProtocol, RouteError};
pub use ofi::{Ofi, Setup};

/// The libfabric netmod of a process.
pub type OfiNetmod = FrameNetmod<Ofi>;

/// The netmod's name, as in `NETMOD=ofi`.
pub const NAME: &str = "ofi";
