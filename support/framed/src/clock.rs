//! The netmod's time: it reads no clock, and each poll tells it.

use std::time::Duration;

use netmod_core::Time;

/// Time between two checks for VCs that have waited for the device for too long.
const CHECK: Duration = Duration::from_secs(1);

/// The time of the last poll, and of the checks that depend on it.
#[derive(Debug)]
pub(crate) struct Clock {
    pub(crate) now: Time,
    /// Time for which deadlines have been checked.
    pub(crate) looked_at: Time,
    /// Time of the next check for VCs that wait for the device.
    next_check: Time,
    /// Polls so far, modulo 2^32. It starts at 1: no VC has sent anything before the first poll.
    pub(crate) polls: u32,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        Clock { now: Time::ZERO, looked_at: Time::NEVER, next_check: Time::ZERO, polls: 1 }
    }

    /// Begins a poll.
    #[inline]
    pub(crate) fn poll(&mut self, now: Time) {
        self.now = now;
        self.polls = self.polls.wrapping_add(1);
    }

    /// Returns true if the check for VCs that wait for the device is due.
    pub(crate) fn is_check_due(&self) -> bool {
        self.now >= self.next_check
    }

    /// Sets the time of the next check.
    pub(crate) fn checked(&mut self) {
        self.next_check = self.now + CHECK;
    }
}
