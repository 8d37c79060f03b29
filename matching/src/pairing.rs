//! The pairing of two hosts' IP interfaces, the same from both sides.

use core::cmp::Ordering;
use core::net::IpAddr;

use crate::canonical::{Canonical, Omitted};
use crate::fnv::Fnv;
use crate::graph::{Verdict, decide};
use crate::ip::{Basis, Both, edge};
use crate::reason::{Reason, Whose};
use crate::record::{Cut, Host, Nic};
use crate::rules::Rules;
use crate::weight::Weight;

/// A process and its interfaces.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// Name of the process, in bytes that order processes: the lesser name decides.
    pub name: &'a [u8],
    /// Record of its host, as published ([`Rules::publish`]).
    pub host: &'a Host,
}

/// Two interfaces that talk to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    /// Position in the own record.
    pub own: usize,
    /// Position in the peer's record.
    pub peer: usize,
    /// Kernel's number of the own interface ([`Nic::index`]).
    pub own_index: u32,
    /// Kernel's number of the peer's interface.
    pub peer_index: u32,
    /// Own address to send from.
    pub own_address: IpAddr,
    /// Peer's address to send to. A link-local one has the own interface as its scope.
    pub peer_address: IpAddr,
    /// Weight: class, Mb/s of the slower end, and more.
    pub weight: Weight,
    /// The facts from which the class is known.
    pub basis: Basis,
}

impl Pair {
    /// Returns the pair as the other side sees it.
    pub fn mirror(self) -> Pair {
        Pair {
            own: self.peer,
            peer: self.own,
            own_index: self.peer_index,
            peer_index: self.own_index,
            own_address: self.peer_address,
            peer_address: self.own_address,
            ..self
        }
    }
}

/// A record and its canonical form's positions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    /// The interfaces as given.
    pub(crate) nics: Vec<Nic>,
    /// Position of each interface in the canonical record, if it is there.
    canonical: Vec<Option<usize>>,
    /// Number of interfaces in the canonical record.
    len: usize,
    pub(crate) omitted: Vec<Omitted>,
    pub(crate) cut: Cut,
}

/// The pairs of two hosts, with a reason for each verdict.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pairing {
    /// The pairs, in the canonical order of the deciding side's interfaces; the same order on both
    /// sides.
    ///
    /// Empty if there is no route between the hosts, which is no error.
    pub pairs: Vec<Pair>,
    pub(crate) own: Part,
    pub(crate) peer: Part,
    own_decides: bool,
    /// Verdicts by canonical positions, the deciding side's first, as the own side sees them.
    verdicts: Vec<Verdict<Reason>>,
}

/// Pairs the interfaces of two processes.
///
/// `pair(a, b, r)` and `pair(b, a, r)` are mirror images of each other. The rules' filter has no
/// part in it: it acts when a record is published.
pub fn pair(own: &Side<'_>, peer: &Side<'_>, rules: &Rules) -> Pairing {
    let (a, b) = (Canonical::new(own.host), Canonical::new(peer.host));
    // If even the records are equal, so are the locations or all addresses: either each interface
    // is paired with itself, or none is paired. Then the order of the sides makes no difference.
    let order = own.name.cmp(peer.name).then_with(|| a.host.cmp(&b.host));
    if order == Ordering::Greater {
        compute((peer, b), (own, a), rules).mirror()
    } else {
        compute((own, a), (peer, b), rules)
    }
}

/// Computes the pairing with the left side as the own one.
fn compute((own, a): (&Side<'_>, Canonical), (peer, b): (&Side<'_>, Canonical), rules: &Rules) -> Pairing {
    let both = Both::new(&a.host, &b.host);
    let decided = decide(&a.host.nics, &b.host.nics, &rules.limits, |l, r| edge(&both, rules, l, r));
    let pairs = decided.pairs.iter().map(|j| Pair {
        own: a.from[j.left],
        peer: b.from[j.right],
        own_index: a.host.nics[j.left].index,
        peer_index: b.host.nics[j.right].index,
        own_address: j.route.left,
        peer_address: j.route.right,
        weight: j.weight,
        basis: j.route.basis,
    });
    let mut verdicts = Vec::with_capacity(a.from.len() * b.from.len());
    for l in 0..a.from.len() {
        for r in 0..b.from.len() {
            verdicts.push(match decided.verdict(l, r) {
                Verdict::Lost { own, peer } => {
                    Verdict::Lost { own: own.map(|r| b.from[r]), peer: peer.map(|l| a.from[l]) }
                }
                same => same,
            });
        }
    }
    Pairing {
        pairs: pairs.collect(),
        own: Part::new(own.host, a),
        peer: Part::new(peer.host, b),
        own_decides: true,
        verdicts,
    }
}

