//! Operations in shared memory whose blocks have lengths of their own, each of which its sender and
//! its receiver alone may know.
//!
//! A process posts one slot with an *entry* for each receiver, which tells the length of the block
//! for it. A short block stands beside its entry. A longer one follows in pieces, each in a slot of
//! its own, or goes by a message: so between two processes, and if it is very long. What is decided
//! here depends on the length of the block and on the number of processes alone, so both sides
//! decide alike.
//!
//! All processes go through the slots in the order of their numbers, each only through those that
//! hold something from it or for it. Two rules let them all get to the end. A process keeps no slot
//! of another one from being written anew, unless it takes what is in it. And it writes none that
//! is `AHEAD` or more numbers behind the one that it waits for, so that whatever has the lowest
//! number of all that is waited for can be written.

use core::ops::Range;

use super::node::{AHEAD, PIECES_MAX, others, pieces, publish_piece, take_piece};
use super::node_memory::{LONG, SHORT};
use super::schedule::{Builder, Data, Entry};

/// Bytes of an entry's word, before its block.
pub(super) const HEAD: usize = 8;
/// Messages of each kind that are under way at once.
const BATCH: usize = 32;
/// Bytes of a block for one receiver that is worth a slot of its own.
const LEAST: usize = 4096;
/// Longest block for one receiver that passes in slots, in bytes. Two processes copy it there; of
/// a longer message only the receiver makes a copy, where the kernel lets it (a get).
const MOST: usize = 128 * 1024;
/// The number behind all slots of an operation.
const END: u32 = u16::MAX as u32;

impl Entry {
    /// Returns true if a block stands in the line of the flag.
    fn is_short(self, bytes: usize) -> bool {
        self.of == 1 && bytes <= SHORT - HEAD
    }

    /// Bytes from one entry to the next.
    fn stride(self) -> usize {
        LONG / usize::from(self.of) / 64 * 64
    }

    /// Returns true if a block has room beside its entry.
    pub(super) fn holds(self, bytes: usize) -> bool {
        bytes <= self.stride() - HEAD
    }

    /// Returns the place of an entry in the slot for a block of such length: true if that is in the
    /// line of the flag, and its bytes, of which the first are the entry's.
    pub(super) fn place(self, bytes: usize) -> (bool, Range<usize>) {
        if self.is_short(bytes) {
            return (true, 0..SHORT);
        }
        let at = usize::from(self.index) * self.stride();
        (false, at..at + self.stride())
    }
}

/// A piece of a block, in the slot of that number.
struct Piece {
    slot: u32,
    /// The process that has given it.
    of: usize,
    block: Data,
    range: Range<usize>,
}

/// The way of the blocks of an operation.
struct Way {
    /// Receivers of each slot of entries.
    of: u16,
    n: usize,
    /// Slots for the pieces with one number.
    stride: usize,
    /// Longest block in slots, in bytes.
    most: usize,
    /// Slots from the one that this process waits for to the first that it does not write yet.
    ahead: u32,
    /// The pieces that this process gives, and those that it takes.
    gives: Vec<Piece>,
    takes: Vec<Piece>,
    /// Pieces that were given.
    given: usize,
}

impl Way {
    /// Every process gives one block, which others may read.
    fn of_one(n: usize) -> Way {
        let (gives, takes) = (Vec::new(), Vec::new());
        let most = PIECES_MAX.min((END as usize - 1) * LONG);
        Way { of: 1, n, stride: 1, most, ahead: AHEAD as u32, gives, takes, given: 0 }
    }

    /// Every process gives a block to each of the others. Pieces of blocks between two processes
    /// have slots with a number of their own. The stride is odd, so that pieces of one block have
    /// all places of the ring. A full ring of every process, of which each reads a part, does not
    /// stay in the caches.
    fn of_each(n: usize) -> Way {
        let (of, stride) = ((n - 1).max(1) as u16, n | 1);
        Way { of, stride, most: MOST, ahead: AHEAD as u32 / 2, ..Way::of_one(n) }
    }

