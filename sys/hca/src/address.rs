//! Addresses of ports: GIDs, and the attributes of an address handle.

use core::fmt;

/// A port's global identifier, in wire order. With RoCE it is made of an IP address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// Returns true if this is an unused entry of the table.
    pub fn is_zero(&self) -> bool {
        self.0 == [0; 16]
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        core::net::Ipv6Addr::from(self.0).fmt(f)
    }
}

/// Type of a GID: the encapsulation of the packets sent with it (`ibv_query_gid_ex(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GidKind {
    /// InfiniBand.
    Ib,
    /// RoCE version 1: directly over Ethernet, within one link.
    RoceV1,
    /// RoCE version 2: over UDP, routable.
    RoceV2,
}

/// An entry of a port's table of GIDs (`ibv_query_gid_ex(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GidEntry {
    /// The GID.
    pub gid: Gid,
    /// Its index in the table.
    pub index: u8,
    /// Its type.
    pub kind: GidKind,
    /// Index of the network interface that has the address; 0 if there is none (InfiniBand).
    pub ifindex: u32,
}

/// The global part of a route: needed to leave the subnet, and always with RoCE
/// (`ibv_create_ah(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalRoute {
    /// The peer's GID.
    pub dgid: Gid,
    /// Index of this side's GID in its port's table.
    pub sgid_index: u8,
    /// Number of routers that a packet may pass.
    pub hop_limit: u8,
    /// Traffic class; with RoCE version 2 the IP header's.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
}

/// A route to a port, for a connected queue pair or for datagrams (`ibv_create_ah(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AhAttr {
    /// The local port that sends, from 1 on.
    pub port: u8,
    /// The peer's local identifier; 0 with RoCE.
    pub dlid: u16,
    /// Service level, 0 to 15.
    pub sl: u8,
    /// Selects the source among this port's local identifiers.
    pub src_path_bits: u8,
    /// The global part; required with RoCE.
    pub grh: Option<GlobalRoute>,
}
