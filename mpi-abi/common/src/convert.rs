//! Values between C and Rust.

use core::ffi::{CStr, c_char, c_int, c_void};

use netmod_mpi::consts::UNDEFINED;
use netmod_mpi::handle::{
    Comm, Datatype, Errhandler, File, Group, Info, Keyval, Message, Op, Request, Session, Stream, Win,
};
use netmod_mpi::{Buf, Class, MpiError, Result, Status};

/// A file in the interface of MPICH: a pointer that is never read. Its address is the library's
/// handle, but for `MPI_FILE_NULL`, which is NULL.
pub type CFile = *mut c_void;
/// A function of the program; its arguments are those of its role.
pub type Function = Option<unsafe extern "C-unwind" fn()>;

/// `MPI_IN_PLACE`.
const IN_PLACE: usize = usize::MAX;
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
    pub source: c_int,
    /// `MPI_TAG`.
    pub tag: c_int,
    /// `MPI_ERROR`; written only by functions that complete several requests.
    pub error: c_int,
}

impl MpiStatus {
    /// A status without a message.
    pub const EMPTY: MpiStatus = MpiStatus {
        count_lo: 0,
        count_hi_and_cancelled: 0,
        source: Status::EMPTY.source,
        tag: Status::EMPTY.tag,
        error: 0,
    };

    /// Creates a status of what its numbers in memory are.
    pub const fn new(source: c_int, tag: c_int, error: c_int, [low, high]: [c_int; 2]) -> MpiStatus {
        MpiStatus { count_lo: low, count_hi_and_cancelled: high, source, tag, error }
    }

    /// Returns the two numbers with the number of bytes and whether it was cancelled.
    pub const fn count(&self) -> [c_int; 2] {
        [self.count_lo, self.count_hi_and_cancelled]
    }

    /// Writes a status, but for its error, unless the program ignores it.
    ///
    /// # Safety
    /// `at` is `MPI_STATUS_IGNORE`, or a status in memory of the caller.
    pub unsafe fn write(at: *mut MpiStatus, status: &Status) {
        if MpiStatus::is_ignored(at) {
            return;
        }
        let bytes = status.count_bytes;
        // SAFETY: the caller's memory; single fields, since the error may not be written.
        unsafe {
            (*at).count_lo = bytes as c_int;
            (*at).count_hi_and_cancelled = ((bytes >> 32) as c_int) << 1 | c_int::from(status.cancelled);
            (*at).source = status.source;
            (*at).tag = status.tag;
            // The status of nothing has no error, also in functions that write none.
            if (status.source, status.tag) == (Status::EMPTY.source, Status::EMPTY.tag) {
                (*at).error = 0;
            }
        }
    }

    /// Returns true for `MPI_STATUS_IGNORE`, and for NULL.
    pub fn is_ignored(at: *const MpiStatus) -> bool {
        at.addr() <= IGNORE
    }

    /// Returns what was written.
    pub fn read(&self) -> Status {
        let high = i64::from(self.count_hi_and_cancelled as u32 >> 1);
        Status {
            source: self.source,
            tag: self.tag,
            error: self.error,
            count_bytes: high << 32 | i64::from(self.count_lo as u32),
            cancelled: self.count_hi_and_cancelled & 1 != 0,
        }
    }
}

/// An array of numbers of either size.
#[derive(Clone, Copy)]
pub enum Counts {
    Int(*const c_int),
    Large(*const i64),
}

impl From<*const c_int> for Counts {
    fn from(at: *const c_int) -> Counts {
        Counts::Int(at)
    }
}

impl From<*const i64> for Counts {
    fn from(at: *const i64) -> Counts {
        Counts::Large(at)
    }
}

impl From<*const isize> for Counts {
    fn from(at: *const isize) -> Counts {
        Counts::Large(at.cast())
    }
}

impl Counts {
    /// Returns the numbers; none if the array is NULL.
    ///
    /// # Safety
    /// The array has `length` numbers, or is NULL.
    pub unsafe fn take(self, length: usize) -> Vec<i64> {
        // SAFETY: as the caller promises.
        unsafe {
            match self {
                Counts::Int(at) => slice(at, length).iter().copied().map(i64::from).collect(),
                Counts::Large(at) => slice(at, length).to_vec(),
            }
        }
    }
}

