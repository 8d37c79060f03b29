//! The routing tables' answers in a host's record: for each of its addresses the destinations
//! reached from it, and how.
//!
//! Both sides read the answers of both hosts from the records, so they compute from the same facts.
//! A table is asked once, when the record is made, for one address of each destination that it
//! knows.

use core::cmp::Reverse;
use core::net::IpAddr;
use std::collections::HashSet;

use crate::address::{host_bits, in_subnet, is_link_local, is_usable, masked, width, with_host_bits};
use crate::graph::Endpoint;
use crate::record::{Address, Host, Reach};
use crate::route::{Answer, Destination, Query, Routes};

/// Most destinations per address that a host publishes.
pub const MAX_REACH: usize = 64;

/// Most destinations per interface that the tables are asked for, before redundant ones are left
/// out.
const MAX_ASKED: usize = 512;

impl Reach {
    /// Returns true if it covers the destination of this query.
    fn covers(&self, query: &Query) -> bool {
        in_subnet(query.to, self.net, self.prefix)
    }
}

/// Returns the entries of an address from a sorted list.
pub(crate) fn entries(reach: &[Reach], index: u32, from: IpAddr) -> &[Reach] {
    let begin = reach.partition_point(|r| (r.index, r.from) < (index, from));
    let end = reach.partition_point(|r| (r.index, r.from) <= (index, from));
    &reach[begin..end]
}

impl Host {
    /// Returns what this host's tables answer, according to its canonical record.
    ///
    /// Link-local destinations are always on-link. Destinations left out of the record are unknown.
    pub fn answer(&self, query: &Query) -> Answer {
        let Some(reach) = &self.reach else { return Answer::Unknown };
        if is_link_local(query.to) {
            return Answer::OnLink;
        }
        let of_address = entries(reach, query.index, query.from);
        match of_address.iter().filter(|r| r.covers(query)).max_by_key(|r| r.prefix) {
            Some(found) => found.answer,
            None if self.cut.routes > 0 => Answer::Unknown,
            None => Answer::None,
        }
    }

    /// Asks this host's tables for everything that a peer may want to know; keeps the answers in
    /// the record.
    ///
    /// All queries form one batch. Their number follows the routes by the interfaces, not the pairs
    /// of addresses.
    pub fn ask(&mut self, routes: &mut dyn Routes) {
        self.reach = routes.destinations().map(|known| {
            let (queries, unasked) = queries(self, &known);
            self.cut.routes = self.cut.routes.saturating_add(u16::try_from(unasked).unwrap_or(u16::MAX));
            let asked: Vec<Query> = queries.iter().map(|(q, _)| *q).collect();
            let mut answers = if asked.is_empty() { Vec::new() } else { routes.ask(&asked) }.into_iter();
            let found = queries.into_iter().map(|(q, (net, prefix))| {
                let answer = answers.next().unwrap_or(Answer::Unknown);
                Reach { index: q.index, from: q.from, net, prefix, answer }
            });
            without_the_obvious(found.collect())
        });
    }
}

/// A query with the network that it stands for.
type Question = (Query, (IpAddr, u8));

/// Returns a query for each destination of the addresses of usable interfaces, and the number of
/// destinations not asked for.
fn queries(host: &Host, known: &[Destination]) -> (Vec<Question>, usize) {
    let own: HashSet<IpAddr> = host.nics.iter().flat_map(|n| n.addresses.iter().map(|a| a.ip)).collect();
    // An interface that is down has no routes yet, and nobody is told when it comes up.
    let (mut queries, mut unasked) = (Vec::new(), 0);
    for nic in host.nics.iter().filter(|n| n.unusable().is_none()) {
        let by = |d: &&Destination| d.by.is_none_or(|by| by == nic.index);
        let mut nets: Vec<(IpAddr, u8)> = known
            .iter()
            .filter(by)
            .filter(|d| d.prefix <= width(d.net))
            .map(|d| (masked(d.net, d.prefix), d.prefix))
            .filter(|(net, prefix)| !(is_link_local(*net) && *prefix >= if net.is_ipv4() { 16 } else { 10 }))
            .collect();
        nets.sort_unstable_by_key(|(net, prefix)| (*prefix, *net));
        nets.dedup();
        unasked += nets.len().saturating_sub(MAX_ASKED);
        nets.truncate(MAX_ASKED);
        let probes: Vec<(IpAddr, (IpAddr, u8))> =
            nets.iter().filter_map(|n| Some((probe(*n, &nets, &own)?, *n))).collect();
        for from in nic.addresses.iter().filter(|a| is_usable(a) && !is_link_local(a.ip)) {
            let family = probes.iter().filter(|(to, _)| to.is_ipv4() == from.ip.is_ipv4());
            queries
                .extend(family.map(|(to, net)| (Query { index: nic.index, from: from.ip, to: *to }, *net)));
        }
    }
    (queries, unasked)
}

