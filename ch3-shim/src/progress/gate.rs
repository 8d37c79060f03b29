//! The gate of an engine: inside is its owner, or the helper that sends what the owner has left
//! staged.
//!
//! Each side writes one word and reads the other's. The owner's word says whether it is *inside*,
//! whether it has left something *staged*, and how often it has left. The helper's says whether it
//! is awake, has *claimed* the engine, or sleeps.
//!
//! - The owner enters by storing *inside*, and then looks whether the helper has claimed. If so it
//!   waits; a claim is short.
//! - The helper stores its claim, and then looks whether the owner is inside. If so it withdraws.
//! - The owner that leaves something staged says so, and then looks whether the helper sleeps. If
//!   so it wakes it.
//! - The helper that is about to sleep says so, and then looks whether something is staged. If so
//!   it stays awake.
//!
//! Each is Dekker's argument: of two that store and then look, one sees the other, if a full fence
//! lies between. The owner's fence would cost more than the rest of a small send. So the owner has
//! a *light* barrier, which only keeps the compiler from swapping the two, and the helper a *heavy*
//! one, which puts a full fence into every running thread of the process (`membarrier(2)`). A light
//! and a heavy barrier order as two full fences do. Where the system has no such call both are full
//! fences.
//!
//! What the owner stores while it is outside is *staged* with a number that changes each time. The
//! helper keeps the word for which it has sent everything, and takes it for *nothing staged*; so
//! nothing but the owner writes to the owner's word.

use super::Look;
use super::sync::{AtomicU32, Barriers, Ordering};

/// Bits of the owner's word; the rest is a number.
const INSIDE: u32 = 1;
const STAGED: u32 = 2;
const NUMBER: u32 = 4;

/// Values of the helper's word.
const AWAKE: u32 = 0;
const CLAIMED: u32 = 1;
const ASLEEP: u32 = 2;

/// A word in a line that the other side does not write to.
#[repr(align(128))]
struct Line(AtomicU32);

/// The two words.
pub(super) struct Gate {
    owner: Line,
    helper: Line,
    barriers: Barriers,
}

impl Gate {
    /// The owner is inside, and the helper asleep.
    pub(super) fn new(barriers: Barriers) -> Gate {
        Gate { owner: Line(AtomicU32::new(INSIDE)), helper: Line(AtomicU32::new(ASLEEP)), barriers }
    }

    /// Owner: returns true if it is inside.
    #[inline(always)]
    pub(super) fn is_inside(&self) -> bool {
        self.owner.0.load(Ordering::Relaxed) & INSIDE != 0
    }

    /// Owner: returns true if its word says that something is staged.
    #[inline(always)]
    pub(super) fn says_staged(&self) -> bool {
        self.owner.0.load(Ordering::Relaxed) & STAGED != 0
    }

    /// Owner: enters, waiting for a helper that is inside.
    #[inline]
    pub(super) fn enter(&self) {
        let word = self.owner.0.load(Ordering::Relaxed);
        self.owner.0.store(word | INSIDE, Ordering::Relaxed);
        self.barriers.light();
        let helper = self.helper.0.load(self.barriers.acquire());
        if helper != AWAKE {
            self.meet(word, helper);
        }
    }

    #[cold]
    #[inline(never)]
    fn meet(&self, word: u32, mut helper: u32) {
        let mut tries = 0;
        while helper == CLAIMED && self.barriers.pause(&mut tries) {
            helper = self.helper.0.load(self.barriers.acquire());
        }
        if helper == ASLEEP {
            // It has sent all of it. Whatever is staged in this call it must be woken for.
            self.owner.0.store(word & !STAGED | INSIDE, Ordering::Relaxed);
        }
    }

    /// Owner, inside: a call ends. If it leaves something staged, the owner is outside afterwards.
    /// Returns true if the helper must be woken.
    #[inline]
    pub(super) fn end_call(&self, staged: bool) -> bool {
        let word = self.owner.0.load(Ordering::Relaxed);
        debug_assert!(word & INSIDE != 0);
        if !staged {
            self.owner.0.store(word & !STAGED, Ordering::Relaxed);
            return false;
        }
        let left = (word & !(INSIDE | STAGED)).wrapping_add(NUMBER) | STAGED;
        self.owner.0.store(left, self.barriers.release());
        // While the word says that something is staged the helper does not go to sleep.
        if word & STAGED != 0 {
            return false;
        }
        self.barriers.light();
        self.helper.0.load(Ordering::Relaxed) == ASLEEP
    }

    /// Owner: the helper is awake from now on. Returns true if it was not; then its thread must be
    /// told.
    pub(super) fn wake(&self) -> bool {
        self.helper.0.compare_exchange(ASLEEP, AWAKE, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Helper: looks once. Calls `push` if something is staged and the owner is outside; that
    /// returns true if something is kept back. `done` is the helper's own.
    pub(super) fn look(&self, done: &mut Option<u32>, push: impl FnOnce() -> bool) -> Look {
        let word = self.owner.0.load(Ordering::Relaxed);
        if word & STAGED == 0 || *done == Some(word) {
            return Look::Nothing;
        }
        if word & INSIDE != 0 {
            return Look::Busy;
        }
        let claim = Claim(self);
        self.helper.0.store(CLAIMED, self.barriers.release());
        self.barriers.heavy();
        let word = self.owner.0.load(self.barriers.acquire());
        if word & (INSIDE | STAGED) != STAGED {
            return Look::Busy;
        }
        let kept = push();
        *done = if kept { None } else { Some(word) };
        drop(claim);
        if kept { Look::Kept } else { Look::Pushed }
    }

    /// Helper: says that it sleeps, unless something is staged. Returns true if it sleeps, until
    /// [`Gate::is_woken`].
    pub(super) fn try_sleep(&self, done: &Option<u32>) -> bool {
        self.helper.0.store(ASLEEP, self.barriers.release());
        self.barriers.heavy();
        let word = self.owner.0.load(Ordering::Relaxed);
        // The first of the two has woken it.
        word & STAGED == 0 || *done == Some(word) || !self.wake()
    }

    /// Helper: returns true if it was woken.
    pub(super) fn is_woken(&self) -> bool {
        self.helper.0.load(Ordering::Acquire) != ASLEEP
    }
}

/// The helper's claim, which ends also if the work panics.
struct Claim<'a>(&'a Gate);

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.helper.0.store(AWAKE, self.0.barriers.release());
    }
}
