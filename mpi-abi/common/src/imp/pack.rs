//! Packed data.

use core::ffi::{c_char, c_int, c_void};

use netmod_mpi::handle::{Comm, Datatype};
use netmod_mpi::{Mpi, Result};

use crate::convert::{OutCount, buffer, text};

pub unsafe fn pack(
    mpi: &Mpi,
    from: *const c_void,
    count: i64,
    handle: c_int,
    to: *mut c_void,
    size: i64,
    position: OutCount,
    comm: c_int,
) -> Result<()> {
    // SAFETY: the caller's buffers and memory.
    unsafe {
        let mut at = position.get()?;
        mpi.pack(buffer(from, count, handle), to.cast(), size, &mut at, Comm(comm as u32))?;
        position.put(at)
    }
}

pub unsafe fn unpack(
    mpi: &Mpi,
    from: *const c_void,
    size: i64,
    position: OutCount,
    to: *mut c_void,
    count: i64,
    handle: c_int,
    comm: c_int,
) -> Result<()> {
    // SAFETY: the caller's buffers and memory.
    unsafe {
        let mut at = position.get()?;
        mpi.unpack(from.cast(), size, &mut at, buffer(to, count, handle), Comm(comm as u32))?;
        position.put(at)
    }
}

pub unsafe fn pack_size(mpi: &Mpi, count: i64, handle: c_int, comm: c_int, size: OutCount) -> Result<()> {
    mpi.comm_size(Comm(comm as u32))?;
    // SAFETY: the caller's memory.
    unsafe { size.put_or_undefined(mpi.pack_size(count, Datatype(handle as u32))?) }
}

pub unsafe fn pack_external(
    mpi: &Mpi,
    datarep: *const c_char,
    from: *const c_void,
    count: i64,
    handle: c_int,
    to: *mut c_void,
    size: i64,
    position: OutCount,
) -> Result<()> {
    // SAFETY: the caller's string, buffers and memory.
    unsafe {
        let mut at = position.get()?;
        mpi.pack_external(text(datarep)?, buffer(from, count, handle), to.cast(), size, &mut at)?;
        position.put(at)
    }
}

pub unsafe fn unpack_external(
    mpi: &Mpi,
    datarep: *const c_char,
    from: *const c_void,
    size: i64,
    position: OutCount,
    to: *mut c_void,
    count: i64,
    handle: c_int,
) -> Result<()> {
    // SAFETY: the caller's string, buffers and memory.
    unsafe {
        let mut at = position.get()?;
        mpi.unpack_external(text(datarep)?, from.cast(), size, &mut at, buffer(to, count, handle))?;
        position.put(at)
    }
}

pub unsafe fn pack_external_size(
    mpi: &Mpi,
    datarep: *const c_char,
    count: i64,
    handle: c_int,
    size: OutCount,
) -> Result<()> {
    // SAFETY: the caller's string and memory.
    unsafe { size.put(mpi.pack_external_size(text(datarep)?, count, Datatype(handle as u32))?) }
}
