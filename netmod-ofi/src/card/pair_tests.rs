use netmod_matching::{Host, Kind, Location};

use super::samples::{Random, card, host, ip_card, ip_domain, other_card};
use super::*;
use crate::error::PairError;

const A: Location = Location { boot: [1; 16], netns: 4 };
const B: Location = Location { boot: [2; 16], netns: 4 };

/// Returns the pair after checking that it is the mirror image of the peer's.
fn both(a: &OfiCard, b: &OfiCard) -> Result<(usize, usize), PairError> {
    let (there, back) = (pair(a, b), pair(b, a));
    assert_eq!(there.clone().map(|(x, y)| (y, x)).ok(), back.ok());
    there
}

fn refused(a: &OfiCard, b: &OfiCard, part: &str) {
    for (x, y) in [(a, b), (b, a)] {
        let why = both(x, y).expect_err(part);
        assert!(why.to_string().contains(part), "{why}");
    }
}

#[test]
fn domains_of_one_subnet_are_paired() {
    let a = ip_card(&host(A, &["198.51.100.1", "192.0.2.1"]), &["198.51.100.1", "192.0.2.1"]);
    let b = ip_card(&host(B, &["192.0.2.2"]), &["192.0.2.2"]);
    assert_eq!(both(&a, &b), Ok((1, 0)));
    // Another subnet is a guess, but better than no route.
    let c = ip_card(&host(B, &["203.0.113.9"]), &["203.0.113.9"]);
    assert!(both(&a, &c).is_ok());
}

#[test]
fn of_equal_pairs_different_peers_get_different_ones() {
    let addresses = ["192.0.2.1", "198.51.100.1"];
    let a = ip_card(&host(A, &addresses), &addresses);
    let mut used = [0; 2];
    for i in 0..64 {
        let peer = [format!("192.0.2.{}", 2 + i), format!("198.51.100.{}", 2 + i)];
        let peer: Vec<&str> = peer.iter().map(String::as_str).collect();
        let (own, theirs) = both(&a, &ip_card(&host(B, &peer), &peer)).expect("a pair");
        assert_eq!(own, theirs);
        used[own] += 1;
    }
    assert!(used.iter().all(|n| *n > 16), "{used:?}");
    // The faster pair always wins.
    let faster = |location, addresses: &[&str]| {
        let mut h = host(location, addresses);
        h.nics[1].speed = Some(100_000);
        ip_card(&h, addresses)
    };
    for i in 2..20 {
        let peer = [format!("192.0.2.{i}"), format!("198.51.100.{i}")];
        let peer: Vec<&str> = peer.iter().map(String::as_str).collect();
        assert_eq!(both(&faster(A, &addresses), &faster(B, &peer)), Ok((1, 1)));
    }
}

#[test]
fn within_a_host_loopback_reaches_loopback_and_addresses_each_other() {
    let h = host(A, &["192.0.2.1"]);
    let lo = ip_card(&h, &["127.0.0.1"]);
    let mut lo2 = lo.clone();
    lo2.domains[0] = ip_domain("127.0.0.1", 5000);
    assert_eq!(both(&lo, &lo2), Ok((0, 0)));
    assert_eq!(both(&ip_card(&h, &["192.0.2.1"]), &ip_card(&h, &["127.0.0.1", "192.0.2.1"])), Ok((0, 1)));
    refused(&lo, &ip_card(&h, &["192.0.2.1"]), "NETMOD_OFI_DOMAIN");
    // A process can talk to itself by any domain.
    assert_eq!(both(&lo, &lo), Ok((0, 0)));
}

#[test]
fn loopback_leads_to_no_other_host() {
    let (a, b) = (ip_card(&host(A, &[]), &["127.0.0.1"]), ip_card(&host(B, &[]), &["127.0.0.1"]));
    refused(&a, &b, "reaches only its own host");
    let other_namespace = Location { netns: 5, ..A };
    refused(&a, &ip_card(&host(other_namespace, &[]), &["127.0.0.1"]), "reaches only its own host");
}

#[test]
fn an_address_that_both_hosts_have_is_no_way() {
    let bridge = |location| {
        let mut h = host(location, &["172.17.0.1"]);
        h.nics[0].kind = Kind::BridgeIn;
        ip_card(&h, &["172.17.0.1"])
    };
    refused(&bridge(A), &bridge(B), "same address 172.17.0.1");
}

