//! Values and statuses of PMIx.

use std::ffi::c_int;

/// `pmix_status_t`: 0 is success, errors are negative.
pub(super) type Status = c_int;

pub(super) const SUCCESS: Status = 0;
pub(super) const ERR_NOT_FOUND: Status = -46;
/// A value of the type that the launcher gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Datum {
    Text(String),
    Number(i128),
    Bytes(Vec<u8>),
    /// A type that is not needed here.
    Other(u16),
}
