//! Arbitrary hosts: both sides compute the same pairs, in whatever order the records came.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;

use netmod_matching::{
    Address, Answer, Canonical, Class, Destination, Families, Filter, Host, Kind, Limits, Location, Nic,
    Query, Reason, Routes, Rules, Side, Transport, Verdict, Whose, pair, wire,
};
use proptest::prelude::*;

/// Routing tables with arbitrary but stable answers: each depends on the query and a seed.
struct Whim(u64);

impl Whim {
    fn answer(&self, q: &Query) -> Answer {
        let mut h = self.0;
        for b in format!("{q:?}").bytes() {
            h = (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
        }
        let all =
            [Answer::None, Answer::Unknown, Answer::Default, Answer::Gateway, Answer::OnLink, Answer::OnLink];
        all[(h >> 33) as usize % all.len()]
    }
}

impl Routes for Whim {
    fn ask(&mut self, queries: &[Query]) -> Vec<Answer> {
        queries.iter().map(|q| self.answer(q)).collect()
    }

    fn destinations(&mut self) -> Option<Vec<Destination>> {
        let v4 = [("10.0.0.0", 24), ("10.0.1.0", 24), ("10.0.0.0", 8), ("0.0.0.0", 0), ("203.0.113.2", 32)];
        let v6 = [("fd00::", 48), ("fd00:1::", 32), ("::", 0)];
        let of = |(net, prefix): (&str, u8)| Destination { by: None, net: net.parse().unwrap(), prefix };
        Some(v4.into_iter().chain(v6).map(of).collect())
    }
}

/// Few addresses, so that hosts have some in common, and some invalid ones.
fn address() -> impl Strategy<Value = Address> {
    let ip = prop_oneof![
        (0u8..3, 1u8..5).prop_map(|(net, host)| IpAddr::from(Ipv4Addr::new(10, 0, net, host))),
        (1u8..5).prop_map(|host| IpAddr::from(Ipv4Addr::new(203, 0, 113, host))),
        (0u16..3, 1u16..5)
            .prop_map(|(net, host)| IpAddr::from(Ipv6Addr::new(0xfd00, net, 0, 0, 0, 0, 0, host))),
        (1u16..5).prop_map(|host| IpAddr::from(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, host))),
        any::<u32>().prop_map(|n| IpAddr::from(Ipv4Addr::from(n))),
    ];
    let prefix = prop_oneof![Just(24), Just(64), Just(32), any::<u8>()];
    (ip, prefix).prop_map(|(ip, prefix)| Address { ip, prefix })
}

fn nic() -> impl Strategy<Value = Nic> {
    let kind = prop_oneof![
        5 => Just(Kind::Physical),
        2 => Just(Kind::Veth),
        1 => Just(Kind::BridgeIn),
        1 => Just(Kind::Tunnel),
        1 => Just(Kind::Port),
        1 => Just(Kind::Loopback),
    ];
    let name = prop_oneof![8 => "[a-d]", 1 => "\\PC{0,20}"];
    let speed =
        prop_oneof![Just(None), Just(Some(0)), Just(Some(1000)), Just(Some(10_000)), any::<Option<u32>>()];
    let mtu = prop_oneof![Just(0), Just(1500), Just(9000)];
    let set = prop::bool::weighted(0.9);
    (name, 0u32..4, kind, prop::collection::vec(address(), 0..4), speed, mtu, set, set).prop_map(
        |(name, index, kind, addresses, speed, mtu, up, carrier)| Nic {
            name,
            index,
            kind,
            addresses,
            speed,
            mtu,
            up,
            carrier,
        },
    )
}

fn host() -> impl Strategy<Value = Host> {
    (0u64..3, prop::collection::vec(nic(), 0..6)).prop_map(|(netns, nics)| Host {
        location: Location { boot: [1; 16], netns },
        nics,
        ..Host::default()
    })
}

