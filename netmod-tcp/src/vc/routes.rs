//! The routes to the peer of a VC: those there are, those both sides have agreed on, and the next
//! one to be dialled.

use netmod_core::PeerName;

use crate::pairs::Pairs;
use crate::route::{Route, Routes};

use super::upgrade::Upgrade;

/// The routes to a peer.
#[derive(Debug, Default)]
pub(crate) struct PeerRoutes {
    /// All routes; `None` until the peer's card is known.
    pub(crate) all: Option<Routes>,
    /// A card was asked for.
    pub(crate) asked_card: bool,
    /// The pairs of interfaces that both sides have agreed on, by the last handshake that named
    /// any.
    pub(crate) decided: Option<Box<Pairs>>,
    /// Routes that large messages use at once, if there are at least two.
    rails: Box<[Route]>,
    /// Pairs that were agreed on and are no rails, with the reasons, as readable text; empty if
    /// there are none.
    left_out: Box<str>,
    /// The pair of interfaces of the last connection: mine, theirs.
    pub(crate) pair: (u32, u32),
    /// The last change of it, and its reason, as readable text.
    pub(crate) change: Option<Box<str>>,
    /// The move to a better pair of interfaces, once there was one.
    pub(crate) upgrade: Option<Box<Upgrade>>,
    /// Pairs of interfaces by which dials have failed since there was a connection.
    failed: Vec<(u32, u32)>,
    /// Dials since there was a connection.
    pub(crate) dials: u32,
}

impl PeerRoutes {
    pub(crate) fn new(routes: Option<Routes>) -> PeerRoutes {
        PeerRoutes { all: routes, ..PeerRoutes::default() }
    }

    /// Returns the route of a dial, by its number. Agreed routes come first.
    fn route_of(&self, dial: u32) -> Option<(&Route, u16)> {
        let routes = self.all.as_ref()?;
        let (list, agreed) = (&routes.paired.list, self.agreed());
        let at = (dial as usize).checked_rem(list.len())?;
        let others = list.iter().filter(|w| !w.pair().is_some_and(|p| agreed.as_slice().contains(&p)));
        routes.paired.between(&agreed).chain(others).nth(at).map(|w| (w, routes.port))
    }

    /// Returns the route of the n-th probe of the peer; all take turns.
    pub(crate) fn route_by(&self, attempt: usize) -> Option<(Route, u16)> {
        self.route_of(attempt as u32).map(|(route, port)| (route.clone(), port))
    }

    fn agreed(&self) -> Pairs {
        self.decided.as_deref().copied().unwrap_or_default()
    }

    /// Returns the proposal of a dial between these interfaces: them, and others that may be used
    /// beside them.
    pub(crate) fn proposal(&self, pair: (u32, u32)) -> Pairs {
        let Some(Routes { paired, .. }) = &self.all else { return Pairs::default() };
        if !paired.list.iter().any(|w| w.is_between(pair)) {
            return Pairs::default();
        }
        // The agreed pairs stand until the peer, or a change here, says otherwise.
        let agreed = self.agreed();
        let agreed = if agreed.as_slice().contains(&pair) { agreed.as_slice() } else { &[] };
        let paired_here = paired.pairs().filter(|_| agreed.is_empty());
        let others =
            agreed.iter().copied().chain(paired_here).filter(|p| *p != pair && !self.failed.contains(p));
        Pairs::new(paired.agreement, std::iter::once(pair).chain(others))
    }

    /// Returns the route and the port of the next dial. The one before it has failed.
    pub(crate) fn next_dial(&mut self) -> Option<(Route, u16)> {
        if let Some(last) = self.dials.checked_sub(1).and_then(|last| self.route_of(last)?.0.pair())
            && !self.failed.contains(&last)
        {
            self.failed.push(last);
        }
        let (route, port) = self.route_of(self.dials).map(|(route, port)| (route.clone(), port))?;
        self.dials = self.dials.wrapping_add(1);
        Some((route, port))
    }

    /// Returns the route that was dialled last, or would be first.
    pub(crate) fn last_route(&self) -> Option<&Route> {
        self.route_of(self.dials.max(1) - 1).map(|(route, _)| route)
    }

    /// Returns true if a dial between these interfaces has failed since there was a connection.
    pub(crate) fn has_failed(&self, pair: (u32, u32)) -> bool {
        self.failed.contains(&pair)
    }

    /// Returns true if the present dial is at least the second one by its route.
    pub(crate) fn has_tried_all(&self) -> bool {
        self.all.as_ref().is_some_and(|w| self.dials as usize > w.paired.list.len())
    }

    /// Has the next dial go by the best route, whatever failed before.
    pub(crate) fn forget_dials(&mut self) {
        self.dials = 0;
        self.failed = Vec::new();
    }

    /// Takes the pairs that a handshake has ended with, of which `most` may be rails.
    pub(crate) fn agree(&mut self, peer: PeerName, pairs: &Pairs, most: usize) {
        self.decided = (!pairs.as_slice().is_empty()).then(|| Box::new(*pairs));
        self.reckon(peer, most);
    }

