//! Reductions: a predefined operation, and one of the program whose operands must keep their order.

#![allow(unsafe_code)]

use std::sync::Arc;

use super::network::Network;
use super::{NODES, Process, RECV, able, cases, elem, int, named, on_nodes, packed, roots, run};
use crate::coll::choice::{self, Allreduce, Forced, Reduce, ReduceScatter, Setting};
use crate::coll::node_memory::LONG;
use crate::coll::reduce::OpFacts;
use crate::coll::shape::Shape;
use crate::coll::{Base, Builder, Data, Reducer, Schedule, reduce, scan};
use crate::datatype::basic::basic;
use crate::datatype::{Form, TypeDesc};
use crate::handle::Datatype;
use crate::op::{Builtin, Kernel, UserOp, kernel};

/// The composition of functions `x -> p x + q`, in wrapping numbers: associative, not commutative.
struct Compose;

fn compose(input: &[u8], inout: &mut [u8]) {
    let number = |b: &[u8]| u64::from_ne_bytes(b.try_into().unwrap());
    for (a, b) in input.chunks(16).zip(inout.chunks_mut(16)) {
        let (p, q) = (number(&a[..8]), number(&a[8..]));
        let (r, s) = (number(&b[..8]), number(&b[8..]));
        b[..8].copy_from_slice(&p.wrapping_mul(r).to_ne_bytes());
        b[8..].copy_from_slice(&p.wrapping_mul(s).wrapping_add(q).to_ne_bytes());
    }
}

impl UserOp for Compose {
    unsafe fn combine(&self, input: *const u8, inout: *mut u8, count: usize, datatype: Datatype) {
        assert_eq!(datatype, Datatype(4711));
        // SAFETY: the test's elements are 16 bytes each.
        let (input, inout) = unsafe {
            (
                core::slice::from_raw_parts(input, 16 * count),
                core::slice::from_raw_parts_mut(inout, 16 * count),
            )
        };
        compose(input, inout);
    }
}

/// The same for elements with eight bytes between them.
struct ComposeApart;

impl UserOp for ComposeApart {
    unsafe fn combine(&self, input: *const u8, inout: *mut u8, count: usize, datatype: Datatype) {
        assert_eq!(datatype, Datatype(4711));
        for at in (0..count).map(|i| 24 * i) {
            // SAFETY: the test's elements are 16 bytes each, and have 24 from one to the next.
            unsafe {
                let left = core::slice::from_raw_parts(input.add(at), 16);
                compose(left, core::slice::from_raw_parts_mut(inout.add(at), 16));
            }
        }
    }
}

/// One operation with its type and its definition.
struct Case {
    name: &'static str,
    ty: Arc<TypeDesc>,
    reducer: Reducer,
    facts: OpFacts,
    combine: fn(&[u8], &mut [u8]),
}

fn sum() -> Kernel {
    kernel(Builtin::Sum, basic(Datatype(0x4c00_0405)).unwrap()).unwrap()
}

fn operations() -> Vec<Case> {
    let two = TypeDesc::contiguous(2, &named(0x4c00_083e), Form::Int).unwrap();
    vec![
        Case {
            name: "sum",
            ty: int(),
            reducer: Reducer::Kernel(sum()),
            facts: OpFacts { commutative: true, divisible: true },
            combine: |a, b| sum().combine(a, b),
        },
        Case {
            name: "compose",
            ty: Arc::new(two),
            reducer: Reducer::User(Arc::new(Compose), Datatype(4711)),
            facts: OpFacts { commutative: false, divisible: false },
            combine: compose,
        },
    ]
}

impl Case {
    /// The combined operands of processes `from..to`, in order.
    fn of(&self, from: usize, to: usize, count: usize) -> Vec<u8> {
        let mut all = packed(to - 1, count, self.ty.size());
        for rank in (from..to - 1).rev() {
            (self.combine)(&packed(rank, count, self.ty.size()), &mut all);
        }
        all
    }

