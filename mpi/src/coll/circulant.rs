//! Circulant graphs: in each round process `r` sends to `r + d` and receives from `r - d`, for
//! distances `d` that halve, rounded up, from the number of processes to 1.
//!
//! Allgather and reduce_scatter need as many rounds as the logarithm, for any number of processes,
//! and move each block once. A broadcast in pieces needs one round more for each further piece
//! (Träff 2025, doi 10.1145/3735139).

use core::ops::Range;

use super::schedule::{Builder, Data};

/// Rounds in which one process reaches `n`: the logarithm, rounded up.
pub fn rounds_of(n: usize) -> usize {
    n.next_power_of_two().trailing_zeros() as usize
}

/// The distances from the greatest on, each with the one before it, which begins with `n`.
pub fn halved(n: usize) -> impl Iterator<Item = (usize, usize)> {
    let next = |(from, _): &(usize, usize)| (*from > 1).then(|| (from.div_ceil(2), *from));
    core::iter::successors((n > 1).then(|| (n.div_ceil(2), n)), next)
}

/// The blocks of `len` ranks from `first` on, around the end: one run or two.
fn runs(n: usize, first: usize, len: usize) -> [Range<usize>; 2] {
    let first = first % n;
    let end = first + len;
    [first..end.min(n), 0..end.saturating_sub(n)]
}

/// Does something with each run that is not empty.
fn each(runs: [Range<usize>; 2], f: impl FnMut(Range<usize>)) {
    runs.into_iter().filter(|r| !r.is_empty()).for_each(f);
}

/// The blocks of a number of ranks from one on.
struct Blocks<'a> {
    data: &'a dyn Fn(Range<usize>) -> Data,
    runs: [Range<usize>; 2],
}

impl Blocks<'_> {
    fn each(&self) -> impl Iterator<Item = Data> {
        self.runs.iter().filter(|r| !r.is_empty()).map(|r| (self.data)(r.clone()))
    }
}

/// Sends blocks to one process while it receives blocks from another.
fn exchange(b: &mut Builder, (to, from): (usize, usize), out: &Blocks<'_>, into: &Blocks<'_>) {
    into.each().for_each(|data| b.recv(from, data));
    out.each().for_each(|data| b.send(to, data));
    b.fence();
}

/// Gives each process the blocks of all, each of which is at its place at its owner.
///
/// `range` is the data of a range of blocks.
pub fn allgather(b: &mut Builder, range: &dyn Fn(Range<usize>) -> Data) {
    let (n, me) = (b.n, b.me);
    let mut distances: Vec<_> = halved(n).collect();
    distances.reverse();
    for (have, then) in distances {
        let peers = (b.before(have), b.after(have));
        let blocks = |first| Blocks { data: range, runs: runs(n, first, then - have) };
        exchange(b, peers, &blocks(me), &blocks(me + have));
    }
}

/// Combines all blocks; each process ends with its own. The operation must be commutative.
///
/// `mine` is this process's operand, `acc` and `tmp` are room for all blocks, by ranges of blocks.
/// `in_place`: the operand is in `acc`.
pub fn reduce_scatter(
    b: &mut Builder,
    in_place: bool,
    mine: &dyn Fn(Range<usize>) -> Data,
    acc: &dyn Fn(Range<usize>) -> Data,
    tmp: &dyn Fn(Range<usize>) -> Data,
) {
    let (n, me) = (b.n, b.me);
    for (i, (distance, before)) in halved(n).enumerate() {
        // The blocks for those at least that far away leave; the others get what comes.
        let len = before - distance;
        let (out, into) = (runs(n, me + distance, len), runs(n, me, len));
        let peers = (b.after(distance), b.before(distance));
        if i == 0 && !in_place {
            // The data that comes becomes the result, into which the own operand is combined.
            exchange(b, peers, &Blocks { data: mine, runs: out }, &Blocks { data: acc, runs: into.clone() });
            each(into, |run| b.reduce(mine(run.clone()), acc(run)));
            each(runs(n, me + len, distance - len), |run| b.copy(mine(run.clone()), acc(run)));
        } else {
            exchange(b, peers, &Blocks { data: acc, runs: out }, &Blocks { data: tmp, runs: into.clone() });
            each(into, |run| b.reduce(tmp(run.clone()), acc(run)));
        }
    }
}

/// The pieces that each process of a broadcast from process 0 receives, round by round.
struct Pieces {
    /// Distances from 1 to the number of processes.
    skips: Vec<usize>,
    /// Number of pieces.
    count: usize,
    /// Rounds that are left out at the start, so that the last piece comes in the last round.
    skipped: usize,
}

impl Pieces {
    fn new(n: usize, count: usize) -> Pieces {
        let mut skips: Vec<usize> = halved(n).map(|(d, _)| d).collect();
        skips.reverse();
        skips.push(n);
        let q = skips.len() - 1;
        Pieces { skips, count, skipped: (q - (count - 1) % q) % q }
    }

    fn q(&self) -> usize {
        self.skips.len() - 1
    }

