//! Pairs a domain of this process with one of a peer's: a pure function of both cards, the same on
//! both sides.

use core::cmp::Reverse;

use netmod_matching::graph::{Edge, Endpoint, Limits, Verdict, decide};
use netmod_matching::{Class, Rules, Side, Transport, Weight, spread};

use super::{CardDomain, OfiCard, OwnCard, PeerCard};
use crate::address::{format_name, ip, show};
use crate::error::{PairError, ProviderProtocol};

/// Returns the positions of the two domains that talk to each other, this process's first.
///
/// `pair(a, b)` and `pair(b, a)` are mirror images. Among equally good pairs, different peers get
/// different ones.
///
/// # Errors
/// The reason why there is no pair.
pub fn pair(mine: &OwnCard, theirs: &PeerCard) -> Result<(usize, usize), PairError> {
    understood(mine, theirs)?;
    // The card with the smaller bytes is on the left, on both sides.
    let (a, b) = (mine.body(), theirs.body());
    let swapped = b < a;
    let (left, right) = if swapped { (theirs, mine) } else { (mine, theirs) };
    let mut refused = Vec::new();
    let mut routes = by_kind(left, right, &mut refused);
    if left.location.shares_network(&right.location) {
        routes.extend(by_loopback(left, right));
    } else {
        routes.extend(by_ip(left, right, &mut refused));
    }
    routes.retain(|w| match unnamed(&left.domains[w.left], &right.domains[w.right]) {
        Some(why) => {
            refused.push(why);
            false
        }
        None => true,
    });
    routes.sort_by_key(|w| (Reverse(w.weight), w.left, w.right));
    let best = routes.iter().take_while(|w| w.weight == routes[0].weight).count();
    if best == 0 {
        return Err(PairError::NoRoute { provider: mine.provider.to_string(), reasons: refused });
    }
    let (first, second) = if swapped { (&b, &a) } else { (&a, &b) };
    let way = &routes[spread(first, second) as usize % best];
    Ok(if swapped { (way.right, way.left) } else { (way.left, way.right) })
}

/// Checks that the two processes can talk at all.
fn understood(mine: &OfiCard, theirs: &OfiCard) -> Result<(), PairError> {
    if mine.protocol != theirs.protocol {
        return Err(PairError::Protocol { theirs: theirs.protocol, mine: mine.protocol });
    }
    if mine.provider != theirs.provider {
        let name = |card: &OfiCard| card.provider.to_string();
        return Err(PairError::Provider { theirs: name(theirs), mine: name(mine) });
    }
    if mine.endpoint != theirs.endpoint {
        let of = |card: &OfiCard| ProviderProtocol { protocol: card.endpoint, library: card.library };
        let provider = theirs.provider.to_string();
        return Err(PairError::ProviderProtocol { provider, theirs: of(theirs), mine: of(mine) });
    }
    Ok(())
}

/// Returns the reason if one of the two domains cannot send to the other's receive context.
fn unnamed(l: &CardDomain, r: &CardDomain) -> Option<String> {
    let cannot = |from: &CardDomain, to: &CardDomain| to.context > 0 && !from.names_contexts;
    (cannot(l, r) || cannot(r, l)).then(|| {
        format!(
            "{} and {}: one is a context of a scalable endpoint, and the other's provider cannot address contexts (FI_NAMED_RX_CTX); \
             NETMOD_OFI_DISABLE_SEP=1 avoids them",
            l.name, r.name
        )
    })
}

/// A route between two domains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Route {
    left: usize,
    right: usize,
    weight: Weight,
}

/// Returns true if the domain has an IP address, which tells whom it reaches.
fn has_ip(d: &CardDomain) -> bool {
    ip(d.format, &d.address).is_some()
}

fn is_loopback(d: &CardDomain) -> bool {
    ip(d.format, &d.address).is_some_and(|ip| ip.is_loopback())
}

/// The reason why two domains without IP addresses do not reach each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Obstacle {
    /// Neither understands the other's address.
    #[error(
        "their addresses are of different formats ({} and {})",
        format_name(*.left),
        format_name(*.right)
    )]
    Formats {
        /// Format of the left one.
        left: u32,
        /// Format of the right one.
        right: u32,
    },
    /// Their provider reaches processes of its own host only.
    #[error("they reach only processes of their own host, with the same /dev/shm and PID namespace")]
    OtherHost,
    /// The fabrics differ.
    #[error("they are on different fabrics ({left} and {right})")]
    Fabrics {
        /// Fabric of the left one.
        left: String,
        /// Fabric of the right one.
        right: String,
    },
}

/// A domain without an IP address: it reaches domains of the same fabric.
struct Other<'a> {
    at: usize,
    domain: &'a CardDomain,
}

