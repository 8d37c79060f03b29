//! IP interfaces as endpoints: their usability, and the edges between them.

use core::net::IpAddr;
use std::collections::HashSet;

use crate::address::{is_link_local, is_private, same_subnet};
use crate::graph::{Edge, Endpoint};
use crate::reason::{Reason, Whose};
use crate::record::{Address, Host, Kind, Nic};
use crate::route::{Answer, Query};
use crate::rules::{Families, Rules, Transport};
use crate::weight::Class;

/// The facts from which the class of a pair is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Basis {
    /// Both interfaces are in one network namespace.
    SameLocation,
    /// The routing tables of both sides.
    BothTables,
    /// One side's routing table; the other was not asked.
    OneTable,
    /// The prefixes of the addresses alone; no table was asked.
    Prefixes,
}

/// The addresses that two interfaces use with each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AddressPair {
    pub(crate) left: IpAddr,
    pub(crate) right: IpAddr,
    pub(crate) basis: Basis,
}

impl Kind {
    /// Returns what puts an interface of this kind into the second tier; `None` for the first tier.
    pub fn second_tier(self) -> Option<&'static str> {
        match self {
            _ if self.is_first_tier() => None,
            Kind::BridgeIn => Some("a bridge without a port that leads out of the host"),
            Kind::Tunnel => Some("a tunnel, which runs over other interfaces"),
            Kind::Dummy => Some("a dummy, which leads nowhere by itself"),
            Kind::PointToPoint => Some("a point-to-point link"),
            Kind::Port => Some("a port of a bridge or bond"),
            Kind::Loopback => Some("the loopback interface"),
            _ => Some("of a kind that does not lead to other hosts by itself"),
        }
    }
}

impl Endpoint for Nic {
    type Key<'a> = &'a Nic;
    type Reason = Reason;

    // Name first, then number; the rest decides between interfaces that claim to be the same.
    fn key(&self) -> &Nic {
        self
    }

    fn label(&self) -> &str {
        &self.name
    }

    fn second_tier(&self) -> Option<&'static str> {
        self.kind.second_tier()
    }

    fn speed(&self) -> Option<u32> {
        self.speed
    }

    fn mtu(&self) -> Option<u32> {
        Some(self.mtu).filter(|m| *m > 0)
    }

    fn unusable(&self) -> Option<Reason> {
        match self.kind {
            Kind::Loopback => Some(Reason::Loopback),
            Kind::Port => Some(Reason::Port),
            _ if !self.up => Some(Reason::Down),
            _ if !self.carrier => Some(Reason::NoCarrier),
            _ if self.addresses.is_empty() => Some(Reason::NoAddress),
            _ => None,
        }
    }
}

/// Two canonical records, the left one first.
#[derive(Debug)]
pub(crate) struct Both<'a> {
    left: &'a Host,
    right: &'a Host,
    same_location: bool,
    /// Addresses that both hosts have.
    shared: HashSet<IpAddr>,
}

impl<'a> Both<'a> {
    pub(crate) fn new(left: &'a Host, right: &'a Host) -> Both<'a> {
        let of = |host: &Host| -> HashSet<IpAddr> {
            host.nics.iter().flat_map(|n| n.addresses.iter().map(|a| a.ip)).collect()
        };
        let shared = of(left).intersection(&of(right)).copied().collect();
        Both { left, right, same_location: left.location.is_same(&right.location), shared }
    }
}

/// Returns the best edge between an interface of the left and one of the right.
pub(crate) fn edge(
    both: &Both<'_>,
    rules: &Rules,
    l: &Nic,
    r: &Nic,
) -> Result<Edge<AddressPair, Reason>, Reason> {
    if rules.transport == Transport::Datagrams
        && let (Some(own), Some(peer)) = (l.mtu(), r.mtu())
        && own != peer
    {
        return Err(Reason::Mtu { own, peer });
    }
    let mut proper: Option<(Class, AddressPair)> = None;
    let mut link_local: Option<(Class, AddressPair)> = None;
    let mut why = Reason::Families;
    for la in &l.addresses {
        for ra in &r.addresses {
            if la.ip.is_ipv4() != ra.ip.is_ipv4() {
                continue;
            }
            if !rules.families.allows(la.ip) {
                why = why.max(Reason::FamilyNotAllowed);
                continue;
            }
            if is_link_local(la.ip) != is_link_local(ra.ip) {
                why = why.max(Reason::Scopes);
                continue;
            }
            let found = if both.same_location {
                Ok((Class::OnLink, Basis::SameLocation))
            } else {
                class(both, (l, la), (r, ra))
            };
            match found {
                Ok((class, basis)) => {
                    let best = if is_link_local(la.ip) { &mut link_local } else { &mut proper };
                    // Addresses ascend: of equally good pairs the first one stays.
                    if best.as_ref().is_none_or(|(c, _)| *c < class) {
                        *best = Some((class, AddressPair { left: la.ip, right: ra.ip, basis }));
                    }
                }
                Err(reason) if is_link_local(la.ip) => why = why.max(Reason::OnlyLinkLocal.min(reason)),
                Err(reason) => why = why.max(reason),
            }
        }
    }
    match (proper, link_local) {
        (Some((class, addresses)), _) => Ok(Edge { class, last_resort: None, route: addresses }),
        // An interface of the second tier leads out of its host by routes only, and no route leads
        // to link-local addresses.
        (None, Some(_)) if !(l.kind.is_first_tier() && r.kind.is_first_tier()) => {
            Err(why.max(Reason::OnlyLinkLocal))
        }
        (None, Some((class, addresses))) => {
            Ok(Edge { class, last_resort: Some(why.max(Reason::OnlyLinkLocal)), route: addresses })
        }
        (None, None) => Err(why),
    }
}

/// Returns the class of the worse direction between two addresses of different hosts.
fn class(
    both: &Both<'_>,
    (l, la): (&Nic, &Address),
    (r, ra): (&Nic, &Address),
) -> Result<(Class, Basis), Reason> {
    if let Some(ip) = [la.ip, ra.ip].into_iter().find(|ip| both.shared.contains(ip)) {
        return Err(Reason::SameAddress { ip });
    }
    let there = both.left.answer(&Query { index: l.index, from: la.ip, to: ra.ip });
    let back = both.right.answer(&Query { index: r.index, from: ra.ip, to: la.ip });
    if there == Answer::None {
        return Err(Reason::NoRoute { whose: Whose::Own, from: la.ip, to: ra.ip });
    }
    if back == Answer::None {
        return Err(Reason::NoRoute { whose: Whose::Peer, from: ra.ip, to: la.ip });
    }
    let (class, basis) = match (Class::of(there), Class::of(back)) {
        (Some(there), Some(back)) => (there.min(back), Basis::BothTables),
        (Some(one), None) | (None, Some(one)) => (one, Basis::OneTable),
        (None, None) if same_subnet(la, ra) => (Class::OnLink, Basis::Prefixes),
        (None, None) => (Class::Default, Basis::Prefixes),
    };
    if class == Class::Default && is_private(la.ip) != is_private(ra.ip) {
        return Err(Reason::Nat { own: la.ip, peer: ra.ip });
    }
    Ok((class, basis))
}

impl Families {
    /// Returns true if addresses of this one's family may be used.
    pub fn allows(self, ip: IpAddr) -> bool {
        match self {
            Families::Both => true,
            Families::V4 => ip.is_ipv4(),
            Families::V6 => ip.is_ipv6(),
        }
    }
}
