//! The InfiniBand verbs netmod: messages and one-sided transfers over reliable connections.
//!
//! A [`port`] is a port of a device: one shared receive queue, one completion queue, a queue pair of datagrams for handshakes, and a
//! reliable connection for each peer that is talked to. It is generic over [`hca::Hca`], so that the same code runs on
//! libibverbs and on a simulation. Connections, streams and transfers are those of [`netmod_framed`].

pub mod card;
pub mod choose;
mod domain;
mod here;
mod pair;
pub mod port;
pub mod resources;
mod verbs;
mod words;

use netmod_framed::FrameNetmod;

pub use pair::pair;
pub use verbs::{Setup, Source, Verbs, survey};

/// The verbs netmod of one process, on devices of this kind.
pub type VerbsNetmod<H> = FrameNetmod<Verbs<H>>;

/// The verbs netmod of one process, on this host's devices.
pub type IbvNetmod = VerbsNetmod<hca_ibv::IbvHca>;

/// Its name, as in `NETMOD=verbs`.
pub const NAME: &str = "verbs";
