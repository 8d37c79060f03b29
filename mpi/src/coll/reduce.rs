//! Reductions: trees and doubling of whole vectors, or of their parts, which are then collected.

use core::ops::Range;

use super::blocks::{Group, share};
use super::choice::{Allreduce, Reduce, ReduceScatter};
use super::circulant;
pub use super::facts::OpFacts;
use super::schedule::{Builder, Data, floor_power};

/// A running result, and room for the operand of another process. Operands that are to the right of
/// the result are combined in the room, which then changes places with it.
pub(super) struct Accumulator {
    pub acc: Data,
    pub tmp: Data,
    pub commutative: bool,
}

impl Accumulator {
    /// Combines the operand in the room, which is that of processes before those of the result.
    pub fn left(&mut self, b: &mut Builder) {
        b.reduce(self.tmp, self.acc);
    }

    /// Combines the operand in the room, which is that of processes behind those of the result.
    pub fn right(&mut self, b: &mut Builder) {
        if self.commutative {
            b.reduce(self.tmp, self.acc);
        } else {
            b.reduce(self.acc, self.tmp);
            core::mem::swap(&mut self.acc, &mut self.tmp);
        }
    }
}

/// Combines the vectors of all at the root, into `result` there.
///
/// `mine` is this process's operand. At a root whose operand is in place it is `result`.
pub fn reduce(b: &mut Builder, how: Reduce, root: usize, op: OpFacts, mine: Data, result: Option<Data>) {
    if how == Reduce::Rabenseifner && b.n > 1 {
        reduce_by_halves(b, root, mine, result);
    } else {
        reduce_tree(b, root, op, mine, result);
    }
}

fn reduce_tree(b: &mut Builder, root: usize, op: OpFacts, mine: Data, result: Option<Data>) {
    let n = b.n;
    // The order of operands is that of the ranks only from process 0 on.
    let top = if op.commutative { root } else { 0 };
    let rel = (b.me + n - top) % n;
    let real = |r: usize| (r + top) % n;
    let leaf = rel & 1 == 1 || rel + 1 >= n && n > 1;
    if n > 1 && leaf && rel != 0 {
        let mask = rel & rel.wrapping_neg();
        b.send(real(rel - mask), mine);
    } else {
        let acc = result.unwrap_or_else(|| b.room(mine.count, mine.elem));
        b.copy(mine, acc);
        let mut all = Accumulator { acc, tmp: acc, commutative: op.commutative };
        if n > 1 {
            all.tmp = b.room(mine.count, mine.elem);
        }
        let mut mask = 1;
        while mask < n && rel & mask == 0 {
            if rel + mask < n {
                b.recv(real(rel + mask), all.tmp);
                b.fence();
                all.right(b);
            }
            mask *= 2;
        }
        if rel != 0 {
            b.send(real(rel - mask), all.acc);
        } else if b.me != root {
            b.send(root, all.acc);
        } else if let Some(result) = result {
            b.copy(all.acc, result);
        }
    }
    if top != root
        && b.me == root
        && let Some(result) = result
    {
        // The operand that is sent may lie in the result's place.
        b.fence();
        b.recv(top, result);
    }
}

/// The first processes up to twice what is above a power of two form pairs, so that a power of two
/// takes part in what follows. Returns the place of a process there, by its own.
fn folded(n: usize) -> (usize, usize) {
    let power = floor_power(n);
    (power, n - power)
}

