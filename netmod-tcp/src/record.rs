//! Records: a connection's stream in pieces that are checked (`NETMOD_CHECKSUM`,
//! `NETMOD_TCP_SECURITY`).
//!
//! TCP's own checksum has 16 bits and ends at the network card; it does not see what memory, a
//! bridge or an offloading card does to the bytes, and anybody can make it. What is agreed on in
//! the handshake travels in records behind it (integers little-endian):
//!
//! | with checksums, at | bytes | |
//! |---|---|---|
//! | 0 | 4 | length of the payload, 1 to 65,536 |
//! | 4 | 4 | CRC32C of the payload's position in the stream (8 bytes) and of its length (4 bytes) |
//! | 8 | 4 | CRC32C of the payload |
//! | 12 | | payload |
//!
//! | with keys, at | bytes | |
//! |---|---|---|
//! | 0 | 4 | length of the payload, 1 to 65,536 |
//! | 4 | 16 | MAC of position and length |
//! | 20 | 16 | MAC of position, length and payload |
//! | 36 | | payload, encrypted or as it is |
//!
//! The head has a check of its own, so that a wrong length is never waited for; the position makes
//! a record that was lost, repeated or moved as wrong as one that was altered. No byte of a record
//! is handed on before all of it has been checked.
//!
//! MACs are BLAKE3 with a key, of which 16 bytes are sent; with encryption they are tags of
//! AES-256-GCM, whose nonce is the position and what the tag is of. A connection has keys of its
//! own, one each way, and no two records of a connection have one position, so no nonce comes twice
//! with a key. Another key follows every 64 GiB, as both sides know by the position.

use core::fmt;
use core::ops::Range;
use std::os::fd::RawFd;

use netmod_connection::JobKey;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, Tag, UnboundKey};

use crate::sys::{self, Moved};

/// Longest payload.
pub(crate) const RECORD_MAX: usize = 64 << 10;
/// Payload of a record that is read alone: moving what follows costs more than another call.
const LONG: usize = 16 << 10;
/// Bytes of a MAC.
const MAC: usize = 16;
/// Bytes before the payload with checksums, and with keys.
const CHECKED_HEAD: usize = 12;
const KEYED_HEAD: usize = 4 + 2 * MAC;
/// Bits of the position within one key.
const KEY_BITS: u32 = 36;

/// The purposes of a MAC, so that none can stand for another.
const OF_HEAD: u8 = 0;
const OF_PAYLOAD: u8 = 1;

/// A record that is not what was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) struct Corrupt {
    /// Position of its first payload byte in the stream.
    pub(crate) pos: u64,
    /// Length of its payload, if its head was right.
    pub(crate) len: Option<u32>,
    /// The checksums that were sent and found; `None` with keys.
    pub(crate) sums: Option<[u32; 2]>,
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pos = self.pos;
        match self.len {
            Some(len) => write!(f, "{len} bytes from byte {pos} of the stream on were altered on the way")?,
            None => write!(f, "the length of the record at byte {pos} of the stream was altered on the way")?,
        }
        match self.sums {
            Some([expected, found]) => write!(f, " (CRC32C {found:08x}, sent as {expected:08x})"),
            None => f.write_str(" (its MAC is wrong)"),
        }
    }
}

/// The checks and the protection of the records of one direction.
#[derive(Debug)]
pub(crate) enum Seal {
    /// Checksums, against accidents.
    Checksum,
    /// MACs, and encryption if wanted, against everybody without the key.
    Keyed(Box<Keyed>),
}

impl fmt::Display for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Seal::Checksum => "with checksums",
            Seal::Keyed(keyed) if keyed.encrypts => "encrypted",
            Seal::Keyed(_) => "with MACs",
        })
    }
}

/// The keys of one direction.
pub(crate) struct Keyed {
    key: JobKey,
    encrypts: bool,
    /// The number of the key in use, and that.
    current: Option<(u64, Current)>,
}

impl fmt::Debug for Keyed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyed(encrypts: {})", self.encrypts)
    }
}

/// The key for a part of the stream.
enum Current {
    Mac([u8; 32]),
    Cipher(Box<LessSafeKey>),
}

impl Keyed {
    pub(crate) fn new(key: JobKey, encrypts: bool) -> Keyed {
        Keyed { key, encrypts, current: None }
    }

