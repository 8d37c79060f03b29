//! Datatypes and addresses.

use core::ffi::{c_int, c_void};

use netmod_mpi::error::Class;

use crate::convert::OutCount;

/// The sum of an address and a displacement.
pub(crate) fn aint_add(base: i64, displacement: i64) -> isize {
    base.wrapping_add(displacement) as isize
}

/// The difference of two addresses.
pub(crate) fn aint_diff(first: i64, second: i64) -> isize {
    first.wrapping_sub(second) as isize
}

/// Writes an address as a number.
///
/// # Safety
/// `to` is NULL or points to memory of the caller.
pub(crate) unsafe fn get_address(location: *const c_void, to: OutCount) -> c_int {
    // SAFETY: as the caller promises.
    match unsafe { to.put(location.addr() as i64) } {
        Ok(()) => 0,
        Err(_) => Class::ARG.0,
    }
}

pub(crate) unsafe fn address(location: *mut c_void, to: OutCount) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { get_address(location, to) }
}
