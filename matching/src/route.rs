//! Queries to a host's routing tables, and their answers.

use core::net::IpAddr;

/// A query: may packets from this address leave by this interface to that address, and how?
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Query {
    /// Number of the interface ([`crate::Nic::index`]).
    pub index: u32,
    /// Source: an address of that interface.
    pub from: IpAddr,
    /// Destination.
    pub to: IpAddr,
}

/// The answer of the routing tables, from worst to best.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Answer {
    /// No route by this interface, or one that forbids (unreachable, prohibit, blackhole).
    None,
    /// No table could be asked, or the query failed.
    Unknown,
    /// A gateway, through a default route.
    Default,
    /// A gateway, through a route for such destinations.
    Gateway,
    /// No gateway: the destination is on the link.
    OnLink,
}

/// A destination that a routing table names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Destination {
    /// Number of the route's interface; `None` if any interface will do, or the route forbids all.
    pub by: Option<u32>,
    /// The network.
    pub net: IpAddr,
    /// Length of the network part in bits.
    pub prefix: u8,
}

/// A source of answers about a host's routing tables.
pub trait Routes {
    /// Answers each query, in the same order.
    fn ask(&mut self, queries: &[Query]) -> Vec<Answer>;

    /// Lists the destinations that the tables name; `None` if they cannot be listed.
    fn destinations(&mut self) -> Option<Vec<Destination>>;
}
