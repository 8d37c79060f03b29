//! Wire formats of ports and endpoints, for cards and handshakes.
//!
//! All integers are little-endian; a GID is in wire order.
//!
//! A port, as the destination of handshakes:
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 1 | 1: this layout |
//! | 1 | 1 | bit 0: its link is Ethernet, which needs global routes; bit 1: it has an XRC domain |
//! | 2 | 2 | local identifier |
//! | 4 | 16 | GID |
//! | 20 | 4 | number of its datagram queue pair |
//! | 24 | 4 | key of that queue pair |
//!
//! An endpoint of a reliable connection:
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 1 | 1: this layout |
//! | 1 | 1 | bit 0 as of a port |
//! | 2 | 2 | local identifier |
//! | 4 | 16 | GID |
//! | 20 | 4 | number of the queue pair |
//! | 24 | 4 | packet sequence number of its first packet |
//! | 28 | 1 | code of the largest MTU of its link |
//! | 29 | 1 | maximum number of reads from the peer in flight |
//!
//! An endpoint of XRC:
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 1 | 2: this layout |
//! | 1 | 27 | the port, as above |
//! | 28 | 8, 8 | its domain: device and inode of the file |
//! | 44 | 4 | number of the shared receive queue |
//! | 48 | 8 | token of the endpoint, not zero |
//! | 56 | 1 | code of the largest MTU of its link |

use hca::{AhAttr, Gid, GlobalRoute, Mtu, QpNum, SrqNum};

use crate::error::PortError;

const LAYOUT: u8 = 1;
const ETHERNET: u8 = 1;
const XRC: u8 = 2;
const XRC_LAYOUT: u8 = 2;
/// Mask of a queue pair number or packet sequence number.
pub(crate) const BITS_24: u32 = 0x00ff_ffff;

/// Location of a port in the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PortLocation {
    pub(crate) ethernet: bool,
    pub(crate) lid: u16,
    pub(crate) gid: Gid,
}

impl PortLocation {
    fn emit(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[LAYOUT, if self.ethernet { ETHERNET } else { 0 }]);
        out.extend_from_slice(&self.lid.to_le_bytes());
        out.extend_from_slice(&self.gid.0);
    }

    fn parse(b: &[u8; 20]) -> Option<PortLocation> {
        let [layout, flags, lid @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = b;
        let mut gid = [0; 16];
        gid.copy_from_slice(&b[4..]);
        let known = *layout == LAYOUT && *flags & !ETHERNET == 0;
        let lid = u16::from_le_bytes(*lid);
        known.then_some(PortLocation { ethernet: *flags & ETHERNET != 0, lid, gid: Gid(gid) })
    }

    /// Returns the route from a port of this host to this location.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn route(&self, from: &PortLocation, port: u8, sgid_index: u8) -> Result<AhAttr, PortError> {
        if self.ethernet != from.ethernet {
            return Err(PortError::LinkLayers);
        }
        // Within an InfiniBand subnet, the local identifier is sufficient.
        let near = !self.ethernet && self.gid.0[..8] == from.gid.0[..8];
        let grh = (!near).then_some(GlobalRoute {
            dgid: self.gid,
            sgid_index,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
        });
        if grh.is_some() && (self.gid.is_zero() || from.gid.is_zero()) {
            return Err(PortError::GidMissing);
        }
        Ok(AhAttr { port, dlid: self.lid, sl: 0, src_path_bits: 0, grh })
    }
}

/// Destination of handshakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) location: PortLocation,
    pub(crate) qp: QpNum,
    pub(crate) qkey: u32,
    /// True if the port has an XRC domain.
    pub(crate) xrc: bool,
}

impl Address {
    pub(crate) fn to_bytes(self) -> Box<[u8]> {
        let mut out = Vec::with_capacity(ADDRESS);
        self.location.emit(&mut out);
        out[1] |= if self.xrc { XRC } else { 0 };
        out.extend_from_slice(&self.qp.0.to_le_bytes());
        out.extend_from_slice(&self.qkey.to_le_bytes());
        out.into()
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Address> {
        let (location, rest) = bytes.split_first_chunk::<20>()?;
        let (qp, rest) = rest.split_first_chunk::<4>()?;
        let qkey = <[u8; 4]>::try_from(rest).ok()?;
        let qp = QpNum(u32::from_le_bytes(*qp));
        let usable = qp.0 > 1 && qp.0 <= BITS_24;
        let mut location = *location;
        let xrc = location[1] & XRC != 0;
        location[1] &= !XRC;
        let location = PortLocation::parse(&location)?;
        usable.then_some(Address { location, qp, qkey: u32::from_le_bytes(qkey), xrc })
    }
}

/// An endpoint of a reliable connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RcEndpoint {
    pub(crate) location: PortLocation,
    pub(crate) qp: QpNum,
    pub(crate) psn: u32,
    pub(crate) mtu: Mtu,
    pub(crate) reads: u8,
}

