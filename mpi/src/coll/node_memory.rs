//! Memory by which the processes of a communicator on one node exchange the data of collective
//! operations.
//!
//! Each process has a ring of [`SLOTS`] slots, which it alone writes. A slot is a line with a flag,
//! a signature of the operation and a little data, and room for more data elsewhere. Uses of slots
//! have numbers ([`SlotId`]): that of the operation among those of the communicator, which all
//! processes count alike, and that within the operation. A process writes the data of a slot, then
//! posts it: its flag becomes the number. The others wait for the flag and read. A slot is written
//! anew when all others have released its last use: each process tells up to which number it reads
//! nothing any more.
//!
//! Blocking operations and those with requests have rings of their own ([`Lane`]), since programs
//! exist that mix the order of both. The operations of a lane are run one after the other. So each
//! of the first persistent operations has one, too: processes may start them in any order.
//!
//! A process that is going to sleep says what it waits for. Who posts or releases looks whether
//! somebody sleeps for it, takes the note away and sends an empty message, which wakes the process.
//! `flags` says why no wake is lost.
//!
//! Memory whose communicator was freed serves the next one of the same processes ([`NodePool`]).
//! Nothing in it is set back: the operations of the next one follow as if they were of the last.
//! [`NodeMemory::digest`] tells whether all processes have ended it after the same operations.
//!
//! [`NodePool`]: super::node_pool::NodePool

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use ch3_shim::shared_memory::SharedMemory;

use super::flags;
use super::sync::Barriers;

/// Slots of a ring.
pub const SLOTS: u64 = 8;
/// Bytes of data beside the flag.
pub const SHORT: usize = 48;
/// Bytes of data elsewhere, for each slot.
pub const LONG: usize = 64 * 1024;
/// Most processes that share memory: each reads the flags of all.
pub const MAX_PROCESSES: usize = 256;

/// Looks at a flag before a wait does anything else: they take less time than that.
const LOOKS: u32 = 64;
/// The same where processes share cores: few, since whoever posts may need the core of this one.
const CROWDED_LOOKS: u32 = 4;

/// Bytes from one word that others wait for to the next: two lines, since processors fetch pairs.
const LINE: usize = 128;
/// Places in the control part of a process, in bytes.
const RELEASED: usize = 0;
const SLEEPS: usize = LINE;
const CONTROL: usize = 2 * LINE;
/// Bytes of a slot: the line of its flag, and then longer data, since processors fetch what follows
/// a line.
const SLOT: usize = LINE + LONG;
/// The place of longer data in a slot.
const DATA: usize = LINE / 2;
/// Bytes of a process in one lane.
const PROCESS: usize = (CONTROL + SLOTS as usize * SLOT).next_multiple_of(4096);
/// Bytes of the whole memory's head: the number of sleepers of each lane, then what was settled.
const HEAD: usize = 4096;
const SETTLED: usize = LANES * LINE;

/// The number of a slot's use: that of the operation, then that within the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotId(u64);

/// Bits of the number within the operation.
const INDEX_BITS: u32 = 16;
/// Bits of the length of a block in an entry.
const ENTRY_BITS: u32 = 44;

impl SlotId {
    /// Makes the number; operations count from 1.
    fn new(operation: u64, index: u64) -> SlotId {
        debug_assert!(operation > 0 && index < 1 << INDEX_BITS);
        SlotId(operation << INDEX_BITS | index)
    }

    /// The word of an entry: what belongs to this use alone, and the length of a block.
    fn entry_word(self, bytes: usize) -> u64 {
        (self.0 >> INDEX_BITS) << ENTRY_BITS | (bytes as u64 & ((1 << ENTRY_BITS) - 1))
    }

    /// Returns the length in an entry's word; `None` if that is of another use.
    fn entry_bytes(self, word: u64) -> Option<usize> {
        let bytes = (word & ((1 << ENTRY_BITS) - 1)) as usize;
        (word == self.entry_word(bytes)).then_some(bytes)
    }

    /// The slot's place in the ring. Operations begin at places in turn, so that one is written
    /// while the last one is read.
    fn place(self) -> usize {
        (((self.0 >> INDEX_BITS) + self.0) % SLOTS) as usize
    }
}

