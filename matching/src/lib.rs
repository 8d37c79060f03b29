//! Which of this host's interfaces talks to which of the peer's.
//!
//! Two processes know the same facts of each other: a [`Host`] each, with the network interfaces that it has
//! ([`Nic`]), and, as far as they were asked, what each one's routing table says of the way to the other
//! ([`Answer`]). From these the pairs are computed, as many as possible and the best ones of those; the
//! same ones whichever process computes them. Nothing here asks the system anything.
//!
//! Ancestors, and what is done otherwise: Open MPI's usnic and tcp components (seeds 0 and 4).

#![forbid(unsafe_code)]

pub mod address;
mod answers;
pub mod assign;
mod canonical;
mod explain;
mod fnv;
pub mod graph;
mod ip;
mod pairing;
mod reason;
pub mod record;
pub mod route;
mod rules;
pub mod table;
mod weight;
pub mod wire;

pub use answers::Answers;
pub use assign::{Weights, assign};
pub use canonical::{Canonical, MAX_ADDRESSES, MAX_NAME, Omission, Omitted};
pub use explain::{Explanation, PairLine, UnusedLine, VerdictLine};
pub use fnv::spread;
pub use graph::{Limits, Verdict};
pub use ip::Basis;
pub use pairing::{Pair, Pairing, Side, pair};
pub use reason::{Reason, Whose};
pub use record::{Address, Host, Kind, Nic, Place};
pub use route::{Answer, Query, Routes};
pub use rules::{Families, Filter, FilterError, Published, Rules, glob};
pub use weight::{Class, MAX_NICS, UNKNOWN_SPEED, Weight};
