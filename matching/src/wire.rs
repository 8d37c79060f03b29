//! A record as bytes, for business cards: compact, versioned, bounded, and read with suspicion.
//!
//! All numbers are little-endian.
//!
//! | bytes | |
//! |---|---|
//! | 1 | version of this format, [`VERSION`] |
//! | 16 | boot id |
//! | 8 | number of the network namespace |
//! | 1 | number of interfaces, at most [`MAX_NICS`] |
//!
//! Each interface: length of its name (1, at most [`MAX_NAME`]), name (UTF-8), kind (1), flags (1; bit 0 up, 1 carrier,
//! 2 speed known), index (4), speed in Mb/s (4; 0 if unknown), MTU (4), number of addresses (1, at most
//! [`MAX_ADDRESSES`]). Each address: family (1; 4 or 6), bits of the network part (1), address (4 or 16).
//!
//! Only canonical records ([`Canonical`]) are written and read, so that equal records are equal bytes.

use core::fmt;
use core::net::IpAddr;

use crate::canonical::{Canonical, MAX_ADDRESSES, MAX_NAME};
use crate::record::{Address, Host, Kind, Nic, Place};
use crate::weight::MAX_NICS;

/// The version that is written, and the only one that is read.
pub const VERSION: u8 = 1;

/// Most bytes of a record.
pub const MAX_LEN: usize = 26 + MAX_NICS * (1 + MAX_NAME + 15 + MAX_ADDRESSES * 18);

const UP: u8 = 1;
const CARRIER: u8 = 2;
const SPEED: u8 = 4;

/// What is wrong with a record that a peer published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WireError {
    /// Another version of the format.
    Version(u8),
    /// It ends before it is complete.
    Truncated,
    /// Something follows its end.
    Trailing(usize),
    /// More interfaces than [`MAX_NICS`].
    TooManyNics(u8),
    /// A value that stands for nothing: what, and the value.
    Value(&'static str, u8),
    /// A name that is not UTF-8.
    Name,
    /// Names, addresses or their order are not those of a canonical record.
    NotCanonical,
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interfaces that the peer published: ")?;
        match self {
            WireError::Version(v) => write!(
                f,
                "version {v}, but only {VERSION} is understood; start all processes of the job with the same version of netmod"
            ),
            WireError::Truncated => f.write_str("cut off; was the business card fetched whole?"),
            WireError::Trailing(n) => write!(f, "{n} bytes too many; was the business card altered?"),
            WireError::TooManyNics(n) => write!(f, "{n} of them, more than the {MAX_NICS} that anyone publishes"),
            WireError::Value(what, v) => write!(f, "{what} {v} does not exist; was the business card altered?"),
            WireError::Name => f.write_str("a name is not UTF-8; was the business card altered?"),
            WireError::NotCanonical => {
                f.write_str("names, addresses or their order are not such as netmod publishes; was the business card altered?")
            }
        }
    }
}

impl core::error::Error for WireError {}

const KINDS: [Kind; 12] = [
    Kind::Physical,
    Kind::Vlan,
    Kind::Bond,
    Kind::Macvlan,
    Kind::Veth,
    Kind::BridgeOut,
    Kind::BridgeIn,
    Kind::Port,
    Kind::Tunnel,
    Kind::Dummy,
    Kind::PointToPoint,
    Kind::Loopback,
];

fn code(kind: Kind) -> u8 {
    match kind {
        Kind::Physical => 0,
        Kind::Vlan => 1,
        Kind::Bond => 2,
        Kind::Macvlan => 3,
        Kind::Veth => 4,
        Kind::BridgeOut => 5,
        Kind::BridgeIn => 6,
        Kind::Port => 7,
        Kind::Tunnel => 8,
        Kind::Dummy => 9,
        Kind::PointToPoint => 10,
        Kind::Loopback => 11,
    }
}

