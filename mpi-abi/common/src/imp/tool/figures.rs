//! Performance variables, their sessions and handles.

use core::ffi::{c_char, c_int, c_void};

use netmod_mpi::Class;
use netmod_mpi::tool::Value;
use netmod_mpi::tool::figures::{Figure, FigureClass};
use netmod_mpi::tool::sessions::Action;

use super::{ALL_HANDLES, ALL_HANDLES_OF_STANDARD, NO_OBJECT};
use super::{code, enumeration, free, get_value, give, handle, index, name, put, put_count, put_text};
use super::{put_value, running, tool};

pub unsafe fn t_pvar_get_num(number: *mut c_int) -> c_int {
    // SAFETY: the caller's memory.
    code(tool().lists().and_then(|lists| unsafe { put_count(number, lists.figures.len()) }))
}

pub unsafe fn t_pvar_get_index(text: *const c_char, class: c_int, result: *mut c_int) -> c_int {
    // SAFETY: the caller's string and memory.
    code(unsafe {
        tool().lists().and_then(|lists| {
            let name = name(text)?;
            let is_it = |figure: &Figure| figure.name == name && figure.class as c_int == class;
            let found = lists.figures.iter().position(is_it).ok_or(Class::T_INVALID_NAME)?;
            put_count(result, found)
        })
    })
}

/// Returns a value of the type of a figure.
fn like(figure: &Figure) -> Value {
    match (figure.enumeration(), figure.class) {
        (Some(_), _) => Value::Int(0),
        (None, FigureClass::Timer) => Value::Real(0.0),
        (None, _) => Value::Number(0),
    }
}

#[expect(clippy::too_many_arguments, reason = "the standard's")]
pub unsafe fn t_pvar_get_info(
    pvar_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    class: *mut c_int,
    datatype: *mut c_int,
    enumtype: *mut *mut c_void,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
    readonly: *mut c_int,
    continuous: *mut c_int,
    atomic: *mut c_int,
) -> c_int {
    code(index(pvar_index).and_then(|index| tool().figure(index)).map(|figure| {
        let counts = c_int::from(figure.class.counts());
        // SAFETY: the caller's memory.
        unsafe {
            put_text(name, name_len, &figure.name);
            put_text(desc, desc_len, &figure.meaning);
            give(verbosity, figure.verbosity as c_int);
            give(class, figure.class as c_int);
            give(datatype, like(figure).datatype().0 as c_int);
            give(enumtype, enumeration(figure.enumeration()));
            give(bind, NO_OBJECT);
            give(readonly, 1 - counts);
            give(continuous, 1 - counts);
            give(atomic, counts);
        }
    }))
}

pub unsafe fn t_pvar_session_create(session: *mut *mut c_void) -> c_int {
    // SAFETY: the caller's memory.
    code(tool().session_create().and_then(|made| unsafe { put(session, handle(made)) }))
}

pub unsafe fn t_pvar_session_free(session: *mut *mut c_void) -> c_int {
    // SAFETY: the caller's memory.
    code(unsafe { free(session, |session| tool().session_free(session)) })
}

pub unsafe fn t_pvar_handle_alloc(
    session: *mut c_void,
    pvar_index: c_int,
    _object: *mut c_void,
    result: *mut *mut c_void,
    count: *mut c_int,
) -> c_int {
    let made = index(pvar_index).and_then(|index| tool().handle_alloc(running(), session.addr(), index));
    code(made.and_then(|made| {
        // SAFETY: the caller's memory.
        unsafe {
            give(count, 1);
            put(result, handle(made))
        }
    }))
}

pub unsafe fn t_pvar_handle_free(session: *mut c_void, at: *mut *mut c_void) -> c_int {
    // SAFETY: the caller's memory.
    code(unsafe { free(at, |handle| tool().handle_free(session.addr(), handle)) })
}

pub unsafe fn t_pvar_read(session: *mut c_void, at: *mut c_void, buffer: *mut c_void) -> c_int {
    let value = tool().handle_read(running(), (session.addr(), at.addr()));
    // SAFETY: the caller's memory, which has room for the variable.
    code(value.and_then(|value| unsafe { put_value(buffer, &value) }))
}

pub unsafe fn t_pvar_readreset(session: *mut c_void, at: *mut c_void, buffer: *mut c_void) -> c_int {
    if buffer.is_null() {
        return Class::T_INVALID.0;
    }
    let value = tool().handle_readreset(running(), (session.addr(), at.addr()));
    // SAFETY: the caller's memory, which has room for the variable.
    code(value.and_then(|value| unsafe { put_value(buffer, &value) }))
}

pub unsafe fn t_pvar_write(session: *mut c_void, at: *mut c_void, buffer: *const c_void) -> c_int {
    if buffer.is_null() {
        return Class::T_INVALID.0;
    }
    // SAFETY: the caller's memory, which has a value of the variable's type and is not NULL.
    let value = |like: &Value| unsafe { get_value(buffer, like) }.unwrap_or_else(|_| like.clone());
    code(tool().handle_write(running(), (session.addr(), at.addr()), value))
}

/// Returns true for the address that means all handles of a session, in either interface.
fn is_all_handles(at: *const c_void) -> bool {
    at.addr() == ALL_HANDLES_OF_STANDARD || core::ptr::eq(at.cast(), &raw const ALL_HANDLES)
}

/// Functions on one handle of a session, or on all.
macro_rules! on_handles {
    ($($name:ident $action:ident)*) => {
        $(pub fn $name(session: *mut c_void, at: *mut c_void) -> c_int {
            code(match is_all_handles(at) {
                true => tool().session_do(running(), session.addr(), Action::$action),
                false => tool().handle_do(running(), (session.addr(), at.addr()), Action::$action),
            })
        })*
    };
}

on_handles! { t_pvar_start Start t_pvar_stop Stop t_pvar_reset Reset }
