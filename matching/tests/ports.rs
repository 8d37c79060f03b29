//! The pairing of endpoints that are no IP interfaces: ports of InfiniBand adapters, by subnet and
//! partition key.

use netmod_matching::graph::{Decided, Edge, Endpoint, Limits, Verdict, decide};
use netmod_matching::{Class, MAX_ENDPOINTS, Packing, Weight};
use std::num::NonZeroU32;

#[derive(Clone, Debug)]
struct Port {
    name: String,
    subnet_prefix: u64,
    pkey: u16,
    rate: u32,
    active: bool,
    /// Reachable through routers of the fabric.
    routed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    NotActive,
    OtherSubnet,
    OtherPartition,
}

impl Endpoint for Port {
    type Key<'a> = &'a str;
    type Reason = Why;

    fn key(&self) -> &str {
        &self.name
    }
    fn label(&self) -> &str {
        &self.name
    }
    fn second_tier(&self) -> Option<&'static str> {
        None
    }
    fn speed(&self) -> Option<u32> {
        Some(self.rate)
    }
    fn mtu(&self) -> Option<u32> {
        Some(4096)
    }
    fn unusable(&self) -> Option<Why> {
        (!self.active).then_some(Why::NotActive)
    }
}

fn edge(a: &Port, b: &Port) -> Result<Edge<(), Why>, Why> {
    if a.pkey & 0x7FFF != b.pkey & 0x7FFF {
        return Err(Why::OtherPartition);
    }
    let class = match a.subnet_prefix == b.subnet_prefix {
        true => Class::OnLink,
        false if a.routed && b.routed => Class::Gateway,
        false => return Err(Why::OtherSubnet),
    };
    Ok(Edge { class, last_resort: None, route: () })
}

fn port(name: &str, subnet_prefix: u64, pkey: u16, rate: u32) -> Port {
    Port { name: name.into(), subnet_prefix, pkey, rate, active: true, routed: false }
}

fn names(a: &[Port], b: &[Port], decided: &Decided<(), Why>) -> Vec<(String, String)> {
    decided.pairs.iter().map(|p| (a[p.left].name.clone(), b[p.right].name.clone())).collect()
}

#[test]
fn ports_are_paired_by_subnet_partition_and_rate() {
    let a = [
        port("mlx5_1", 0xFE80_0000_0000_0002, 0xFFFF, 200_000),
        port("mlx5_0", 0xFE80_0000_0000_0001, 0xFFFF, 400_000),
        port("mlx5_2", 0xFE80_0000_0000_0001, 0x8001, 400_000),
        Port { active: false, ..port("mlx5_3", 0xFE80_0000_0000_0001, 0xFFFF, 400_000) },
    ];
    let b = [
        port("ib0", 0xFE80_0000_0000_0002, 0x7FFF, 200_000),
        port("ib1", 0xFE80_0000_0000_0001, 0x7FFF, 400_000),
        port("ib2", 0xFE80_0000_0000_0003, 0x0001, 400_000),
    ];
    let decided = decide(&a, &b, &Limits::default(), edge);
    let want = [("mlx5_0", "ib1"), ("mlx5_1", "ib0")].map(|(l, r)| (l.to_owned(), r.to_owned()));
    assert_eq!(names(&a, &b, &decided), want);
    assert_eq!(decided.verdict(0, 0), Verdict::Paired);
    assert_eq!(decided.verdict(2, 2), Verdict::Impossible(Why::OtherSubnet));
    assert_eq!(decided.verdict(2, 0), Verdict::Impossible(Why::OtherPartition));
    assert_eq!(decided.verdict(3, 1), Verdict::OwnUnusable(Why::NotActive));
    assert_eq!(decided.verdict(9, 1), Verdict::Beyond);
    // Routers of the fabric join different subnets; a direct route is worth more.
    let mut routed = (a, b);
    routed.0.iter_mut().chain(&mut routed.1).for_each(|p| p.routed = true);
    let decided = decide(&routed.0, &routed.1, &Limits::default(), edge);
    assert_eq!(decided.pairs.len(), 3);
    assert_eq!(decided.pairs[2].weight, Weight::new(Class::Gateway, [Some(400_000); 2], [Some(4096); 2]));
}

