//! Linux's network interfaces and routes.
//!
//! - [`Found::here`] fills a [`netmod_matching::Host`] with all interfaces of the calling thread's
//!   network namespace.
//! - [`Lookups`] answers the pairing's queries ([`netmod_matching::Routes`]) from the routing
//!   tables of that namespace.
//! - [`Watch`] reports that something has changed.
//!
//! All three use netlink (`rtnetlink(7)`). Where that is forbidden or missing, interfaces are found
//! by older interfaces of the kernel, lookups answer [`netmod_matching::Answer::Unknown`], and
//! human-readable notes say so.
//!
//! Decisions are separate from system calls: parsing and classification are pure, and the system is
//! a [`Kernel`] that a test can simulate.

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