fn reduce_by_halves(b: &mut Builder, root: usize, mine: Data, result: Option<Data>) {
    let n = b.n;
    let rel = (b.me + n - root) % n;
    let real = |r: usize| (r + root) % n;
    let (power, rest) = folded(n);
    if rel < 2 * rest && rel % 2 == 1 {
        b.send(real(rel - 1), mine);
        return;
    }
    let acc = result.unwrap_or_else(|| b.room(mine.count, mine.elem));
    b.copy(mine, acc);
    let tmp = b.room(mine.count, mine.elem);
    if rel < 2 * rest {
        b.recv(real(rel + 1), tmp);
        b.fence();
        b.reduce(tmp, acc);
    }
    let place = if rel < 2 * rest { rel / 2 } else { rel - rest };
    let member = |p: usize| real(if p < rest { 2 * p } else { p + rest });
    let (acc, tmp) = (blocks(acc, power), blocks(tmp, power));
    Group { me: place, n: power, real: &member }.halving(b, &acc, &tmp);
    // The parts are collected as they were dealt out, towards place 0.
    let mut mask = 1;
    while mask < power {
        if place & mask != 0 {
            b.send(member(place - mask), acc(place..place + mask));
            return;
        }
        b.recv(member(place + mask), acc(place + mask..place + 2 * mask));
        b.fence();
        mask *= 2;
    }
}

/// Combines the vectors of all, for all, into `result`.
///
/// `mine` is this process's operand; it is `result` if it is in place. All processes combine the
/// same operands in the same order, so they get the same bits.
pub fn allreduce(b: &mut Builder, how: Allreduce, mine: Data, result: Data) {
    let (n, me) = (b.n, b.me);
    if n == 1 {
        b.copy(mine, result);
        return;
    }
    if matches!(how, Allreduce::Ring | Allreduce::Circulant) {
        return allreduce_blocks(b, how, mine, result);
    }
    let (power, rest) = folded(n);
    // Even ones of the first processes leave their operand to their neighbours.
    if me < 2 * rest && me % 2 == 0 {
        b.send(me + 1, mine);
        b.fence();
        b.recv(me + 1, result);
        return;
    }
    let place = if me < 2 * rest { me / 2 } else { me - rest };
    let member = |p: usize| if p < rest { 2 * p + 1 } else { p + rest };
    let room = b.room(result.count, result.elem);
    let divided = how == Allreduce::Rabenseifner;
    // Each operand from the right makes the buffers change places; the result ends in its own.
    let changes = power.ilog2() - place.count_ones();
    let (acc, tmp) = if divided || changes % 2 == 0 { (result, room) } else { (room, result) };
    b.copy(mine, acc);
    let mut all = Accumulator { acc, tmp, commutative: false };
    if me < 2 * rest {
        b.recv(me - 1, all.tmp);
        b.fence();
        all.left(b);
    }
    if divided {
        let group = Group { me: place, n: power, real: &member };
        let acc = blocks(acc, power);
        group.halving(b, &acc, &blocks(tmp, power));
        group.doubling(b, acc(place..place + 1), &acc);
    } else {
        let mut mask = 1;
        while mask < power {
            let peer = member(place ^ mask);
            b.exchange(peer, all.acc, peer, all.tmp);
            if place & mask == 0 {
                all.right(b)
            } else {
                all.left(b)
            }
            mask *= 2;
        }
    }
    if me < 2 * rest {
        b.send(me - 1, result);
    }
}

/// Each process combines one block of the vector, and gives it to all.
fn allreduce_blocks(b: &mut Builder, how: Allreduce, mine: Data, result: Data) {
    let n = b.n;
    let room = b.room(result.count, result.elem);
    let (from, acc, tmp) = (spread(mine, n), spread(result, n), spread(room, n));
    if how == Allreduce::Circulant {
        circulant::reduce_scatter(b, mine == result, &from, &acc, &tmp);
        circulant::allgather(b, &acc);
    } else {
        b.copy(mine, result);
        let group = Group { me: b.me, n, real: &|r| r };
        group.ring_reduce(b, &|i| acc(i..i + 1), &|i| tmp(i..i + 1));
        group.ring(b, acc(b.me..b.me + 1), &|i| acc(i..i + 1));
    }
}

/// Returns the ranges of a vector's parts, of which any number side by side has its share of the
/// elements, also if these are fewer than parts.
fn spread(d: Data, n: usize) -> impl Fn(Range<usize>) -> Data {
    let at = move |i: usize| (d.count as u128 * i as u128 / n as u128) as usize;
    move |r| d.range(at(r.start)..at(r.end))
}

