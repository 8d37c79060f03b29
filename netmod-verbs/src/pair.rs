//! Pairs a port of this process with one of a peer's: a pure function of both cards, the same on
//! both sides.

use core::net::IpAddr;

use hca::{Gid, GidKind};
use netmod_matching::address::in_subnet;
use netmod_matching::graph::{Edge, Endpoint, Limits, Verdict, decide};
use netmod_matching::{Class, spread};

use crate::card::{CardPort, VerbsCard};
use crate::error::PairError;
use crate::wire::Address;

/// Returns the positions of the two ports that talk to each other, this process's first.
///
/// `pair(a, b)` and `pair(b, a)` are mirror images. Among equally good pairs, different peers get
/// different ones.
///
/// # Errors
/// The reason why there is no pair.
pub fn pair(mine: &VerbsCard, theirs: &VerbsCard) -> Result<(usize, usize), PairError> {
    if mine.protocol != theirs.protocol {
        return Err(PairError::Protocol { theirs: theirs.protocol, mine: mine.protocol });
    }
    // The card with the smaller bytes is on the left, on both sides.
    let (a, b) = (mine.body(), theirs.body());
    let swapped = b < a;
    let (left, right) = if swapped { (theirs, mine) } else { (mine, theirs) };
    let ends = |card: &VerbsCard| -> Vec<End> {
        card.ports.iter().enumerate().map(|(at, port)| End { at, port: port.clone() }).collect()
    };
    let (ls, rs) = (ends(left), ends(right));
    let same_host = left.here.is_same(&right.here);
    let mut decided = decide(&ls, &rs, &Limits::default(), |l, r| edge(&l.port, &r.port, same_host));
    decided.pairs.sort_by_key(|p| (core::cmp::Reverse(p.weight), p.left, p.right));
    let best = decided.pairs.iter().take_while(|p| p.weight == decided.pairs[0].weight).count();
    if best == 0 {
        let mut reasons = Vec::new();
        for (l, a) in ls.iter().enumerate() {
            for (r, b) in rs.iter().enumerate() {
                if let Verdict::Impossible(text) = decided.verdict(l, r) {
                    reasons.push(format!("{} and {}: {text}", a.port.name, b.port.name));
                }
            }
        }
        return Err(PairError::NoRoute { reasons });
    }
    let (first, second) = if swapped { (&b, &a) } else { (&a, &b) };
    let pair = &decided.pairs[spread(first, second) as usize % best];
    Ok(if swapped { (pair.right, pair.left) } else { (pair.left, pair.right) })
}

/// The reason why two ports do not reach each other, or only as a last resort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Obstacle {
    /// Packets of InfiniBand pass from one subnet to another only where there is a router.
    #[error("they are in different subnets of InfiniBand")]
    Subnets,
    /// The link layers differ.
    #[error("one is a port of InfiniBand, the other one of Ethernet")]
    LinkLayers,
    /// The versions of RoCE differ.
    #[error("one has a GID of RoCE v1, the other of RoCE v2")]
    RoceVersions,
    /// The versions of IP differ.
    #[error("one has an address of IPv4, the other of IPv6")]
    IpVersions,
    /// Only one address is of use beyond its link.
    #[error("one has a link-local address, the other one not")]
    OneLinkLocal,
    /// The two may be on different links.
    #[error("their addresses are link-local")]
    LinkLocal,
    /// The ports are on different links, and the packets do not leave theirs.
    #[error("RoCE v1 does not leave its link, and their addresses are not of one subnet")]
    OtherLink,
    /// Packets pass only where there is a router.
    #[error("their addresses are not of one subnet")]
    OtherSubnet,
}

struct End {
    at: usize,
    port: CardPort,
}

impl Endpoint for End {
    type Key<'a> = (&'a str, usize);
    type Reason = Obstacle;

    fn key(&self) -> (&str, usize) {
        (&self.port.name, self.at)
    }
    fn label(&self) -> &str {
        &self.port.name
    }
    fn second_tier(&self) -> Option<&'static str> {
        None
    }
    fn speed(&self) -> Option<u32> {
        self.port.speed
    }
    fn mtu(&self) -> Option<u32> {
        Some(self.port.mtu)
    }
    fn unusable(&self) -> Option<Obstacle> {
        None
    }
}

fn gid(port: &CardPort) -> Gid {
    Address::parse(&port.address).map(|a| a.location.gid).unwrap_or_default()
}

