//! The tool interface: its variables, categories and events in C's memory.
//!
//! Its functions return its own error codes, without error handlers, and need no library. A handle
//! is a number as an address; NULL is none.

mod categories;
mod controls;
mod events;
mod figures;

use core::ffi::{CStr, c_char, c_int, c_void};
use std::sync::Arc;

use netmod_mpi::Class;
use netmod_mpi::consts::{THREAD_MULTIPLE, THREAD_SINGLE};
use netmod_mpi::tool::{Answer, Running, Tool, Value};

use crate::calls::{ANYTIME, library};

pub use categories::*;
pub use controls::*;
pub use events::*;
pub use figures::*;

/// Its address means all handles of a session, in MPICH's interface.
pub static ALL_HANDLES: c_int = 0;
/// The same in the standard's.
const ALL_HANDLES_OF_STANDARD: usize = 1;
/// `MPI_T_BIND_NO_OBJECT`: variables and events are of the process, not of an object.
const NO_OBJECT: c_int = 9700;

fn tool() -> &'static Arc<Tool> {
    ANYTIME.tool()
}

/// Returns the library, if MPI is initialized.
fn running() -> Option<&'static dyn Running> {
    library().map(|mpi| -> &dyn Running { mpi })
}

/// Returns the error code of an answer.
fn code(answer: Answer<()>) -> c_int {
    answer.map_or_else(|class| class.0, |()| 0)
}

/// Writes a result that the program wants.
///
/// # Safety
/// The pointer is NULL or points to memory of the caller.
unsafe fn give<T>(at: *mut T, value: T) {
    if !at.is_null() {
        // SAFETY: as the caller promises.
        unsafe { at.write(value) };
    }
}

/// Writes a result that has to have a place.
///
/// # Safety
/// The pointer is NULL or points to memory of the caller.
unsafe fn put<T>(at: *mut T, value: T) -> Answer<()> {
    if at.is_null() {
        return Err(Class::T_INVALID);
    }
    // SAFETY: as the caller promises.
    unsafe { at.write(value) };
    Ok(())
}

/// Writes a number of things.
///
/// # Safety
/// The pointer is NULL or points to memory of the caller.
unsafe fn put_count(at: *mut c_int, count: usize) -> Answer<()> {
    // SAFETY: as the caller promises.
    unsafe { put(at, count as c_int) }
}

/// Writes a text as far as it has room, and its whole length with the end. Without a length nothing
/// is written.
///
/// # Safety
/// The length is NULL or the caller's, and there are as many characters, unless the text is NULL.
unsafe fn put_text(at: *mut c_char, length: *mut c_int, text: &str) {
    if length.is_null() {
        return;
    }
    // SAFETY: as the caller promises.
    unsafe {
        let room = usize::try_from(length.read()).unwrap_or(0);
        if !at.is_null() && room > 0 {
            let written = text.len().min(room - 1);
            core::ptr::copy_nonoverlapping(text.as_ptr(), at.cast(), written);
            at.add(written).write(0);
        }
        length.write(text.len() as c_int + 1);
    }
}

/// Returns a name of C's.
///
/// # Safety
/// It is NULL, or ends with a 0.
unsafe fn name<'a>(at: *const c_char) -> Answer<&'a str> {
    if at.is_null() {
        return Err(Class::T_INVALID_NAME);
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(at) }.to_str().map_err(|_| Class::T_INVALID_NAME)
}

fn index(number: c_int) -> Answer<usize> {
    usize::try_from(number).map_err(|_| Class::T_INVALID_INDEX)
}

fn handle(number: usize) -> *mut c_void {
    core::ptr::without_provenance_mut(number)
}

/// Returns the handle of an enumeration, by its index.
fn enumeration(at: Option<usize>) -> *mut c_void {
    handle(at.map_or(0, |at| at + 1))
}

/// Reads a handle, lets it be freed, and writes that there is none.
///
/// # Safety
/// The pointer is NULL or points to memory of the caller.
unsafe fn free(at: *mut *mut c_void, free: impl FnOnce(usize) -> Answer<()>) -> Answer<()> {
    if at.is_null() {
        return Err(Class::T_INVALID);
    }
    // SAFETY: as the caller promises.
    unsafe {
        free(at.read().addr())?;
        at.write(core::ptr::null_mut());
    }
    Ok(())
}

/// Writes a value to the program's buffer; of a text, as many characters as it has, and the end.
///
/// # Safety
/// The buffer is NULL or has room for it.
unsafe fn put_value(at: *mut c_void, value: &Value) -> Answer<()> {
    // SAFETY: as the caller promises.
    unsafe {
        match value {
            Value::Int(value) => put(at.cast(), *value),
            Value::Count(value) => put(at.cast(), *value),
            Value::Number(value) => put(at.cast(), *value),
            Value::Real(value) => put(at.cast(), *value),
            Value::Text(text) if at.is_null() => Err(Class::T_INVALID),
            Value::Text(text) => {
                let length = &mut (TEXT as c_int);
                put_text(at.cast(), length, text);
                Ok(())
            }
        }
    }
}

/// Reads a value of the type that another has.
///
/// # Safety
/// The buffer is NULL or has such a value.
unsafe fn get_value(at: *const c_void, like: &Value) -> Answer<Value> {
    if at.is_null() {
        return Err(Class::T_INVALID);
    }
    // SAFETY: as the caller promises.
    unsafe {
        Ok(match like {
            Value::Int(_) => Value::Int(at.cast::<c_int>().read()),
            Value::Count(_) => Value::Count(at.cast::<i64>().read()),
            Value::Number(_) => Value::Number(at.cast::<u64>().read()),
            Value::Real(_) => Value::Real(at.cast::<f64>().read()),
            Value::Text(_) => {
                let text = CStr::from_ptr(at.cast()).to_str().map_err(|_| Class::T_INVALID)?;
                Value::Text(text.to_owned())
            }
        })
    }
}

pub unsafe fn t_init_thread(required: c_int, provided: *mut c_int) -> c_int {
    if !(THREAD_SINGLE..=THREAD_MULTIPLE).contains(&required) || provided.is_null() {
        return Class::T_INVALID.0;
    }
    tool().begin();
    // SAFETY: the caller's memory.
    unsafe { give(provided, required) };
    0
}

pub fn t_finalize() -> c_int {
    code(tool().end())
}

pub unsafe fn t_enum_get_info(
    enumtype: *mut c_void,
    num: *mut c_int,
    name: *mut c_char,
    name_len: *mut c_int,
) -> c_int {
    code(of_enum(enumtype).map(|e| {
        // SAFETY: the caller's memory.
        unsafe {
            give(num, e.items.len() as c_int);
            put_text(name, name_len, &e.name);
        }
    }))
}

pub unsafe fn t_enum_get_item(
    enumtype: *mut c_void,
    item: c_int,
    value: *mut c_int,
    name: *mut c_char,
    name_len: *mut c_int,
) -> c_int {
    code(of_enum(enumtype).and_then(|e| {
        let at = usize::try_from(item).ok().filter(|at| *at < e.items.len()).ok_or(Class::T_INVALID_ITEM)?;
        // SAFETY: the caller's memory.
        unsafe {
            give(value, item);
            put_text(name, name_len, e.items[at]);
        }
        Ok(())
    }))
}

/// Returns the enumeration of a handle.
fn of_enum(at: *mut c_void) -> Answer<&'static netmod_mpi::tool::enums::Enumeration> {
    let lists = tool().lists()?;
    at.addr().checked_sub(1).and_then(|at| lists.enums.get(at)).ok_or(Class::T_INVALID_HANDLE)
}
