//! Where a port is: GIDs, and the attributes of an address handle.

use core::fmt;

/// A port's global identifier: of InfiniBand, or, with RoCE, made of an IP address. In the order of the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// Whether it is an unused entry of the table.
    pub fn is_zero(&self) -> bool {
        self.0 == [0; 16]
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        core::net::Ipv6Addr::from(self.0).fmt(f)
    }
}

/// What packets look like that a GID is used for (`ibv_query_gid_ex(3)`).
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
    /// The address.
    pub gid: Gid,
    /// Its place in the table.
    pub index: u8,
    /// What it is used for.
    pub kind: GidKind,
    /// Number of the network interface that has the address, 0 without one (InfiniBand).
    pub ifindex: u32,
}

/// The part of a way that leads out of the subnet, and with RoCE to the peer at all (`ibv_create_ah(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalRoute {
    /// The peer's GID.
    pub dgid: Gid,
    /// Place of this side's GID in its port's table.
    pub sgid_index: u8,
    /// How many routers a packet may pass.
    pub hop_limit: u8,
    /// Traffic class; with RoCE version 2 the IP header's.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
}

/// A way to a port: of a connected queue pair, or of datagrams (`ibv_create_ah(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AhAttr {
    /// The port of this side that packets leave by, from 1 on.
    pub port: u8,
    /// The peer's local identifier; 0 with RoCE.
    pub dlid: u16,
    /// Service level, 0 to 15.
    pub sl: u8,
    /// Which of this port's local identifiers is the source.
    pub src_path_bits: u8,
    /// The global part; must be there with RoCE.
    pub grh: Option<GlobalRoute>,
}