fn rules() -> impl Strategy<Value = Rules> {
    let families = prop_oneof![3 => Just(Families::Both), 1 => Just(Families::V4), 1 => Just(Families::V6)];
    let limit = || prop_oneof![3 => Just(0u32), 1 => 1u32..4];
    (families, prop::bool::weighted(0.2), limit(), limit()).prop_map(|(families, equal, ratio, rails)| {
        Rules {
            filter: Filter::default(),
            families,
            transport: if equal { Transport::Datagrams } else { Transport::Stream },
            limits: Limits { speed_ratio: NonZeroU32::new(ratio), max_rails: NonZeroU32::new(rails) },
        }
    })
}

/// Returns a host with the answers of its tables.
fn told(host: &Host, seed: Option<u64>) -> Host {
    let mut host = host.clone();
    if let Some(seed) = seed {
        host.ask(&mut Whim(seed));
    }
    host
}

fn side<'a>(name: &'a [u8], host: &'a Host) -> Side<'a> {
    Side { name, host }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_sides_compute_mirror_images(
        a in host(), b in host(), same in prop::bool::weighted(0.1), names in 0..3,
        seeds in any::<[Option<u64>; 2]>(), rules in rules(),
    ) {
        let b = if same { a.clone() } else { b };
        let (a, b) = (told(&a, seeds[0]), told(&b, if same { seeds[0] } else { seeds[1] }));
        let name: [&[u8]; 2] = [[b"a", b"b"], [b"b", b"a"], [b"a", b"a"]][names as usize].map(|n: &[u8; 1]| &n[..]);
        let (here, there) = (side(name[0], &a), side(name[1], &b));
        let (ab, ba) = (pair(&here, &there, &rules), pair(&there, &here, &rules));
        let mirrored: Vec<_> = ba.pairs.iter().map(|p| p.mirror()).collect();
        prop_assert_eq!(&ab.pairs, &mirrored);
        prop_assert_eq!(ab.agreement(), ba.agreement());
        // Two processes that cannot be told apart both decide.
        if names < 2 || wire::encode(&a) != wire::encode(&b) {
            prop_assert_ne!(ab.own_decides(), ba.own_decides());
        }
        if names < 2 {
            prop_assert_eq!(&ab, &ba.mirror());
            prop_assert_eq!(ab.own_decides(), names == 0);
        }
    }

    /// The peer computes from what was published.
    #[test]
    fn records_from_the_wire_give_the_same(a in host(), b in host(), seeds in any::<[Option<u64>; 2]>(), rules in rules()) {
        let (a, b) = (told(&a, seeds[0]), told(&b, seeds[1]));
        let direct = pair(&side(b"a", &a), &side(b"b", &b), &rules);
        let (a2, b2) = (wire::parse(&wire::encode(&a)).unwrap(), wire::parse(&wire::encode(&b)).unwrap());
        let published = pair(&side(b"a", &a2), &side(b"b", &b2), &rules);
        prop_assert_eq!(direct.agreement(), published.agreement());
        prop_assert_eq!(rules.publish(&a).host, a2);
    }

    #[test]
    fn order_does_not_matter(
        (a, shuffled) in host().prop_flat_map(|h| (Just(h.clone()), Just(h.nics).prop_shuffle())),
        b in host(), seeds in any::<[Option<u64>; 2]>(), rules in rules(),
    ) {
        let mut c = Host { nics: shuffled, ..a.clone() };
        c.nics.iter_mut().for_each(|n| n.addresses.reverse());
        let (a, b, c) = (told(&a, seeds[0]), told(&b, seeds[1]), told(&c, seeds[0]));
        let one = pair(&side(b"a", &a), &side(b"b", &b), &rules);
        let two = pair(&side(b"a", &c), &side(b"b", &b), &rules);
        prop_assert_eq!(one.agreement(), two.agreement());
        let named = |host: &Host, p: &netmod_matching::Pairing| -> Vec<_> {
            p.pairs.iter().map(|p| (host.nics[p.own].name.clone(), p.own_index, p.own_address, p.peer_address, p.weight)).collect()
        };
        prop_assert_eq!(named(&a, &one), named(&c, &two));
    }

    /// Each pair is valid: no interface twice, usable at both ends, and allowed by the tables.
    #[test]
    fn pairs_keep_the_rules(a in host(), b in host(), seeds in any::<[u64; 2]>(), rules in rules()) {
        let (a, b) = (told(&a, Some(seeds[0])), told(&b, Some(seeds[1])));
        let result = pair(&side(b"a", &a), &side(b"b", &b), &rules);
        let (said_a, said_b) = (Canonical::new(&a).host, Canonical::new(&b).host);
        let mut seen: HashMap<(Whose, usize), usize> = HashMap::new();
        let same_location = a.location.is_same(&b.location);
        for p in &result.pairs {
            *seen.entry((Whose::Own, p.own)).or_default() += 1;
            *seen.entry((Whose::Peer, p.peer)).or_default() += 1;
            let (own, peer) = (&a.nics[p.own], &b.nics[p.peer]);
            prop_assert!(own.up && own.carrier && peer.up && peer.carrier);
            prop_assert!(own.addresses.iter().any(|x| x.ip == p.own_address));
            prop_assert!(peer.addresses.iter().any(|x| x.ip == p.peer_address));
            prop_assert!(rules.families.allows(p.own_address));
            prop_assert_eq!(result.verdict(p.own, p.peer), Verdict::Paired);
            let fit = own.mtu == peer.mtu || own.mtu == 0 || peer.mtu == 0;
            prop_assert!(rules.transport == Transport::Stream || fit);
            if same_location {
                prop_assert_eq!(p.weight.class, Class::OnLink);
                continue;
            }
            prop_assert_ne!(p.own_address, p.peer_address);
            let there = said_a.answer(&Query { index: p.own_index, from: p.own_address, to: p.peer_address });
            let back = said_b.answer(&Query { index: p.peer_index, from: p.peer_address, to: p.own_address });
            prop_assert!(there != Answer::None && back != Answer::None);
            for class in [there, back].into_iter().filter_map(Class::of) {
                prop_assert!(p.weight.class <= class);
            }
        }
        prop_assert!(seen.values().all(|n| *n == 1));
        let most = rules.limits.max_rails.map_or(usize::MAX, |n| n.get() as usize);
        prop_assert!(result.pairs.len() <= most);
        prop_assert_eq!(result.unmatched(Whose::Own).len() + result.pairs.len(), a.nics.len());
        prop_assert_eq!(result.unmatched(Whose::Peer).len() + result.pairs.len(), b.nics.len());
        // Interfaces that could be paired and are not have lost to a better pair, or to the limit
        // of rails.
        for o in result.unmatched(Whose::Own) {
            for p in result.unmatched(Whose::Peer) {
                if let Verdict::Lost { own, peer } = result.verdict(o, p) {
                    prop_assert_eq!((own, peer), (None, None));
                    prop_assert_eq!(result.pairs.len(), most);
                }
            }
        }
        let text = result.explain().to_string();
        prop_assert!(text.lines().all(|l| l.chars().count() <= 110), "{}", text);
        prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
    }
}

