//! The frames of the handshake: layout and bounds.
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
//! and each type has one layout of body, for ever: what later versions have to say goes into frames
//! of other types, which both sides announce by capabilities. Its length is fixed but for the terms
//! ([`Terms`]), which take what the length leaves, 0 to [`MAX_TERMS`] bytes.
//!
//! | type | body |
//! |---|---|
//! | 1 HELLO | versions, purpose, names, numbers, terms, nonce 32; see below |
//! | 2 CHALLENGE | version u16, zero 6, capabilities u64, incarnation u64, nonce 32, MAC 32 |
//! | 3 PROOF | MAC 32 |
//! | 4 ACCEPT | number of the responder's last dial u64, position u64, terms, MAC 32 |
//! | 5 REJECT | reason u8, proved u8, zero 6, terms, MAC 32; the last two zero if not proved |
//! | 6 READY | MAC 32 |
//! | 7 GOODBYE | |
//!
//! A HELLO is: version min u16, version max u16, purpose u32 (0: the VC, 1: connect to root, 2: a
//! rail of the VC), capabilities u64, initiator's group 16 and rank u32, responder's group 16 and
//! rank u32, port tag or number of the rail u64, incarnation u64, number of the dial u64, session
//! u64 (0: a fresh one), position u64, terms, nonce 32. In a REJECT, proved is 0 or 1.
//!
//! A position is how many bytes of the session its sender has read behind the hello, over all
//! connections.

use crate::{MAX_TERMS, Terms};

/// First bytes of every frame. The first is no ASCII, no TLS record type and no UTF-8 start byte.
pub const MAGIC: [u8; 4] = [0x93, b'N', b'M', b'T'];
/// Bytes before the body.
pub const HEADER_LEN: usize = 8;
/// Longest frame: a HELLO with all the terms that there may be.
pub const MAX_FRAME: usize = HEADER_LEN + HELLO_FIXED + MAX_TERMS;
/// Length of READY.
pub const READY_LEN: usize = HEADER_LEN + MAC_LEN;

/// Bodies without their terms.
const HELLO_FIXED: usize = 128;
const CHALLENGE_BODY: usize = 88;
const ACCEPT_FIXED: usize = 16 + MAC_LEN;
const REJECT_FIXED: usize = 8 + MAC_LEN;
pub(crate) const MAC_LEN: usize = 32;

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
    /// Returns the type that a frame announces; nothing else of it is looked at.
    pub fn of(frame: &[u8]) -> Option<FrameType> {
        FrameType::from_wire(*frame.get(4)?)
    }

    pub(crate) fn from_wire(code: u8) -> Option<FrameType> {
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

    /// Returns the length of the body without terms, and the most bytes of terms.
    pub(crate) const fn lengths(self) -> (usize, usize) {
        match self {
            FrameType::Hello => (HELLO_FIXED, MAX_TERMS),
            FrameType::Challenge => (CHALLENGE_BODY, 0),
            FrameType::Proof | FrameType::Ready => (MAC_LEN, 0),
            FrameType::Accept => (ACCEPT_FIXED, MAX_TERMS),
            FrameType::Reject => (REJECT_FIXED, MAX_TERMS),
            FrameType::Goodbye => (0, 0),
        }
    }
}

/// A frame to send.
#[derive(Clone, PartialEq, Eq)]
#[must_use = "a frame has to be sent"]
pub struct Frame {
    bytes: Vec<u8>,
}

impl Frame {
    /// Begins a frame with so many bytes of terms: its header.
    pub(crate) fn new(kind: FrameType, terms: usize) -> Frame {
        let (fixed, most) = kind.lengths();
        debug_assert!(terms <= most);
        let body = fixed + terms;
        let mut bytes = Vec::with_capacity(HEADER_LEN + body);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[kind as u8, 0]);
        bytes.extend_from_slice(&(body as u16).to_le_bytes());
        Frame { bytes }
    }

    /// Makes a frame of bytes whose header has been checked.
    pub(crate) fn of_checked(bytes: Vec<u8>) -> Frame {
        Frame { bytes }
    }

    pub(crate) fn put(mut self, field: &[u8]) -> Frame {
        self.bytes.extend_from_slice(field);
        self
    }

    /// Returns the bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn body(&self) -> Fields<'_> {
        Fields(self.bytes.get(HEADER_LEN..).unwrap_or_default())
    }
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl core::fmt::Debug for Frame {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Frame(type {}, {} bytes)", self.bytes[4], self.bytes.len())
    }
}

/// Takes fixed fields off a body whose length has been checked.
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Takes the next `N` bytes; zeroes behind the end, which a checked length excludes.
    pub(crate) fn take<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk::<N>() {
            Some((field, rest)) => {
                self.0 = rest;
                *field
            }
            None => [0; N],
        }
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    /// Takes the terms: all but the last `behind` bytes of what is left.
    pub(crate) fn terms(&mut self, behind: usize) -> Terms {
        let (terms, rest) = self.0.split_at(self.0.len().saturating_sub(behind));
        self.0 = rest;
        Terms::of_frame(terms)
    }
}
