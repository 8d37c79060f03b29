//! The InfiniBand verbs netmod: messages and one-sided transfers over reliable connections.
//!
//! A [`port`] is a port of a device: one shared receive queue, one completion queue, a queue pair of datagrams for handshakes, and a
//! reliable connection for each peer that is talked to. It is generic over [`netmod_hca::Hca`], so that the same code runs on
//! libibverbs and on a simulation. Connections, streams and transfers are those of [`netmod_frames`].

pub mod port;
mod words;
