//! The words by which processes wait for each other in shared memory: flags, and notes of those who
//! sleep.
//!
//! A process that is going to sleep leaves a *note*, and then looks at the flag once more. The one
//! that sets the flag then looks for notes. Of two that store and then look, one sees the other, if
//! a full fence lies between (Dekker). The fence of the one that sets flags would wait for all its
//! stores, which takes longer than all else it does; so it has a *light* barrier, which only keeps
//! the compiler from swapping the two, and the sleeper a *heavy* one, which puts a full fence into
//! all processes. A note is taken away by an atomic operation, so once: by the one that wakes the
//! sleeper, or by the sleeper itself.

use super::sync::{AtomicU64, Barriers, Ordering};

/// Sets a flag. What was written before is seen by who sees it.
#[inline]
pub(super) fn set(flag: &AtomicU64, value: u64) {
    flag.store(value, Ordering::Release);
}

/// Returns the value of a flag.
#[inline]
pub(super) fn get(flag: &AtomicU64) -> u64 {
    flag.load(Ordering::Acquire)
}

/// Leaves a note, which is not 0. The flag must be looked at then. False if the note may not be
/// seen.
#[must_use]
pub(super) fn go_to_sleep(sleepers: &AtomicU64, note: &AtomicU64, value: u64, barriers: &Barriers) -> bool {
    sleepers.fetch_add(1, Ordering::AcqRel);
    note.store(value, Ordering::Release);
    barriers.heavy()
}

/// Takes the own note away. True if somebody else has, and sends a message.
#[must_use]
pub(super) fn wake_up(sleepers: &AtomicU64, note: &AtomicU64) -> bool {
    let is_taken = note.swap(0, Ordering::AcqRel) == 0;
    sleepers.fetch_sub(1, Ordering::AcqRel);
    is_taken
}

/// Returns true if there may be notes. What they wait for was set before.
#[inline]
pub(super) fn anybody_sleeps(sleepers: &AtomicU64, barriers: &Barriers) -> bool {
    barriers.light();
    sleepers.load(Ordering::Relaxed) > 0
}

/// Takes a note away whose wait is over by `is_over`. True if its process is to be woken.
#[must_use]
pub(super) fn take(note: &AtomicU64, is_over: impl FnOnce(u64) -> bool) -> bool {
    let value = note.load(Ordering::Acquire);
    value != 0
        && is_over(value)
        && note.compare_exchange(value, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}

/// Settles one bit for a use of the memory; returns the value of whoever was first. Uses are
/// counted, and each one begins when all processes have ended the one before.
pub(super) fn settle(word: &AtomicU64, usage: u64, value: bool) -> bool {
    // 0: not settled.
    let mine = (usage << 1 | u64::from(value)) + 1;
    let mut now = word.load(Ordering::Acquire);
    loop {
        match now.checked_sub(1) {
            Some(first) if first >> 1 >= usage => return first & 1 == 1,
            _ => match word.compare_exchange(now, mine, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return value,
                Err(other) => now = other,
            },
        }
    }
}
