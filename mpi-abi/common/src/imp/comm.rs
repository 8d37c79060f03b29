//! Communicators: names, and a truth value.

use core::ffi::{c_char, c_int};

use netmod_mpi::Mpi;
use netmod_mpi::error::Result;
use netmod_mpi::handle::Comm;

use crate::convert::{put, put_text};

/// Bytes of `MPI_MAX_OBJECT_NAME`.
pub const OBJECT_NAME: usize = 128;

pub unsafe fn comm_get_name(mpi: &Mpi, comm: c_int, name: *mut c_char, length: *mut c_int) -> Result<()> {
    let found = mpi.comm_get_name(Comm(comm as u32))?;
    // SAFETY: the standard wants room for so many bytes.
    let written = unsafe { put_text(name, OBJECT_NAME, &found)? };
    // SAFETY: the caller's memory.
    unsafe { put(length, written as i64) }
}

pub unsafe fn intercomm_merge(mpi: &Mpi, inter: c_int, high: c_int, new: *mut c_int) -> Result<()> {
    let made = mpi.intercomm_merge(Comm(inter as u32), high != 0)?;
    // SAFETY: the caller's memory.
    unsafe { put(new, made) }
}
