//! The library's state, and what it says of itself.

use core::ffi::{c_char, c_int};
use std::sync::OnceLock;
use std::time::Instant;

use crate::calls::code;
use crate::convert::{put, put_text};

/// Version of the standard, as in mpi.h.
const VERSION: (c_int, c_int) = (4, 1);
/// Bytes of `MPI_MAX_LIBRARY_VERSION_STRING`.
const VERSION_TEXT: usize = 8192;

pub(crate) unsafe fn initialized(flag: *mut c_int) -> c_int {
    // SAFETY: the caller's memory.
    code(unsafe { put(flag, false) })
}

pub(crate) unsafe fn finalized(flag: *mut c_int) -> c_int {
    // SAFETY: the caller's memory.
    code(unsafe { put(flag, false) })
}

pub(crate) unsafe fn get_version(version: *mut c_int, subversion: *mut c_int) -> c_int {
    // SAFETY: the caller's memory.
    code(unsafe { put(version, VERSION.0).and_then(|()| put(subversion, VERSION.1)) })
}

pub(crate) unsafe fn get_library_version(version: *mut c_char, length: *mut c_int) -> c_int {
    let text = format!("netmod MPI {} (MPICH ABI)", env!("CARGO_PKG_VERSION"));
    // SAFETY: the standard wants room for so many bytes.
    let written = unsafe { put_text(version, VERSION_TEXT, &text) };
    // SAFETY: the caller's memory.
    code(written.and_then(|written| unsafe { put(length, written as i64) }))
}

/// Tools may replace it; there is nothing to control here.
pub(crate) fn pcontrol(_level: c_int) -> c_int {
    0
}

fn start_of_time() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}

/// Seconds since the first call.
pub(crate) fn wtime() -> f64 {
    start_of_time().elapsed().as_secs_f64()
}

/// Seconds between two steps of the clock.
pub(crate) fn wtick() -> f64 {
    1e-9
}
