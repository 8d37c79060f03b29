//! What an end of a shared lane has posted in vain, and will post again, in order.
//!
//! A lane is flushed from the front. If the next one fails as well before everything was posted again, what it flushes comes before what still waits.

use std::collections::VecDeque;

/// See the module.
#[derive(Debug)]
pub(super) struct Carried<T> {
    all: VecDeque<T>,
    /// How many of them, the first ones, the lane that failed last has flushed.
    flushed: usize,
}

impl<T> Default for Carried<T> {
    fn default() -> Self {
        Carried { all: VecDeque::new(), flushed: 0 }
    }
}

impl<T> Carried<T> {
    /// A lane has failed, and will be flushed.
    pub(super) fn lane_failed(&mut self) {
        self.flushed = 0;
    }

    /// The lane has flushed the next request.
    pub(super) fn flushed(&mut self, request: T) {
        self.all.insert(self.flushed.min(self.all.len()), request);
        self.flushed += 1;
    }

    /// What is to be posted next.
    pub(super) fn front(&self) -> Option<&T> {
        self.all.front()
    }

    /// That was posted.
    pub(super) fn posted(&mut self) {
        self.all.pop_front();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Takes those out that are not wanted any more; how many.
    pub(super) fn give_up(&mut self, is: impl Fn(&T) -> bool) -> usize {
        let before = self.all.len();
        self.all.retain(|request| !is(request));
        before - self.all.len()
    }

    /// Takes all out.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> + use<T> {
        core::mem::take(self).all.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_second_lane_flushes_comes_before_what_still_waits() {
        let mut c = Carried::default();
        c.lane_failed();
        (1..=5).for_each(|n| c.flushed(n));
        for n in 1..=3 {
            assert_eq!(c.front(), Some(&n));
            c.posted();
        }
        // The first of them has completed; the others are flushed again.
        c.lane_failed();
        (2..=3).for_each(|n| c.flushed(n));
        assert_eq!(c.drain().collect::<Vec<_>>(), [2, 3, 4, 5]);
        assert!(c.is_empty());
    }

    #[test]
    fn some_are_given_up() {
        let mut c = Carried::default();
        (1..=5).for_each(|n| c.flushed(n));
        assert_eq!(c.give_up(|n| n % 2 == 0), 2);
        assert_eq!(c.drain().collect::<Vec<_>>(), [1, 3, 5]);
    }
}
