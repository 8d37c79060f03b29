//! libfabric's objects, owned: the only part of the netmod that calls libfabric.
//!
//! Everything unsafe of the netmod is here. What the other parts call is safe, but for memory that is lent
//! ([`netmod_core::buf`]): it stays lent until the operation's completion has been seen.

pub(crate) mod endpoint;
pub mod info;
pub(crate) mod ops;
pub(crate) mod port;
pub(crate) mod region;
pub(crate) mod shared;
#[cfg(test)]
mod shared_tests;

use libfabric_sys::Library;
use netmod_framed::device::Refused;

/// The outcome of a call that returns 0 or a negative number.
pub(crate) fn check(lib: &Library, call: &str, rc: i64) -> Result<(), Refused> {
    match rc {
        0.. => Ok(()),
        rc if rc == -i64::from(libfabric_sys::consts::FI_EAGAIN) => Err(Refused::Again),
        rc => Err(Refused::Failed(format!("{call}: {}", lib.error(rc)))),
    }
}
