//! Bindings to libibverbs (<https://github.com/linux-rdma/rdma-core>), loaded at run time.
//!
//! libibverbs exports the functions that set things up, see [`Library`]. What moves data goes through the table of functions in
//! an [`object::ibv_context`], and what was added later (XRC among it) through [`object::verbs_context`], which lies in memory in front of it and grows towards
//! lower addresses: [`call`] has those calls, as the inline functions of the header make them. [`sysfs`] tells the type of a GID where the library
//! does not.
//!
//! # Which versions
//! Symbols are asked for by the version that has the layouts declared here, of which the newest that must be there is `IBVERBS_1.1`
//! (2006). So
//! - what later versions have added is an `Option`, or is found to be missing in the tables;
//! - objects are never made here: they come from the library and go back to it;
//! - records that later versions have made longer go with their length, and the library writes no more than that;
//! - the library is never unloaded, because drivers leave threads and handlers behind.
//!
//! # Errors
//! Functions that return an `int` return 0, or the error's number (`errno`), some -1 with the number in `errno`. Those that return
//! a pointer return null, with the number in `errno`. Functions of [`call`] that return a pointer have the number in their `Err` instead.
//!
//! Names are those of the C header. A test compares sizes, offsets and numbers with the header where it is installed.

#![allow(non_camel_case_types, unsafe_code)]
pub mod attr;
pub mod call;
pub mod consts;
mod library;
pub mod object;
pub mod sysfs;
pub mod work;

pub use library::{Library, LoadError};
