//! The errors of opening the netmod.

use netmod_core::DeviceError;

/// The reason why the netmod does not open.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    /// A setting has a value that means nothing, on whatever host.
    #[error("{0}")]
    Setting(String),
    /// This host lacks what the netmod needs; another netmod may do without.
    #[error(transparent)]
    Host(#[from] DeviceError),
}
