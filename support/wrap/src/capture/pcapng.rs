//! Reader and writer of the three pcapng blocks that a capture consists of.
//!
//! Source: draft-ietf-opsawg-pcapng (section header, interface description, enhanced packet). Any
//! tool that knows pcapng reads these files.
//!
//! The reader is for files that are truncated or damaged. It looks for the next valid block,
//! reports how many bytes it has skipped, allocates nothing by a length that it has read, and knows
//! only little-endian sections.

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// `LINKTYPE_USER0`.
pub(crate) const LINK_TYPE: u16 = 147;
/// Longest block in bytes.
const BLOCK_MAX: usize = 4 << 20;
/// Bytes of a block in addition to its body.
const FRAME: usize = 12;

const OPT_COMMENT: u16 = 1;
const OPT_APPLICATION: u16 = 4;
const OPT_IF_NAME: u16 = 2;
const OPT_IF_RESOLUTION: u16 = 9;

fn padded(len: usize) -> usize {
    len.next_multiple_of(4)
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    out.resize(padded(out.len()), 0);
}

/// Appends a block whose body `fill` writes.
fn block(out: &mut Vec<u8>, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    fill(out);
    // Blocks begin at multiples of 4 in the file, and `out` begins with one.
    out.resize(start + padded(out.len() - start), 0);
    let len = (out.len() - start + 4) as u32;
    out[start + 4..start + 8].copy_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
}

/// Appends the blocks at the beginning of a file.
pub(crate) fn begin(out: &mut Vec<u8>, comment: &str, interface: &str, snap: u32) {
    block(out, SECTION, |out| {
        out.extend_from_slice(&BYTE_ORDER.to_le_bytes());
        out.extend_from_slice(&[1, 0, 0, 0]);
        out.extend_from_slice(&u64::MAX.to_le_bytes());
        option(out, OPT_APPLICATION, concat!("netmod-wrap ", env!("CARGO_PKG_VERSION")).as_bytes());
        option(out, OPT_COMMENT, comment.as_bytes());
        option(out, 0, &[]);
    });
    block(out, INTERFACE, |out| {
        out.extend_from_slice(&LINK_TYPE.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&snap.to_le_bytes());
        option(out, OPT_IF_NAME, interface.as_bytes());
        // Times are in nanoseconds.
        option(out, OPT_IF_RESOLUTION, &[9]);
        option(out, 0, &[]);
    });
}

/// Appends a packet that consists of `parts` and originally had `whole` bytes.
pub(crate) fn packet(out: &mut Vec<u8>, nanos: u64, parts: &[&[u8]], whole: u64) {
    let kept: usize = parts.iter().map(|p| p.len()).sum();
    block(out, PACKET, |out| {
        out.extend_from_slice(&0u32.to_le_bytes());
        out.extend_from_slice(&((nanos >> 32) as u32).to_le_bytes());
        out.extend_from_slice(&(nanos as u32).to_le_bytes());
        out.extend_from_slice(&(kept as u32).to_le_bytes());
        out.extend_from_slice(&u32::try_from(whole).unwrap_or(u32::MAX).to_le_bytes());
        parts.iter().for_each(|p| out.extend_from_slice(p));
    });
}

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block<'a> {
    /// The beginning of a file, or of one of several that were concatenated.
    Section {
        /// Comment of its writer.
        comment: Option<&'a str>,
    },
    /// An interface, with its link type.
    Interface {
        /// Its link type.
        link: u16,
    },
    /// A packet.
    Packet {
        /// Nanoseconds since the beginning of 1970.
        nanos: u64,
        /// The captured part.
        data: &'a [u8],
    },
    /// A block of another kind, which is ignored.
    Other,
    /// Invalid bytes, or the beginning of a truncated block.
    Skipped {
        /// Offset of the first one.
        at: usize,
        /// Their number.
        bytes: usize,
    },
}

/// An iterator over the blocks of a file.
#[derive(Clone, Debug)]
pub struct Blocks<'a> {
    file: &'a [u8],
    at: usize,
}

impl<'a> Blocks<'a> {
    /// Iterates over the blocks of a whole file.
    pub fn new(file: &'a [u8]) -> Blocks<'a> {
        Blocks { file, at: 0 }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let b = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let b = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_le_bytes([b[0], b[1]]))
}

/// Returns the block at the beginning of `file`, and its length; `None` if there is none.
fn read(file: &[u8]) -> Option<(Block<'_>, usize)> {
    let (kind, len) = (u32_at(file, 0)?, u32_at(file, 4)? as usize);
    if len % 4 != 0
        || !(FRAME..=BLOCK_MAX).contains(&len)
        || u32_at(file, len.checked_sub(4)?)? as usize != len
    {
        return None;
    }
    let body = file.get(8..len - 4)?;
    let block = match kind {
        SECTION => {
            if u32_at(body, 0)? != BYTE_ORDER {
                return None;
            }
            Block::Section { comment: comment(body.get(16..)?) }
        }
        INTERFACE => Block::Interface { link: u16_at(body, 0)? },
        PACKET => {
            let nanos = u64::from(u32_at(body, 4)?) << 32 | u64::from(u32_at(body, 8)?);
            let kept = u32_at(body, 12)? as usize;
            Block::Packet { nanos, data: body.get(20..)?.get(..kept)? }
        }
        _ => Block::Other,
    };
    Some((block, len))
}

/// Returns the comment among options.
fn comment(mut options: &[u8]) -> Option<&str> {
    loop {
        let (code, len) = (u16_at(options, 0)?, usize::from(u16_at(options, 2)?));
        let value = options.get(4..4 + len)?;
        match code {
            0 => return None,
            OPT_COMMENT => return std::str::from_utf8(value).ok(),
            _ => options = options.get(4 + padded(len)..)?,
        }
    }
}

impl<'a> Iterator for Blocks<'a> {
    type Item = Block<'a>;

    fn next(&mut self) -> Option<Block<'a>> {
        let start = self.at;
        let rest = self.file.get(start..)?;
        if rest.is_empty() {
            return None;
        }
        if let Some((block, len)) = read(rest) {
            self.at += len;
            return Some(block);
        }
        // The next offset at which a block of a known kind begins. Bytes may be missing, so it need
        // not be a multiple of 4.
        let known =
            |b: &[u8]| matches!(u32_at(b, 0), Some(SECTION | INTERFACE | PACKET)) && read(b).is_some();
        let skip = (1..rest.len()).find(|&i| known(&rest[i..])).unwrap_or(rest.len());
        self.at += skip;
        Some(Block::Skipped { at: start, bytes: skip })
    }
}
