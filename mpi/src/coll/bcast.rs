//! Broadcast: a binomial tree; a scatter and an allgather of the parts; or pieces that follow each
//! other.

use super::blocks::{Group, share};
use super::choice::Bcast;
use super::circulant;
use super::schedule::{Builder, Data};

/// Gives `data` of the root to all; in so many pieces if these follow each other.
pub fn bcast(b: &mut Builder, how: Bcast, pieces: usize, root: usize, data: Data) {
    match how {
        Bcast::Binomial => tree(b, root, data),
        Bcast::ScatterDoubling => scattered(b, root, data, true),
        Bcast::ScatterRing => scattered(b, root, data, false),
        Bcast::Circulant => in_pieces(b, root, data, pieces),
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

/// Pieces follow each other.
fn in_pieces(b: &mut Builder, root: usize, data: Data, pieces: usize) {
    let total = data.bytes();
    // A piece has at least a byte.
    let pieces = pieces.clamp(1, total.max(1));
    if pieces == 1 {
        return circulant::bcast(b, root, 1, &|_| data);
    }
    let flat = data.as_bytes().unwrap_or_else(|| b.bytes(total));
    if b.me == root {
        b.copy(data, flat);
    }
    circulant::bcast(b, root, pieces, &|i| flat.range(share(total, pieces, i)));
    if b.me != root {
        b.copy(flat, data);
    }
}

fn scattered(b: &mut Builder, root: usize, data: Data, doubles: bool) {
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
    if doubles {
        group.doubling(b, range(rel..rel + 1), &range);
    } else {
        group.ring(b, range(rel..rel + 1), &|i| range(i..i + 1));
    }
    if rel != 0 {
        b.copy(flat, data);
    }
}
