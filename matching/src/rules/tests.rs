//! The choice of interfaces: its syntax, what passes, and what is reported about the rest.

use super::*;
use crate::MAX_ADDRESSES;
use crate::record::Kind;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn filter(text: &str) -> Filter {
    text.parse().unwrap()
}

#[test]
fn patterns() {
    for (pattern, name, want) in [
        ("eth*", "eth0", true),
        ("eth*", "eth", true),
        ("eth*", "xeth0", false),
        ("*", "", true),
        ("*0", "eth00", true),
        ("*0", "eth01", false),
        ("e*h*0", "eth10", true),
        ("e?h0", "eth0", true),
        ("e?h0", "eh0", false),
        ("eth", "eth0", false),
        ("", "", true),
        ("", "e", false),
        ("a*b*c", "aXbXbYc", true),
        ("a*b*c", "aXbXbY", false),
        ("??*", "e", false),
    ] {
        assert_eq!(glob(pattern.as_bytes(), name.as_bytes()), want, "{pattern} {name}");
    }
    // Takes exponential time if each `*` is tried with each length.
    assert!(!glob("a*".repeat(200).as_bytes(), &[b'a'; 150]));
}

#[test]
fn names_and_subnets_pass_or_not() {
    let f = filter("eth*, !eth9, 10.0.0.0/8, !10.9.0.0/16, fd00::/8");
    for (name, addr, want) in [
        ("eth0", Some("192.168.0.1"), true),
        ("eth9", Some("10.0.0.1"), false),
        ("ib0", Some("10.0.0.1"), true),
        ("ib0", Some("11.0.0.1"), false),
        ("ib0", Some("fd00::1"), true),
        ("eth0", Some("10.9.0.1"), false),
        ("eth0", None, true),
        ("ib0", None, false),
    ] {
        assert_eq!(f.passes(name, addr.map(ip)), want, "{name} {addr:?}");
    }
    assert!(filter("").passes("x", None) && filter("!docker0").passes("x", Some(ip("1.2.3.4"))));
    assert!(!filter("10.0.0.1").passes("x", Some(ip("10.0.0.2"))));
    assert!(filter("10.0.0.1").passes("x", Some(ip("10.0.0.1"))));
}

#[test]
fn what_cannot_be_meant_is_refused_with_its_part_and_a_way_out() {
    for (bad, part) in [
        ("eth0,,eth1", "``"),
        ("eth0,!", "`!`"),
        ("10.0.0.0/33", "`10.0.0.0/33`"),
        ("10.0.0.0/x", "`10.0.0.0/x`"),
        ("10.0.0/8", "`10.0.0/8`"),
        ("fd00::/129", "`fd00::/129`"),
        ("eth0,a b", "`a b`"),
        ("a\x1bb", "`a\\u{1b}b`"),
        ("!!eth0", "`!!eth0`"),
        ("interface-with-a-long-name", "`interface-with-a-long-name`"),
        ("/24", "`/24`"),
    ] {
        let error = bad.parse::<Filter>().unwrap_err().to_string();
        assert!(error.contains(part) && error.contains("such as eth*"), "{bad}: {error}");
        assert!(!error.contains('\x1b'), "{error}");
    }
}

#[test]
fn what_is_not_published_is_told() {
    let nic = |name: &str, addresses: &[&str]| Nic {
        name: name.into(),
        kind: Kind::Physical,
        addresses: addresses.iter().map(|a| Address { ip: ip(a), prefix: 8 }).collect(),
        up: true,
        carrier: true,
        ..Nic::default()
    };
    let many: Vec<String> = (1..=100).map(|i| format!("10.0.0.{i}")).collect();
    let many: Vec<&str> =
        many.iter().map(String::as_str).chain(["fd00::1", "fe80::1", "127.0.0.1"]).collect();
    let host = Host {
        nics: vec![
            nic("eth1", &["10.0.0.1", "192.168.0.1"]),
            nic("docker0", &["172.17.0.1"]),
            nic("eth0", &many),
            nic("none", &[]),
            nic("a name that is no name", &["10.0.0.3"]),
        ],
        ..Host::default()
    };
    let rules = Rules { filter: filter("!docker*,!192.168.0.0/16"), ..Rules::default() };
    let Published { host: out, omitted } = rules.publish(&host);
    let names: Vec<&str> = out.nics.iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["eth0", "eth1", "none"]);
    assert_eq!(out.nics[1].addresses.len(), 1);
    // Some of each kind are kept.
    let kept: Vec<IpAddr> = out.nics[0].addresses.iter().map(|a| a.ip).collect();
    assert_eq!(kept.len(), MAX_ADDRESSES);
    assert_eq!(usize::from(out.cut.addresses), 102 - MAX_ADDRESSES);
    assert!(kept.contains(&ip("fd00::1")) && kept.contains(&ip("fe80::1")) && kept.contains(&ip("10.0.0.6")));
    let count = |why| omitted.iter().filter(|o| o.why == why).count();
    assert_eq!(count(Omission::Excluded), 2);
    assert_eq!(count(Omission::TooManyAddresses), 102 - MAX_ADDRESSES);
    assert_eq!(count(Omission::Name), 1);
    assert_eq!(omitted.len(), 2 + 102 - MAX_ADDRESSES + 1);
    // A published record is its own canonical form.
    assert_eq!(Canonical::new(&out).host, out);
}

#[test]
fn of_very_many_interfaces_those_in_use_and_fast_ones_are_published() {
    let nic = |i: u32| Nic {
        name: format!("e{i}"),
        index: i,
        kind: if i % 4 == 1 { Kind::Tunnel } else { Kind::Physical },
        addresses: vec![Address { ip: IpAddr::from([10, 0, (i / 256) as u8, i as u8]), prefix: 24 }],
        speed: Some(2000 + i),
        up: i % 4 != 2,
        carrier: true,
        mtu: 1500,
    };
    let host = Host { nics: (0..3000).map(nic).collect(), ..Host::default() };
    let Published { host: out, omitted } = Rules::default().publish(&host);
    let mut got: Vec<u32> = out.nics.iter().map(|n| n.index).collect();
    got.sort_unstable();
    assert!(got.len() > 1000, "{}", got.len());
    let want: Vec<u32> = (0..3000).filter(|i| matches!(i % 4, 0 | 3)).rev().take(got.len()).collect();
    assert_eq!(got, want.into_iter().rev().collect::<Vec<_>>());
    assert_eq!(omitted.len(), 3000 - got.len());
    assert_eq!(usize::from(out.cut.nics), omitted.len());
    // The peer's explanation reports it, too.
    let side = |host| crate::Side { name: b"x", host };
    let seen = crate::wire::parse(&crate::wire::encode(&out)).unwrap();
    let small = Host { nics: vec![nic(4)], ..Host::default() };
    let why = crate::pair(&side(&small), &side(&seen), &Rules::default()).explain();
    assert_eq!((why.cut.len(), why.cut[0].cut), (1, out.cut));
    let text = why.to_string();
    assert!(text.contains(&format!("{} interfaces had no room", omitted.len())), "{text}");
    assert!(text.contains("those that are down"), "{text}");
}
