//! The exclusion between short accumulations and long ones on the memory of one process.
//!
//! Short ones change single elements by atomic operations, any number at a time. Long ones have the
//! memory alone, and change it by ordinary loads and stores.
//!
//! A process that begins a short one *notes* in a word of its own on whose memory it is, and then
//! looks at the lock of that memory. One that begins a long one takes the lock, and then looks at
//! the notes of all. Of two that store and then look, one sees the other, since a full fence lies
//! between (Dekker).

use super::words::{AtomicU64, Ordering, announce, fence};

/// Begins a short accumulation on the memory of a process, unless somebody has the lock.
#[inline]
#[must_use]
pub(super) fn begin_short(note: &AtomicU64, lock: &AtomicU64, process: usize) -> bool {
    // One that waits for the lock to be given back must not hold up the one that has it.
    if lock.load(Ordering::Relaxed) != 0 {
        return false;
    }
    announce(note, process as u64 + 1);
    if lock.load(Ordering::SeqCst) == 0 {
        return true;
    }
    end_short(note);
    false
}

/// Ends a short accumulation.
#[inline]
pub(super) fn end_short(note: &AtomicU64) {
    note.store(0, Ordering::Release);
}

/// Takes the lock for rank `me` if it is free. Otherwise returns the rank that has it. Then the
/// notes of all processes are to be looked at.
#[inline]
pub(super) fn try_lock(lock: &AtomicU64, me: u32) -> Result<(), u32> {
    let taken = lock.compare_exchange(0, u64::from(me) + 1, Ordering::SeqCst, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    taken.map(|_| ()).map_err(|holder| (holder - 1) as u32)
}

/// Takes the lock from a rank that is lost. Returns false if another one has it by now.
pub(super) fn take_from(lock: &AtomicU64, lost: u32, me: u32) -> bool {
    let (lost, mine) = (u64::from(lost) + 1, u64::from(me) + 1);
    let taken = lock.compare_exchange(lost, mine, Ordering::SeqCst, Ordering::Relaxed).is_ok();
    fence(Ordering::SeqCst);
    taken
}

/// Returns true if the owner of a note is at no short accumulation on the memory of a process.
#[inline]
pub(super) fn is_quiet(note: &AtomicU64, process: usize) -> bool {
    note.load(Ordering::SeqCst) != process as u64 + 1
}

/// Gives the lock back.
#[inline]
pub(super) fn unlock(lock: &AtomicU64) {
    lock.store(0, Ordering::Release);
}
