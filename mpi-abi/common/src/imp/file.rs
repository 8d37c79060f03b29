//! Files.

use core::ffi::{c_char, c_int};

use netmod_mpi::handle::File;
use netmod_mpi::{Mpi, Result};

pub use super::error::{file_call_errhandler, file_create_errhandler};
use crate::convert::{put, put_text};

/// Bytes of `MPI_MAX_DATAREP_STRING`.
const DATAREP: usize = 128;

pub unsafe fn file_get_view(
    mpi: &Mpi,
    file: c_int,
    disp: *mut i64,
    etype: *mut c_int,
    filetype: *mut c_int,
    datarep: *mut c_char,
) -> Result<()> {
    let (at, unit, seen, name) = mpi.file_get_view(File(file as u32))?;
    // SAFETY: the caller's memory; the standard wants room for so many bytes.
    unsafe {
        put(disp, at)?;
        put(etype, unit)?;
        put(filetype, seen)?;
        put_text(datarep, DATAREP, &name).map(|_| ())
    }
}
