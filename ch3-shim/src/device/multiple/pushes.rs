//! The helper of a device that all threads use: it sends what calls have left staged in any of the
//! engines.

use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use super::alarm::Alarm;
use crate::progress::{Counts, Errand, Helper, HelperStats, Look};

/// An engine whose staged messages the helper sends.
pub(super) trait Push: Send + Sync + 'static {
    /// Sends what is staged, if no thread uses the engine. Returns true if some of it stays staged;
    /// `None` if a thread uses the engine.
    fn push(&self) -> Option<bool>;
}

/// The helper of a device's engines, and how it is told.
pub(super) struct Pusher<E> {
    /// No helper is wanted.
    off: bool,
    alarm: Alarm,
    counts: Arc<Counts>,
    engines: OnceLock<Weak<[E]>>,
    helper: Mutex<State>,
}

enum State {
    /// Nobody has needed it.
    Idle,
    Started(Helper),
    /// The device ends, or there is no thread to be had.
    Over,
}

impl<E: Push> Pusher<E> {
    pub(super) fn new(off: bool) -> Pusher<E> {
        let (engines, helper) = (OnceLock::new(), Mutex::new(State::Idle));
        Pusher { off, alarm: Alarm::new(), counts: Arc::default(), engines, helper }
    }

    /// Makes the engines known.
    pub(super) fn serve(&self, engines: &Arc<[E]>) {
        // A second time would say the same.
        let _ = self.engines.set(Arc::downgrade(engines));
    }

    /// Something stays staged in an engine whose lock this thread has.
    #[inline]
    pub(super) fn offer(self: &Arc<Pusher<E>>) {
        if !self.off && self.alarm.raise() {
            self.tell();
        }
    }

    #[cold]
    fn tell(self: &Arc<Pusher<E>>) {
        let mut helper = self.helper.lock();
        match &*helper {
            State::Started(helper) => helper.wake(),
            State::Over => {}
            State::Idle => {
                let Some(engines) = self.engines.get().and_then(Weak::upgrade) else { return };
                let errand = Pushes { pusher: Arc::clone(self), engines };
                *helper = match Helper::start(errand, Arc::clone(&self.counts)) {
                    Ok(helper) => State::Started(helper),
                    Err(e) => {
                        crate::progress::warn_without_helper(&e);
                        State::Over
                    }
                };
            }
        }
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        let ended = std::mem::replace(&mut *self.helper.lock(), State::Over);
        drop(ended);
    }

    pub(super) fn stats(&self) -> HelperStats {
        self.counts.stats()
    }
}

/// The errand of the helper thread.
struct Pushes<E> {
    pusher: Arc<Pusher<E>>,
    engines: Arc<[E]>,
}

impl<E: Push> Errand for Pushes<E> {
    fn look(&mut self) -> Look {
        let alarm = &self.pusher.alarm;
        if !alarm.take() {
            return Look::Nothing;
        }
        let mut look = Look::Pushed;
        for engine in self.engines.iter() {
            match engine.push() {
                Some(false) => {}
                Some(true) => look = Look::Kept,
                None if look == Look::Pushed => look = Look::Busy,
                None => {}
            }
        }
        if look != Look::Pushed {
            alarm.keep();
        }
        look
    }

    fn may_sleep(&mut self) -> bool {
        self.pusher.alarm.try_sleep()
    }

    fn is_woken(&self) -> bool {
        self.pusher.alarm.is_woken()
    }
}
