//! Encoding of values of any size and content as short printable texts in numbered chunks.
//!
//! A value under key `K` is stored as
//!
//! ```text
//! K     1.LENGTH.CRC.CHUNKS.TEXT     (decimal, 8 hex digits, decimal, base64url)
//! K~1   TEXT
//! K~2   TEXT   ...
//! ```
//!
//! The text is the unpadded base64url form of the bytes. Its first part travels with the heading,
//! so a short value is one entry. Length and checksum (CRC-32, ISO-HDLC) reveal a truncated chunk.
//! No entry is ever empty, since an empty value is a fatal parse error in Hydra 5.

#[cfg(test)]
mod tests;

/// Largest value, in bytes.
pub const MAX_VALUE: usize = 1 << 20;

/// Longest chunk of text, in bytes, even if the server announces more.
pub const MAX_CHUNK: usize = 800;

/// Longest suffix that chunk numbers add to a key, in bytes.
pub const SUFFIX_ROOM: usize = 6;

/// Smallest useful chunk, in bytes.
pub const MIN_CHUNK: usize = 64;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Returns the CRC-32 with the reflected polynomial 0xEDB88320 (as in zlib and Ethernet).
pub fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

/// Returns the unpadded base64url form (RFC 4648 section 5) of `bytes`.
pub fn to_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0u32, |w, b| w << 8 | u32::from(*b)) << (8 * (3 - group.len()));
        for digit in 0..=group.len() {
            let index = (word >> (18 - 6 * digit)) & 63;
            text.push(char::from(DIGITS[index as usize]));
        }
    }
    text
}

/// Returns the bytes of an unpadded base64url text; `None` if it is invalid.
pub fn from_text(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for group in text.as_bytes().chunks(4) {
        let mut word = 0u32;
        for byte in group {
            word = word << 6 | value_of(*byte)?;
        }
        let used = match group.len() {
            4 => 3,
            n @ (2 | 3) => n - 1,
            _ => return None,
        };
        word <<= 6 * (4 - group.len());
        let [_, a, b, c] = word.to_be_bytes();
        // Nonzero left-over bits would give two texts for one value.
        if [a, b, c][used..].iter().any(|b| *b != 0) {
            return None;
        }
        bytes.extend_from_slice(&[a, b, c][..used]);
    }
    Some(bytes)
}

fn value_of(digit: u8) -> Option<u32> {
    Some(match digit {
        b'A'..=b'Z' => u32::from(digit - b'A'),
        b'a'..=b'z' => u32::from(digit - b'a') + 26,
        b'0'..=b'9' => u32::from(digit - b'0') + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    })
}

/// Returns the key of chunk `index` of a value under `key`; chunk 0 is under the key itself.
pub fn chunk_key(key: &str, index: usize) -> String {
    if index == 0 { key.to_owned() } else { format!("{key}~{index}") }
}

/// The reason why a value cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// It is larger than [`MAX_VALUE`]: its bytes.
    #[error("{0} bytes are more than the limit of {MAX_VALUE}")]
    TooLarge(usize),
    /// The room for each text is smaller than [`MIN_CHUNK`]: its bytes.
    #[error("the launcher's limits leave only {0} bytes a value; {MIN_CHUNK} are needed")]
    NoRoom(usize),
}

/// The error in the stored texts of a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The first text does not begin with a heading: its beginning, escaped.
    #[error("its heading is \"{0}\"")]
    Heading(String),
    /// The texts are longer than the heading says.
    #[error("{got} characters so far, but its {length} bytes make only {}", text_length(*.length))]
    TooLong {
        /// Characters so far.
        got: usize,
        /// Bytes of the value by its heading.
        length: usize,
    },
    /// A chunk is missing.
    #[error("chunk {index} of {chunks} is missing")]
    Missing {
        /// Index of the chunk.
        index: usize,
        /// Number of all chunks.
        chunks: usize,
    },
    /// The texts are shorter than the heading says.
    #[error("truncated: {got} of {wanted} characters in {chunks} chunks")]
    Truncated {
        /// Characters that are there.
        got: usize,
        /// Characters by the heading.
        wanted: usize,
        /// Number of all chunks.
        chunks: usize,
    },
    /// The characters are not base64url.
    #[error("it is not base64url text")]
    NotText,
    /// The checksum is wrong.
    #[error("its checksum is {found:08x}, not {wanted:08x}")]
    Checksum {
        /// Checksum of the bytes.
        found: u32,
        /// Checksum by the heading.
        wanted: u32,
    },
}