/// An array of datatypes or other handles, as the numbers of the library or as handles of another
/// interface.
#[derive(Clone, Copy)]
pub enum Types {
    Numbers(*const c_int),
    Handles(*const usize, fn(usize) -> u32),
}

impl From<*const c_int> for Types {
    fn from(at: *const c_int) -> Types {
        Types::Numbers(at)
    }
}

impl From<*mut c_int> for Types {
    fn from(at: *mut c_int) -> Types {
        Types::Numbers(at)
    }
}

impl Types {
    /// Returns the datatypes; none if the array is NULL.
    ///
    /// # Safety
    /// The array has `length` datatypes, or is NULL.
    pub unsafe fn take(self, length: usize) -> Vec<Datatype> {
        // SAFETY: as the caller promises.
        unsafe { self.numbers(length) }.into_iter().map(Datatype).collect()
    }

    /// Returns handles of any kind as numbers; none if the array is NULL.
    ///
    /// # Safety
    /// The array has `length` handles, or is NULL.
    pub unsafe fn numbers(self, length: usize) -> Vec<u32> {
        // SAFETY: as the caller promises.
        unsafe {
            match self {
                Types::Numbers(at) => slice(at, length).iter().map(|n| *n as u32).collect(),
                Types::Handles(at, number) => {
                    slice(at, length).iter().map(|handle| number(*handle)).collect()
                }
            }
        }
    }
}

/// A number of either size in C's memory.
#[derive(Clone, Copy)]
pub enum OutCount {
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
    pub unsafe fn put(self, value: i64) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe {
            match self {
                OutCount::Int(at) => put(at, value),
                OutCount::Large(at) => put(at, value),
            }
        }
    }

    /// Writes a number, or `MPI_UNDEFINED` where there is no room for it.
    ///
    /// # Safety
    /// The pointer is NULL or points to memory of the caller.
    ///
    /// # Errors
    /// If the pointer is NULL.
    pub unsafe fn put_or_undefined(self, value: i64) -> Result<()> {
        let fits = matches!(self, OutCount::Large(_)) || c_int::try_from(value).is_ok();
        // SAFETY: as the caller promises.
        unsafe { self.put(if fits { value } else { i64::from(UNDEFINED) }) }
    }

    /// Reads a number.
    ///
    /// # Safety
    /// The pointer is NULL or points to memory of the caller.
    ///
    /// # Errors
    /// If the pointer is NULL.
    pub unsafe fn get(self) -> Result<i64> {
        // SAFETY: as the caller promises.
        unsafe {
            match self {
                OutCount::Int(at) => get(at).map(i64::from),
                OutCount::Large(at) => get(at),
            }
        }
    }
}

