//! Operations that move data.

use super::{COUNTS, Process, RECV, SEND, able, cases, elem, gappy, int, packed, pair_of_ints, roots, run};
use crate::coll::choice::{Allgather, Alltoall, Bcast, Case, Gather, Scatter};
use crate::coll::{Base, Builder, Data, Reducer, Schedule, allgather, alltoall, barrier, bcast, gather};
use crate::datatype::TypeDesc;
use std::sync::Arc;

/// Pairs of types with equal signatures: one element of the first is `ratio` of the second.
fn types() -> Vec<(Arc<TypeDesc>, Arc<TypeDesc>, usize)> {
    vec![(int(), int(), 1), (gappy(), gappy(), 1), (pair_of_ints(), gappy(), 1), (gappy(), int(), 2)]
}

fn built(me: usize, n: usize, f: impl FnOnce(&mut Builder)) -> Schedule {
    let mut b = Builder::new(me, n);
    f(&mut b);
    b.finish()
}

#[test]
fn barriers_end() {
    for n in 1..=17 {
        let process = |me| {
            let schedule = built(me, n, barrier::barrier);
            Process { schedule, send: vec![], recv: vec![], want: vec![] }
        };
        run("barrier", &int(), &int(), &Reducer::None, (0..n).map(process).collect());
    }
}

#[test]
fn nobody_leaves_a_barrier_before_all_have_come() {
    // Each process hears, directly or not, from each other one.
    for n in 1..=17usize {
        let schedules: Vec<Schedule> = (0..n).map(|me| built(me, n, barrier::barrier)).collect();
        let mut heard: Vec<u32> = (0..n).map(|me| 1 << me).collect();
        let rounds = schedules[0].steps.split(|s| *s == crate::coll::Step::Fence).count();
        for round in 0..rounds {
            let before = heard.clone();
            for (me, s) in schedules.iter().enumerate() {
                let part = s.steps.split(|s| *s == crate::coll::Step::Fence).nth(round);
                for step in part.unwrap_or(&[]) {
                    if let crate::coll::Step::Recv { from, .. } = step {
                        heard[me] |= before[*from as usize];
                    }
                }
            }
        }
        assert!(heard.iter().all(|h| *h == (1u32 << n) - 1), "{n} processes: {heard:?}");
    }
}

#[test]
fn bcasts() {
    for (_, ty, _) in types() {
        for (n, count) in cases(36_000, ty.size()) {
            let size = ty.size();
            let ways = able::<Bcast>(&Case::moves(n, count * size));
            for (root, how) in roots(n).into_iter().flat_map(|r| ways.iter().map(move |how| (r, *how))) {
                // Some that divide the message evenly, and more than it has bytes.
                let parts = [1, 3, 16, 90][(n + count + root) % 4];
                let process = |me| Process {
                    schedule: built(me, n, |b| {
                        bcast::bcast(b, how, parts, root, Data::new(Base::Recv, count, elem(RECV, &ty)));
                    }),
                    send: vec![],
                    recv: packed(me, count, size),
                    want: packed(root, count, size),
                };
                let what = format!("bcast of {count} of {size} bytes from {root} of {n}, {how:?}, {parts}");
                run(&what, &ty, &ty, &Reducer::None, (0..n).map(process).collect());
            }
        }
    }
}

/// The blocks in a row.
fn joined(blocks: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    blocks.collect::<Vec<_>>().concat()
}

/// The packed blocks of a process for all processes.
fn pieces(me: usize, n: usize, count: usize, size: usize) -> Vec<u8> {
    joined((0..n).map(|to| packed(me * 100 + to, count, size)))
}

#[test]
fn gathers_and_scatters() {
    for (s, r, ratio) in types() {
        for (n, count) in cases(12_000, s.size()) {
            for (root, in_place) in roots(n).into_iter().flat_map(|r| [(r, false), (r, true)]) {
                let (size, e) = (s.size(), (elem(SEND, &s), elem(RECV, &r)));
                let all = joined((0..n).map(|i| packed(i, count, size)));
                let own = |me: usize| packed(me, count, size);
                let what = |op| format!("{op} of {count} of {size} bytes, {root} of {n}, {in_place}");
                let how = [Gather::Binomial, Gather::Linear][(n + root / 2) % 2];
                let back = [Scatter::Binomial, Scatter::Linear][(n + root / 2) % 2];
                // Gather: the root has a receive buffer of all blocks.
                let process = |me| {
                    let mine = (me != root || !in_place).then(|| Data::new(Base::Send, count, e.0));
                    let blocks = (me == root).then(|| Data::new(Base::Recv, count * ratio, e.1));
                    let mut recv = pieces(77, n, count, size);
                    let at = root * count * size;
                    recv[at..at + count * size].copy_from_slice(&own(root));
                    let recv = if me == root { recv } else { vec![] };
                    let want = if me == root { all.clone() } else { vec![] };
                    let schedule = built(me, n, |b| gather::gather(b, how, root, mine, blocks));
                    Process { schedule, send: own(me), recv, want }
                };
                run(&what("gather"), &s, &r, &Reducer::None, (0..n).map(process).collect());
                let process = |me| {
                    let blocks = (me == root).then(|| Data::new(Base::Send, count, e.0));
                    let mine = (me != root || !in_place).then(|| Data::new(Base::Recv, count * ratio, e.1));
                    let send = if me == root { all.clone() } else { vec![] };
                    let recv = packed(55, count, size);
                    let want = if mine.is_some() { own(me) } else { recv.clone() };
                    let schedule = built(me, n, |b| gather::scatter(b, back, root, blocks, mine));
                    Process { schedule, send, recv, want }
                };
                run(&what("scatter"), &s, &r, &Reducer::None, (0..n).map(process).collect());
            }
        }
    }
}

