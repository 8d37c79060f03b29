//! Threads that wait at the same time: one of them makes progress for all.
//!
//! The one that leads holds the state and sleeps with it where the device tells. The others sleep
//! here, and look at what they wait for when the leader has found something, when it leaves, and
//! now and then.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Shortest and longest sleep of a thread that does not lead.
const SHORTEST: Duration = Duration::from_micros(50);
const LONGEST: Duration = Duration::from_millis(4);

/// The waiting threads of a process.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    is_led: Mutex<bool>,
    news: Condvar,
    followers: AtomicU32,
}

/// The lead, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lead<'a>(&'a Turns);

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        *self.0.is_led.lock() = false;
        self.0.news.notify_all();
    }
}

impl Turns {
    /// Takes the lead if nobody has it. Otherwise sleeps until there may be news, and returns
    /// `None`; `sleeps` is the number of such sleeps in a row.
    pub(crate) fn lead(&self, sleeps: u32) -> Option<Lead<'_>> {
        let mut is_led = self.is_led.lock();
        if !*is_led {
            *is_led = true;
            return Some(Lead(self));
        }
        self.followers.fetch_add(1, Ordering::Relaxed);
        self.news.wait_for(&mut is_led, (SHORTEST * 2u32.pow(sleeps.min(7))).min(LONGEST));
        self.followers.fetch_sub(1, Ordering::Relaxed);
        None
    }

    /// Lets the others look at what they wait for, since something has come.
    #[inline]
    pub(crate) fn tell(&self) {
        if self.followers.load(Ordering::Relaxed) > 0 {
            self.news.notify_all();
        }
    }
}
