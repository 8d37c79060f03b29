//! IP interfaces as endpoints: which are of use, and which ways there are between two of them.

use core::net::IpAddr;
use std::collections::HashSet;

use crate::address::{is_link_local, is_private, same_subnet};
use crate::graph::{Edge, Endpoint};
use crate::reason::{Reason, Whose};
use crate::record::{Address, Host, Kind, Nic};
use crate::route::{Answer, Query};
use crate::rules::{Families, Rules, Transport};
use crate::weight::Class;

/// From what the class of a pair is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Basis {
    /// Both are in one place.
    SamePlace,
    /// Both sides' routing tables.
    BothTables,
    /// One side's; the other was not asked.
    OneTable,
    /// The prefixes of the addresses alone; nobody was asked.
    Prefixes,
}

/// A way between two interfaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Way {
    pub(crate) left: IpAddr,
    pub(crate) right: IpAddr,
    pub(crate) basis: Basis,
}

impl Kind {
    /// What makes an interface of this kind one of the second tier; `None` for the first.
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

    // By name, then number; what is left decides between interfaces that claim to be the same.
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
    same_place: bool,
    /// Addresses that both have.
    shared: HashSet<IpAddr>,
}

impl<'a> Both<'a> {
    pub(crate) fn new(left: &'a Host, right: &'a Host) -> Both<'a> {
        let of = |host: &Host| -> HashSet<IpAddr> {
            host.nics.iter().flat_map(|n| n.addresses.iter().map(|a| a.ip)).collect()
        };
        let shared = of(left).intersection(&of(right)).copied().collect();
        Both { left, right, same_place: left.place.is_same(&right.place), shared }
    }
}

/// The best way between an interface of the left and one of the right.
pub(crate) fn edge(both: &Both<'_>, rules: &Rules, l: &Nic, r: &Nic) -> Result<Edge<Way, Reason>, Reason> {
    if rules.transport == Transport::Datagrams
        && let (Some(own), Some(peer)) = (l.mtu(), r.mtu())
        && own != peer
    {
        return Err(Reason::Mtu { own, peer });
    }
    let mut proper: Option<(Class, Way)> = None;
    let mut link_local: Option<(Class, Way)> = None;
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
            let found = if both.same_place {
                Ok((Class::OnLink, Basis::SamePlace))
            } else {
                class(both, (l, la), (r, ra))
            };
            match found {
                Ok((class, basis)) => {
                    let best = if is_link_local(la.ip) { &mut link_local } else { &mut proper };
                    // Addresses ascend: of equally good ways the first stays.
                    if best.as_ref().is_none_or(|(c, _)| *c < class) {
                        *best = Some((class, Way { left: la.ip, right: ra.ip, basis }));
                    }
                }
                Err(reason) if is_link_local(la.ip) => why = why.max(Reason::OnlyLinkLocal.min(reason)),
                Err(reason) => why = why.max(reason),
            }
        }
    }
    match (proper, link_local) {
        (Some((class, way)), _) => Ok(Edge { class, last_resort: None, way }),
        // What does not lead out of the host by itself does so by routes, if at all, and none lead to link-local addresses.
        (None, Some(_)) if !(l.kind.is_first_tier() && r.kind.is_first_tier()) => {
            Err(why.max(Reason::OnlyLinkLocal))
        }
        (None, Some((class, way))) => {
            Ok(Edge { class, last_resort: Some(why.max(Reason::OnlyLinkLocal)), way })
        }
        (None, None) => Err(why),
    }
}

/// The worse of both directions between two addresses of different places.
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
    /// Whether addresses of the family of this one may be used.
    pub fn allows(self, ip: IpAddr) -> bool {
        match self {
            Families::Both => true,
            Families::V4 => ip.is_ipv4(),
            Families::V6 => ip.is_ipv6(),
        }
    }
}
