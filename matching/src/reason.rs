//! Reasons why an IP interface is unusable, or why two interfaces cannot talk to each other.

use core::fmt;
use core::net::IpAddr;

/// The side that something belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Whose {
    /// The process that was asked first.
    Own,
    /// Its peer.
    Peer,
}

impl Whose {
    /// Returns the side as the other side names it.
    pub fn mirror(self) -> Whose {
        match self {
            Whose::Own => Whose::Peer,
            Whose::Peer => Whose::Own,
        }
    }
}

/// The reason why an interface is unusable, or two have no edge.
///
/// Ordered: of the reasons of all pairs of addresses the last in this order is reported.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// It is the loopback interface.
    Loopback,
    /// Its bridge or bond carries its traffic.
    Port,
    /// It is administratively down.
    Down,
    /// It has no carrier.
    NoCarrier,
    /// It has no address that another host could reach.
    NoAddress,
    /// One has only IPv4 addresses, the other only IPv6 ones.
    Families,
    /// Both have addresses of a family that the rules do not allow.
    FamilyNotAllowed,
    /// One has only link-local addresses, the other only routable ones.
    Scopes,
    /// They have only link-local addresses in common.
    OnlyLinkLocal,
    /// Their MTUs differ, and the transport's packets must arrive whole.
    Mtu {
        /// Own MTU in bytes.
        own: u32,
        /// Peer's MTU in bytes.
        peer: u32,
    },
    /// Both hosts have the same address.
    SameAddress {
        /// Address in question.
        ip: IpAddr,
    },
    /// A routing table has no route.
    NoRoute {
        /// The side whose table it is.
        whose: Whose,
        /// Source address.
        from: IpAddr,
        /// Destination, an address of the other side.
        to: IpAddr,
    },
    /// There are only default routes between a private address and a public one.
    Nat {
        /// Own address.
        own: IpAddr,
        /// Peer's address.
        peer: IpAddr,
    },
}

impl Reason {
    /// Returns the reason as the other side says it.
    pub fn mirror(self) -> Reason {
        match self {
            Reason::Mtu { own, peer } => Reason::Mtu { own: peer, peer: own },
            Reason::NoRoute { whose, from, to } => Reason::NoRoute { whose: whose.mirror(), from, to },
            Reason::Nat { own, peer } => Reason::Nat { own: peer, peer: own },
            same => same,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Loopback => f.write_str("the loopback interface, which leads nowhere else"),
            Reason::Port => f.write_str("a port of a bridge or bond, which carries its traffic and has the address"),
            Reason::Down => f.write_str("it is down; `ip link set NAME up` brings it up"),
            Reason::NoCarrier => f.write_str("it has no carrier: is its cable plugged in, or its other end up?"),
            Reason::NoAddress => f.write_str("it has no address that another host could reach"),
            Reason::Families => f.write_str("one has only IPv4 addresses and the other only IPv6 ones"),
            Reason::FamilyNotAllowed => f.write_str("the addresses that they have in common are of a family that the rules leave out"),
            Reason::Scopes => f.write_str("one has only link-local addresses, and the other only ones that are not"),
            Reason::OnlyLinkLocal => f.write_str("they have only link-local addresses in common, which say nothing about what cable they are on"),
            Reason::Mtu { own, peer } => write!(
                f,
                "their MTUs are {own} and {peer}, and packets of one would not pass the other; set both to the same"
            ),
            Reason::SameAddress { ip } => {
                write!(f, "both hosts have the same address {ip}: whoever sends to it reaches itself, and nobody else can")
            }
            Reason::NoRoute { whose: Whose::Own, from, to } => {
                write!(f, "this host has no route from {from} to {to} by that interface")
            }
            Reason::NoRoute { whose: Whose::Peer, from, to } => {
                write!(f, "the peer has no route back from {from} to {to} by that interface")
            }
            Reason::Nat { own, peer } => write!(
                f,
                "{own} and {peer}, one private and one public, have only default routes to each other: behind NAT no connection can be opened to the private one"
            ),
        }
    }
}

/// Most reasons that an error quotes.
const QUOTED: usize = 4;

/// Returns the first reasons as one text, and how many more there are.
pub fn quote(reasons: &[String]) -> String {
    let text = reasons[..reasons.len().min(QUOTED)].join("; ");
    match reasons.len().saturating_sub(QUOTED) {
        0 => text,
        more => format!("{text}; and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_are_not_quoted_are_counted() {
        let all: Vec<String> = (0..7).map(|n| format!("reason {n}")).collect();
        assert_eq!(quote(&[]), "");
        assert_eq!(quote(&all[..4]), "reason 0; reason 1; reason 2; reason 3");
        assert_eq!(quote(&all), "reason 0; reason 1; reason 2; reason 3; and 3 more");
    }
}
