//! The pairing of this host's interfaces with the peer's.
//!
//! Two processes know the same facts about each other. Each has a [`Host`]: its network interfaces
//! ([`Nic`]) and, if they were asked, its routing tables' answers ([`Reach`]). From these the pairs
//! are computed: as many as possible, and of those sets the best. Both processes compute the same
//! pairs. Nothing here asks the system anything.
//!
//! Compare Open MPI's usnic and tcp components, which solve the same problem.

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
mod size;
pub mod table;
mod weight;
pub mod wire;

pub use assign::{Weights, assign};
pub use canonical::{Canonical, MAX_NAME, Omission, Omitted};
pub use explain::{CutLine, Explanation, PairLine, UnusedLine, VerdictLine};
pub use fnv::spread;
pub use graph::{Limits, Verdict};
pub use ip::Basis;
pub use pairing::{Pair, Pairing, Side, pair};
pub use reach::MAX_REACH;
pub use reason::{Reason, Whose, quote};
pub use record::{Address, Cut, Host, Kind, Location, Nic, Reach};
pub use route::{Answer, Destination, Query, Routes};
pub use rules::{Families, Filter, FilterError, Published, Rules, Transport, glob};
pub use size::MAX_ADDRESSES;
pub use weight::{Class, MAX_ENDPOINTS, Packing, UNKNOWN_SPEED, Weight};