/// Lanes: two, and those of persistent operations.
pub const LANES: usize = 8;

/// The rings of one kind of operations, or of one persistent operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lane(u8);

impl Lane {
    /// The lane of blocking operations.
    pub const BLOCKING: Lane = Lane(0);
    /// The lane of operations with requests.
    pub const REQUEST: Lane = Lane(1);

    /// Returns the lane of a communicator's persistent operation number `made`, counted from 0.
    /// `None` if there are too many.
    pub fn persistent(made: u32) -> Option<Lane> {
        u8::try_from(made).ok()?.checked_add(2).filter(|lane| usize::from(*lane) < LANES).map(Lane)
    }

    /// Returns its number, below [`LANES`].
    #[inline]
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// An event that a process waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A process has posted a slot.
    Post {
        /// Its rank.
        rank: usize,
        /// The slot.
        slot: SlotId,
    },
    /// A process has released the slots below one.
    Release {
        /// Its rank.
        rank: usize,
        /// The slot.
        slot: SlotId,
    },
}

/// A posted slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posted {
    /// The operation as its process sees it.
    pub signature: u64,
    /// True if the operation has failed there, and the data is void.
    pub failed: bool,
    /// True if the process has gone on to another operation, which it takes for this one.
    pub is_later: bool,
}

/// This process's view of a lane. All are relaxed: one thread at a time uses them.
#[derive(Debug, Default)]
struct Own {
    /// Operations of the communicator that have begun, with slots or without.
    operations: AtomicU64,
    /// Operations with slots that have begun, and those that are over.
    begun: AtomicU64,
    over: AtomicU64,
    /// The last use of each of this process's slots.
    last: [AtomicU64; SLOTS as usize],
    /// All others have released the slots below this one, at least.
    released: AtomicU64,
}

/// The place of an operation in its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The lane.
    pub lane: Lane,
    operation: u64,
    /// Its number among the operations with slots.
    turn: u64,
}

impl Place {
    /// Returns the number of a slot of the operation.
    #[inline]
    pub fn slot(self, index: u32) -> SlotId {
        SlotId::new(self.operation, index.into())
    }
}

/// Bytes of memory that the communicators of this process share, or are about to.
static LEASED: AtomicUsize = AtomicUsize::new(0);

/// The part of a communicator in the memory that a process shares, until it is dropped.
#[derive(Debug)]
pub struct Lease {
    bytes: usize,
}

impl Lease {
    /// Takes memory for `n` processes if all leases together are no more than `most` bytes.
    pub fn take(n: usize, most: usize) -> Option<Lease> {
        let bytes = NodeMemory::bytes(n);
        let add = |leased: usize| leased.checked_add(bytes).filter(|all| *all <= most);
        LEASED.fetch_update(Relaxed, Relaxed, add).ok().map(|_| Lease { bytes })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        LEASED.fetch_sub(self.bytes, Relaxed);
    }
}

/// The memory that the processes of a communicator share.
#[derive(Debug)]
pub struct NodeMemory {
    memory: SharedMemory,
    me: usize,
    n: usize,
    barriers: Barriers,
    own: [Own; LANES],
    /// The communicators that have had it before.
    usage: u64,
    /// An operation has failed, so that processes may differ about what was posted.
    is_spoiled: AtomicBool,
    /// Ends with the memory.
    _lease: Option<Lease>,
}

impl NodeMemory {
    /// Returns the bytes of shared memory for `n` processes.
    pub fn bytes(n: usize) -> usize {
        HEAD + LANES * n * PROCESS
    }

    /// Settles whether the processes use the memory for a communicator, if none has before. Returns
    /// the answer that counts.
    pub fn settle(&self, is_used: bool) -> bool {
        flags::settle(self.memory.word(SETTLED), self.usage, is_used)
    }

    /// Closes it to further processes.
    pub fn close(&mut self) {
        self.memory.close();
    }

    /// Makes it the memory of the next communicator.
    pub fn reuse(&mut self) {
        self.usage += 1;
    }

