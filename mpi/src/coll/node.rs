//! Collective operations of processes that share memory: each writes its data to slots of its own,
//! and the others read it there.
//!
//! An operation is cut into pieces that fit a slot. All processes take the same slots, whether they
//! write to them or not. Every process combines operands in the order of ranks, so all get the same
//! bits, whoever comes first.

use core::ops::Range;

use super::blocks::share;
use super::node_memory::{LONG, SHORT, SLOTS};
use super::reduce::OpFacts;
use super::schedule::{Base, Builder, Data, Elem};

/// Longest vector of which each process combines the operands of all by itself, in bytes.
const WHOLE_MAX: usize = 4096;
/// Most processes whose flags each of them looks at; more go through a tree.
const FLAT_MAX: usize = 16;
/// Processes that one of the tree waits for.
const CHILDREN: usize = 8;

/// Longest data that passes in more than one slot, in bytes.
pub(super) const PIECES_MAX: usize = 64 << 20;
/// Slots from the one that a process waits for to the first that it does not write yet. No more
/// than there are: it writes none anew that holds something that others wait for.
pub(super) const AHEAD: usize = SLOTS as usize;

/// Returns true if operations use slots for data that each process puts into one.
pub fn fits(bytes: usize) -> bool {
    (1..=LONG).contains(&bytes)
}

/// Returns true if data that one process gives to others uses slots. Between two processes longer
/// messages are faster, which both of them copy.
pub fn passes(n: usize, bytes: usize) -> bool {
    fits(bytes) || n > 2 && (1..=PIECES_MAX).contains(&bytes)
}

/// Returns true if a vector is reduced in slots, as a whole or in parts.
pub fn reduces(op: OpFacts, mine: &Data) -> bool {
    let parts = op.divisible && mine.elem.plain && mine.elem.size <= LONG;
    fits(mine.bytes()) || parts && (1..=PIECES_MAX).contains(&mine.bytes())
}

/// Returns true if a vector whose blocks are dealt out is reduced in slots. In pieces each process
/// has room for two elements at least.
pub fn scatters(n: usize, mine: &Data) -> bool {
    fits(mine.bytes()) || passes(n, mine.bytes()) && LONG / mine.elem.size.max(1) >= 2 * n
}

/// Returns the data of `bytes` bytes in a slot, as bytes.
fn slot(rank: usize, slot: usize, bytes: usize) -> Data {
    let base = Base::Slot { rank: rank as u16, short: bytes <= SHORT, slot: slot as u32 };
    Data::new(base, bytes, Elem::BYTE)
}

/// Ranges of at most `most` that make up `len`; one that is empty if that is 0.
pub(super) fn pieces(len: usize, most: usize) -> impl Iterator<Item = (usize, Range<usize>)> {
    (0..len.div_ceil(most).max(1)).map(move |i| (i, i * most..((i + 1) * most).min(len)))
}

/// The other ranks, from the next one on, so that not all look at the same one first.
pub(super) fn others(b: &Builder) -> impl Iterator<Item = usize> + use<> {
    let (me, n) = (b.me, b.n);
    (1..n).map(move |by| (me + by) % n)
}

/// Writes data to a slot of this process and posts it.
fn publish(b: &mut Builder, number: usize, parts: impl IntoIterator<Item = (Data, Data)>) {
    b.await_room(number as u32);
    for (from, into) in parts {
        b.copy(from, into);
    }
    b.post(number as u32);
}

/// Nobody ends before all have begun.
pub fn barrier(b: &mut Builder) {
    if b.n <= FLAT_MAX {
        publish(b, 0, None);
        for rank in others(b) {
            b.await_post(rank, 0);
        }
    } else {
        for child in CHILDREN * b.me + 1..(CHILDREN * (b.me + 1) + 1).min(b.n) {
            b.await_post(child, 0);
        }
        publish(b, 0, None);
        if b.me != 0 {
            b.await_post(0, 0);
        }
    }
    b.release(1);
    b.takes_slots(1, 0)
}

/// A slot with the piece of data that begins at a byte.
fn piece(rank: usize, number: usize, range: &Range<usize>) -> Data {
    slot(rank, number, range.len())
}

