//! Converts errors of libibverbs to those of the trait.

use core::ffi::c_int;
use std::io;

use hca::{Errno, Error, errno};

/// Returns `errno` as the last failed call of this thread has left it.
#[cold]
pub(crate) fn last() -> Errno {
    Errno(io::Error::last_os_error().raw_os_error().filter(|n| *n > 0).unwrap_or(errno::EIO.0))
}

/// Returns the error number of a call. Most calls return the number, some drivers its negative, and
/// some calls -1 with the number in `errno`.
#[cold]
pub(crate) fn number(returned: c_int) -> Errno {
    match returned {
        1.. => Errno(returned),
        -1 | 0 => last(),
        n => Errno(n.saturating_neg()),
    }
}

/// Checks a call that returns 0 on success.
#[inline]
pub(crate) fn check(returned: c_int, call: &'static str, on: impl FnOnce() -> String) -> Result<(), Error> {
    if returned == 0 { Ok(()) } else { Err(Error::new(call, on(), number(returned))) }
}

/// Checks a call that returns an object, or null on failure.
pub(crate) fn made<T>(
    object: *mut T,
    call: &'static str,
    on: impl FnOnce() -> String,
) -> Result<*mut T, Error> {
    if object.is_null() {
        let why = last();
        return Err(Error::new(call, on(), why));
    }
    Ok(object)
}

/// Logs a warning if closing a dropped object has failed.
pub(crate) fn closed(returned: c_int, call: &'static str, device: &str) {
    if returned != 0 {
        let why = Error::new(call, device, number(returned));
        tracing::warn!(%why, "an object does not close; it stays until the device is closed");
    }
}

#[cfg(test)]
#[path = "error_tests.rs"]
mod tests;
