//! A record as bytes, for business cards: compact, versioned, bounded, and checked when read.
//!
//! All numbers are little-endian.
//!
//! | bytes | content |
//! |---|---|
//! | 1 | version of this format, [`VERSION`] |
//! | 16 | boot id |
//! | 8 | number of the network namespace |
//! | 1 | flags; bit 0: the routing tables were asked |
//! | 2, 2, 2 | interfaces, addresses, destinations cut off; 65,535 also stands for more |
//! | 2 | number of interfaces |
//!
//! Each interface: length of its name (1, at most [`MAX_NAME`](crate::MAX_NAME)), name (UTF-8),
//! kind (1), flags (1; bit 0 up, 1 carrier, 2 speed known), index (4), speed in Mb/s (4; 0 if
//! unknown), MTU (4), number of addresses (1, at most [`MAX_ADDRESSES`]).
//!
//! Each address: family (1; 4 or 6), bits of the network part (1), address (4 or 16), number of
//! destinations (1, at most [`MAX_REACH`]).
//!
//! Each destination: bits of its network part (1), the routing tables' answer (1; 0 no route, 1
//! unknown, 2 default route, 3 gateway, 4 on-link), the bytes that hold the network part.
//!
//! The whole has at most [`MAX_LEN`] bytes. Only canonical records ([`Canonical`]) are written and
//! read, so equal records are equal bytes.

use core::fmt;
use core::net::IpAddr;
use std::collections::HashSet;

use crate::address::width;
use crate::canonical::Canonical;
use crate::reach::{self, MAX_REACH};
use crate::record::{Address, Cut, Host, Kind, Location, Nic, Reach};
use crate::route::Answer;
use crate::size::{MAX_ADDRESSES, net_len};

pub use crate::size::MAX_LEN;

/// The version of the format that is written, and the only one that is read.
pub const VERSION: u8 = 2;

const ASKED: u8 = 1;
const UP: u8 = 1;
const CARRIER: u8 = 2;
const SPEED: u8 = 4;

/// The error in a record that a peer published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WireError {
    /// Another version of the format.
    Version(u8),
    /// The record ends early.
    Truncated,
    /// Bytes follow its end: their number.
    Trailing(usize),
    /// The record has so many bytes, more than [`MAX_LEN`].
    TooLong(usize),
    /// A field has a value without a meaning: the field, and the value.
    Value(&'static str, u8),
    /// A name is not UTF-8.
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
            WireError::TooLong(n) => write!(f, "{n} bytes, more than the {MAX_LEN} that anyone publishes"),
            WireError::Value(what, v) => write!(f, "{what} {v} does not exist; was the business card altered?"),
            WireError::Name => f.write_str("a name is not UTF-8; was the business card altered?"),
            WireError::NotCanonical => {
                f.write_str("names, addresses or their order are not such as netmod publishes; was the business card altered?")
            }
        }
    }
}

impl core::error::Error for WireError {}

const ANSWERS: [Answer; 5] =
    [Answer::None, Answer::Unknown, Answer::Default, Answer::Gateway, Answer::OnLink];

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

/// Returns the canonical form of a record as bytes, at most [`MAX_LEN`].
pub fn encode(host: &Host) -> Vec<u8> {
    let host = Canonical::new(host).host;
    let mut out = vec![VERSION];
    out.extend_from_slice(&host.location.boot);
    out.extend_from_slice(&host.location.netns.to_le_bytes());
    out.push(if host.reach.is_some() { ASKED } else { 0 });
    for cut in [host.cut.nics, host.cut.addresses, host.cut.routes] {
        out.extend_from_slice(&cut.to_le_bytes());
    }
    // Canonical records are small enough for these integers.
    out.extend_from_slice(&(host.nics.len() as u16).to_le_bytes());
    let mut said = HashSet::new();
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
            out.push(if address.ip.is_ipv4() { 4 } else { 6 });
            out.push(address.prefix);
            push_ip(&mut out, address.ip, usize::MAX);
            // The first of several interfaces that claim to be the same has the entries.
            let first = said.insert((nic.index, address.ip));
            let reach = host.reach.as_deref().filter(|_| first).unwrap_or_default();
            let reach = reach::entries(reach, nic.index, address.ip);
            out.push(reach.len() as u8);
            for r in reach {
                let answer = ANSWERS.iter().position(|a| *a == r.answer).unwrap_or_default();
                out.extend_from_slice(&[r.prefix, answer as u8]);
                push_ip(&mut out, r.net, net_len(r.prefix));
            }
        }
    }
    out
}

