//! Control frames of an adopted connection.
//!
//! Behind READY (and, in the other direction, behind ACCEPT) a connection carries the upper layer's
//! messages, whose headers are 32 bytes and never begin with `ff`. A control frame stands in a
//! header's place, begins with `ff` and has no payload. It carries no MAC: from here on the stream
//! itself has none, and who could forge a GOODBYE could as well forge messages or reset the
//! connection. The bytes that are fixed only guard against a stream that has lost its place.

use super::MAGIC;

/// Length of a control frame: that of a message header.
pub const CONTROL_LEN: usize = 32;
/// First byte of a control frame.
pub const CONTROL_MARK: u8 = 0xff;

/// What a control frame says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Control {
    /// Nothing follows, and what the sender had to say is complete.
    Goodbye = 1,
    /// A responder takes its ACCEPT back; it has read nothing behind the hello.
    Withdrawn = 2,
}

/// A 32-byte block that begins like a control frame and is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("broken control frame of kind {kind}: the stream has lost its place, or the peer is newer")]
pub struct ControlError {
    /// The second byte.
    pub kind: u8,
}

impl Control {
    /// The frame.
    pub const fn emit(self) -> [u8; CONTROL_LEN] {
        let mut out = [0; CONTROL_LEN];
        out[0] = CONTROL_MARK;
        out[1] = self as u8;
        out[4] = MAGIC[0];
        out[5] = MAGIC[1];
        out[6] = MAGIC[2];
        out[7] = MAGIC[3];
        out
    }

    /// `Ok(None)` for a message header, that is, for all that does not begin with `ff`.
    ///
    /// # Errors
    /// If it begins with `ff` and is not exactly a known control frame.
    #[inline]
    pub fn parse(bytes: &[u8; CONTROL_LEN]) -> Result<Option<Control>, ControlError> {
        if bytes[0] != CONTROL_MARK {
            return Ok(None);
        }
        [Control::Goodbye, Control::Withdrawn]
            .into_iter()
            .find(|c| c.emit() == *bytes)
            .map(Some)
            .ok_or(ControlError { kind: bytes[1] })
    }
}
