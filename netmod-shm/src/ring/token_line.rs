//! The token line: one cache line that two ranks write in turn, for ping-pong traffic.
//!
//! A request in a cell of one ring and its reply in a cell of the other are two lines. Neither is
//! touched again before its ring wraps; by then another processor has read it last, so the next
//! store to it costs a coherence transfer of its own. If the reply overwrites the request there is
//! one line, and its transfer is the message. A payload that is too long for the line lies in the
//! *payload buffer*, which belongs to the rank that has the token line.
//!
//! At any time one of the two ranks *has* the token line, at first the one with the lower slot. It
//! may write its next cell there instead of into its ring, and gives the token line away by that;
//! the rank that consumes the cell has it next. The cell in the ring is skipped, but counted: cells
//! are consumed in the order of their numbers, wherever they are. A cell is not skipped for so long
//! that its number wraps ([`Producer::may_use_token`](super::Producer::may_use_token)).
//!
//! The control word in the token line also says which of the two ranks has written it, so that
//! neither takes its own for the peer's. The line lies in the ring from the lower slot to the
//! higher one, and so does the payload buffer.

/// The number of the token line in [`RingMem`](super::RingMem).
pub(crate) const TOKEN_LINE: u32 = u32::MAX;

/// Bits of a control word that say who has written it.
const WRITER: u64 = 0xc0;
const LOWER: u64 = 0x40;
const HIGHER: u64 = 0x80;

/// One rank's view of which of the two has the token line.
#[derive(Debug)]
pub(crate) struct TokenLine {
    is_here: bool,
    ours: u64,
    theirs: u64,
}

impl Default for TokenLine {
    fn default() -> TokenLine {
        TokenLine::none()
    }
}

impl TokenLine {
    /// Returns the absence of one: it is never here, and never comes, whatever a peer writes.
    pub(crate) fn none() -> TokenLine {
        TokenLine { is_here: false, ours: 0, theirs: u64::MAX }
    }

    /// Returns an unused one, for the rank with the `lower` slot or the other.
    pub(crate) fn new(lower: bool) -> TokenLine {
        let (ours, theirs) = if lower { (LOWER, HIGHER) } else { (HIGHER, LOWER) };
        TokenLine { is_here: lower, ours, theirs }
    }

    /// Returns true if this rank has it.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.is_here
    }

    /// Returns true if a word of the token line was written by the peer.
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
