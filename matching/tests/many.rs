//! Hosts with hundreds of interfaces: all are considered, in about the time of the assignment
//! itself.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use netmod_matching::table::Table;
use netmod_matching::{Address, Host, Location, Nic, Rules, Side, Verdict, Weights, assign, pair, wire};

const MANY: u32 = 300;

/// A host with `nics` rails, each in a subnet of its own, of a few speeds.
fn host(last: u8, nics: u32) -> Host {
    let nic = |i: u32| Nic {
        name: format!("e{i}"),
        index: i + 1,
        addresses: vec![Address { ip: IpAddr::from([10, (i / 256) as u8, i as u8, last]), prefix: 24 }],
        speed: Some([1000, 10_000, 25_000, 100_000][i as usize % 4]),
        mtu: 1500,
        up: true,
        carrier: true,
        ..Nic::default()
    };
    let mut host = Host {
        location: Location { boot: [last; 16], netns: 1 },
        nics: (0..nics).map(nic).collect(),
        ..Host::default()
    };
    let mut table = Table::connected(&host);
    host.ask(&mut table);
    // The view of its peers.
    wire::parse(&wire::encode(&host)).unwrap()
}

#[test]
fn three_hundred_interfaces_a_side_are_all_paired_and_the_rest_explained() {
    let (a, b) = (host(1, MANY + 5), host(2, MANY));
    let result = pair(&Side { name: b"a", host: &a }, &Side { name: b"b", host: &b }, &Rules::default());
    assert_eq!(result.pairs.len(), MANY as usize);
    assert!(result.pairs.iter().all(|p| p.own_index == p.peer_index));
    assert!((0..a.nics.len()).all(|o| (0..b.nics.len()).all(|p| result.verdict(o, p) != Verdict::Beyond)));
    let why = result.explain();
    assert_eq!(why.unused.len(), 5);
    assert!(why.unused.iter().all(|u| u.why.contains("no route")), "{:?}", why.unused);
}

#[test]
fn pairing_hundreds_costs_a_few_times_the_assignment_alone() {
    let (a, b) = (host(1, MANY), host(2, MANY));
    // A hard assignment of that size: all rows want the same columns.
    let mut weights = Weights::new(MANY as usize, MANY as usize);
    for row in 0..MANY as usize {
        for col in 0..MANY as usize {
            weights.set(row, col, Some((row * col) as u64));
        }
    }
    let timed = |f: &dyn Fn() -> usize| -> Duration {
        let begun = Instant::now();
        assert_eq!(f(), MANY as usize);
        begun.elapsed()
    };
    // The best of several alternating rounds, against noise.
    let (mut alone, mut whole) = (Duration::MAX, Duration::MAX);
    for _ in 0..7 {
        alone = alone.min(timed(&|| assign(&weights).len()));
        whole = whole.min(timed(&|| {
            pair(&Side { name: b"a", host: &a }, &Side { name: b"b", host: &b }, &Rules::default())
                .pairs
                .len()
        }));
    }
    println!("assignment {alone:?}, pairing {whole:?}");
    assert!(whole < alone * 10, "{whole:?} beside {alone:?}");
}