    /// Notes that an operation has failed: no other communicator gets the memory.
    #[cold]
    pub fn spoil(&self) {
        self.is_spoiled.store(true, Relaxed);
    }

    /// Returns true if another communicator may have the memory: no operation is under way or has
    /// failed.
    pub fn is_clean(&self) -> bool {
        let is_idle = |own: &Own| own.begun.load(Relaxed) == own.over.load(Relaxed);
        !self.is_spoiled.load(Relaxed) && self.own.iter().all(is_idle)
    }

    /// The number that tells it apart from other memory, the same in all processes.
    pub fn identity(&self) -> u64 {
        self.memory.identity()
    }

    /// A number that all processes have in common which have ended the same operations in it. It is
    /// not 0.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.memory.identity(), self.usage).hash(&mut hasher);
        for own in &self.own {
            (own.operations.load(Relaxed), own.begun.load(Relaxed)).hash(&mut hasher);
        }
        hasher.finish() | 1
    }

    /// Uses shared memory of [`NodeMemory::bytes`] as process `me` of `n`.
    ///
    /// `fences`: not all processes are registered for fences.
    pub fn new(memory: SharedMemory, (me, n): (usize, usize), fences: bool) -> NodeMemory {
        debug_assert!(memory.len() >= NodeMemory::bytes(n) && me < n);
        let barriers = if fences { Barriers::Own } else { Barriers::OfAll };
        NodeMemory {
            memory,
            me,
            n,
            barriers,
            own: Default::default(),
            usage: 0,
            is_spoiled: AtomicBool::new(false),
            _lease: None,
        }
    }

    /// Keeps the lease of the memory as long as the memory.
    pub fn with(mut self, lease: Option<Lease>) -> NodeMemory {
        self._lease = lease;
        self
    }

    /// The rank of this process.
    pub fn me(&self) -> usize {
        self.me
    }

    #[inline]
    fn own(&self, lane: Lane) -> &Own {
        &self.own[lane.index()]
    }

    #[inline]
    fn control(&self, lane: Lane, rank: usize) -> usize {
        HEAD + (lane.index() * self.n + rank) * PROCESS
    }

    #[inline]
    fn line(&self, lane: Lane, rank: usize, slot: SlotId) -> usize {
        self.control(lane, rank) + CONTROL + slot.place() * SLOT
    }

    fn sleepers(&self, lane: Lane) -> &AtomicU64 {
        self.memory.word(lane.index() * LINE)
    }

    fn sleep_word(&self, lane: Lane, rank: usize) -> &AtomicU64 {
        self.memory.word(self.control(lane, rank) + SLEEPS)
    }

    /// Counts the next operation of a lane; `with_slots` if it uses slots.
    pub fn begin(&self, lane: Lane, with_slots: bool) -> Place {
        let own = self.own(lane);
        let (operation, turn) = (own.operations.load(Relaxed) + 1, own.begun.load(Relaxed));
        own.operations.store(operation, Relaxed);
        own.begun.store(turn + u64::from(with_slots), Relaxed);
        Place { lane, operation, turn }
    }

    /// Returns true if the operations before this one are over.
    #[inline]
    pub fn is_first(&self, place: Place) -> bool {
        self.own(place.lane).over.load(Relaxed) == place.turn
    }

    /// Ends an operation.
    #[inline]
    pub fn end(&self, place: Place) {
        self.own(place.lane).over.store(place.turn + 1, Relaxed);
    }

    /// Returns who must release what before this process's slot may be written anew; `None` if it
    /// may.
    #[inline]
    pub fn awaited_release(&self, lane: Lane, slot: SlotId) -> Option<Awaited> {
        let own = self.own(lane);
        let last = own.last[slot.place()].load(Relaxed);
        if last < own.released.load(Relaxed) || last == 0 {
            return None;
        }
        self.look_for_release(lane, SlotId(last + 1))
    }

    #[cold]
    #[inline(never)]
    fn look_for_release(&self, lane: Lane, need: SlotId) -> Option<Awaited> {
        let mut least = u64::MAX;
        for rank in (0..self.n).filter(|rank| *rank != self.me) {
            let released = flags::get(self.memory.word(self.control(lane, rank) + RELEASED));
            if released < need.0 {
                return Some(Awaited::Release { rank, slot: need });
            }
            least = least.min(released);
        }
        self.own(lane).released.store(least, Relaxed);
        None
    }

    /// Posts a slot of this process. Then [`NodeMemory::sleepers_for_post`] tells whom to wake.
    #[inline]
    pub fn post(&self, lane: Lane, slot: SlotId, signature: u64, failed: bool) {
        self.own(lane).last[slot.place()].store(slot.0, Relaxed);
        let line = self.line(lane, self.me, slot);
        self.memory.word(line + 8).store(signature, Relaxed);
        flags::set(self.memory.word(line), slot.0 << 1 | u64::from(failed));
    }

    /// Returns what a process has posted in a slot; `None` if that did not happen yet.
    #[inline]
    pub fn posted(&self, lane: Lane, rank: usize, slot: SlotId) -> Option<Posted> {
        let line = self.line(lane, rank, slot);
        let flag = flags::get(self.memory.word(line));
        if flag >> 1 < slot.0 {
            return None;
        }
        let signature = self.memory.word(line + 8).load(Relaxed);
        Some(Posted { signature, failed: flag & 1 != 0, is_later: flag >> 1 > slot.0 })
    }

    /// Works like [`NodeMemory::posted`], and looks for a while: who posts is often about to.
    /// It is a shorter while if processes share cores.
    #[inline]
    pub fn soon_posted(&self, lane: Lane, rank: usize, slot: SlotId, shares_cores: bool) -> Option<Posted> {
        let looks = if shares_cores { CROWDED_LOOKS } else { LOOKS };
        (0..looks).find_map(|_| self.posted(lane, rank, slot))
    }

    /// Releases the slots below this one: this process reads nothing of them any more.
    #[inline]
    pub fn release(&self, lane: Lane, slot: SlotId) {
        flags::set(self.memory.word(self.control(lane, self.me) + RELEASED), slot.0);
    }

    /// The address of a slot's data.
    #[inline]
    pub fn data(&self, lane: Lane, rank: usize, slot: SlotId, short: bool) -> *mut u8 {
        let at = self.data_at(lane, rank, slot, (short, 0));
        self.memory.at(at, if short { SHORT } else { LONG })
    }

    /// Byte `at` of the data of a slot, from the start of the memory on.
    #[inline]
    fn data_at(&self, lane: Lane, rank: usize, slot: SlotId, (short, at): (bool, usize)) -> usize {
        self.line(lane, rank, slot) + at + if short { 16 } else { DATA }
    }

    /// Writes the word of an entry in a slot of this process, which tells the length of its block.
    pub fn set_entry(&self, lane: Lane, slot: SlotId, place: (bool, usize), bytes: usize) {
        let at = self.data_at(lane, self.me, slot, place);
        self.memory.word(at).store(slot.entry_word(bytes), Relaxed);
    }

    /// Returns the length of the block in an entry of a posted slot. `None`: the process has
    /// written none there.
    pub fn entry(&self, lane: Lane, rank: usize, slot: SlotId, place: (bool, usize)) -> Option<usize> {
        slot.entry_bytes(self.memory.word(self.data_at(lane, rank, slot, place)).load(Relaxed))
    }

    /// Returns true if a process is past the operation of a slot. All that it has posted in it was
    /// seen before.
    pub fn is_past(&self, lane: Lane, rank: usize, slot: SlotId) -> bool {
        let released = flags::get(self.memory.word(self.control(lane, rank) + RELEASED));
        released >> INDEX_BITS > slot.0 >> INDEX_BITS
    }

    /// Returns true if what a process waits for has happened.
    pub fn has_happened(&self, lane: Lane, awaited: Awaited) -> bool {
        match awaited {
            Awaited::Post { rank, slot } => self.posted(lane, rank, slot).is_some(),
            Awaited::Release { rank, slot } => {
                flags::get(self.memory.word(self.control(lane, rank) + RELEASED)) >= slot.0
            }
        }
    }

    /// Says that this process is going to sleep until something has happened. False if it has.
    ///
    /// Either way [`NodeMemory::wake_up`] must follow, once.
    pub fn go_to_sleep(&self, lane: Lane, awaited: Awaited) -> bool {
        let note = self.sleep_word(lane, self.me);
        let is_seen = flags::go_to_sleep(self.sleepers(lane), note, awaited.to_word(), &self.barriers);
        is_seen && !self.has_happened(lane, awaited)
    }

    /// Takes the note of [`NodeMemory::go_to_sleep`] back. True if somebody has taken it and sends
    /// a message, or has sent it.
    pub fn wake_up(&self, lane: Lane) -> bool {
        flags::wake_up(self.sleepers(lane), self.sleep_word(lane, self.me))
    }

    /// Calls `wake` for each process that sleeps until this one has posted a slot.
    #[inline]
    pub fn sleepers_for_post(&self, lane: Lane, slot: SlotId, wake: impl FnMut(usize)) {
        if self.anybody_sleeps(lane) {
            self.take_notes(lane, Awaited::Post { rank: self.me, slot }, wake);
        }
    }

    /// Calls `wake` for each process that sleeps until this one has released a slot.
    #[inline]
    pub fn sleepers_for_release(&self, lane: Lane, slot: SlotId, wake: impl FnMut(usize)) {
        if self.anybody_sleeps(lane) {
            self.take_notes(lane, Awaited::Release { rank: self.me, slot }, wake);
        }
    }

    #[inline]
    fn anybody_sleeps(&self, lane: Lane) -> bool {
        flags::anybody_sleeps(self.sleepers(lane), &self.barriers)
    }

    #[cold]
    #[inline(never)]
    fn take_notes(&self, lane: Lane, happened: Awaited, mut wake: impl FnMut(usize)) {
        let is_over = |note| Awaited::of_word(note).is_some_and(|awaited| happened.ends(awaited));
        for rank in (0..self.n).filter(|rank| *rank != self.me) {
            if flags::take(self.sleep_word(lane, rank), is_over) {
                wake(rank);
            }
        }
    }
}

