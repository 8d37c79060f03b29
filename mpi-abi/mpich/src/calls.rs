//! The way of a call from C into the library, and that of an error back to the program.

use core::ffi::c_int;

use netmod_mpi::error::{Codes, MpiError, Result};

/// Codes of errors; they are known before the library is initialized and after its end.
pub(crate) static CODES: Codes = Codes::new();

/// Returns the code of a result.
pub(crate) fn code(result: Result<()>) -> c_int {
    result.map_or_else(|error| CODES.code(&error), |()| 0)
}

/// Answers a call of a function that is not there yet, and says so: no object can exist whose error
/// handler would.
#[cold]
pub(crate) fn unsupported(name: &str) -> c_int {
    let error = MpiError::unsupported(name);
    eprintln!("{name}: {error}");
    CODES.code(&error)
}