/// Appends an address, or its first `most` bytes.
fn push_ip(out: &mut Vec<u8>, ip: IpAddr, most: usize) {
    match ip {
        IpAddr::V4(v4) => out.extend(v4.octets().iter().take(most)),
        IpAddr::V6(v6) => out.extend(v6.octets().iter().take(most)),
    }
}

/// Reads a record.
///
/// # Errors
///
/// Returns an error for all bytes that [`encode`] cannot have written.
pub fn parse(bytes: &[u8]) -> Result<Host, WireError> {
    let mut r = Reader { rest: bytes };
    let [version] = r.take()?;
    if version != VERSION {
        return Err(WireError::Version(version));
    }
    if bytes.len() > MAX_LEN {
        return Err(WireError::TooLong(bytes.len()));
    }
    let location = Location { boot: r.take()?, netns: u64::from_le_bytes(r.take()?) };
    let [flags] = r.take()?;
    if flags & !ASKED != 0 {
        return Err(WireError::Value("set of flags", flags));
    }
    let cut = Cut { nics: r.u16()?, addresses: r.u16()?, routes: r.u16()? };
    let count = r.u16()?;
    let mut reach = Vec::new();
    let mut nics = Vec::new();
    for _ in 0..count {
        nics.push(r.nic(&mut reach)?);
    }
    let asked = flags & ASKED != 0;
    if !asked && !reach.is_empty() {
        return Err(WireError::NotCanonical);
    }
    reach.sort_unstable();
    let host = Host { location, nics, reach: asked.then_some(reach), cut };
    if !r.rest.is_empty() {
        return Err(WireError::Trailing(r.rest.len()));
    }
    // Each record has one form, so bytes that encode differently are not ours.
    if encode(&host) != bytes {
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

    fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_le_bytes(self.take()?))
    }

    fn u32(&mut self) -> Result<u32, WireError> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    /// Reads an interface; appends its addresses' destinations to `reach`.
    fn nic(&mut self, reach: &mut Vec<Reach>) -> Result<Nic, WireError> {
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
            let [count] = self.take()?;
            if usize::from(count) > MAX_REACH {
                return Err(WireError::Value("number of destinations", count));
            }
            for _ in 0..count {
                reach.push(self.reach(index, ip)?);
            }
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

impl Reader<'_> {
    /// Reads a destination of packets from this address.
    fn reach(&mut self, index: u32, from: IpAddr) -> Result<Reach, WireError> {
        let [prefix, answer] = self.take()?;
        if prefix > width(from) {
            return Err(WireError::Value("length of a network part", prefix));
        }
        let answer = *ANSWERS.get(usize::from(answer)).ok_or(WireError::Value("answer", answer))?;
        let (head, rest) = self.rest.split_at_checked(net_len(prefix)).ok_or(WireError::Truncated)?;
        self.rest = rest;
        let mut net = [0; 16];
        net[..head.len()].copy_from_slice(head);
        let net = match from {
            IpAddr::V4(_) => IpAddr::from([net[0], net[1], net[2], net[3]]),
            IpAddr::V6(_) => IpAddr::from(net),
        };
        Ok(Reach { index, from, net, prefix, answer })
    }
}

#[cfg(test)]
mod tests;