impl RcEndpoint {
    pub(crate) fn to_bytes(self) -> Box<[u8]> {
        let mut out = Vec::with_capacity(30);
        self.location.emit(&mut out);
        out.extend_from_slice(&self.qp.0.to_le_bytes());
        out.extend_from_slice(&self.psn.to_le_bytes());
        out.extend_from_slice(&[self.mtu as u8, self.reads]);
        out.into()
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<RcEndpoint> {
        let (location, rest) = bytes.split_first_chunk::<20>()?;
        let (qp, rest) = rest.split_first_chunk::<4>()?;
        let (psn, rest) = rest.split_first_chunk::<4>()?;
        let [mtu, reads] = *rest else { return None };
        let (qp, psn) = (QpNum(u32::from_le_bytes(*qp)), u32::from_le_bytes(*psn));
        let (location, mtu) = (PortLocation::parse(location)?, Mtu::of_code(mtu.into())?);
        let usable = qp.0 > 1 && qp.0 <= BITS_24 && psn <= BITS_24;
        usable.then_some(RcEndpoint { location, qp, psn, mtu, reads })
    }
}

/// Length of an [`Address`] in bytes.
pub(crate) const ADDRESS: usize = 28;

/// An XRC domain of a fabric. A former node's domain may have the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Domain {
    pub(crate) location: PortLocation,
    /// Device and inode of its file.
    pub(crate) file: (u64, u64),
}

/// An endpoint of XRC: a shared receive queue, and a token that identifies the endpoint in control
/// messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct XrcEndpoint {
    pub(crate) address: Address,
    pub(crate) file: (u64, u64),
    pub(crate) srq: SrqNum,
    pub(crate) token: u64,
    pub(crate) mtu: Mtu,
}

impl XrcEndpoint {
    pub(crate) fn domain(&self) -> Domain {
        Domain { location: self.address.location, file: self.file }
    }

    /// Returns true if the bytes describe an endpoint of XRC rather than of a reliable connection.
    pub(crate) fn is_one(bytes: &[u8]) -> bool {
        bytes.first() == Some(&XRC_LAYOUT)
    }

