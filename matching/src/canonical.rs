//! The canonical form of a record, from which both sides compute: bounded, and independent of the
//! order of gathering.

use core::fmt;

use crate::address::{is_link_local, is_usable};
use crate::graph::by_promise;
use crate::reach;
use crate::record::{Address, Cut, Host, Nic, Reach};
use crate::size::{HEAD, MAX_ADDRESSES, MAX_LEN, nic_len, reach_len};

/// Longest name of an interface in bytes (Linux: `IFNAMSIZ` less the terminating zero).
pub const MAX_NAME: usize = 15;

/// The reason why an interface or address is not in a canonical record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Omission {
    /// The record is full ([`MAX_LEN`]), and others promise more.
    NoRoom,
    /// The interface has more than [`MAX_ADDRESSES`] addresses.
    TooManyAddresses,
    /// No interface can have such a name.
    Name,
    /// No other host can reach such an address.
    Address,
    /// The user has excluded it.
    Excluded,
}

impl fmt::Display for Omission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Omission::NoRoom => {
                write!(
                    f,
                    "the {} KiB that a host publishes of itself are full; {GO_FIRST} go first; choose others by name or subnet",
                    MAX_LEN >> 10
                )
            }
            Omission::TooManyAddresses => {
                write!(f, "beyond the {MAX_ADDRESSES} addresses of an interface that a host publishes")
            }
            Omission::Name => {
                write!(
                    f,
                    "its name is empty, longer than {MAX_NAME} bytes, or has characters that no interface's name has"
                )
            }
            Omission::Address => f.write_str("no other host can reach such an address"),
            Omission::Excluded => f.write_str("excluded by the user's choice of interfaces"),
        }
    }
}

/// The interfaces that a full record leaves out first.
pub(crate) const GO_FIRST: &str =
    "those that are down, then bridges, tunnels and dummies that lead nowhere, then slow ones";

/// An interface or address that is not in the canonical record.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Omitted {
    /// Name of the interface.
    pub nic: String,
    /// The address; `None` for the whole interface.
    pub address: Option<Address>,
    /// The reason.
    pub why: Omission,
}

/// A canonical record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Canonical {
    /// The interfaces by name and number, each with at most [`MAX_ADDRESSES`] usable addresses in
    /// ascending order, and the routing tables' answers for those.
    ///
    /// Its bytes on the wire are at most [`MAX_LEN`].
    pub host: Host,
    /// Position of each interface in the original record.
    pub from: Vec<usize>,
    /// Everything that was left out.
    pub omitted: Vec<Omitted>,
}

/// Returns true if an interface can have this name.
pub(crate) fn is_name(name: &str) -> bool {
    let odd = |c: char| c.is_control() || c.is_whitespace() || c == '/';
    (1..=MAX_NAME).contains(&name.len()) && !name.contains(odd)
}

impl Canonical {
    /// Builds the canonical form of a record. The form of a canonical record is the record itself.
    pub fn new(host: &Host) -> Canonical {
        let mut omitted = Vec::new();
        let mut nics: Vec<(usize, Nic)> = Vec::new();
        for (at, nic) in host.nics.iter().enumerate() {
            if is_name(&nic.name) {
                let addresses = addresses(nic, &mut omitted);
                nics.push((at, Nic { name: nic.name.clone(), addresses, ..*nic }));
            } else {
                omitted.push(Omitted { nic: nic.name.clone(), address: None, why: Omission::Name });
            }
        }
        let (from, mut nics): (Vec<usize>, Vec<Nic>) = nics.into_iter().unzip();
        let (mut chosen, room) = with_room(&nics);
        chosen.sort_by(|a, b| nics[*a].cmp(&nics[*b]));
        let mut left = vec![true; nics.len()];
        for i in &chosen {
            left[*i] = false;
        }
        for (nic, _) in nics.iter().zip(&left).filter(|(_, left)| **left) {
            omitted.push(Omitted { nic: nic.name.clone(), address: None, why: Omission::NoRoom });
        }
        omitted.sort();
        let nics: Vec<Nic> = chosen.iter().map(|i| core::mem::take(&mut nics[*i])).collect();
        let (reach, lost) = reach_of(&nics, host.reach.as_deref(), room);
        let too_many = |why| omitted.iter().filter(|o| o.why == why).count();
        let more = |before: u16, n: usize| before.saturating_add(u16::try_from(n).unwrap_or(u16::MAX));
        let cut = Cut {
            nics: more(host.cut.nics, too_many(Omission::NoRoom)),
            addresses: more(host.cut.addresses, too_many(Omission::TooManyAddresses)),
            routes: more(host.cut.routes, lost),
        };
        Canonical {
            from: chosen.iter().map(|i| from[*i]).collect(),
            host: Host { location: host.location, nics, reach, cut },
            omitted,
        }
    }
}

