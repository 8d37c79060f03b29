//! The InfiniBand verbs netmod: messages and one-sided transfers over reliable connections.
//!
//! A [`port`] is an opened port of a device: a shared receive queue, a completion queue, a datagram
//! queue pair for handshakes, and a reliable connection for each peer in use. It is generic over
//! [`hca::Hca`], so the same code runs on libibverbs and on a simulation. [`netmod_framed`] has the
//! connections, streams and transfers.

pub mod card;
pub mod choose;
mod config;
mod domain;
mod error;
mod here;
mod pair;
pub mod port;
pub mod resources;
mod sizes;
mod verbs;
mod wire;

use netmod_framed::FrameNetmod;

pub use config::VerbsConfig;
pub use error::{OpenError, PairError, PortError, RouteError};
pub use hca_ibv::DevicesError;
pub use pair::pair;
pub use verbs::{Setup, Source, Verbs, survey};

/// The verbs netmod of a process, on devices of type `H`.
pub type VerbsNetmod<H> = FrameNetmod<Verbs<H>>;

/// The verbs netmod of a process, on this host's devices.
pub type IbvNetmod = VerbsNetmod<hca_ibv::IbvHca>;

/// The netmod's name, as in `NETMOD=verbs`.
pub const NAME: &str = "verbs";
