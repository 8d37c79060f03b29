//! What the kernel says of one interface, and of one address (`RTM_NEWLINK`, `RTM_NEWADDR`).

use std::net::IpAddr;

use netmod_matching::Address;

use crate::wire::{address, attributes, number, text};

/// An interface, as the kernel describes it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Link {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// `IFF_*` of `<linux/if.h>`.
    pub flags: u32,
    /// `ARPHRD_*` of `<linux/if_arp.h>`.
    pub hardware: u16,
    /// Bytes; 0 if it is not known.
    pub mtu: u32,
    /// What kind of software it is (`IFLA_INFO_KIND`), none for devices.
    pub kind: Option<String>,
    /// The bridge, bond or other to which it belongs.
    pub master: Option<u32>,
    /// The interface below it, or the other end of a veth.
    pub lower: Option<u32>,
    /// Whether `lower` is in another network namespace.
    pub lower_is_elsewhere: bool,
}

/// The size of `struct ifinfomsg`.
pub(crate) const LINK_FIXED: usize = 16;

/// The size of `struct ifaddrmsg`.
pub(crate) const ADDRESS_FIXED: usize = 8;

impl Link {
    /// Reads what follows the header of an `RTM_NEWLINK`; none if it lacks what every one has.
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

    /// Whether a flag of `<linux/if.h>` is set.
    pub(crate) fn has(&self, flag: i32) -> bool {
        self.flags & flag as u32 != 0
    }
}

/// An address and its interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owned {
    pub(crate) index: u32,
    pub(crate) address: Address,
    /// Somebody else has it, too (`IFA_F_DADFAILED`): the kernel does not use it.
    pub(crate) duplicate: bool,
}

impl Owned {
    /// Reads what follows the header of an `RTM_NEWADDR`; none if it is not of IPv4 or IPv6, or lacks what every one has.
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
        // Where there is a peer, IFA_ADDRESS is the peer's, and the prefix belongs to it.
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

/// Whether two addresses agree in so many leading bits.
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