/// Returns the interfaces that a record has room for, and the bytes left.
///
/// Takes the interfaces that promise most, up to the first one that does not fit.
fn with_room(nics: &[Nic]) -> (Vec<usize>, usize) {
    let mut room = MAX_LEN - HEAD;
    let mut order = by_promise(nics);
    let full = order.iter().position(|i| match room.checked_sub(nic_len(&nics[*i])) {
        Some(left) => {
            room = left;
            false
        }
        None => true,
    });
    order.truncate(full.unwrap_or(order.len()));
    (order, room)
}

/// Returns the routing tables' answers for these interfaces that fit into `room`, and the number of
/// those that do not.
///
/// Short prefixes come first, since they cover most.
fn reach_of(nics: &[Nic], said: Option<&[Reach]>, mut room: usize) -> (Option<Vec<Reach>>, usize) {
    let Some(said) = said else { return (None, 0) };
    let said = reach::canonical(said);
    let (mut list, mut lost, mut seen) = (Vec::new(), 0, std::collections::HashSet::new());
    for nic in nics {
        for address in nic.addresses.iter().filter(|a| !is_link_local(a.ip)) {
            // If two interfaces claim to be the same, the first one has the entries.
            if seen.insert((nic.index, address.ip)) {
                let (own, cut) = reach::of_address(&said, nic.index, address.ip);
                list.extend(own);
                lost += cut;
            }
        }
    }
    list.sort_unstable_by_key(|r: &Reach| (r.prefix, *r));
    let full = list.iter().position(|r| match room.checked_sub(reach_len(r)) {
        Some(left) => {
            room = left;
            false
        }
        None => true,
    });
    let fitting = full.unwrap_or(list.len());
    lost += list.len() - fitting;
    list.truncate(fitting);
    list.sort_unstable();
    (Some(list), lost)
}

/// Returns the usable addresses in ascending order; of too many, some of each kind.
fn addresses(nic: &Nic, omitted: &mut Vec<Omitted>) -> Vec<Address> {
    let mut omit = |address: &Address, why| {
        omitted.push(Omitted { nic: nic.name.clone(), address: Some(*address), why });
    };
    let mut all = nic.addresses.clone();
    all.sort_unstable();
    all.dedup();
    all.retain(|a| {
        let usable = is_usable(a);
        // A loopback address on a loopback interface is no omission worth reporting.
        if !usable && !a.ip.is_loopback() {
            omit(a, Omission::Address);
        }
        usable
    });
    if all.len() > MAX_ADDRESSES {
        let mut seen = [0usize; 4];
        let mut ranked: Vec<(usize, usize, Address)> = Vec::with_capacity(all.len());
        for a in all {
            let kind = usize::from(a.ip.is_ipv6()) + 2 * usize::from(is_link_local(a.ip));
            ranked.push((seen[kind], kind, a));
            seen[kind] += 1;
        }
        ranked.sort_unstable();
        for (_, _, a) in &ranked[MAX_ADDRESSES..] {
            omit(a, Omission::TooManyAddresses);
        }
        ranked.truncate(MAX_ADDRESSES);
        all = ranked.into_iter().map(|(_, _, a)| a).collect();
        all.sort_unstable();
    }
    all
}
