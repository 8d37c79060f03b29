//! The bytes on a rail behind its handshake: chunks of data one way, their acknowledgements the
//! other way.
//!
//! All integers are little-endian. A chunk is a header of 40 bytes and its data:
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 1 | 1 |
//! | 1 | 1 | 1 if the checksum of the data is there, else 0 |
//! | 2 | 2 | zero |
//! | 4 | 4 | number of the chunk on this connection, from 0 |
//! | 8 | 8 | region at the receiver |
//! | 16 | 8 | place in the region |
//! | 24 | 4 | bytes of data, 1 to [`MAX_CHUNK`] |
//! | 28 | 4 | CRC32C of the data, or zero |
//! | 32 | 4 | CRC32C of the 32 bytes before |
//! | 36 | 4 | zero |
//!
//! An acknowledgement has 16 bytes: type 2, 1 if the data is in its place or 0 if there is no such
//! region, two zeroes, number and length of the chunk (4 each), and the CRC32C of the 12 bytes
//! before. Chunks are acknowledged one by one, in order.

/// Bytes before a chunk's data.
pub(crate) const HEADER: usize = 40;
/// Bytes of an acknowledgement.
pub(crate) const ACK: usize = 16;
/// Most bytes of data in a chunk that are taken.
pub(crate) const MAX_CHUNK: usize = 1 << 20;

const CHUNK: u8 = 1;
const TAKEN: u8 = 2;

/// A chunk's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChunkHeader {
    /// Number of the chunk on its connection.
    pub(crate) number: u32,
    /// The region at the receiver.
    pub(crate) region: u64,
    /// Offset of its data in the region.
    pub(crate) at: u64,
    /// Bytes of data.
    pub(crate) len: u32,
    /// Their checksum.
    pub(crate) crc: Option<u32>,
}

impl ChunkHeader {
    /// Returns the form on the wire.
    pub(crate) fn emit(&self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[0] = CHUNK;
        out[1] = u8::from(self.crc.is_some());
        out[4..8].copy_from_slice(&self.number.to_le_bytes());
        out[8..16].copy_from_slice(&self.region.to_le_bytes());
        out[16..24].copy_from_slice(&self.at.to_le_bytes());
        out[24..28].copy_from_slice(&self.len.to_le_bytes());
        out[28..32].copy_from_slice(&self.crc.unwrap_or(0).to_le_bytes());
        let crc = crc32c::crc32c(&out[..32]);
        out[32..36].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Parses the form on the wire.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(bytes: &[u8; HEADER]) -> Result<ChunkHeader, &'static str> {
        if u32_at(bytes, 32) != crc32c::crc32c(&bytes[..32]) {
            return Err("a chunk's header has a wrong checksum");
        }
        if bytes[0] != CHUNK || bytes[1] > 1 || bytes[2..4] != [0; 2] || bytes[36..] != [0; 4] {
            return Err("a header of no known form");
        }
        let (len, crc) = (u32_at(bytes, 24), u32_at(bytes, 28));
        if len == 0 || len as usize > MAX_CHUNK {
            return Err("a chunk that is empty or too long");
        }
        Ok(ChunkHeader {
            number: u32_at(bytes, 4),
            region: u64_at(bytes, 8),
            at: u64_at(bytes, 16),
            len,
            crc: (bytes[1] == 1).then_some(crc),
        })
    }
}

/// The acknowledgement of a chunk by its receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ack {
    /// Number of the chunk.
    pub(crate) number: u32,
    /// Bytes of its data.
    pub(crate) len: u32,
    /// The data is in its place; if not, there is no such region.
    pub(crate) taken: bool,
}

impl Ack {
    /// Returns the form on the wire.
    pub(crate) fn emit(&self) -> [u8; ACK] {
        let mut out = [0; ACK];
        out[0] = TAKEN;
        out[1] = u8::from(self.taken);
        out[4..8].copy_from_slice(&self.number.to_le_bytes());
        out[8..12].copy_from_slice(&self.len.to_le_bytes());
        let crc = crc32c::crc32c(&out[..12]);
        out[12..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Parses the form on the wire.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(bytes: &[u8; ACK]) -> Result<Ack, &'static str> {
        if u32_at(bytes, 12) != crc32c::crc32c(&bytes[..12]) {
            return Err("an acknowledgement has a wrong checksum");
        }
        if bytes[0] != TAKEN || bytes[1] > 1 || bytes[2..4] != [0; 2] {
            return Err("an acknowledgement of no known form");
        }
        Ok(Ack { number: u32_at(bytes, 4), len: u32_at(bytes, 8), taken: bytes[1] == 1 })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |b| u32::from_le_bytes(*b))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |b| u64::from_le_bytes(*b))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: ChunkHeader = ChunkHeader {
        number: 0x0102_0304,
        region: 0x1112_1314_1516_1718,
        at: 0x2122_2324_2526_2728,
        len: MAX_CHUNK as u32,
        crc: Some(0x3132_3334),
    };

    #[test]
    fn what_is_emitted_is_parsed() {
        for head in [HEAD, ChunkHeader { crc: None, len: 1, ..HEAD }] {
            assert_eq!(ChunkHeader::parse(&head.emit()), Ok(head));
        }
        for taken in [false, true] {
            let ack = Ack { number: 7, len: 9, taken };
            assert_eq!(Ack::parse(&ack.emit()), Ok(ack));
        }
    }

    #[test]
    fn no_altered_byte_is_accepted() {
        for at in 0..HEADER {
            let mut bytes = HEAD.emit();
            bytes[at] ^= 0x40;
            assert!(ChunkHeader::parse(&bytes).is_err(), "byte {at}");
        }
        for at in 0..ACK {
            let mut bytes = Ack { number: 7, len: 9, taken: true }.emit();
            bytes[at] ^= 0x40;
            assert!(Ack::parse(&bytes).is_err(), "byte {at}");
        }
    }

    #[test]
    fn lengths_are_bounded() {
        for len in [0, MAX_CHUNK as u32 + 1, u32::MAX] {
            assert!(ChunkHeader::parse(&ChunkHeader { len, ..HEAD }.emit()).is_err(), "{len}");
        }
    }
}
