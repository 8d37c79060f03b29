//! The alarm for the helper of the engines: what calls leave staged is sent by it, if no other call
//! comes.
//!
//! Whoever leaves something staged in an engine raises the alarm while it has the engine's lock.
//! The helper takes the alarm back, and then tries the locks: what was staged before it sees, and
//! what is staged later raises the alarm again. A lock that another thread has is tried again in
//! the next round.

use super::sync::{AtomicBool, Ordering, fence};

/// Two flags: something may be staged; the helper sleeps.
pub(super) struct Alarm {
    raised: AtomicBool,
    asleep: AtomicBool,
}

impl Alarm {
    /// Nothing is staged, and the helper sleeps.
    pub(super) fn new() -> Alarm {
        Alarm { raised: AtomicBool::new(false), asleep: AtomicBool::new(true) }
    }

    /// Something stays staged in an engine whose lock the caller has. Returns true if the helper
    /// must be told.
    pub(super) fn raise(&self) -> bool {
        // The thread that has raised it has woken the helper.
        if self.raised.swap(true, Ordering::AcqRel) {
            return false;
        }
        fence(Ordering::SeqCst);
        self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::AcqRel)
    }

    /// Helper: takes the alarm back, before it looks. Returns true if it was raised.
    pub(super) fn take(&self) -> bool {
        self.raised.swap(false, Ordering::AcqRel)
    }

    /// Helper: an engine was in use, or has kept something back.
    pub(super) fn keep(&self) {
        self.raised.store(true, Ordering::Relaxed);
    }

    /// Helper: says that it sleeps, unless the alarm is raised. Returns true if it sleeps, until
    /// [`Alarm::is_woken`].
    pub(super) fn try_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        // The first of the two has woken it.
        !self.raised.load(Ordering::Relaxed) || !self.asleep.swap(false, Ordering::AcqRel)
    }

    /// Helper: returns true if it was woken.
    pub(super) fn is_woken(&self) -> bool {
        !self.asleep.load(Ordering::Acquire)
    }
}
