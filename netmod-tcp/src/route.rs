//! Routes to a peer: from an interface of this host to an address of the peer.

use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::sync::Arc;

use netmod_matching::Weight;

use crate::card::{Published, SectionError};
use crate::pairs::Pairs;

/// The reason why there is no route to a peer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum RouteError {
    #[error(transparent)]
    Section(#[from] SectionError),
    #[error("this process listens at no address that can be reached within this host")]
    NotListening,
    #[error("it is on this host, but listens at no address that can be reached here")]
    PeerNotListening,
    #[error(
        "no interface of this host has a way to one of the peer's ({reasons}); `netmod-perf pair` explains more"
    )]
    NoPair {
        /// Verdict on each pair, as readable text.
        reasons: String,
    },
}

/// A pair of interfaces, from here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Via {
    /// The kernel's number of this host's interface, and its name.
    pub(crate) mine: u32,
    pub(crate) device: Box<str>,
    /// Its address.
    pub(crate) from: IpAddr,
    /// The peer's interface, by its kernel's number.
    pub(crate) theirs: u32,
    /// The pair's weight.
    pub(crate) weight: Weight,
}

/// A route to a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    /// The peer's address.
    pub(crate) to: IpAddr,
    /// The interfaces, unless the peer is in the same place, where they do not matter.
    pub(crate) via: Option<Via>,
}

impl Route {
    /// Returns the address to connect to.
    pub(crate) fn at(&self, port: u16) -> SocketAddr {
        match (self.to, &self.via) {
            (IpAddr::V6(ip), Some(via)) if is_link_local(self.to) => {
                SocketAddrV6::new(ip, port, 0, via.mine).into()
            }
            (ip, _) => SocketAddr::new(ip, port),
        }
    }

    /// Returns the interfaces: mine, theirs.
    pub(crate) fn pair(&self) -> Option<(u32, u32)> {
        self.via.as_ref().map(|v| (v.mine, v.theirs))
    }

    /// Returns the weight of its pair of interfaces.
    fn weight(&self) -> Option<Weight> {
        self.via.as_ref().map(|v| v.weight)
    }

    /// Returns true if it is between these two interfaces: mine, theirs.
    pub(crate) fn is_between(&self, pair: (u32, u32)) -> bool {
        self.pair() == Some(pair)
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.via {
            None => write!(f, "{}", self.to),
            Some(via) => write!(f, "{} through {}", self.to, via.device),
        }
    }
}

/// Returns true if an address means something only together with an interface.
pub(crate) fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// All routes to a host. Its processes share the list.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Paired {
    /// The part of the card that the host's processes have in common.
    pub(crate) peer: Published,
    /// The routes, best first; those behind the rails will do when the rails fail.
    pub(crate) list: Vec<Route>,
    /// Number of routes that are worth being used at once.
    pub(crate) rails: usize,
    /// Fingerprint that is equal on two sides which see the same; 0 without pairs.
    pub(crate) agreement: u64,
}

/// All routes to a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Routes {
    pub(crate) paired: Arc<Paired>,
    /// The port at which the peer listens.
    pub(crate) port: u16,
}

impl Paired {
    /// Makes one route, whatever the interfaces.
    pub(crate) fn only(to: IpAddr) -> Paired {
        Paired { peer: Published::default(), list: vec![Route { to, via: None }], rails: 0, agreement: 0 }
    }

    /// Returns true if it is one route to an unpublished process, from [`Paired::only`].
    pub(crate) fn is_alone(&self) -> bool {
        self.peer == Published::default()
    }

    /// Returns the pairs of interfaces that are worth being used, best first: mine, theirs.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (u32, u32)> {
        self.list[..self.rails].iter().filter_map(Route::pair)
    }

    /// Returns the weight of a pair, if it is in the list.
    pub(crate) fn weight(&self, pair: (u32, u32)) -> Option<Weight> {
        self.list.iter().find(|w| w.is_between(pair))?.weight()
    }

    /// Returns the best route, if a connection between these interfaces goes by a worse one.
    pub(crate) fn better_than(&self, pair: (u32, u32)) -> Option<&Route> {
        let best = self.list.first().filter(|w| w.via.is_some() && !w.is_between(pair))?;
        let present = self.list.iter().find(|w| w.is_between(pair));
        present.is_none_or(|w| w.weight() < best.weight()).then_some(best)
    }

    /// Returns the routes between interfaces that both sides have agreed on which are to carry data
    /// beside each other, at most `most`, and why the others do not, as readable text.
    ///
    /// The first pair is that of the connection. Where there are more than enough it is left out if
    /// it is none of the best, since the connection goes by the best pair soon (`netmod::moving`).
    pub(crate) fn rails_of(&self, pairs: &Pairs, most: usize) -> (Box<[Route]>, String) {
        let mut rails: Vec<&Route> = self.between(pairs).collect();
        let mut left_out = Vec::new();
        for (mine, theirs) in pairs.as_slice().iter().filter(|p| !self.list.iter().any(|w| w.is_between(**p)))
        {
            left_out.push(format!(
                "number {mine} with the peer's {theirs}: this side knows of no way between them"
            ));
        }
        while rails.len() > most {
            let is_best = |w: &&Route| self.pairs().any(|p| w.is_between(p));
            let at = rails.iter().rposition(|w| !is_best(w)).unwrap_or(rails.len() - 1);
            left_out.push(format!("{}: NETMOD_TCP_RAILS allows {most}", rails.remove(at)));
        }
        (rails.into_iter().cloned().collect(), left_out.join(", "))
    }

    /// Returns the routes between interfaces that both sides have agreed on, in that order.
    pub(crate) fn between(&self, pairs: &Pairs) -> impl Iterator<Item = &Route> {
        pairs.as_slice().iter().filter_map(|pair| self.list.iter().find(|w| w.is_between(*pair)))
    }
}
