//! The name of a port: one word of text with which a process of another job can connect.
//!
//! `netmod-port:` and then, in base64url without padding: version (1 byte), tag (8, little-endian),
//! key (32), business card of the process that accepts, CRC-32 of all that (4, little-endian).
//!
//! The name holds the port's key: who knows the name may connect, so it is passed on like a
//! password (a file with mode 0600, not a public place).

use std::fmt;
use std::str::FromStr;

use netmod_core::{Card, CardError};
use netmod_pmi::codec::{crc32, from_text, to_text};

const PREFIX: &str = "netmod-port:";
const VERSION: u8 = 1;
/// Longest text that is looked at.
const MAX_TEXT: usize = 128 << 10;
const CARD_AT: usize = 1 + 8 + KEY_LEN;
const CRC_LEN: usize = 4;
/// Length of a port's key in bytes.
pub(crate) const KEY_LEN: usize = 32;

/// The name of a port, made by [`crate::Vci::open_port`].
///
/// `Display` and [`FromStr`] are its text, with the port's key; `Debug` shows no key.
#[derive(Clone, PartialEq, Eq)]
pub struct PortName {
    pub(crate) tag: u64,
    pub(crate) key: [u8; KEY_LEN],
    pub(crate) card: Card,
}

/// The error of a text that is no port name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PortNameError {
    /// It is something else.
    #[error(
        "not a port name: it begins with \"{start}\", not with \"netmod-port:\"; give the whole word that open_port has returned"
    )]
    Prefix {
        /// Its first characters.
        start: String,
    },
    /// More text than any port name has.
    #[error("not a port name: {len} bytes of text are more than any has")]
    TooLong {
        /// Its length.
        len: usize,
    },
    /// It has characters that no port name has, or one too many or too few.
    #[error("port name: it is not base64url behind \"netmod-port:\"; was it cut off, or broken into lines?")]
    Text,
    /// Its end is missing, or a part was changed.
    #[error("port name: its checksum is wrong; was it copied whole?")]
    Checksum,
    /// Made by a version of this library that has another form of names.
    #[error(
        "port name: version {0} is unknown here, this is version {VERSION}; use the same version of netmod in both jobs"
    )]
    Version(u8),
    /// The business card in it is broken.
    #[error("port name: {0}")]
    Card(#[from] CardError),
}

impl PortName {
    /// A number that tells ports apart, for messages. It is no secret.
    pub fn tag(&self) -> u64 {
        self.tag
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.tag.to_le_bytes());
        bytes.extend_from_slice(&self.key);
        bytes.extend_from_slice(self.card.as_bytes());
        bytes.extend_from_slice(&crc32(&bytes).to_le_bytes());
        write!(f, "{PREFIX}{}", to_text(&bytes))
    }
}

impl fmt::Debug for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PortName({:016x})", self.tag)
    }
}

impl FromStr for PortName {
    type Err = PortNameError;

    /// Reads a name; space around it, as files have it, does not matter.
    fn from_str(text: &str) -> Result<PortName, PortNameError> {
        let text = text.trim();
        let Some(body) = text.strip_prefix(PREFIX) else {
            return Err(PortNameError::Prefix { start: text.chars().take(PREFIX.len()).collect() });
        };
        if body.len() > MAX_TEXT {
            return Err(PortNameError::TooLong { len: text.len() });
        }
        let bytes = from_text(body).ok_or(PortNameError::Text)?;
        let Some((bytes, crc)) = bytes.split_last_chunk::<CRC_LEN>() else {
            return Err(PortNameError::Text);
        };
        if crc32(bytes) != u32::from_le_bytes(*crc) {
            return Err(PortNameError::Checksum);
        }
        match bytes.first() {
            Some(&VERSION) => {}
            Some(other) => return Err(PortNameError::Version(*other)),
            None => return Err(PortNameError::Text),
        }
        let (Some(head), Some(card)) = (bytes.first_chunk::<CARD_AT>(), bytes.get(CARD_AT..)) else {
            return Err(PortNameError::Text);
        };
        let (mut tag, mut key) = ([0; 8], [0; KEY_LEN]);
        tag.copy_from_slice(&head[1..9]);
        key.copy_from_slice(&head[9..]);
        Ok(PortName { tag: u64::from_le_bytes(tag), key, card: Card::parse(card)? })
    }
}

#[cfg(test)]
mod tests;
