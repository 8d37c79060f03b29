//! What a host's routing tables say, and whom to ask.

use core::net::IpAddr;

/// May packets from this address leave by this interface to that address, and how?
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Query {
    /// The interface's number ([`crate::Nic::index`]).
    pub index: u32,
    /// The source: an address of that interface.
    pub from: IpAddr,
    /// The destination.
    pub to: IpAddr,
}

/// What the routing tables say, from worst to best.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Answer {
    /// No route by this interface; also one that forbids (unreachable, prohibit, blackhole).
    None,
    /// Nobody could be asked, or the question failed: neither yes nor no.
    Unknown,
    /// By a gateway, and only because all the rest of the world goes there.
    Default,
    /// By a gateway, with a route meant for such destinations.
    Gateway,
    /// Without a gateway.
    OnLink,
}

/// A destination that a routing table names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Destination {
    /// The number of the interface that the route is by; `None` if it may be by any, or forbids all.
    pub by: Option<u32>,
    /// The network.
    pub net: IpAddr,
    /// Bits of the network part.
    pub prefix: u8,
}

/// Somebody who knows a host's routing tables.
pub trait Routes {
    /// An answer to each query, in the same order.
    fn ask(&mut self, queries: &[Query]) -> Vec<Answer>;

    /// The destinations that the tables name; `None` if they cannot be listed.
    fn destinations(&mut self) -> Option<Vec<Destination>>;
}
