//! The MPI library, in Rust and without C types.
//!
//! Objects are named by 32-bit handles ([`handle`]) in MPICH's layout, and integers with a meaning
//! have MPICH's values ([`consts`]). An error has a class that MPI names and a text that says which
//! argument is wrong, its value, and what would be right ([`error`]).
//!
//! The parts without a device are pure: [`datatype`] describes memory, [`op`] combines elements,
//! and [`coll`] makes the schedules of collective operations, which one engine runs.

pub mod attr;
pub mod coll;
pub mod consts;
pub mod datatype;
pub mod errh;
pub mod error;
pub mod group;
pub mod handle;
pub mod info;
pub mod op;

pub use error::{Class, MpiError, Result};