    pub(crate) fn to_bytes(self) -> Box<[u8]> {
        let mut out = self.address.to_bytes().into_vec();
        out[0] = XRC_LAYOUT;
        for word in [self.file.0, self.file.1] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&self.srq.0.to_le_bytes());
        out.extend_from_slice(&self.token.to_le_bytes());
        out.push(self.mtu as u8);
        out.into()
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<XrcEndpoint> {
        let (address, rest) = bytes.split_first_chunk::<ADDRESS>()?;
        let (file, rest) = rest.split_first_chunk::<16>()?;
        let (srq, rest) = rest.split_first_chunk::<4>()?;
        let (token, rest) = rest.split_first_chunk::<8>()?;
        let [mtu] = *rest else { return None };
        let mut address = *address;
        let known = core::mem::replace(&mut address[0], LAYOUT) == XRC_LAYOUT;
        let address = Address::parse(&address)?;
        let (words, _) = file.as_chunks::<8>();
        let [dev, ino] = *words.first_chunk::<2>()?;
        let (srq, token) = (SrqNum(u32::from_le_bytes(*srq)), u64::from_le_bytes(*token));
        let file = (u64::from_le_bytes(dev), u64::from_le_bytes(ino));
        let mtu = Mtu::of_code(mtu.into())?;
        let usable = known && address.xrc && token != 0 && srq.0 <= BITS_24;
        usable.then_some(XrcEndpoint { address, file, srq, token, mtu })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location() -> PortLocation {
        let gid = Gid(core::array::from_fn(|i| i as u8 + 5));
        PortLocation { ethernet: true, lid: 0x0403, gid }
    }

    #[test]
    fn golden_bytes() {
        let a = Address { location: location(), qp: QpNum(0x0017_1615), qkey: 0x1c1b_1a19, xrc: false };
        let mut want: Vec<u8> = (1..=28).collect();
        (want[1], want[23]) = (1, 0);
        assert_eq!(*a.to_bytes(), want);
        assert_eq!(Address::parse(&want), Some(a));
        let e = RcEndpoint { location: location(), qp: a.qp, psn: 0x001b_1a19, mtu: Mtu::B1024, reads: 9 };
        want[27] = 0;
        want.extend([3, 9]);
        assert_eq!(*e.to_bytes(), want);
        assert_eq!(RcEndpoint::parse(&want), Some(e));
        let address = Address { xrc: true, ..a };
        let file = (0x2423_2221_201f_1e1d, 0x2c2b_2a29_2827_2625);
        let x = XrcEndpoint {
            address,
            file,
            srq: SrqNum(0x002f_2e2d),
            token: 0x3837_3635_3433_3231,
            mtu: Mtu::B1024,
        };
        let mut want: Vec<u8> = (1..=57).collect();
        (want[0], want[1], want[23], want[47], want[56]) = (2, 3, 0, 0, 3);
        assert_eq!(*x.to_bytes(), want);
        assert_eq!(XrcEndpoint::parse(&want), Some(x));
        assert!(XrcEndpoint::is_one(&want) && !XrcEndpoint::is_one(&e.to_bytes()));
        for len in 0..want.len() {
            assert_eq!(XrcEndpoint::parse(&want[..len]), None, "{len}");
        }
        for (at, value) in [(0, 1), (1, 1), (47, 1), (56, 0), (56, 6)] {
            let mut b = want.clone();
            b[at] = value;
            assert_eq!(XrcEndpoint::parse(&b), None, "{at}: {value}");
        }
        want[48..56].fill(0);
        assert_eq!(XrcEndpoint::parse(&want), None, "no token");
    }

    #[test]
    fn invalid_bytes_are_rejected() {
        let a = Address { location: location(), qp: QpNum(9), qkey: 7, xrc: false }.to_bytes();
        let e =
            RcEndpoint { location: location(), qp: QpNum(9), psn: 1, mtu: Mtu::B256, reads: 1 }.to_bytes();
        for len in 0..e.len() {
            assert_eq!(RcEndpoint::parse(&e[..len]), None, "{len}");
            assert_eq!(Address::parse(&e[..len]).is_some(), len == a.len(), "{len}");
        }
        for (at, value) in [(0, 2), (1, 4), (20, 1), (20, 0), (23, 1)] {
            let (mut a, mut e) = (a.clone(), e.clone());
            (a[at], e[at]) = (value, value);
            assert_eq!((Address::parse(&a), RcEndpoint::parse(&e)), (None, None), "{at}: {value}");
        }
        for (at, value) in [(27, 1), (28, 0), (28, 6)] {
            let mut e = e.clone();
            e[at] = value;
            assert_eq!(RcEndpoint::parse(&e), None, "{at}: {value}");
        }
    }

    #[test]
    fn ways_have_a_global_route_where_it_is_needed() {
        let ib = |prefix: u8, lid| {
            let mut gid = [prefix; 16];
            gid[15] = lid as u8;
            PortLocation { ethernet: false, lid, gid: Gid(gid) }
        };
        let near = ib(1, 4).route(&ib(1, 3), 2, 7).unwrap();
        assert_eq!((near.port, near.dlid, near.grh), (2, 4, None));
        let far = ib(2, 4).route(&ib(1, 3), 1, 7).unwrap();
        assert_eq!(far.grh.map(|g| (g.dgid, g.sgid_index)), Some((ib(2, 4).gid, 7)));
        let eth = location().route(&location(), 1, 0).unwrap();
        assert_eq!(eth.grh.map(|g| g.dgid), Some(location().gid));
        assert!(matches!(location().route(&ib(1, 3), 1, 0), Err(PortError::LinkLayers)));
        let none = PortLocation { gid: Gid::default(), ..location() };
        assert!(matches!(none.route(&location(), 1, 0), Err(PortError::GidMissing)));
    }
}
