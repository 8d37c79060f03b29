//! Blocks: one part of the data for each process of a group. Ways to collect and to reduce them.
//!
//! The group may be a part of the communicator, and in another order: `real` gives the rank of its
//! member.

use core::ops::Range;

use super::schedule::{Builder, Data};

/// A group in which a block belongs to each process.
pub struct Group<'a> {
    /// Place of this process.
    pub me: usize,
    /// Number of processes.
    pub n: usize,
    /// Rank of a process in the communicator.
    pub real: &'a dyn Fn(usize) -> usize,
}

impl Group<'_> {
    /// Gives each process the blocks of all, each of which is at its place at its owner: a ring.
    ///
    /// In each of `n - 1` steps a block goes to the next process.
    ///
    /// `own` is this process's block, which is copied to its place meanwhile.
    pub fn ring(&self, b: &mut Builder, own: Data, block: &dyn Fn(usize) -> Data) {
        if self.n == 1 {
            b.copy(own, block(self.me));
        }
        let (next, prev) = ((self.me + 1) % self.n, (self.me + self.n - 1) % self.n);
        for step in 0..self.n - 1 {
            let out = (self.me + self.n - step) % self.n;
            let into = (self.me + self.n - step - 1) % self.n;
            let (to, from) = ((self.real)(next), (self.real)(prev));
            if step == 0 {
                b.exchange_beside(to, own, from, block(into), (own, block(self.me)));
            } else {
                b.exchange(to, block(out), from, block(into));
            }
        }
    }

    /// Reduces the blocks of all in a ring; each process ends with its own. The operation must be
    /// commutative.
    ///
    /// `acc` and `tmp` are a block of this process's operand and room for another's.
    pub fn ring_reduce(&self, b: &mut Builder, acc: &dyn Fn(usize) -> Data, tmp: &dyn Fn(usize) -> Data) {
        let (next, prev) = ((self.me + 1) % self.n, (self.me + self.n - 1) % self.n);
        for step in 1..self.n {
            let out = (self.me + self.n - step) % self.n;
            let into = (self.me + 2 * self.n - step - 1) % self.n;
            b.exchange((self.real)(next), acc(out), (self.real)(prev), tmp(into));
            b.reduce(tmp(into), acc(into));
        }
    }

    /// Gives each process the blocks of all for a power of two of processes, in steps that double
    /// what each has.
    ///
    /// `range` is the data of a range of blocks, `own` this process's block, which is copied to its
    /// place meanwhile.
    pub fn doubling(&self, b: &mut Builder, own: Data, range: &dyn Fn(Range<usize>) -> Data) {
        if self.n == 1 {
            b.copy(own, range(0..1));
        }
        let mut mask = 1;
        while mask < self.n {
            let mine = self.me & !(mask - 1);
            let theirs = mine ^ mask;
            let peer = (self.real)(self.me ^ mask);
            let into = range(theirs..theirs + mask);
            if mask == 1 {
                b.exchange_beside(peer, own, peer, into, (own, range(mine..mine + 1)));
            } else {
                b.exchange(peer, range(mine..mine + mask), peer, into);
            }
            mask *= 2;
        }
    }

    /// Reduces all blocks of `acc` over a power of two of processes; each ends with its own block,
    /// in steps that halve its part of the work. The operation must be commutative.
    ///
    /// `acc` and `tmp` are the operand of this process and room for another's, by ranges of blocks.
    pub fn halving(
        &self,
        b: &mut Builder,
        acc: &dyn Fn(Range<usize>) -> Data,
        tmp: &dyn Fn(Range<usize>) -> Data,
    ) {
        let (mut lo, mut hi) = (0, self.n);
        while hi - lo > 1 {
            let mid = lo + (hi - lo) / 2;
            let peer = self.me ^ (mid - lo);
            let (keep, give) = if self.me < mid { (lo..mid, mid..hi) } else { (mid..hi, lo..mid) };
            let peer = (self.real)(peer);
            b.exchange(peer, acc(give), peer, tmp(keep.clone()));
            b.reduce(tmp(keep.clone()), acc(keep.clone()));
            (lo, hi) = (keep.start, keep.end);
        }
    }
}

/// Returns the range of part `i` of `total` things that are dealt out to `n`, whose sizes differ by
/// at most one.
pub fn share(total: usize, n: usize, i: usize) -> Range<usize> {
    let at = |i: usize| total / n * i + (total % n).min(i);
    at(i)..at(i + 1)
}
