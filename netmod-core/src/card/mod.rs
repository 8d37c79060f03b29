//! Business cards: what a process publishes so that others can reach it, one section per netmod.
//!
//! A card comes from another process and is not trusted: its size, the number of its sections and
//! every length are bounded and checked before anything is allocated. Unknown sections are kept and
//! ignored, so that processes with different netmods can connect.
//!
//! # Format
//!
//! All numbers are little-endian.
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 0 | 4 | `NMC1` |
//! | 4 | 2 | version of this format, [`FORMAT_VERSION`] |
//! | 6 | 2 | number of sections, at most [`MAX_SECTIONS`] |
//! | 8 | 4 | length of the whole card, at most [`MAX_CARD`] |
//! | 12 | 4 | FNV-1a (32 bits) over the card without these four bytes |
//!
//! Each section: length of its name (1 byte, 1 to [`MAX_NAME`]), name (printable ASCII without
//! spaces), version (2 bytes), length of its body (4 bytes), body. No name occurs twice.

mod body;
mod node;
#[cfg(test)]
mod tests;

use core::fmt;

pub use body::{BodyReader, BodyWriter};
pub use node::{MAX_HOSTNAME, NODE_SECTION, NodeError, NodeSection};

/// Largest card in bytes.
pub const MAX_CARD: usize = 64 * 1024;
/// Most sections of a card.
pub const MAX_SECTIONS: usize = 64;
/// Longest name of a section in bytes.
pub const MAX_NAME: usize = 16;
/// The version of the format that is written, and the only one that is read.
pub const FORMAT_VERSION: u16 = 1;

const MAGIC: [u8; 4] = *b"NMC1";
const HEADER: usize = 16;
const CHECKSUM_AT: usize = 12;

/// The error in a card, or in data for one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CardError {
    /// It does not begin like a card.
    #[error(
        "business card: does not start with `NMC1`; was it published by another program, \
         or decoded wrongly?"
    )]
    Magic,
    /// The format's version is not supported.
    #[error(
        "business card: format version {found}, but only {FORMAT_VERSION} is understood; \
         start all processes of the job with the same version of netmod"
    )]
    Format {
        /// The version found.
        found: u16,
    },
    /// It is larger than [`MAX_CARD`].
    #[error(
        "business card: {len} bytes, at most {MAX_CARD} are allowed; publish fewer addresses, \
         for example by choosing one interface"
    )]
    TooLarge {
        /// Its size, or the size that it would get, in bytes.
        len: usize,
    },
    /// It is truncated, or followed by other bytes.
    #[error(
        "business card: says it has {stated} bytes but {actual} arrived; were all its pieces \
         fetched, and in order?"
    )]
    Length {
        /// Length according to the card, in bytes.
        stated: usize,
        /// Length found, in bytes.
        actual: usize,
    },
    /// It was changed in transit.
    #[error(
        "business card: checksum {found:#010x} instead of {computed:#010x}; it was damaged, \
         or mixed with another"
    )]
    Checksum {
        /// The checksum in the card.
        found: u32,
        /// The checksum of its bytes.
        computed: u32,
    },
    /// It has more than [`MAX_SECTIONS`] sections.
    #[error("business card: {count} sections, at most {MAX_SECTIONS} are allowed")]
    TooManySections {
        /// Number of sections that it has, or would get.
        count: usize,
    },
    /// A section's name is empty, too long, or not printable ASCII.
    #[error(
        "business card: section name `{}` is not 1 to {MAX_NAME} printable ASCII characters",
        name.escape_ascii()
    )]
    Name {
        /// The name, at most its first [`MAX_NAME`] bytes.
        name: Vec<u8>,
    },
    /// A section occurs twice.
    #[error("business card: section `{name}` occurs twice; each netmod writes its own once")]
    Duplicate {
        /// Its name.
        name: String,
    },
    /// A section that the reader needs is missing.
    #[error("business card: no section `{name}`; does that process use the same netmods?")]
    Missing {
        /// Its name.
        name: &'static str,
    },
    /// The bytes end before a value does.
    #[error("business card: ends within {what}")]
    Truncated {
        /// Name of the value.
        what: &'static str,
    },
    /// A value is not allowed.
    #[error("business card: {what} has a value that is not allowed; {expected}")]
    Malformed {
        /// Name of the value.
        what: &'static str,
        /// Description of the allowed values.
        expected: &'static str,
    },
    /// Bytes are left over.
    #[error("business card: {left} bytes left over after {what}")]
    Trailing {
        /// Name of what was read.
        what: &'static str,
        /// Number of bytes after it.
        left: usize,
    },
}

/// One section of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section<'a> {
    /// Name: that of the netmod, or [`NODE_SECTION`].
    pub name: &'a str,
    /// Version of the body. Versions of one name only append to the body.
    pub version: u16,
    /// Content; see [`BodyReader`].
    pub body: &'a [u8],
}

