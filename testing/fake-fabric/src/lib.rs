//! A libfabric provider for tests.
//!
//! The crate is two libraries. The shared one exports what libfabric exports, and is loaded by
//! [`Library::load`](libfabric_sys::Library::load) from [`library_path`] like the real one. The Rust one, this, tells it what to do:
//! each test makes a [`World`], a network of its own with one domain, which the provider "fake" lists by the world's name, with what
//! [`Settings`] say that it can do, demands and does wrong.
//!
//! A world looks at each call with the eyes of the strictest provider, and writes down what that one would not have stood
//! ([`World::violations`]); it never crashes for it. Nothing happens but within calls of `fi_cq_read`, and chance comes from a seed: the
//! same calls lead to the same events. It really copies data, and really writes to what an operation lends to a provider.
//!
//! `model` is the provider without pointers, `ffi` its face to the C interface, `mem` the memory that calls lend.

/// The environment variable with the version that the library says it has, such as "1.8".
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