    fn at(&mut self, pos: u64) -> &Current {
        let number = pos >> KEY_BITS;
        if self.current.as_ref().is_none_or(|(have, _)| *have != number) {
            let derived = |purpose: &[u8]| self.key.derive(&[purpose, &number.to_le_bytes()]).0;
            // The key has the length that the cipher wants.
            let cipher =
                self.encrypts.then(|| UnboundKey::new(&AES_256_GCM, &derived(b"record cipher")).ok());
            let current = match cipher.flatten() {
                Some(cipher) => Current::Cipher(Box::new(LessSafeKey::new(cipher))),
                None => Current::Mac(derived(b"record mac")),
            };
            self.current = Some((number, current));
        }
        match &self.current {
            Some((_, current)) => current,
            None => unreachable!("it was made just now"),
        }
    }
}

/// The place of a MAC: its purpose, the position, and the length of the payload.
type At = (u8, u64, u32);

impl Current {
    /// Returns the MAC of a payload, which is encrypted if this is the key of a cipher.
    fn seal(&self, at: At, payload: &mut [u8]) -> [u8; MAC] {
        match self {
            Current::Mac(key) => mac(key, at, payload),
            Current::Cipher(cipher) => {
                let aad = Aad::from(at.2.to_le_bytes());
                match cipher.seal_in_place_separate_tag(nonce(at), aad, payload) {
                    Ok(tag) => tag.as_ref().first_chunk().copied().unwrap_or_default(),
                    Err(_) => {
                        // Only for more bytes than a record has. Nothing of it may leave.
                        payload.fill(0);
                        [0; MAC]
                    }
                }
            }
        }
    }

    /// Checks the MAC of a payload, which is decrypted if this is the key of a cipher.
    fn open(&self, at: At, payload: &mut [u8], tag: &[u8]) -> bool {
        match (self, Tag::try_from(tag)) {
            (Current::Mac(key), _) => {
                // In constant time.
                let right = mac(key, at, payload);
                let differs = right.iter().zip(tag).fold(0, |differs, (a, b)| differs | (a ^ b));
                core::hint::black_box(differs) == 0
            }
            (Current::Cipher(cipher), Ok(tag)) => {
                let aad = Aad::from(at.2.to_le_bytes());
                cipher.open_in_place_separate_tag(nonce(at), aad, tag, payload, 0..).is_ok()
            }
            (Current::Cipher(_), Err(_)) => false,
        }
    }
}

/// Returns the first bytes of BLAKE3 with a key. The payload comes first, so that its blocks are
/// where the processor's vectors want them.
fn mac(key: &[u8; 32], (purpose, pos, len): At, payload: &[u8]) -> [u8; MAC] {
    let mut behind = [0; 13];
    behind[..8].copy_from_slice(&pos.to_le_bytes());
    behind[8..12].copy_from_slice(&len.to_le_bytes());
    behind[12] = purpose;
    let mut hasher = blake3::Hasher::new_keyed(key);
    let hash = hasher.update(payload).update(&behind).finalize();
    hash.as_bytes().first_chunk().copied().unwrap_or_default()
}

fn nonce((purpose, pos, _): At) -> Nonce {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&pos.to_le_bytes());
    bytes[8] = purpose;
    Nonce::assume_unique_for_key(bytes)
}

fn head_crc(pos: u64, len: u32) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&pos.to_le_bytes()), &len.to_le_bytes())
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.first_chunk::<4>()).map_or(0, |b| u32::from_le_bytes(*b))
}

impl Seal {
    /// Returns the number of bytes before the payload.
    pub(crate) fn head_len(&self) -> usize {
        match self {
            Seal::Checksum => CHECKED_HEAD,
            Seal::Keyed(_) => KEYED_HEAD,
        }
    }

    /// Returns true if records have MACs.
    pub(crate) fn is_keyed(&self) -> bool {
        matches!(self, Seal::Keyed(_))
    }

    /// Begins a record behind others: the caller appends its payload. Returns where it begins.
    pub(crate) fn begin(&self, out: &mut Vec<u8>) -> usize {
        let at = out.len();
        out.resize(at + self.head_len(), 0);
        at
    }

    /// Completes a record, whose payload has this position.
    pub(crate) fn finish(&mut self, pos: u64, record: &mut [u8]) {
        let Some((head, payload)) = record.split_at_mut_checked(self.head_len()) else { return };
        let len = payload.len() as u32;
        head[..4].copy_from_slice(&len.to_le_bytes());
        match self {
            Seal::Checksum => {
                head[4..8].copy_from_slice(&head_crc(pos, len).to_le_bytes());
                head[8..12].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
            }
            Seal::Keyed(keyed) => {
                let key = keyed.at(pos);
                head[4..20].copy_from_slice(&key.seal((OF_HEAD, pos, len), &mut []));
                head[20..36].copy_from_slice(&key.seal((OF_PAYLOAD, pos, len), payload));
            }
        }
    }

