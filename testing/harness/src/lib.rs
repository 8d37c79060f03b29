//! Tools for tests and simulations: random numbers by a seed, and random schedules of netmods.

pub mod rng;
#[cfg(feature = "schedules")]
#[allow(missing_docs)]
pub mod schedules;

pub use rng::Rng;