    /// The rounds, with the place of their distance.
    fn rounds(&self) -> Range<usize> {
        self.skipped..self.count - 1 + self.q() + self.skipped
    }

    /// The first piece that a process receives, which is the place of the first distance on its way
    /// from process 0.
    fn first(&self, mut r: usize) -> usize {
        for k in (0..self.q()).rev() {
            if r == self.skips[k] {
                return k;
            }
            r -= if r > self.skips[k] { self.skips[k] } else { 0 };
        }
        self.q()
    }

    /// The pieces that a process receives in the rounds of a phase, relative to the phase: its
    /// first one is new, all others are of the phase before, and negative.
    fn of(&self, r: usize) -> Vec<i64> {
        let (q, first) = (self.q(), self.first(r));
        let mut search = Search {
            skips: &self.skips,
            goal: r + self.skips[q],
            free: (0..=q).map(|e| e != first).collect(),
            last: usize::MAX,
            found: Vec::with_capacity(q),
        };
        search.run(0, q);
        let piece = |e: usize| if e == q { first as i64 } else { e as i64 - q as i64 };
        search.found.into_iter().map(piece).collect()
    }

    /// The piece that a process with these pieces receives in a round; `None` if it has it already.
    fn received(&self, of: &[i64], round: usize) -> Option<usize> {
        let raw = |round: usize| {
            let (phase, k) = (round / self.q(), round % self.q());
            of[k] + (phase * self.q()) as i64 - self.skipped as i64
        };
        let last = self.count as i64 - 1;
        let piece = raw(round);
        if piece < last {
            return usize::try_from(piece).ok();
        }
        // All that would be behind the last piece are the last piece.
        let first = self.skipped.max(round.saturating_sub(2 * self.q()));
        (first..round).all(|earlier| raw(earlier) < last).then_some(self.count - 1)
    }
}

/// The search for the processes that what a process receives has come by: sums of distances, each
/// of which is used once, and which become smaller from round to round.
struct Search<'a> {
    skips: &'a [usize],
    /// The process, one time around.
    goal: usize,
    free: Vec<bool>,
    last: usize,
    found: Vec<usize>,
}

impl Search<'_> {
    /// Looks for sums that go on from `sum` with distances up to the one with the place `most`.
    fn run(&mut self, sum: usize, most: usize) {
        for e in (0..=most).rev() {
            let k = self.found.len();
            if k + 1 == self.skips.len() {
                return;
            }
            let next = sum + self.skips[e];
            if !self.free[e] || next > self.goal - self.skips[k] || next >= self.last {
                continue;
            }
            if next <= self.goal - self.skips[k + 1] {
                self.run(next, e);
            }
            let k = self.found.len();
            if k + 1 == self.skips.len() || sum > self.goal - self.skips[k + 1] {
                return;
            }
            self.last = next;
            self.found.push(e);
            self.free[e] = false;
        }
    }
}

/// Gives the root's data to all, in `count` pieces; `piece` is the data of one.
pub fn bcast(b: &mut Builder, root: usize, count: usize, piece: &dyn Fn(usize) -> Data) {
    let (n, rel) = (b.n, (b.me + b.n - root) % b.n);
    if n < 2 {
        return;
    }
    let pieces = Pieces::new(n, count);
    let q = pieces.q();
    let own = pieces.of(rel);
    let targets: Vec<_> = pieces.skips[..q].iter().map(|by| pieces.of((rel + by) % n)).collect();
    for round in pieces.rounds() {
        let by = pieces.skips[round % q];
        if rel != 0
            && let Some(i) = pieces.received(&own, round)
        {
            b.recv(b.before(by), piece(i));
        }
        if rel + by != n
            && let Some(i) = pieces.received(&targets[round % q], round)
        {
            b.send(b.after(by), piece(i));
        }
        b.fence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_has_what_it_sends_and_gets_each_piece_once() {
        let numbers = (2..130).chain([255, 256, 257, 1000, 1023]);
        for n in numbers {
            for count in [1, 2, 5, 17] {
                let pieces = Pieces::new(n, count);
                let of: Vec<_> = (0..n).map(|r| pieces.of(r)).collect();
                let mut has = vec![vec![false; count]; n];
                has[0].fill(true);
                for round in pieces.rounds() {
                    let by = pieces.skips[round % pieces.q()];
                    let got: Vec<_> = (1..n)
                        .filter_map(|r| pieces.received(&of[r], round).map(|piece| (r, piece)))
                        .collect();
                    for (r, piece) in &got {
                        assert!(has[(r + n - by) % n][*piece], "{n} {count}: {r} in {round}");
                        assert!(!has[*r][*piece], "{n} {count}: {r} has {piece} in {round}");
                    }
                    got.into_iter().for_each(|(r, piece)| has[r][piece] = true);
                }
                assert!(has.iter().flatten().all(|h| *h), "{n} {count}");
                assert_eq!(pieces.rounds().len(), count - 1 + rounds_of(n));
            }
        }
    }
}
