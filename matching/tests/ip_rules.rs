//! The rules for IP interfaces, one by one.

use std::net::IpAddr;

use netmod_matching::{
    Address, Answer, Basis, Class, Destination, Families, Host, Kind, Location, Nic, Pairing, Query, Reach,
    Reason, Routes, Rules, Side, Verdict, Whose, pair,
};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// An interface that is up, with addresses such as `10.0.0.1/24`.
fn nic(name: &str, index: u32, addresses: &[&str]) -> Nic {
    let address = |text: &&str| {
        let (addr, prefix) = text.split_once('/').unwrap();
        Address { ip: ip(addr), prefix: prefix.parse().unwrap() }
    };
    Nic {
        name: name.into(),
        index,
        addresses: addresses.iter().map(address).collect(),
        speed: Some(1000),
        mtu: 1500,
        up: true,
        carrier: true,
        ..Nic::default()
    }
}

fn host(boot: u8, nics: Vec<Nic>) -> Host {
    Host { location: Location { boot: [boot; 16], netns: 1 }, nics, ..Host::default() }
}

/// Returns a host whose tables give these answers by source and destination, and no others.
fn with_tables(host: &Host, list: &[(u32, &str, &str, Answer)]) -> Host {
    let reach = list.iter().map(|(index, from, to, answer)| {
        let (from, net) = (ip(from), ip(to));
        Reach { index: *index, from, net, prefix: if net.is_ipv4() { 32 } else { 128 }, answer: *answer }
    });
    Host { reach: Some(reach.collect()), ..host.clone() }
}

/// Pairs as the first host sees it, which decides.
fn decide(a: &Host, b: &Host, rules: &Rules) -> Pairing {
    pair(&Side { name: b"a", host: a }, &Side { name: b"b", host: b }, rules)
}

/// Pairs hosts whose tables were not asked.
fn guess(a: Vec<Nic>, b: Vec<Nic>, rules: &Rules) -> Pairing {
    decide(&host(1, a), &host(2, b), rules)
}

#[test]
fn link_local_addresses_go_with_their_like_only() {
    let a = || vec![nic("e0", 1, &["fe80::1/64"])];
    let apart = guess(a(), vec![nic("e0", 1, &["fd00::1/64"])], &Rules::default());
    assert_eq!(apart.verdict(0, 0), Verdict::Impossible(Reason::Scopes));
    let alike = guess(a(), vec![nic("e0", 1, &["fe80::2/64"])], &Rules::default());
    assert_eq!(alike.pairs.len(), 1);
    let families = guess(a(), vec![nic("e0", 1, &["10.0.0.1/24"])], &Rules::default());
    assert_eq!(families.verdict(0, 0), Verdict::Impossible(Reason::Families));
}

#[test]
fn the_best_addresses_of_two_interfaces_are_used() {
    let a = host(1, vec![nic("e0", 1, &["10.0.0.1/24", "10.1.0.1/24", "fd00::1/64"])]);
    let b = host(2, vec![nic("e0", 1, &["10.0.0.2/24", "10.1.0.2/24", "fd00::2/64"])]);
    let told = |host: &Host, own: [&'static str; 3], peer: [&'static str; 3]| {
        let all = own.into_iter().zip(peer).zip([Answer::Gateway, Answer::OnLink, Answer::OnLink]);
        with_tables(host, &all.map(|((from, to), answer)| (1, from, to, answer)).collect::<Vec<_>>())
    };
    let (own, peer) = (["10.0.0.1", "10.1.0.1", "fd00::1"], ["10.0.0.2", "10.1.0.2", "fd00::2"]);
    let (a, b) = (told(&a, own, peer), told(&b, peer, own));
    let result = decide(&a, &b, &Rules::default());
    let pair = result.pairs[0];
    assert_eq!((pair.own_address, pair.peer_address), (ip("10.1.0.1"), ip("10.1.0.2")));
    assert_eq!((pair.weight.class, pair.basis), (Class::OnLink, Basis::BothTables));
    let v6 = Rules { families: Families::V6, ..Rules::default() };
    let result = decide(&a, &b, &v6);
    assert_eq!(result.pairs[0].own_address, ip("fd00::1"));
}

#[test]
fn where_one_side_was_not_asked_the_other_counts() {
    let a = host(1, vec![nic("e0", 1, &["10.0.0.1/24"])]);
    let b = host(2, vec![nic("e0", 1, &["10.0.0.2/24"])]);
    for (answer, class) in
        [(Answer::OnLink, Some(Class::OnLink)), (Answer::Default, Some(Class::Default)), (Answer::None, None)]
    {
        let a = with_tables(&a, &[(1, "10.0.0.1", "10.0.0.2", answer)]);
        let result = decide(&a, &b, &Rules::default());
        assert_eq!(result.pairs.first().map(|p| p.weight.class), class);
        assert!(result.pairs.iter().all(|p| p.basis == Basis::OneTable));
        let turned = decide(&b, &a, &Rules::default());
        assert_eq!(turned.pairs.first().map(|p| p.weight.class), class);
    }
}

