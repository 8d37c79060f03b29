//! Tools for tests and simulations: seeded random numbers, and random schedules of netmods.

pub mod rng;
#[cfg(feature = "schedules")]
#[allow(missing_docs)]
pub mod schedules;

pub use rng::Rng;