/// Elements of each process in the forms with counts, and where its block begins, with gaps.
fn uneven(n: usize, count: usize) -> (Vec<usize>, Vec<usize>) {
    let counts: Vec<usize> =
        (0..n).map(|i| if count == 0 { 0 } else { (i * 5 + 3) % 7 * count / 3 }).collect();
    let mut at = 1;
    let mut displs: Vec<usize> = Vec::new();
    for c in counts.iter().rev() {
        displs.push(at);
        at += c + 1;
    }
    displs.reverse();
    (counts, displs)
}

/// Blocks in a buffer, in elements of the given type.
fn blocks(base: Base, counts: &[usize], displs: &[usize], e: crate::coll::Elem) -> Vec<Data> {
    let whole = Data::new(base, 0, e);
    counts.iter().zip(displs).map(|(c, d)| whole.part(*d, *c)).collect()
}

/// A packed buffer with blocks at their places, and other bytes between them.
fn placed(
    counts: &[usize],
    displs: &[usize],
    size: usize,
    block: impl Fn(usize) -> Option<Vec<u8>>,
) -> Vec<u8> {
    let len = counts.iter().zip(displs).map(|(c, d)| c + d).max().unwrap_or(0) + 1;
    let mut all = packed(999, len, size);
    for (i, (c, d)) in counts.iter().zip(displs).enumerate() {
        if let Some(data) = block(i) {
            all[d * size..(d + c) * size].copy_from_slice(&data);
        }
    }
    all
}

#[test]
fn operations_with_counts() {
    for (s, r) in [(int(), int()), (pair_of_ints(), gappy())] {
        for (n, count) in cases(9600, s.size()) {
            let (counts, displs) = uneven(n, count);
            let (size, e) = (s.size(), (elem(SEND, &s), elem(RECV, &r)));
            let own = |me: usize| packed(me, counts[me], size);
            let every = placed(&counts, &displs, size, |i| Some(own(i)));
            for (root, in_place) in roots(n).into_iter().flat_map(|r| [(r, false), (r, true)]) {
                let what = |op| format!("{op}, {count} of {size} bytes, {root} of {n}, {in_place}");
                let process = |me| {
                    let mine = (me != root || !in_place).then(|| Data::new(Base::Send, counts[me], e.0));
                    let at_root = if me == root { blocks(Base::Recv, &counts, &displs, e.1) } else { vec![] };
                    let only = |i| (i == root && in_place).then(|| own(i));
                    let recv = if me == root { placed(&counts, &displs, size, only) } else { vec![] };
                    let want = if me == root { every.clone() } else { vec![] };
                    let schedule = built(me, n, |b| gather::gatherv(b, root, mine, &at_root));
                    Process { schedule, send: own(me), recv, want }
                };
                run(&what("gatherv"), &s, &r, &Reducer::None, (0..n).map(process).collect());
                let process = |me| {
                    let mine = (me != root || !in_place).then(|| Data::new(Base::Recv, counts[me], e.1));
                    let at_root = if me == root { blocks(Base::Send, &counts, &displs, e.0) } else { vec![] };
                    let recv = packed(55, counts[me], size);
                    let want = if mine.is_some() { own(me) } else { recv.clone() };
                    let send = if me == root { every.clone() } else { vec![] };
                    let schedule = built(me, n, |b| gather::scatterv(b, root, &at_root, mine));
                    Process { schedule, send, recv, want }
                };
                run(&what("scatterv"), &s, &r, &Reducer::None, (0..n).map(process).collect());
            }
            let ways = able::<Allgather>(&Case { uniform: false, ..Case::moves(n, 1) });
            for (in_place, how) in ways.iter().flat_map(|how| [(false, *how), (true, *how)]) {
                let process = |me| {
                    let mine = (!in_place).then(|| Data::new(Base::Send, counts[me], e.0));
                    let all = blocks(Base::Recv, &counts, &displs, e.1);
                    let recv = placed(&counts, &displs, size, |i| (i == me && in_place).then(|| own(i)));
                    let schedule = built(me, n, |b| allgather::allgatherv(b, how, mine, &all));
                    Process { schedule, send: own(me), recv, want: every.clone() }
                };
                let what = format!("allgatherv, {count} of {size} bytes, {n}, {in_place}, {how:?}");
                run(&what, &s, &r, &Reducer::None, (0..n).map(process).collect());
            }
        }
    }
}