    fn process(
        &self,
        (me, n): (usize, usize),
        in_place: bool,
        count: usize,
        want: Option<Vec<u8>>,
        build: impl FnOnce(&mut Builder, Data, Data),
    ) -> Process {
        let e = elem(RECV, &self.ty);
        let result = Data::new(Base::Recv, count, e);
        let mine = if in_place { result } else { Data { base: Base::Send, ..result } };
        let mut b = Builder::new(me, n);
        build(&mut b, mine, result);
        let own = packed(me, count, self.ty.size());
        let recv = if in_place { own.clone() } else { packed(88, count, self.ty.size()) };
        let want = want.unwrap_or_else(|| recv.clone());
        let schedule: Schedule = b.finish();
        Process { schedule, send: own, recv, want }
    }

    /// The algorithms that can run it.
    fn ways<A: choice::Algorithm>(&self, n: usize, count: usize) -> Vec<A> {
        able(&choice::Case::reduces(n, count * self.ty.size(), count, self.facts))
    }

    fn run(&self, what: &str, all: Vec<Process>) {
        run(&format!("{} by {what}", self.name), &self.ty, &self.ty, &self.reducer, all);
    }
}

fn each(long: usize, mut f: impl FnMut(&Case, usize, usize, bool)) {
    for case in operations() {
        for (n, count) in cases(long, case.ty.size()) {
            // Long vectors make a difference only if they can be divided.
            let count = if case.facts.divisible { count } else { count.min(300) };
            for in_place in [false, true] {
                f(&case, n, count, in_place);
            }
        }
    }
}

#[test]
fn reduces() {
    each(20_000, |case, n, count, in_place| {
        let ways = case.ways::<Reduce>(n, count);
        for (root, how) in roots(n).into_iter().flat_map(|r| ways.iter().map(move |how| (r, *how))) {
            let process = |me| {
                let want = (me == root).then(|| case.of(0, n, count));
                // Other processes have no result, and nothing in place.
                case.process((me, n), in_place && me == root, count, want, |b, mine, result| {
                    reduce::reduce(b, how, root, case.facts, mine, (me == root).then_some(result));
                })
            };
            let what = format!("reduce of {count} at {root} of {n}, {in_place}, {how:?}");
            case.run(&what, (0..n).map(process).collect());
        }
    });
}

#[test]
fn allreduces() {
    each(20_000, |case, n, count, in_place| {
        for how in case.ways::<Allreduce>(n, count) {
            let process = |me| {
                case.process((me, n), in_place, count, Some(case.of(0, n, count)), |b, mine, result| {
                    reduce::allreduce(b, how, mine, result);
                })
            };
            let what = format!("allreduce of {count}, {n}, {in_place}, {how:?}");
            case.run(&what, (0..n).map(process).collect());
        }
    });
}

#[test]
fn reductions_by_leaders_of_nodes() {
    for case in operations() {
        for ((n, starts), count) in NODES.into_iter().flat_map(|nodes| [1, 3, 300].map(|c| (nodes, c))) {
            let setting = on_nodes(n, starts);
            for (root, in_place) in (0..n).flat_map(|root| [(root, false), (root, true)]) {
                let process = |me| {
                    let want = (me == root).then(|| case.of(0, n, count));
                    case.process((me, n), in_place && me == root, count, want, |b, mine, result| {
                        let result = (me == root).then_some(result);
                        Shape::Reduce { root, op: case.facts, mine, result }.build(b, &setting);
                    })
                };
                let what = format!("reduce of {count} at {root} of {n} by leaders, {in_place}");
                case.run(&what, (0..n).map(process).collect());
            }
            for in_place in [false, true] {
                let process = |me| {
                    let want = Some(case.of(0, n, count));
                    case.process((me, n), in_place, count, want, |b, mine, result| {
                        Shape::Allreduce { op: case.facts, mine, result }.build(b, &setting);
                    })
                };
                let what = format!("allreduce of {count}, {n}, by leaders, {in_place}");
                case.run(&what, (0..n).map(process).collect());
            }
        }
    }
}

