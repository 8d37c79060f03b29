//! Files of this interface: pointers, where all other handles are numbers.

use core::ffi::c_int;

use netmod_mpi_common::convert::CFile;
use netmod_mpi_common::imp::convert::{file_number, file_of_number};

/// Content of a place that the library has not written.
const UNWRITTEN: c_int = c_int::MIN;

/// Returns the library's handle of a file.
pub(crate) fn file_in(file: CFile) -> c_int {
    file_number(file)
}

/// Reads a file to know its object; one that is none if the pointer is NULL.
///
/// # Safety
/// The pointer is NULL or points to memory of the caller.
pub(crate) unsafe fn file_look(at: *const CFile) -> c_int {
    // SAFETY: as the caller promises.
    if at.is_null() { 0 } else { file_number(unsafe { at.read() }) }
}

/// A place for one file.
pub(crate) struct OutFile {
    to: *mut CFile,
    value: c_int,
}

impl OutFile {
    /// Creates a place for a result.
    ///
    /// # Safety
    /// `to` is NULL or points to memory of the caller, until the place is gone.
    pub(crate) unsafe fn new(to: *mut CFile) -> OutFile {
        OutFile { to, value: UNWRITTEN }
    }

    /// Creates a place with the file that is there.
    ///
    /// # Safety
    /// As for [`OutFile::new`].
    pub(crate) unsafe fn of(to: *mut CFile) -> OutFile {
        // SAFETY: as the caller promises.
        let value = if to.is_null() { UNWRITTEN } else { file_number(unsafe { to.read() }) };
        OutFile { to, value }
    }

    /// Returns its address for the library; NULL if the caller's is.
    pub(crate) fn at(&mut self) -> *mut c_int {
        if self.to.is_null() { core::ptr::null_mut() } else { &raw mut self.value }
    }
}

impl Drop for OutFile {
    fn drop(&mut self) {
        if !self.to.is_null() && self.value != UNWRITTEN {
            // SAFETY: the caller's memory, as promised.
            unsafe { self.to.write(file_of_number(self.value)) };
        }
    }
}