#[test]
fn allgathers() {
    for (s, r, ratio) in types() {
        for ((n, count), in_place) in
            cases(36_000, s.size()).into_iter().flat_map(|c| [(c, false), (c, true)])
        {
            let (size, e) = (s.size(), (elem(SEND, &s), elem(RECV, &r)));
            let all = joined((0..n).map(|i| packed(i, count, size)));
            for how in able::<Allgather>(&Case::moves(n, count * size)) {
                let process = |me| {
                    let mine = (!in_place).then(|| Data::new(Base::Send, count, e.0));
                    let into = Data::new(Base::Recv, count * ratio, e.1);
                    let own = packed(me, count, size);
                    let mut recv = pieces(77, n, count, size);
                    recv[me * count * size..(me + 1) * count * size].copy_from_slice(&own);
                    let schedule = built(me, n, |b| allgather::allgather(b, how, mine, into));
                    Process { schedule, send: own, recv, want: all.clone() }
                };
                let what = format!("allgather of {count} of {size} bytes, {n}, {in_place}, {how:?}");
                run(&what, &s, &r, &Reducer::None, (0..n).map(process).collect());
            }
        }
    }
}

#[test]
fn alltoalls() {
    for (s, r, ratio) in types() {
        for ((n, count), in_place) in
            cases(36_000, s.size()).into_iter().flat_map(|c| [(c, false), (c, true)])
        {
            let (size, e) = (s.size(), (elem(SEND, &s), elem(RECV, &r)));
            for how in able::<Alltoall>(&Case::moves(n, count * size)) {
                let process = |me| {
                    let from = (!in_place).then(|| Data::new(Base::Send, count, e.0));
                    let into = Data::new(Base::Recv, count * ratio, e.1);
                    let mine = pieces(me, n, count, size);
                    let recv = if in_place { mine.clone() } else { pieces(77, n, count, size) };
                    let want = joined((0..n).map(|of| packed(of * 100 + me, count, size)));
                    let schedule = built(me, n, |b| alltoall::alltoall(b, how, from, into));
                    Process { schedule, send: mine, recv, want }
                };
                let what = format!("alltoall of {count} of {size} bytes, {n}, {in_place}, {how:?}");
                run(&what, &s, &r, &Reducer::None, (0..n).map(process).collect());
            }
        }
    }
}

#[test]
fn alltoalls_with_counts() {
    for (s, r) in [(int(), int()), (pair_of_ints(), gappy())] {
        for (n, count) in (1..=17).flat_map(|n| COUNTS.map(|c| (n, c))).chain([(40, 3)]) {
            let (size, e) = (s.size(), (elem(SEND, &s), elem(RECV, &r)));
            for in_place in [false, true] {
                // In place the counts of a pair are equal.
                let between = |from: usize, to: usize| {
                    let x = if in_place { from * to } else { from * 3 + to };
                    if count == 0 { 0 } else { x % 4 * count / 2 }
                };
                let data = |from: usize, to: usize| packed(from * 100 + to, between(from, to), size);
                let process = |me: usize| {
                    let gaps = |counts: &[usize]| {
                        (0..n).map(|i| counts[..i].iter().map(|c| c + 1).sum()).collect::<Vec<usize>>()
                    };
                    let out: Vec<usize> = (0..n).map(|to| between(me, to)).collect();
                    let got: Vec<usize> = (0..n).map(|from| between(from, me)).collect();
                    let (out_at, got_at) = (gaps(&out), gaps(&got));
                    let from = blocks(Base::Send, &out, &out_at, e.0);
                    let into = blocks(Base::Recv, &got, &got_at, e.1);
                    let send = placed(&out, &out_at, size, |to| Some(data(me, to)));
                    let recv = placed(&got, &got_at, size, |to| in_place.then(|| data(me, to)));
                    let want = placed(&got, &got_at, size, |of| Some(data(of, me)));
                    let from = (!in_place).then_some(&from[..]);
                    let schedule = built(me, n, |b| alltoall::alltoallv(b, from, &into));
                    Process { schedule, send, recv, want }
                };
                let what = format!("alltoallv, {count} of {size} bytes, {n}, {in_place}");
                run(&what, &s, &r, &Reducer::None, (0..n).map(process).collect());
            }
        }
    }
}
