//! Allgather: doubling, Bruck's algorithm, a ring, or a circulant graph.

use core::ops::Range;

use super::blocks::Group;
use super::choice::Allgather;
use super::circulant;
use super::schedule::{Builder, Data};

/// Gives all processes the blocks of all.
///
/// `mine` is this process's block; `None` if it is in place. `all` is the block of process 0; the
/// others follow.
pub fn allgather(b: &mut Builder, how: Allgather, mine: Option<Data>, all: Data) {
    let block = all.count;
    let range = |r: Range<usize>| all.part(r.start * block, r.len() * block);
    let n = b.n;
    let own = mine.unwrap_or_else(|| range(b.me..b.me + 1));
    let group = Group { me: b.me, n, real: &|r| r };
    match how {
        Allgather::Doubling => group.doubling(b, own, &range),
        Allgather::Bruck => {
            b.copy(own, range(b.me..b.me + 1));
            let blocks: Vec<Data> = (0..n).map(|i| range(i..i + 1)).collect();
            bruck(b, &blocks);
        }
        Allgather::Ring => group.ring(b, own, &|i| range(i..i + 1)),
        Allgather::Circulant => {
            b.copy(own, range(b.me..b.me + 1));
            circulant::allgather(b, &range);
        }
    }
}

/// Gives all processes the blocks of all, which have different lengths.
///
/// `mine` is this process's block; `None` if it is in place.
pub fn allgatherv(b: &mut Builder, how: Allgather, mine: Option<Data>, blocks: &[Data]) {
    let (n, me) = (b.n, b.me);
    let own = mine.unwrap_or(blocks[me]);
    let total: usize = blocks.iter().map(Data::bytes).sum();
    let group = Group { me, n, real: &|r| r };
    match how {
        Allgather::Doubling => {
            // Packed, so that a range of blocks is one run.
            let (room, ends) = (b.bytes(total), ends(blocks.iter()));
            let range = |r: Range<usize>| room.range(ends[r.start]..ends[r.end]);
            b.copy(own, blocks[me]);
            group.doubling(b, own, &range);
            unpack(b, blocks, &|i| range(i..i + 1));
        }
        Allgather::Bruck => {
            b.copy(own, blocks[me]);
            bruck(b, blocks);
        }
        Allgather::Ring | Allgather::Circulant => group.ring(b, own, &|i| blocks[i]),
    }
}

/// Copies the packed blocks of the others into place.
fn unpack(b: &mut Builder, blocks: &[Data], packed: &dyn Fn(usize) -> Data) {
    let me = b.me;
    for (rank, block) in blocks.iter().enumerate().filter(|(rank, _)| *rank != me) {
        b.copy(packed(rank), *block);
    }
}

/// Returns the bytes before each block, and those of all.
fn ends<'a>(blocks: impl Iterator<Item = &'a Data>) -> Vec<usize> {
    let mut ends = vec![0];
    let mut end = 0;
    for block in blocks {
        end += block.bytes();
        ends.push(end);
    }
    ends
}

/// Bruck's algorithm: in round k each process gets what the one 2^k behind it has, in the order of
/// the ranks from its own on, around the end.
fn bruck(b: &mut Builder, blocks: &[Data]) {
    let (n, me) = (b.n, b.me);
    let rotated = blocks[me..].iter().chain(&blocks[..me]);
    let ends = ends(rotated);
    let room = b.bytes(ends[n]);
    let range = |r: Range<usize>| room.range(ends[r.start]..ends[r.end]);
    b.copy(blocks[me], range(0..1));
    let mut have = 1;
    while have < n {
        let get = have.min(n - have);
        let (to, from) = (b.before(have), b.after(have));
        b.exchange(to, range(0..get), from, range(have..have + get));
        have += get;
    }
    unpack(b, blocks, &|rank| {
        let place = (rank + n - me) % n;
        range(place..place + 1)
    });
}
