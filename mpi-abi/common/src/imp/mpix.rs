//! Extensions: what the library can do, and going on after failures.

use core::ffi::{c_int, c_void};

use netmod_mpi::Mpi;
use netmod_mpi::error::Result;
use netmod_mpi::handle::Comm;

use crate::convert::put;

/// Memory of devices is not known to this library.
pub fn query_cuda_support() -> c_int {
    0
}

pub fn query_hip_support() -> c_int {
    0
}

pub fn query_ze_support() -> c_int {
    0
}

/// No asynchronous thing can have been started, so none has a state.
pub fn async_get_state(_thing: *mut c_void) -> *mut c_void {
    core::ptr::null_mut()
}

/// MPICH's older names of functions that MPI 4.1 has.
pub use super::error::{
    remove_error_class as delete_error_class, remove_error_code as delete_error_code,
    remove_error_string as delete_error_string,
};

/// The flag is set also if processes have failed.
///
/// # Safety
/// The flag is there, or null.
pub unsafe fn comm_agree(mpi: &Mpi, comm: c_int, flag: *mut c_int) -> Result<()> {
    let mut value = 0;
    if !flag.is_null() {
        // SAFETY: the caller's memory, which is there.
        value = unsafe { flag.read() };
    }
    let agreed = mpi.comm_agree(Comm(comm as u32), &mut value);
    // SAFETY: the caller's memory.
    unsafe { put(flag, value)? };
    agreed
}
