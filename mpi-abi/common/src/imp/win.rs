//! Windows: there are none yet, but the null one has a name.

use core::ffi::{c_char, c_int};

use netmod_mpi::handle::{Handle as _, Win, invalid};
use netmod_mpi::{Mpi, Result};

use super::comm::OBJECT_NAME;
pub use super::error::win_create_errhandler;
use crate::convert::{put, put_text};

pub unsafe fn win_get_name(_mpi: &Mpi, win: c_int, name: *mut c_char, length: *mut c_int) -> Result<()> {
    let win = Win(win as u32);
    if !win.is_null() {
        return Err(invalid(win));
    }
    // SAFETY: the standard wants room for so many bytes, and for the length.
    unsafe { put_text(name, OBJECT_NAME, Win::NULL_NAME).and_then(|written| put(length, written as i64)) }
}
