//! The hello's frames: layout, bounds, and collecting one from pieces.
//!
//! All integers are little-endian. A frame is
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 4 | magic, `93 4e 4d 54` |
//! | 4 | 1 | type |
//! | 5 | 1 | zero |
//! | 6 | 2 | length of the body |
//! | 8 | | body |
//!
//! and each type has one length of body, for ever: what later versions have to say goes into frames
//! of other types, which both sides announce by capabilities.
//!
//! | type | body |
//! |---|---|
//! | 1 HELLO | version min u16, version max u16, purpose u32 (0: the VC, 1: connect to root, 2: a rail of the VC), capabilities u64, initiator's group 16 and rank u32, responder's group 16 and rank u32, port tag or number of the rail u64, incarnation u64, number of the dial u64, session u64 (0: a fresh one), position u64, pairs 80, nonce 32 |
//! | 2 CHALLENGE | version u16, zero 6, capabilities u64, incarnation u64, nonce 32, MAC 32 |
//! | 3 PROOF | MAC 32 |
//! | 4 ACCEPT | position u64, pairs 80, MAC 32 |
//! | 5 REJECT | reason u8, proved u8 (0 or 1), zero 6, pairs 80 (zero if not proved), MAC 32 (zero if not proved) |
//! | 6 READY | MAC 32 |
//! | 7 GOODBYE | |
//!
//! Pairs are described at [`super::Pairs`].
//! A position is how many bytes of the session its sender has read behind the hello, over all connections.

use super::HelloError;
use super::pairs::PAIRS_LEN;

/// First bytes of every frame. The first is no ASCII, no TLS record type and no UTF-8 start byte.
pub const MAGIC: [u8; 4] = [0x93, b'N', b'M', b'T'];
/// Bytes before the body.
pub const HEADER_LEN: usize = 8;
/// Longest frame that a length field may announce.
pub const MAX_FRAME: usize = 512;
/// Length of READY.
pub(crate) const READY_LEN: usize = HEADER_LEN + MAC_LEN;
/// Longest frame of this version.
pub(super) const LONGEST: usize = HEADER_LEN + HELLO_BODY;

pub(super) const HELLO_BODY: usize = 128 + PAIRS_LEN;
pub(super) const CHALLENGE_BODY: usize = 88;
pub(super) const MAC_LEN: usize = 32;
pub(super) const ACCEPT_BODY: usize = 8 + PAIRS_LEN + MAC_LEN;
pub(super) const REJECT_BODY: usize = 8 + PAIRS_LEN + MAC_LEN;

/// The type of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum FrameType {
    /// The initiator names itself and whom it wants.
    Hello = 1,
    /// The responder proves that it knows the key.
    Challenge = 2,
    /// The initiator proves it too.
    Proof = 3,
    /// The responder promises to take the connection.
    Accept = 4,
    /// The responder refuses the connection.
    Reject = 5,
    /// The initiator has adopted the connection.
    Ready = 6,
    /// The initiator gives the connection up.
    Goodbye = 7,
}

impl FrameType {
    fn from_wire(code: u8) -> Option<FrameType> {
        Some(match code {
            1 => FrameType::Hello,
            2 => FrameType::Challenge,
            3 => FrameType::Proof,
            4 => FrameType::Accept,
            5 => FrameType::Reject,
            6 => FrameType::Ready,
            7 => FrameType::Goodbye,
            _ => return None,
        })
    }

    pub(super) const fn body_len(self) -> usize {
        match self {
            FrameType::Hello => HELLO_BODY,
            FrameType::Challenge => CHALLENGE_BODY,
            FrameType::Proof | FrameType::Ready => MAC_LEN,
            FrameType::Accept => ACCEPT_BODY,
            FrameType::Reject => REJECT_BODY,
            FrameType::Goodbye => 0,
        }
    }
}

/// A frame to send, in place.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use = "a frame has to be sent"]
pub struct Frame {
    bytes: [u8; LONGEST],
    len: u8,
}

