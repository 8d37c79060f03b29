//! Windows.

use core::ffi::{c_char, c_int, c_void};

use netmod_mpi::handle::{Comm, Info, Op, Win};
use netmod_mpi::{Mpi, Result};

pub use super::attr::{win_create_keyval, win_get_attr, win_set_attr};
use super::comm::OBJECT_NAME;
pub use super::error::{win_call_errhandler, win_create_errhandler};
use crate::convert::{OutCount, Pointer, buffer, put, put_address, put_text};

/// `MPI_BYTE`.
const BYTE: c_int = 0x4c00_010d;

pub unsafe fn win_get_name(mpi: &Mpi, win: c_int, name: *mut c_char, length: *mut c_int) -> Result<()> {
    let found = mpi.win_get_name(Win(win as u32))?;
    // SAFETY: the standard wants room for so many bytes, and for the length.
    unsafe { put_text(name, OBJECT_NAME, &found).and_then(|written| put(length, written as i64)) }
}

pub unsafe fn win_create(
    mpi: &Mpi,
    base: impl Pointer,
    size: i64,
    unit: i64,
    info: c_int,
    comm: c_int,
    win: *mut c_int,
) -> Result<()> {
    // SAFETY: the program lends the memory until it frees the window.
    let memory = unsafe { buffer(base, size, BYTE) };
    let made = mpi.win_create(memory, unit, Info(info as u32), Comm(comm as u32))?;
    // SAFETY: the caller's memory.
    unsafe { put(win, made) }
}

/// The functions that make a window with its memory.
macro_rules! allocates {
    ($($name:ident)*) => {
        $(pub unsafe fn $name(
            mpi: &Mpi,
            size: i64,
            unit: i64,
            info: c_int,
            comm: c_int,
            base: *mut c_void,
            win: *mut c_int,
        ) -> Result<()> {
            let (at, made) = mpi.$name(size, unit, Info(info as u32), Comm(comm as u32))?;
            // SAFETY: the caller's memory; the base is a pointer.
            unsafe { put_address(base, at).and_then(|()| put(win, made)) }
        })*
    };
}

allocates! { win_allocate win_allocate_shared }

pub unsafe fn win_shared_query(
    mpi: &Mpi,
    win: c_int,
    rank: c_int,
    size: OutCount,
    unit: OutCount,
    base: *mut c_void,
) -> Result<()> {
    let (bytes, of_unit, at) = mpi.win_shared_query(Win(win as u32), rank)?;
    // SAFETY: the caller's memory; the base is a pointer.
    unsafe {
        size.put(bytes)?;
        unit.put(of_unit)?;
        put_address(base, at)
    }
}

pub unsafe fn win_attach(mpi: &Mpi, win: c_int, base: impl Pointer, size: i64) -> Result<()> {
    // SAFETY: the program lends the memory until it detaches it, or frees the window.
    mpi.win_attach(Win(win as u32), unsafe { buffer(base, size, BYTE) })
}

pub fn win_detach(mpi: &Mpi, win: c_int, base: impl Pointer) -> Result<()> {
    mpi.win_detach(Win(win as u32), base.bytes().addr())
}

pub unsafe fn fetch_and_op(
    mpi: &Mpi,
    origin: impl Pointer,
    result: impl Pointer,
    datatype: c_int,
    rank: c_int,
    disp: i64,
    op: c_int,
    win: c_int,
) -> Result<()> {
    // SAFETY: the caller's elements.
    let elements = unsafe { [buffer(origin, 1, datatype), buffer(result, 1, datatype)] };
    mpi.fetch_and_op(elements, rank, disp, Op(op as u32), Win(win as u32))
}

pub unsafe fn compare_and_swap(
    mpi: &Mpi,
    origin: impl Pointer,
    compare: impl Pointer,
    result: impl Pointer,
    datatype: c_int,
    rank: c_int,
    disp: i64,
    win: c_int,
) -> Result<()> {
    // SAFETY: the caller's elements.
    let elements =
        unsafe { [buffer(origin, 1, datatype), buffer(compare, 1, datatype), buffer(result, 1, datatype)] };
    mpi.compare_and_swap(elements, rank, disp, Win(win as u32))
}
