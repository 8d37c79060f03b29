//! A libfabric provider for tests.
//!
//! The crate is two libraries. The shared one exports libfabric's functions, and is loaded by
//! [`Library::load`](libfabric_sys::Library::load) from [`library_path`] like the real one. The
//! Rust library, this one, controls it: each test makes a [`World`], a network with one domain. The
//! provider "fake" lists it under the world's name. [`Settings`] are its capabilities, requirements
//! and faults.
//!
//! A world checks each call by the rules of the strictest provider, and records every violation
//! ([`World::violations`]); it never crashes because of one. Events happen only within calls of
//! `fi_cq_read`, and all randomness comes from a seed: the same calls lead to the same events. Data
//! is really copied, and operations' lent storage is really written to.
//!
//! `model` is the provider without pointers, `ffi` its C interface, `mem` the memory that calls
//! lend.

/// Environment variable with the library's pretended version, such as "1.8".
pub const VERSION: &str = "FAKE_FABRIC_VERSION";

mod control;
mod errno;
mod ffi;
mod mem;
mod model;
mod request;
mod settings;

pub use control::{Control, World, library_path};
pub use request::{Leaks, Node, NodeState, Operation, Stats};
pub use settings::{AddressFormat, Again, Failure, MrDialect, Progress, Settings, ToTheDead};
