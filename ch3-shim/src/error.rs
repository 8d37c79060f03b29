//! Errors of the device layer.

use netmod_core::{DeviceError, VcError};

use crate::bootstrap::BootstrapError;
use crate::ch3::Failure;
use crate::status::Status;

fn more(others: usize) -> String {
    if others == 0 { String::new() } else { format!(" (and {others} more)") }
}

fn list(failures: &[Failure]) -> String {
    failures.iter().map(|f| f.cause.to_string()).collect::<Vec<_>>().join("; ")
}

/// The error of an operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The rank is not one of the communicator's.
    #[error("rank {rank} is not in the communicator, whose size is {size}")]
    Rank {
        /// The rank of the call.
        rank: i32,
        /// Processes of the communicator.
        size: u32,
    },
    /// The tag of a send is negative, or that of a receive neither a tag nor `ANY_TAG`.
    #[error("tag {0} is not valid: tags are 0 to 2147483647, and ANY_TAG for receives")]
    Tag(i32),
    /// The message was longer than the buffer; what fitted was received.
    #[error("message of {sent} bytes from rank {} with tag {} truncated to {} bytes: the receive's buffer is too small", status.source, status.tag, status.len)]
    Truncated {
        /// Status of the receive, with the bytes that were received.
        status: Status,
        /// Length of the message.
        sent: u64,
    },
    /// The connection to the peer failed.
    #[error(transparent)]
    Peer(#[from] VcError),
    /// A receive or probe from any source may wait for a process that has failed
    /// (`MPI_ERR_PROC_FAILED_PENDING`). The receive stays as it is, unless it was given away with
    /// the call that says so; it can be waited for again after [`crate::Vci::ack_failures`].
    #[error("a message from any source may never come: {cause}{}; acknowledge it (ack_failures) to wait for the other processes", more(*.others))]
    PendingFailed {
        /// A rank that has failed, and was not acknowledged.
        rank: u32,
        /// Cause of the failure.
        cause: VcError,
        /// Number of other failures that were not acknowledged.
        others: usize,
    },
    /// The communicator was revoked ([`crate::Vci::revoke`]).
    #[error(
        "the communicator was revoked: a process has ended all that is under way in it; shrink it, or make another one"
    )]
    Revoked,
    /// Processes have failed, which nobody has acknowledged.
    #[error("finalize: {} of the job's processes failed without being acknowledged (ack_failures): {}", .0.len(), list(.0))]
    ProcessesFailed(Vec<Failure>),
    /// A netmod failed as a whole.
    #[error(transparent)]
    Netmod(#[from] DeviceError),
    /// The process manager failed.
    #[error("process manager: {0}")]
    Launcher(String),
    /// Two jobs could not meet, or part.
    #[error("{0}")]
    Meet(String),
    /// The process is a forked child of the one that made the device.
    #[error(
        "this process was forked from the one that made the device, which alone may use it; call exec in the child, or start it with a launcher of its own"
    )]
    Forked,
    /// A configuration variable has a value that cannot be used.
    #[error("{0}")]
    Config(String),
    /// Something waited for longer than allowed.
    #[error("{0}")]
    Timeout(String),
    /// The call does not fit the state of the device or of the request.
    #[error("{0}")]
    Usage(String),
}

impl From<BootstrapError> for Error {
    /// Keeps the text: errors of operations can be cloned and compared.
    fn from(error: BootstrapError) -> Error {
        Error::Launcher(error.to_string())
    }
}

/// Result of the device layer's operations.
pub type Result<T> = std::result::Result<T, Error>;