/// Returns the IP address that a RoCE GID is made of.
pub(crate) fn ip_of(gid: Gid) -> IpAddr {
    let v6 = core::net::Ipv6Addr::from(gid.0);
    v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// Checks whether two ports reach each other.
fn edge(l: &CardPort, r: &CardPort, same_host: bool) -> Result<Edge<(), Obstacle>, Obstacle> {
    let (a, b) = (gid(l), gid(r));
    let way = |class, last_resort| Ok(Edge { class, last_resort, route: () });
    match (l.kind, r.kind) {
        (GidKind::Ib, GidKind::Ib) if a.0[..8] == b.0[..8] => way(Class::OnLink, None),
        (GidKind::Ib, GidKind::Ib) => way(Class::Gateway, Some(Obstacle::Subnets)),
        (GidKind::Ib, _) | (_, GidKind::Ib) => Err(Obstacle::LinkLayers),
        (x, y) if x != y => Err(Obstacle::RoceVersions),
        (kind, _) => {
            let (x, y) = (ip_of(a), ip_of(b));
            // Ports of one host reach each other if they are the same port, or through a switch.
            if same_host && l.name == r.name {
                return way(Class::OnLink, None);
            }
            if x.is_ipv4() != y.is_ipv4() {
                return Err(Obstacle::IpVersions);
            }
            if is_link_local(x) != is_link_local(y) {
                return Err(Obstacle::OneLinkLocal);
            }
            let together = |n: Option<u8>| n.is_some_and(|n| in_subnet(x, y, n));
            if together(l.prefix) && together(r.prefix) {
                // Link-local addresses look the same on all links, so a common link is only a
                // guess.
                way(Class::OnLink, is_link_local(x).then_some(Obstacle::LinkLocal))
            } else if kind == GidKind::RoceV1 {
                Err(Obstacle::OtherLink)
            } else {
                way(Class::Gateway, Some(Obstacle::OtherSubnet))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::PROTOCOL;
    use crate::card::tests::port;
    use netmod_matching::Location;

    fn ib(prefix: u8, name: &str) -> CardPort {
        let mut gid = [prefix; 16];
        gid[15] = name.len() as u8;
        port(name, GidKind::Ib, gid)
    }

    fn roce(kind: GidKind, ip: [u8; 4], name: &str) -> CardPort {
        let v6 = core::net::Ipv4Addr::from(ip).to_ipv6_mapped();
        port(name, kind, v6.octets())
    }

    fn card(host: u8, ports: Vec<CardPort>) -> VerbsCard {
        let here = Location { boot: [host; 16], netns: 1 };
        VerbsCard { protocol: PROTOCOL, frame: 8192, window: 9, here, lifeline: [].into(), ports }
    }

    fn both(a: &VerbsCard, b: &VerbsCard) -> Result<(usize, usize), PairError> {
        let forth = pair(a, b);
        let back = pair(b, a).map(|(x, y)| (y, x));
        assert_eq!(forth, back);
        forth
    }

    #[test]
    fn ports_of_one_subnet_are_paired() {
        let a = card(1, vec![ib(1, "x"), ib(2, "yy")]);
        let b = card(2, vec![ib(2, "z")]);
        assert_eq!(both(&a, &b), Ok((1, 0)));
        let v2 = |ip, name| roce(GidKind::RoceV2, ip, name);
        let a = card(1, vec![v2([10, 0, 1, 1], "x"), v2([10, 0, 2, 1], "y")]);
        let b = card(2, vec![v2([10, 0, 2, 2], "x")]);
        assert_eq!(both(&a, &b), Ok((1, 0)));
    }

    #[test]
    fn a_router_is_the_last_resort() {
        let v2 = |ip, name| roce(GidKind::RoceV2, ip, name);
        let a = card(1, vec![v2([10, 0, 1, 1], "x")]);
        let b = card(2, vec![v2([10, 9, 2, 2], "x")]);
        assert_eq!(both(&a, &b), Ok((0, 0)));
        assert_eq!(both(&card(1, vec![ib(1, "x")]), &card(2, vec![ib(2, "x")])), Ok((0, 0)));
    }

    #[test]
    fn unreachable_ports_are_refused_with_a_reason() {
        let v1 = |ip, name| roce(GidKind::RoceV1, ip, name);
        let v2 = |ip, name| roce(GidKind::RoceV2, ip, name);
        for (x, y, why) in [
            (ib(1, "x"), v2([10, 0, 1, 1], "y"), "InfiniBand"),
            (v1([10, 0, 1, 1], "x"), v2([10, 0, 1, 2], "y"), "RoCE v1"),
            (v1([10, 0, 1, 1], "x"), v1([10, 0, 2, 2], "y"), "does not leave its link"),
            (v2([169, 254, 1, 1], "x"), v2([10, 0, 2, 2], "y"), "link-local"),
            (v2([10, 0, 2, 2], "x"), port("y", GidKind::RoceV2, [0x20; 16]), "IPv6"),
        ] {
            let error = both(&card(1, vec![x]), &card(2, vec![y])).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("NETMOD_VERBS_GID"), "{error}");
        }
        let mut other = card(2, vec![ib(1, "x")]);
        other.protocol += 1;
        let error = pair(&card(1, vec![ib(1, "x")]), &other).unwrap_err();
        assert_eq!(error, PairError::Protocol { theirs: PROTOCOL + 1, mine: PROTOCOL });
    }

    #[test]
    fn equal_pairs_are_spread_over_peers() {
        let a = card(1, vec![ib(1, "x"), ib(1, "yy")]);
        let mut seen = std::collections::BTreeSet::new();
        for host in 2..40 {
            let b = card(host, vec![ib(1, "x"), ib(1, "yy")]);
            seen.insert(both(&a, &b).unwrap().0);
        }
        assert_eq!(seen.len(), 2);
    }
}
