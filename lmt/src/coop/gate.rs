//! Positions of a ring in memory that both sides write, and who is to be woken.
//!
//! Each side writes its own position alone and keeps a copy of it, so that the peer cannot move it; what the peer
//! says of its own is checked each time it is read. The file is compiled a second time in tests,
//! against loom.

use super::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// The positions of a ring are not those of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the peer's position in the ring is {theirs}, this side's is {ours}, and the ring has {size} bytes; is its memory overwritten?"
)]
pub struct Corrupt {
    /// The peer's position.
    pub theirs: u64,
    /// This side's.
    pub ours: u64,
    /// Bytes of the ring.
    pub size: u64,
}

/// In a cache line of its own: each is written by one side, in its own time.
#[repr(C, align(128))]
#[derive(Debug, Default)]
struct Apart<T>(T);

/// What both sides see.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// Bytes that were put in, in all.
    head: Apart<AtomicU64>,
    /// Bytes that were taken out, in all.
    tail: Apart<AtomicU64>,
    /// Not 0 if the one who puts in waits to be woken.
    putter_sleeps: Apart<AtomicU32>,
    /// The same of the one who takes out.
    taker_sleeps: Apart<AtomicU32>,
}

/// The side that puts in.
#[derive(Debug)]
pub(super) struct Putter {
    head: u64,
    tail: u64,
    size: u64,
}

/// The side that takes out.
#[derive(Debug)]
pub(super) struct Taker {
    head: u64,
    tail: u64,
    size: u64,
}

/// Sleeps only if nothing has changed: the flag is up before the last look, and who changes something
/// looks at the flag after it. One of the two sees the other.
fn lie_down(flag: &AtomicU32, still: impl FnOnce() -> bool) -> bool {
    flag.store(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    if still() {
        return true;
    }
    flag.store(0, Ordering::Relaxed);
    false
}

/// Whether the other side sleeps, and is to be woken by who asks.
fn must_wake(flag: &AtomicU32) -> bool {
    fence(Ordering::SeqCst);
    flag.load(Ordering::Relaxed) != 0 && flag.swap(0, Ordering::Relaxed) != 0
}

impl Putter {
    pub(super) fn new(size: u64) -> Putter {
        Putter { head: 0, tail: 0, size }
    }

    /// Its position.
    pub(super) fn at(&self) -> u64 {
        self.head
    }

    /// Bytes that can be put in, at least `wanted` if there are so many.
    pub(super) fn room(&mut self, gate: &Gate, wanted: u64) -> Result<u64, Corrupt> {
        if self.size - (self.head - self.tail) < wanted {
            let tail = gate.tail.0.load(Ordering::Acquire);
            if tail < self.tail || tail > self.head {
                return Err(Corrupt { theirs: tail, ours: self.head, size: self.size });
            }
            self.tail = tail;
        }
        Ok(self.size - (self.head - self.tail))
    }

    /// `n` bytes were put in, for which there was room.
    pub(super) fn put(&mut self, gate: &Gate, n: u64) {
        self.head += n;
        gate.head.0.store(self.head, Ordering::Release);
    }

    /// Whether the taker is to be woken.
    pub(super) fn must_wake(&self, gate: &Gate) -> bool {
        must_wake(&gate.taker_sleeps.0)
    }

    /// Whether this side may sleep: there is no room, and who makes some will wake it.
    pub(super) fn lie_down(&mut self, gate: &Gate) -> Result<bool, Corrupt> {
        let mut room = Ok(0);
        let sleeps = lie_down(&gate.putter_sleeps.0, || {
            room = self.room(gate, 1);
            room == Ok(0)
        });
        room.map(|_| sleeps)
    }
}

impl Taker {
    pub(super) fn new(size: u64) -> Taker {
        Taker { head: 0, tail: 0, size }
    }

    /// Its position.
    pub(super) fn at(&self) -> u64 {
        self.tail
    }

    /// Bytes that can be taken out.
    pub(super) fn there(&mut self, gate: &Gate) -> Result<u64, Corrupt> {
        if self.head == self.tail {
            let head = gate.head.0.load(Ordering::Acquire);
            if head < self.head || head - self.tail > self.size {
                return Err(Corrupt { theirs: head, ours: self.tail, size: self.size });
            }
            self.head = head;
        }
        Ok(self.head - self.tail)
    }

    /// `n` bytes were taken out, which were there.
    pub(super) fn take(&mut self, gate: &Gate, n: u64) {
        self.tail += n;
        gate.tail.0.store(self.tail, Ordering::Release);
    }

    /// Whether the putter is to be woken.
    pub(super) fn must_wake(&self, gate: &Gate) -> bool {
        must_wake(&gate.putter_sleeps.0)
    }

    /// Whether this side may sleep: nothing is there, and who puts something in will wake it.
    pub(super) fn lie_down(&mut self, gate: &Gate) -> Result<bool, Corrupt> {
        let mut there = Ok(0);
        let sleeps = lie_down(&gate.taker_sleeps.0, || {
            there = self.there(gate);
            there == Ok(0)
        });
        there.map(|_| sleeps)
    }
}

#[cfg(test)]
impl Gate {
    /// Writes what an honest peer would not.
    pub(super) fn forge(&self, head: u64, tail: u64) {
        self.head.0.store(head, Ordering::Release);
        self.tail.0.store(tail, Ordering::Release);
    }
}
