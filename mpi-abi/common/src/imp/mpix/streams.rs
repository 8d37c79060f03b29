//! Streams: serial contexts of the program.

use core::ffi::c_int;

use netmod_mpi::handle::{Comm, Stream};
use netmod_mpi::{Class, Mpi, MpiError, Result};

use crate::convert::{put, slice};

/// Makes a communicator for several streams of each process.
///
/// # Safety
/// The array has so many streams.
pub unsafe fn stream_comm_create_multiplex(
    mpi: &Mpi,
    comm: c_int,
    count: c_int,
    streams: *const c_int,
    new: *mut c_int,
) -> Result<()> {
    let count = usize::try_from(count).map_err(|_| {
        MpiError::new(Class::ARG, format!("count is {count}; a process gives 0 or more streams"))
    })?;
    // SAFETY: the caller's array.
    let streams: Vec<Stream> = unsafe { slice(streams, count) }.iter().map(|s| Stream(*s as u32)).collect();
    let made = mpi.stream_comm_create_multiplex(Comm(comm as u32), &streams)?;
    // SAFETY: the caller's memory.
    unsafe { put(new, made) }
}

/// The library lasts as long as the thread.
pub fn start_progress_thread(mpi: &'static Mpi, stream: c_int) -> Result<()> {
    Mpi::start_progress_thread(mpi, Stream(stream as u32))
}
