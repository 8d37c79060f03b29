//! Records as bytes: the exact format, round trips, refusals, mutated input.

use super::*;
use proptest::prelude::*;

/// Number of mutated records: `NETMOD_TEST_MUTATIONS`, or a few.
fn mutations() -> u64 {
    std::env::var("NETMOD_TEST_MUTATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000)
}

fn address(text: &str, prefix: u8) -> Address {
    Address { ip: text.parse().unwrap(), prefix }
}

fn host() -> Host {
    Host {
        location: Location { boot: [0xB0; 16], netns: 0xF000_0001 },
        nics: vec![
            Nic {
                name: "ib0".into(),
                index: 0x0102,
                kind: Kind::Tunnel,
                addresses: vec![],
                speed: None,
                mtu: 65520,
                up: true,
                carrier: false,
            },
            Nic {
                name: "eth0".into(),
                index: 2,
                kind: Kind::Physical,
                addresses: vec![address("fe80::2", 64), address("10.1.0.1", 24)],
                speed: Some(25_000),
                mtu: 9000,
                up: true,
                carrier: true,
            },
        ],
        reach: Some(vec![
            reach("10.1.0.1", "10.1.0.0", 24, Answer::OnLink),
            reach("10.1.0.1", "0.0.0.0", 0, Answer::Default),
            reach("10.1.0.1", "10.1.0.0", 20, Answer::None),
        ]),
        cut: Cut { nics: 0x0102, addresses: 3, routes: 4 },
    }
}

fn reach(from: &str, net: &str, prefix: u8, answer: Answer) -> Reach {
    Reach { index: 2, from: from.parse().unwrap(), net: net.parse().unwrap(), prefix, answer }
}

#[test]
fn golden_bytes() {
    let mut want = vec![2];
    want.extend([0xB0; 16]);
    want.extend([1, 0, 0, 0xF0, 0, 0, 0, 0]);
    want.extend([1, 2, 1, 3, 0, 4, 0, 2, 0]);
    want.extend(b"\x04eth0\x00\x07\x02\0\0\0\xA8\x61\0\0\x28\x23\0\0\x02\x04\x18\x0A\x01\0\x01");
    want.extend(b"\x03\x00\x02\x14\x00\x0A\x01\x00\x18\x04\x0A\x01\x00\x06\x40\xFE\x80");
    want.extend([0; 13]);
    want.extend([2, 0]);
    want.extend(b"\x03ib0\x08\x01\x02\x01\0\0\0\0\0\0\xF0\xFF\0\0\0");
    assert_eq!(encode(&host()), want);
    assert_eq!(parse(&want).unwrap(), Canonical::new(&host()).host);
}

#[test]
fn every_kind_survives() {
    for (at, kind) in KINDS.into_iter().enumerate() {
        assert_eq!(usize::from(code(kind)), at);
    }
}

#[test]
fn what_nobody_would_write_is_refused() {
    let good = encode(&host());
    for end in 0..good.len() {
        let error = parse(&good[..end]).unwrap_err();
        assert_eq!(error, WireError::Truncated, "{end}");
    }
    assert_eq!(parse(&[&good[..], &[0, 0]].concat()), Err(WireError::Trailing(2)));
    let set = |at: usize, value: u8| {
        let mut bad = good.clone();
        bad[at] = value;
        parse(&bad)
    };
    assert_eq!(set(0, 1), Err(WireError::Version(1)));
    assert_eq!(set(25, 2), Err(WireError::Value("set of flags", 2)));
    // Answers of tables that were not asked.
    assert_eq!(set(25, 0), Err(WireError::NotCanonical));
    assert_eq!(parse(&vec![2; MAX_LEN + 1]), Err(WireError::TooLong(MAX_LEN + 1)));
    assert_eq!(set(32, 3), Err(WireError::Truncated));
    assert_eq!(set(35, 0xFF), Err(WireError::Name));
    assert_eq!(set(35, 0x1B), Err(WireError::NotCanonical));
    assert_eq!(set(39, 12), Err(WireError::Value("kind", 12)));
    assert_eq!(set(40, 8), Err(WireError::Value("set of flags", 8)));
    assert_eq!(set(53, 65), Err(WireError::Value("number of addresses", 65)));
    assert_eq!(set(54, 5), Err(WireError::Value("family", 5)));
    // An impossible prefix, and an address that no host can reach.
    assert_eq!(set(55, 255), Err(WireError::NotCanonical));
    assert_eq!(set(56, 127), Err(WireError::NotCanonical));
    assert_eq!(set(60, 65), Err(WireError::Value("number of destinations", 65)));
    assert_eq!(set(61, 33), Err(WireError::Value("length of a network part", 33)));
    assert_eq!(set(62, 5), Err(WireError::Value("answer", 5)));
    // Bits behind the prefix of 20, another order, and the same destination twice.
    assert_eq!(set(67, 8), Err(WireError::NotCanonical));
    assert_eq!(set(61, 30), Err(WireError::Value("answer", 24)));
    assert_eq!(set(63, 24), Err(WireError::NotCanonical));
    // Another order of the interfaces.
    assert_eq!(set(35, b'z'), Err(WireError::NotCanonical));
    // A speed, with the flag that says there is none.
    assert_eq!(set(40, 3), Err(WireError::NotCanonical));
    for text in [WireError::Truncated, WireError::Version(9), WireError::TooLong(99), WireError::NotCanonical]
    {
        assert!(text.to_string().starts_with("interfaces that the peer published: "));
    }
}

/// A host of `nics` interfaces with `addresses` each, and `routes` networks reached from each
/// address.
fn large(nics: u32, addresses: u32, routes: u32) -> Host {
    let from = |i: u32, a: u32| format!("fd00::{i:x}:{a:x}").parse::<IpAddr>().unwrap();
    let nic = |i: u32| Nic {
        name: format!("interface-{i:05}"),
        index: i,
        addresses: (1..=addresses).map(|a| Address { ip: from(i, a), prefix: 64 }).collect(),
        up: true,
        carrier: true,
        ..Nic::default()
    };
    let mut said = Vec::new();
    for i in 0..nics {
        for a in 1..=addresses {
            said.extend((0..routes).map(|r| Reach {
                index: i,
                from: from(i, a),
                net: format!("fd00:{r:x}::").parse().unwrap(),
                prefix: 32,
                answer: Answer::Gateway,
            }));
        }
    }
    Host { nics: (0..nics).map(nic).collect(), reach: Some(said), ..Host::default() }
}

#[test]
fn the_largest_record_is_no_larger_than_said_and_says_what_is_missing() {
    for (nics, addresses, routes) in [(3000, 1, 1), (40, 100, 0), (10, 2, 400), (300, 2, 50), (2000, 0, 0)] {
        let host = large(nics, addresses, routes);
        let bytes = encode(&host);
        assert!(bytes.len() <= MAX_LEN && bytes.len() > MAX_LEN / 8, "{}", bytes.len());
        let read = parse(&bytes).unwrap();
        assert_eq!(encode(&read), bytes);
        let kept: usize = read.nics.iter().map(|n| n.addresses.len()).sum();
        assert_eq!(read.nics.len() + usize::from(read.cut.nics), nics as usize);
        if read.cut.nics == 0 {
            assert_eq!(kept + usize::from(read.cut.addresses), (nics * addresses) as usize);
            let routes = kept * routes as usize;
            assert_eq!(read.reach.as_ref().unwrap().len() + usize::from(read.cut.routes), routes);
        }
    }
}

#[test]
fn hundreds_of_interfaces_are_published_whole() {
    let read = parse(&encode(&large(300, 2, 1))).unwrap();
    assert_eq!((read.nics.len(), read.cut), (300, Cut::default()));
}

#[test]
fn mutated_bytes_are_refused_or_are_another_record() {
    let good = encode(&host());
    // SplitMix64: the same mutations each time.
    let mut state = 0u64;
    let mut random = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    let (mut read, mut refused) = (0u64, 0u64);
    for _ in 0..mutations() {
        let mut bytes = good.clone();
        for _ in 0..=random() % 3 {
            let at = (random() % bytes.len().max(1) as u64) as usize;
            match random() % 4 {
                0 => bytes.truncate(at),
                1 => bytes.insert(at.min(bytes.len()), random() as u8),
                _ => {
                    if let Some(b) = bytes.get_mut(at) {
                        *b = random() as u8;
                    }
                }
            }
        }
        match parse(&bytes) {
            Ok(host) => {
                assert_eq!(encode(&host), bytes, "read, and would be written otherwise");
                read += 1;
            }
            Err(e) => {
                assert!(!e.to_string().is_empty());
                refused += 1;
            }
        }
    }
    assert!(read > 0 && refused > 0);
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), version in any::<bool>()) {
        let mut bytes = bytes;
        if version && !bytes.is_empty() {
            bytes[0] = VERSION;
        }
        if let Ok(host) = parse(&bytes) {
            prop_assert_eq!(encode(&host), bytes);
        }
    }
}
