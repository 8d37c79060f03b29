//! Which of this host's interfaces talks to which of the peer's.
//!
//! Two processes know the same facts of each other: a [`Host`] each, with the network interfaces that it has
//! ([`Nic`]), and, as far as they were asked, what each one's routing table says of the way to the other
//! ([`Answer`]). From these the pairs are computed, as many as possible and the best ones of those; the
//! same ones whichever process computes them. Nothing here asks the system anything.
//!
//! Ancestors, and what is done otherwise: Open MPI's usnic and tcp components (seeds 0 and 4).

#![forbid(unsafe_code)]

pub mod assign;
pub mod record;
pub mod route;

pub use assign::{Weights, assign};
pub use record::{Address, Host, Kind, Nic, Place};
pub use route::{Answer, Query, Routes};
