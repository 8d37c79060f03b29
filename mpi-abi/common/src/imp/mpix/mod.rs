//! Extensions: what the library can do, layouts of datatypes, functions with a state, and going on
//! after failures.

mod polled;
mod states;
mod streams;

use core::ffi::{c_char, c_int, c_void};
use std::fmt::Write as _;

use netmod_mpi::handle::{Comm, Datatype, Info, Request};
use netmod_mpi::{Anytime, Class, Mpi, MpiError, Result};

use crate::calls::{code, library};
use crate::convert::{OutCount, put, text};

pub use super::error::{
    comm_create_errhandler_x, file_create_errhandler_x, session_create_errhandler_x, win_create_errhandler_x,
};
pub use super::op::op_create_x;
pub use polled::{
    async_get_state, async_spawn, async_start, grequest_class_allocate, grequest_class_create, grequest_start,
};
pub use states::{State, end_unused};
pub use streams::{start_progress_thread, stream_comm_create_multiplex};

/// The greatest number of a kind of accelerators.
const LAST_ACCELERATOR: c_int = 2;
/// Bytes of `MPI_MAX_INFO_VAL`.
const INFO_VALUE: usize = 1024;

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

/// Buffers in memory of accelerators are refused, whatever their kind.
pub unsafe fn gpu_query_support(kind: c_int, supported: *mut c_int) -> c_int {
    if !(0..=LAST_ACCELERATOR).contains(&kind) {
        let text = format!("the kind of accelerators is {kind}; MPIX_GPU_SUPPORT_* has the kinds");
        return code(Err(MpiError::new(Class::ARG, text)));
    }
    // SAFETY: the caller's memory.
    code(unsafe { put(supported, false) })
}

/// Sets a value to the bytes at an address, two digits each.
pub unsafe fn info_set_hex(
    anytime: &Anytime,
    info: c_int,
    key: *const c_char,
    value: *const c_void,
    size: c_int,
) -> Result<()> {
    let bytes = usize::try_from(size).ok().filter(|size| *size > 0 && 2 * size <= INFO_VALUE);
    let Some(bytes) = bytes.filter(|_| !value.is_null()) else {
        let most = INFO_VALUE / 2;
        let text =
            format!("the value has {size} bytes at {value:?}; 1 to {most} bytes at an address are expected");
        return Err(MpiError::new(Class::INFO_VALUE, text));
    };
    // SAFETY: the caller's memory of so many bytes, and its string.
    let (bytes, key) = unsafe { (core::slice::from_raw_parts(value.cast::<u8>(), bytes), text(key)?) };
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // A string has room for all.
        let _ = write!(digits, "{byte:02X}");
    }
    anytime.info_set(Info(info as u32), key, &digits)
}

/// One that is none is over, as all are outside of MPI.
pub fn request_is_complete(request: c_int) -> c_int {
    library().is_none_or(|mpi| mpi.request_is_complete(Request(request as u32))).into()
}

/// A run of data, as C has it.
#[repr(C)]
struct Run {
    at: *mut c_void,
    len: isize,
}

/// Tells how many of a datatype's first runs have no more than so many bytes, and how many those
/// have.
pub unsafe fn type_iov_len(
    mpi: &Mpi,
    datatype: c_int,
    most: i64,
    runs: OutCount,
    bytes: OutCount,
) -> Result<()> {
    let most = u64::try_from(most)
        .map_err(|_| MpiError::new(Class::ARG, format!("the runs may have {most} bytes, and less than 0")))?;
    let (mut count, mut sum) = (0, 0);
    mpi.type_each_run(Datatype(datatype as u32), |_, len| {
        let fits = sum + len <= most;
        if fits {
            (count, sum) = (count + 1, sum + len);
        }
        fits
    })?;
    // SAFETY: the caller's memory.
    unsafe { runs.put(count).and_then(|()| bytes.put(sum as i64)) }
}

/// Writes the runs of a datatype from one on, as addresses in a buffer that begins at 0.
pub unsafe fn type_iov(
    mpi: &Mpi,
    datatype: c_int,
    first: i64,
    at: *mut c_void,
    room: i64,
    written: OutCount,
) -> Result<()> {
    let (Ok(first), Ok(room)) = (usize::try_from(first), usize::try_from(room)) else {
        let text = format!("{room} runs from run {first} on are wanted; neither may be less than 0");
        return Err(MpiError::new(Class::ARG, text));
    };
    let (mut skipped, mut count) = (0, 0);
    mpi.type_each_run(Datatype(datatype as u32), |place, len| {
        if skipped < first {
            skipped += 1;
        } else if count < room {
            let run = Run { at: core::ptr::without_provenance_mut(place as usize), len: len as isize };
            // SAFETY: the caller's array, which has so many places.
            unsafe { at.cast::<Run>().add(count).write(run) };
            count += 1;
        }
        count < room
    })?;
    // SAFETY: the caller's memory.
    unsafe { written.put(count as i64) }
}
