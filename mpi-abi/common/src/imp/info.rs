//! Info objects: keys and values in C's memory.

use core::ffi::{c_char, c_int};

use netmod_mpi::handle::Info;
use netmod_mpi::{Anytime, Class, MpiError, Result};

use crate::convert::{get, put, put_text, text};

/// Bytes of `MPI_MAX_INFO_KEY`.
const KEY: usize = 255;

fn info(handle: c_int) -> Info {
    Info(handle as u32)
}

/// Reads a value; `length` is without its end.
pub unsafe fn info_get(
    anytime: &Anytime,
    handle: c_int,
    key: *const c_char,
    length: c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> Result<()> {
    // SAFETY: the caller's string.
    let found = anytime.info_get(info(handle), unsafe { text(key)? })?;
    let room = usize::try_from(length).map_err(|_| {
        MpiError::new(Class::ARG, format!("the length of a value is {length}, and less than 0"))
    })?;
    // SAFETY: the caller's memory, which has room for the end too.
    unsafe {
        put(flag, found.is_some())?;
        if let Some(found) = found {
            put_text(value, room + 1, &found)?;
        }
    }
    Ok(())
}

/// Reads a value; `length` is with its end, and tells how much it would need.
pub unsafe fn info_get_string(
    anytime: &Anytime,
    handle: c_int,
    key: *const c_char,
    length: *mut c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> Result<()> {
    // SAFETY: the caller's memory and string.
    unsafe {
        let found = anytime.info_get(info(handle), text(key)?)?;
        let room = usize::try_from(get(length)?).unwrap_or(0);
        put(flag, found.is_some())?;
        let Some(found) = found else { return Ok(()) };
        if room > 0 {
            put_text(value, room, &found)?;
        }
        put(length, found.len() as i64 + 1)
    }
}

pub unsafe fn info_get_valuelen(
    anytime: &Anytime,
    handle: c_int,
    key: *const c_char,
    length: *mut c_int,
    flag: *mut c_int,
) -> Result<()> {
    // SAFETY: the caller's memory and string.
    unsafe {
        let found = anytime.info_get(info(handle), text(key)?)?;
        put(flag, found.is_some())?;
        found.map_or(Ok(()), |found| put(length, found.len() as i64))
    }
}

pub unsafe fn info_get_nthkey(anytime: &Anytime, handle: c_int, n: c_int, key: *mut c_char) -> Result<()> {
    let found = anytime.info_get_nthkey(info(handle), n)?;
    // SAFETY: the standard wants room for a key and its end.
    unsafe { put_text(key, KEY + 1, &found) }.map(|_| ())
}

/// Makes an info object of the command line that the program was started with.
pub unsafe fn info_create_env(
    anytime: &Anytime,
    _argc: c_int,
    _argv: *mut *mut c_char,
    result: *mut c_int,
) -> Result<()> {
    let made = anytime.info_create_env()?;
    // SAFETY: the caller's memory.
    unsafe { put(result, made) }
}
