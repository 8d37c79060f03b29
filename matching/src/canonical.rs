//! The form of a record from which both sides compute: bounded, and the same whatever order it was gathered in.

use core::fmt;

use crate::address::{is_link_local, is_usable};
use crate::graph::select;
use crate::record::{Address, Host, Nic};
use crate::weight::MAX_NICS;

/// Most addresses of an interface that are considered.
pub const MAX_ADDRESSES: usize = 8;
/// Longest name of an interface in bytes (Linux: `IFNAMSIZ` without its zero).
pub const MAX_NAME: usize = 15;

/// Why something of a host is not in its canonical record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Omission {
    /// More than [`MAX_NICS`] interfaces; others promise more.
    TooManyNics,
    /// More than [`MAX_ADDRESSES`] addresses.
    TooManyAddresses,
    /// No interface has such a name.
    Name,
    /// No other host can reach such an address.
    Address,
    /// The user's choice.
    Excluded,
}

impl fmt::Display for Omission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Omission::TooManyNics => {
                write!(
                    f,
                    "beyond the {MAX_NICS} interfaces that a host publishes, those in use and faster ones first; choose others by name or subnet"
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

/// Something that is not in the canonical record.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Omitted {
    /// The interface's name.
    pub nic: String,
    /// The address, if it is not the whole interface.
    pub address: Option<Address>,
    /// Why.
    pub why: Omission,
}

/// A canonical record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Canonical {
    /// At most [`MAX_NICS`] interfaces by name and number, each with at most [`MAX_ADDRESSES`] usable addresses in
    /// ascending order.
    pub host: Host,
    /// Where each of them was in the record that this was made of.
    pub from: Vec<usize>,
    /// What is not in it.
    pub omitted: Vec<Omitted>,
}

/// Whether an interface can have this name.
pub(crate) fn is_name(name: &str) -> bool {
    let odd = |c: char| c.is_control() || c.is_whitespace() || c == '/';
    (1..=MAX_NAME).contains(&name.len()) && !name.contains(odd)
}

impl Canonical {
    /// Of a record. That of a canonical record's host is itself.
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
        let chosen = select(&nics);
        let mut left = vec![true; nics.len()];
        for i in &chosen {
            left[*i] = false;
        }
        for (nic, _) in nics.iter().zip(&left).filter(|(_, left)| **left) {
            omitted.push(Omitted { nic: nic.name.clone(), address: None, why: Omission::TooManyNics });
        }
        omitted.sort();
        Canonical {
            from: chosen.iter().map(|i| from[*i]).collect(),
            host: Host {
                place: host.place,
                nics: chosen.iter().map(|i| core::mem::take(&mut nics[*i])).collect(),
            },
            omitted,
        }
    }
}

/// The interface's usable addresses in ascending order, and of very many some of each kind.
fn addresses(nic: &Nic, omitted: &mut Vec<Omitted>) -> Vec<Address> {
    let mut omit = |address: &Address, why| {
        omitted.push(Omitted { nic: nic.name.clone(), address: Some(*address), why });
    };
    let mut all = nic.addresses.clone();
    all.sort_unstable();
    all.dedup();
    all.retain(|a| {
        let usable = is_usable(a);
        // Loopback addresses are where they should be on a loopback interface.
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
