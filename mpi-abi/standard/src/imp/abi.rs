//! The version and sizes of the interface, and facts that Fortran's bindings tell it.

use core::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use netmod_mpi::handle::Info;
use netmod_mpi::{Class, Mpi, MpiError, Result};
use netmod_mpi_common::calls::code;
use netmod_mpi_common::convert::put;

/// Version of the interface.
const VERSION: (c_int, c_int) = (1, 0);

pub(crate) unsafe fn abi_get_version(major: *mut c_int, minor: *mut c_int) -> c_int {
    // SAFETY: the caller's memory.
    code(unsafe { put(major, VERSION.0).and_then(|()| put(minor, VERSION.1)) })
}

/// Makes an info object of keys and values.
fn info_of<K: AsRef<str>>(mpi: &Mpi, pairs: &[(K, String)]) -> Result<Info> {
    let info = mpi.anytime().info_create()?;
    for (key, value) in pairs {
        mpi.anytime().info_set(info, key.as_ref(), value)?;
    }
    Ok(info)
}

/// Tells the sizes of numbers in bytes.
pub(crate) unsafe fn abi_get_info(mpi: &Mpi, result: *mut c_int) -> Result<()> {
    let sizes = [
        ("mpi_aint_size", size_of::<isize>()),
        ("mpi_count_size", size_of::<i64>()),
        ("mpi_offset_size", size_of::<i64>()),
    ];
    let made = info_of(mpi, &sizes.map(|(key, size)| (key, size.to_string())))?;
    // SAFETY: the caller's memory.
    unsafe { put(result, made) }
}

/// Keys and values that Fortran's bindings have told of their types.
static FORTRAN: Mutex<Option<Vec<(String, String)>>> = Mutex::new(None);

fn again(what: &str) -> Box<MpiError> {
    MpiError::new(Class::ABI, format!("{what} was told before; a process tells it once"))
}

pub(crate) fn abi_set_fortran_info(mpi: &Mpi, info: c_int) -> Result<()> {
    let info = Info(info as u32);
    let mut pairs = Vec::new();
    for n in 0..mpi.anytime().info_get_nkeys(info)? {
        let key = mpi.anytime().info_get_nthkey(info, n)?;
        let value = mpi.anytime().info_get(info, &key)?.unwrap_or_default();
        pairs.push((key, value));
    }
    let mut told = FORTRAN.lock().unwrap_or_else(PoisonError::into_inner);
    match &*told {
        Some(before) if *before != pairs => return Err(again("the information on Fortran")),
        _ => *told = Some(pairs),
    }
    Ok(())
}

/// Returns what was told, or `MPI_INFO_NULL`.
pub(crate) unsafe fn abi_get_fortran_info(mpi: &Mpi, result: *mut c_int) -> Result<()> {
    let told = FORTRAN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let made = told.map_or(Ok(Info::NULL), |pairs| info_of(mpi, &pairs))?;
    // SAFETY: the caller's memory.
    unsafe { put(result, made) }
}

/// Bytes of the largest LOGICAL.
const LARGEST: usize = 16;

/// Fortran's truth values of one size.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Booleans {
    size: usize,
    /// The bytes of `.TRUE.` and `.FALSE.`.
    values: [[u8; LARGEST]; 2],
}

static BOOLEANS: Mutex<Vec<Booleans>> = Mutex::new(Vec::new());

/// Returns a size of LOGICAL in bytes.
fn logical(size: c_int) -> Result<usize> {
    let wrong = || MpiError::new(Class::ARG, format!("logical_size is {size}; there are 1, 2, 4, 8 and 16"));
    usize::try_from(size).ok().filter(|s| s.is_power_of_two() && *s <= LARGEST).ok_or_else(wrong)
}

/// Returns an error if a pointer to a truth value is NULL.
fn both(values: [*mut c_void; 2]) -> Result<()> {
    if values.iter().any(|v| v.is_null()) {
        return Err(MpiError::new(Class::ARG, "a pointer to a truth value is NULL"));
    }
    Ok(())
}

pub(crate) unsafe fn abi_set_fortran_booleans(
    size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
) -> c_int {
    let set = || {
        let size = logical(size)?;
        let pointers = [logical_true, logical_false];
        both(pointers)?;
        let mut new = Booleans { size, values: [[0; LARGEST]; 2] };
        for (value, from) in new.values.iter_mut().zip(pointers) {
            // SAFETY: the caller has a truth value of this size there.
            unsafe { core::ptr::copy_nonoverlapping(from.cast::<u8>(), value.as_mut_ptr(), size) };
        }
        let mut all = BOOLEANS.lock().unwrap_or_else(PoisonError::into_inner);
        match all.iter().find(|b| b.size == size) {
            Some(before) if *before != new => Err(again("Fortran's truth values of this size")),
            Some(_) => Ok(()),
            None => {
                all.push(new);
                Ok(())
            }
        }
    };
    code(set())
}

pub(crate) unsafe fn abi_get_fortran_booleans(
    size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
    is_set: *mut c_int,
) -> c_int {
    let get = || {
        let size = logical(size)?;
        let all = BOOLEANS.lock().unwrap_or_else(PoisonError::into_inner);
        let found = all.iter().find(|b| b.size == size);
        // SAFETY: the caller's memory.
        unsafe { put(is_set, found.is_some())? };
        let Some(found) = found else { return Ok(()) };
        let pointers = [logical_true, logical_false];
        both(pointers)?;
        for (value, to) in found.values.iter().zip(pointers) {
            // SAFETY: the caller has room for a truth value of this size there.
            unsafe { core::ptr::copy_nonoverlapping(value.as_ptr(), to.cast::<u8>(), size) };
        }
        Ok(())
    };
    code(get())
}