    /// Takes note of what was agreed on, or of how the peer can be reached. At most `most` pairs
    /// are rails.
    pub(crate) fn reckon(&mut self, peer: PeerName, most: usize) {
        let both = self.all.as_ref().zip(self.decided.as_deref()).filter(|_| most > 1);
        let (rails, left_out) = both.map(|(w, d)| w.paired.rails_of(d, most)).unwrap_or_default();
        self.rails = if rails.len() > 1 { rails } else { Box::default() };
        if !left_out.is_empty() && *self.left_out != *left_out {
            tracing::info!(peer = peer.rank, "pairs of interfaces that are no rails: {left_out}");
        }
        self.left_out = left_out.into();
    }

    /// Returns text about pairs that were agreed on and are no rails.
    pub(crate) fn left_out(&self) -> &str {
        &self.left_out
    }

    /// Returns the routes that large messages use at once: none, or at least two.
    pub(crate) fn rails(&self) -> &[Route] {
        &self.rails
    }

    /// Returns the address that was dialled last, as readable text.
    pub(crate) fn address(&self) -> String {
        self.route_of(self.dials.max(1) - 1).map_or_else(
            || "the address it had connected from".to_string(),
            |(route, port)| match &route.via {
                None => route.at(port).to_string(),
                Some(via) => format!("{} through {}", route.at(port), via.device),
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use netmod_matching::{Class, Weight};

    use super::*;
    use crate::route::{Paired, Via};

    const PEER: PeerName = PeerName { group: netmod_core::GroupId([1; 16]), rank: 1 };

    /// Ways by `n` cables, of which the first ones are worth being used beside each other.
    fn cables(n: u32, rails: usize) -> Routes {
        let route = |i: u32| {
            let from = [10, 0, i as u8, 1].into();
            let weight = Weight::new(Class::OnLink, [None; 2], [None; 2]);
            let via = Via { mine: i, device: format!("e{i}").into(), from, theirs: 100 + i, weight };
            Route { to: [10, 0, i as u8, 2].into(), via: Some(via) }
        };
        let list = (1..=n).map(route).collect();
        Routes { paired: Arc::new(Paired { peer: Default::default(), list, rails, agreement: 7 }), port: 1 }
    }

    fn with_cables(n: u32, rails: usize) -> PeerRoutes {
        PeerRoutes::new(Some(cables(n, rails)))
    }

    fn rails_of(v: &PeerRoutes) -> Vec<u32> {
        v.rails().iter().filter_map(|w| Some(w.pair()?.0)).collect()
    }

    /// A connection goes by an interface that is none of the eight best: all eight carry data, and
    /// it is said that it does not.
    #[test]
    fn a_connection_outside_the_rails_takes_the_place_of_none() {
        let mut v = with_cables(10, 8);
        let proposal = v.proposal((10, 110));
        let named: Vec<u32> = proposal.as_slice().iter().map(|p| p.0).collect();
        assert_eq!(named, [10, 1, 2, 3, 4, 5, 6, 7, 8]);
        let survived = Pairs::read(&proposal.terms(), netmod_connection::FrameType::Hello).expect("pairs");
        assert_eq!(survived.as_slice().len(), 9);
        v.agree(PEER, &proposal, 8);
        assert_eq!(rails_of(&v), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(v.left_out(), "10.0.10.2 through e10: NETMOD_TCP_RAILS allows 8");
    }

    /// A connection by one of the rails leaves none out; one beside fewer rails than are allowed is
    /// one of them.
    #[test]
    fn what_fits_is_used() {
        let mut v = with_cables(10, 8);
        v.agree(PEER, &v.proposal((3, 103)), 8);
        assert_eq!((rails_of(&v), v.left_out()), (vec![3, 1, 2, 4, 5, 6, 7, 8], ""));
        let mut v = with_cables(5, 3);
        v.agree(PEER, &v.proposal((5, 105)), 4);
        assert_eq!((rails_of(&v), v.left_out()), (vec![5, 1, 2, 3], ""));
    }

    /// Pairs that the peer decides stay within what is allowed here, and those that this side
    /// cannot follow are told.
    #[test]
    fn pairs_that_the_peer_decides_are_told_if_they_are_not_used() {
        let mut v = with_cables(3, 2);
        v.agree(PEER, &Pairs::new(7, [(1, 101), (2, 102), (3, 103), (2, 999)]), 2);
        assert_eq!(rails_of(&v), [1, 2]);
        let text = "number 2 with the peer's 999: this side knows of no way between them, \
                    10.0.3.2 through e3: NETMOD_TCP_RAILS allows 2";
        assert_eq!(v.left_out(), text);
        // A peer that wants one connection is not told of others.
        v.reckon(PEER, 1);
        assert_eq!((rails_of(&v), v.left_out()), (vec![], ""));
    }
}
