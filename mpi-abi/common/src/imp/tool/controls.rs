//! Control variables.

use core::ffi::{c_char, c_int, c_void};

pub(super) use netmod_mpi::tool::controls::TEXT;

use super::{NO_OBJECT, code, enumeration, free, get_value, give, handle, index, name, put, put_count};
use super::{put_text, put_value, running, tool};

pub unsafe fn t_cvar_get_num(number: *mut c_int) -> c_int {
    // SAFETY: the caller's memory.
    code(tool().lists().and_then(|lists| unsafe { put_count(number, lists.controls.len()) }))
}

pub unsafe fn t_cvar_get_index(text: *const c_char, result: *mut c_int) -> c_int {
    // SAFETY: the caller's string and memory.
    code(unsafe {
        let found = name(text).and_then(|name| tool().control_index(name));
        found.and_then(|found| put_count(result, found))
    })
}

#[expect(clippy::too_many_arguments, reason = "the standard's")]
pub unsafe fn t_cvar_get_info(
    cvar_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    datatype: *mut c_int,
    enumtype: *mut *mut c_void,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
    scope: *mut c_int,
) -> c_int {
    code(index(cvar_index).and_then(|index| tool().control(index)).map(|control| {
        // SAFETY: the caller's memory.
        unsafe {
            put_text(name, name_len, control.name);
            put_text(desc, desc_len, control.meaning);
            give(verbosity, control.verbosity as c_int);
            give(datatype, control.default.datatype().0 as c_int);
            give(enumtype, enumeration(control.enumeration));
            give(bind, NO_OBJECT);
            give(scope, control.scope as c_int);
        }
    }))
}

pub unsafe fn t_cvar_handle_alloc(
    cvar_index: c_int,
    _object: *mut c_void,
    result: *mut *mut c_void,
    count: *mut c_int,
) -> c_int {
    code(index(cvar_index).and_then(|index| tool().control_alloc(index)).and_then(|(made, elements)| {
        // SAFETY: the caller's memory.
        unsafe {
            give(count, elements as c_int);
            put(result, handle(made))
        }
    }))
}

pub unsafe fn t_cvar_handle_free(at: *mut *mut c_void) -> c_int {
    // SAFETY: the caller's memory.
    code(unsafe { free(at, |handle| tool().control_free(handle)) })
}

pub unsafe fn t_cvar_read(at: *mut c_void, buffer: *mut c_void) -> c_int {
    // SAFETY: the caller's memory, which has room for the variable.
    code(tool().control_read(running(), at.addr()).and_then(|value| unsafe { put_value(buffer, &value) }))
}

pub unsafe fn t_cvar_write(at: *mut c_void, buffer: *const c_void) -> c_int {
    code(tool().control_of(at.addr()).and_then(|control| {
        // SAFETY: the caller's memory, which has a value of the variable's type.
        let value = unsafe { get_value(buffer, &control.default)? };
        tool().control_write(running(), at.addr(), &value)
    }))
}