    fn entry(&self, index: usize) -> Entry {
        Entry { index: index as u16, of: self.of }
    }

    /// Returns true if a block goes by a message.
    fn is_message(&self, bytes: usize) -> bool {
        !self.entry(0).holds(bytes) && (self.n == 2 || !(LEAST..=self.most).contains(&bytes))
    }

    /// Returns true if a block follows its entry.
    fn follows(&self, bytes: usize) -> bool {
        !self.entry(0).holds(bytes) && !self.is_message(bytes)
    }

    /// Returns the pieces of a block that process `of` gives; `pair` is the sum of both ranks.
    fn pieces(&self, of: usize, pair: usize, block: Data) -> impl Iterator<Item = Piece> + use<> {
        let (stride, turn, bytes) = (self.stride, pair % self.stride.min(self.n), block.bytes());
        let len = if self.follows(bytes) { bytes } else { 0 };
        pieces(len, LONG).filter(|(_, range)| !range.is_empty()).map(move |(i, range)| {
            let slot = (1 + i * stride + turn) as u32;
            Piece { slot, of, block, range }
        })
    }

    /// Writes the entries of this process, each with the number of its receiver, and posts them.
    fn give(&mut self, b: &mut Builder, blocks: impl IntoIterator<Item = (usize, usize, Data)>) {
        let mut begun = false;
        for (index, pair, block) in blocks {
            let bytes = block.bytes();
            if bytes == 0 || self.is_message(bytes) {
                continue;
            }
            if !begun {
                b.await_room(0);
                begun = true;
            }
            b.give(0, self.entry(index), block);
            self.gives.extend(self.pieces(b.me, pair, block));
        }
        if begun {
            b.post(0);
        }
        self.gives.sort_by_key(|piece| piece.slot);
        self.give_before(b, self.ahead);
    }

    /// Gives the pieces whose slots are before a number.
    fn give_before(&mut self, b: &mut Builder, slot: u32) {
        while let Some(piece) = self.gives.get(self.given).filter(|piece| piece.slot < slot) {
            publish_piece(b, piece.block, (piece.slot as usize, piece.range.clone()));
            self.given += 1;
        }
    }

    /// Sends a block that goes by a message.
    fn send(&self, b: &mut Builder, to: usize, block: Data) {
        if self.is_message(block.bytes()) {
            b.send(to, block);
        }
    }

    /// Receives such a block.
    fn recv(&self, b: &mut Builder, from: usize, block: Data) {
        if self.is_message(block.bytes()) {
            b.recv(from, block);
        }
    }

    /// Waits for a block's entry in a process's slot and takes it.
    fn take(&mut self, b: &mut Builder, rank: usize, (index, pair): (usize, usize), block: Data) {
        let bytes = block.bytes();
        if bytes > 0 && !self.is_message(bytes) {
            b.await_post(rank, 0);
            b.take(rank, 0, self.entry(index), block);
            self.takes.extend(self.pieces(rank, pair, block));
        }
    }

    /// Gives and takes the pieces, and ends the operation.
    fn end(mut self, b: &mut Builder) {
        self.takes.sort_by_key(|piece| piece.slot);
        let takes = core::mem::take(&mut self.takes);
        let mut released = 0;
        for piece in takes {
            if piece.slot != released {
                // Nothing before it is for this process.
                b.release(piece.slot);
                released = piece.slot;
            }
            self.give_before(b, piece.slot + self.ahead);
            take_piece(b, piece.of, piece.block, (piece.slot as usize, piece.range));
        }
        b.release(END);
        self.give_before(b, END);
        b.takes_slots(1, 0);
    }
}

/// The number of `rank` among all processes but `of`.
fn among_others(rank: usize, of: usize) -> usize {
    rank - usize::from(rank > of)
}

