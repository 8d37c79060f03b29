//! Handles as numbers of Fortran's, and statuses of its two kinds. A handle is such a number.

use core::ffi::c_int;

use netmod_mpi::handle::File;

use crate::convert::{CFile, MpiStatus};

/// Functions between a handle and its number.
macro_rules! same {
    ($($name:ident)*) => {
        $(pub fn $name(handle: c_int) -> c_int {
            handle
        })*
    };
}

same! {
    comm_c2f comm_f2c comm_fromint comm_toint
    errhandler_c2f errhandler_f2c errhandler_fromint errhandler_toint
    group_c2f group_f2c group_fromint group_toint
    info_c2f info_f2c info_fromint info_toint
    message_c2f message_f2c message_fromint message_toint
    op_c2f op_f2c op_fromint op_toint
    request_c2f request_f2c request_fromint request_toint
    session_c2f session_f2c session_fromint session_toint
    type_c2f type_f2c type_fromint type_toint
    win_c2f win_f2c win_fromint win_toint
}

/// Returns the library's handle of a file.
pub fn file_number(file: CFile) -> c_int {
    if file.is_null() { File::NULL.0 as c_int } else { file.addr() as c_int }
}

/// Returns the file of the library's handle.
pub fn file_of_number(number: c_int) -> CFile {
    let address = if number as u32 == File::NULL.0 { 0 } else { number as u32 as usize };
    core::ptr::without_provenance_mut(address)
}

/// Fortran's `MPI_FILE_NULL` is 0.
pub fn file_c2f(file: CFile) -> c_int {
    file.addr() as c_int
}

pub fn file_f2c(number: c_int) -> CFile {
    file_of_number(number)
}

pub fn file_toint(file: CFile) -> c_int {
    file_c2f(file)
}

pub fn file_fromint(number: c_int) -> CFile {
    file_f2c(number)
}

/// Copies a status from one of its forms to another: all have the same five numbers.
///
/// # Safety
/// Both pointers are NULL or point to statuses.
unsafe fn copy(from: *const MpiStatus, to: *mut MpiStatus) -> c_int {
    if from.is_null() || to.is_null() || MpiStatus::is_ignored(from) {
        return netmod_mpi::error::Class::ARG.0;
    }
    // SAFETY: as the caller promises.
    unsafe { core::ptr::copy(from, to, 1) };
    0
}

/// Functions that convert a status.
macro_rules! statuses {
    ($($name:ident($from:ty, $to:ty);)*) => {
        $(pub unsafe fn $name(from: *const $from, to: *mut $to) -> c_int {
            // SAFETY: the caller's statuses.
            unsafe { copy(from.cast(), to.cast()) }
        })*
    };
}

statuses! {
    status_c2f(MpiStatus, c_int);
    status_f2c(c_int, MpiStatus);
    status_c2f08(MpiStatus, MpiStatus);
    status_f082c(MpiStatus, MpiStatus);
    status_f082f(MpiStatus, c_int);
    status_f2f08(c_int, MpiStatus);
}
