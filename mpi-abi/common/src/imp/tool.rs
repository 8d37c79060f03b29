//! The tool interface: it is initialized and ended, and has no variables, categories or events yet.
//!
//! Its functions return its own error codes, without error handlers, and need no library.

use core::ffi::{c_int, c_void};
use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

use netmod_mpi::Class;
use netmod_mpi::consts::{THREAD_MULTIPLE, THREAD_SINGLE};

/// The users and sessions of the interface.
#[derive(Debug, Default)]
struct Tool {
    /// Calls of `MPI_T_init_thread` without one of `MPI_T_finalize`.
    users: usize,
    /// Sessions of performance variables, by number.
    sessions: HashSet<usize>,
    /// Sessions that were made.
    made: usize,
}

/// Its address means all handles of a session, in MPICH's interface.
pub static ALL_HANDLES: c_int = 0;
/// The same in the standard's.
const ALL_HANDLES_OF_STANDARD: usize = 1;

static TOOL: LazyLock<Mutex<Tool>> = LazyLock::new(Mutex::default);

/// Runs a function of the interface, and returns its error code.
fn run(function: impl FnOnce(&mut Tool) -> Result<(), Class>) -> c_int {
    let mut tool = TOOL.lock().unwrap_or_else(PoisonError::into_inner);
    if tool.users == 0 {
        return Class::T_NOT_INITIALIZED.0;
    }
    function(&mut tool).map_or_else(|class| class.0, |()| 0)
}

/// Answers for a function about something of which there is none.
pub fn missing(class: Class) -> c_int {
    run(|_| Err(class))
}

/// Writes a result.
///
/// # Safety
/// The pointer is NULL or points to memory of the caller.
unsafe fn put<T>(at: *mut T, value: T) -> Result<(), Class> {
    if at.is_null() {
        return Err(Class::T_INVALID);
    }
    // SAFETY: as the caller promises.
    unsafe { at.write(value) };
    Ok(())
}

pub unsafe fn t_init_thread(required: c_int, provided: *mut c_int) -> c_int {
    if !(THREAD_SINGLE..=THREAD_MULTIPLE).contains(&required) || provided.is_null() {
        return Class::T_INVALID.0;
    }
    TOOL.lock().unwrap_or_else(PoisonError::into_inner).users += 1;
    // SAFETY: the caller's memory.
    unsafe { provided.write(required) };
    0
}

pub fn t_finalize() -> c_int {
    run(|tool| {
        tool.users -= 1;
        if tool.users == 0 {
            tool.sessions.clear();
        }
        Ok(())
    })
}

/// Functions that tell how many there are of something.
macro_rules! none {
    ($($name:ident)*) => {
        $(pub unsafe fn $name(number: *mut c_int) -> c_int {
            // SAFETY: the caller's memory.
            run(|_| unsafe { put(number, 0) })
        })*
    };
}

none! { t_category_get_num t_cvar_get_num t_event_get_num t_pvar_get_num t_source_get_num }

/// Tells how often the categories have changed: they never do.
pub unsafe fn t_category_changed(number: *mut c_int) -> c_int {
    // SAFETY: the caller's memory.
    run(|_| unsafe { put(number, 0) })
}

pub unsafe fn t_pvar_session_create(session: *mut *mut c_void) -> c_int {
    run(|tool| {
        // A session is its number as an address; NULL is none.
        let number = tool.made + 1;
        // SAFETY: the caller's memory.
        unsafe { put(session, core::ptr::without_provenance_mut(number))? };
        tool.made = number;
        tool.sessions.insert(number);
        Ok(())
    })
}

pub unsafe fn t_pvar_session_free(session: *mut *mut c_void) -> c_int {
    run(|tool| {
        if session.is_null() {
            return Err(Class::T_INVALID);
        }
        // SAFETY: the caller's memory.
        let number = unsafe { session.read() }.addr();
        if !tool.sessions.remove(&number) {
            return Err(Class::T_INVALID_SESSION);
        }
        // SAFETY: the caller's memory.
        unsafe { put(session, core::ptr::null_mut()) }
    })
}

/// Returns true for the address that means all handles of a session, in either interface.
fn is_all_handles(at: *const c_void) -> bool {
    at.addr() == ALL_HANDLES_OF_STANDARD || core::ptr::eq(at.cast(), &raw const ALL_HANDLES)
}

/// Functions on one variable of a session, or on all, of which there are none.
macro_rules! on_variables {
    ($($name:ident)*) => {
        $(pub fn $name(session: *mut c_void, variable: *mut c_void) -> c_int {
            run(|tool| match tool.sessions.contains(&session.addr()) {
                false => Err(Class::T_INVALID_SESSION),
                true if is_all_handles(variable) => Ok(()),
                true => Err(Class::T_INVALID_HANDLE),
            })
        })*
    };
}

on_variables! { t_pvar_start t_pvar_stop t_pvar_reset }
