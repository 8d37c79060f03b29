//! The buffer of buffered sends.

use core::ffi::c_void;

use netmod_mpi::Mpi;
use netmod_mpi::error::{Class, MpiError, Result};

use crate::convert::OutCount;

pub fn buffer_attach(mpi: &Mpi, buffer: *mut c_void, size: i64) -> Result<()> {
    mpi.buffer_attach(buffer.expose_provenance(), size)
}

pub unsafe fn buffer_detach(mpi: &Mpi, buffer: *mut c_void, size: OutCount) -> Result<()> {
    let (memory, length) = mpi.buffer_detach()?;
    if buffer.is_null() {
        return Err(MpiError::new(Class::ARG, "the pointer for the address of the buffer is NULL"));
    }
    // SAFETY: the caller's variable, a pointer, and its number.
    unsafe {
        buffer.cast::<*mut c_void>().write(core::ptr::with_exposed_provenance_mut(memory));
        size.put(length)
    }
}
