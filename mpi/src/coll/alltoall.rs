//! All-to-all: Bruck's algorithm, all messages at once, or pair by pair.

use super::choice::Alltoall;
use super::schedule::{Builder, Data};

/// Messages of each kind that are under way at once.
pub const BATCH: usize = 32;

/// Gives each process a block of this one's, and gets one of each.
///
/// `from` and `into` are the blocks for and of process 0; the others follow. Without `from` the
/// blocks in `into` are sent and replaced.
pub fn alltoall(b: &mut Builder, how: Alltoall, from: Option<Data>, into: Data) {
    let (n, bytes) = (b.n, into.bytes());
    let (from_count, into_count) = (from.map_or(0, |f| f.count), into.count);
    let target = |i: usize| into.part(i * into_count, into_count);
    let from = match from {
        Some(from) => from.part(0, from_count * n),
        None => {
            let copy = b.bytes(bytes * n);
            b.copy(into.part(0, into_count * n), copy);
            copy
        }
    };
    let block = from.count / n;
    let source = |i: usize| from.part(i * block, block);
    if how == Alltoall::Bruck {
        return bruck(b, bytes, &source, &target);
    }
    if how == Alltoall::Scattered {
        return scattered(b, &source, &target);
    }
    let own = (source(b.me), target(b.me));
    if n == 1 {
        b.copy(own.0, own.1);
    }
    for i in 1..n {
        let (to, of) = (b.after(i), b.before(i));
        if i == 1 {
            b.exchange_beside(to, source(to), of, target(of), own);
        } else {
            b.exchange(to, source(to), of, target(of));
        }
    }
}

/// Gives each process a block of this one's, and gets one of each; all may differ.
///
/// Without `from` the blocks in `into` are sent and replaced.
pub fn alltoallv(b: &mut Builder, from: Option<&[Data]>, into: &[Data]) {
    let copies: Vec<Data>;
    let from = match from {
        Some(from) => from,
        None => {
            copies = into.iter().map(|d| b.bytes(d.bytes())).collect();
            for (block, copy) in into.iter().zip(&copies) {
                b.copy(*block, *copy);
            }
            &copies
        }
    };
    scattered(b, &|i| from[i], &|i| into[i]);
}

/// All messages at once, nearest neighbours first, but not more than a batch; this process's own
/// block is copied meanwhile.
fn scattered(b: &mut Builder, source: &dyn Fn(usize) -> Data, target: &dyn Fn(usize) -> Data) {
    let all: Vec<usize> = (1..b.n).collect();
    for batch in all.chunks(BATCH) {
        for i in batch {
            let of = b.before(*i);
            b.recv(of, target(of));
        }
        for i in batch {
            let to = b.after(*i);
            b.send(to, source(to));
        }
        if batch.first() == Some(&1) {
            b.copy(source(b.me), target(b.me));
        }
        b.fence();
    }
    if b.n == 1 {
        b.copy(source(0), target(0));
    }
}

/// Bruck's algorithm: a block for the process `i` behind goes there by one step for each bit of
/// `i`.
fn bruck(b: &mut Builder, bytes: usize, source: &dyn Fn(usize) -> Data, target: &dyn Fn(usize) -> Data) {
    let n = b.n;
    let room = b.bytes(bytes * n);
    let (out, got) = (b.bytes(bytes * n.div_ceil(2)), b.bytes(bytes * n.div_ceil(2)));
    let slot = |d: Data, i: usize| d.part(i * bytes, bytes);
    for i in 0..n {
        b.copy(source(b.after(i)), slot(room, i));
    }
    let mut bit = 1;
    while bit < n {
        let moved: Vec<usize> = (0..n).filter(|i| i & bit != 0).collect();
        for (place, i) in moved.iter().enumerate() {
            b.copy(slot(room, *i), slot(out, place));
        }
        let len = moved.len() * bytes;
        let (to, from) = (b.after(bit), b.before(bit));
        b.exchange(to, out.part(0, len), from, got.part(0, len));
        for (place, i) in moved.iter().enumerate() {
            b.copy(slot(got, place), slot(room, *i));
        }
        bit *= 2;
    }
    for i in 0..n {
        let of = b.before(i);
        b.copy(slot(room, i), target(of));
    }
}
