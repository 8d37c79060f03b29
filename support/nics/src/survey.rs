//! The survey of this host's interfaces: by dumps of links and addresses, or without netlink.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use netmod_matching::{Address, Host, Kind, Nic};

use crate::dump::{Dump, Dumper};
use crate::kernel::Kernel;
use crate::kinds::kinds;
use crate::links::{ADDRESS_FIXED, LINK_FIXED, Link, Owned};
use crate::linux::Linux;
use crate::plain::Plain;

/// The result of a survey of this host's interfaces.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Found {
    /// The record for peers. Interfaces are in the order of their numbers.
    pub host: Host,
    /// Human-readable notes on what is unknown, with the reasons.
    pub notes: Vec<String>,
}

/// The error of a host whose interfaces cannot be listed.
#[derive(Debug, thiserror::Error)]
#[error(
    "the network interfaces of this host cannot be listed: netlink: {netlink}; ioctl and /proc: {plain}; \
     does a sandbox forbid both?"
)]
pub struct Error {
    /// The error of netlink.
    pub netlink: io::Error,
    /// The error of the other sources.
    #[source]
    pub plain: io::Error,
}

/// Total time for asking drivers for speeds; some ask the device's firmware.
pub(crate) const SPEEDS_WITHIN: Duration = Duration::from_millis(200);

impl Found {
    /// Surveys the network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// Fails if the interfaces cannot be listed in any way.
    pub fn here() -> Result<Found, Error> {
        Found::by(&Linux::new())
    }

    /// Does the same as [`Found::here`] with a given kernel.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn by<K: Kernel>(kernel: &K) -> Result<Found, Error> {
        let mut notes = Vec::new();
        let location = kernel.location(&mut notes);
        let (links, addresses) = match by_netlink(kernel, &mut notes) {
            Ok(found) => found,
            Err(netlink) => {
                let plain = match kernel.plain() {
                    Ok(plain) => plain,
                    Err(plain) => return Err(Error { netlink, plain }),
                };
                notes.push(format!(
                    "netlink: {netlink}; interfaces are listed by ioctl and /proc, kinds are known as far as /sys \
                     shows them, and nothing is known of routes"
                ));
                plain_parts(plain)
            }
        };
        let kinds = kinds(&links, &mut notes);
        let mut nics = assemble(links, kinds, &addresses, &mut notes);
        nics.sort_by_key(|nic| nic.index);
        speeds(kernel, &mut nics, &mut notes);
        Ok(Found { host: Host { location, nics, ..Host::default() }, notes })
    }
}

fn by_netlink<K: Kernel>(kernel: &K, notes: &mut Vec<String>) -> io::Result<(Vec<Link>, Vec<Owned>)> {
    let mut channel = kernel.netlink()?;
    let mut dumper = Dumper::new(&mut channel);
    let links = dumper.dump(
        libc::RTM_GETLINK,
        &[0; LINK_FIXED],
        |request, out| {
            // Leaves out the IPv6 counters, which would only be copied.
            let filter = libc::RTEXT_FILTER_SKIP_STATS as u32;
            request.attribute(out, libc::IFLA_EXT_MASK, &filter.to_ne_bytes());
        },
        libc::RTM_NEWLINK,
        Link::parse,
    )?;
    let addresses =
        dumper.dump(libc::RTM_GETADDR, &[0; ADDRESS_FIXED], |_, _| {}, libc::RTM_NEWADDR, Owned::parse)?;
    note_gaps("interfaces", &links, notes);
    note_gaps("addresses", &addresses, notes);
    Ok((links.items, addresses.items))
}

fn note_gaps<T>(what: &str, dump: &Dump<T>, notes: &mut Vec<String>) {
    if dump.unreadable > 0 {
        notes.push(format!("netlink: {} of the {what} could not be read and are missing", dump.unreadable));
    }
    if dump.incomplete {
        notes.push(format!(
            "netlink: the list of {what} kept changing while it was read; it may be incomplete"
        ));
    }
}

fn plain_parts(plain: Plain) -> (Vec<Link>, Vec<Owned>) {
    let addresses =
        plain.addresses.iter().map(|a| Owned { index: a.index, address: a.address, duplicate: a.duplicate });
    (plain.links, addresses.collect())
}

fn assemble(links: Vec<Link>, kinds: Vec<Kind>, owned: &[Owned], notes: &mut Vec<String>) -> Vec<Nic> {
    let mut addresses: HashMap<u32, Vec<Address>> = HashMap::new();
    let mut nics: Vec<Nic> = Vec::with_capacity(links.len());
    let mut seen = HashMap::with_capacity(links.len());
    for o in owned {
        let of = addresses.entry(o.index).or_default();
        if !o.duplicate && !of.contains(&o.address) {
            of.push(o.address);
        }
    }
    for (link, kind) in links.into_iter().zip(kinds) {
        // An interrupted dump may list an interface twice.
        if seen.insert(link.index, link.name.clone()).is_some() {
            continue;
        }
        nics.push(Nic {
            index: link.index,
            kind,
            addresses: addresses.remove(&link.index).unwrap_or_default(),
            speed: None,
            mtu: link.mtu,
            up: link.has(libc::IFF_UP),
            carrier: link.has(libc::IFF_LOWER_UP),
            name: link.name,
        });
    }
    for o in owned.iter().filter(|o| o.duplicate) {
        if let Some(name) = seen.get(&o.index) {
            notes.push(format!(
                "{} on {name}: another host has it, too (DAD failed); it is not used",
                o.address.ip
            ));
        }
    }
    nics
}

/// Asks for the speeds of the interfaces that may carry traffic.
///
/// Interfaces without addresses are not paired, and those that are down have no speed.
fn speeds<K: Kernel>(kernel: &K, nics: &mut [Nic], notes: &mut Vec<String>) {
    let begun = kernel.elapsed();
    let asked =
        nics.iter_mut().filter(|nic| nic.up && nic.kind != Kind::Loopback && !nic.addresses.is_empty());
    let mut failed = 0;
    let mut why = None;
    let mut late: usize = 0;
    for nic in asked {
        if kernel.elapsed().saturating_sub(begun) > SPEEDS_WITHIN {
            late += 1;
            continue;
        }
        match kernel.speed(&nic.name) {
            Ok(speed) => nic.speed = speed.filter(|s| *s > 0),
            Err(e) => {
                failed += 1;
                why.get_or_insert_with(|| format!("{}: {e}", nic.name));
            }
        }
    }
    if let Some(why) = why {
        notes.push(format!(
            "ethtool: speeds of {failed} interfaces could not be asked for ({why}); they are unknown"
        ));
    }
    if late > 0 {
        notes.push(format!(
            "ethtool: drivers answered slowly; speeds of {late} interfaces were not asked for and are unknown"
        ));
    }
}

#[cfg(test)]
#[path = "survey_tests.rs"]
mod tests;
