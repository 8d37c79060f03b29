//! Model check of the words of windows: all interleavings of processes that lock (`tickets`), and
//! of short accumulations beside a long one (`elements`), by loom. What the lock protects is a
//! `loom::cell::UnsafeCell`, so that two at once are a race; an update that is lost is a wrong sum.
//!
//! Each weakening ([`Weak`]) must be found.

#![allow(unsafe_code)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;

/// The promise that a mutant leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weak {
    Nothing,
    /// A short accumulation does not look at the lock.
    Lock,
    /// A long accumulation does not look at the notes.
    Notes,
    /// A request enters before its turn.
    Turn,
}

mod words {
    pub(super) use loom::sync::atomic::{AtomicU64, Ordering, fence};

    /// A store and a fence: loom does not know the one order of sequentially consistent accesses.
    pub(super) fn announce(word: &AtomicU64, value: u64) {
        word.store(value, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

#[allow(dead_code)]
#[allow(clippy::duplicate_mod)]
#[path = "elements.rs"]
mod elements;

#[allow(dead_code)]
#[allow(clippy::duplicate_mod)]
#[path = "tickets.rs"]
mod tickets;

use tickets::LockKind;
use words::{AtomicU64, Ordering};

/// A lock and what it protects.
struct Locked {
    word: AtomicU64,
    data: UnsafeCell<u64>,
}

impl Locked {
    /// Takes the lock, uses the data, and gives it back.
    fn visit(&self, kind: LockKind, weak: Weak) {
        if let Err(ticket) = tickets::ask(&self.word, kind) {
            while weak != Weak::Turn && !tickets::try_enter(&self.word, kind, ticket) {
                loom::thread::yield_now();
            }
        }
        match kind {
            // SAFETY: loom checks that nobody else is there.
            LockKind::Exclusive => self.data.with_mut(|p| unsafe { *p += 1 }),
            // SAFETY: loom checks that nobody writes meanwhile.
            LockKind::Shared => _ = self.data.with(|p| unsafe { *p }),
        }
        tickets::leave(&self.word, kind);
    }
}

/// Checks that two processes take the lock one after the other, or share it.
fn lock([here, there]: [LockKind; 2], weak: Weak) {
    if weak != Weak::Nothing {
        netmod_models::mutant(module_path!(), format!("{weak:?}"));
    }
    let name = format!("{here:?} and {there:?} locks");
    loom::model(netmod_models::interleavings(module_path!(), name, move || {
        let locked = Arc::new(Locked { word: AtomicU64::new(0), data: UnsafeCell::new(0) });
        let other = Arc::clone(&locked);
        let other = loom::thread::spawn(move || other.visit(there, weak));
        locked.visit(here, weak);
        other.join().expect("it does not panic");
        assert_eq!(tickets::ask(&locked.word, LockKind::Exclusive), Ok(()), "nobody has it");
    }));
}

/// Memory of one process with its words, as two processes use it.
struct Memory {
    lock: AtomicU64,
    notes: [AtomicU64; 2],
    element: AtomicU64,
}

impl Memory {
    fn short(&self, me: usize, weak: Weak) {
        while !elements::begin_short(&self.notes[me], &self.lock, 0) && weak != Weak::Lock {
            loom::thread::yield_now();
        }
        self.element.fetch_add(1, Ordering::AcqRel);
        elements::end_short(&self.notes[me]);
    }

    fn long(&self, me: usize, weak: Weak) {
        while elements::try_lock(&self.lock, me as u32).is_err() {
            loom::thread::yield_now();
        }
        while weak != Weak::Notes && !elements::is_quiet(&self.notes[1 - me], 0) {
            loom::thread::yield_now();
        }
        // No atomic update: whatever comes between is lost.
        let was = self.element.load(Ordering::Relaxed);
        self.element.store(was + 1, Ordering::Relaxed);
        elements::unlock(&self.lock);
    }
}

fn accumulate(first_is_long: bool, weak: Weak) {
    if weak != Weak::Nothing {
        netmod_models::mutant(module_path!(), format!("{weak:?}"));
    }
    loom::model(netmod_models::interleavings(module_path!(), "a long accumulation", move || {
        let notes = [AtomicU64::new(0), AtomicU64::new(0)];
        let memory = Arc::new(Memory { lock: AtomicU64::new(0), notes, element: AtomicU64::new(0) });
        let there = Arc::clone(&memory);
        let other = loom::thread::spawn(move || there.long(1, weak));
        match first_is_long {
            true => memory.long(0, weak),
            false => memory.short(0, weak),
        }
        other.join().expect("it does not panic");
        assert_eq!(memory.element.load(Ordering::Relaxed), 2, "an update was lost");
    }));
}

#[test]
fn locks_exclude_each_other() {
    use LockKind::{Exclusive, Shared};
    for kinds in [[Exclusive, Exclusive], [Exclusive, Shared], [Shared, Shared]] {
        lock(kinds, Weak::Nothing);
    }
}

#[test]
fn a_long_accumulation_is_alone() {
    accumulate(true, Weak::Nothing);
    accumulate(false, Weak::Nothing);
}

#[test]
#[should_panic]
fn entering_before_the_turn_is_a_race() {
    lock([LockKind::Exclusive, LockKind::Exclusive], Weak::Turn);
}

#[test]
#[should_panic]
fn without_a_look_at_the_lock_an_update_is_lost() {
    accumulate(false, Weak::Lock);
}

#[test]
#[should_panic]
fn without_a_look_at_the_notes_an_update_is_lost() {
    accumulate(false, Weak::Notes);
}
