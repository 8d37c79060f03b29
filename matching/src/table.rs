//! A host's routing table as data: the stand-in for a kernel in scenarios and tests.

use core::net::IpAddr;

use crate::address::{in_subnet, is_usable};
use crate::record::Host;
use crate::route::{Answer, Destination, Query, Routes};

/// The next hop of a route.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Hop {
    /// The destination itself.
    OnLink,
    /// A gateway.
    Gateway,
    /// Nothing: unreachable, prohibit, blackhole.
    Refuse,
}

/// A route by an interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Route {
    /// Number of the interface.
    pub index: u32,
    /// Destination network.
    pub net: IpAddr,
    /// Length of the network part in bits.
    pub prefix: u8,
    /// Next hop.
    pub hop: Hop,
    /// Source address that a rule ties the route's table to, if any.
    pub from: Option<IpAddr>,
}

/// A routing table.
///
/// Among the routes by the query's interface the longest prefix decides; among equal ones, one for
/// the source, then the first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Table {
    routes: Vec<Route>,
}

impl Table {
    /// Returns the table that a kernel makes by itself: by each interface to the networks of its
    /// addresses.
    pub fn connected(host: &Host) -> Table {
        let of = |index| {
            move |a: &crate::Address| Route {
                index,
                net: a.ip,
                prefix: a.prefix,
                hop: Hop::OnLink,
                from: None,
            }
        };
        let routes =
            host.nics.iter().flat_map(|n| n.addresses.iter().filter(|a| is_usable(a)).map(of(n.index)));
        Table { routes: routes.collect() }
    }

    /// Adds a route.
    pub fn add(&mut self, route: Route) {
        self.routes.push(route);
    }

    /// Answers one query.
    pub fn lookup(&self, query: &Query) -> Answer {
        let fits = |r: &&Route| {
            r.index == query.index
                && in_subnet(query.to, r.net, r.prefix)
                && r.from.is_none_or(|from| from == query.from)
        };
        // `max_by_key` returns the last maximum; reversed, that is the first.
        match self.routes.iter().rev().filter(fits).max_by_key(|r| (r.prefix, r.from.is_some())) {
            None | Some(Route { hop: Hop::Refuse, .. }) => Answer::None,
            Some(Route { hop: Hop::OnLink, .. }) => Answer::OnLink,
            Some(Route { hop: Hop::Gateway, prefix: 0, .. }) => Answer::Default,
            Some(Route { hop: Hop::Gateway, .. }) => Answer::Gateway,
        }
    }
}

impl Routes for Table {
    fn ask(&mut self, queries: &[Query]) -> Vec<Answer> {
        queries.iter().map(|q| self.lookup(q)).collect()
    }

    fn destinations(&mut self) -> Option<Vec<Destination>> {
        let of = |r: &Route| Destination { by: Some(r.index), net: r.net, prefix: r.prefix };
        Some(self.routes.iter().map(of).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn route(index: u32, net: &str, hop: Hop, from: Option<&str>) -> Route {
        let (addr, prefix) = net.split_once('/').unwrap();
        Route { index, net: ip(addr), prefix: prefix.parse().unwrap(), hop, from: from.map(ip) }
    }

    #[test]
    fn the_longest_prefix_by_that_interface_and_for_that_source_decides() {
        let mut table = Table::default();
        table.add(route(1, "0.0.0.0/0", Hop::Gateway, None));
        table.add(route(1, "10.0.0.0/8", Hop::Gateway, None));
        table.add(route(1, "10.1.0.0/16", Hop::OnLink, None));
        table.add(route(1, "10.1.9.0/24", Hop::Refuse, None));
        table.add(route(2, "0.0.0.0/0", Hop::Gateway, Some("10.2.0.1")));
        table.add(route(3, "0.0.0.0/0", Hop::OnLink, None));
        table.add(route(3, "0.0.0.0/0", Hop::Gateway, Some("10.3.0.1")));
        let ask = |index, from: &str, to: &str| table.lookup(&Query { index, from: ip(from), to: ip(to) });
        assert_eq!(ask(1, "10.1.0.1", "10.1.0.2"), Answer::OnLink);
        assert_eq!(ask(1, "10.1.0.1", "10.1.9.2"), Answer::None);
        assert_eq!(ask(1, "10.1.0.1", "10.2.0.2"), Answer::Gateway);
        assert_eq!(ask(1, "10.1.0.1", "11.0.0.1"), Answer::Default);
        assert_eq!(ask(1, "fd00::1", "fd00::2"), Answer::None);
        assert_eq!(ask(2, "10.2.0.1", "9.9.9.9"), Answer::Default);
        assert_eq!(ask(2, "10.2.0.9", "9.9.9.9"), Answer::None);
        assert_eq!(ask(3, "10.3.0.1", "9.9.9.9"), Answer::Default);
        assert_eq!(ask(3, "10.3.0.2", "9.9.9.9"), Answer::OnLink);
    }
}