#[test]
fn scans() {
    each(20_000, |case, n, count, in_place| {
        let process = |me| {
            case.process((me, n), in_place, count, Some(case.of(0, me + 1, count)), |b, mine, result| {
                scan::scan(b, case.facts, mine, result);
            })
        };
        case.run(&format!("scan of {count}, {n}, {in_place}"), (0..n).map(process).collect());
        let process = |me| {
            let want = (me > 0).then(|| case.of(0, me, count));
            case.process((me, n), in_place, count, want, |b, mine, result| {
                scan::exscan(b, case.facts, mine, result);
            })
        };
        case.run(&format!("exscan of {count}, {n}, {in_place}"), (0..n).map(process).collect());
    });
}

#[test]
fn reduce_scatters() {
    each(96_000, |case, n, count, in_place| {
        // Blocks of different lengths, some empty.
        let counts: Vec<usize> = (0..n).map(|i| [count, 0, count / 2 + 1, 1][(i * 3 + 1) % 4]).collect();
        let total = counts.iter().sum();
        let all = case.of(0, n, total);
        let size = case.ty.size();
        for how in case.ways::<ReduceScatter>(n, total) {
            let process = |me: usize| {
                let mut p = case.process((me, n), in_place, total, None, |b, mine, result| {
                    let mine = (!in_place).then_some(mine);
                    reduce::reduce_scatter(b, how, mine, result, &counts);
                });
                let before: usize = counts[..me].iter().sum();
                let own = &all[before * size..(before + counts[me]) * size];
                p.want[..own.len()].copy_from_slice(own);
                p
            };
            let what = format!("reduce_scatter of {count}, {n}, {in_place}, {how:?}");
            case.run(&what, (0..n).map(process).collect());
        }
    });
}

/// The case of elements with gaps.
fn compose_apart() -> Case {
    let two = TypeDesc::contiguous(2, &named(0x4c00_083e), Form::Int).unwrap();
    Case {
        name: "compose of elements apart",
        ty: Arc::new(TypeDesc::resized(0, 24, &Arc::new(two), Form::Int).unwrap()),
        reducer: Reducer::User(Arc::new(ComposeApart), Datatype(4711)),
        facts: OpFacts { commutative: false, divisible: false },
        combine: compose,
    }
}

/// Vectors that need more pieces than there are slots, and blocks that no number of pieces divides.
#[test]
fn long_vectors_are_dealt_out_in_slots() {
    let all = operations().into_iter().chain([compose_apart()]);
    for (case, n) in all.flat_map(|case| {
        [3, 5, 8, 20].map(|n| (Case { ty: Arc::clone(&case.ty), reducer: case.reducer.clone(), ..case }, n))
    }) {
        let setting = Setting { shared: true, ..Setting::unknown(n, Forced::default()) };
        let long = (if n == 20 { 3 } else { 10 }) * LONG / case.ty.size() / n;
        let equal = vec![long + 1; n];
        let unequal = (0..n).map(|r| [0, 1, 2 * long + 3, long / 3][r % 4]).collect();
        let single = (0..n).map(|r| if r == n - 2 { n * long + 5 } else { 0 }).collect();
        for (counts, in_place) in [equal, unequal, single].iter().flat_map(|c| [(c, false), (c, true)]) {
            let total = counts.iter().sum();
            let combined = case.of(0, n, total);
            let process = |me| {
                let before: usize = counts[..me].iter().sum();
                let at = before * case.ty.size()..(before + counts[me]) * case.ty.size();
                let mut want = packed(if in_place { me } else { 88 }, total, case.ty.size());
                want[..at.len()].copy_from_slice(&combined[at]);
                let process = case.process((me, n), in_place, total, Some(want), |b, mine, result| {
                    let (op, counts) = (case.facts, counts.clone());
                    let mine = Some(mine).filter(|_| !in_place);
                    Shape::ReduceScatter { op, mine, result, counts }.build(b, &setting);
                });
                assert!(
                    process.schedule.slots > 1,
                    "{} of {n}: it is in one piece, or by messages",
                    case.name
                );
                process
            };
            let what = format!("{} dealt out of {total} by {n}, in place: {in_place}", case.name);
            let types = [named(0x4c00_010d), Arc::clone(&case.ty), Arc::clone(&case.ty)];
            Network::new(&what, n).in_memory(2).run(&types, &case.reducer, (0..n).map(process).collect());
        }
    }
}
