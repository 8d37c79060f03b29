//! Requests of an endpoint that were flushed from a shared QP and will be posted again, in order.
//!
//! A QP is flushed from the front. If the next QP fails before everything is posted again, the
//! requests that it flushes precede those that still wait.

use std::collections::VecDeque;

/// A queue of requests to post again.
#[derive(Debug)]
pub(super) struct RepostQueue<T> {
    all: VecDeque<T>,
    /// Number of requests at the front that the last failed QP has flushed.
    flushed: usize,
}

impl<T> Default for RepostQueue<T> {
    fn default() -> Self {
        RepostQueue { all: VecDeque::new(), flushed: 0 }
    }
}

impl<T> RepostQueue<T> {
    /// Records that a QP has failed and will be flushed.
    pub(super) fn qp_failed(&mut self) {
        self.flushed = 0;
    }

    /// Adds the next request that the QP has flushed.
    pub(super) fn flushed(&mut self, request: T) {
        self.all.insert(self.flushed.min(self.all.len()), request);
        self.flushed += 1;
    }

    /// Returns the next request to post.
    pub(super) fn front(&self) -> Option<&T> {
        self.all.front()
    }

    /// Removes the front request, which was posted.
    pub(super) fn posted(&mut self) {
        self.all.pop_front();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Removes the requests that `is` selects, and returns their number.
    pub(super) fn give_up(&mut self, is: impl Fn(&T) -> bool) -> usize {
        let before = self.all.len();
        self.all.retain(|request| !is(request));
        before - self.all.len()
    }

    /// Removes all requests.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> + use<T> {
        core::mem::take(self).all.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_flushed_by_a_second_qp_precede_those_that_wait() {
        let mut c = RepostQueue::default();
        c.qp_failed();
        (1..=5).for_each(|n| c.flushed(n));
        for n in 1..=3 {
            assert_eq!(c.front(), Some(&n));
            c.posted();
        }
        // The first of them has completed; the others are flushed again.
        c.qp_failed();
        (2..=3).for_each(|n| c.flushed(n));
        assert_eq!(c.drain().collect::<Vec<_>>(), [2, 3, 4, 5]);
        assert!(c.is_empty());
    }

    #[test]
    fn some_are_given_up() {
        let mut c = RepostQueue::default();
        (1..=5).for_each(|n| c.flushed(n));
        assert_eq!(c.give_up(|n| n % 2 == 0), 2);
        assert_eq!(c.drain().collect::<Vec<_>>(), [1, 3, 5]);
    }
}
