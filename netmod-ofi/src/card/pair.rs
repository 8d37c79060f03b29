//! Which domain of this process talks to which of a peer's: a pure function of both cards, the same from both sides.

use core::cmp::Reverse;

use netmod_matching::graph::{Edge, Endpoint, Limits, Verdict, decide};
use netmod_matching::{Class, Rules, Side, Transport, Weight, quote, spread};

use super::{CardDomain, OfiCard, OwnCard, PeerCard};
use crate::address::{format_name, ip, show};

/// Positions of the two domains that talk to each other: the own one, the peer's.
///
/// `pair(a, b)` and `pair(b, a)` are mirror images. Where several pairs are equally good, different peers get different ones.
///
/// # Errors
/// Why there is no such pair, for people.
pub fn pair(mine: &OwnCard, theirs: &PeerCard) -> Result<(usize, usize), String> {
    understood(mine, theirs)?;
    // Whose card has the lesser bytes is on the left, whoever computes.
    let (a, b) = (mine.body(), theirs.body());
    let swapped = b < a;
    let (left, right) = if swapped { (theirs, mine) } else { (mine, theirs) };
    let mut refused = Vec::new();
    let mut ways = by_kind(left, right, &mut refused);
    if left.here.shares_network(&right.here) {
        ways.extend(by_loopback(left, right));
    } else {
        ways.extend(by_ip(left, right, &mut refused));
    }
    ways.retain(|w| match unnamed(&left.domains[w.left], &right.domains[w.right]) {
        Some(why) => {
            refused.push(why);
            false
        }
        None => true,
    });
    ways.sort_by_key(|w| (Reverse(w.weight), w.left, w.right));
    let best = ways.iter().take_while(|w| w.weight == ways[0].weight).count();
    if best == 0 {
        let reasons = if refused.is_empty() {
            "their addresses have no form in common".into()
        } else {
            quote(&refused)
        };
        return Err(format!(
            "no domain of this process has a way to one of the peer's over {}: {reasons}; NETMOD_OFI_DOMAIN and NETMOD_OFI_PROVIDER \
             choose others, `netmod-perf info` lists them",
            mine.provider
        ));
    }
    let (first, second) = if swapped { (&b, &a) } else { (&a, &b) };
    let way = &ways[spread(first, second) as usize % best];
    Ok(if swapped { (way.right, way.left) } else { (way.left, way.right) })
}

/// Whether the two can talk at all.
fn understood(mine: &OfiCard, theirs: &OfiCard) -> Result<(), String> {
    if mine.protocol != theirs.protocol {
        return Err(format!(
            "its frames are of version {}, those of this process of version {}; start all processes with the same netmod",
            theirs.protocol, mine.protocol
        ));
    }
    if mine.provider != theirs.provider {
        return Err(format!(
            "it has chosen libfabric's provider {}, and this process {}; set NETMOD_OFI_PROVIDER to one that all hosts have",
            theirs.provider, mine.provider
        ));
    }
    if mine.endpoint != theirs.endpoint {
        let version = |v: u32| format!("{}.{}", v >> 16, v & 0xffff);
        return Err(format!(
            "its provider {} speaks protocol {} version {} (libfabric {}), and that of this process {} version {} (libfabric {}); \
             use one version of libfabric on all hosts",
            theirs.provider,
            theirs.endpoint.0,
            theirs.endpoint.1,
            version(theirs.library),
            mine.endpoint.0,
            mine.endpoint.1,
            version(mine.library),
        ));
    }
    Ok(())
}

/// Why one of the two domains cannot send to the receive context that the other one has.
fn unnamed(l: &CardDomain, r: &CardDomain) -> Option<String> {
    let cannot = |from: &CardDomain, to: &CardDomain| to.context > 0 && !from.names_contexts;
    (cannot(l, r) || cannot(r, l)).then(|| {
        format!(
            "{} and {}: one is a context of a scalable endpoint, and the other one's provider knows none (FI_NAMED_RX_CTX); \
             NETMOD_OFI_DISABLE_SEP=1 does without",
            l.name, r.name
        )
    })
}

/// A way between two domains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct WayBetween {
    left: usize,
    right: usize,
    weight: Weight,
}

/// Whether the domain's address is one of IP, which says whom it reaches.
fn has_ip(d: &CardDomain) -> bool {
    ip(d.format, &d.address).is_some()
}

fn is_loopback(d: &CardDomain) -> bool {
    ip(d.format, &d.address).is_some_and(|ip| ip.is_loopback())
}

/// A domain whose address is not one of IP: who has the same fabric is reached.
struct Other<'a> {
    at: usize,
    domain: &'a CardDomain,
}

