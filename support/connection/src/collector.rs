//! Collecting a frame of the handshake from pieces.

use std::mem;

use crate::HandshakeError;
use crate::frame::{Frame, FrameType, HEADER_LEN, MAGIC, MAX_FRAME};

/// Collects one frame from pieces of any size, and checks each byte as early as possible.
#[derive(Clone, Debug)]
pub(crate) struct Collector {
    /// The bytes of the present frame so far. Room for the whole frame is reserved when its length
    /// is known and valid.
    pub(crate) bytes: Vec<u8>,
}

impl Collector {
    pub(crate) fn new() -> Collector {
        Collector { bytes: Vec::new() }
    }

    /// Takes bytes up to the end of the present frame. `allowed` are the types that may come now.
    pub(crate) fn take(
        &mut self,
        bytes: &[u8],
        allowed: &[FrameType],
    ) -> Result<(usize, Option<(FrameType, Frame)>), HandshakeError> {
        let mut used = self.fill(bytes, HEADER_LEN);
        let seen = self.bytes.len().min(MAGIC.len());
        if self.bytes[..seen] != MAGIC[..seen] {
            let mut start = [0; 4];
            start[..seen].copy_from_slice(&self.bytes[..seen]);
            return Err(HandshakeError::NotOurs { start, len: seen as u8 });
        }
        let Some(header) = self.bytes.first_chunk() else { return Ok((used, None)) };
        let (kind, len) = check_header(header, allowed)?;
        used += self.fill(&bytes[used..], HEADER_LEN + len);
        if self.bytes.len() < HEADER_LEN + len {
            return Ok((used, None));
        }
        Ok((used, Some((kind, Frame::of_checked(mem::take(&mut self.bytes))))))
    }

    fn fill(&mut self, bytes: &[u8], upto: usize) -> usize {
        let missing = upto.saturating_sub(self.bytes.len());
        let n = missing.min(bytes.len());
        if n > 0 {
            self.bytes.reserve_exact(missing);
            self.bytes.extend_from_slice(&bytes[..n]);
        }
        n
    }
}

/// Returns the type of a frame, and the length of its body.
fn check_header(
    header: &[u8; HEADER_LEN],
    allowed: &[FrameType],
) -> Result<(FrameType, usize), HandshakeError> {
    let code = header[4];
    let len = usize::from(u16::from_le_bytes([header[6], header[7]]));
    let Some(kind) = FrameType::from_wire(code) else {
        return Err(HandshakeError::UnknownType { code });
    };
    if !allowed.contains(&kind) {
        return Err(HandshakeError::Unexpected { kind });
    }
    if len + HEADER_LEN > MAX_FRAME {
        return Err(HandshakeError::Oversized { kind, len });
    }
    let (least, terms) = kind.lengths();
    let most = least + terms;
    if !(least..=most).contains(&len) {
        return Err(HandshakeError::BadLength { kind, len, least, most });
    }
    if header[5] != 0 {
        return Err(HandshakeError::Reserved { kind });
    }
    Ok((kind, len))
}