#[test]
fn datagrams_need_equal_mtus_and_a_stream_does_not() {
    let with = |mtu, last: u8| vec![Nic { mtu, ..nic("e0", 1, &[&format!("10.0.0.{last}/24")]) }];
    let apart = guess(with(9000, 1), with(1500, 2), &Rules::default());
    assert_eq!(apart.verdict(0, 0), Verdict::Impossible(Reason::Mtu { own: 9000, peer: 1500 }));
    let why = &apart.explain().unused[0].why;
    assert!(why.contains("their MTUs are 9000 and 1500"), "{why}");
    assert_eq!(guess(with(9000, 1), with(9000, 2), &Rules::default()).pairs.len(), 1);
    // An unknown MTU is not known to differ.
    assert_eq!(guess(with(0, 1), with(1500, 2), &Rules::default()).pairs.len(), 1);
    assert_eq!(guess(with(9000, 1), with(1500, 2), &Rules::of_stream()).pairs.len(), 1);
}

#[test]
fn the_second_tier_is_that_of_either_end() {
    let tunnel = |name, address: &str| Nic { kind: Kind::Tunnel, ..nic(name, 2, &[address]) };
    let ordinary = |last: u8| nic("e0", 1, &[&format!("10.0.0.{last}/24")]);
    for swapped in [false, true] {
        let mut sides = [vec![ordinary(1)], vec![ordinary(2), tunnel("tun0", "10.0.0.3/24")]];
        if swapped {
            sides.reverse();
        }
        let [a, b] = sides;
        // Without the tiers, the tunnel would win.
        let fast = |nics: Vec<Nic>| {
            nics.into_iter()
                .map(|n| Nic { speed: Some(if n.kind == Kind::Tunnel { 9000 } else { 1000 }), ..n })
                .collect()
        };
        let result = guess(fast(a), fast(b), &Rules::default());
        assert_eq!(result.pairs.len(), 1);
        assert_eq!((result.pairs[0].own, result.pairs[0].peer), (0, 0));
        let (o, p) = if swapped { (1, 0) } else { (0, 1) };
        assert_eq!(result.verdict(o, p), Verdict::SecondTier);
        let why = &result.explain().unused[0].why;
        assert_eq!(
            why,
            "with e0: they could talk, but tun0 is a tunnel, which runs over other interfaces: it serves only if no interfaces of the ordinary kinds do"
        );
    }
}

#[test]
fn reasons_say_whose_they_are_on_either_side() {
    let a =
        host(1, vec![nic("e0", 1, &["10.0.0.1/24"]), Nic { up: false, ..nic("e1", 2, &["10.0.1.1/24"]) }]);
    let b = host(2, vec![nic("e0", 1, &["10.0.0.2/24"])]);
    let a = with_tables(&a, &[(1, "10.0.0.1", "10.0.0.2", Answer::OnLink)]);
    let b = with_tables(&b, &[(1, "10.0.0.2", "10.0.0.1", Answer::None)]);
    let (one, other) = (Side { name: b"a", host: &a }, Side { name: b"b", host: &b });
    let (here, there) = (pair(&one, &other, &Rules::default()), pair(&other, &one, &Rules::default()));
    let no_route =
        |whose| Verdict::Impossible(Reason::NoRoute { whose, from: ip("10.0.0.2"), to: ip("10.0.0.1") });
    assert_eq!(here.verdict(0, 0), no_route(Whose::Peer));
    assert_eq!(there.verdict(0, 0), no_route(Whose::Own));
    assert_eq!(here.verdict(1, 0), Verdict::OwnUnusable(Reason::Down));
    assert_eq!(there.verdict(0, 1), Verdict::PeerUnusable(Reason::Down));
    assert_eq!(
        here.explain().unused[0].why,
        "the peer has no route back from 10.0.0.2 to 10.0.0.1 by that interface"
    );
    assert_eq!(
        there.explain().unused[0].why,
        "this host has no route from 10.0.0.2 to 10.0.0.1 by that interface"
    );
}

