//! The netmod's section of the business card: what peers learn of this process's ports.
//!
//! Numbers are little-endian. Texts and addresses have a two-byte length in front.
//!
//! | bytes | |
//! |---|---|
//! | 2 | version of the frames, [`PROTOCOL`] |
//! | 4, 4 | maximum frame length in bytes; window in units |
//! | 16, 8 | kernel and network namespace, zeros if unknown |
//! | bytes | end of the process's life line, in the format of its owner |
//! | 1 | number of ports, then for each: |
//! | text | device and port, such as `mlx5_0:1` |
//! | 1 | type of its GID: 0 InfiniBand, 1 RoCE v1, 2 RoCE v2 |
//! | 1 | prefix length of the GID's IP address; 255 if unknown |
//! | 4, 4 | Mb/s, 0 if unknown; MTU in bytes |
//! | bytes | destination of handshakes |

use hca::GidKind;
use netmod_core::card::{BodyReader, BodyWriter, CardError, CardWriter, Section};
use netmod_matching::Location;

use crate::NAME;
use crate::wire::Address;

/// Version of the section.
pub const VERSION: u16 = 1;
/// Version of the frames. Peers of another version are rejected.
pub const PROTOCOL: u16 = 5;
/// Maximum number of ports in a card.
pub const MAX_PORTS: usize = 16;
/// Minimum useful frame length, in bytes.
const MIN_FRAME: u32 = 256;
const UNKNOWN: u8 = 255;

/// A process's section of the card.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerbsCard {
    /// Version of its frames.
    pub protocol: u16,
    /// Maximum length of a received frame, in bytes.
    pub frame: u32,
    /// Window for frames from a peer, in units.
    pub window: u32,
    /// Kernel and network namespace.
    pub here: Location,
    /// End of the process's life line.
    pub lifeline: Box<[u8]>,
    /// Its ports, at least one.
    pub ports: Vec<CardPort>,
}

/// An opened port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardPort {
    /// Name of device and port.
    pub name: String,
    /// Type of its GID.
    pub kind: GidKind,
    /// Prefix length of the GID's IP address, if known.
    pub prefix: Option<u8>,
    /// Speed in Mb/s, if known.
    pub speed: Option<u32>,
    /// MTU in bytes.
    pub mtu: u32,
    /// Destination of handshakes.
    pub address: Box<[u8]>,
}

impl VerbsCard {
    /// Adds the section to a card.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn write(&self, card: &mut CardWriter) -> Result<(), CardError> {
        card.section(NAME, VERSION, &self.body())
    }

    /// Returns the section's body.
    pub(crate) fn body(&self) -> Vec<u8> {
        let mut w = BodyWriter::new();
        w.u16(self.protocol).u32(self.frame).u32(self.window);
        w.raw(&self.here.boot).u64(self.here.netns).bytes(&self.lifeline).u8(self.ports.len() as u8);
        for p in &self.ports {
            let kind = match p.kind {
                GidKind::Ib => 0,
                GidKind::RoceV1 => 1,
                GidKind::RoceV2 => 2,
            };
            w.str(&p.name).u8(kind).u8(p.prefix.unwrap_or(UNKNOWN));
            w.u32(p.speed.unwrap_or(0)).u32(p.mtu).bytes(&p.address);
        }
        w.as_bytes().to_vec()
    }

    /// Parses a peer's section.
    ///
    /// # Errors
    /// Rejects everything that [`VerbsCard::write`] cannot have written.
    pub fn parse(section: Section<'_>) -> Result<VerbsCard, CardError> {
        let malformed = |what, expected| CardError::Malformed { what, expected };
        let mut r = BodyReader::new("the section verbs", section.body);
        if section.version > VERSION {
            r = r.allow_trailing();
        }
        let protocol = r.u16("the version of its frames")?;
        let frame = r.u32("its longest frame")?;
        if frame < MIN_FRAME {
            return Err(malformed("its longest frame", "it must be at least 256 bytes"));
        }
        let window = r.u32("its window")?;
        if window == 0 {
            return Err(malformed("its window", "it must not be zero"));
        }
        let here = Location { boot: r.array("its kernel")?, netns: r.u64("its network namespace")? };
        let lifeline = r.bytes("its life line")?.into();
        let count = usize::from(r.u8("its number of ports")?);
        if !(1..=MAX_PORTS).contains(&count) {
            return Err(malformed("its number of ports", "it must be from 1 to 16"));
        }
        let mut ports = Vec::with_capacity(count);
        for _ in 0..count {
            let name = r.str("a port's name")?;
            if name.len() > 255 || name.contains(char::is_control) {
                let expected = "it must be at most 255 bytes without control characters";
                return Err(malformed("a port's name", expected));
            }
            let kind = match r.u8("the kind of a GID")? {
                0 => GidKind::Ib,
                1 => GidKind::RoceV1,
                2 => GidKind::RoceV2,
                _ => return Err(malformed("the kind of a GID", "it must be from 0 to 2")),
            };
            let prefix = match r.u8("the length of a prefix")? {
                UNKNOWN => None,
                n if n <= 128 => Some(n),
                _ => return Err(malformed("the length of a prefix", "it must be at most 128, or 255")),
            };
            let speed = Some(r.u32("a port's speed")?).filter(|s| *s > 0);
            let mtu = r.u32("a port's MTU")?;
            let address: Box<[u8]> = r.bytes("a port's address")?.into();
            if Address::parse(&address).is_none() {
                return Err(malformed("a port's address", "it must be one of this version"));
            }
            ports.push(CardPort { name: name.to_owned(), kind, prefix, speed, mtu, address });
        }
        r.finish()?;
        Ok(VerbsCard { protocol, frame, window, here, lifeline, ports })
    }
}

#[cfg(test)]
#[path = "card_tests.rs"]
pub(crate) mod tests;
