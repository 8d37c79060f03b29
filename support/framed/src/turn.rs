//! Reply back-off over a device whose two sides use the same lines of memory: a sender polls for
//! the reply when it may be there.

use std::time::Instant;

use netmod_core::ReplyBackoff;
use netmod_core::reply_backoff::Classes;

/// Bytes of data, beside the header, of messages that are answered about as soon as each other.
const CLASSES: Classes = [64, 256, 1 << 10, 2 << 10];
/// Factor by which replies through a library and its lock come later than those through a cache
/// line; see [`ReplyBackoff::new`].
const STRETCH: usize = 2;

/// Numbers of DATA and SHORT frames, modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Those that have come, of all connections of the process.
    pub(crate) all: u32,
    /// Those that have come by one of them.
    pub(crate) came: u32,
    /// Those that have gone by it.
    pub(crate) gone: u32,
}

impl Counts {
    /// After one more in each direction, and nothing of anybody else.
    #[inline]
    fn a_turn_later(self) -> Counts {
        let Counts { all, came, gone } = self;
        Counts { all: all.wrapping_add(1), came: came.wrapping_add(1), gone: gone.wrapping_add(1) }
    }
}

/// The turns of a connection.
#[derive(Debug)]
pub(crate) struct Turn {
    quiet: ReplyBackoff,
    /// The counts when a message was sent last.
    before: Counts,
}

impl Turn {
    /// Creates the state of a new connection, for the side that is `first` or the other.
    pub(crate) fn new(first: bool) -> Turn {
        Turn { quiet: ReplyBackoff::new(first, CLASSES, STRETCH), before: Counts::default() }
    }

    /// A message with so many bytes of data has gone in a frame of its own. Whether its answer is
    /// worth waiting for.
    #[inline(always)]
    pub(crate) fn sent(&mut self, len: usize, counts: Counts) -> bool {
        let in_turn = counts == self.before.a_turn_later();
        self.before = counts;
        self.quiet.sent(in_turn, len, counts.came.wrapping_add(counts.gone), Instant::now);
        in_turn
    }

    /// Waits until the answer may be there.
    #[inline]
    pub(crate) fn wait(&mut self) {
        self.quiet.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_one_frame_in_each_direction_and_none_of_others() {
        let at = |all, came, gone| Counts { all, came, gone };
        let mut turn = Turn::new(true);
        assert!(!turn.sent(0, at(0, 0, 1)), "the first one answers nothing");
        for n in 1..10 {
            assert!(turn.sent(0, at(n, n, n + 1)));
        }
        assert!(!turn.sent(0, at(9, 9, 11)), "two in a row");
        assert!(turn.sent(0, at(10, 10, 12)));
        assert!(!turn.sent(0, at(12, 11, 13)), "somebody else has sent something");
        assert!(!turn.sent(0, at(14, 13, 14)), "two have come");
        assert!(!turn.sent(0, at(15, 14, 16)), "one has gone with others");
        assert!(turn.sent(0, at(16, 15, 17)));
    }

    #[test]
    fn counts_begin_again_behind_the_last_number() {
        let mut turn = Turn { before: Counts { all: u32::MAX, came: 5, gone: u32::MAX }, ..Turn::new(false) };
        assert!(turn.sent(0, Counts { all: 0, came: 6, gone: 0 }));
    }
}