/// The canonical form of a record as bytes, at most [`MAX_LEN`].
pub fn encode(host: &Host) -> Vec<u8> {
    let host = Canonical::new(host).host;
    let mut out = vec![VERSION];
    out.extend_from_slice(&host.place.boot);
    out.extend_from_slice(&host.place.netns.to_le_bytes());
    // Canonical records are bounded far below 256 in each respect.
    out.push(host.nics.len() as u8);
    for nic in &host.nics {
        out.push(nic.name.len() as u8);
        out.extend_from_slice(nic.name.as_bytes());
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = flag(nic.up, UP) | flag(nic.carrier, CARRIER) | flag(nic.speed.is_some(), SPEED);
        out.extend_from_slice(&[code(nic.kind), flags]);
        out.extend_from_slice(&nic.index.to_le_bytes());
        out.extend_from_slice(&nic.speed.unwrap_or(0).to_le_bytes());
        out.extend_from_slice(&nic.mtu.to_le_bytes());
        out.push(nic.addresses.len() as u8);
        for address in &nic.addresses {
            match address.ip {
                IpAddr::V4(v4) => {
                    out.extend_from_slice(&[4, address.prefix]);
                    out.extend_from_slice(&v4.octets());
                }
                IpAddr::V6(v6) => {
                    out.extend_from_slice(&[6, address.prefix]);
                    out.extend_from_slice(&v6.octets());
                }
            }
        }
    }
    out
}

/// Reads a record.
///
/// # Errors
/// Whatever [`encode`] would not have written.
pub fn parse(bytes: &[u8]) -> Result<Host, WireError> {
    let mut r = Reader { rest: bytes };
    let [version] = r.take()?;
    if version != VERSION {
        return Err(WireError::Version(version));
    }
    let place = Place { boot: r.take()?, netns: u64::from_le_bytes(r.take()?) };
    let [count] = r.take()?;
    if usize::from(count) > MAX_NICS {
        return Err(WireError::TooManyNics(count));
    }
    let mut host = Host { place, nics: Vec::with_capacity(count.into()) };
    for _ in 0..count {
        host.nics.push(r.nic()?);
    }
    if !r.rest.is_empty() {
        return Err(WireError::Trailing(r.rest.len()));
    }
    let canonical = Canonical::new(&host);
    if canonical.host != host || !canonical.omitted.is_empty() {
        return Err(WireError::NotCanonical);
    }
    Ok(host)
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(WireError::Truncated)?;
        self.rest = rest;
        Ok(*head)
    }

    fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn nic(&mut self) -> Result<Nic, WireError> {
        let [len] = self.take()?;
        let (name, rest) = self.rest.split_at_checked(len.into()).ok_or(WireError::Truncated)?;
        self.rest = rest;
        let name = core::str::from_utf8(name).map_err(|_| WireError::Name)?.to_owned();
        let [kind, flags] = self.take()?;
        let kind = *KINDS.get(usize::from(kind)).ok_or(WireError::Value("kind", kind))?;
        if flags & !(UP | CARRIER | SPEED) != 0 {
            return Err(WireError::Value("set of flags", flags));
        }
        let index = self.u32()?;
        let speed = self.u32()?;
        let known = flags & SPEED != 0;
        if !known && speed != 0 {
            return Err(WireError::NotCanonical);
        }
        let mtu = self.u32()?;
        let [count] = self.take()?;
        if usize::from(count) > MAX_ADDRESSES {
            return Err(WireError::Value("number of addresses", count));
        }
        let mut addresses = Vec::with_capacity(count.into());
        for _ in 0..count {
            let [family, prefix] = self.take()?;
            let ip = match family {
                4 => IpAddr::from(self.take::<4>()?),
                6 => IpAddr::from(self.take::<16>()?),
                other => return Err(WireError::Value("family", other)),
            };
            addresses.push(Address { ip, prefix });
        }
        Ok(Nic {
            name,
            index,
            kind,
            addresses,
            speed: known.then_some(speed),
            mtu,
            up: flags & UP != 0,
            carrier: flags & CARRIER != 0,
        })
    }
}

#[cfg(test)]
mod tests;