/// Writes a piece of data, by its bytes, to a slot of this process, and posts it.
pub(super) fn publish_piece(b: &mut Builder, data: Data, (number, range): (usize, Range<usize>)) {
    b.await_room(number as u32);
    b.copy_in(data, range.start, piece(b.me, number, &range));
    b.post(number as u32);
}

/// Waits for a piece of data in a slot of another process, and copies it.
pub(super) fn take_piece(b: &mut Builder, rank: usize, data: Data, (number, range): (usize, Range<usize>)) {
    b.await_post(rank, number as u32);
    b.copy_out(piece(rank, number, &range), data, range.start);
}

/// Gives `data` of the root to all.
pub fn bcast(b: &mut Builder, root: usize, data: Data) {
    let bytes = data.bytes();
    let mut slots = 0;
    for (number, range) in pieces(bytes, LONG) {
        slots = number as u32 + 1;
        if b.me == root {
            publish_piece(b, data, (number, range));
        } else {
            take_piece(b, root, data, (number, range));
        }
        b.release(slots);
    }
    b.takes_slots(slots, bytes as u64)
}

/// Gives each process the blocks of all.
pub fn allgather(b: &mut Builder, mine: Option<Data>, all: Data) {
    let bytes = all.bytes();
    let block = |r: usize| all.part(r * all.count, all.count);
    let own = mine.unwrap_or_else(|| block(b.me));
    let list: Vec<_> = pieces(bytes, LONG).collect();
    // Blocks that differ in length are an error, of which others are told by what is posted.
    let differ = own.bytes() != bytes;
    if differ {
        b.copy(own, block(b.me));
    }
    publish_piece(b, own, list[0].clone());
    if !differ {
        b.copy(own, block(b.me));
    }
    for (number, range) in &list {
        if let Some(next) = list.get(number + 1) {
            publish_piece(b, own, next.clone());
        }
        for rank in others(b) {
            take_piece(b, rank, block(rank), (*number, range.clone()));
        }
        b.release(*number as u32 + 1);
    }
    b.takes_slots(list.len() as u32, bytes as u64)
}

/// Collects the blocks of all at the root.
pub fn gather(b: &mut Builder, root: usize, mine: Option<Data>, all: Option<Data>) {
    let bytes = mine.or(all).map_or(0, |d| d.bytes());
    let block = |all: Data, r: usize| all.part(r * all.count, all.count);
    if let (Some(mine), Some(all)) = (mine, all) {
        b.copy(mine, block(all, root));
    }
    let mut slots = 0;
    for (number, range) in pieces(bytes, LONG) {
        slots = number as u32 + 1;
        match (all, mine) {
            (Some(all), _) => {
                for rank in others(b) {
                    take_piece(b, rank, block(all, rank), (number, range.clone()));
                }
            }
            (None, Some(mine)) => publish_piece(b, mine, (number, range)),
            (None, None) => {}
        }
        b.release(slots);
    }
    b.takes_slots(slots, bytes as u64)
}

/// Deals the root's blocks out.
pub fn scatter(b: &mut Builder, root: usize, all: Option<Data>, mine: Option<Data>) {
    let n = b.n;
    let bytes = mine.or(all).map_or(0, |d| d.bytes());
    let there = |rank: usize| slot(root, 0, n * bytes).range(rank * bytes..(rank + 1) * bytes);
    match all {
        Some(all) => {
            let block = |r: usize| all.part(r * all.count, all.count);
            let parts: Vec<_> = others(b).map(|r| (block(r), there(r))).collect();
            publish(b, 0, parts);
            if let Some(mine) = mine {
                b.copy(block(root), mine);
            }
        }
        None => {
            b.await_post(root, 0);
            if let Some(mine) = mine {
                b.copy(there(b.me), mine);
            }
        }
    }
    b.release(1);
    b.takes_slots(1, bytes as u64)
}

/// Sends block `j` of each process to process `j`.
pub fn alltoall(b: &mut Builder, from: Option<Data>, into: Data) {
    let (n, me, bytes) = (b.n, b.me, into.bytes());
    let target = |r: usize| into.part(r * into.count, into.count);
    let source = |r: usize| from.map_or_else(|| target(r), |f| f.part(r * f.count, f.count));
    let there = |owner: usize, rank: usize| slot(owner, 0, n * bytes).range(rank * bytes..(rank + 1) * bytes);
    let parts: Vec<_> = others(b).map(|r| (source(r), there(me, r))).collect();
    publish(b, 0, parts);
    if from.is_some() {
        b.copy(source(me), target(me));
    }
    for rank in others(b) {
        b.await_post(rank, 0);
        b.copy(there(rank, me), target(rank));
    }
    b.release(1);
    b.takes_slots(1, bytes as u64)
}

