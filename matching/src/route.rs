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

/// Somebody who knows a host's routing tables.
pub trait Routes {
    /// An answer to each query, in the same order.
    fn ask(&mut self, queries: &[Query]) -> Vec<Answer>;
}