    /// Checks a head, and returns the length of its payload.
    fn length(&mut self, pos: u64, head: &[u8]) -> Result<u32, Corrupt> {
        let len = word(head, 0);
        let (right, sums) = match self {
            Seal::Checksum => {
                let (sent, found) = (word(head, 4), head_crc(pos, len));
                (found == sent, Some([sent, found]))
            }
            Seal::Keyed(keyed) => (keyed.at(pos).open((OF_HEAD, pos, len), &mut [], &head[4..20]), None),
        };
        if right && len != 0 && len as usize <= RECORD_MAX {
            Ok(len)
        } else {
            Err(Corrupt { pos, len: None, sums })
        }
    }

    /// Checks a payload, and decrypts it.
    fn open(&mut self, pos: u64, head: &[u8], payload: &mut [u8]) -> Result<(), Corrupt> {
        let len = payload.len() as u32;
        let (right, sums) = match self {
            Seal::Checksum => {
                let (sent, found) = (word(head, 8), crc32c::crc32c(payload));
                (found == sent, Some([sent, found]))
            }
            Seal::Keyed(keyed) => (keyed.at(pos).open((OF_PAYLOAD, pos, len), payload, &head[20..36]), None),
        };
        if right { Ok(()) } else { Err(Corrupt { pos, len: Some(len), sums }) }
    }
}

/// The receiving side: bytes in, checked payload out.
#[derive(Debug)]
pub(crate) struct Opener {
    seal: Seal,
    buf: Vec<u8>,
    /// Bytes that were read and not handed on.
    held: Range<usize>,
    /// Checked payload bytes at the start of `held`.
    good: usize,
    /// Length of the next payload, once its head was checked.
    next: Option<usize>,
    /// Position in the stream of the next payload byte.
    pos: u64,
}

impl Opener {
    /// Makes an opener for a connection whose first payload byte has this position.
    pub(crate) fn new(seal: Seal, pos: u64) -> Opener {
        Opener { seal, buf: Vec::new(), held: 0..0, good: 0, next: None, pos }
    }

