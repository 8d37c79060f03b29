//! A record answers what the tables would answer.

use super::*;
use crate::record::{Cut, Nic};
use crate::table::{Hop, Route, Table};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn net(text: &str) -> (IpAddr, u8) {
    let (addr, prefix) = text.split_once('/').unwrap();
    (ip(addr), prefix.parse().unwrap())
}

fn host() -> Host {
    let nic = |name: &str, index, addresses: &[&str]| Nic {
        name: name.into(),
        index,
        addresses: addresses.iter().map(|a| net(a)).map(|(ip, prefix)| Address { ip, prefix }).collect(),
        up: true,
        carrier: true,
        ..Nic::default()
    };
    let nics = vec![
        nic("e0", 1, &["10.1.0.1/24", "10.1.4.1/24", "fd00::1/64"]),
        nic("e1", 2, &["10.2.0.1/24", "fe80::1/64"]),
    ];
    Host { nics, ..Host::default() }
}

fn route(index: u32, to: &str, hop: Hop, from: Option<&str>) -> Route {
    let (net, prefix) = net(to);
    Route { index, net, prefix, hop, from: from.map(ip) }
}

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[test]
fn a_record_answers_as_the_tables_do() {
    let mut state = 1;
    let mut told = 0;
    for _ in 0..300 {
        let mut table = Table::connected(&host());
        for _ in 0..random(&mut state) % 7 {
            let hop = [Hop::OnLink, Hop::Gateway, Hop::Refuse][random(&mut state) as usize % 3];
            let to =
                ["10.1.0.0/16", "10.2.0.128/25", "0.0.0.0/0", "10.1.0.64/26", "10.0.0.0/8", "10.9.0.7/32"];
            let to = to[random(&mut state) as usize % to.len()];
            let from = [None, Some("10.1.4.1"), Some("10.2.0.1")][random(&mut state) as usize % 3];
            table.add(route(1 + random(&mut state) as u32 % 2, to, hop, from));
        }
        let mut said = host();
        said.ask(&mut table);
        let said = crate::Canonical::new(&said).host;
        for _ in 0..200 {
            let places = [0x0A01_0000u32, 0x0A02_0000, 0x0A09_0000, 0xC000_0200];
            let to = places[random(&mut state) as usize % 4] + random(&mut state) as u32 % 1024;
            for (index, from) in [(1, "10.1.0.1"), (1, "10.1.4.1"), (2, "10.2.0.1")] {
                let query = Query { index, from: ip(from), to: IpAddr::from(to.to_be_bytes()) };
                let own = said.nics.iter().any(|n| n.addresses.iter().any(|a| a.ip == query.to));
                if !own {
                    assert_eq!(said.answer(&query), table.lookup(&query), "{query:?} {table:?}");
                    told += usize::from(table.lookup(&query) != Answer::None);
                }
            }
        }
    }
    assert!(told > 10_000, "{told}");
}

#[test]
fn what_is_asked_is_an_address_that_no_longer_prefix_covers() {
    let own = HashSet::from([ip("10.0.0.129"), ip("10.0.0.2")]);
    let ask = |of: &str, parts: &[&str]| {
        let all: Vec<_> = parts.iter().map(|p| net(p)).collect();
        probe(net(of), &all, &own)
    };
    assert_eq!(ask("10.0.0.0/24", &[]), Some(ip("10.0.0.130")), "not the own address");
    assert_eq!(ask("10.0.0.0/24", &["10.0.0.128/25"]), Some(ip("10.0.0.1")));
    assert_eq!(ask("10.0.0.0/24", &["10.0.0.128/25", "10.0.0.0/25"]), None);
    assert_eq!(ask("10.0.0.0/24", &["10.0.0.128/25", "10.0.0.0/26"]), Some(ip("10.0.0.127")));
    assert_eq!(ask("10.5.0.0/30", &[]), Some(ip("10.5.0.2")), "neither the first nor the last");
    assert_eq!(ask("10.5.0.0/31", &[]), Some(ip("10.5.0.1")));
    assert_eq!(ask("10.5.0.9/32", &[]), Some(ip("10.5.0.9")));
    assert_eq!(ask("10.0.0.2/32", &[]), None);
    assert_eq!(ask("0.0.0.0/0", &[]), Some(ip("128.0.0.1")));
    assert_eq!(ask("::/0", &[]), Some(ip("8000::1")));
    assert_eq!(ask("224.0.0.0/4", &[]), None, "nobody is there");
    assert_eq!(ask("fd00::/64", &["fd00::8000:0:0:0/65"]), Some(ip("fd00::1")));
}

#[test]
fn what_was_cut_off_is_unknown_and_the_rest_is_not() {
    let mut said = host();
    let mut table = Table::connected(&host());
    for i in 0..200 {
        let net = IpAddr::from([10, 9, i, 0]);
        table.add(Route { index: 1, net, prefix: 24, hop: Hop::Gateway, from: None });
    }
    said.ask(&mut table);
    let said = crate::Canonical::new(&said).host;
    let of = |from| said.reach.iter().flatten().filter(|r| r.from == ip(from)).count();
    assert_eq!((of("10.1.0.1"), of("10.2.0.1")), (MAX_REACH, 1));
    assert_eq!(said.cut, Cut { routes: 2 * (200 + 2 - MAX_REACH as u16), ..Cut::default() });
    let ask = |to| said.answer(&Query { index: 1, from: ip("10.1.0.1"), to: ip(to) });
    assert_eq!(ask("10.9.0.9"), Answer::Gateway);
    assert_eq!(ask("10.9.199.9"), Answer::Unknown);
    assert_eq!(host().answer(&Query { index: 1, from: ip("10.1.0.1"), to: ip("10.1.0.2") }), Answer::Unknown);
}
