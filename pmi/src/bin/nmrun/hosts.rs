//! Names of hosts: ranks run on this machine only.

use std::net::{ToSocketAddrs as _, UdpSocket};

/// Returns the names in a list as of `-hosts`, without numbers of slots.
pub(crate) fn listed(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(without_slots).filter(|name| !name.is_empty())
}

/// Returns the names in a file of hosts: the first word of each line.
pub(crate) fn in_file(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    lines.filter_map(|line| line.split_whitespace().next()).map(without_slots)
}

/// Returns a name without `:SLOTS`. The colons of an address are no such end.
fn without_slots(name: &str) -> &str {
    let name = name.trim();
    match name.rsplit_once(':') {
        Some((host, slots)) if !host.contains(':') && slots.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => name,
    }
}

/// Returns true if a name or address is this machine's.
pub(crate) fn is_here(name: &str) -> bool {
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let own = own.trim();
    let short = own.split('.').next().unwrap_or_default();
    if ["localhost", own, short].contains(&name) {
        return true;
    }
    // Only an address of this machine can be bound. A name that cannot be resolved is no host.
    let addresses = (name, 0).to_socket_addrs();
    addresses.is_ok_and(|mut all| all.any(|address| UdpSocket::bind(address).is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_slots_and_comments() {
        assert_eq!(listed("a:4, b,,::1,c:").collect::<Vec<_>>(), ["a", "b", "::1", "c"]);
        let file = "# all\n a:2 ifname=x\n\nb slots=3 # the second\n";
        assert_eq!(in_file(file).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn this_machine_has_several_names() {
        let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        for here in ["localhost", "127.0.0.1", "127.0.0.7", own.trim()] {
            assert!(is_here(here), "{here}");
        }
        // An address for documentation (RFC 5737), which nobody has.
        for away in ["192.0.2.1", "no such host"] {
            assert!(!is_here(away), "{away}");
        }
    }
}