/// Returns the ranges of a vector's parts that are dealt out to `n` processes.
fn blocks(d: Data, n: usize) -> impl Fn(Range<usize>) -> Data {
    move |r| d.range(share(d.count, n, r.start).start..share(d.count, n, r.end - 1).end)
}

/// Combines the vectors of all and gives block `i` to process `i`.
///
/// `mine` is this process's operand, with all blocks; `counts` are their elements. If it is `None`,
/// the operand is in `result`, whose start is replaced.
pub fn reduce_scatter(
    b: &mut Builder,
    how: ReduceScatter,
    mine: Option<Data>,
    result: Data,
    counts: &[usize],
) {
    let n = b.n;
    let mut ends = vec![0];
    ends.extend(counts.iter().scan(0, |end, c| {
        *end += c;
        Some(*end)
    }));
    let total = ends[n];
    let whole = mine.unwrap_or(result).part(0, total);
    let own = result.part(0, counts[b.me]);
    let block = |d: Data, i: usize| d.range(ends[i]..ends[i + 1]);
    if n == 1 {
        b.copy(whole, own);
        return;
    }
    let range = |d: Data| {
        let ends = ends.clone();
        move |r: Range<usize>| d.range(ends[r.start]..ends[r.end])
    };
    match how {
        ReduceScatter::Allreduce => {
            let all = b.room(total, result.elem);
            allreduce(b, Allreduce::Doubling, whole, all);
            b.fence();
            b.copy(block(all, b.me), own);
        }
        ReduceScatter::Halving => scatter_by_halves(b, whole, own, &ends),
        ReduceScatter::Pairwise => {
            let acc = if mine.is_some() { own } else { b.room(own.count, own.elem) };
            let tmp = b.room(own.count, own.elem);
            b.copy(block(whole, b.me), acc);
            for i in 1..n {
                let (to, from) = (b.after(i), b.before(i));
                b.exchange(to, block(whole, to), from, tmp);
                b.reduce(tmp, acc);
            }
            b.copy(acc, own);
        }
        ReduceScatter::Ring | ReduceScatter::Circulant => {
            let (acc, tmp) = (b.room(total, result.elem), b.room(total, result.elem));
            if how == ReduceScatter::Circulant {
                circulant::reduce_scatter(b, false, &range(whole), &range(acc), &range(tmp));
            } else {
                b.copy(whole, acc);
                let group = Group { me: b.me, n, real: &|r| r };
                group.ring_reduce(b, &|i| block(acc, i), &|i| block(tmp, i));
            }
            b.copy(block(acc, b.me), own);
        }
    }
}

fn scatter_by_halves(b: &mut Builder, whole: Data, own: Data, ends: &[usize]) {
    let (n, me) = (b.n, b.me);
    let (power, rest) = folded(n);
    if me < 2 * rest && me % 2 == 0 {
        b.send(me + 1, whole);
        b.fence();
        b.recv(me + 1, own);
        return;
    }
    let (acc, tmp) = (b.room(whole.count, whole.elem), b.room(whole.count, whole.elem));
    b.copy(whole, acc);
    if me < 2 * rest {
        b.recv(me - 1, tmp);
        b.fence();
        b.reduce(tmp, acc);
    }
    let place = if me < 2 * rest { me / 2 } else { me - rest };
    let member = |p: usize| if p < rest { 2 * p + 1 } else { p + rest };
    // A pair's blocks go together.
    let first = |p: usize| if p < rest { 2 * p } else { p + rest };
    let blocks = |d: Data| move |r: Range<usize>| d.range(ends[first(r.start)]..ends[first(r.end)]);
    Group { me: place, n: power, real: &member }.halving(b, &blocks(acc), &blocks(tmp));
    if me < 2 * rest {
        b.send(me - 1, acc.range(ends[me - 1]..ends[me]));
    }
    b.copy(acc.range(ends[me]..ends[me + 1]), own);
}
