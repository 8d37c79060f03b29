//! Which of this host's interfaces talks to which of the peer's.
//!
//! Two processes know the same facts of each other: a [`Host`] each, with the network interfaces that it has
//! ([`Nic`]), and, as far as they were asked, what its routing tables say ([`Reach`]). From these the pairs are
//! computed, as many as possible and the best ones of those; the same ones whichever process computes them. Nothing
//! here asks the system anything.
//!
//! Ancestors, and what is done otherwise: Open MPI's usnic and tcp components (seeds 0 and 4).

#![forbid(unsafe_code)]

pub mod address;
pub mod assign;
mod canonical;
mod explain;
mod fnv;
pub mod graph;
mod ip;
mod pairing;
mod reach;
mod reason;
pub mod record;
pub mod route;
mod rules;
pub mod table;
mod weight;
pub mod wire;

pub use assign::{Weights, assign};
pub use canonical::{Canonical, MAX_ADDRESSES, MAX_NAME, Omission, Omitted};
pub use explain::{CutLine, Explanation, PairLine, UnusedLine, VerdictLine};
pub use fnv::spread;
pub use graph::{Limits, Verdict};
pub use ip::Basis;
pub use pairing::{Pair, Pairing, Side, pair};
pub use reach::{MAX_REACH, Reach};
pub use reason::{Reason, Whose, quote};
pub use record::{Address, Cut, Host, Kind, Nic, Place};
pub use route::{Answer, Destination, Query, Routes};
pub use rules::{Families, Filter, FilterError, Published, Rules, Transport, glob};
pub use weight::{Class, MAX_ENDPOINTS, Packing, UNKNOWN_SPEED, Weight};
