//! Bindings to libfabric (<https://ofiwg.github.io/libfabric/>), loaded at run time.
//!
//! libfabric exports a dozen functions, see [`Library`]; everything else is a call through tables of function pointers that
//! the objects carry: [`fid`] has the layouts, [`call`] the calls, as the inline functions of the headers make them.
//!
//! # Which versions
//! The layouts are those of API version 1.17, of which later versions (2.x too) change nothing but by appending. So
//! - an [`attr::fi_info`] is never made here: it comes from the library and goes back to it;
//! - [`attr::fi_cq_err_entry`] has the field that 1.20 appended, so that a newer provider cannot write behind it;
//! - what is not in every version's table of functions is called only if the table is long enough, see [`call`];
//! - the version that is asked for is never newer than [`API`];
//! - the library is never unloaded, because providers leave threads and exit handlers behind.
//!
//! Names are those of the C headers. A test compares sizes and offsets with the headers where they are installed.

#![allow(non_camel_case_types, unsafe_code)]
pub mod attr;
pub mod call;
pub mod consts;
pub mod fid;
mod library;

pub use library::{Library, LoadError};

/// A version of libfabric's interface, as `FI_VERSION` makes it.
pub const fn version(major: u32, minor: u32) -> u32 {
    major << 16 | minor
}

/// The newest version that is asked for: that of which the layouts are.
pub const API: u32 = version(1, 17);
/// The oldest version that is of use.
pub const OLDEST: u32 = version(1, 9);
