//! Bindings to libfabric (<https://ofiwg.github.io/libfabric/>), loaded at run time.
//!
//! libfabric exports a dozen functions, see [`Library`]. All others are calls through tables of
//! function pointers in the objects: [`fid`] has the layouts, [`call`] the calls, as the headers'
//! inline functions make them.
//!
//! # Versions
//! The layouts are those of API version 1.17. Later versions, 2.x included, only append to them.
//! Therefore:
//! - An [`attr::fi_info`] is never constructed here: it comes from the library and goes back to it.
//! - [`attr::fi_cq_err_entry`] has the field appended in 1.20, so that a newer provider cannot
//!   write past its end.
//! - A function that some versions' tables lack is called only if the table is long enough, see
//!   [`call`].
//! - The requested version is never newer than [`API`].
//! - The library is never unloaded, because providers leave threads and exit handlers behind.
//!
//! Names are those of the C headers. A test compares sizes and offsets with the installed headers.

#![allow(non_camel_case_types, unsafe_code)]

pub mod call;
pub mod consts;
pub mod fid;
mod library;

pub use fid::attr;
pub use library::{Library, LoadError};

/// Returns a version of libfabric's interface as a number, like `FI_VERSION`.
pub const fn version(major: u32, minor: u32) -> u32 {
    major << 16 | minor
}

/// The newest version requested: the one whose layouts are declared.
pub const API: u32 = version(1, 17);
/// The oldest version supported.
pub const OLDEST: u32 = version(1, 9);
