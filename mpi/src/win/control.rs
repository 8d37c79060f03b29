//! Words by which the processes of a node synchronize on a window's memory: locks, and notes of
//! those that sleep.
//!
//! Each process has a block of words. They are in memory that the processes of a node share, if
//! they do, and otherwise in the process's own, where messages of the others use them.
//!
//! **Locks.** A word has the rank of the exclusive holder, plus one, in its upper half, and the
//! number of those that share the lock in its lower half. To take and to give back is one atomic
//! operation.
//!
//! **Sleep.** Who is going to sleep for a lock notes it in its block and counts itself at the lock,
//! then looks at the lock again. Who gives a lock back looks whether somebody is counted there, and
//! if so takes the notes of the node and sends their owners a message each. Both sides' operations
//! are sequentially consistent, so one of both sees the other.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use ch3_shim::shared_memory::SharedMemory;
use std::sync::Arc;

/// Words of a process: four pairs of cache lines.
const BLOCK: usize = 64;
/// The places of the words in a block.
const LOCK: usize = 0;
const SLEEPERS: usize = 8;
const ELEMENTS: usize = 16;
const ASLEEP: usize = 32;
const WAKES: usize = 40;

/// Bytes of the words of a process.
pub(super) const BYTES: usize = BLOCK * 8;

/// The kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockKind {
    /// Nobody else has the lock.
    Exclusive,
    /// Others may share it.
    Shared,
}

/// The words of the processes of a node.
#[derive(Debug)]
pub(super) enum Control {
    /// In memory that they share, from this byte on.
    Shared(Arc<SharedMemory>, usize),
    /// In memory of this process, which is alone.
    Own(Box<[AtomicU64]>),
}

impl Control {
    /// Makes the words of a process that is alone.
    pub(super) fn own() -> Control {
        Control::Own((0..BLOCK).map(|_| AtomicU64::new(0)).collect())
    }

    #[inline]
    fn word(&self, process: usize, word: usize) -> &AtomicU64 {
        let index = process * BLOCK + word;
        match self {
            Control::Shared(memory, at) => memory.word(at + index * 8),
            Control::Own(words) => &words[index],
        }
    }

    /// Takes the lock of a process for rank `me`, if it can be had now.
    #[inline]
    pub(super) fn try_lock(&self, process: usize, kind: LockKind, me: u32) -> bool {
        let lock = self.word(process, LOCK);
        match kind {
            LockKind::Exclusive => {
                let mine = u64::from(me + 1) << 32;
                lock.compare_exchange(0, mine, SeqCst, Relaxed).is_ok()
            }
            LockKind::Shared => {
                let mut now = lock.load(Relaxed);
                while now >> 32 == 0 {
                    match lock.compare_exchange_weak(now, now + 1, SeqCst, Relaxed) {
                        Ok(_) => return true,
                        Err(other) => now = other,
                    }
                }
                false
            }
        }
    }

    /// Gives a lock back. Returns true if somebody may sleep for it.
    #[inline]
    pub(super) fn unlock(&self, process: usize, kind: LockKind) -> bool {
        let lock = self.word(process, LOCK);
        match kind {
            LockKind::Exclusive => lock.store(0, SeqCst),
            LockKind::Shared => _ = lock.fetch_sub(1, SeqCst),
        }
        self.word(process, SLEEPERS).load(SeqCst) > 0
    }

    /// Counts this process among those that may sleep for the lock of a process.
    pub(super) fn begin_sleep(&self, process: usize) {
        self.word(process, SLEEPERS).fetch_add(1, SeqCst);
    }

    /// Notes that process `me` of the node is going to sleep. Returns true if the note is a new
    /// one: then the lock is to be looked at again.
    pub(super) fn note_sleep(&self, me: usize) -> bool {
        self.word(me, ASLEEP).swap(1, SeqCst) == 0
    }

    /// Notes that this process does not sleep for the lock of a process any more.
    pub(super) fn end_sleep(&self, process: usize) {
        self.word(process, SLEEPERS).fetch_sub(1, SeqCst);
    }

    /// Takes the notes of all processes that sleep, each of which is to be sent a message.
    pub(super) fn take_sleepers(&self, processes: usize) -> Vec<usize> {
        let asleep = |process: &usize| {
            let note = self.word(*process, ASLEEP);
            note.load(SeqCst) != 0 && note.swap(0, SeqCst) != 0
        };
        let all: Vec<usize> = (0..processes).filter(asleep).collect();
        for process in &all {
            self.word(*process, WAKES).fetch_add(1, SeqCst);
        }
        all
    }

    /// Returns the messages that were sent to wake a process.
    pub(super) fn wakes(&self, process: usize) -> u64 {
        self.word(process, WAKES).load(SeqCst)
    }

    /// Takes the lock of a process's elements for rank `me` if it is free. Otherwise returns the
    /// rank that has it.
    #[inline]
    pub(super) fn try_lock_elements(&self, process: usize, me: u32) -> Result<(), u32> {
        let lock = self.word(process, ELEMENTS);
        let taken = lock.compare_exchange(0, u64::from(me) + 1, Acquire, Relaxed);
        taken.map(|_| ()).map_err(|holder| (holder - 1) as u32)
    }

    /// Takes the lock of a process's elements from a rank that is lost. Returns false if another
    /// one has it by now.
    pub(super) fn take_elements_from(&self, process: usize, lost: u32, me: u32) -> bool {
        let (lost, mine) = (u64::from(lost) + 1, u64::from(me) + 1);
        self.word(process, ELEMENTS).compare_exchange(lost, mine, Acquire, Relaxed).is_ok()
    }

    /// Gives the lock of a process's elements back.
    #[inline]
    pub(super) fn unlock_elements(&self, process: usize) {
        self.word(process, ELEMENTS).store(0, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_exclude_and_share() {
        let control = Control::own();
        let (shared, exclusive) = (LockKind::Shared, LockKind::Exclusive);
        assert!(control.try_lock(0, shared, 1) && control.try_lock(0, shared, 2));
        assert!(!control.try_lock(0, exclusive, 3));
        assert!(!control.unlock(0, shared) && !control.unlock(0, shared));
        assert!(control.try_lock(0, exclusive, 3));
        assert!(!control.try_lock(0, shared, 1) && !control.try_lock(0, exclusive, 1));
        control.begin_sleep(0);
        assert!(control.note_sleep(0) && !control.note_sleep(0));
        assert!(control.unlock(0, exclusive), "somebody sleeps for it");
        assert_eq!((control.take_sleepers(1), control.take_sleepers(1)), (vec![0], vec![]));
        assert_eq!(control.wakes(0), 1);
        control.end_sleep(0);
        assert!(control.try_lock(0, shared, 0) && !control.unlock(0, shared));
    }

    #[test]
    fn elements_are_locked_by_one_and_taken_from_the_lost() {
        let control = Control::own();
        assert_eq!(control.try_lock_elements(0, 5), Ok(()));
        assert_eq!(control.try_lock_elements(0, 6), Err(5));
        assert!(!control.take_elements_from(0, 4, 6) && control.take_elements_from(0, 5, 6));
        control.unlock_elements(0);
        assert_eq!(control.try_lock_elements(0, 7), Ok(()));
    }
}
