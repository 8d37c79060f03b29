//! The buffers of buffered sends: that of the process, and those of sessions and
//! communicators.

use core::ffi::{c_int, c_void};

use netmod_mpi::Mpi;
use netmod_mpi::error::{Class, MpiError, Result};
use netmod_mpi::handle::{Comm, Session};

use crate::convert::OutCount;

pub fn buffer_attach(mpi: &Mpi, buffer: *mut c_void, size: i64) -> Result<()> {
    mpi.buffer_attach(buffer.expose_provenance(), size)
}

pub fn comm_attach_buffer(mpi: &Mpi, comm: c_int, buffer: *mut c_void, size: i64) -> Result<()> {
    mpi.comm_attach_buffer(Comm(comm as u32), buffer.expose_provenance(), size)
}

pub unsafe fn buffer_detach(mpi: &Mpi, buffer: *mut c_void, size: OutCount) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { tell(mpi.buffer_detach()?, buffer, size) }
}

pub unsafe fn comm_detach_buffer(mpi: &Mpi, comm: c_int, buffer: *mut c_void, size: OutCount) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { tell(mpi.comm_detach_buffer(Comm(comm as u32))?, buffer, size) }
}

pub fn session_attach_buffer(mpi: &Mpi, session: c_int, buffer: *mut c_void, size: i64) -> Result<()> {
    mpi.session_attach_buffer(Session(session as u32), buffer.expose_provenance(), size)
}

pub unsafe fn session_detach_buffer(
    mpi: &Mpi,
    session: c_int,
    buffer: *mut c_void,
    size: OutCount,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { tell(mpi.session_detach_buffer(Session(session as u32))?, buffer, size) }
}

/// Writes address and size of a buffer.
///
/// # Safety
/// `buffer` is NULL or points to a pointer, and `size` to a number of the caller.
unsafe fn tell((memory, length): (usize, i64), buffer: *mut c_void, size: OutCount) -> Result<()> {
    if buffer.is_null() {
        return Err(MpiError::new(Class::ARG, "the pointer for the address of the buffer is NULL"));
    }
    // SAFETY: the caller's variable, a pointer, and its number.
    unsafe {
        buffer.cast::<*mut c_void>().write(core::ptr::with_exposed_provenance_mut(memory));
        size.put(length)
    }
}
