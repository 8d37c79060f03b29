//! Records: a connection's stream in pieces with checksums (`NETMOD_CHECKSUM=on`).
//!
//! TCP's own checksum has 16 bits and ends at the network card; it does not see what memory, a
//! bridge or an offloading card does to the bytes. With checksums agreed on in the handshake, what
//! is behind it travels in records (integers little-endian):
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 4 | length of the payload, 1 to 65,536 |
//! | 4 | 4 | CRC32C of the payload's position in the stream (8 bytes) and of its length (4 bytes) |
//! | 8 | 4 | CRC32C of the payload |
//! | 12 | | payload |
//!
//! The head has a checksum of its own, so that a wrong length is never waited for; the position
//! makes a record that was lost, repeated or moved as wrong as one that was altered. No byte of a
//! record is handed on before all of it has been checked.

use core::fmt;
use core::ops::Range;

/// Bytes before the payload.
pub(crate) const HEAD: usize = 12;
/// Longest payload.
pub(crate) const RECORD_MAX: usize = 64 << 10;

/// A record that is not what was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) struct Corrupt {
    /// Position of its first payload byte in the stream.
    pub(crate) pos: u64,
    /// Length of its payload, if its head was right.
    pub(crate) len: Option<u32>,
    pub(crate) expected: u32,
    pub(crate) found: u32,
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Corrupt { pos, expected, found, .. } = self;
        match self.len {
            Some(len) => write!(f, "{len} bytes from byte {pos} of the stream on were altered on the way")?,
            None => write!(f, "the length of the record at byte {pos} of the stream was altered on the way")?,
        }
        write!(f, " (CRC32C {found:08x}, sent as {expected:08x})")
    }
}

fn head_crc(pos: u64, len: u32) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&pos.to_le_bytes()), &len.to_le_bytes())
}

/// Returns the head of a record whose payload has this checksum.
pub(crate) fn head(pos: u64, len: u32, payload_crc: u32) -> [u8; HEAD] {
    let mut out = [0; HEAD];
    out[..4].copy_from_slice(&len.to_le_bytes());
    out[4..8].copy_from_slice(&head_crc(pos, len).to_le_bytes());
    out[8..].copy_from_slice(&payload_crc.to_le_bytes());
    out
}

/// The receiving side: bytes in, checked payload out.
#[derive(Debug, Default)]
pub(crate) struct Opener {
    buf: Vec<u8>,
    /// Bytes that were read and not handed on.
    held: Range<usize>,
    /// Checked payload bytes at the start of `held`.
    good: usize,
    /// Position in the stream of the next payload byte.
    pos: u64,
}

impl Opener {
    /// Makes an opener for a connection whose first payload byte has this position.
    pub(crate) fn new(pos: u64) -> Opener {
        Opener { pos, ..Opener::default() }
    }