impl<'a> Section<'a> {
    /// Takes a section off the front of `rest`.
    fn take(rest: &mut &'a [u8]) -> Result<Section<'a>, CardError> {
        let mut r = BodyReader::new("a section", rest);
        let len = r.u8("the length of a section's name")?;
        let name = r.raw(len.into(), "a section's name")?;
        let name = check_name(name)?;
        let version = r.u16("a section's version")?;
        let len = r.u32("the length of a section's body")?;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let body = r.raw(len, "a section's body")?;
        *rest = r.rest();
        Ok(Section { name, version, body })
    }
}

/// A checked card.
#[derive(Clone, PartialEq, Eq)]
pub struct Card {
    /// The whole card, as it came. One allocation per card, since there may be very many.
    bytes: Box<[u8]>,
}

impl Card {
    /// Checks a card and keeps a copy, which is the only allocation.
    ///
    /// # Errors
    ///
    /// Returns the error in it, for any bytes.
    pub fn parse(bytes: &[u8]) -> Result<Card, CardError> {
        if !bytes.starts_with(&MAGIC) {
            let short = bytes.len() < MAGIC.len() && MAGIC.starts_with(bytes);
            return Err(if short { CardError::Truncated { what: "its header" } } else { CardError::Magic });
        }
        let mut r = BodyReader::new("the header", &bytes[MAGIC.len()..]);
        let version = r.u16("its header")?;
        if version != FORMAT_VERSION {
            return Err(CardError::Format { found: version });
        }
        let count = usize::from(r.u16("its header")?);
        let stated = usize::try_from(r.u32("its header")?).unwrap_or(usize::MAX);
        let found = r.u32("its header")?;
        if let Some(len) = [stated, bytes.len()].into_iter().find(|&len| len > MAX_CARD) {
            return Err(CardError::TooLarge { len });
        }
        if stated != bytes.len() {
            return Err(CardError::Length { stated, actual: bytes.len() });
        }
        let computed = checksum(bytes);
        if found != computed {
            return Err(CardError::Checksum { found, computed });
        }
        if count > MAX_SECTIONS {
            return Err(CardError::TooManySections { count });
        }
        let mut rest = r.rest();
        let mut names = [""; MAX_SECTIONS];
        for i in 0..count {
            let section = Section::take(&mut rest)?;
            if names[..i].contains(&section.name) {
                return Err(CardError::Duplicate { name: section.name.to_owned() });
            }
            names[i] = section.name;
        }
        if !rest.is_empty() {
            return Err(CardError::Trailing { what: "the last section", left: rest.len() });
        }
        Ok(Card { bytes: bytes.into() })
    }

    /// Returns the section of that name.
    pub fn section(&self, name: &str) -> Option<Section<'_>> {
        self.sections().find(|s| s.name == name)
    }

    /// Returns all sections in the order in which they were written, known or not.
    pub fn sections(&self) -> impl Iterator<Item = Section<'_>> {
        let mut rest = &self.bytes[HEADER..];
        // `parse` has checked them, so the first error is the end.
        core::iter::from_fn(move || Section::take(&mut rest).ok())
    }

    /// Returns the section on the node of the process.
    ///
    /// # Errors
    ///
    /// Fails if it is missing or malformed.
    pub fn node(&self) -> Result<NodeSection, CardError> {
        let section = self.section(NODE_SECTION).ok_or(CardError::Missing { name: NODE_SECTION })?;
        NodeSection::parse(section)
    }

    /// Returns the card as it was parsed.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Card {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.sections().map(|s| ((s.name, s.version), s.body.len()))).finish()
    }
}

/// A writer of a card.
#[derive(Clone, Debug)]
pub struct CardWriter {
    bytes: Vec<u8>,
    names: Vec<String>,
}

impl Default for CardWriter {
    fn default() -> CardWriter {
        CardWriter::new()
    }
}

impl CardWriter {
    /// Creates a card without sections.
    pub fn new() -> CardWriter {
        CardWriter { bytes: vec![0; HEADER], names: Vec::new() }
    }

    /// Adds a section. After an error the card is unchanged.
    ///
    /// # Errors
    ///
    /// Fails if the name is malformed or exists, or if the card would become too large.
    pub fn section(&mut self, name: &str, version: u16, body: &[u8]) -> Result<(), CardError> {
        check_name(name.as_bytes())?;
        if self.names.iter().any(|n| n == name) {
            return Err(CardError::Duplicate { name: name.to_owned() });
        }
        let count = self.names.len() + 1;
        if count > MAX_SECTIONS {
            return Err(CardError::TooManySections { count });
        }
        let len = self.bytes.len() + 1 + name.len() + 2 + 4 + body.len();
        if len > MAX_CARD {
            return Err(CardError::TooLarge { len });
        }
        // Both lengths fit, by the checks above.
        self.bytes.push(name.len() as u8);
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.extend_from_slice(&version.to_le_bytes());
        self.bytes.extend_from_slice(&(body.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(body);
        self.names.push(name.to_owned());
        Ok(())
    }

    /// Returns the finished card.
    pub fn finish(mut self) -> Vec<u8> {
        let (count, len) = (self.names.len() as u16, self.bytes.len() as u32);
        self.bytes[..4].copy_from_slice(&MAGIC);
        self.bytes[4..6].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        self.bytes[6..8].copy_from_slice(&count.to_le_bytes());
        self.bytes[8..12].copy_from_slice(&len.to_le_bytes());
        let sum = checksum(&self.bytes);
        self.bytes[CHECKSUM_AT..HEADER].copy_from_slice(&sum.to_le_bytes());
        self.bytes
    }
}

fn check_name(name: &[u8]) -> Result<&str, CardError> {
    let fits = (1..=MAX_NAME).contains(&name.len()) && name.iter().all(u8::is_ascii_graphic);
    match core::str::from_utf8(name) {
        Ok(name) if fits => Ok(name),
        _ => Err(CardError::Name { name: name[..name.len().min(MAX_NAME)].to_vec() }),
    }
}

/// Returns the FNV-1a of all but the checksum's own bytes. `bytes` holds at least a header.
fn checksum(bytes: &[u8]) -> u32 {
    let (head, rest) = (&bytes[..CHECKSUM_AT], &bytes[HEADER..]);
    head.iter().chain(rest).fold(0x811C_9DC5, |h, &b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193))
}
