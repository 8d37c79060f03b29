//! Interfaces without netlink: by ioctls, `/proc/net/if_inet6` and `/sys/class/net`.
//!
//! `getifaddrs(3)` is no alternative: the C libraries implement it by netlink.

use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

use netmod_matching::Address;

use crate::links::Link;

/// Interfaces and addresses found without netlink.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Plain {
    /// The interfaces.
    pub links: Vec<Link>,
    /// Their addresses.
    pub addresses: Vec<PlainAddress>,
}

/// An address found without netlink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlainAddress {
    /// Number of the interface.
    pub index: u32,
    /// The address.
    pub address: Address,
    /// True if another host has it, too: the kernel does not use it.
    pub duplicate: bool,
}

/// Parses the addresses and interface names of `/proc/net/if_inet6`; skips malformed lines.
pub(crate) fn if_inet6(text: &str) -> Vec<(PlainAddress, String)> {
    text.lines().filter_map(inet6_line).collect()
}

/// Parses a line: address, interface number, prefix, scope, flags (in hexadecimal), name.
fn inet6_line(line: &str) -> Option<(PlainAddress, String)> {
    let mut words = line.split_ascii_whitespace();
    let ip = words.next().filter(|w| w.len() == 32)?;
    let ip = IpAddr::V6(Ipv6Addr::from(u128::from_str_radix(ip, 16).ok()?));
    let mut hex = || u32::from_str_radix(words.next()?, 16).ok();
    let (index, prefix, _scope, flags) = (hex()?, hex()?, hex()?, hex()?);
    let prefix = u8::try_from(prefix).ok().filter(|p| *p <= 128)?;
    let duplicate = flags & libc::IFA_F_DADFAILED != 0;
    let name = words.next()?.to_owned();
    (index != 0).then_some((PlainAddress { index, address: Address { ip, prefix }, duplicate }, name))
}

/// Parses the interface names of `/proc/net/dev`: the text before a colon, after two heading lines.
pub(crate) fn names(text: &str) -> Vec<String> {
    let before = |line: &str| line.rsplit_once(':').map(|(name, _)| name.trim().to_owned());
    text.lines().skip(2).filter_map(before).filter(|name| !name.is_empty()).collect()
}

/// Returns the prefix length of a netmask; `None` if its bits have gaps.
pub(crate) fn prefix(mask: u32) -> Option<u8> {
    (mask.leading_ones() + mask.trailing_zeros() == 32 || mask == u32::MAX)
        .then_some(mask.leading_ones() as u8)
}

/// Adds what `/sys/class/net` (`class`) says of an interface.
///
/// It shows the namespace in which it was mounted, so an entry with another number is another
/// interface and is ignored.
pub(crate) fn add_sysfs(class: &Path, link: &mut Link) {
    // A name that is no file name has no entry there.
    if link.name.contains('/') || link.name == "." || link.name == ".." {
        return;
    }
    let dir = class.join(&link.name);
    let read = |dir: &Path, file: &str| std::fs::read_to_string(dir.join(file)).ok();
    let number = |dir: &Path, file: &str| read(dir, file)?.trim().parse::<u32>().ok();
    if number(&dir, "ifindex") != Some(link.index) {
        return;
    }
    link.hardware = number(&dir, "type").and_then(|t| u16::try_from(t).ok()).unwrap_or(link.hardware);
    link.lower = number(&dir, "iflink").filter(|l| *l != 0 && *l != link.index);
    link.master = number(&dir.join("master"), "ifindex");
    let uevent = read(&dir, "uevent").unwrap_or_default();
    let kind = uevent.lines().find_map(|line| line.strip_prefix("DEVTYPE="));
    let has = |file: &str| dir.join(file).exists();
    link.kind = if has("bridge") {
        Some("bridge".to_owned())
    } else if has("bonding") {
        Some("bond".to_owned())
    } else if has("tun_flags") {
        Some("tun".to_owned())
    } else if has("device") {
        // Wireless and other devices have a type, too.
        None
    } else if let Some(kind) = kind {
        Some(kind.to_owned())
    } else if link.lower.is_some() {
        // Only veths have another end and no type. The end may be in another namespace, where
        // numbers mean other interfaces.
        link.lower_is_elsewhere = true;
        Some("veth".to_owned())
    } else if link.hardware == libc::ARPHRD_ETHER && is_virtual(&dir) {
        Some("dummy".to_owned())
    } else {
        None
    };
}

/// Returns true if no bus leads to the device: it is software, as is the loopback interface.
fn is_virtual(dir: &Path) -> bool {
    let location = std::fs::canonicalize(dir);
    location.is_ok_and(|location| location.parent().is_some_and(|net| net.ends_with("devices/virtual/net")))
}

#[cfg(test)]
#[path = "plain_tests.rs"]
mod tests;
