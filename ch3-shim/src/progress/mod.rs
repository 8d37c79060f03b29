//! Progress without a call: what was staged leaves although its owner computes.
//!
//! The device of one thread stages small messages, so that they leave together with its next call.
//! If that call does not come, a helper thread sends them. [`Guarded`] holds the engine, [`gate`]
//! says who may be inside, `helper` is the thread.
//!
//! A [`Multiple`](crate::Multiple) device has a lock for each engine, so its helper needs no gate:
//! it tries the locks.

#![allow(unsafe_code)]

mod gate;
#[cfg(test)]
mod gate_model;
mod helper;
mod sync;
mod thread;

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use gate::Gate;
pub use helper::HelperStats;
pub(crate) use helper::{Counts, Errand, Helper, Look};
pub use sync::Barriers;
pub use thread::OwnThread;

/// The part of an engine that a helper may use.
pub(crate) trait Staging: Send {
    /// Returns true if something is staged.
    fn is_staged(&self) -> bool;

    /// Sends what is staged. Returns true if something is kept back that a later call may send.
    fn push(&mut self) -> bool;
}

/// Says that there is no thread.
pub(crate) fn warn_without_helper(e: &std::io::Error) {
    tracing::warn!(%e, "no thread that sends what is staged while the program computes: it leaves with the next call");
}

/// The state that the owner and the helper share.
struct Shared<E> {
    gate: Gate,
    engine: UnsafeCell<E>,
}

// SAFETY: whoever touches the engine is inside the gate, which lets in one of the two threads at a
// time, with what the other did before happening before (`gate`). The engine may be used by any
// thread (`Send`).
unsafe impl<E: Send> Sync for Shared<E> {}

/// An engine whose owner lets a helper in at the end of a call that leaves something staged.
///
/// Any access through [`Deref`] is the owner's and makes it *inside*; only [`Guarded::end_call`]
/// lets go again. So the owner cannot forget to enter. What it leaves staged if it forgets
/// `end_call` goes out with its next call.
pub(crate) struct Guarded<E: Staging + 'static> {
    shared: Arc<Shared<E>>,
    /// No helper is wanted, or somebody else sees to it that what is staged leaves.
    alone: bool,
    /// Started when something stays staged for the first time.
    helper: Option<Helper>,
    counts: Arc<Counts>,
    /// One thread at a time: neither `enter` nor `look` is made for two.
    _not_sync: std::marker::PhantomData<std::cell::Cell<()>>,
}

impl<E: Staging> Guarded<E> {
    /// Holds an engine, `alone` if no helper is ever let in.
    pub(crate) fn new(engine: E, alone: bool) -> Guarded<E> {
        let shared = Shared { gate: Gate::new(sync::Barriers::here()), engine: UnsafeCell::new(engine) };
        Guarded {
            shared: Arc::new(shared),
            alone,
            helper: None,
            counts: Arc::default(),
            _not_sync: std::marker::PhantomData,
        }
    }

    /// From now on no helper is started: whoever holds the engine sees to what is staged.
    pub(crate) fn keep_alone(&mut self) {
        self.alone = true;
    }

    /// A call of the owner ends. If it leaves something staged, the helper may see to it from now
    /// on.
    #[inline]
    pub(crate) fn end_call(&mut self) {
        let Shared { gate, engine } = &*self.shared;
        // A call that did not touch the engine leaves the gate as it was.
        if !gate.is_inside() {
            return;
        }
        // SAFETY: the owner is inside until the gate is told otherwise, and `&mut self` is the only
        // way to the engine in this thread.
        let staged = unsafe { &*engine.get() }.is_staged();
        if staged || gate.says_staged() {
            self.leave(staged);
        }
    }

    #[inline(never)]
    fn leave(&mut self, staged: bool) {
        if !self.alone && self.shared.gate.end_call(staged) {
            self.wake();
        }
    }

    /// The owner stays inside for long, and sees to what is staged by itself.
    #[inline]
    pub(crate) fn stay(&mut self) {
        if self.shared.gate.says_staged() {
            let _inside: &E = self;
            self.shared.gate.end_call(false);
        }
    }

    #[cold]
    #[inline(never)]
    fn wake(&mut self) {
        if !self.shared.gate.wake() {
            return;
        }
        match &self.helper {
            Some(helper) => helper.wake(),
            None => {
                let errand = Pushes { shared: Arc::clone(&self.shared), done: None };
                match Helper::start(errand, Arc::clone(&self.counts)) {
                    Ok(helper) => self.helper = Some(helper),
                    Err(e) => {
                        warn_without_helper(&e);
                        self.alone = true;
                        // Back inside, for good.
                        let _inside: &E = self;
                    }
                }
            }
        }
    }

    /// Reads the engine in a call that only reads. What was staged before stays the helper's.
    #[inline]
    pub(crate) fn look<R>(&self, f: impl FnOnce(&E) -> R) -> R {
        let gate = &self.shared.gate;
        let was_inside = gate.is_inside();
        let result = f(self);
        // Nobody who entered before holds a reference: there was nobody.
        if !was_inside
            && gate.says_staged()
            && gate.end_call(true)
            && gate.wake()
            && let Some(helper) = &self.helper
        {
            helper.wake();
        }
        result
    }

    /// Returns the helper's counts.
    pub(crate) fn counts(&self) -> HelperStats {
        self.counts.stats()
    }

    #[inline]
    fn inside(&self) -> *mut E {
        if !self.shared.gate.is_inside() {
            self.shared.gate.enter();
        }
        self.shared.engine.get()
    }
}

impl<E: Staging> Deref for Guarded<E> {
    type Target = E;

    #[inline(always)]
    fn deref(&self) -> &E {
        // SAFETY: the owner is inside, and stays there at least until `end_call` or `look`. The
        // former takes `&mut self`, so that no reference is left; the latter only leaves if it has
        // entered, when there was none.
        unsafe { &*self.inside() }
    }
}

impl<E: Staging> DerefMut for Guarded<E> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut E {
        // SAFETY: as for `deref`, and `&mut self` is the only way to it in this thread.
        unsafe { &mut *self.inside() }
    }
}

impl<E: Staging> fmt::Debug for Guarded<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded").field("alone", &self.alone).finish_non_exhaustive()
    }
}

impl<E: Staging> Drop for Guarded<E> {
    fn drop(&mut self) {
        // The thread holds the engine, too: the engine ends here, after it.
        drop(self.helper.take());
    }
}

/// The errand of the helper of a [`Guarded`] engine.
struct Pushes<E> {
    shared: Arc<Shared<E>>,
    /// The owner's word when all that it had left staged was sent.
    done: Option<u32>,
}

impl<E: Staging + 'static> Errand for Pushes<E> {
    fn look(&mut self) -> Look {
        let Pushes { shared, done } = self;
        shared.gate.look(done, || {
            // SAFETY: the helper is inside: the gate has let it in, and keeps the owner out until
            // this closure has returned.
            unsafe { &mut *shared.engine.get() }.push()
        })
    }

    fn may_sleep(&mut self) -> bool {
        self.shared.gate.try_sleep(&self.done)
    }

    fn is_woken(&self) -> bool {
        self.shared.gate.is_woken()
    }
}

#[cfg(test)]
mod tests;
