//! The endpoints at which a process answers liveness probes, as bytes in its card.
//!
//! One byte 1, the port as two bytes, little-endian, then addresses: a byte 4 and 4 bytes, or a
//! byte 6 and 16.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const LAYOUT: u8 = 1;
/// Most addresses in a card.
const MOST: usize = 16;

/// Returns true if the address is valid beyond its host and link.
fn is_public(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => {
            !v4.is_loopback() && !v4.is_unspecified() && !v4.is_link_local() && !v4.is_multicast()
        }
        IpAddr::V6(v6) => {
            !v6.is_loopback() && !v6.is_unspecified() && !v6.is_unicast_link_local() && !v6.is_multicast()
        }
    }
}

/// The addresses for which there is no room: a peer asks at all of them at once, which takes a
/// descriptor each.
pub(super) fn left_out(own: &[IpAddr]) -> impl Iterator<Item = &IpAddr> {
    own.iter().filter(|ip| is_public(ip)).skip(MOST)
}

pub(super) fn emit(port: u16, own: &[IpAddr]) -> Vec<u8> {
    let mut b = vec![LAYOUT];
    b.extend_from_slice(&port.to_le_bytes());
    for ip in own.iter().filter(|ip| is_public(ip)).take(MOST) {
        match ip {
            IpAddr::V4(v4) => {
                b.push(4);
                b.extend_from_slice(&v4.octets());
            }
            IpAddr::V6(v6) => {
                b.push(6);
                b.extend_from_slice(&v6.octets());
            }
        }
    }
    b
}

/// Port and addresses; `None` if this release does not understand them.
pub(super) fn parse(bytes: &[u8]) -> Option<(u16, Vec<IpAddr>)> {
    let ([LAYOUT, low, high], mut rest) = bytes.split_first_chunk::<3>()? else { return None };
    let mut ips = vec![];
    while let Some((family, behind)) = rest.split_first() {
        let (ip, behind) = match family {
            4 => behind.split_first_chunk::<4>().map(|(b, r)| (IpAddr::from(Ipv4Addr::from(*b)), r))?,
            6 => behind.split_first_chunk::<16>().map(|(b, r)| (IpAddr::from(Ipv6Addr::from(*b)), r))?,
            _ => return None,
        };
        rest = behind;
        if is_public(&ip) && ips.len() < MOST {
            ips.push(ip);
        }
    }
    let port = u16::from_le_bytes([*low, *high]);
    (port != 0).then_some((port, ips))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes_and_what_others_cannot_use_is_left_out() {
        let own: Vec<IpAddr> =
            ["127.0.0.1", "10.1.2.3", "fe80::1", "::1", "fd00::2", "169.254.1.1", "0.0.0.0"]
                .map(|a| a.parse().unwrap())
                .into();
        let bytes = emit(0x0201, &own);
        let mut want = vec![1, 1, 2, 4, 10, 1, 2, 3, 6, 0xfd];
        want.extend([0; 14]);
        want.push(2);
        assert_eq!(bytes, want);
        assert_eq!(parse(&bytes), Some((0x0201, vec![own[1], own[4]])));
        for cut in 0..bytes.len() {
            assert_eq!(parse(&bytes[..cut]).is_some(), [3, 8].contains(&cut), "{cut}");
        }
        for (at, value) in [(0, 2), (3, 5)] {
            let mut bad = bytes.clone();
            bad[at] = value;
            assert_eq!(parse(&bad), None);
        }
        assert_eq!(parse(&[1, 0, 0]), None);
        assert_eq!(left_out(&own).count(), 0);
        let more: Vec<IpAddr> = (0..20).map(|n| IpAddr::from([10, 0, 0, n])).collect();
        assert!(left_out(&more).eq(&more[16..]), "what is not in the card is known");
        let many = vec![own[1]; 99];
        assert_eq!(parse(&emit(7, &many)).unwrap().1.len(), 16);
    }
}
