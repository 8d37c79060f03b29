//! Extensions that ask what the library can do.

use core::ffi::{c_int, c_void};

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
