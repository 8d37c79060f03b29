//! Bindings to libibverbs (<https://github.com/linux-rdma/rdma-core>), loaded at run time.
//!
//! libibverbs exports the functions for setup, see [`Library`]. Data transfers go through the table
//! of functions in an [`object::ibv_context`]. Later additions, XRC among them, go through
//! [`object::verbs_context`]: it lies in memory in front of the context and grows towards lower
//! addresses. [`call`] has those calls, as the header's inline functions make them. [`sysfs`] reads
//! the type of a GID where the library cannot.
//!
//! # Versions
//! Symbols are looked up with the version whose layouts are declared here. The newest version
//! required is `IBVERBS_1.1` (2006). Therefore:
//! - A later addition is an `Option`, or its absence shows in the tables.
//! - Objects are never constructed here: they come from the library and go back to it.
//! - A record that later versions extend is passed with its length, and the library writes at most
//!   that much.
//! - The library is never unloaded, because drivers leave threads and handlers behind.
//!
//! # Errors
//! Functions that return an `int` return 0 or an error number; some return -1 with the number in
//! `errno`. Functions that return a pointer return null on failure, with the number in `errno`.
//! Functions of [`call`] that return a pointer have the number in their `Err` instead.
//!
//! Names are those of the C header. A test compares sizes, offsets and constants with the installed
//! header.

#![allow(non_camel_case_types, unsafe_code)]

pub mod call;
pub mod consts;
mod library;
pub mod object;
pub mod sysfs;

pub use library::{Library, LoadError};
pub use object::{attr, work};
