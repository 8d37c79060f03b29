//! Gather and scatter: binomial trees, or directly. Their forms with counts: the root and all
//! others, directly.

use super::choice::{Gather, Scatter};
use super::schedule::{Builder, Data};

/// The blocks of a process's subtree, as it looks from the root: `rel` and how many follow.
fn subtree(rel: usize, n: usize) -> usize {
    if rel == 0 { n } else { (1 << rel.trailing_zeros()).min(n - rel) }
}

/// The blocks of all processes, of which one is that of process 0.
fn each(all: &Data, n: usize) -> impl Iterator<Item = Data> + use<> {
    let all = *all;
    (0..n).map(move |r| all.part(r * all.count, all.count))
}

/// Collects a block of each process at the root.
///
/// `mine` is this process's block; `None` at a root whose block is in place. `all` is the block of
/// process 0 at the root; the others follow.
pub fn gather(b: &mut Builder, how: Gather, root: usize, mine: Option<Data>, all: Option<Data>) {
    if how == Gather::Linear {
        let blocks: Vec<Data> = all.iter().flat_map(|all| each(all, b.n)).collect();
        return gatherv(b, root, mine, &blocks);
    }
    let (n, rel) = (b.n, (b.me + b.n - root) % b.n);
    let real = |r: usize| (r + root) % n;
    let bytes = mine.or(all).map_or(0, |d| d.bytes());
    let blocks = subtree(rel, n);
    let block = all.map_or(0, |d| d.count);
    if let Some(all) = all {
        // At the root: a subtree arrives as one message, and straight into place unless its ranks
        // go around the end.
        let mut later = Vec::new();
        for child in children(0, n) {
            let (first, count) = (real(child), subtree(child, n));
            if first + count <= n {
                b.recv(first, all.part(first * block, count * block));
            } else {
                let room = b.bytes(count * bytes);
                b.recv(first, room);
                later.push((first, count, room));
            }
        }
        if let Some(mine) = mine {
            b.copy(mine, all.part(b.me * block, block));
        }
        b.fence();
        for (first, count, room) in later {
            let before = n - first;
            b.copy(room.part(0, before * bytes), all.part(first * block, before * block));
            b.copy(
                room.part(before * bytes, (count - before) * bytes),
                all.part(0, (count - before) * block),
            );
        }
        return;
    }
    let Some(mine) = mine else { return };
    let parent = real(rel - (rel & rel.wrapping_neg()));
    if blocks == 1 {
        b.send(parent, mine);
        return;
    }
    let room = b.bytes(blocks * bytes);
    b.copy(mine, room.part(0, bytes));
    for child in children(rel, n) {
        b.recv(real(child), room.part((child - rel) * bytes, subtree(child, n) * bytes));
    }
    b.fence();
    b.send(parent, room);
}

/// The children of a process in a binomial tree, the nearest first.
fn children(rel: usize, n: usize) -> impl Iterator<Item = usize> {
    let limit = if rel == 0 { n } else { 1 << rel.trailing_zeros() };
    (0..usize::BITS)
        .map(|i| 1usize << i)
        .take_while(move |m| *m < limit)
        .map(move |m| rel + m)
        .filter(move |c| *c < n)
}

/// Gives each process its block of the root's.
///
/// `mine` is where this process's block goes; `None` at a root whose block stays in place. `all` is
/// the block of process 0 at the root; the others follow.
pub fn scatter(b: &mut Builder, how: Scatter, root: usize, all: Option<Data>, mine: Option<Data>) {
    if how == Scatter::Linear {
        let blocks: Vec<Data> = all.iter().flat_map(|all| each(all, b.n)).collect();
        return scatterv(b, root, &blocks, mine);
    }
    let (n, rel) = (b.n, (b.me + b.n - root) % b.n);
    let real = |r: usize| (r + root) % n;
    let bytes = mine.or(all).map_or(0, |d| d.bytes());
    if let Some(all) = all {
        let block = all.count;
        let mut far: Vec<usize> = children(0, n).collect();
        far.reverse();
        for child in far {
            let (first, count) = (real(child), subtree(child, n));
            if first + count <= n {
                b.send(first, all.part(first * block, count * block));
            } else {
                let (room, before) = (b.bytes(count * bytes), n - first);
                b.copy(all.part(first * block, before * block), room.part(0, before * bytes));
                let rest = count - before;
                b.copy(all.part(0, rest * block), room.part(before * bytes, rest * bytes));
                b.send(first, room);
            }
        }
        if let Some(mine) = mine {
            b.copy(all.part(b.me * block, block), mine);
        }
        return;
    }
    let Some(mine) = mine else { return };
    let parent = real(rel - (rel & rel.wrapping_neg()));
    let blocks = subtree(rel, n);
    if blocks == 1 {
        b.recv(parent, mine);
        return;
    }
    let room = b.bytes(blocks * bytes);
    b.recv(parent, room);
    b.fence();
    let mut far: Vec<usize> = children(rel, n).collect();
    far.reverse();
    for child in far {
        b.send(real(child), room.part((child - rel) * bytes, subtree(child, n) * bytes));
    }
    b.copy(room.part(0, bytes), mine);
}

/// Collects blocks of different lengths: `blocks` at the root, in the order of the ranks.
pub fn gatherv(b: &mut Builder, root: usize, mine: Option<Data>, blocks: &[Data]) {
    if b.me != root {
        if let Some(mine) = mine {
            b.send(root, mine);
        }
        return;
    }
    for (rank, block) in blocks.iter().enumerate().filter(|(rank, _)| *rank != root) {
        b.recv(rank, *block);
    }
    if let (Some(mine), Some(own)) = (mine, blocks.get(root)) {
        b.copy(mine, *own);
    }
}

/// Deals out blocks of different lengths: `blocks` at the root, in the order of the ranks.
pub fn scatterv(b: &mut Builder, root: usize, blocks: &[Data], mine: Option<Data>) {
    if b.me != root {
        if let Some(mine) = mine {
            b.recv(root, mine);
        }
        return;
    }
    for (rank, block) in blocks.iter().enumerate().filter(|(rank, _)| *rank != root) {
        b.send(rank, *block);
    }
    if let (Some(mine), Some(own)) = (mine, blocks.get(root)) {
        b.copy(*own, mine);
    }
}
