//! Classification of addresses: usable, private, link-local, in one subnet.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::record::Address;

/// Returns the number of bits of an address of this family.
pub fn width(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

/// Returns true if the address is link-local, and so has a meaning only together with an interface.
pub fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

/// Returns true if the address can belong to different hosts in different networks.
///
/// That is RFC 1918, RFC 6598 (100.64.0.0/10, shared by carriers and used by VPNs), RFC 4193
/// (fc00::/7) and RFC 3879 (fec0::/10).
pub fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_private() || in_subnet(ip, Ipv4Addr::new(100, 64, 0, 0).into(), 10),
        IpAddr::V6(v6) => {
            v6.is_unique_local() || in_subnet(ip, Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0).into(), 10)
        }
    }
}

/// Returns true if another host may be able to reach the address.
pub fn is_usable(address: &Address) -> bool {
    let ip = address.ip;
    let sensible = match ip {
        IpAddr::V4(v4) => !v4.is_broadcast() && v4.octets()[0] != 0,
        IpAddr::V6(v6) => v6.to_ipv4_mapped().is_none(),
    };
    sensible && !ip.is_unspecified() && !ip.is_loopback() && !ip.is_multicast() && address.prefix <= width(ip)
}

/// Returns the address as a number of 128 bits, its first bit on top.
fn bits(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// Returns the address with this number; the inverse of [`bits`].
fn address_of(bits: u128, v4: bool) -> IpAddr {
    if v4 { Ipv4Addr::from_bits((bits >> 96) as u32).into() } else { Ipv6Addr::from_bits(bits).into() }
}

/// Returns the network part of an address: its first `prefix` bits, then zeros.
pub fn masked(ip: IpAddr, prefix: u8) -> IpAddr {
    let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
    address_of(bits(ip) & mask, ip.is_ipv4())
}

/// Returns the host part of an address, behind its first `prefix` bits, as a number.
pub(crate) fn host_bits(ip: IpAddr, prefix: u8) -> u128 {
    let shift = 128 - u32::from(width(ip));
    let host = bits(ip).checked_shl(u32::from(prefix)).unwrap_or(0) >> u32::from(prefix).min(127);
    if prefix >= 128 { 0 } else { host >> shift }
}

/// Returns the address with this host part in the network `net`.
pub(crate) fn with_host_bits(net: IpAddr, host: u128) -> IpAddr {
    address_of(bits(net) | host << (128 - u32::from(width(net))), net.is_ipv4())
}

/// Returns true if `ip` begins with the first `prefix` bits of `net`.
///
/// False if the families differ or the prefix is too long.
pub fn in_subnet(ip: IpAddr, net: IpAddr, prefix: u8) -> bool {
    if ip.is_ipv4() != net.is_ipv4() || prefix > width(net) {
        return false;
    }
    (bits(ip) ^ bits(net)).leading_zeros() >= u32::from(prefix)
}

/// Returns true if each address is in the other's subnet.
pub fn same_subnet(a: &Address, b: &Address) -> bool {
    in_subnet(a.ip, b.ip, b.prefix) && in_subnet(b.ip, a.ip, a.prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn address(text: &str) -> Address {
        let (addr, prefix) = text.split_once('/').unwrap();
        Address { ip: ip(addr), prefix: prefix.parse().unwrap() }
    }

    #[test]
    fn subnets() {
        assert!(in_subnet(ip("10.1.2.3"), ip("10.0.0.0"), 8));
        assert!(!in_subnet(ip("11.1.2.3"), ip("10.0.0.0"), 8));
        assert!(in_subnet(ip("1.2.3.4"), ip("9.9.9.9"), 0));
        assert!(in_subnet(ip("fd00::1"), ip("fd00::2"), 126));
        assert!(!in_subnet(ip("fd00::1"), ip("fd00::2"), 127));
        assert!(!in_subnet(ip("::a00:1"), ip("10.0.0.1"), 0));
        assert!(!in_subnet(ip("10.0.0.1"), ip("10.0.0.1"), 33));
        assert!(in_subnet(ip("10.0.0.1"), ip("10.0.0.1"), 32));
        // The wider prefix alone does not decide.
        assert!(!same_subnet(&address("10.0.0.1/8"), &address("10.1.0.2/24")));
        assert!(same_subnet(&address("10.0.0.1/8"), &address("10.0.0.2/24")));
    }

    #[test]
    fn private_public_and_link_local_addresses() {
        for private in
            ["10.1.1.1", "172.31.0.1", "192.168.3.4", "100.64.0.5", "100.127.255.1", "fd12::1", "fec0::1"]
        {
            assert!(is_private(ip(private)), "{private}");
        }
        for public in ["172.32.0.1", "100.128.0.1", "203.0.113.9", "2001:db8::1", "fe80::1", "169.254.1.1"] {
            assert!(!is_private(ip(public)), "{public}");
        }
        assert!(
            is_link_local(ip("fe80::1"))
                && is_link_local(ip("169.254.1.1"))
                && !is_link_local(ip("10.0.0.1"))
        );
        for useless in [
            "0.0.0.0/0",
            "0.1.2.3/8",
            "127.0.0.1/8",
            "224.0.0.1/4",
            "255.255.255.255/32",
            "10.0.0.1/33",
            "::/0",
            "::1/128",
            "ff02::1/16",
            "::ffff:10.0.0.1/128",
            "fd00::1/129",
        ] {
            assert!(!is_usable(&address(useless)), "{useless}");
        }
        assert!(is_usable(&address("10.0.0.1/0")) && is_usable(&address("fe80::1/64")));
    }
}