/// A reduction of operands that come from the last to the first.
struct Fold {
    result: Data,
    /// The right operand: the last one, or the result so far.
    right: Option<Data>,
}

impl Fold {
    fn into(result: Data) -> Fold {
        Fold { result, right: None }
    }

    /// Combines the next operand, which is the result's memory only if it comes first.
    fn add(&mut self, b: &mut Builder, operand: Data) {
        match self.right.replace(self.result) {
            None => self.right = Some(operand),
            Some(right) => b.reduce_into(operand, right, self.result),
        }
    }

    fn end(self, b: &mut Builder) {
        if let Some(right) = self.right {
            b.copy(right, self.result);
        }
    }
}

/// Operands of a reduction in slots, which are used there if they are one run of bytes.
struct Operands {
    elem: Elem,
    room: Option<Data>,
}

impl Operands {
    fn new(b: &mut Builder, count: usize, elem: Elem) -> Operands {
        let room = if elem.plain { None } else { Some(b.room(count, elem)) };
        Operands { elem, room }
    }

    /// Combines the next operand, which is the bytes of a slot.
    fn add(&self, b: &mut Builder, fold: &mut Fold, bytes: Data) {
        let count = fold.result.count;
        match self.room {
            None => fold.add(b, Data { count, elem: self.elem, ..bytes }),
            Some(_) if fold.right.is_none() => {
                b.copy(bytes, fold.result);
                fold.right = Some(fold.result);
            }
            Some(room) => {
                let room = room.part(0, count);
                b.copy(bytes, room);
                fold.add(b, room);
            }
        }
    }

    /// Combines the operands of `ranks` in slot `number` into `result`, in the order of ranks. That
    /// of this process, `mine`, is in a slot, too: in place the result overwrites it.
    fn fold(&self, b: &mut Builder, ranks: Range<usize>, number: usize, mine: Data, result: Data) {
        let bytes = result.bytes();
        let mut fold = Fold::into(result);
        for rank in ranks.clone().rev() {
            if rank != b.me {
                b.await_post(rank, number as u32);
            }
            if rank == b.me && (mine != result || rank + 1 == ranks.end) {
                fold.add(b, mine);
            } else {
                self.add(b, &mut fold, slot(rank, number, bytes));
            }
        }
        fold.end(b);
    }
}

/// Combines the vectors of all, for all, into `result`.
pub fn allreduce(b: &mut Builder, op: OpFacts, mine: Data, result: Data) {
    let bytes = mine.bytes();
    let divided = op.divisible && mine.elem.plain;
    if b.n == 2 || bytes <= WHOLE_MAX || !divided {
        let most = if divided { LONG / mine.elem.size.max(1) } else { mine.count };
        return allreduce_whole(b, mine, result, most);
    }
    let slots = in_slices(b, mine, |b, from, at| {
        b.copy(from, result.part(at.start, at.len()));
    });
    b.takes_slots(slots, bytes as u64)
}

/// Combines vectors in pieces of at most `most` elements, each process for itself. Of two processes
/// as many bytes pass between them as if each combined one half.
fn allreduce_whole(b: &mut Builder, mine: Data, result: Data, most: usize) {
    let operands = Operands::new(b, mine.count, mine.elem);
    let all: Vec<_> = pieces(mine.count, most.max(1)).map(|(_, range)| range).collect();
    let give = |b: &mut Builder, i: usize| {
        if let Some(range) = all.get(i) {
            let part = mine.range(range.clone());
            publish(b, i, Some((part, slot(b.me, i, part.bytes()))));
        }
    };
    give(b, 0);
    for (i, range) in all.iter().enumerate() {
        // The others find the next piece when they come to it.
        give(b, i + 1);
        operands.fold(b, 0..b.n, i, mine.range(range.clone()), result.range(range.clone()));
        b.release(i as u32 + 1);
    }
    b.takes_slots(all.len() as u32, mine.bytes() as u64)
}