/// A peer that publishes nonsense, and as much of it as it likes.
#[test]
fn a_liar_harms_itself_only() {
    let honest = Host {
        location: Location { boot: [1; 16], netns: 1 },
        nics: vec![Nic {
            name: "eth0".into(),
            index: 2,
            addresses: vec![Address { ip: IpAddr::from([10, 0, 0, 1]), prefix: 24 }],
            speed: Some(1000),
            mtu: 1500,
            up: true,
            carrier: true,
            ..Nic::default()
        }],
        ..Host::default()
    };
    let liar = Host {
        location: Location { boot: [2; 16], netns: 1 },
        nics: (0..2000u32)
            .map(|i| Nic {
                name: if i % 7 == 0 { "\u{1b}[2J".into() } else { format!("e{}", i % 50) },
                index: i % 3,
                kind: if i % 2 == 0 { Kind::Physical } else { Kind::Tunnel },
                addresses: (0..if i == 5 { 10_000 } else { 6 })
                    .map(|k: u32| Address {
                        ip: IpAddr::from((0x0A00_0000 + k % 300).to_be_bytes()),
                        prefix: (k * 5) as u8,
                    })
                    .collect(),
                speed: Some(u32::MAX - i % 2),
                mtu: u32::MAX,
                up: true,
                carrier: i % 5 != 0,
            })
            .collect(),
        ..Host::default()
    };
    for (one, other) in [(&honest, &liar), (&liar, &liar), (&liar, &honest)] {
        let other = &Host { location: Location { netns: 9, ..other.location }, ..other.clone() };
        let (one, other) = (&told(one, Some(1)), &told(other, Some(2)));
        assert!(wire::encode(other).len() <= wire::MAX_LEN);
        let ab = pair(&side(b"a", one), &side(b"b", other), &Rules::default());
        let ba = pair(&side(b"b", other), &side(b"a", one), &Rules::default());
        assert_eq!(ab.agreement(), ba.agreement());
        assert_eq!(ab, ba.mirror());
        assert!(!ab.explain().to_string().contains('\u{1b}'));
    }
    // It claims the honest host's address: the address is useless towards it, and as good as before
    // towards others.
    let lied = pair(&side(b"a", &honest), &side(b"b", &liar), &Rules::of_stream());
    assert!(lied.pairs.is_empty());
    let same = |v| matches!(v, Verdict::Impossible(Reason::SameAddress { .. }));
    assert!((0..2000).any(|p| same(lied.verdict(0, p))));
    let mut third = honest.clone();
    third.location.boot = [3; 16];
    third.nics[0].addresses[0].ip = IpAddr::from([10, 0, 0, 2]);
    assert_eq!(pair(&side(b"a", &honest), &side(b"b", &third), &Rules::default()).pairs.len(), 1);
}

