//! Classification of interfaces, from the kernel's description of all of them.

use std::collections::{HashMap, HashSet};

use netmod_matching::Kind;

use crate::links::Link;

/// The kind of an interface, as far as it follows from the interface alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Own {
    Is(Kind),
    /// A bridge or switch, whose kind depends on its ports.
    Bridge,
    /// Part of another interface, or an address on top of it: leads nowhere if that one does not.
    Over(Kind),
}

/// Returns what an `IFLA_INFO_KIND` stands for; `None` if it is unknown here.
fn named(kind: &str) -> Option<Own> {
    Some(match kind {
        "vlan" | "macsec" | "hsr" => Own::Over(Kind::Vlan),
        "macvlan" | "macvtap" | "ipvlan" | "ipvtap" => Own::Over(Kind::Macvlan),
        "bond" | "team" => Own::Is(Kind::Bond),
        "veth" | "netkit" => Own::Is(Kind::Veth),
        "bridge" | SWITCH => Own::Bridge,
        // A VRF has addresses as a loopback interface has; no packet leaves by it.
        "dummy" | "ifb" | "nlmon" | VRF => Own::Is(Kind::Dummy),
        "tun" | "wireguard" | "ovpn" | "vxlan" | "geneve" | "bareudp" | "amt" | "gtp" | "gre" | "gretap"
        | "erspan" | "ip6gre" | "ip6gretap" | "ip6erspan" | "ipip" | "sit" | "ip6tnl" | "vti" | "vti6"
        | "xfrm" => Own::Is(Kind::Tunnel),
        "ppp" | "rmnet" => Own::Is(Kind::PointToPoint),
        // Physical devices that have a software kind: InfiniBand partitions, modems, failover
        // pairs, simulated ones.
        "ipoib" | "wwan" | "failover" | "netdevsim" | "virt_wifi" | "dsa" => Own::Is(Kind::Physical),
        _ => return None,
    })
}

/// The kind of Open vSwitch's own interfaces, one of which is the master of the others' ports.
const SWITCH: &str = "openvswitch";

/// The kind of interfaces that stand for a routing table.
const VRF: &str = "vrf";

/// `ARPHRD_IP6GRE` and `ARPHRD_RAWIP` of `<linux/if_arp.h>`.
const IP6GRE: u16 = 823;
const RAWIP: u16 = 519;

fn own(link: &Link, notes: &mut Vec<String>) -> Own {
    if link.has(libc::IFF_LOOPBACK) {
        return Own::Is(Kind::Loopback);
    }
    if let Some(kind) = &link.kind {
        return named(kind).unwrap_or_else(|| {
            let taken = if link.lower.is_some() { Own::Over(Kind::Macvlan) } else { Own::Is(Kind::Tunnel) };
            let name = if link.lower.is_some() { "a part of another interface" } else { "a tunnel" };
            notes.push(format!("{} is of the unknown kind \"{kind}\"; it is taken for {name}", link.name));
            taken
        });
    }
    Own::Is(match link.hardware {
        libc::ARPHRD_TUNNEL
        | libc::ARPHRD_TUNNEL6
        | libc::ARPHRD_SIT
        | libc::ARPHRD_IPGRE
        | IP6GRE
        | libc::ARPHRD_NONE => Kind::Tunnel,
        libc::ARPHRD_PPP | libc::ARPHRD_SLIP | RAWIP => Kind::PointToPoint,
        _ if link.has(libc::IFF_POINTOPOINT) => Kind::PointToPoint,
        _ => Kind::Physical,
    })
}

/// Returns the kinds of all interfaces of a namespace, in the order of `links`.
pub(crate) fn kinds(links: &[Link], notes: &mut Vec<String>) -> Vec<Kind> {
    let owns: Vec<Own> = links.iter().map(|link| own(link, notes)).collect();
    let at: HashMap<u32, usize> = links.iter().enumerate().map(|(i, link)| (link.index, i)).collect();
    let master = |i: usize| links[i].master.and_then(|m| at.get(&m).copied());
    let lower = |i: usize| {
        let link: &Link = &links[i];
        link.lower.filter(|_| !link.lower_is_elsewhere).and_then(|l| at.get(&l).copied())
    };
    // An interface with a master carries the master's traffic: bridge, bond, or the device for
    // which a faster one stands in (virtual functions under Hyper-V). A VRF is no such master, but
    // a routing table.
    let is_port = |i: usize| master(i).is_some_and(|m| links[m].kind.as_deref() != Some(VRF));
    let out = leading_out(links, &owns, master, lower);
    let resolved = |i: usize| match owns[i] {
        Own::Is(kind) => kind,
        Own::Bridge if out.contains(&i) => Kind::BridgeOut,
        Own::Bridge => Kind::BridgeIn,
        Own::Over(kind) => kind,
    };
    (0..links.len())
        .map(|i| {
            // A bridge is the host's own interface at that bridge, even if it has a master.
            if is_port(i) && owns[i] != Own::Bridge {
                return Kind::Port;
            }
            let Own::Over(kind) = owns[i] else { return resolved(i) };
            let mut base = i;
            // The kernel allows 8 levels; damaged data could be circular.
            for _ in 0..8 {
                match lower(base) {
                    Some(next) if matches!(owns[base], Own::Over(_)) => base = next,
                    _ => break,
                }
            }
            let base = resolved(base);
            if base.is_first_tier() { kind } else { base }
        })
        .collect()
}

/// Returns the interfaces by which packets leave the host: devices, and what is above or around
/// them.
///
/// Tunnels and veth ends in other namespaces are none.
fn leading_out(
    links: &[Link],
    owns: &[Own],
    master: impl Fn(usize) -> Option<usize>,
    lower: impl Fn(usize) -> Option<usize>,
) -> HashSet<usize> {
    // For each interface, those that lead out of the host if it does.
    let mut follow: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut out = HashSet::new();
    let mut todo = Vec::new();
    let mut switch = None;
    for (i, own) in owns.iter().enumerate() {
        if let Some(m) = master(i) {
            follow.entry(i).or_default().push(m);
        }
        // Open vSwitch does not tell which of its interfaces belong together.
        if links[i].kind.as_deref() == Some(SWITCH) {
            let first = *switch.get_or_insert(i);
            follow.entry(i).or_default().push(first);
            follow.entry(first).or_default().push(i);
        }
        match own {
            Own::Is(Kind::Physical) => todo.push(i),
            Own::Over(_) => match lower(i) {
                Some(l) => follow.entry(l).or_default().push(i),
                // A container's macvlan: the interface below is in the host's namespace.
                None if links[i].lower.is_none() || links[i].lower_is_elsewhere => todo.push(i),
                None => {}
            },
            // Two bridges of one namespace, joined by a veth.
            Own::Is(Kind::Veth) => {
                if let Some(bridge) = lower(i).and_then(&master).filter(|b| owns[*b] == Own::Bridge) {
                    follow.entry(bridge).or_default().push(i);
                }
            }
            _ => {}
        }
    }
    while let Some(i) = todo.pop() {
        if out.insert(i) {
            todo.extend(follow.get(&i).into_iter().flatten());
        }
    }
    out
}

#[cfg(test)]
#[path = "kinds_tests.rs"]
mod tests;