impl Endpoint for Other<'_> {
    type Key<'a>
        = (&'a str, usize)
    where
        Self: 'a;
    type Reason = String;

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
    fn unusable(&self) -> Option<String> {
        None
    }
}

/// Pairs of domains without IP addresses.
fn by_kind(left: &OfiCard, right: &OfiCard, refused: &mut Vec<String>) -> Vec<WayBetween> {
    let others = |card: &'_ OfiCard| -> Vec<usize> {
        (0..card.domains.len()).filter(|at| !has_ip(&card.domains[*at])).collect()
    };
    let (lefts, rights) = (others(left), others(right));
    let endpoints = |card, at: &[usize]| at.iter().map(|at| endpoint(card, *at)).collect::<Vec<_>>();
    let (ls, rs) = (endpoints(left, &lefts), endpoints(right, &rights));
    let same_memory = left.here.shares_memory(&right.here);
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
        .map(|p| WayBetween { left: lefts[p.left], right: rights[p.right], weight: p.weight })
        .collect()
}

fn endpoint(card: &OfiCard, at: usize) -> Other<'_> {
    Other { at, domain: &card.domains[at] }
}

/// Whether two domains without IP addresses reach each other.
fn edge(l: &CardDomain, r: &CardDomain, same_memory: bool) -> Result<Edge<(), String>, String> {
    if l.format != r.format {
        return Err(format!(
            "their addresses are of different forms ({} and {})",
            format_name(l.format),
            format_name(r.format)
        ));
    }
    if (l.local || r.local) && !same_memory {
        return Err(
            "they reach only processes of their own host, with the same /dev/shm and PID namespace".into()
        );
    }
    if l.fabric != r.fabric {
        return Err(format!("they are on different fabrics ({} and {})", l.fabric, r.fabric));
    }
    Ok(Edge { class: Class::OnLink, last_resort: None, route: () })
}

/// Pairs within one kernel and network namespace: each address leads there, over the loopback interface, whatever it is of.
fn by_loopback(left: &OfiCard, right: &OfiCard) -> Vec<WayBetween> {
    let with_ip = |card: &OfiCard| -> Vec<usize> {
        (0..card.domains.len()).filter(|at| has_ip(&card.domains[*at])).collect()
    };
    let mut ways = Vec::new();
    for l in with_ip(left) {
        for r in with_ip(right) {
            let (a, b) = (&left.domains[l], &right.domains[r]);
            // A socket that is bound to a loopback address reaches none else, nor the other way round.
            let together = is_loopback(a) == is_loopback(b) && a.format == b.format;
            let same_interface = (&a.name, &a.fabric) == (&b.name, &b.fabric);
            if together {
                let class = if same_interface { Class::OnLink } else { Class::Default };
                ways.push(WayBetween { left: l, right: r, weight: Weight::new(class, [None; 2], [None; 2]) });
            }
        }
    }
    ways
}

/// What a provider sends its messages by.
///
/// Others than those over TCP make packets of the size of their own interface, or trust that both ends have the same.
fn transport(provider: &str) -> Transport {
    match provider.split(';').next() {
        Some("tcp" | "sockets" | "net") => Transport::Stream,
        _ => Transport::Datagrams,
    }
}

/// Pairs of domains with IP addresses, on different hosts: those of their interfaces.
fn by_ip(left: &OfiCard, right: &OfiCard, refused: &mut Vec<String>) -> Vec<WayBetween> {
    let sides = [Side { name: &[0], host: &left.record }, Side { name: &[1], host: &right.record }];
    let rules = Rules { transport: transport(&left.provider), ..Rules::default() };
    let pairing = netmod_matching::pair(&sides[0], &sides[1], &rules);
    let at = |card: &OfiCard, nic: usize| card.record.nics.get(nic).map(|n| n.index as usize);
    let ways: Vec<WayBetween> = pairing
        .pairs
        .iter()
        .filter_map(|p| {
            Some(WayBetween { left: at(left, p.own)?, right: at(right, p.peer)?, weight: p.weight })
        })
        .filter(|w| left.domains[w.left].format == right.domains[w.right].format)
        .collect();
    if ways.is_empty() {
        let address = |d: &CardDomain| format!("{} ({})", d.name, show(d.format, &d.address));
        for v in pairing.explain().verdicts {
            refused.push(format!("{} and {}: {}", v.own, v.peer, v.text));
        }
        for card in [left, right] {
            for d in card.domains.iter().filter(|d| is_loopback(d)) {
                refused.push(format!("{} leads nowhere else", address(d)));
            }
        }
    }
    ways
}
