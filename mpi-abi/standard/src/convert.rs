//! Single values between C and the library: handles, statuses, addresses with a meaning.

use core::ffi::{c_int, c_void};

use netmod_mpi::consts::DISPLACEMENT_CURRENT;
use netmod_mpi::handle::Request;
use netmod_mpi_common::convert::{Function, MpiStatus};
use netmod_mpi_common::weights::{UNWEIGHTED, WEIGHTS_EMPTY};

use crate::codes::{code_in, code_out};
use crate::handles::{self, HANDLES, Kind};
use crate::numbers;

/// A handle in C: a pointer that is never read.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(pub(crate) usize);

/// A number that the library never takes for a handle.
const NO_HANDLE: u32 = 0;

impl Handle {
    /// Returns the library's handle.
    #[inline]
    pub(crate) fn number(self) -> c_int {
        number(self.0) as c_int
    }

    /// Reads a handle to know its object; one that is none if the pointer is NULL.
    ///
    /// # Safety
    /// The pointer is NULL or points to memory of the caller.
    pub(crate) unsafe fn look(at: *const Handle) -> Handle {
        // SAFETY: as the caller promises.
        if at.is_null() { Handle(0) } else { unsafe { at.read() } }
    }
}

/// Returns the library's handle of one in C.
#[inline]
pub(crate) fn number(handle: usize) -> u32 {
    match HANDLES.get(handle) {
        Some(predefined) => *predefined,
        // Handles that are made at run time begin with the bits 10.
        None if handle >> 30 == 0b10 || is_finished(handle) => handle as u32,
        None => NO_HANDLE,
    }
}

/// Returns true for a request that was over when its call returned.
fn is_finished(handle: usize) -> bool {
    [Request::COMPLETE, Request::FROM_NOBODY].iter().any(|request| handle == request.0 as usize)
}

impl Kind {
    /// Returns the handle in C of one of the library's.
    #[inline]
    pub(crate) fn handle(self, number: u32) -> Handle {
        if number == self.number {
            return Handle(self.null);
        }
        // All others are as large as the library's, which keeps them apart from predefined ones.
        Handle(handles::predefined(number).unwrap_or(number as usize))
    }
}

/// Returns the displacement of a view: `MPI_DISPLACEMENT_CURRENT` is a number that cannot be one.
pub(crate) fn displacement_in(displacement: i64) -> i64 {
    if displacement == -1 { DISPLACEMENT_CURRENT } else { displacement }
}

/// `MPI_Status` of this interface.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// `MPI_SOURCE`.
    source: c_int,
    /// `MPI_TAG`.
    tag: c_int,
    /// `MPI_ERROR`; written only by functions that complete several requests.
    error: c_int,
    /// The number of bytes in two halves, the second as in [`MpiStatus`], and three that are free.
    reserved: [c_int; 5],
}

/// A source that no status has: the library has written none.
const UNWRITTEN: c_int = c_int::MIN;

impl Status {
    /// A status without a message.
    pub(crate) const EMPTY: Status = Status { source: -1, tag: -2, error: 0, reserved: [0; 5] };

    /// Returns what the library understands.
    pub(crate) fn inner(&self) -> MpiStatus {
        self.with_error(code_in(self.error))
    }

    /// Returns what the library understands, with the number of the error as it is.
    pub(crate) fn plain(&self) -> MpiStatus {
        self.with_error(self.error)
    }

    fn with_error(&self, error: c_int) -> MpiStatus {
        let [low, high, ..] = self.reserved;
        MpiStatus::new(numbers::rank_in(self.source), numbers::tag_in(self.tag), error, [low, high])
    }

    /// A status in which one can see what the library has written.
    pub(crate) fn unwritten() -> MpiStatus {
        MpiStatus::new(UNWRITTEN, 0, UNWRITTEN, [0; 2])
    }

