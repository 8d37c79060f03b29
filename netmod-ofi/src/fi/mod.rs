//! Owned wrappers of libfabric's objects: the only module that calls libfabric.
//!
//! All unsafe code of the netmod is here. The interface is safe except for lent memory
//! ([`netmod_core::buf`]), which stays lent until the operation's completion has been seen.

pub(crate) mod atomic;
pub(crate) mod endpoint;
pub mod info;
pub(crate) mod ops;
pub(crate) mod port;
pub(crate) mod region;
pub(crate) mod shared;
#[cfg(test)]
mod shared_tests;
pub(crate) mod traits;

use crate::error::{FabricError, Refused};
use libfabric_sys::Library;

/// Checks a call that returns 0, or a negative error number.
pub(crate) fn check(lib: &Library, call: &'static str, rc: i64) -> Result<(), Refused> {
    match rc {
        0.. => Ok(()),
        rc if rc == -i64::from(libfabric_sys::consts::FI_EAGAIN) => Err(Refused::Again),
        rc => Err(Refused::Failed(FabricError::Call { call, why: lib.error(rc) })),
    }
}
