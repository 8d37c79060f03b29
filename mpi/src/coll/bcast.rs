//! Broadcast: a binomial tree, or for long messages a scatter and an allgather of its parts.

use super::blocks::{Group, share};
use super::schedule::{Builder, Data};

/// Longest message that goes down a tree as a whole, in bytes.
const TREE_MAX: usize = 12 * 1024;
/// Fewest processes for the scatter.
const SCATTER_MIN_RANKS: usize = 8;
/// Longest message whose parts are collected by doubling.
const DOUBLING_MAX: usize = 512 * 1024;

/// Gives `data` of the root to all.
pub fn bcast(b: &mut Builder, root: usize, data: Data) {
    if b.n < SCATTER_MIN_RANKS || data.bytes() <= TREE_MAX {
        tree(b, root, data);
    } else {
        scattered(b, root, data);
    }
}

/// The root sends to the upper half's first process, and both go on alike in their halves.
pub fn tree(b: &mut Builder, root: usize, data: Data) {
    let (n, rel) = (b.n, (b.me + b.n - root) % b.n);
    let real = |r: usize| (r + root) % n;
    let mut mask = 1;
    while mask < n && rel & mask == 0 {
        mask *= 2;
    }
    if rel != 0 {
        b.recv(real(rel - mask), data);
        b.fence();
    }
    while mask > 1 {
        mask /= 2;
        if rel + mask < n {
            b.send(real(rel + mask), data);
        }
    }
}

fn scattered(b: &mut Builder, root: usize, data: Data) {
    let (n, rel, total) = (b.n, (b.me + b.n - root) % b.n, data.bytes());
    let real = |r: usize| (r + root) % n;
    let flat = data.as_bytes().unwrap_or_else(|| b.bytes(total));
    if rel == 0 {
        b.copy(data, flat);
    }
    let range = |r: core::ops::Range<usize>| {
        flat.range(share(total, n, r.start).start..share(total, n, r.end - 1).end)
    };
    let mut mask = 1;
    while mask < n && rel & mask == 0 {
        mask *= 2;
    }
    if rel != 0 {
        b.recv(real(rel - mask), range(rel..(rel + mask).min(n)));
        b.fence();
    }
    while mask > 1 {
        mask /= 2;
        if rel + mask < n {
            b.send(real(rel + mask), range(rel + mask..(rel + 2 * mask).min(n)));
        }
    }
    // The allgather may receive into data that is still being sent.
    b.fence();
    let group = Group { me: rel, n, real: &real };
    if n.is_power_of_two() && total <= DOUBLING_MAX {
        group.doubling(b, &range);
    } else {
        group.ring(b, &|i| range(i..i + 1));
    }
    if rel != 0 {
        b.copy(flat, data);
    }
}