/// Combines the vectors of all at the root, into `result` there.
pub fn reduce(b: &mut Builder, root: usize, op: OpFacts, mine: Data, result: Option<Data>) {
    let bytes = mine.bytes();
    let divided = op.divisible && mine.elem.plain;
    if b.n > 2 && divided && bytes > WHOLE_MAX {
        let slots = in_slices(b, mine, |b, from, at| {
            if let Some(result) = result {
                b.copy(from, result.part(at.start, at.len()));
            }
        });
        return b.takes_slots(slots, bytes as u64);
    }
    let operands = Operands::new(b, mine.count, mine.elem);
    let most = if divided { LONG / mine.elem.size.max(1) } else { mine.count.max(1) };
    // In place the operand must not be overwritten before it is used, unless it comes first.
    let in_place = result == Some(mine) && b.me + 1 != b.n;
    let room = if in_place && divided { Some(b.room(most.min(mine.count), mine.elem)) } else { None };
    let mut slots = 0;
    for (i, range) in pieces(mine.count, most) {
        let part = mine.range(range.clone());
        if b.me != root || part.bytes() <= SHORT || !divided {
            publish(b, i, Some((part, slot(b.me, i, part.bytes()))));
        }
        slots = i as u32 + 1;
        if let Some(result) = result {
            let result = result.range(range);
            if part.bytes() <= SHORT || !divided {
                operands.fold(b, 0..b.n, i, part, result);
            } else {
                let acc = room.map_or(result, |room| room.part(0, result.count));
                fold_beside(b, i, part, acc);
                b.copy(acc, result);
            }
        }
        b.release(slots);
    }
    b.takes_slots(slots, bytes as u64)
}

/// Combines the operands in slots and this process's own, which is not in one, into `acc`.
fn fold_beside(b: &mut Builder, number: usize, mine: Data, acc: Data) {
    let there = |rank: usize| Data { base: slot(rank, number, mine.bytes()).base, at: 0, ..mine };
    let mut fold = Fold::into(acc);
    for rank in (0..b.n).rev() {
        if rank != b.me {
            b.await_post(rank, number as u32);
        }
        fold.add(b, if rank == b.me { mine } else { there(rank) });
    }
    fold.end(b);
}

/// Combines vectors in pieces, of which each process combines one slice. `take` is given each slice
/// of the result, with its place in the vector. Returns the slots that it takes.
fn in_slices(b: &mut Builder, mine: Data, mut take: impl FnMut(&mut Builder, Data, Range<usize>)) -> u32 {
    let (n, me) = (b.n, b.me);
    let most = LONG / mine.elem.size;
    let all: Vec<_> = pieces(mine.count, most).map(|(_, range)| range).collect();
    let there = |rank: usize, number: usize| Data {
        base: Base::Slot { rank: rank as u16, short: false, slot: number as u32 },
        at: 0,
        count: most,
        elem: mine.elem,
    };
    // The slices of others, in the slot with twice the piece's number.
    let give = |b: &mut Builder, i: usize| {
        let Some(piece) = all.get(i) else { return };
        let own = share(piece.len(), n, me);
        let part = |r: Range<usize>| {
            (mine.part(piece.start + r.start, r.len()), there(me, 2 * i).part(r.start, r.len()))
        };
        publish(b, 2 * i, [part(0..own.start), part(own.end..piece.len())]);
    };
    give(b, 0);
    for (i, piece) in all.iter().enumerate() {
        give(b, i + 1);
        let own = share(piece.len(), n, me);
        let acc = there(me, 2 * i + 1).part(own.start, own.len());
        b.await_room(2 * i as u32 + 1);
        let mut fold = Fold::into(acc);
        for rank in (0..n).rev() {
            let operand = if rank == me {
                mine.part(piece.start + own.start, own.len())
            } else {
                b.await_post(rank, 2 * i as u32);
                there(rank, 2 * i).part(own.start, own.len())
            };
            fold.add(b, operand);
        }
        fold.end(b);
        b.post(2 * i as u32 + 1);
        take(b, acc, piece.start + own.start..piece.start + own.end);
        for rank in others(b) {
            let theirs = share(piece.len(), n, rank);
            b.await_post(rank, 2 * i as u32 + 1);
            let slice = there(rank, 2 * i + 1).part(theirs.start, theirs.len());
            take(b, slice, piece.start + theirs.start..piece.start + theirs.end);
        }
        b.release(2 * i as u32 + 2);
    }
    2 * all.len() as u32
}

