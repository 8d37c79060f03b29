//! Values and statuses of PMIx.

use std::ffi::c_int;

/// `pmix_status_t`: 0 is success, errors are negative.
pub(super) type Status = c_int;

pub(super) const SUCCESS: Status = 0;
pub(super) const ERR_NOT_FOUND: Status = -46;
/// The reason why libpmix cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
    /// The library is not loaded.
    #[error(transparent)]
    Open(#[from] dl::OpenError),
    /// It lacks a function: the function's name.
    #[error("it has no {0}")]
    Missing(String),
}

/// The reason why the launcher gives no number.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoNumber {
    /// The value is of another type.
    #[error("{key} is {found:?}, no number")]
    OtherType {
        /// The key, quoted.
        key: String,
        /// The value.
        found: Datum,
    },
    /// The status of libpmix, described.
    #[error("{0}")]
    Status(String),
}

/// A value of the type that the launcher gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Datum {
    Text(String),
    Number(i128),
    Bytes(Vec<u8>),
    /// A type that is not needed here.
    Other(u16),
}
