//! Streams: serial contexts of the program.

use core::ffi::c_int;

use netmod_mpi::{Class, Mpi, MpiError, Result};

/// `MPIX_STREAM_NULL`.
const NULL: c_int = 0x3c00_0000;

/// Checks that a stream is `MPIX_STREAM_NULL`.
pub(super) fn check(stream: c_int) -> Result<()> {
    if stream == NULL {
        return Ok(());
    }
    let text =
        format!("stream {stream:#010x} is none; MPIX_STREAM_NULL stands for all that is not of a stream");
    Err(MpiError::new(Class::ARG, text))
}

pub fn stream_progress(mpi: &Mpi, stream: c_int) -> Result<()> {
    check(stream)?;
    mpi.progress()
}
