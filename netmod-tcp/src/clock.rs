//! The netmod's time.

use netmod_core::Time;

/// The time of the present call, and the next time at which something is due.
#[derive(Debug)]
pub(crate) struct Clock {
    pub(crate) now: Time,
    /// Earliest timer, or `NEVER`.
    pub(crate) next: Time,
    /// Number of the present poll, so that a send knows whether it is the first since the last one.
    pub(crate) epoch: u32,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        Clock { now: Time::ZERO, next: Time::NEVER, epoch: 1 }
    }

    /// Takes the time of a poll that begins.
    #[inline]
    pub(crate) fn begin_poll(&mut self, now: Time) {
        self.now = now;
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// Has the timers looked at by `at` at the latest.
    #[inline]
    pub(crate) fn wake_by(&mut self, at: Time) {
        self.next = self.next.min(at);
    }
}