impl Endpoint for Other<'_> {
    type Key<'a>
        = (&'a str, usize)
    where
        Self: 'a;
    type Reason = Obstacle;

    fn key(&self) -> (&str, usize) {
        (&self.domain.name, self.at)
    }
    fn label(&self) -> &str {
        &self.domain.name
    }
    fn second_tier(&self) -> Option<&'static str> {
        None
    }
    fn speed(&self) -> Option<u32> {
        self.domain.speed
    }
    fn mtu(&self) -> Option<u32> {
        self.domain.mtu
    }
    fn unusable(&self) -> Option<Obstacle> {
        None
    }
}

/// Finds routes between domains without IP addresses.
fn by_kind(left: &OfiCard, right: &OfiCard, refused: &mut Vec<String>) -> Vec<Route> {
    let others = |card: &'_ OfiCard| -> Vec<usize> {
        (0..card.domains.len()).filter(|at| !has_ip(&card.domains[*at])).collect()
    };
    let (lefts, rights) = (others(left), others(right));
    let endpoints = |card, at: &[usize]| at.iter().map(|at| endpoint(card, *at)).collect::<Vec<_>>();
    let (ls, rs) = (endpoints(left, &lefts), endpoints(right, &rights));
    let same_memory = left.location.shares_memory(&right.location);
    let decided = decide(&ls, &rs, &Limits::default(), |l, r| edge(l.domain, r.domain, same_memory));
    for (l, a) in ls.iter().enumerate() {
        for (r, b) in rs.iter().enumerate() {
            if let Verdict::Impossible(why) = decided.verdict(l, r) {
                refused.push(format!("{} and {}: {why}", a.domain.name, b.domain.name));
            }
        }
    }
    decided
        .pairs
        .iter()
        .map(|p| Route { left: lefts[p.left], right: rights[p.right], weight: p.weight })
        .collect()
}

fn endpoint(card: &OfiCard, at: usize) -> Other<'_> {
    Other { at, domain: &card.domains[at] }
}

/// Checks whether two domains without IP addresses reach each other.
fn edge(l: &CardDomain, r: &CardDomain, same_memory: bool) -> Result<Edge<(), Obstacle>, Obstacle> {
    if l.format != r.format {
        return Err(Obstacle::Formats { left: l.format, right: r.format });
    }
    if (l.local || r.local) && !same_memory {
        return Err(Obstacle::OtherHost);
    }
    if l.fabric != r.fabric {
        return Err(Obstacle::Fabrics { left: l.fabric.clone(), right: r.fabric.clone() });
    }
    Ok(Edge { class: Class::OnLink, last_resort: None, route: () })
}

/// Finds routes within one kernel and network namespace: the loopback interface reaches every
/// address there.
fn by_loopback(left: &OfiCard, right: &OfiCard) -> Vec<Route> {
    let with_ip = |card: &OfiCard| -> Vec<usize> {
        (0..card.domains.len()).filter(|at| has_ip(&card.domains[*at])).collect()
    };
    let mut routes = Vec::new();
    for l in with_ip(left) {
        for r in with_ip(right) {
            let (a, b) = (&left.domains[l], &right.domains[r]);
            // A socket bound to a loopback address reaches only such addresses, and is reached only
            // by them.
            let together = is_loopback(a) == is_loopback(b) && a.format == b.format;
            let same_interface = (&a.name, &a.fabric) == (&b.name, &b.fabric);
            if together {
                let class = if same_interface { Class::OnLink } else { Class::Default };
                routes.push(Route { left: l, right: r, weight: Weight::new(class, [None; 2], [None; 2]) });
            }
        }
    }
    routes
}

/// Returns the transport of a provider.
///
/// Only providers over TCP adapt to the path's MTU. Others make packets of the size of their own
/// interface, or assume that both ends have the same.
fn transport(provider: &str) -> Transport {
    match provider.split(';').next() {
        Some("tcp" | "sockets" | "net") => Transport::Stream,
        _ => Transport::Datagrams,
    }
}

/// Finds routes between domains with IP addresses on different hosts, by their interfaces.
fn by_ip(left: &OfiCard, right: &OfiCard, refused: &mut Vec<String>) -> Vec<Route> {
    let sides = [Side { name: &[0], host: &left.record }, Side { name: &[1], host: &right.record }];
    let rules = Rules { transport: transport(&left.provider), ..Rules::default() };
    let pairing = netmod_matching::pair(&sides[0], &sides[1], &rules);
    let at = |card: &OfiCard, nic: usize| card.record.nics.get(nic).map(|n| n.index as usize);
    let routes: Vec<Route> = pairing
        .pairs
        .iter()
        .filter_map(|p| Some(Route { left: at(left, p.own)?, right: at(right, p.peer)?, weight: p.weight }))
        .filter(|w| left.domains[w.left].format == right.domains[w.right].format)
        .collect();
    if routes.is_empty() {
        let address = |d: &CardDomain| format!("{} ({})", d.name, show(d.format, &d.address));
        for v in pairing.explain().verdicts {
            refused.push(format!("{} and {}: {}", v.own, v.peer, v.text));
        }
        for card in [left, right] {
            for d in card.domains.iter().filter(|d| is_loopback(d)) {
                refused.push(format!("{} reaches only its own host", address(d)));
            }
        }
    }
    routes
}