/// Returns an address that stands for a network: in none of its known subnets, and not this host's
/// own.
///
/// `None` if its known subnets cover all of it.
fn probe((net, prefix): (IpAddr, u8), all: &[(IpAddr, u8)], own: &HashSet<IpAddr>) -> Option<IpAddr> {
    let parts: Vec<(IpAddr, u8)> =
        all.iter().filter(|(n, p)| *p > prefix && in_subnet(*n, net, prefix)).copied().collect();
    // The first and the last address of a network belong to no host, unless there are no others.
    let bits = u32::from(width(net) - prefix);
    let all_ones = if bits == 128 { u128::MAX } else { (1 << bits) - 1 };
    let ends = |ip: IpAddr| bits >= 2 && matches!(host_bits(ip, prefix), n if n == 0 || n == all_ones);
    let free = |ip: &IpAddr| {
        in_subnet(*ip, net, prefix)
            && !ends(*ip)
            && is_usable(&Address { ip: *ip, prefix })
            && !own.contains(ip)
            && !parts.iter().any(|(n, p)| in_subnet(*ip, *n, *p))
    };
    if prefix == width(net) {
        return Some(net).filter(free);
    }
    let low = |n: u128| with_host_bits(net, n);
    let middle = 1u128 << (bits - 1);
    let inner = [middle | 1, middle | 2, all_ones - 1, 1, 2, 3, middle, 0].map(low);
    // There may be free addresses next to each subnet.
    let beside = parts.iter().flat_map(|(n, p)| {
        let step = 1u128 << (u32::from(width(*n) - *p)).min(127);
        let at = host_bits(*n, prefix);
        [at.checked_add(step + 1), at.checked_add(step), at.checked_sub(1), at.checked_sub(2)]
    });
    let beside = beside.flatten().filter(|n| *n <= all_ones).map(low);
    inner.into_iter().chain(beside).find(free)
}

/// Drops entries that repeat the answer of the next shorter prefix.
fn without_the_obvious(mut found: Vec<Reach>) -> Vec<Reach> {
    // Shorter prefixes first, so that an entry's covering ones are decided before it.
    found.sort_unstable_by_key(|r| (r.index, r.from, r.prefix, r.net));
    let mut kept: Vec<Reach> = Vec::with_capacity(found.len());
    let mut begin = 0;
    for r in found {
        if kept.last().is_some_and(|k| (k.index, k.from) != (r.index, r.from)) {
            begin = kept.len();
        }
        let covering = kept[begin..].iter().filter(|k| in_subnet(r.net, k.net, k.prefix));
        let said = covering.max_by_key(|k| k.prefix).map_or(Answer::None, |k| k.answer);
        if said != r.answer {
            kept.push(r);
        }
    }
    kept.sort_unstable();
    kept
}

/// Returns the canonical entries of an address, short prefixes first, and the number of those
/// beyond the limit.
pub(crate) fn of_address(reach: &[Reach], index: u32, from: IpAddr) -> (Vec<Reach>, usize) {
    let mut list: Vec<Reach> = entries(reach, index, from).to_vec();
    list.sort_unstable_by_key(|r| (r.prefix, r.net));
    let cut = list.len().saturating_sub(MAX_REACH);
    list.truncate(MAX_REACH);
    (list, cut)
}

/// Returns entries in canonical form: sorted, each destination once with the worst answer, zero
/// behind the prefix.
pub(crate) fn canonical(reach: &[Reach]) -> Vec<Reach> {
    let mut list: Vec<Reach> = reach
        .iter()
        .filter(|r| r.prefix <= width(r.net) && r.from.is_ipv4() == r.net.is_ipv4())
        .map(|r| Reach { net: masked(r.net, r.prefix), ..*r })
        .collect();
    list.sort_unstable_by_key(|r| (r.index, r.from, r.net, r.prefix, Reverse(r.answer)));
    list.dedup_by(|next, kept| {
        let same =
            (next.index, next.from, next.net, next.prefix) == (kept.index, kept.from, kept.net, kept.prefix);
        if same {
            kept.answer = kept.answer.min(next.answer);
        }
        same
    });
    list
}

#[cfg(test)]
mod tests;
