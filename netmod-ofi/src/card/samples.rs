//! Sample cards for the tests.

use libfabric_sys::consts::{FI_SOCKADDR_IN, FI_SOCKADDR_IN6};
use netmod_matching::{Address, Host, Kind, Location, Nic};

use super::{CardDomain, OfiCard, PROTOCOL, ProcessLocation, record};

/// A linear congruential generator.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) as usize % n
    }
}

/// Makes a host with an interface for each address: `eth0` and so on.
pub(super) fn host(location: Location, addresses: &[&str]) -> Host {
    let nic = |(i, ip): (usize, &&str)| Nic {
        name: format!("eth{i}"),
        index: 7 + i as u32,
        kind: Kind::Physical,
        addresses: vec![Address { ip: ip.parse().expect("an IP address"), prefix: 24 }],
        speed: Some(10_000),
        mtu: 1500,
        up: true,
        carrier: true,
    };
    Host { location, nics: addresses.iter().enumerate().map(nic).collect(), ..Host::default() }
}

/// Makes a domain with a socket address.
pub(super) fn ip_domain(ip: &str, port: u16) -> CardDomain {
    let (format, family, bytes) = match ip.parse().expect("an IP address") {
        std::net::IpAddr::V4(v4) => (FI_SOCKADDR_IN, libc::AF_INET, [&v4.octets()[..], &[0; 8]].concat()),
        std::net::IpAddr::V6(v6) => {
            (FI_SOCKADDR_IN6, libc::AF_INET6, [&[0; 4][..], &v6.octets(), &[0; 4]].concat())
        }
    };
    let mut address = (family as u16).to_ne_bytes().to_vec();
    address.extend(port.to_be_bytes());
    address.extend(bytes);
    CardDomain {
        name: if ip.starts_with("127") { "lo".into() } else { "eth".into() },
        fabric: "a subnet".into(),
        rma: true,
        format,
        address: address.into(),
        contexts: 1,
        ..CardDomain::default()
    }
}

/// Makes the card of a process with these domains.
pub(super) fn card(host: &Host, provider: &str, domains: Vec<CardDomain>) -> OfiCard {
    OfiCard {
        protocol: PROTOCOL,
        library: 0x1_0011,
        provider: provider.into(),
        provider_version: 0x75_0000,
        endpoint: (12, 1),
        frame: 16384,
        window: 1024,
        location: ProcessLocation { network: host.location, memory: 5, processes: 6 },
        lifeline: [1, 2, 3].into(),
        record: record(host, &domains),
        domains,
    }
}

/// Makes the card of a process with domains at these IP addresses.
pub(super) fn ip_card(host: &Host, addresses: &[&str]) -> OfiCard {
    let domains = addresses.iter().enumerate().map(|(i, ip)| ip_domain(ip, 4000 + i as u16));
    card(host, "tcp", domains.collect())
}

/// Makes the card of a process with domains of another address format.
pub(super) fn other_card(location: Location, format: u32, names: &[&str]) -> OfiCard {
    let host = Host { location, nics: Vec::new(), ..Host::default() };
    let domain = |(i, name): (usize, &&str)| CardDomain {
        name: (*name).into(),
        fabric: "a fabric".into(),
        virt_addr: true,
        rma: true,
        local: *name == "shm",
        names_contexts: true,
        format,
        address: [i as u8, 1, 2].into(),
        contexts: 2,
        context: 1,
        speed: Some(100_000),
        mtu: Some(4096),
    };
    card(&host, "efa", names.iter().enumerate().map(domain).collect())
}
