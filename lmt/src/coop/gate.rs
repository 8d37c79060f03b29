//! The positions of a ring in memory that both sides write, and the flags that request a wake-up.
//!
//! Each side writes only its own position and keeps a copy of it, so the peer cannot move it. The
//! peer's position is checked each time it is read. Tests compile this file a second time, against
//! loom.

use super::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Positions that no honest peer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the peer's position in the ring is {theirs}, this side's is {ours}, and the ring has {size} bytes; is its memory overwritten?"
)]
pub struct Corrupt {
    /// Position of the peer.
    pub theirs: u64,
    /// Position of this side.
    pub ours: u64,
    /// Size of the ring in bytes.
    pub size: u64,
}

/// A value in a cache line of its own; each has one writer.
#[repr(C, align(128))]
#[derive(Debug, Default)]
struct Apart<T>(T);

/// The part that both sides see.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// Bytes that were put in, in total.
    head: Apart<AtomicU64>,
    /// Bytes that were taken out, in total.
    tail: Apart<AtomicU64>,
    /// Nonzero if the producer waits to be woken.
    putter_sleeps: Apart<AtomicU32>,
    /// Nonzero if the consumer waits to be woken.
    taker_sleeps: Apart<AtomicU32>,
}

/// The producer's side.
#[derive(Debug)]
pub(super) struct Putter {
    head: u64,
    tail: u64,
    size: u64,
}

/// The consumer's side.
#[derive(Debug)]
pub(super) struct Taker {
    head: u64,
    tail: u64,
    size: u64,
}

/// Prepares to sleep; returns true if nothing has changed.
///
/// The flag is set before the last check, and whoever changes something checks the flag after it.
/// One of the two sees the other.
fn prepare_to_sleep(flag: &AtomicU32, still: impl FnOnce() -> bool) -> bool {
    flag.store(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    if still() {
        return true;
    }
    flag.store(0, Ordering::Relaxed);
    false
}

/// Returns true if the other side sleeps and the caller must wake it.
fn must_wake(flag: &AtomicU32) -> bool {
    fence(Ordering::SeqCst);
    flag.load(Ordering::Relaxed) != 0 && flag.swap(0, Ordering::Relaxed) != 0
}

impl Putter {
    pub(super) fn new(size: u64) -> Putter {
        Putter { head: 0, tail: 0, size }
    }

    /// Returns its position.
    pub(super) fn at(&self) -> u64 {
        self.head
    }

    /// Returns the bytes that can be put in, at least `wanted` if there is so much room.
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

    /// Publishes that `n` bytes were put in, for which there was room.
    pub(super) fn put(&mut self, gate: &Gate, n: u64) {
        self.head += n;
        gate.head.0.store(self.head, Ordering::Release);
    }

    /// Returns true if the consumer must be woken.
    pub(super) fn must_wake(&self, gate: &Gate) -> bool {
        must_wake(&gate.taker_sleeps.0)
    }

    /// Returns true if this side may sleep: there is no room, and the consumer will wake it.
    pub(super) fn prepare_to_sleep(&mut self, gate: &Gate) -> Result<bool, Corrupt> {
        let mut room = Ok(0);
        let sleeps = prepare_to_sleep(&gate.putter_sleeps.0, || {
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

    /// Returns its position.
    pub(super) fn at(&self) -> u64 {
        self.tail
    }

    /// Returns the bytes that can be taken out.
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

    /// Publishes that `n` bytes were taken out, which were there.
    pub(super) fn take(&mut self, gate: &Gate, n: u64) {
        self.tail += n;
        gate.tail.0.store(self.tail, Ordering::Release);
    }

    /// Returns true if the producer must be woken.
    pub(super) fn must_wake(&self, gate: &Gate) -> bool {
        must_wake(&gate.putter_sleeps.0)
    }

    /// Returns true if this side may sleep: there is no data, and the producer will wake it.
    pub(super) fn prepare_to_sleep(&mut self, gate: &Gate) -> Result<bool, Corrupt> {
        let mut there = Ok(0);
        let sleeps = prepare_to_sleep(&gate.taker_sleeps.0, || {
            there = self.there(gate);
            there == Ok(0)
        });
        there.map(|_| sleeps)
    }
}

#[cfg(test)]
impl Gate {
    /// Writes positions that an honest peer would not.
    pub(super) fn forge(&self, head: u64, tail: u64) {
        self.head.0.store(head, Ordering::Release);
        self.tail.0.store(tail, Ordering::Release);
    }
}