impl Frame {
    pub(super) fn new(kind: FrameType) -> Frame {
        let mut frame = Frame { bytes: [0; LONGEST], len: HEADER_LEN as u8 };
        frame.bytes[..4].copy_from_slice(&MAGIC);
        frame.bytes[4] = kind as u8;
        frame.bytes[6..8].copy_from_slice(&(kind.body_len() as u16).to_le_bytes());
        frame
    }

    pub(super) fn put(mut self, field: &[u8]) -> Frame {
        let at = usize::from(self.len);
        self.bytes[at..at + field.len()].copy_from_slice(field);
        self.len += field.len() as u8;
        self
    }

    /// The bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    pub(super) fn body(&self) -> Fields<'_> {
        Fields(&self.as_bytes()[HEADER_LEN..])
    }
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl core::fmt::Debug for Frame {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Frame(type {}, {} bytes)", self.bytes[4], self.len)
    }
}

/// Takes fixed fields off a body whose length has been checked.
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// The next `N` bytes; zeroes behind the end, which a checked length excludes.
    pub(super) fn take<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk::<N>() {
            Some((field, rest)) => {
                self.0 = rest;
                *field
            }
            None => [0; N],
        }
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    pub(super) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}

/// Collects one frame from pieces of any size, and looks at each byte as early as it says something.
#[derive(Clone, Debug)]
pub(super) struct Collector {
    frame: Frame,
    /// A new frame begins with the next byte.
    fresh: bool,
}

impl Collector {
    pub(super) fn new() -> Collector {
        Collector { frame: Frame { bytes: [0; LONGEST], len: 0 }, fresh: true }
    }

    /// Takes bytes up to the end of the present frame. `allowed` are the types that may come now.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        allowed: &[FrameType],
    ) -> Result<(usize, Option<(FrameType, Frame)>), HelloError> {
        if self.fresh {
            self.frame.len = 0;
            self.fresh = false;
        }
        let mut used = self.fill(bytes, HEADER_LEN);
        let have = usize::from(self.frame.len);
        let seen = have.min(MAGIC.len());
        if self.frame.bytes[..seen] != MAGIC[..seen] {
            let mut start = [0; 4];
            start[..seen].copy_from_slice(&self.frame.bytes[..seen]);
            return Err(HelloError::NotOurs { start, len: seen as u8 });
        }
        if have < HEADER_LEN {
            return Ok((used, None));
        }
        let kind = self.check_header(allowed)?;
        used += self.fill(&bytes[used..], HEADER_LEN + kind.body_len());
        if usize::from(self.frame.len) < HEADER_LEN + kind.body_len() {
            return Ok((used, None));
        }
        self.fresh = true;
        Ok((used, Some((kind, self.frame))))
    }

    fn fill(&mut self, bytes: &[u8], upto: usize) -> usize {
        let at = usize::from(self.frame.len);
        let n = upto.saturating_sub(at).min(bytes.len());
        self.frame.bytes[at..at + n].copy_from_slice(&bytes[..n]);
        self.frame.len += n as u8;
        n
    }

    fn check_header(&self, allowed: &[FrameType]) -> Result<FrameType, HelloError> {
        let header = &self.frame.bytes;
        let code = header[4];
        let len = usize::from(u16::from_le_bytes([header[6], header[7]]));
        let Some(kind) = FrameType::from_wire(code) else {
            return Err(HelloError::UnknownType { code });
        };
        if !allowed.contains(&kind) {
            return Err(HelloError::Unexpected { kind });
        }
        if len + HEADER_LEN > MAX_FRAME {
            return Err(HelloError::Oversized { kind, len });
        }
        if len != kind.body_len() {
            return Err(HelloError::BadLength { kind, len, want: kind.body_len() });
        }
        if header[5] != 0 {
            return Err(HelloError::Reserved { kind });
        }
        Ok(kind)
    }
}
