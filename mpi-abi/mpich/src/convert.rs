//! Values between C and Rust.

use core::ffi::{CStr, c_char, c_int, c_void};

use netmod_mpi::error::{Class, MpiError, Result};

/// A file, as C knows it.
pub(crate) type File = *mut c_void;
/// A function of the program; its arguments are those of its role.
pub(crate) type Function = Option<unsafe extern "C-unwind" fn()>;

/// `MPI_STATUS_IGNORE` and `MPI_STATUSES_IGNORE`.
const IGNORE: usize = 1;

/// A status in C's memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MpiStatus {
    /// Low half of the number of bytes.
    count_lo: c_int,
    /// Lowest bit: cancelled. Above: the high bits of the number of bytes.
    count_hi_and_cancelled: c_int,
    /// `MPI_SOURCE`.
    pub(crate) source: c_int,
    /// `MPI_TAG`.
    pub(crate) tag: c_int,
    /// `MPI_ERROR`; written only by functions that complete several requests.
    pub(crate) error: c_int,
}

impl MpiStatus {
    /// Returns true for `MPI_STATUS_IGNORE`, and for NULL.
    pub(crate) fn is_ignored(at: *const MpiStatus) -> bool {
        at.addr() <= IGNORE
    }
}

/// A number of either size in C's memory.
#[derive(Clone, Copy)]
pub(crate) enum OutCount {
    Int(*mut c_int),
    Large(*mut i64),
}

impl From<*mut c_int> for OutCount {
    fn from(at: *mut c_int) -> OutCount {
        OutCount::Int(at)
    }
}

impl From<*mut i64> for OutCount {
    fn from(at: *mut i64) -> OutCount {
        OutCount::Large(at)
    }
}

impl From<*mut isize> for OutCount {
    fn from(at: *mut isize) -> OutCount {
        OutCount::Large(at.cast())
    }
}

impl OutCount {
    /// Writes a number.
    ///
    /// # Safety
    /// The pointer is NULL or points to memory of the caller.
    ///
    /// # Errors
    /// If the pointer is NULL, or if the number has no room.
    pub(crate) unsafe fn put(self, value: i64) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe {
            match self {
                OutCount::Int(at) => put(at, value),
                OutCount::Large(at) => put(at, value),
            }
        }
    }
}

/// Returns a string of C's.
///
/// # Safety
/// It is NULL, or ends with a 0.
///
/// # Errors
/// If it is NULL, or not UTF-8.
pub(crate) unsafe fn text<'a>(at: *const c_char) -> Result<&'a str> {
    if at.is_null() {
        return Err(MpiError::new(Class::ARG, "a string is NULL"));
    }
    // SAFETY: as the caller promises.
    let text = unsafe { CStr::from_ptr(at) };
    text.to_str().map_err(|e| MpiError::new(Class::ARG, format!("{text:?} is not UTF-8: {e}")))
}

/// Writes a string of at most `room` bytes with its end, and shortens it if need be. Returns its
/// length.
///
/// # Safety
/// There are `room` bytes.
///
/// # Errors
/// If the pointer is NULL.
pub(crate) unsafe fn put_text(at: *mut c_char, room: usize, text: &str) -> Result<usize> {
    if at.is_null() || room == 0 {
        return Err(MpiError::new(Class::ARG, "there is no room for a string"));
    }
    let length = text.len().min(room - 1);
    // SAFETY: as the caller promises.
    unsafe {
        core::ptr::copy_nonoverlapping(text.as_ptr(), at.cast(), length);
        at.add(length).write(0);
    }
    Ok(length)
}

#[cold]
fn null() -> Box<MpiError> {
    MpiError::new(Class::ARG, "a pointer for a result is NULL")
}

/// Writes a result.
///
/// # Safety
/// The pointer is NULL or points to memory of the caller.
///
/// # Errors
/// If it is NULL, or if the value has no room.
pub(crate) unsafe fn put<T, V: Put<T>>(at: *mut T, value: V) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { value.put(at) }
}

/// A result that C has a type for.
pub(crate) trait Put<T> {
    /// Writes it.
    ///
    /// # Safety
    /// The pointer is NULL or points to memory of the caller.
    unsafe fn put(self, at: *mut T) -> Result<()>;
}

/// Results that are converted by an expression.
macro_rules! puts {
    ($($from:ty => $to:ty: |$value:ident| $expression:expr;)*) => {
        $(impl Put<$to> for $from {
            unsafe fn put(self, at: *mut $to) -> Result<()> {
                if at.is_null() {
                    return Err(null());
                }
                let $value = self;
                let value: $to = $expression;
                // SAFETY: as the caller promises.
                unsafe { at.write(value) };
                Ok(())
            }
        })*
    };
}

puts! {
    i32 => c_int: |value| value;
    bool => c_int: |value| c_int::from(value);
    i64 => i64: |value| value;
    i64 => isize: |value| value as isize;
    i64 => c_int: |value| c_int::try_from(value).map_err(|_| too_large(value))?;
}

#[cold]
fn too_large(value: i64) -> Box<MpiError> {
    let why = format!("{value} has no room in an int; the function whose name ends in _c has room for it");
    MpiError::new(Class::VALUE_TOO_LARGE, why)
}