#[test]
fn local_domains_are_paired_only_within_their_host() {
    let (a, mut b) = (other_card(A, 9, &["shm"]), other_card(A, 9, &["shm"]));
    b.domains[0].address = [7].into();
    assert_eq!(both(&a, &b), Ok((0, 0)));
    refused(&a, &other_card(B, 9, &["shm"]), "/dev/shm");
    b.location.memory = 77;
    refused(&a, &b, "/dev/shm");
}

#[test]
fn other_fabrics_and_forms_are_refused_with_what_they_are() {
    let a = other_card(A, 12, &["one"]);
    let mut b = other_card(B, 12, &["one"]);
    assert_eq!(both(&a, &b), Ok((0, 0)));
    b.domains[0].fabric = "another".into();
    refused(&a, &b, "a fabric");
    b.domains[0].format = 15;
    refused(&a, &b, "different formats");
    let ip = card(&host(B, &["192.0.2.2"]), "efa", vec![ip_domain("192.0.2.2", 1)]);
    refused(&a, &ip, "no format in common");
    let six = ip_card(&host(B, &["2001:db8::1"]), &["2001:db8::1"]);
    refused(&ip_card(&host(A, &["192.0.2.1"]), &["192.0.2.1"]), &six, "IPv");
}

#[test]
fn peers_of_other_versions_are_refused_with_the_way_out() {
    let a = ip_card(&host(A, &["192.0.2.1"]), &["192.0.2.1"]);
    let b = ip_card(&host(B, &["192.0.2.2"]), &["192.0.2.2"]);
    let with = |change: fn(&mut OfiCard)| {
        let mut b = b.clone();
        change(&mut b);
        b
    };
    refused(&a, &with(|b| b.protocol += 1), "the same netmod");
    refused(&a, &with(|b| b.provider = "shm".into()), "NETMOD_OFI_PROVIDER");
    refused(&a, &with(|b| b.endpoint.0 += 1), "one version of libfabric");
    refused(&a, &with(|b| b.endpoint.1 += 1), "libfabric 1.17");
    // Another release with the same protocol is accepted.
    assert!(both(&a, &with(|b| (b.library, b.provider_version) = (0x2_0006, 1))).is_ok());
}

/// For any two cards, both sides compute the same pair, or none.
#[test]
fn any_two_cards_are_paired_alike_from_both_sides() {
    let pool = ["192.0.2.1", "192.0.2.2", "198.51.100.1", "10.1.1.1", "127.0.0.1", "2001:db8::1", "fe80::1"];
    let mut random = Random(3);
    let sample = |random: &mut Random| {
        let location = [A, B, Location { netns: 5, ..A }][random.below(3)];
        let addresses: Vec<&str> = (0..1 + random.below(4)).map(|_| pool[random.below(pool.len())]).collect();
        let known = host(location, &addresses[..random.below(addresses.len() + 1)]);
        let mut domains: Vec<CardDomain> =
            addresses.iter().map(|ip| ip_domain(ip, random.below(3) as u16)).collect();
        if random.below(3) == 0 {
            domains.extend(other_card(location, 9, &["shm", "x"]).domains);
        }
        let host = Host { location, nics: known.nics, ..Host::default() };
        card(&host, "tcp", domains)
    };
    let mut paired = 0;
    for _ in 0..5000 {
        let (a, b) = (sample(&mut random), sample(&mut random));
        paired += usize::from(both(&a, &b).is_ok());
    }
    assert!((1000..5000).contains(&paired), "{paired}");
}

/// A domain that cannot send to a context does not pair with it, whatever the addresses.
#[test]
fn contexts_are_paired_with_who_can_name_them() {
    let of = |location, address: &str, names, context| {
        let mut card = ip_card(&host(location, &[address]), &[address]);
        let d = &mut card.domains[0];
        (d.names_contexts, d.contexts, d.context) = (names, u16::from(context) + 1, context);
        card
    };
    for location in [A, B] {
        let plain = |names| of(location, "192.0.2.2", names, 0);
        assert_eq!(both(&of(A, "192.0.2.1", true, 2), &plain(true)), Ok((0, 0)));
        assert_eq!(both(&of(A, "192.0.2.1", true, 0), &plain(false)), Ok((0, 0)));
        refused(&of(A, "192.0.2.1", true, 2), &plain(false), "FI_NAMED_RX_CTX");
    }
    let mut other = other_card(A, 12, &["one"]);
    assert_eq!(both(&other, &other_card(B, 12, &["one"])), Ok((0, 0)));
    other.domains[0].names_contexts = false;
    refused(&other, &other_card(B, 12, &["one"]), "NETMOD_OFI_DISABLE_SEP");
}
