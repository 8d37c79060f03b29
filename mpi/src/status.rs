//! The result of a finished operation: its status, or the error of its message.

use ch3_shim::{RawReq, Status as DeviceStatus, Vci};

use crate::comm::CommCore;
use crate::consts::{ANY_SOURCE, ANY_TAG, PROC_NULL};
use crate::error::{Arrived, Class, MpiError, Result};

/// The status of a finished operation (`MPI_Status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Rank of the sender in the communicator.
    pub source: i32,
    /// Tag of the message.
    pub tag: i32,
    /// Error code of the operation; set by calls that finish several operations.
    pub error: i32,
    /// Bytes of the message.
    pub count_bytes: i64,
    /// True if the operation was cancelled.
    pub cancelled: bool,
}

impl Status {
    /// The status of no operation.
    pub const EMPTY: Status =
        Status { source: ANY_SOURCE, tag: ANY_TAG, error: 0, count_bytes: 0, cancelled: false };

    /// The status of a receive from nobody.
    pub const OF_NOBODY: Status = Status { source: PROC_NULL, ..Status::EMPTY };

    /// Creates the status of a message, with the sender's rank in the communicator.
    #[inline]
    pub(crate) fn of_message(status: DeviceStatus, core: &CommCore) -> Status {
        let source = match u32::try_from(status.source) {
            Ok(place) => core.peers().rank(place).map_or(ANY_SOURCE, u32::cast_signed),
            Err(_) => status.source,
        };
        Status {
            source,
            tag: status.tag,
            error: 0,
            count_bytes: i64::try_from(status.len).unwrap_or(i64::MAX),
            cancelled: status.cancelled,
        }
    }

    /// Creates the status of a send, of which only the cancellation means something.
    #[inline]
    pub(crate) fn of_send(cancelled: bool) -> Status {
        Status { cancelled, ..Status::EMPTY }
    }

    /// Creates the status of an operation that has failed: that of its message, if that has come.
    #[cold]
    pub fn of_failure(error: &MpiError) -> Status {
        let Some(Arrived { source, tag, bytes }) = error.arrived else { return Status::EMPTY };
        Status { source, tag, count_bytes: bytes, ..Status::EMPTY }
    }
}

impl Default for Status {
    fn default() -> Status {
        Status::EMPTY
    }
}

/// Takes the result of a message: its status, with the sender's rank in the communicator.
pub(crate) fn take(vci: &mut Vci, raw: RawReq, core: &CommCore) -> Result<Status> {
    match vci.take_raw(raw) {
        Ok(status) => Ok(Status::of_message(status, core)),
        Err(e) => Err(failure(e, core)),
    }
}

/// Returns the error of a message, with ranks of the communicator.
#[cold]
pub(crate) fn failure(error: ch3_shim::Error, core: &CommCore) -> Box<MpiError> {
    core.raised(match error {
        ch3_shim::Error::Truncated { status, sent } => {
            let status = Status::of_message(status, core);
            let text = format!(
                "the message of {sent} bytes from rank {} with tag {} does not fit the receive's buffer of {} bytes; \
                 make that larger",
                status.source, status.tag, status.count_bytes
            );
            let Status { source, tag, count_bytes: bytes, .. } = status;
            let arrived = Some(Arrived { source, tag, bytes });
            Box::new(MpiError { arrived, ..*MpiError::new(Class::TRUNCATE, text) })
        }
        other => other.into(),
    })
}