    /// Writes what the library has made of [`Status::plain`].
    ///
    /// # Safety
    /// `at` points to a status of the caller.
    pub(crate) unsafe fn write_plain(at: *mut Status, inner: &MpiStatus) {
        // SAFETY: as the caller promises.
        unsafe {
            Status::write(at, inner);
            (*at).error = inner.error;
        }
    }

    /// Writes what the library has written, field by field.
    ///
    /// # Safety
    /// `at` points to a status of the caller.
    pub(crate) unsafe fn write(at: *mut Status, inner: &MpiStatus) {
        // SAFETY: as the caller promises.
        unsafe {
            if inner.source != UNWRITTEN {
                (*at).source = numbers::rank_out(inner.source);
                (*at).tag = numbers::tag_out(inner.tag);
                let [low, high] = inner.count();
                (*at).reserved = [low, high, 0, 0, 0];
            }
            if inner.error != UNWRITTEN {
                (*at).error = code_out(inner.error);
            }
        }
    }
}

/// `MPI_IN_PLACE` and `MPI_BUFFER_AUTOMATIC` here, and in the library.
const ADDRESSES: [(usize, usize); 2] = [(1, usize::MAX), (2, usize::MAX - 1)];

/// Returns an address as the library knows it.
#[inline]
fn inner(address: usize) -> Option<usize> {
    ADDRESSES.iter().find(|(outer, _)| *outer == address).map(|(_, inner)| *inner)
}

/// Returns the address in C of one of the library's that means something.
pub(crate) fn outer(address: usize) -> Option<usize> {
    ADDRESSES.iter().find(|(_, inner)| *inner == address).map(|(outer, _)| *outer)
}

/// An address of memory for messages.
pub(crate) trait Memory: Copy {
    /// Returns the address that the library understands.
    fn memory(self) -> Self;
}

impl Memory for *mut c_void {
    #[inline]
    fn memory(self) -> *mut c_void {
        inner(self.addr()).map_or(self, core::ptr::without_provenance_mut)
    }
}

impl Memory for *const c_void {
    #[inline]
    fn memory(self) -> *const c_void {
        inner(self.addr()).map_or(self, core::ptr::without_provenance)
    }
}

/// `MPI_UNWEIGHTED` and `MPI_WEIGHTS_EMPTY`.
const WEIGHTS: [usize; 2] = [10, 11];

/// An array of weights, or an address in its place.
pub(crate) trait Weights: Copy {
    /// Returns the array or the library's address in its place.
    fn weights(self) -> Self;
}

impl Weights for *const c_int {
    fn weights(self) -> *const c_int {
        match self.addr() {
            at if at == WEIGHTS[0] => &raw const UNWEIGHTED,
            at if at == WEIGHTS[1] => &raw const WEIGHTS_EMPTY,
            _ => self,
        }
    }
}

impl Weights for *mut c_int {
    fn weights(self) -> *mut c_int {
        self.cast_const().weights().cast_mut()
    }
}

/// Returns a function that copies attributes: `MPI_COMM_DUP_FN` and its like are no addresses.
pub(crate) fn copy_function(function: Function) -> Function {
    const DUP: usize = 1;
    if function.is_some_and(|f| f as usize == DUP) { Some(as_function(copy_value)) } else { function }
}

type Copy6 = unsafe extern "C-unwind" fn(
    Handle,
    c_int,
    *mut c_void,
    *mut c_void,
    *mut *mut c_void,
    *mut c_int,
) -> c_int;

fn as_function(function: Copy6) -> unsafe extern "C-unwind" fn() {
    // SAFETY: it is called as what it is, by the code for copy functions.
    unsafe { core::mem::transmute::<Copy6, unsafe extern "C-unwind" fn()>(function) }
}

/// Copies the value of an attribute.
///
/// # Safety
/// `result` and `flag` point to memory of the caller.
unsafe extern "C-unwind" fn copy_value(
    _object: Handle,
    _keyval: c_int,
    _extra_state: *mut c_void,
    value: *mut c_void,
    result: *mut *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        result.write(value);
        flag.write(1);
    }
    0
}

#[cfg(test)]
mod tests;