impl Part {
    fn new(host: &Host, canonical: Canonical) -> Part {
        let mut at = vec![None; host.nics.len()];
        for (i, from) in canonical.from.iter().enumerate() {
            at[*from] = Some(i);
        }
        let len = canonical.from.len();
        Part {
            nics: host.nics.clone(),
            canonical: at,
            len,
            omitted: canonical.omitted,
            cut: canonical.host.cut,
        }
    }
}

impl Pairing {
    /// Returns the pairing as the other side computes it.
    pub fn mirror(self) -> Pairing {
        Pairing {
            pairs: self.pairs.into_iter().map(Pair::mirror).collect(),
            own: self.peer,
            peer: self.own,
            own_decides: !self.own_decides,
            verdicts: self.verdicts.into_iter().map(|v| v.mirror(Reason::mirror)).collect(),
        }
    }

    /// Returns true if the own side decides, because its name is the lesser one.
    pub fn own_decides(&self) -> bool {
        self.own_decides
    }

    /// Returns a side's interfaces without a partner, by their positions in its record.
    pub fn unmatched(&self, whose: Whose) -> Vec<usize> {
        let part = if whose == Whose::Own { &self.own } else { &self.peer };
        let mut alone = vec![true; part.nics.len()];
        for pair in &self.pairs {
            alone[if whose == Whose::Own { pair.own } else { pair.peer }] = false;
        }
        (0..alone.len()).filter(|i| alone[*i]).collect()
    }

    /// Returns the pairs, best first; equally good ones in the order of [`Self::pairs`].
    ///
    /// The order is the same on both sides.
    pub fn best_first(&self) -> Vec<Pair> {
        let mut pairs = self.pairs.clone();
        pairs.sort_by_key(|p| core::cmp::Reverse(p.weight));
        pairs
    }

    /// Returns why an own interface and one of the peer's are a pair, or are not; by positions in
    /// the records.
    ///
    /// Interfaces that are not in a canonical record, or do not exist, are [`Verdict::Beyond`].
    pub fn verdict(&self, own: usize, peer: usize) -> Verdict<Reason> {
        let at = |part: &Part, i: usize| part.canonical.get(i).copied().flatten();
        match (at(&self.own, own), at(&self.peer, peer)) {
            (Some(l), Some(r)) if self.own_decides => self.verdicts[l * self.peer.len + r].clone(),
            (Some(r), Some(l)) => self.verdicts[l * self.own.len + r].clone(),
            _ => Verdict::Beyond,
        }
    }

    /// Returns true if an interface is in its side's canonical record.
    pub(crate) fn considers(&self, whose: Whose, at: usize) -> bool {
        let part = if whose == Whose::Own { &self.own } else { &self.peer };
        part.canonical.get(at).is_some_and(Option::is_some)
    }

    /// Returns a hash of the result, stable over versions of the program.
    ///
    /// The hashes of two sides are equal exactly if they pair the same interfaces by the same
    /// addresses with the same class.
    pub fn agreement(&self) -> u64 {
        let mut hash = Fnv::new();
        for pair in &self.pairs {
            let own = (&self.own.nics[pair.own], pair.own_address);
            let peer = (&self.peer.nics[pair.peer], pair.peer_address);
            for (nic, ip) in if self.own_decides { [own, peer] } else { [peer, own] } {
                hash.bytes(&nic.index.to_le_bytes());
                hash.field(nic.name.as_bytes());
                match ip {
                    IpAddr::V4(v4) => hash.field(&v4.octets()),
                    IpAddr::V6(v6) => hash.field(&v6.octets()),
                }
            }
            hash.bytes(&[pair.weight.class.code()]);
        }
        hash.finish()
    }
}
