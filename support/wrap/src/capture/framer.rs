//! Finds frames in a stream of received bytes that may be cut anywhere.

use netmod_core::{HDR_LEN, Header, NETMOD_FRAME, RxBytes};

/// Returns the number of payload bytes after a header, which the upper layer knows.
///
/// `None` if the bytes are no header.
pub type PayloadLen = fn(&Header) -> Option<u64>;

/// A received frame: its header, and as much of its payload as is kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub header: Header,
    pub payload_len: u64,
    pub payload: Vec<u8>,
}

/// The result of feeding bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Frame(Frame),
    /// These bytes should have been a header. No frame is found after them.
    Nonsense(Header),
}

/// The framer of one VC's stream.
#[derive(Debug)]
pub(super) struct Framer {
    header: Header,
    have: usize,
    /// Payload bytes of the present frame that have not come.
    left: u64,
    /// The present frame, until enough of its payload has come.
    open: Option<Frame>,
    lost: bool,
}

impl Framer {
    pub(super) fn new() -> Framer {
        Framer { header: [0; HDR_LEN], have: 0, left: 0, open: None, lost: false }
    }

    /// Restarts for another connection.
    pub(super) fn reset(&mut self) {
        *self = Framer::new();
    }

    /// Takes bytes, and reports the frames that they complete.
    pub(super) fn feed(
        &mut self,
        mut bytes: RxBytes<'_>,
        snap: usize,
        payload_len: PayloadLen,
        mut found: impl FnMut(Found),
    ) {
        while !self.lost {
            if let Some(frame) = &mut self.open {
                let wanted = frame.payload_len.min(snap as u64) as usize;
                let n = (wanted - frame.payload.len()).min(bytes.len());
                bytes.take(n).append_to(&mut frame.payload);
                bytes = bytes.skip(n);
                self.left -= n as u64;
                if frame.payload.len() < wanted {
                    return;
                }
                if let Some(frame) = self.open.take() {
                    found(Found::Frame(frame));
                }
            }
            let n = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
            bytes = bytes.skip(n);
            self.left -= n as u64;
            if bytes.is_empty() {
                return;
            }
            let n = bytes.copy_to(&mut self.header[self.have..]);
            bytes = bytes.skip(n);
            self.have += n;
            if self.have < HDR_LEN {
                return;
            }
            self.have = 0;
            let header = self.header;
            let len = if header[0] == NETMOD_FRAME { Some(0) } else { payload_len(&header) };
            let Some(len) = len else {
                self.lost = true;
                return found(Found::Nonsense(header));
            };
            self.left = len;
            self.open = Some(Frame { header, payload_len: len, payload: Vec::new() });
        }
    }
}