/// Pieces of a vector whose blocks are dealt out. Each has a slice of every block, so that all
/// processes combine at once.
struct Slices<'a> {
    /// Elements of the blocks.
    counts: &'a [usize],
    pieces: usize,
}

impl Slices<'_> {
    fn new(counts: &[usize], size: usize) -> Slices<'_> {
        let (total, most) = (counts.iter().sum::<usize>(), LONG / size.max(1));
        // A slice has up to one element more than its share.
        let pieces = if total <= most { 1 } else { total.div_ceil((most - counts.len()).max(1)) };
        Slices { counts, pieces }
    }

    /// Returns the elements of a block that a piece has.
    fn of(&self, rank: usize, piece: usize) -> Range<usize> {
        share(self.counts[rank], self.pieces, piece)
    }

    /// Returns the slices of a piece: their elements in the vector, and those in the slot.
    fn all(&self, piece: usize) -> Vec<(Range<usize>, Range<usize>)> {
        let (mut before, mut there) = (0, 0);
        let slice = |(rank, count): (usize, &usize)| {
            let slice = self.of(rank, piece);
            let from = before + slice.start..before + slice.end;
            let into = there..there + slice.len();
            (before, there) = (before + count, into.end);
            (from, into)
        };
        self.counts.iter().enumerate().map(slice).collect()
    }
}

/// Combines the vectors of all and gives block `i`, of `counts[i]` elements, to process `i`.
pub fn reduce_scatter(b: &mut Builder, mine: Data, own: Data, counts: &[usize]) {
    let (me, elem) = (b.me, own.elem);
    let slices = Slices::new(counts, elem.size);
    let operands = Operands::new(b, own.count.div_ceil(slices.pieces), elem);
    // In place a slice of the result may be where others of the operand are.
    let is_apart = mine.base == own.base && slices.pieces > 1;
    let result = if is_apart { b.room(own.count, elem) } else { own };
    let there = |rank: usize, piece: usize, all: &[(Range<usize>, Range<usize>)], of: usize| {
        let end = all.last().map_or(0, |(_, into)| into.end);
        let bytes = |into: &Range<usize>| into.start * elem.size..into.end * elem.size;
        slot(rank, piece, end * elem.size).range(bytes(&all[of].1))
    };
    let give = |b: &mut Builder, piece: usize| {
        if slices.pieces == 1 {
            return publish(b, 0, Some((mine, slot(me, 0, mine.bytes()))));
        }
        let all = slices.all(piece);
        let part = |rank: usize| (mine.range(all[rank].0.clone()), there(me, piece, &all, rank));
        let parts: Vec<_> = others(b).map(part).collect();
        publish(b, piece, parts);
    };
    let mut given = 0;
    for piece in 0..slices.pieces {
        while given < slices.pieces.min(piece + AHEAD) {
            give(b, given);
            given += 1;
        }
        let all = slices.all(piece);
        let mut fold = Fold::into(result.range(slices.of(me, piece)));
        for rank in (0..b.n).rev() {
            if rank == me && slices.pieces > 1 {
                fold.add(b, mine.range(all[me].0.clone()));
                continue;
            }
            if rank != me {
                b.await_post(rank, piece as u32);
            }
            operands.add(b, &mut fold, there(rank, piece, &all, me));
        }
        fold.end(b);
        b.release(piece as u32 + 1);
    }
    b.copy(result, own);
    b.takes_slots(slices.pieces as u32, mine.bytes() as u64)
}

/// Combines the operands of this process and those before it, or of those before it alone.
pub fn scan(b: &mut Builder, mine: Data, result: Option<Data>, with_own: bool) {
    let bytes = mine.bytes();
    let operands = Operands::new(b, mine.count, mine.elem);
    publish(b, 0, Some((mine, slot(b.me, 0, bytes))));
    if let Some(result) = result {
        operands.fold(b, 0..b.me + usize::from(with_own), 0, mine, result);
    }
    b.release(1);
    b.takes_slots(1, bytes as u64)
}