/// Returns true if long blocks of one length for each process pass in slots.
pub fn passes(n: usize, bytes: usize) -> bool {
    n > 2 && bytes > 0 && !Way::of_each(n).is_message(bytes)
}

/// Gives each process the blocks of all: `blocks`, by their ranks.
pub fn allgather(b: &mut Builder, mine: Option<Data>, blocks: &[Data]) {
    let own = mine.unwrap_or(blocks[b.me]);
    let mut way = Way::of_one(b.n);
    way.give(b, [(0, 0, own)]);
    let ranks: Vec<usize> = others(b).collect();
    for batch in ranks.chunks(BATCH) {
        batch.iter().for_each(|rank| way.recv(b, *rank, blocks[*rank]));
        batch.iter().for_each(|rank| way.send(b, *rank, own));
        if ranks.len() > BATCH {
            b.fence();
        }
    }
    b.copy(own, blocks[b.me]);
    for rank in ranks {
        way.take(b, rank, (0, 0), blocks[rank]);
    }
    way.end(b);
}

/// Collects the blocks of all at the root, where `blocks` are theirs.
pub fn gather(b: &mut Builder, root: usize, mine: Option<Data>, blocks: &[Data]) {
    let mut way = Way::of_one(b.n);
    if b.me == root {
        others(b).for_each(|rank| way.recv(b, rank, blocks[rank]));
        if let Some(mine) = mine {
            b.copy(mine, blocks[root]);
        }
        others(b).for_each(|rank| way.take(b, rank, (0, 0), blocks[rank]));
    } else if let Some(mine) = mine {
        way.give(b, [(0, 0, mine)]);
        way.send(b, root, mine);
    }
    way.end(b);
}

/// Deals the root's blocks out; `blocks` are theirs, there.
pub fn scatter(b: &mut Builder, root: usize, blocks: &[Data], mine: Option<Data>) {
    let mut way = Way::of_each(b.n);
    if b.me == root {
        way.give(b, others(b).map(|rank| (among_others(rank, root), root + rank, blocks[rank])));
        others(b).for_each(|rank| way.send(b, rank, blocks[rank]));
        if let Some(mine) = mine {
            b.copy(blocks[root], mine);
        }
    } else if let Some(mine) = mine {
        way.recv(b, root, mine);
        way.take(b, root, (among_others(b.me, root), root + b.me), mine);
    }
    way.end(b);
}

/// Sends block `from[j]` of each process to process `j`; those that come are in `into`. Without
/// `from` the blocks in `into` are sent and replaced.
pub fn alltoall(b: &mut Builder, from: Option<&[Data]>, into: &[Data]) {
    let me = b.me;
    let mut way = Way::of_each(b.n);
    let ranks: Vec<usize> = others(b).collect();
    let source = from.unwrap_or(into);
    way.give(b, ranks.iter().map(|rank| (among_others(*rank, me), me + rank, source[*rank])));
    let mut sent = Vec::new();
    for rank in &ranks {
        let mut block = source[*rank];
        if from.is_none() && way.is_message(block.bytes()) {
            // A block is sent before it is replaced.
            let room = b.bytes(block.bytes());
            b.copy(block, room);
            block = room;
        }
        sent.push((*rank, block));
    }
    // Nearest neighbours first: what this process sends comes to one that waits for it.
    for (i, batch) in sent.chunks(BATCH).enumerate() {
        for by in i * BATCH + 1..i * BATCH + 1 + batch.len() {
            way.recv(b, b.before(by), into[b.before(by)]);
        }
        batch.iter().for_each(|(rank, block)| way.send(b, *rank, *block));
        if ranks.len() > BATCH {
            b.fence();
        }
    }
    if let Some(from) = from {
        b.copy(from[me], into[me]);
    }
    for rank in ranks {
        way.take(b, rank, (among_others(me, rank), me + rank), into[rank]);
    }
    way.end(b);
}
