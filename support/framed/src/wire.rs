//! Frames: the layout of one message of the device.
//!
//! All integers are little-endian. A frame is a header of 16 bytes and a body:
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 1 | kind |
//! | 1 | 1 | CREDIT: 1 if the receiver must answer by another CREDIT; otherwise zero |
//! | 2 | 2 | units of the receiver's window returned so far by the sender, modulo 2^16 |
//! | 4 | 4 | slot of the receiver's connection |
//! | 8 | 4 | token of that slot |
//! | 12 | 4 | a number that depends on the kind; otherwise zero |
//!
//! The number, modulo 2^32, is: for DATA, that of the frame in its connection; for CREDIT,
//! FIN and FIN_ACK, the DATA frames sent so far; for RESET, its earlier transmissions.
//!
//! | kind | body |
//! |---|---|
//! | 1 DATA | a part of the VC's stream: headers of messages, each followed by its data |
//! | 2 CREDIT | none; if it must be answered, the terms of its sender, as in HELLO |
//! | 3 DIAL | a frame of the handshake from the side that dials |
//! | 4 ANSWER | a frame of the handshake from the side that was dialled |
//! | 5 FIN | none: no DATA follows |
//! | 6 FIN_ACK | none: answer to FIN; nothing at all follows |
//! | 7 RESET | none: the connection is gone |
//!
//! The terms in a CREDIT let a receiver that does not know the connection answer by RESET. Slot and
//! token of a DIAL are those of the *sender*, which knows no others.
//!
//! Each side makes slots and tokens for itself, and announces them in the terms of the handshake. A
//! frame whose token is not that of its slot belongs to an earlier connection or to an
//! unauthenticated peer. It is dropped. So is a frame of another kind.

use netmod_core::{Header, apart};

/// Bytes of a frame's header.
pub const FRAME_HEADER: usize = 16;
/// Bytes of a window's unit. A frame of `n` bytes in all takes `1 + n / UNIT` units. Where a frame
/// fills a whole buffer of the receiver, each takes as many as the longest one, but at most a
/// quarter of the window.
pub const UNIT: usize = 256;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A part of the VC's stream.
    Data = 1,
    /// Units of the window come back.
    Credit = 2,
    /// A frame of the handshake from the side that dials.
    Dial = 3,
    /// A frame of the handshake from the side that was dialled.
    Answer = 4,
    /// No DATA follows.
    Fin = 5,
    /// Answer to FIN.
    FinAck = 6,
    /// The connection is gone.
    Reset = 7,
}

impl Kind {
    /// From the wire.
    pub const fn from_wire(code: u8) -> Option<Kind> {
        Some(match code {
            1 => Kind::Data,
            2 => Kind::Credit,
            3 => Kind::Dial,
            4 => Kind::Answer,
            5 => Kind::Fin,
            6 => Kind::FinAck,
            7 => Kind::Reset,
            _ => return None,
        })
    }
}

/// A connection, as one of its sides knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Place in that side's table.
    pub number: u32,
    /// A mark that earlier connections in that slot do not have; never zero in a live one.
    pub token: u32,
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// The kind of the frame.
    pub kind: Kind,
    /// A CREDIT that is to be answered.
    pub ask: bool,
    /// Units given back, in all, modulo 2^16.
    pub returned: u16,
    /// The receiver's connection; of DIAL, the sender's.
    pub slot: Slot,
    /// Number of the frame, or what the kind says.
    pub seq: u32,
}

impl FrameHeader {
    /// The form on the wire.
    #[inline]
    pub fn to_bytes(self) -> [u8; FRAME_HEADER] {
        let mut out = [0; FRAME_HEADER];
        out[0] = self.kind as u8;
        out[1] = u8::from(self.ask);
        out[2..4].copy_from_slice(&self.returned.to_le_bytes());
        out[4..8].copy_from_slice(&self.slot.number.to_le_bytes());
        out[8..12].copy_from_slice(&self.slot.token.to_le_bytes());
        out[12..].copy_from_slice(&self.seq.to_le_bytes());
        out
    }

    /// From the wire; `None` if no frame of this version begins so.
    #[inline]
    pub fn parse(b: &[u8; FRAME_HEADER]) -> Option<FrameHeader> {
        let kind = Kind::from_wire(b[0])?;
        let ask = b[1] == 1 && matches!(kind, Kind::Credit);
        if b[1] != 0 && !ask {
            return None;
        }
        Some(FrameHeader {
            kind,
            ask,
            returned: u16::from_le_bytes([b[2], b[3]]),
            slot: Slot {
                number: u32::from_le_bytes([b[4], b[5], b[6], b[7]]),
                token: u32::from_le_bytes([b[8], b[9], b[10], b[11]]),
            },
            seq: u32::from_le_bytes([b[12], b[13], b[14], b[15]]),
        })
    }
}

/// Copies a message's header word by word, since it may just have been written so ([`apart()`]).
#[inline]
pub fn put_header(hdr: &Header, to: &mut [u8]) {
    let ((words, _), (to, _)) = (hdr.as_chunks::<8>(), to.as_chunks_mut::<8>());
    for (to, word) in to.iter_mut().zip(words) {
        *to = apart(u64::from_ne_bytes(*word)).to_ne_bytes();
    }
}

/// Units of the window that a frame of so many bytes, header included, takes.
#[inline]
pub const fn units(bytes: usize) -> u32 {
    1 + (bytes / UNIT) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let h = FrameHeader {
            kind: Kind::Data,
            ask: false,
            returned: 0x0201,
            slot: Slot { number: 0x0605_0403, token: 0x0a09_0807 },
            seq: 0x0e0d_0c0b,
        };
        assert_eq!(h.to_bytes(), [1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
        assert_eq!(FrameHeader::parse(&h.to_bytes()), Some(h));
        let ask = FrameHeader { kind: Kind::Credit, ask: true, ..h };
        assert_eq!(ask.to_bytes(), [2, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]);
    }

    #[test]
    fn every_header_is_one_frame_or_none() {
        for kind in 0..=255u8 {
            for zero in [0, 1, 255] {
                let mut b = [0x5a; FRAME_HEADER];
                (b[0], b[1]) = (kind, zero);
                let parsed = FrameHeader::parse(&b);
                let known = (1..=7).contains(&kind) && zero == 0 || (kind, zero) == (2, 1);
                assert_eq!(parsed.is_some(), known);
                assert!(parsed.is_none_or(|h| h.to_bytes() == b));
            }
        }
    }

    /// Earlier versions cut headers short in frames of kind 8.
    #[test]
    fn a_frame_of_the_kind_that_is_gone_is_as_unknown_as_any() {
        let known = FrameHeader { kind: Kind::Data, ask: false, returned: 0, slot: Slot::default(), seq: 0 };
        let of =
            |kind| FrameHeader::parse(&[&[kind][..], &known.to_bytes()[1..]].concat().try_into().unwrap());
        assert_eq!([1, 8, 9, 255].map(of), [Some(known), None, None, None]);
        assert_eq!([8, 9, 255].map(Kind::from_wire), [None; 3]);
    }

    #[test]
    fn a_header_is_copied_whole_and_nothing_behind_it() {
        let hdr: Header = core::array::from_fn(|i| i as u8 + 1);
        let mut copy = [0; 33];
        put_header(&hdr, &mut copy[..32]);
        assert_eq!((&copy[..32], copy[32]), (&hdr[..], 0));
    }

    #[test]
    fn units_count_begun_quarters_of_kibibytes() {
        assert_eq!([units(16), units(255), units(256), units(16400)], [1, 1, 2, 65]);
    }
}