/// Bits of a note: the slot, then whether it is to be released, then the rank, from 1 on.
const SLOT_BITS: u32 = 54;

impl Awaited {
    /// The process that is waited for.
    pub fn rank(self) -> usize {
        match self {
            Awaited::Post { rank, .. } | Awaited::Release { rank, .. } => rank,
        }
    }

    fn to_word(self) -> u64 {
        let (rank, release, slot) = match self {
            Awaited::Post { rank, slot } => (rank, 0, slot),
            Awaited::Release { rank, slot } => (rank, 1, slot),
        };
        (rank as u64 + 1) << (SLOT_BITS + 1) | release << SLOT_BITS | slot.0
    }

    fn of_word(word: u64) -> Option<Awaited> {
        let rank = (word >> (SLOT_BITS + 1)).checked_sub(1)? as usize;
        let slot = SlotId(word & ((1 << SLOT_BITS) - 1));
        let release = word >> SLOT_BITS & 1 == 1;
        Some(if release { Awaited::Release { rank, slot } } else { Awaited::Post { rank, slot } })
    }

    /// Returns true if what has happened is what `awaited` waits for.
    fn ends(self, awaited: Awaited) -> bool {
        match (self, awaited) {
            (Awaited::Post { rank, slot }, Awaited::Post { rank: of, slot: need })
            | (Awaited::Release { rank, slot }, Awaited::Release { rank: of, slot: need }) => {
                rank == of && slot >= need
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_counted_until_they_end() {
        // Other tests have leases, too: none is as large as these.
        let (bytes, most) = (NodeMemory::bytes(200), 3 * NodeMemory::bytes(200) - 1);
        let first = Lease::take(200, most).expect("nothing is leased yet");
        let second = Lease::take(200, most).expect("there is room for two");
        assert!(Lease::take(200, most).is_none() && LEASED.load(Relaxed) >= 2 * bytes);
        drop(first);
        let third = Lease::take(200, most).expect("the first one has ended");
        assert!(Lease::take(200, most).is_none() && Lease::take(2, 0).is_none());
        drop((second, third));
        assert!(Lease::take(200, bytes + bytes / 2).is_some());
    }
}
