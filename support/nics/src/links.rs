//! The kernel's description of one interface and of one address (`RTM_NEWLINK`, `RTM_NEWADDR`).

use std::net::IpAddr;

use netmod_matching::Address;

use crate::wire::{address, attributes, number, text};

/// An interface, as the kernel describes it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Link {
    /// Number of the interface.
    pub index: u32,
    /// Name of the interface.
    pub name: String,
    /// Flags `IFF_*` of `<linux/if.h>`.
    pub flags: u32,
    /// Hardware type `ARPHRD_*` of `<linux/if_arp.h>`.
    pub hardware: u16,
    /// MTU in bytes; 0 if unknown.
    pub mtu: u32,
    /// Software kind (`IFLA_INFO_KIND`); `None` for devices.
    pub kind: Option<String>,
    /// Number of the bridge, bond or other master.
    pub master: Option<u32>,
    /// Number of the interface below it, or of the other end of a veth.
    pub lower: Option<u32>,
    /// True if `lower` is in another network namespace.
    pub lower_is_elsewhere: bool,
}

/// Size of `struct ifinfomsg` in bytes.
pub(crate) const LINK_FIXED: usize = 16;

/// Size of `struct ifaddrmsg` in bytes.
pub(crate) const ADDRESS_FIXED: usize = 8;

impl Link {
    /// Parses the payload of an `RTM_NEWLINK`; `None` if a mandatory part is missing.
    pub(crate) fn parse(payload: &[u8]) -> Option<Link> {
        let (fixed, rest) = payload.split_first_chunk::<LINK_FIXED>()?;
        let mut link = Link {
            hardware: u16::from_ne_bytes([fixed[2], fixed[3]]),
            index: number(&fixed[4..8])?,
            flags: number(&fixed[8..12])?,
            ..Link::default()
        };
        for (kind, value) in attributes(rest) {
            match kind {
                libc::IFLA_IFNAME => link.name = text(value),
                libc::IFLA_MTU => link.mtu = number(value)?,
                libc::IFLA_MASTER => link.master = Some(number(value)?).filter(|m| *m != 0),
                libc::IFLA_LINK => link.lower = Some(number(value)?).filter(|l| *l != 0 && *l != link.index),
                libc::IFLA_LINK_NETNSID => link.lower_is_elsewhere = true,
                libc::IFLA_LINKINFO => {
                    link.kind =
                        attributes(value).find(|(k, _)| *k == libc::IFLA_INFO_KIND).map(|(_, v)| text(v));
                }
                _ => {}
            }
        }
        (link.index != 0 && !link.name.is_empty()).then_some(link)
    }

    /// Returns true if a flag of `<linux/if.h>` is set.
    pub(crate) fn has(&self, flag: i32) -> bool {
        self.flags & flag as u32 != 0
    }
}

/// An address and its interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owned {
    pub(crate) index: u32,
    pub(crate) address: Address,
    /// True if another host has it, too (`IFA_F_DADFAILED`): the kernel does not use it.
    pub(crate) duplicate: bool,
}

impl Owned {
    /// Parses the payload of an `RTM_NEWADDR`; `None` if it is neither IPv4 nor IPv6, or a
    /// mandatory part is missing.
    pub(crate) fn parse(payload: &[u8]) -> Option<Owned> {
        let (fixed, rest) = payload.split_first_chunk::<ADDRESS_FIXED>()?;
        let mut flags = u32::from(fixed[2]);
        let (mut local, mut far) = (None, None);
        for (kind, value) in attributes(rest) {
            match kind {
                libc::IFA_LOCAL => local = Some(address(value)?),
                libc::IFA_ADDRESS => far = Some(address(value)?),
                libc::IFA_FLAGS => flags = number(value)?,
                _ => {}
            }
        }
        // With a peer, IFA_ADDRESS and the prefix are the peer's.
        let ip = local.or(far)?;
        let width = if ip.is_ipv4() { 32 } else { 128 };
        let family = i32::from(fixed[0]);
        if fixed[1] > width || family != if ip.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } {
            return None;
        }
        let prefix = if far.is_none_or(|far| shares(ip, far, fixed[1])) { fixed[1] } else { width };
        let duplicate = flags & libc::IFA_F_DADFAILED != 0;
        Some(Owned { index: number(&fixed[4..8])?, address: Address { ip, prefix }, duplicate })
    }
}

/// Returns true if two addresses agree in their first `bits` bits.
fn shares(a: IpAddr, b: IpAddr, bits: u8) -> bool {
    let differing = match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => return false,
    };
    differing >= u32::from(bits)
}

#[cfg(test)]
#[path = "links_tests.rs"]
mod tests;
