//! Control frames of an adopted connection.
//!
//! Behind READY (and, in the other direction, behind ACCEPT) a connection carries the upper layer's
//! messages, whose headers are 32 bytes and never begin with `ff`. A control frame stands in a
//! header's place, begins with `ff` and has no payload. It carries no MAC: from here on the stream
//! itself has none, and who could forge a GOODBYE could as well forge messages or reset the
//! connection. The bytes that are fixed only guard against a stream that has lost its place.

use netmod_connection::MAGIC;

/// Length of a control frame: that of a message header.
pub const CONTROL_LEN: usize = 32;
/// First byte of a control frame.
pub const CONTROL_MARK: u8 = 0xff;

/// The meaning of a control frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Control {
    /// Nothing follows, and what the sender had to say is complete.
    Goodbye,
    /// A responder takes its ACCEPT back; it has read nothing behind the handshake.
    Withdrawn,
    /// Position up to which the session has been read; what precedes it need not be kept.
    Ack {
        /// Bytes behind the handshake, over all connections of the session.
        position: u64,
    },
    /// The sender is about to be checkpointed: it closes this connection when it has read
    /// SUSPENDED, and comes back.
    Suspend {
        /// Name of the connection that it is said on, so that it means nothing when it is sent
        /// again on the next one.
        connection: u64,
    },
    /// The sender has read SUSPEND, and will not take the end of the connection for its peer's
    /// death.
    Suspended {
        /// Name of the connection, from SUSPEND.
        connection: u64,
    },
    /// Since a restart the sender listens at this port of the address that this connection leads
    /// to.
    Moved {
        /// The port.
        port: u16,
    },
}

/// A 32-byte block that begins like a control frame and is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("broken control frame of kind {kind}: the stream has lost its place, or the peer is newer")]
pub struct ControlError {
    /// The second byte.
    pub kind: u8,
}

impl Control {
    /// Returns the frame: the mark, the kind (two bits at least between any two), two zeroes, the
    /// magic, its number or zero, zeroes.
    pub const fn emit(self) -> [u8; CONTROL_LEN] {
        let (kind, position) = match self {
            Control::Goodbye => (1, 0),
            Control::Withdrawn => (2, 0),
            Control::Ack { position } => (4, position),
            Control::Suspend { connection } => (7, connection),
            Control::Moved { port } => (8, port as u64),
            Control::Suspended { connection } => (11, connection),
        };
        let mut out = [0; CONTROL_LEN];
        out[0] = CONTROL_MARK;
        out[1] = kind;
        out[4] = MAGIC[0];
        out[5] = MAGIC[1];
        out[6] = MAGIC[2];
        out[7] = MAGIC[3];
        let bytes = position.to_le_bytes();
        let mut i = 0;
        while i < bytes.len() {
            out[8 + i] = bytes[i];
            i += 1;
        }
        out
    }

    /// Parses a frame. Returns `Ok(None)` for a message header: all that does not begin with `ff`.
    ///
    /// # Errors
    /// If it begins with `ff` and is not exactly a known control frame.
    #[inline]
    pub fn parse(bytes: &[u8; CONTROL_LEN]) -> Result<Option<Control>, ControlError> {
        if bytes[0] != CONTROL_MARK {
            return Ok(None);
        }
        let number = bytes[8..].first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
        [
            Control::Goodbye,
            Control::Withdrawn,
            Control::Ack { position: number },
            Control::Suspend { connection: number },
            Control::Moved { port: number as u16 },
            Control::Suspended { connection: number },
        ]
        .into_iter()
        .find(|c| c.emit() == *bytes)
        .map(Some)
        .ok_or(ControlError { kind: bytes[1] })
    }
}

#[cfg(test)]
mod tests;
