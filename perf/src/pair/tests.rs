//! Tests every scenario: expected pairs and agreement of both sides, also with shuffled records,
//! renamed interfaces, and IPv6 only.

use std::collections::BTreeMap;
use std::path::PathBuf;

use netmod_matching::{Host, Rules};

use super::file::SideFile;
use super::outcome::Outcome;
use super::scenario::Scenario;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../matching/tests/scenarios")
}

fn scenarios() -> Vec<(String, Scenario)> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder()).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "toml"));
    files.sort();
    assert!(files.len() > 20, "{files:?}");
    let read = |f: &PathBuf| {
        let name = f.file_stem().unwrap().to_string_lossy().into_owned();
        let scenario = Scenario::parse(&name, &std::fs::read_to_string(f).unwrap()).unwrap();
        (name, scenario)
    };
    files.iter().map(read).collect()
}

/// Runs a scenario and checks that both sides agree.
fn run(name: &str, scenario: &Scenario) -> Outcome {
    let outcome = scenario.run().unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(outcome.agreed(), "{name}: {:?} {:?}", outcome.here, outcome.there);
    let mirrored: Vec<_> = outcome.there.pairs.iter().map(|p| p.mirror()).collect();
    assert_eq!(outcome.here.pairs, mirrored, "{name}");
    outcome
}

/// Checks the pairs against those of the file.
fn expect(name: &str, scenario: &Scenario) {
    let outcome = run(name, scenario);
    let (mut got, mut want) =
        (outcome.pairs(), scenario.expected.clone().expect("a scenario says what is right"));
    got.sort();
    want.sort();
    assert_eq!(got, want, "{name}\n{}", outcome.here.explain());
}

/// SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn shuffle<T>(state: &mut u64, list: &mut [T]) {
    for i in (1..list.len()).rev() {
        list.swap(i, (random(state) % (i as u64 + 1)) as usize);
    }
}

#[test]
fn every_scenario_gives_the_expected_pairs() {
    for (name, scenario) in scenarios() {
        expect(&name, &scenario);
    }
}

/// Makes a side's view of the other from records as `--export` writes them.
fn exported(side: &SideFile, name: &str, rules: &Rules) -> Host {
    let host = rules.publish(&side.asked(name).unwrap()).host;
    let text = toml::to_string(&SideFile::of(&host)).unwrap();
    let read = toml::from_str::<SideFile>(&text).unwrap().published(name).unwrap();
    assert_eq!(read, host, "{text}");
    read
}

#[test]
fn exported_records_give_the_same_pairs_on_both_hosts() {
    for (name, scenario) in scenarios().into_iter().filter(|(_, s)| s.a.interfaces.is_empty()) {
        let rules = Rules::default();
        let (a, b) = (exported(&scenario.a, "a", &rules), exported(&scenario.b, "b", &rules));
        let outcome = Outcome::new(&a, &b, &rules).unwrap();
        assert!(outcome.agreed(), "{name}");
        // On B's host, B is this host, and the result is A's reversed.
        let there = Outcome::new(&b, &a, &rules).unwrap();
        let mut turned: Vec<[String; 2]> = there.pairs().into_iter().map(|[b, a]| [a, b]).collect();
        let mut pairs = outcome.pairs();
        turned.sort();
        pairs.sort();
        if name != "s06-two-in-one-subnet" {
            assert_eq!(turned, pairs, "{name}");
        }
    }
}

#[test]
fn a_peer_that_computes_from_something_else_does_not_agree() {
    let (_, scenario) =
        scenarios().into_iter().find(|(name, _)| name == "s05-direct-slow-routed-isolated").unwrap();
    let rules = Rules::default();
    let (a, b) = (exported(&scenario.a, "a", &rules), exported(&scenario.b, "b", &rules));
    assert!(Outcome::of_views([&a, &b], [&b, &a], &rules).agreed());
    // Its fast interface has gone down since, which it has not published.
    let mut later = b.clone();
    later.nics[0].up = false;
    assert!(!Outcome::of_views([&a, &b], [&later, &a], &rules).agreed());
    // It has lost the routes of the interface behind the router.
    let mut later = b.clone();
    later.reach.as_mut().unwrap().retain(|r| r.index != 3);
    assert!(!Outcome::of_views([&a, &b], [&later, &a], &rules).agreed());
    // It has never read the answers of the other host's tables.
    let blind = Host { reach: None, ..a.clone() };
    let mut slow = b;
    slow.reach = None;
    let outcome = Outcome::of_views([&a, &slow], [&slow, &blind], &rules);
    assert!(!outcome.agreed(), "{:?}", outcome.pairs());
}

#[test]
fn the_order_of_records_and_addresses_does_not_matter() {
    let mut state = 1;
    for (name, scenario) in scenarios() {
        let mut numbered = scenario.clone();
        for side in [&mut numbered.a, &mut numbered.b] {
            for (at, nic) in side.nics.iter_mut().enumerate() {
                nic.index = Some(at as u32 + 1);
            }
        }
        let agreement = run(&name, &numbered).here.agreement();
        for _ in 0..8 {
            for side in [&mut numbered.a, &mut numbered.b] {
                shuffle(&mut state, &mut side.nics);
                side.nics.iter_mut().for_each(|n| shuffle(&mut state, &mut n.addresses));
            }
            expect(&name, &numbered);
            assert_eq!(run(&name, &numbered).here.agreement(), agreement, "{name}");
        }
    }
}

