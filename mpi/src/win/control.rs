//! Words by which the processes of a node synchronize on a window's memory: locks, and notes of
//! those that sleep.
//!
//! Each process has a block of words. They are in memory that the processes of a node share, if
//! they do, and otherwise in the process's own, where messages of the others use them.
//!
//! **Locks.** A word is a lock that is given in the order of the requests (`tickets`).
//!
//! **Accumulations.** A word of each process locks its memory for long accumulations, and a note
//! tells at whose memory it does short ones (`elements`).
//!
//! **Sleep.** Who is going to sleep for a lock notes it in its block and counts itself at the lock,
//! then looks at the lock again. Who gives a lock back looks whether somebody is counted there, and
//! if so takes the notes of the node and sends their owners a message each. Both sides' operations
//! are sequentially consistent, so one of both sees the other.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use ch3_shim::shared_memory::SharedMemory;

use super::elements;
use super::tickets::{self, LockKind, Ticket};

/// Words of a process: four pairs of cache lines.
const BLOCK: usize = 64;
/// The places of the words in a block.
const LOCK: usize = 0;
const SLEEPERS: usize = 8;
const ELEMENTS: usize = 16;
const ASLEEP: usize = 32;
const WAKES: usize = 40;
const SHORT: usize = 48;

/// Bytes of the words of a process.
pub(super) const BYTES: usize = BLOCK * 8;

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

    /// Asks for the lock of a process. Returns the ticket by which it is waited for if it cannot be
    /// had at once.
    #[inline]
    pub(super) fn lock(&self, process: usize, kind: LockKind) -> Result<(), Ticket> {
        tickets::ask(self.word(process, LOCK), kind)
    }

    /// Takes the lock of a process if it is the ticket's turn.
    pub(super) fn try_enter(&self, process: usize, kind: LockKind, ticket: Ticket) -> bool {
        tickets::try_enter(self.word(process, LOCK), kind, ticket)
    }

    /// Gives a lock back. Returns true if somebody may sleep for it.
    #[inline]
    pub(super) fn unlock(&self, process: usize, kind: LockKind) -> bool {
        tickets::leave(self.word(process, LOCK), kind);
        self.has_sleepers(process)
    }

    /// Returns true if somebody may sleep for the lock of a process.
    #[inline]
    pub(super) fn has_sleepers(&self, process: usize) -> bool {
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

    /// Begins a short accumulation of process `me` of the node on a process's memory, unless that
    /// is locked.
    #[inline]
    pub(super) fn begin_short(&self, me: usize, process: usize) -> bool {
        elements::begin_short(self.word(me, SHORT), self.word(process, ELEMENTS), process)
    }

    /// Ends it.
    #[inline]
    pub(super) fn end_short(&self, me: usize) {
        elements::end_short(self.word(me, SHORT));
    }

    /// Returns true if a process is at no short accumulation on the memory of another one.
    #[inline]
    pub(super) fn is_quiet(&self, process: usize, at: usize) -> bool {
        elements::is_quiet(self.word(process, SHORT), at)
    }

    /// Locks a process's memory for a long accumulation of rank `me` if it is free. Otherwise
    /// returns the rank that has it.
    #[inline]
    pub(super) fn try_lock_elements(&self, process: usize, me: u32) -> Result<(), u32> {
        elements::try_lock(self.word(process, ELEMENTS), me)
    }

    /// Takes the lock of a process's memory from a rank that is lost. Returns false if another one
    /// has it by now.
    pub(super) fn take_elements_from(&self, process: usize, lost: u32, me: u32) -> bool {
        elements::take_from(self.word(process, ELEMENTS), lost, me)
    }

    /// Gives the lock of a process's memory back.
    #[inline]
    pub(super) fn unlock_elements(&self, process: usize) {
        elements::unlock(self.word(process, ELEMENTS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_exclude_and_share() {
        let control = Control::own();
        let (shared, exclusive) = (LockKind::Shared, LockKind::Exclusive);
        assert_eq!((control.lock(0, shared), control.lock(0, shared)), (Ok(()), Ok(())));
        let ticket = control.lock(0, exclusive).unwrap_err();
        assert!(!control.unlock(0, shared) && !control.unlock(0, shared));
        assert!(control.try_enter(0, exclusive, ticket));
        let ticket = control.lock(0, shared).unwrap_err();
        control.begin_sleep(0);
        assert!(control.note_sleep(0) && !control.note_sleep(0));
        assert!(control.unlock(0, exclusive), "somebody sleeps for it");
        assert_eq!((control.take_sleepers(1), control.take_sleepers(1)), (vec![0], vec![]));
        assert_eq!(control.wakes(0), 1);
        control.end_sleep(0);
        assert!(control.try_enter(0, shared, ticket) && !control.unlock(0, shared));
    }

    #[test]
    fn nobody_is_overtaken() {
        use LockKind::{Exclusive, Shared};
        let control = Control::own();
        let (lock, enter) = (|kind| control.lock(0, kind), |kind, ticket| control.try_enter(0, kind, ticket));
        // Up to where the counters wrap around.
        for _ in 0..(1 << 21) - 2 {
            assert_eq!(lock(Exclusive), Ok(()));
            control.unlock(0, Exclusive);
        }
        assert_eq!((lock(Shared), lock(Shared)), (Ok(()), Ok(())));
        let exclusive = lock(Exclusive).unwrap_err();
        let shared = [lock(Shared).unwrap_err(), lock(Shared).unwrap_err()];
        assert!(!enter(Shared, shared[0]), "an exclusive request came before");
        control.unlock(0, Shared);
        assert!(!enter(Exclusive, exclusive));
        control.unlock(0, Shared);
        assert!(enter(Exclusive, exclusive));
        let last = lock(Exclusive).unwrap_err();
        control.unlock(0, Exclusive);
        assert!(!enter(Exclusive, last) && !enter(Shared, shared[1]));
        assert!(enter(Shared, shared[0]) && enter(Shared, shared[1]));
        control.unlock(0, Shared);
        control.unlock(0, Shared);
        assert!(enter(Exclusive, last));
        control.unlock(0, Exclusive);
        assert_eq!(lock(Exclusive), Ok(()));
    }

    #[test]
    fn elements_are_locked_by_one_and_taken_from_the_lost() {
        let control = Control::own();
        assert_eq!(control.try_lock_elements(0, 5), Ok(()));
        assert_eq!(control.try_lock_elements(0, 6), Err(5));
        assert!(!control.take_elements_from(0, 4, 6) && control.take_elements_from(0, 5, 6));
        assert!(!control.begin_short(0, 0) && control.is_quiet(0, 0));
        control.unlock_elements(0);
        assert!(control.begin_short(0, 0) && !control.is_quiet(0, 0));
        control.end_short(0);
        assert_eq!((control.is_quiet(0, 0), control.try_lock_elements(0, 7)), (true, Ok(())));
    }
}
