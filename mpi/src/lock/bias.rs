//! The bias of a lock: one thread, the *owner*, enters without the mutex until another one comes.
//!
//! The owner says that it is *inside*, and then looks whether the bias has *ended*. Another thread
//! ends it: it says so, and then looks whether the owner is inside. Of two that store and then
//! look, one sees the other, if a full fence lies between (Dekker). The owner's would wait for all
//! stores before it, those to lines of other processes among them, which takes longer than the rest
//! of a small send; so would the atomic operation of a mutex. So the owner has a *light* barrier,
//! which only keeps the compiler from swapping the two, and the other thread a *heavy* one, which
//! puts a full fence into every running thread ([`ch3_shim::Barriers`]).
//!
//! Ended is ended for ever: where several threads call, the mutex serves all of them.

use super::sync::{AtomicBool, Barriers, Ordering};

/// The two words.
pub(super) struct Bias {
    /// Written by the owner alone.
    inside: AtomicBool,
    ended: AtomicBool,
    barriers: Barriers,
}

impl Bias {
    /// The owner is outside, and the bias has not ended.
    pub(super) fn new(barriers: Barriers) -> Bias {
        Bias { inside: AtomicBool::new(false), ended: AtomicBool::new(false), barriers }
    }

    /// Owner: enters. Returns false, now and for ever, if the mutex is needed.
    ///
    /// # Panics
    /// If the owner is inside.
    #[inline]
    pub(super) fn enter(&self) -> bool {
        if self.has_ended() {
            return false;
        }
        assert!(!self.inside.load(Ordering::Relaxed), "the library is locked by this very thread");
        self.inside.store(true, Ordering::Relaxed);
        self.barriers.light();
        if self.ended.load(self.barriers.acquire()) {
            self.leave();
            return false;
        }
        true
    }

    /// Owner, inside: leaves.
    #[inline]
    pub(super) fn leave(&self) {
        self.inside.store(false, self.barriers.release());
    }

    /// Returns true if the bias has ended.
    #[inline]
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Another thread, which has the mutex: the owner, once it is outside, needs that from now on.
    pub(super) fn end(&self) {
        if !self.has_ended() {
            self.ended.store(true, self.barriers.release());
            self.barriers.heavy();
        }
    }

    /// Returns true if the owner is outside, for itself, or for another thread, which has the mutex
    /// and has ended the bias.
    pub(super) fn is_left(&self) -> bool {
        !self.inside.load(self.barriers.acquire())
    }
}
