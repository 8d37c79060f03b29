//! Yielding the core before sleeping, where more want to poll than there are cores.
//!
//! A wait that finds nothing could sleep at once. But whom it waits for is often ready to run on
//! the same core: to yield to that costs a context switch, while sleeping and being woken costs
//! system calls on both sides and an interrupt of another core. So a wait first yields some times.
//! A yield runs everybody who is ready there once, however many these are, so they are counted and
//! not timed.

use std::time::Duration;

use netmod_core::Time;

/// Most yields in a row.
const MOST: u32 = 64;
/// Fewest: enough to find out that yielding has become worthwhile again.
const LEAST: u32 = 4;
/// A yield that takes longer has run somebody who computes. Such a one is not waited for by
/// yielding: who is woken preempts it.
const LONG: Duration = Duration::from_millis(1);

/// Yields in a row before a wait sleeps.
#[derive(Debug)]
pub(super) struct Yields {
    /// 0 where nobody yields.
    limit: u32,
    /// Start of the last yield.
    began: Time,
}

impl Yields {
    /// Yields only if ranks share cores.
    pub(super) fn new(shared: bool) -> Yields {
        Yields { limit: if shared { MOST } else { 0 }, began: Time::ZERO }
    }

    /// Returns true if the wait is to yield, after `n` yields in a row that brought nothing, and
    /// false if it is to sleep.
    pub(super) fn goes_on(&mut self, n: u32, now: Time) -> bool {
        let long = n > 0 && now.since(self.began) > LONG;
        if n >= self.limit || long {
            // Once for each row: a wait that has slept does not yield again before something has
            // come.
            if n == self.limit || long {
                self.limit = (self.limit / 2).max(LEAST.min(self.limit));
            }
            return false;
        }
        self.began = now;
        true
    }

    /// Something came after `n` yields.
    pub(super) fn brought(&mut self, n: u32) {
        if n < self.limit {
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
        const SHORT: Duration = Duration::from_micros(1);
        let mut yields = Yields::new(true);
        let rows: Vec<u32> = (0..6).map(|_| row(&mut yields, SHORT)).collect();
        assert_eq!(rows, [MOST, MOST / 2, MOST / 4, MOST / 8, LEAST, LEAST]);
        // It sleeps on and on: that is one row.
        assert!((0..100).all(|i| !yields.goes_on(LEAST + 1 + i, Time::ZERO)));
        yields.brought(LEAST + 50);
        assert_eq!(row(&mut yields, SHORT), LEAST, "what came to one that slept is no reason to yield");
        yields.brought(LEAST - 1);
        yields.brought(0);
        assert_eq!(row(&mut yields, SHORT), 4 * LEAST);
        (0..10).for_each(|_| yields.brought(1));
        assert_eq!(row(&mut yields, SHORT), MOST);
    }

    #[test]
    fn nobody_yields_to_one_that_computes() {
        let mut yields = Yields::new(true);
        assert_eq!(row(&mut yields, 2 * LONG), 1);
        assert!((0..10).all(|_| row(&mut yields, 2 * LONG) == 1));
        assert_eq!(row(&mut yields, LONG), LEAST);
    }
}