    /// Returns the memory to be read into; never empty if all checked payload was taken. It ends
    /// with the next head behind a long record, so that what follows need not be moved.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        if self.buf.is_empty() {
            self.buf.resize(2 * self.seal.head_len() + RECORD_MAX, 0);
        }
        if self.held.start > 0 {
            self.buf.copy_within(self.held.clone(), 0);
            self.held = 0..self.held.len();
        }
        let head = self.seal.head_len();
        let end = self.next.filter(|len| *len >= LONG).map_or(usize::MAX, |len| 2 * head + len);
        let end = end.min(self.buf.len());
        &mut self.buf[self.held.end..end]
    }

    /// Reads once into the space.
    pub(crate) fn read(&mut self, fd: RawFd) -> Moved {
        let read = sys::recv(fd, self.space());
        if let Ok(Some(n)) = read {
            self.filled(n);
        }
        read
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
        let held = &mut self.buf[self.held.clone()];
        let Some((head, rest)) = held.split_at_mut_checked(self.seal.head_len()) else { return Ok(0) };
        let len = match self.next {
            Some(len) => len,
            None => *self.next.insert(self.seal.length(self.pos, head)? as usize),
        };
        let Some(payload) = rest.get_mut(..len) else { return Ok(0) };
        self.seal.open(self.pos, head, payload)?;
        self.next = None;
        self.held.start += self.seal.head_len();
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The records of a stream cut at these lengths.
    fn sealed(seal: &mut Seal, mut pos: u64, stream: &[u8], lengths: &[usize]) -> Vec<u8> {
        let (mut out, mut rest, mut lengths) = (Vec::new(), stream, lengths.iter().cycle());
        while let Some(n) = lengths.next().filter(|_| !rest.is_empty()) {
            let (payload, behind) = rest.split_at((*n).min(rest.len()).min(RECORD_MAX));
            let at = seal.begin(&mut out);
            out.extend_from_slice(payload);
            seal.finish(pos, &mut out[at..]);
            pos += payload.len() as u64;
            rest = behind;
        }
        out
    }

    /// Returns the payload of bytes that are read, and taken, in pieces of at most `piece`.
    fn opened(seal: Seal, pos: u64, wire: &[u8], piece: usize, bite: usize) -> Result<Vec<u8>, Corrupt> {
        let mut opener = Opener::new(seal, pos);
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

    /// One of each kind, with the same keys every time.
    fn seals() -> [Seal; 3] {
        let keyed = |encrypts| Seal::Keyed(Box::new(Keyed::new(JobKey([7; 32]), encrypts)));
        [Seal::Checksum, keyed(false), keyed(true)]
    }

    #[test]
    fn what_is_sealed_is_opened_however_it_is_cut() {
        let data = stream(200_000);
        for kind in 0..3 {
            let seal = || seals().into_iter().nth(kind).expect("a kind");
            // Another key begins within the stream.
            for pos in [77, (1 << KEY_BITS) - 300] {
                for lengths in [&[RECORD_MAX][..], &[1, 2, 3], &[32, 4096, 65_535]] {
                    let data = &data[..if lengths[0] == 1 { 500 } else { data.len() }];
                    let wire = sealed(&mut seal(), pos, data, lengths);
                    for (piece, bite) in
                        [(1, 1), (11, 5), (13, usize::MAX), (4096, 1000), (usize::MAX, usize::MAX)]
                    {
                        if piece < 100 && data.len() > 1000 {
                            continue;
                        }
                        let got = opened(seal(), pos, &wire, piece, bite).unwrap();
                        assert!(got == data, "{kind} {pos} {lengths:?} {piece} {bite}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_flipped_bit_is_found_before_a_byte_of_its_record_is_out() {
        let data = stream(300);
        for kind in 0..3 {
            let seal = || seals().into_iter().nth(kind).expect("a kind");
            let wire = sealed(&mut seal(), 1 << 40, &data, &[100]);
            for bit in 0..wire.len() * 8 {
                let mut bad = wire.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                let record = bit / 8 / (seal().head_len() + 100);
                let mut opener = Opener::new(seal(), 1 << 40);
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
                assert!(out == data[..record * 100], "{kind}: bit {bit}");
                assert_eq!(corrupt.pos, (1 << 40) + record as u64 * 100, "{kind}: bit {bit}");
                let at = corrupt.to_string();
                assert!(at.contains(&format!("byte {}", corrupt.pos)), "{at}");
            }
        }
    }

    #[test]
    fn a_record_lost_repeated_or_moved_is_found() {
        let data = stream(300);
        for kind in 0..3 {
            let seal = || seals().into_iter().nth(kind).expect("a kind");
            let wire = sealed(&mut seal(), 0, &data, &[100]);
            let size = seal().head_len() + 100;
            let record = |i: usize| &wire[i * size..(i + 1) * size];
            for order in [&[0, 2][..], &[0, 0], &[1], &[0, 2, 1]] {
                let bad: Vec<u8> = order.iter().flat_map(|i| record(*i)).copied().collect();
                assert!(opened(seal(), 0, &bad, usize::MAX, usize::MAX).is_err(), "{kind}: {order:?}");
            }
        }
    }

    #[test]
    fn keys_of_others_open_nothing_and_encryption_hides_the_bytes() {
        let data = stream(1000);
        let [_, mut auth, mut encrypt] = seals();
        let (signed, hidden) =
            (sealed(&mut auth, 5, &data, &[1000]), sealed(&mut encrypt, 5, &data, &[1000]));
        assert!(signed.ends_with(&data) && !hidden.windows(8).any(|part| data.windows(8).any(|d| d == part)));
        for (encrypts, wire) in [(false, &signed), (true, &hidden)] {
            let other = |key, encrypts| Seal::Keyed(Box::new(Keyed::new(JobKey([key; 32]), encrypts)));
            assert!(opened(other(7, encrypts), 5, wire, usize::MAX, usize::MAX).is_ok_and(|got| got == data));
            assert!(opened(other(8, encrypts), 5, wire, usize::MAX, usize::MAX).is_err(), "another key");
            assert!(opened(other(7, !encrypts), 5, wire, usize::MAX, usize::MAX).is_err(), "another kind");
        }
    }

    #[test]
    fn no_bytes_make_it_wait_for_more_than_a_record() {
        // Heads of all lengths with right checks, and random ones with wrong ones.
        for mut seal in seals() {
            for len in [0, RECORD_MAX + 1] {
                let mut wire = Vec::new();
                seal.begin(&mut wire);
                wire.resize(wire.len() + len, 0);
                seal.finish(0, &mut wire);
                wire.resize(100, 0);
                let head = wire[..seal.head_len()].to_vec();
                assert!(seal.length(0, &head).is_err(), "{len}");
            }
        }
        let noise = stream(100_000);
        for mut seal in seals() {
            for at in 0..20_000 {
                assert!(seal.length(0, &noise[at..at + seal.head_len()]).is_err(), "{at}");
            }
        }
    }
}