/// Returns the texts to store for `bytes`, each at most `room` bytes.
///
/// Element `i` belongs under [`chunk_key`]`(key, i)`.
///
/// # Errors
///
/// Fails if the value is larger than [`MAX_VALUE`], or if `room` is smaller than [`MIN_CHUNK`].
pub fn encode(bytes: &[u8], room: usize) -> Result<Vec<String>, EncodeError> {
    if bytes.len() > MAX_VALUE {
        return Err(EncodeError::TooLarge(bytes.len()));
    }
    if room < MIN_CHUNK {
        return Err(EncodeError::NoRoom(room));
    }
    let text = to_text(bytes);
    let room = room.min(MAX_CHUNK);
    let crc = crc32(bytes);
    // The number of chunks is in the heading, whose length depends on that number.
    let mut chunks = 1;
    let (heading, first) = loop {
        let heading = format!("1.{}.{crc:08x}.{chunks}.", bytes.len());
        let first = (room - heading.len()).min(text.len());
        let needed = 1 + (text.len() - first).div_ceil(room);
        if needed <= chunks {
            break (heading, first);
        }
        chunks = needed;
    };
    let mut texts = Vec::with_capacity(chunks);
    texts.push(heading + &text[..first]);
    let mut rest = &text[first..];
    while !rest.is_empty() {
        let (chunk, more) = rest.split_at(rest.len().min(room));
        texts.push(chunk.to_owned());
        rest = more;
    }
    debug_assert_eq!(texts.len(), chunks);
    Ok(texts)
}

/// A decoder that joins the chunks of a value and checks them.
#[derive(Debug)]
pub struct Decoder {
    length: usize,
    crc: u32,
    chunks: usize,
    have: usize,
    text: String,
}

impl Decoder {
    /// Starts with the text stored under the key itself.
    ///
    /// # Errors
    ///
    /// Fails if there is no heading, or if the text is longer than it says.
    pub fn new(head: &str) -> Result<Decoder, DecodeError> {
        let bad = || DecodeError::Heading(crate::wire::quote(head.as_bytes()));
        let mut parts = head.splitn(5, '.');
        let mut part = || parts.next().ok_or_else(bad);
        if part()? != "1" {
            return Err(bad());
        }
        let length: usize = part()?.parse().map_err(|_| bad())?;
        let crc = part()?;
        if crc.len() != 8 {
            return Err(bad());
        }
        let crc = u32::from_str_radix(crc, 16).map_err(|_| bad())?;
        let chunks: usize = part()?.parse().map_err(|_| bad())?;
        let text = part()?.to_owned();
        // No chunk but the first may be empty, which bounds their number.
        if length > MAX_VALUE || chunks == 0 || chunks > 1 + text_length(length) {
            return Err(bad());
        }
        let decoder = Decoder { length, crc, chunks, have: 1, text };
        decoder.check_room()?;
        Ok(decoder)
    }

    /// Returns the index of the next chunk to [`push`](Self::push), or `None` if all are there.
    pub fn wants(&self) -> Option<usize> {
        (self.have < self.chunks).then_some(self.have)
    }

    /// Adds the chunk that [`wants`](Self::wants) asked for.
    ///
    /// # Errors
    ///
    /// Fails if the chunks together are longer than the heading says.
    pub fn push(&mut self, chunk: &str) -> Result<(), DecodeError> {
        self.text.push_str(chunk);
        self.have += 1;
        self.check_room()
    }

    fn check_room(&self) -> Result<(), DecodeError> {
        if self.text.len() > text_length(self.length) {
            return Err(DecodeError::TooLong { got: self.text.len(), length: self.length });
        }
        Ok(())
    }

    /// Returns the value.
    ///
    /// # Errors
    ///
    /// Fails if a part is missing, truncated or changed.
    pub fn finish(self) -> Result<Vec<u8>, DecodeError> {
        if let Some(index) = self.wants() {
            return Err(DecodeError::Missing { index, chunks: self.chunks });
        }
        if self.text.len() != text_length(self.length) {
            let (got, wanted) = (self.text.len(), text_length(self.length));
            return Err(DecodeError::Truncated { got, wanted, chunks: self.chunks });
        }
        let bytes = from_text(&self.text).ok_or(DecodeError::NotText)?;
        let crc = crc32(&bytes);
        if bytes.len() != self.length || crc != self.crc {
            return Err(DecodeError::Checksum { found: crc, wanted: self.crc });
        }
        Ok(bytes)
    }
}

/// Returns the length of the unpadded base64url form of `bytes` bytes.
const fn text_length(bytes: usize) -> usize {
    (bytes * 4).div_ceil(3)
}