    /// Returns the memory to be read into; never empty if all checked payload was taken.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        if self.buf.is_empty() {
            self.buf.resize(HEAD + RECORD_MAX, 0);
        }
        if self.held.start > 0 {
            self.buf.copy_within(self.held.clone(), 0);
            self.held = 0..self.held.len();
        }
        &mut self.buf[self.held.end..]
    }

    /// Returns true if nothing can be read before checked payload is taken.
    pub(crate) fn is_full(&self) -> bool {
        self.good > 0 && self.held.len() == self.buf.len()
    }

    /// Takes note of bytes that were read into [`Opener::space`].
    pub(crate) fn filled(&mut self, n: usize) {
        self.held.end = (self.held.end + n).min(self.buf.len());
    }

    /// Returns checked payload that is to be handed on next; empty if more must be read first.
    ///
    /// # Errors
    /// If a record is not what was sent. Nothing more can be read of the connection then.
    pub(crate) fn payload(&mut self) -> Result<&[u8], Corrupt> {
        if self.good == 0 {
            self.good = self.check()?;
        }
        let at = self.held.start;
        Ok(&self.buf[at..at + self.good])
    }

    /// Takes note that the first `n` bytes of [`Opener::payload`] were handed on.
    pub(crate) fn take(&mut self, n: usize) {
        let n = n.min(self.good);
        self.good -= n;
        self.held.start += n;
        self.pos += n as u64;
    }

    /// Checks the record at the front, if it is whole, and drops its head: the length of its
    /// payload.
    fn check(&mut self) -> Result<usize, Corrupt> {
        let held = &self.buf[self.held.clone()];
        let Some((head, rest)) = held.split_first_chunk::<HEAD>() else { return Ok(0) };
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (len, crc_of_head, crc) = (word(0), word(4), word(8));
        let found = head_crc(self.pos, len);
        if found != crc_of_head || len == 0 || len as usize > RECORD_MAX {
            return Err(Corrupt { pos: self.pos, len: None, expected: crc_of_head, found });
        }
        let Some(payload) = rest.get(..len as usize) else { return Ok(0) };
        let found = crc32c::crc32c(payload);
        if found != crc {
            return Err(Corrupt { pos: self.pos, len: Some(len), expected: crc, found });
        }
        self.held.start += HEAD;
        Ok(len as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The records of a stream cut at these lengths.
    fn sealed(mut pos: u64, stream: &[u8], lengths: &[usize]) -> Vec<u8> {
        let (mut out, mut rest, mut lengths) = (Vec::new(), stream, lengths.iter().cycle());
        while let Some(n) = lengths.next().filter(|_| !rest.is_empty()) {
            let (payload, behind) = rest.split_at((*n).min(rest.len()).min(RECORD_MAX));
            out.extend_from_slice(&head(pos, payload.len() as u32, crc32c::crc32c(payload)));
            out.extend_from_slice(payload);
            pos += payload.len() as u64;
            rest = behind;
        }
        out
    }

    /// Returns the payload of bytes that are read, and taken, in pieces of at most `piece`.
    fn opened(pos: u64, wire: &[u8], piece: usize, bite: usize) -> Result<Vec<u8>, Corrupt> {
        let mut opener = Opener::new(pos);
        let (mut out, mut rest) = (Vec::new(), wire);
        loop {
            loop {
                let good = opener.payload()?;
                let n = good.len().min(bite);
                if n == 0 {
                    break;
                }
                out.extend_from_slice(&good[..n]);
                opener.take(n);
            }
            if rest.is_empty() {
                return Ok(out);
            }
            let space = opener.space();
            let n = space.len().min(piece).min(rest.len());
            assert!(n > 0, "no room although nothing is left to take");
            space[..n].copy_from_slice(&rest[..n]);
            opener.filled(n);
            rest = &rest[n..];
        }
    }

    fn stream(n: usize) -> Vec<u8> {
        (0..n as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
    }

    #[test]
    fn what_is_sealed_is_opened_however_it_is_cut() {
        let data = stream(200_000);
        for lengths in [&[RECORD_MAX][..], &[1, 2, 3], &[32, 4096, 65_535]] {
            let data = &data[..if lengths[0] == 1 { 500 } else { data.len() }];
            let wire = sealed(77, data, lengths);
            for (piece, bite) in [(1, 1), (11, 5), (13, usize::MAX), (4096, 1000), (usize::MAX, usize::MAX)] {
                if piece == 1 && data.len() > 1000 {
                    continue;
                }
                assert!(opened(77, &wire, piece, bite).unwrap() == data, "{lengths:?} {piece} {bite}");
            }
        }
    }

    #[test]
    fn every_flipped_bit_is_found_before_a_byte_of_its_record_is_out() {
        let data = stream(300);
        let wire = sealed(1 << 40, &data, &[100]);
        for bit in 0..wire.len() * 8 {
            let mut bad = wire.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let record = bit / 8 / (HEAD + 100);
            let mut opener = Opener::new(1 << 40);
            opener.space()[..bad.len()].copy_from_slice(&bad);
            opener.filled(bad.len());
            let mut out = Vec::new();
            let corrupt = loop {
                match opener.payload() {
                    Ok([]) => panic!("bit {bit}: neither error nor payload"),
                    Ok(good) => {
                        out.extend_from_slice(good);
                        let n = good.len();
                        opener.take(n);
                    }
                    Err(e) => break e,
                }
            };
            assert!(out == data[..record * 100], "bit {bit}");
            assert_eq!(corrupt.pos, (1 << 40) + record as u64 * 100, "bit {bit}");
            let at = corrupt.to_string();
            assert!(at.contains(&format!("byte {}", corrupt.pos)), "{at}");
        }
    }

    #[test]
    fn a_record_lost_repeated_or_moved_is_found() {
        let data = stream(300);
        let wire = sealed(0, &data, &[100]);
        let record = |i: usize| &wire[i * (HEAD + 100)..(i + 1) * (HEAD + 100)];
        for order in [&[0, 2][..], &[0, 0], &[1], &[0, 2, 1]] {
            let bad: Vec<u8> = order.iter().flat_map(|i| record(*i)).copied().collect();
            assert!(opened(0, &bad, usize::MAX, usize::MAX).is_err(), "{order:?}");
        }
    }

    #[test]
    fn no_bytes_make_it_wait_for_more_than_a_record() {
        // Heads of all lengths with right checksums, and random ones with wrong ones.
        for len in [0, RECORD_MAX as u32 + 1, u32::MAX] {
            let mut wire = head(0, len, 0).to_vec();
            wire.resize(100, 0);
            assert!(opened(0, &wire, usize::MAX, usize::MAX).is_err(), "{len}");
        }
        let noise = stream(3_000_000);
        for at in 0..noise.len() - 64 {
            let mut opener = Opener::new(0);
            opener.space()[..64].copy_from_slice(&noise[at..at + 64]);
            opener.filled(64);
            assert!(opener.payload().is_err(), "{at}");
            if at == 20_000 {
                break;
            }
        }
    }
}
