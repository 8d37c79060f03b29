//! Messages that a probe has found: those that wait, and those that it has matched.

use std::sync::Arc;

use ch3_shim::{RawReq, Vci};
use netmod_core::Segment;

use crate::comm::CommCore;
use crate::consts::PROC_NULL;
use crate::error::{MpiError, Result};
use crate::handle::{Message, Table};
use crate::status::{Status, failure};
use crate::target::Target;

/// A message that was matched and waits to be received.
#[derive(Debug)]
pub(crate) struct Matched {
    message: ch3_shim::Message,
    core: Arc<CommCore>,
}

/// A matched message after the start of its receive.
pub(crate) enum Received {
    Over(ch3_shim::Status),
    UnderWay(RawReq),
}

/// The matched messages of a process.
pub(crate) type Messages = Table<Message, Matched>;

impl Matched {
    /// Notes in an error the communicator of the message.
    #[cold]
    pub(crate) fn raised(&self, error: Box<MpiError>) -> Box<MpiError> {
        self.core.raised(error)
    }

    /// Receives the message if all of it is here; otherwise starts the receive.
    pub(crate) fn receive_at_once(self, vci: &mut Vci, mut room: Segment) -> (Received, Arc<CommCore>) {
        let received = match vci.mrecv_whole(&mut room, self.message) {
            Ok(status) => Received::Over(status),
            Err(message) => Received::UnderWay(vci.imrecv_raw(room, message)),
        };
        (received, self.core)
    }

    /// Starts to receive the message.
    pub(crate) fn receive(self, vci: &mut Vci, room: Segment) -> (RawReq, Arc<CommCore>) {
        (vci.imrecv_raw(room, self.message), self.core)
    }
}

/// Looks for a message that a receive of these arguments would match, without progress.
///
/// # Errors
/// A source that is lost.
pub(crate) fn look(vci: &mut Vci, from: Target<'_>) -> Result<Option<Status>> {
    let found = vci.seek(from.place, from.tag, from.core.inn).map_err(|e| failure(e, from.core))?;
    Ok(found.map(|status| Status::of_message(status, from.core)))
}

/// Works like [`look`]; the message is matched, and gets a handle.
///
/// # Errors
/// As [`look`]; too many matched messages.
pub(crate) fn take(
    vci: &mut Vci,
    messages: &mut Messages,
    from: Target<'_>,
) -> Result<Option<(Message, Status)>> {
    let found = vci.mseek(from.place, from.tag, from.core.inn).map_err(|e| failure(e, from.core))?;
    let Some(message) = found else { return Ok(None) };
    let status = Status::of_message(message.status(), from.core);
    if from.place == PROC_NULL {
        return Ok(Some((Message::NO_PROC, status)));
    }
    let handle = messages.insert(Matched { message, core: Arc::clone(from.core) })?;
    Ok(Some((handle, status)))
}