#[test]
fn who_lost_to_whom_is_told_on_either_side() {
    let a = host(1, vec![nic("a0", 1, &["10.0.0.1/24"]), nic("a1", 2, &["10.0.0.2/24"])]);
    let b = host(2, vec![nic("b0", 1, &["10.0.0.3/24"])]);
    let here = decide(&a, &b, &Rules::default());
    assert_eq!(here.verdict(1, 0), Verdict::Lost { own: None, peer: Some(0) });
    assert_eq!(
        here.explain().unused[0].why,
        "with b0: they could talk, but these pairs are better: a0 with b0"
    );
    let there = pair(&Side { name: b"b", host: &b }, &Side { name: b"a", host: &a }, &Rules::default());
    assert_eq!(there.verdict(0, 1), Verdict::Lost { own: Some(0), peer: None });
    let rails = decide(
        &a,
        &host(2, vec![nic("b0", 1, &["10.0.0.3/24"]), nic("b1", 2, &["10.0.0.4/24"])]),
        &Rules::default().with_max_rails(1),
    );
    assert_eq!(rails.pairs.len(), 1);
    assert_eq!(rails.verdict(1, 1), Verdict::Lost { own: None, peer: None });
}

#[test]
fn docker0_with_link_local_addresses_is_told_of_by_the_address_that_both_have() {
    let all = |last: u8| {
        let docker = nic("docker0", 2, &["172.17.0.1/16", &format!("fe80::{last}/64")]);
        vec![nic("eth0", 1, &[&format!("10.0.0.{last}/24")]), Nic { kind: Kind::BridgeIn, ..docker }]
    };
    let result = guess(all(1), all(2), &Rules::default());
    assert_eq!(result.pairs.len(), 1);
    // An interface of the second tier is not used by a link-local address, even if nothing else is
    // left.
    assert_eq!(result.verdict(1, 1), Verdict::Impossible(Reason::SameAddress { ip: ip("172.17.0.1") }));
    let why = &result.explain().unused[0].why;
    assert!(why.contains("a bridge without a port") && why.contains("same address 172.17.0.1"), "{why}");
    // The report says so if only link-local addresses are left.
    let ll = |last: u8| nic("e1", 3, &[&format!("fe80::1:{last}/64")]);
    let result = guess([all(1), vec![ll(1)]].concat(), [all(2), vec![ll(2)]].concat(), &Rules::default());
    let line = result.explain().unused.into_iter().find(|u| u.nic == "e1").unwrap();
    assert!(line.why.contains("serve only if nothing else does"), "{}", line.why);
}

/// Records the queries and answers none.
#[derive(Default)]
struct Silent {
    known: Vec<Destination>,
    asked: Vec<Vec<Query>>,
}

impl Routes for Silent {
    fn ask(&mut self, queries: &[Query]) -> Vec<Answer> {
        self.asked.push(queries.to_vec());
        Vec::new()
    }

    fn destinations(&mut self) -> Option<Vec<Destination>> {
        Some(self.known.clone())
    }
}

#[test]
fn only_what_makes_sense_is_asked_once_and_in_one_batch() {
    let mut a = host(
        1,
        vec![
            nic("e0", 1, &["10.0.0.1/24", "10.0.0.1/24", "fe80::1/64", "172.17.0.1/16"]),
            Nic { up: false, ..nic("e1", 2, &["10.0.1.1/24"]) },
            Nic { kind: Kind::Loopback, ..nic("lo", 3, &["127.0.0.1/8"]) },
        ],
    );
    let to = |by: u32, net: &str, prefix| Destination { by: Some(by), net: ip(net), prefix };
    let known = vec![
        to(1, "10.0.0.0", 24),
        to(1, "10.0.0.0", 24),
        to(1, "fe80::", 64),
        to(2, "10.0.1.0", 24),
        to(1, "fd00::", 64),
        Destination { by: None, ..to(0, "10.9.0.0", 16) },
    ];
    let mut routes = Silent { known, ..Silent::default() };
    a.ask(&mut routes);
    let asked = |from: &str, to: &str| Query { index: 1, from: ip(from), to: ip(to) };
    let mut got = routes.asked.concat();
    got.sort();
    got.dedup();
    let want = ["10.0.0.1", "172.17.0.1"].map(|from| ["10.0.0.129", "10.9.128.1"].map(|to| asked(from, to)));
    assert_eq!(got, want.concat());
    assert_eq!(routes.asked.len(), 1);
    // Without answers everything is unknown, and what no table names has no route.
    let a = netmod_matching::Canonical::new(&a).host;
    assert_eq!(a.answer(&asked("10.0.0.1", "10.0.0.9")), Answer::Unknown);
    assert_eq!(a.answer(&asked("10.0.0.1", "10.7.0.9")), Answer::None);
    assert_eq!(a.answer(&asked("fe80::1", "fe80::2")), Answer::OnLink);
}

#[test]
fn repeated_addresses_do_not_take_the_place_of_others() {
    let mut addresses = vec!["10.0.0.1/24"; 20];
    addresses.extend(["10.0.0.5/24", "10.9.0.1/24"]);
    let result =
        guess(vec![nic("e0", 1, &addresses)], vec![nic("e0", 1, &["10.9.0.2/24"])], &Rules::default());
    assert_eq!(result.pairs[0].own_address, ip("10.9.0.1"));
    assert_eq!(result.pairs[0].weight.class, Class::OnLink);
}