/// Renames interfaces in an order-preserving way, since the choice among equally good results
/// depends on the order. If the best result is unique, the order does not matter either.
#[test]
fn names_do_not_matter() {
    for (name, mut scenario) in scenarios() {
        let unique = name != "s06-two-in-one-subnet";
        for reversed in [false, true].into_iter().filter(|r| unique || !r) {
            let mut maps = Vec::new();
            for side in [&mut scenario.a, &mut scenario.b] {
                let mut names: Vec<String> = side.nics.iter().map(|n| n.name.clone()).collect();
                names.sort();
                if reversed {
                    names.reverse();
                }
                let map: BTreeMap<String, String> =
                    names.into_iter().enumerate().map(|(i, n)| (n, format!("lan{i}"))).collect();
                for nic in &mut side.nics {
                    nic.name = map[&nic.name].clone();
                }
                maps.push(map);
            }
            for pair in scenario.expected.as_mut().unwrap() {
                *pair = [maps[0][&pair[0]].clone(), maps[1][&pair[1]].clone()];
            }
            expect(&format!("{name} renamed, reversed {reversed}"), &scenario);
        }
    }
}

/// Converts an IPv4 address, with or without prefix length, to an IPv6 address of the same scope.
fn as_ipv6(text: &str) -> String {
    let (ip, prefix) = text.split_once('/').unwrap_or((text, ""));
    let Ok(v4) = ip.parse::<std::net::Ipv4Addr>() else { return text.to_owned() };
    let private = ["10.", "192.168.", "172.", "100."].iter().any(|p| ip.starts_with(p));
    let net = if private { "fd00::" } else { "2001:db8::" };
    let [a, b, c, d] = v4.octets();
    let ip = format!("{net}{:x}:{:x}", u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    match prefix.parse::<u8>() {
        Ok(bits) => format!("{ip}/{}", bits + 96),
        Err(_) => ip,
    }
}

#[test]
fn the_same_with_ipv6_only() {
    for (name, mut scenario) in scenarios() {
        for side in [&mut scenario.a, &mut scenario.b] {
            for nic in &mut side.nics {
                nic.addresses.iter_mut().for_each(|a| *a = as_ipv6(a));
                for route in &mut nic.routes {
                    *route = route.split(' ').map(as_ipv6).collect::<Vec<_>>().join(" ");
                }
            }
            let (not, subnet) = side.interfaces.split_at(side.interfaces.len().min(1));
            side.interfaces = format!("{not}{}", as_ipv6(subnet));
        }
        expect(&format!("{name} with IPv6"), &scenario);
    }
}

#[test]
fn errors_in_a_file_are_named() {
    for (text, want) in [
        ("[a]\n[b]\nnics = 3\n", "scenario"),
        ("[a]\n[b]\ncolour = 1\n", "colour"),
        ("[a]\n[[a.nics]]\nname = 'e0'\naddresses = ['10.1.0.1']\n[b]\n", "`10.1.0.1` is not an address"),
        ("[a]\n[[a.nics]]\nname = 'e0'\nroutes = ['10.0.0.0/8 over 1.2.3.4']\n[b]\n", "`over`"),
        ("[a]\n[[a.nics]]\nname = 'e0'\nreach = ['10.0.0.1 10.0.0.0/8 maybe']\n[b]\n", "of the form"),
        ("[a]\n[[a.nics]]\nname = 'e0'\nroutes = ['default via nobody']\n[b]\n", "no address after `via`"),
        ("[a]\nlocation = 'a name that is longer'\n[b]\n", "1 to 16 bytes"),
        ("[a]\ninterfaces = '10.0.0.0/99'\n[b]\n", "10.0.0.0/99"),
        ("[a]\n[[a.nics]]\nname = 'e0'\nkind = 'carrier pigeon'\n[b]\n", "carrier pigeon"),
    ] {
        let error = Scenario::parse("x", text).and_then(|s| s.run().map(|_| ())).unwrap_err().to_string();
        assert!(error.contains(want), "{text}: {error}");
    }
}

#[test]
fn the_result_as_json_names_pairs_and_those_left() {
    let (_, scenario) = scenarios().into_iter().find(|(name, _)| name == "s02-docker0-same-address").unwrap();
    let json = scenario.json(&scenario.run().unwrap());
    assert_eq!(json["pairs"], serde_json::json!([["eth0", "eth0"]]));
    assert_eq!(json["unmatched"], serde_json::json!({ "a": ["docker0"], "b": ["docker0"] }));
    assert_eq!((json["agreed"].as_bool(), json["as_expected"].as_bool()), (Some(true), Some(true)));
    let why = json["unused"][0]["why"].as_str().unwrap();
    assert!(why.contains("bridge without a port") && why.contains("172.17.0.1"), "{why}");
}
