//! Parsing of a routing table's answer to one lookup (`RTM_GETROUTE`).

use std::net::IpAddr;

use netmod_matching::{Answer, Destination, Query};

use crate::wire::{self, Message, attributes, number};

/// The form of a lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// From this source by this interface: asks for the table's entry.
    ///
    /// Without `RTM_F_FIB_MATCH` the kernel takes any destination for on-link when an interface is
    /// given. Without the source it skips rules that test it.
    Match,
    /// Without the source.
    ///
    /// For IPv6 with a source, the interface is only a preference, except for a socket bound to it.
    Strict,
    /// Any interface that the kernel chooses.
    Free,
    /// The packet's resolved route, not the table's entry.
    ///
    /// It shows the next hop where the entry only has its number; the entry's prefix is known
    /// already.
    Resolved {
        /// Prefix length of the entry in bits.
        prefix: u8,
    },
}

/// The result of a lookup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The answer.
    Is(Answer),
    /// No answer, for this reason.
    Failed(&'static str),
    /// No answer, because of this error number.
    Refused(i32),
    /// The interface that the kernel chose for a [`Form::Free`] lookup.
    By(u32),
    /// The lookup must be repeated in this form.
    Ask(Form),
}

/// Size of `struct rtmsg` in bytes.
const FIXED: usize = 12;

/// Size of `struct rtnexthop` in bytes.
const HOP: usize = 8;

/// `RTA_NH_ID` of `<linux/rtnetlink.h>`: the number of a next hop object.
const NEXT_HOP: u16 = 30;

/// Returns the fixed part of a request for all routes of a family.
pub(crate) fn all(family: i32) -> [u8; FIXED] {
    let mut fixed = [0; FIXED];
    fixed[0] = family as u8;
    fixed
}

/// Parses a route of a list: the destination, once for each interface of its next hops.
///
/// `None` if no peer can be at the destination.
pub(crate) fn destinations(payload: &[u8]) -> Option<Vec<Destination>> {
    let (fixed, rest) = payload.split_first_chunk::<FIXED>()?;
    let (family, prefix, kind) = (i32::from(fixed[0]), fixed[1], fixed[7]);
    let flags = number(&fixed[8..12])?;
    if matches!(kind, libc::RTN_LOCAL | libc::RTN_BROADCAST | libc::RTN_ANYCAST | libc::RTN_MULTICAST)
        || flags & libc::RTM_F_CLONED != 0
    {
        return Some(Vec::new());
    }
    // The default route has no destination attribute.
    let mut net = match family {
        libc::AF_INET => IpAddr::from([0; 4]),
        libc::AF_INET6 => IpAddr::from([0; 16]),
        _ => return Some(Vec::new()),
    };
    let mut by = Vec::new();
    for (attribute, value) in attributes(rest) {
        match attribute {
            libc::RTA_DST => net = wire::address(value).filter(|ip| ip.is_ipv4() == net.is_ipv4())?,
            libc::RTA_OIF => by.push(number(value)?),
            libc::RTA_MULTIPATH => by.extend(hops(value).map(|(interface, _)| interface)),
            _ => {}
        }
    }
    by.sort_unstable();
    by.dedup();
    // A prohibiting route holds for all interfaces; the interface of a numbered next hop object is
    // unknown.
    if kind != libc::RTN_UNICAST || by.is_empty() {
        return Some(vec![Destination { by: None, net, prefix }]);
    }
    Some(by.into_iter().map(|by| Destination { by: Some(by), net, prefix }).collect())
}

/// Appends a lookup.
pub(crate) fn ask(out: &mut Vec<u8>, query: &Query, form: Form, sequence: u32) {
    let (family, width) = match query.to {
        IpAddr::V4(_) => (libc::AF_INET, 32),
        IpAddr::V6(_) => (libc::AF_INET6, 128),
    };
    let with_source = form != Form::Strict;
    let flags = if matches!(form, Form::Resolved { .. } | Form::Free) { 0 } else { libc::RTM_F_FIB_MATCH };
    let mut fixed = [0; FIXED];
    fixed[0] = family as u8;
    fixed[1] = width;
    fixed[2] = if with_source { width } else { 0 };
    fixed[8..12].copy_from_slice(&flags.to_ne_bytes());
    let mut request =
        wire::request(out, libc::RTM_GETROUTE, 0, sequence, &fixed).address(out, libc::RTA_DST, query.to);
    if with_source {
        request = request.address(out, libc::RTA_SRC, query.from);
    }
    if form != Form::Free {
        request.attribute(out, libc::RTA_OIF, &query.index.to_ne_bytes());
    }
}

