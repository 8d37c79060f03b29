//! Reply back-off over a device whose two sides use the same lines of memory: a sender polls for
//! the reply when it may be there.

use std::time::Instant;

use netmod_core::ReplyBackoff;
use netmod_core::reply_backoff::Classes;

/// Longest message of each length class but the last one, in bytes of data without its header.
const CLASSES: Classes = [64, 256, 1 << 10, 2 << 10];
/// Factor by which replies through a library and its lock come later than those through a cache
/// line; see [`ReplyBackoff::new`].
const STRETCH: usize = 2;

/// Counts of DATA and SHORT frames, modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Frames received on all connections of the process.
    pub(crate) all: u32,
    /// Frames received on this connection.
    pub(crate) came: u32,
    /// Frames sent on this connection.
    pub(crate) gone: u32,
}

impl Counts {
    /// Returns the counts after one more frame in each direction, and none of other peers.
    #[inline]
    fn after_round_trip(self) -> Counts {
        let Counts { all, came, gone } = self;
        Counts { all: all.wrapping_add(1), came: came.wrapping_add(1), gone: gone.wrapping_add(1) }
    }
}

/// The reply back-off of a connection.
#[derive(Debug)]
pub(crate) struct Backoff {
    wait: ReplyBackoff,
    /// The counts when a message was sent last.
    before: Counts,
}

impl Backoff {
    /// Creates the state of a new connection, for the side that is `first` or the other.
    pub(crate) fn new(first: bool) -> Backoff {
        Backoff { wait: ReplyBackoff::new(first, CLASSES, STRETCH), before: Counts::default() }
    }

    /// Notes a message with `len` bytes of data, sent in a frame of its own. Returns true if its
    /// reply is worth waiting for: it answered the peer's last message.
    #[inline(always)]
    pub(crate) fn sent(&mut self, len: usize, counts: Counts) -> bool {
        let is_reply = counts == self.before.after_round_trip();
        self.before = counts;
        self.wait.sent(is_reply, len, counts.came.wrapping_add(counts.gone), Instant::now);
        is_reply
    }

    /// Waits until the reply may be there.
    #[inline]
    pub(crate) fn wait(&mut self) {
        self.wait.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_one_frame_in_each_direction_and_none_of_others() {
        let at = |all, came, gone| Counts { all, came, gone };
        let mut backoff = Backoff::new(true);
        assert!(!backoff.sent(0, at(0, 0, 1)), "the first one answers nothing");
        for n in 1..10 {
            assert!(backoff.sent(0, at(n, n, n + 1)));
        }
        assert!(!backoff.sent(0, at(9, 9, 11)), "two in a row");
        assert!(backoff.sent(0, at(10, 10, 12)));
        assert!(!backoff.sent(0, at(12, 11, 13)), "somebody else has sent something");
        assert!(!backoff.sent(0, at(14, 13, 14)), "two have come");
        assert!(!backoff.sent(0, at(15, 14, 16)), "one has gone with others");
        assert!(backoff.sent(0, at(16, 15, 17)));
    }

    #[test]
    fn counts_begin_again_behind_the_last_number() {
        let mut backoff =
            Backoff { before: Counts { all: u32::MAX, came: 5, gone: u32::MAX }, ..Backoff::new(false) };
        assert!(backoff.sent(0, Counts { all: 0, came: 6, gone: 0 }));
    }
}
