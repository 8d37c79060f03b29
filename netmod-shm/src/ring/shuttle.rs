//! The shuttle: a line that goes back and forth between two ranks, for messages that are answered
//! at once.
//!
//! A question in a cell of one ring and its answer in a cell of the other are two lines, which are
//! not touched again before the rings have come round; by then each is a line that another
//! processor has read last, and to store to it costs a transfer of its own. If the answer is
//! written over the question, there is one line, and what moves it is the message. What is too long
//! for a line lies in the *hold*, some more lines of which the same is true: they belong to whoever
//! has the shuttle.
//!
//! At any time one of the two ranks *has* the shuttle, in the beginning the one with the lower
//! slot. Who has it may write its next cell there instead of into its ring, and has it no longer;
//! who consumes that cell has it from then on. The place in the ring is left out, but counted:
//! cells are consumed in the order of their numbers, wherever they are. A place is not left out for
//! so long that its number comes round ([`Producer::may_shuttle`](super::Producer::may_shuttle)).
//! The shuttle's word says, beside what any control word does, which of the two has written it, so
//! that nobody takes its own for the other's. It lies in the ring from the lower slot to the higher
//! one, and so does the hold.

/// The number of the shuttle in [`RingMem`](super::RingMem).
pub(crate) const SHUTTLE: u32 = u32::MAX;

/// Bits of a control word that say who has written it.
const WRITER: u64 = 0xc0;
const LOWER: u64 = 0x40;
const HIGHER: u64 = 0x80;

/// One rank's view of which of the two has the shuttle.
#[derive(Debug)]
pub(crate) struct Shuttle {
    is_here: bool,
    ours: u64,
    theirs: u64,
}

impl Default for Shuttle {
    fn default() -> Shuttle {
        Shuttle::none()
    }
}

impl Shuttle {
    /// Returns the absence of one: it is never here, and never comes, whatever a peer writes.
    pub(crate) fn none() -> Shuttle {
        Shuttle { is_here: false, ours: 0, theirs: u64::MAX }
    }

    /// Returns an unused one, for the rank with the `lower` slot or the other.
    pub(crate) fn new(lower: bool) -> Shuttle {
        let (ours, theirs) = if lower { (LOWER, HIGHER) } else { (HIGHER, LOWER) };
        Shuttle { is_here: lower, ours, theirs }
    }

    /// Returns true if this rank has it.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.is_here
    }

    /// Returns true if a word of the shuttle was written by the peer.
    #[inline]
    pub(super) fn has_brought(&self, word: u64) -> bool {
        word & WRITER == self.theirs
    }

    /// The cell that came with it was consumed.
    #[inline]
    pub(super) fn take(&mut self) {
        self.is_here = true;
    }

    /// It is sent off with this word, to which the writer's bits are added.
    #[inline]
    pub(super) fn send(&mut self, word: u64) -> u64 {
        debug_assert!(self.is_here);
        self.is_here = false;
        word | self.ours
    }
}
