//! Operations in shared memory whose blocks have lengths of their own, each of which its sender and
//! its receiver alone may know.
//!
//! A process posts one slot, with an *entry* for each receiver, beside which the block stands. A
//! longer block goes by a message. What is decided here depends on the length of the block and on
//! the number of processes alone, so both sides decide alike.

use core::ops::Range;

use super::node::others;
use super::node_memory::{LONG, SHORT};
use super::schedule::{Builder, Data, Entry};

/// Bytes of an entry's word, before its block.
pub(super) const HEAD: usize = 8;
/// Messages of each kind that are under way at once.
const BATCH: usize = 32;

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

/// The way of the blocks of an operation.
#[derive(Clone, Copy)]
struct Way {
    /// Receivers of each slot.
    of: u16,
}

impl Way {
    fn to(receivers: usize) -> Way {
        Way { of: receivers.max(1) as u16 }
    }

    fn entry(self, index: usize) -> Entry {
        Entry { index: index as u16, of: self.of }
    }

    /// Returns true if a block goes through a slot, else by a message.
    fn is_slot(self, bytes: usize) -> bool {
        self.entry(0).holds(bytes)
    }

    /// Writes the blocks that go through a slot of this process, each with the number of its
    /// receiver, and posts it.
    fn give(self, b: &mut Builder, blocks: impl IntoIterator<Item = (usize, Data)>) {
        let mut begun = false;
        for (index, block) in blocks {
            let bytes = block.bytes();
            if bytes == 0 || !self.is_slot(bytes) {
                continue;
            }
            if !begun {
                b.await_room(0);
                begun = true;
            }
            b.give(0, self.entry(index), block);
        }
        if begun {
            b.post(0);
        }
    }

    /// Sends a block that does not go through a slot.
    fn send(self, b: &mut Builder, to: usize, block: Data) {
        if !self.is_slot(block.bytes()) {
            b.send(to, block);
        }
    }

    /// Receives such a block.
    fn recv(self, b: &mut Builder, from: usize, block: Data) {
        if !self.is_slot(block.bytes()) {
            b.recv(from, block);
        }
    }

    /// Waits for a block in a process's slot and takes it.
    fn take(self, b: &mut Builder, rank: usize, index: usize, block: Data) {
        let bytes = block.bytes();
        if bytes > 0 && self.is_slot(bytes) {
            b.await_post(rank, 0);
            b.take(rank, 0, self.entry(index), block);
        }
    }
}

/// Ends an operation: this process has taken all it wants.
fn end(b: &mut Builder) {
    b.release(1);
    b.takes_slots(1, 0);
}

/// The number of `rank` among all processes but `of`.
fn among_others(rank: usize, of: usize) -> usize {
    rank - usize::from(rank > of)
}

/// Gives each process the blocks of all: `blocks`, by their ranks.
pub fn allgather(b: &mut Builder, mine: Option<Data>, blocks: &[Data]) {
    let own = mine.unwrap_or(blocks[b.me]);
    let way = Way::to(1);
    way.give(b, [(0, own)]);
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
        way.take(b, rank, 0, blocks[rank]);
    }
    end(b);
}

/// Collects the blocks of all at the root, where `blocks` are theirs.
pub fn gather(b: &mut Builder, root: usize, mine: Option<Data>, blocks: &[Data]) {
    let way = Way::to(1);
    if b.me == root {
        others(b).for_each(|rank| way.recv(b, rank, blocks[rank]));
        if let Some(mine) = mine {
            b.copy(mine, blocks[root]);
        }
        others(b).for_each(|rank| way.take(b, rank, 0, blocks[rank]));
    } else if let Some(mine) = mine {
        way.give(b, [(0, mine)]);
        way.send(b, root, mine);
    }
    end(b);
}

/// Deals the root's blocks out; `blocks` are theirs, there.
pub fn scatter(b: &mut Builder, root: usize, blocks: &[Data], mine: Option<Data>) {
    let way = Way::to(b.n - 1);
    if b.me == root {
        way.give(b, others(b).map(|rank| (among_others(rank, root), blocks[rank])));
        others(b).for_each(|rank| way.send(b, rank, blocks[rank]));
        if let Some(mine) = mine {
            b.copy(blocks[root], mine);
        }
    } else if let Some(mine) = mine {
        way.recv(b, root, mine);
        way.take(b, root, among_others(b.me, root), mine);
    }
    end(b);
}

/// Sends block `from[j]` of each process to process `j`; those that come are in `into`. Without
/// `from` the blocks in `into` are sent and replaced.
pub fn alltoall(b: &mut Builder, from: Option<&[Data]>, into: &[Data]) {
    let me = b.me;
    let way = Way::to(b.n - 1);
    let ranks: Vec<usize> = others(b).collect();
    let source = from.unwrap_or(into);
    way.give(b, ranks.iter().map(|rank| (among_others(*rank, me), source[*rank])));
    let mut sent = Vec::new();
    for rank in &ranks {
        let mut block = source[*rank];
        if from.is_none() && !way.is_slot(block.bytes()) {
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
        way.take(b, rank, among_others(me, rank), into[rank]);
    }
    end(b);
}