/// Returns the verdict of an answer to a lookup.
pub(crate) fn verdict(message: &Message<'_>, query: &Query, form: Form) -> Verdict {
    if message.kind == libc::NLMSG_ERROR as u16 {
        return match message.error() {
            libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES | libc::EINVAL => Verdict::Is(Answer::None),
            0 => Verdict::Failed("an acknowledgement in place of an answer"),
            code => Verdict::Refused(code),
        };
    }
    if message.kind != libc::RTM_NEWROUTE {
        return Verdict::Failed("an answer of another kind");
    }
    match Route::parse(message.payload, query.index) {
        Some(route) if form == Form::Free => {
            route.interface.map_or(Verdict::Failed("an answer without an interface"), Verdict::By)
        }
        Some(route) => route.verdict(query, form),
        None => Verdict::Failed("an answer that cannot be read"),
    }
}

/// The relevant parts of a route.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Route {
    family: u8,
    prefix: u8,
    kind: u8,
    flags: u32,
    interface: Option<u32>,
    /// True if it goes through a router, or is encapsulated for one.
    gateway: bool,
    /// True if the next hop is given by number.
    next_hop: bool,
    /// True if there are several next hops, of which the first one by the interface counts.
    several: bool,
}

impl Route {
    fn parse(payload: &[u8], wanted: u32) -> Option<Route> {
        let (fixed, rest) = payload.split_first_chunk::<FIXED>()?;
        let mut route = Route {
            family: fixed[0],
            prefix: fixed[1],
            kind: fixed[7],
            flags: number(&fixed[8..12])?,
            ..Route::default()
        };
        for (kind, value) in attributes(rest) {
            match kind {
                libc::RTA_OIF => route.interface = Some(number(value)?),
                NEXT_HOP => route.next_hop = true,
                libc::RTA_MULTIPATH => {
                    route.several = true;
                    if let Some(gateway) = hop(value, wanted) {
                        route.interface = Some(wanted);
                        route.gateway |= gateway;
                    }
                }
                _ => route.gateway |= is_gateway(kind),
            }
        }
        Some(route)
    }

    fn verdict(&self, query: &Query, form: Form) -> Verdict {
        if i32::from(self.family) != if query.to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } {
            return Verdict::Failed("an answer of another family");
        }
        match self.kind {
            // An address of this host: by whatever interface.
            libc::RTN_LOCAL => return Verdict::Is(Answer::OnLink),
            libc::RTN_UNICAST => {}
            // Blackhole, prohibit, unreachable; and no process has a broadcast address.
            _ => return Verdict::Is(Answer::None),
        }
        if let Form::Resolved { prefix } = form {
            return match self.interface {
                Some(interface) if interface == query.index => Verdict::Is(self.class(prefix)),
                _ => Verdict::Is(Answer::None),
            };
        }
        if self.flags & libc::RTM_F_CLONED != 0 {
            // A kernel before 4.13 resolves the packet's route, and assumes on-link where there is
            // none.
            return Verdict::Failed("the kernel does not know RTM_F_FIB_MATCH");
        }
        match self.interface {
            Some(interface) if interface == query.index => {}
            // Next hop objects may be shown by their number alone (net.ipv4.nexthop_compat_mode).
            None if self.next_hop => return Verdict::Ask(Form::Resolved { prefix: self.prefix }),
            Some(_) if query.to.is_ipv6() && form == Form::Match => return Verdict::Ask(Form::Strict),
            None if self.several && query.to.is_ipv6() && form == Form::Match => {
                return Verdict::Ask(Form::Strict);
            }
            _ => return Verdict::Is(Answer::None),
        }
        Verdict::Is(self.class(self.prefix))
    }

    fn class(&self, prefix: u8) -> Answer {
        match (self.gateway, prefix) {
            (false, _) => Answer::OnLink,
            (true, 0) => Answer::Default,
            (true, _) => Answer::Gateway,
        }
    }
}

/// Returns true if the attribute names a gateway; `RTA_VIA` is one of the other family.
fn is_gateway(kind: u16) -> bool {
    matches!(kind, libc::RTA_GATEWAY | libc::RTA_VIA | libc::RTA_ENCAP)
}

/// Returns true if the first next hop by the interface is a gateway; `None` without a next hop by
/// it.
fn hop(list: &[u8], interface: u32) -> Option<bool> {
    let (_, attrs) = hops(list).find(|(by, _)| *by == interface)?;
    Some(attributes(attrs).any(|(kind, _)| is_gateway(kind)))
}

/// Returns the interface and attributes of each next hop, up to the first one that is cut off.
fn hops(mut list: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    std::iter::from_fn(move || {
        let (head, _) = list.split_first_chunk::<HOP>()?;
        let len = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let this = list.get(..len).filter(|this| this.len() >= HOP)?;
        list = list.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((number(&this[4..8])?, &this[HOP..]))
    })
}

#[cfg(test)]
#[path = "routes_tests.rs"]
mod tests;
