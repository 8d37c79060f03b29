//! Error codes and classes between C and the library.

use core::ffi::c_int;

use netmod_mpi::{Class, Codes, consts};
use netmod_mpi_common::calls::CODES;

use crate::classes::{class_in, class_out};

/// `MPI_ERR_LASTCODE`.
const LASTCODE: c_int = 0x3fff;
/// Bits of a code with the class.
const CLASS: c_int = 0x3f;
/// Bits of a code below the number of a text.
const TEXT_SHIFT: u32 = 6;
/// The first number of a text: classes of the tool interface are below its codes.
const FIRST_TEXT: u32 = 16;
/// Numbers of texts, so that no code is greater than [`LASTCODE`].
const TEXTS: u32 = 240;

/// A number that is no code of the library.
const NO_CODE: c_int = c_int::MIN;

/// Returns what the program sees of a code or class of the library.
///
/// The library's codes are larger than this interface allows. A code here is the class and the low
/// part of the number of the text, so that the latest texts are found again.
#[inline]
pub(crate) fn code_out(code: c_int) -> c_int {
    if code == 0 { 0 } else { error_out(code) }
}

/// Returns the class of this interface for one of the library's, in the library's number.
fn shown(class: Class) -> Class {
    match class {
        Class::PROC_FAILED | Class::PROC_FAILED_PENDING => Class::PROC_ABORTED,
        Class::REVOKED => Class::COMM,
        other => Class(class_in(class_out(other.0))),
    }
}

#[cold]
fn error_out(code: c_int) -> c_int {
    // The greatest code is used for none, so that it may say that the program has added none.
    if code >= consts::LASTCODE {
        return code - consts::LASTCODE + LASTCODE;
    }
    let (class, text) = Codes::parts(code);
    let class = class_out(shown(class).0);
    // A class that is no part of a code stands alone.
    if text == 0 || class & !CLASS != 0 {
        class
    } else {
        class | ((FIRST_TEXT + text % TEXTS) << TEXT_SHIFT) as c_int
    }
}

/// Returns the code or class of the library that the program means.
pub(crate) fn code_in(code: c_int) -> c_int {
    if code > LASTCODE {
        return code.saturating_sub(LASTCODE).saturating_add(consts::LASTCODE);
    }
    let text = (code.max(0) as u32) >> TEXT_SHIFT;
    match text.checked_sub(FIRST_TEXT) {
        Some(_) if code & CLASS == 0 => NO_CODE,
        Some(low) => CODES.latest(Class(class_in(code & CLASS)), shown, low, TEXTS),
        None => bare_class_in(code),
    }
}

/// Returns the class of the library for one without a text.
fn bare_class_in(code: c_int) -> c_int {
    let class = class_in(code);
    // Above the classes of MPI only those of the tool interface mean something.
    if code > CLASS && class == code { NO_CODE } else { class }
}

#[cfg(test)]
mod tests;
