//! Codes of errors and their texts.

use core::ffi::{c_char, c_int};

use crate::calls::{CODES, code};
use crate::convert::{put, put_text, text};

/// Bytes of `MPI_MAX_ERROR_STRING`.
const ERROR_TEXT: usize = 512;

pub(crate) unsafe fn error_string(number: c_int, text: *mut c_char, length: *mut c_int) -> c_int {
    code(CODES.string(number).and_then(|words| {
        // SAFETY: the standard wants room for so many bytes, and for the length.
        unsafe { put_text(text, ERROR_TEXT, &words).and_then(|written| put(length, written as i64)) }
    }))
}

pub(crate) unsafe fn error_class(number: c_int, class: *mut c_int) -> c_int {
    // SAFETY: the caller's memory.
    code(CODES.class(number).and_then(|found| unsafe { put(class, found) }))
}

pub(crate) unsafe fn add_error_class(class: *mut c_int) -> c_int {
    // SAFETY: the caller's memory.
    code(unsafe { put(class, CODES.add_class()) })
}

pub(crate) unsafe fn add_error_code(class: c_int, number: *mut c_int) -> c_int {
    // SAFETY: the caller's memory.
    code(CODES.add_code(class).and_then(|made| unsafe { put(number, made) }))
}

pub(crate) unsafe fn add_error_string(number: c_int, words: *const c_char) -> c_int {
    // SAFETY: the caller's string.
    code(unsafe { text(words) }.and_then(|words| CODES.add_string(number, words)))
}

/// Functions that take out what was added.
macro_rules! removes {
    ($($name:ident $method:ident;)*) => {
        $(pub(crate) fn $name(number: c_int) -> c_int {
            code(CODES.$method(number))
        })*
    };
}

removes! {
    remove_error_class remove_class;
    remove_error_code remove_code;
    remove_error_string remove_string;
}
