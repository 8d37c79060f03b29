//! Yielding the core before sleeping, where more want to poll than there are cores.
//!
//! A wait that finds nothing could sleep at once. But whom it waits for is often ready to run on
//! the same core: to yield to that costs a context switch, while sleeping and being woken costs
//! system calls on both sides and an interrupt of another core. So a wait first yields some times.
//! A yield runs everybody who is ready there once, however many these are, so they are counted. But
//! where few are ready many yields take less time than one sleep, so a row takes some time, too.

use std::time::Duration;

use netmod_core::Time;

/// Most yields in a row.
const MOST: u32 = 64;
/// Fewest: enough to find out that yielding has become worthwhile again.
const LEAST: u32 = 4;
/// A row takes this time at least: what yields to nobody takes nothing from anybody, and a sleep
/// with its wake-up takes tens of microseconds.
const SHORTEST: Duration = Duration::from_micros(200);
/// Most yields of a row, also if the clock stands still.
const LONGEST: u32 = 4096;
/// A yield that takes longer has run somebody who computes. Such a one is not waited for by
/// yielding: who is woken preempts it.
const LONG: Duration = Duration::from_millis(1);

/// Yields in a row before a wait sleeps.
#[derive(Debug)]
pub(super) struct Yields {
    /// 0 where nobody yields.
    limit: u32,
    /// Start of the row.
    row: Time,
    /// Start of the last yield.
    began: Time,
    /// True if the row was longer than is worthwhile.
    is_over: bool,
}

impl Yields {
    /// Yields only if ranks share cores.
    pub(super) fn new(shared: bool) -> Yields {
        Yields { limit: if shared { MOST } else { 0 }, row: Time::ZERO, began: Time::ZERO, is_over: false }
    }

    /// Returns true if the wait is to yield, after `n` yields in a row that brought nothing, and
    /// false if it is to sleep.
    pub(super) fn goes_on(&mut self, n: u32, now: Time) -> bool {
        if n == 0 {
            (self.row, self.is_over) = (now, false);
        }
        let long = n > 0 && now.since(self.began) > LONG;
        let is_long = now.since(self.row) >= SHORTEST || n >= LONGEST;
        let enough = n >= self.limit && (self.limit == 0 || is_long);
        if enough || long {
            // Once for each row: a wait that has slept does not yield again before something has
            // come.
            if !std::mem::replace(&mut self.is_over, true) {
                self.limit = (self.limit / 2).max(LEAST.min(self.limit));
            }
        }
        if self.is_over {
            return false;
        }
        self.began = now;
        true
    }

    /// Something came after `n` yields.
    pub(super) fn brought(&mut self, n: u32) {
        if n == 0 || !self.is_over {
            self.limit = (self.limit * 2).min(MOST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wait in which nothing comes: how often it yields before it sleeps. Each yield takes
    /// `each`.
    fn row(yields: &mut Yields, each: Duration) -> u32 {
        let mut now = Time::ZERO;
        let mut n = 0;
        while yields.goes_on(n, now) {
            n += 1;
            now = now + each;
        }
        n
    }

    #[test]
    fn who_has_a_core_sleeps_at_once() {
        let mut yields = Yields::new(false);
        assert_eq!([row(&mut yields, LONG), row(&mut yields, LONG)], [0, 0]);
        yields.brought(0);
        assert_eq!(row(&mut yields, LONG), 0);
    }

    #[test]
    fn fewer_yields_where_they_bring_nothing() {
        const SHORT: Duration = SHORTEST;
        let mut yields = Yields::new(true);
        let rows: Vec<u32> = (0..6).map(|_| row(&mut yields, SHORT)).collect();
        assert_eq!(rows, [MOST, MOST / 2, MOST / 4, MOST / 8, LEAST, LEAST]);
        // It sleeps on and on: that is one row.
        assert!((0..100).all(|i| !yields.goes_on(LEAST + 1 + i, Time::ZERO)));
        yields.brought(LEAST + 50);
        assert_eq!(row(&mut yields, SHORT), LEAST, "what came to one that slept is no reason to yield");
        (0..2).for_each(|_| yields.brought(0));
        assert_eq!(row(&mut yields, SHORT), 4 * LEAST);
        (0..10).for_each(|_| yields.brought(0));
        assert_eq!(row(&mut yields, SHORT), MOST);
    }

    #[test]
    fn short_yields_go_on_for_as_long_as_a_sleep_would_take() {
        let each = Duration::from_micros(1);
        let mut yields = Yields::new(true);
        let rows: Vec<u32> = (0..6).map(|_| row(&mut yields, each)).collect();
        assert_eq!(rows, [200; 6]);
        assert_eq!(row(&mut Yields::new(true), Duration::ZERO), LONGEST, "the clock stands still");
        assert!(yields.goes_on(0, Time::ZERO) && yields.goes_on(1, Time::ZERO + each));
        yields.brought(150);
        assert_eq!(row(&mut yields, SHORTEST), 2 * LEAST, "what came during a row makes it longer");
    }

    #[test]
    fn nobody_yields_to_one_that_computes() {
        let mut yields = Yields::new(true);
        assert_eq!(row(&mut yields, 2 * LONG), 1);
        assert!((0..10).all(|_| row(&mut yields, 2 * LONG) == 1));
        assert_eq!(row(&mut yields, LONG), LEAST);
    }
}
