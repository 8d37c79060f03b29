//! What Linux says of this host's network interfaces and of its routes.
//!
//! [`Found::here`] fills a [`netmod_matching::Host`]: all interfaces of the calling thread's network namespace.
//! [`Lookups`] answers, by the routing tables of that namespace, what the pairing asks ([`netmod_matching::Routes`]).
//! [`Watch`] tells that something changed since. All three speak netlink (`rtnetlink(7)`); where that is
//! forbidden or missing, interfaces are found by older ways, lookups answer [`netmod_matching::Answer::Unknown`],
//! and notes say so, for people to read.
//!
//! What decides is apart from what asks: replies are parsed, and interfaces classified, without the system, and
//! the system is a [`Kernel`] that a test can simulate.

#![cfg(target_os = "linux")]

mod dump;
mod kernel;
mod kinds;
mod links;
mod linux;
mod lookups;
mod pacing;
mod plain;
mod routes;
mod survey;
mod sys;
mod watch;
mod wire;

pub use kernel::{Channel, Kernel};
pub use links::Link;
pub use linux::Linux;
pub use lookups::Lookups;
pub use pacing::is_paced;
pub use plain::{Plain, PlainAddress};
pub use survey::{Error, Found};
pub use sys::Socket;
pub use watch::Watch;

#[cfg(test)]
mod simulated;