#[test]
fn of_more_than_are_considered_the_fastest_are() {
    let many: Vec<Port> =
        (0..MAX_ENDPOINTS as u32 + 9).map(|i| port(&format!("p{i:04}"), 1, 0xFFFF, 1000 + i)).collect();
    // The pair is as fast as the slowest port that is considered.
    let one = [port("one", 1, 0xFFFF, 1009)];
    let decided = decide(&many, &one, &Limits::default(), edge);
    assert_eq!(decided.pairs.len(), 1);
    assert_eq!(decided.pairs[0].left, 9);
    assert_eq!(decided.verdict(8, 0), Verdict::Beyond);
}

/// Returns the best sum of exactly `k` pairs, by trying all.
fn best(weights: &[Vec<Option<u64>>], row: usize, used: u32, k: usize) -> Option<u64> {
    if k == 0 {
        return Some(0);
    }
    let cells = weights.get(row)?;
    let mut most = best(weights, row + 1, used, k);
    for (column, weight) in cells.iter().enumerate() {
        if let Some(weight) = weight
            && used & 1 << column == 0
            && let Some(rest) = best(weights, row + 1, used | 1 << column, k - 1)
        {
            most = most.max(Some(weight + rest));
        }
    }
    most
}

/// The best set of a limited number of rails need not be part of a largest set.
#[test]
fn limited_rails_are_the_best_set_of_that_size() {
    let mut state = 7u64;
    let mut random = move |n: u64| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (state >> 33) % n
    };
    for _ in 0..400 {
        let side = |random: &mut dyn FnMut(u64) -> u64| -> Vec<Port> {
            (0..1 + random(5)).map(|i| port(&format!("{i}"), random(2), 1, 1 + random(4) as u32)).collect()
        };
        let (a, b) = (side(&mut random), side(&mut random));
        let weights: Vec<Vec<Option<Weight>>> = a
            .iter()
            .map(|l| {
                let weight = |e: Edge<(), Why>, r: &Port| {
                    Weight::new(e.class, [l.speed(), r.speed()], [l.mtu(), r.mtu()])
                };
                b.iter().map(|r| edge(l, r).ok().map(|e| weight(e, r))).collect()
            })
            .collect();
        let packing = Packing::new(5, weights.iter().flatten().flatten().copied());
        let weights: Vec<Vec<Option<u64>>> =
            weights.iter().map(|row| row.iter().map(|w| w.map(|w| packing.pack(w))).collect()).collect();
        let all = decide(&a, &b, &Limits::default(), edge);
        for rails in 1..=5 {
            let limits = Limits { max_rails: NonZeroU32::new(rails), ..Limits::default() };
            let decided = decide(&a, &b, &limits, edge);
            let k = all.pairs.len().min(rails as usize);
            assert_eq!(decided.pairs.len(), k);
            let sum: u64 = decided.pairs.iter().map(|p| packing.pack(p.weight)).sum();
            assert_eq!(Some(sum), best(&weights, 0, 0, k), "{a:?} {b:?}");
        }
    }
}

#[test]
fn pairs_known_to_be_slow_do_not_take_part() {
    let a = [port("a0", 1, 1, 100_000), port("a1", 1, 1, 1000), port("a2", 1, 1, 25_000)];
    let b = [port("b0", 1, 1, 100_000), port("b1", 1, 1, 1000), port("b2", 1, 1, 100_000)];
    let limits = Limits { speed_ratio: NonZeroU32::new(4), ..Limits::default() };
    let decided = decide(&a, &b, &limits, edge);
    let want = [("a0", "b0"), ("a2", "b2")].map(|(l, r)| (l.to_owned(), r.to_owned()));
    assert_eq!(names(&a, &b, &decided), want);
    assert_eq!(decided.verdict(1, 1), Verdict::TooSlow { speed: 1000, fastest: 100_000 });
    // A port that does not report its speed (0 here) is not known to be slow.
    let quiet = [port("a0", 1, 1, 100_000), port("a1", 1, 1, 0)];
    assert_eq!(decide(&quiet, &b, &limits, edge).pairs.len(), 2);
}
