//! Files.

use core::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use netmod_mpi::handle::{Datatype, File};
use netmod_mpi::{Class, Mpi, MpiError, Result, UserDatarep};

pub use super::error::{file_call_errhandler, file_create_errhandler};
use crate::Abi;
use crate::convert::{Function, MpiStatus, Pointer, put, put_text, text};

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

/// The second halves of split collectives, which are given the buffer again and do not need it.
macro_rules! ends {
    ($($name:ident)*) => {
        $(pub unsafe fn $name(
            mpi: &Mpi,
            file: c_int,
            _buffer: impl Pointer,
            status: *mut MpiStatus,
        ) -> Result<()> {
            let told = mpi.$name(File(file as u32))?;
            // SAFETY: the caller's memory.
            unsafe { put(status, told) }
        })*
    };
}

ends! {
    file_read_all_end file_write_all_end
    file_read_at_all_end file_write_at_all_end
    file_read_ordered_end file_write_ordered_end
}

type ExtentFn<H> = unsafe extern "C-unwind" fn(H, *mut isize, *mut c_void) -> c_int;
type ConvertFn<H> =
    unsafe extern "C-unwind" fn(*mut c_void, H, c_int, *mut c_void, i64, *mut c_void) -> c_int;
type LargeConvertFn<H> =
    unsafe extern "C-unwind" fn(*mut c_void, H, i64, *mut c_void, i64, *mut c_void) -> c_int;

/// A function that converts data, in the form that it was given in.
enum Convert<A: Abi> {
    /// `MPI_CONVERSION_FN_NULL`: data is as in memory.
    Null,
    Int(ConvertFn<A::Handle>),
    Large(LargeConvertFn<A::Handle>),
}

impl<A: Abi> Convert<A> {
    /// # Safety
    /// The program passes a function of this type, as the standard wants it.
    unsafe fn of((function, large): (Function, bool)) -> Convert<A> {
        type AnyFn = unsafe extern "C-unwind" fn();
        // SAFETY: as the caller promises.
        unsafe {
            match function {
                None => Convert::Null,
                Some(function) if large => {
                    Convert::Large(core::mem::transmute::<AnyFn, LargeConvertFn<A::Handle>>(function))
                }
                Some(function) => Convert::Int(core::mem::transmute::<AnyFn, ConvertFn<A::Handle>>(function)),
            }
        }
    }

    /// Converts `count` elements.
    ///
    /// # Safety
    /// Both have so many elements, each in its form.
    unsafe fn call(
        &self,
        memory: *mut u8,
        datatype: Datatype,
        count: i64,
        file: *mut u8,
        state: *mut c_void,
    ) -> Result<()> {
        let (handle, memory, file) = (A::datatype(datatype), memory.cast(), file.cast());
        // SAFETY: the program gave the function for such data; the caller promises it is there.
        let code = unsafe {
            match self {
                Convert::Null => 0,
                Convert::Large(function) => function(memory, handle, count, file, 0, state),
                Convert::Int(function) => {
                    let Ok(count) = c_int::try_from(count) else {
                        let text = format!(
                            "a data representation of MPI_Register_datarep gets {count} elements at once, more than an \
                             int holds: register it by MPI_Register_datarep_c"
                        );
                        return Err(MpiError::new(Class::VALUE_TOO_LARGE, text));
                    };
                    function(memory, handle, count, file, 0, state)
                }
            }
        };
        told::<A>(code, "a conversion function of a data representation")
    }
}

/// Returns the result of a function of the program that has returned a code.
fn told<A: Abi>(code: c_int, what: &str) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    Err(MpiError::of_user(Class::CONVERSION, A::code_in(code), format!("{what} has returned {code}")))
}

/// A data representation of the program.
struct Datarep<A: Abi> {
    read: Convert<A>,
    write: Convert<A>,
    extent: ExtentFn<A::Handle>,
    state: *mut c_void,
}

// SAFETY: the functions and their state are the program's, which calls MPI from the threads that it
// wants.
unsafe impl<A: Abi> Send for Datarep<A> {}

// SAFETY: as above.
unsafe impl<A: Abi> Sync for Datarep<A> {}

impl<A: Abi> UserDatarep for Datarep<A> {
    fn extent(&self, datatype: Datatype) -> Result<i64> {
        let mut extent = -1;
        // SAFETY: the program gave this function for datatypes; the place is of this frame.
        let code = unsafe { (self.extent)(A::datatype(datatype), &raw mut extent, self.state) };
        told::<A>(code, "the extent function of a data representation").map(|()| extent as i64)
    }

    fn converts(&self, reads: bool) -> bool {
        !matches!(if reads { &self.read } else { &self.write }, Convert::Null)
    }

    unsafe fn read(&self, memory: *mut u8, datatype: Datatype, count: i64, file: *mut u8) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.read.call(memory, datatype, count, file, self.state) }
    }

    unsafe fn write(&self, memory: *mut u8, datatype: Datatype, count: i64, file: *mut u8) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.write.call(memory, datatype, count, file, self.state) }
    }
}

pub unsafe fn register_datarep<A: Abi>(
    mpi: &Mpi,
    name: *const c_char,
    read: (Function, bool),
    write: (Function, bool),
    extent: Function,
    state: *mut c_void,
) -> Result<()> {
    type AnyFn = unsafe extern "C-unwind" fn();
    let extent = extent
        .ok_or_else(|| MpiError::new(Class::ARG, "the extent function of the data representation is NULL"))?;
    // SAFETY: the program passes functions of these types, as the standard wants it, and a string.
    unsafe {
        let extent = core::mem::transmute::<AnyFn, ExtentFn<A::Handle>>(extent);
        let datarep = Datarep::<A> { read: Convert::of(read), write: Convert::of(write), extent, state };
        mpi.register_datarep(text(name)?, Arc::new(datarep))
    }
}
