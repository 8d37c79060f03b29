//! Addresses of endpoints: the IP address within, and display.

use core::fmt::Write;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libfabric_sys::consts::{FI_ADDR_STR, FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6};

/// Returns the IP address in an endpoint address of this format, if it is an IP format.
pub fn ip(format: u32, address: &[u8]) -> Option<IpAddr> {
    if ![FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6].contains(&format) {
        return None;
    }
    let family = u16::from_ne_bytes(*address.first_chunk()?);
    let part = |from: usize, len: usize| address.get(from..from + len);
    match i32::from(family) {
        libc::AF_INET if format != FI_SOCKADDR_IN6 => {
            Some(Ipv4Addr::from(<[u8; 4]>::try_from(part(4, 4)?).ok()?).into())
        }
        libc::AF_INET6 if format != FI_SOCKADDR_IN => {
            let v6 = Ipv6Addr::from(<[u8; 16]>::try_from(part(8, 16)?).ok()?);
            Some(v6.to_canonical())
        }
        _ => None,
    }
}

/// Formats an address for display.
pub fn show(format: u32, address: &[u8]) -> String {
    if let Some(ip) = ip(format, address) {
        return ip.to_string();
    }
    if format == FI_ADDR_STR {
        let text = address.split(|b| *b == 0).next().unwrap_or_default();
        return String::from_utf8_lossy(text).escape_debug().to_string();
    }
    let mut out = String::with_capacity(2 * address.len());
    for b in address {
        let _ = write!(out, "{b:02x}");
    }
    out
}

/// Returns the display name of an address format.
pub fn format_name(format: u32) -> String {
    match format {
        0 => "no form".into(),
        FI_SOCKADDR => "sockaddr".into(),
        FI_SOCKADDR_IN => "IPv4".into(),
        FI_SOCKADDR_IN6 => "IPv6".into(),
        4 => "InfiniBand".into(),
        5 => "PSM".into(),
        6 => "GNI".into(),
        7 => "BGQ".into(),
        8 => "MLX".into(),
        FI_ADDR_STR => "string".into(),
        10 => "PSM2".into(),
        11 => "IB UD".into(),
        12 => "EFA".into(),
        13 => "PSM3".into(),
        14 => "OPX".into(),
        15 => "CXI".into(),
        16 => "UCX".into(),
        other => format!("form {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(a: [u8; 4]) -> Vec<u8> {
        let mut out = (libc::AF_INET as u16).to_ne_bytes().to_vec();
        out.extend([0x12, 0x34]);
        out.extend(a);
        out.extend([0; 8]);
        out
    }

    #[test]
    fn addresses_of_ip_are_found_in_socket_addresses_only() {
        let four = v4([192, 0, 2, 7]);
        let expected: IpAddr = [192, 0, 2, 7].into();
        assert_eq!(ip(FI_SOCKADDR_IN, &four), Some(expected));
        assert_eq!(ip(FI_SOCKADDR, &four), Some(expected));
        assert_eq!(ip(FI_SOCKADDR_IN6, &four), None);
        assert_eq!(ip(FI_ADDR_STR, &four), None);
        let mut six = (libc::AF_INET6 as u16).to_ne_bytes().to_vec();
        six.extend([0; 6]);
        six.extend("2001:db8::1".parse::<Ipv6Addr>().expect("an address").octets());
        six.extend([0; 4]);
        assert_eq!(ip(FI_SOCKADDR_IN6, &six), "2001:db8::1".parse().ok());
        for cut in 0..8 {
            assert_eq!(ip(FI_SOCKADDR_IN, &four[..cut]), None, "{cut}");
        }
        for cut in 0..24 {
            assert_eq!(ip(FI_SOCKADDR_IN6, &six[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn addresses_are_shown_as_what_they_are() {
        assert_eq!(show(FI_SOCKADDR_IN, &v4([10, 0, 0, 1])), "10.0.0.1");
        assert_eq!(show(FI_ADDR_STR, b"fi_shm://17:0:0\0\0"), "fi_shm://17:0:0");
        assert_eq!(show(12, &[0xfe, 0x80, 7]), "fe8007");
    }
}