/// Returns a slice of C's memory; an empty one if it is NULL or the length is 0.
///
/// # Safety
/// There are `length` values, which nobody changes while the slice lives, or it is NULL.
pub unsafe fn slice<'a, T>(at: *const T, length: usize) -> &'a [T] {
    if at.is_null() || length == 0 {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { core::slice::from_raw_parts(at, length) }
}

/// Returns a buffer of messages.
///
/// # Safety
/// The memory has room for so many elements of the type, and stays until the call, or the operation
/// that it starts, has ended.
pub unsafe fn buffer<P>(at: P, count: impl Into<i64>, datatype: c_int) -> Buf
where
    P: Pointer,
{
    let Some(at) = at.unless_in_place() else { return Buf::IN_PLACE };
    // SAFETY: as the caller promises.
    unsafe { Buf::new(at, count.into(), Datatype(datatype as u32)) }
}

/// A pointer to memory of messages.
pub trait Pointer: Copy {
    fn bytes(self) -> *mut u8;

    /// Returns the address, unless it is `MPI_IN_PLACE`.
    fn unless_in_place(self) -> Option<*mut u8> {
        Some(self.bytes()).filter(|at| at.addr() != IN_PLACE)
    }
}

impl Pointer for *const c_void {
    fn bytes(self) -> *mut u8 {
        self.cast_mut().cast()
    }
}

impl Pointer for *mut c_void {
    fn bytes(self) -> *mut u8 {
        self.cast()
    }
}

/// Returns a string of C's.
///
/// # Safety
/// It is NULL, or ends with a 0.
///
/// # Errors
/// If it is NULL, or not UTF-8.
pub unsafe fn text<'a>(at: *const c_char) -> Result<&'a str> {
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
pub unsafe fn put_text(at: *mut c_char, room: usize, text: &str) -> Result<usize> {
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

/// Reads a value.
///
/// # Safety
/// The pointer is NULL or points to memory of the caller.
///
/// # Errors
/// If it is NULL.
pub unsafe fn get<T: Copy>(at: *const T) -> Result<T> {
    if at.is_null() {
        return Err(null());
    }
    // SAFETY: as the caller promises.
    Ok(unsafe { at.read() })
}

/// Reads a handle to know its object; 0 if the pointer is NULL.
///
/// # Safety
/// The pointer is NULL or points to memory of the caller.
pub unsafe fn look(at: *const c_int) -> c_int {
    // SAFETY: as the caller promises.
    if at.is_null() { 0 } else { unsafe { at.read() } }
}

#[cold]
fn null() -> Box<MpiError> {
    // No call on an object: that it is one is not known yet.
    let error = MpiError::new(Class::ARG, "a pointer for a result is NULL");
    Box::new(MpiError { comm: Some(Comm::NULL.0), ..*error })
}

/// Checks that a result has a place.
///
/// # Errors
/// If the pointer is NULL.
pub fn given<T>(at: *mut T) -> Result<()> {
    if at.is_null() { Err(null()) } else { Ok(()) }
}

/// Writes a result.
///
/// # Safety
/// The pointer is NULL or points to memory of the caller.
///
/// # Errors
/// If it is NULL, or if the value has no room.
pub unsafe fn put<T, V: Put<T>>(at: *mut T, value: V) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { value.put(at) }
}

/// Writes an address where the program has a pointer.
///
/// # Safety
/// `at` is NULL or points to a pointer of the caller.
///
/// # Errors
/// If it is NULL.
pub unsafe fn put_address(at: *mut c_void, address: usize) -> Result<()> {
    if at.is_null() {
        return Err(null());
    }
    // SAFETY: as the caller promises.
    unsafe { at.cast::<*mut c_void>().write(core::ptr::with_exposed_provenance_mut(address)) };
    Ok(())
}

/// A result that C has a type for.
pub trait Put<T> {
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
    Comm => c_int: |value| value.0 as c_int;
    Group => c_int: |value| value.0 as c_int;
    Datatype => c_int: |value| value.0 as c_int;
    Op => c_int: |value| value.0 as c_int;
    Request => c_int: |value| value.0 as c_int;
    File => c_int: |value| value.0 as c_int;
    Info => c_int: |value| value.0 as c_int;
    Errhandler => c_int: |value| value.0 as c_int;
    Keyval => c_int: |value| value.0 as c_int;
    Win => c_int: |value| value.0 as c_int;
    Session => c_int: |value| value.0 as c_int;
    Stream => c_int: |value| value.0 as c_int;
    Message => c_int: |value| value.0 as c_int;
}

impl Put<MpiStatus> for Status {
    unsafe fn put(self, at: *mut MpiStatus) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { MpiStatus::write(at, &self) };
        Ok(())
    }
}

#[cold]
fn too_large(value: i64) -> Box<MpiError> {
    let why = format!("{value} has no room in an int; the function whose name ends in _c has room for it");
    MpiError::new(Class::VALUE_TOO_LARGE, why)
}

/// Returns C's array of requests.
///
/// # Safety
/// It has `length` requests, which only this call uses, or it is NULL.
///
/// # Errors
/// If the length is negative, or if the array is NULL and the length is not 0.
pub unsafe fn requests<'a>(at: *mut c_int, length: c_int) -> Result<&'a mut [Request]> {
    let count = usize::try_from(length).map_err(|_| {
        MpiError::new(Class::COUNT, format!("the number of requests is {length}, and less than 0"))
    })?;
    if count == 0 {
        return Ok(&mut []);
    }
    if at.is_null() {
        return Err(MpiError::new(Class::ARG, format!("the array of {count} requests is NULL")));
    }
    // SAFETY: as the caller promises; a request is a transparent number.
    Ok(unsafe { core::slice::from_raw_parts_mut(at.cast::<Request>(), count) })
}