/// Hosts without interfaces, and with many equal ones.
#[test]
fn nothing_and_very_much() {
    let nothing = Host::default();
    let many = Host {
        nics: (0..2000)
            .map(|_| Nic { name: "e".into(), up: true, carrier: true, ..Nic::default() })
            .collect(),
        ..Host::default()
    };
    for (a, b) in [(&nothing, &nothing), (&nothing, &many), (&many, &nothing), (&many, &many)] {
        let result = pair(&side(b"a", a), &side(b"b", b), &Rules::default());
        assert!(result.pairs.is_empty());
        assert_eq!(result.unmatched(Whose::Own).len(), a.nics.len());
        assert!(result.explain().to_string().starts_with("no pairs"));
    }
}

/// The hash of a known result: the same in all versions, or peers of different versions disagree.
#[test]
fn golden_agreement() {
    let host = |boot: u8, last: u8, v6: &str| Host {
        location: Location { boot: [boot; 16], netns: 1 },
        nics: [("eth0", 2, IpAddr::from([10, 0, 0, last])), ("eth1", 3, v6.parse().unwrap())]
            .into_iter()
            .map(|(name, index, ip)| Nic {
                name: name.into(),
                index,
                addresses: vec![Address { ip, prefix: 24 }],
                up: true,
                carrier: true,
                ..Nic::default()
            })
            .collect(),
        ..Host::default()
    };
    let (a, b) = (host(1, 1, "fd00::1"), host(2, 2, "fd00::2"));
    let result = pair(&side(b"a", &a), &side(b"b", &b), &Rules::default());
    assert_eq!(result.pairs.len(), 2);
    assert_eq!(result.agreement(), 0x5468_0e89_1ab3_3441);
    let none = pair(&side(b"a", &a), &side(b"b", &Host::default()), &Rules::default());
    assert_eq!(none.agreement(), 0xcbf2_9ce4_8422_2325);
}
