//! The agreement of two ranks that one of them is away for a checkpoint: a state for each channel,
//! without memory or clocks.
//!
//! Who is about to leave writes SUSPEND with the number of its round behind all that it has
//! written, and writes nothing more. Who reads it has read all before it, writes SUSPENDED with the
//! same number behind its own bytes, and writes nothing more either. So both rings are empty when
//! it is read. Of two that leave at once each takes the other's SUSPEND for the answer: a rank
//! reads until it has one of the two from everybody, so the other's ring is read to its end, too.
//!
//! A rank that comes back stores the number of its round in its slot. A SUSPEND or SUSPENDED that
//! is read later is then known to be of a round that is over.

/// Rounds are numbered from 1 by the bits that a cell has for a length; behind the last comes 1
/// again.
pub(crate) const ROUNDS: u32 = (1 << 24) - 1;

/// Returns true if a rank that is back from round `back` is back from `round`, too.
fn is_over(round: u32, back: u32) -> bool {
    (back.wrapping_sub(round) & ROUNDS) <= ROUNDS / 2
}

/// The peer's absence, which holds back what this rank would write to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Away {
    /// The peer has said so, in this round.
    Round(u32),
    /// The peer's slot says so, and nothing is in the rings. The last round from which it was back
    /// then: if that changes, it has been there, and may have written before it left again.
    Slot(u32),
    /// The peer's slot says so; it has written SUSPEND, which was not read yet, nor what is before
    /// it.
    Unread,
}

/// The state of one channel.
#[derive(Debug, Default, PartialEq, Eq, Hash, Clone, Copy, PartialOrd, Ord)]
pub(crate) struct Pause {
    /// This side's round, from SUSPEND until it is back.
    asked: Option<u32>,
    answered: bool,
    away: Option<Away>,
    /// Round of a SUSPEND that is still to be written; a later one replaces it.
    suspend: Option<u32>,
    suspended: Option<u32>,
}

/// The two cells, and the number that is in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Note {
    Suspend(u32),
    Suspended(u32),
}

impl Pause {
    /// This side is about to leave, in its `round`. Asking again changes nothing.
    pub(crate) fn ask(&mut self, round: u32) {
        if self.asked != Some(round) {
            (self.asked, self.answered, self.suspend) = (Some(round), false, Some(round));
        }
    }

    /// The next cell to be written, if any is.
    pub(crate) fn next_note(&self) -> Option<Note> {
        self.suspend.map(Note::Suspend).or(self.suspended.map(Note::Suspended))
    }

    /// Notes that this cell was written.
    pub(crate) fn said(&mut self) {
        if self.suspend.take().is_none() {
            self.suspended = None;
        }
    }

    /// A cell was read. `back` is the last round from which the peer has come back, as its slot
    /// says.
    pub(crate) fn heard(&mut self, note: Note, back: u32) {
        match note {
            Note::Suspend(round) if !is_over(round, back) => {
                self.away = Some(Away::Round(round));
                self.suspended = Some(round);
            }
            Note::Suspend(_) => {}
            Note::Suspended(round) => self.answered |= self.asked == Some(round),
        }
    }

    /// Returns true if the peer writes nothing more, and has written nothing that was not read.
    /// `back` is as for [`Pause::look`], which was called just before: a peer that has come back
    /// may write.
    pub(crate) fn is_agreed(&self, back: u32) -> bool {
        let is_empty = match self.away {
            Some(Away::Round(_)) => true,
            Some(Away::Slot(then)) => then == back,
            Some(Away::Unread) => false,
            None => self.answered,
        };
        self.suspend.is_none() && is_empty
    }

    /// Returns true if nothing but the two cells may be written to the peer, or done with its
    /// memory.
    pub(crate) fn holds(&self) -> bool {
        self.asked.is_some() || self.away.is_some()
    }

    /// Returns true if the peer is away.
    pub(crate) fn is_away(&self) -> bool {
        self.away.is_some()
    }

    /// The peer's slot says that it is away, and from which round it was back last; nothing is in
    /// the rings.
    pub(crate) fn found_away(&mut self, back: u32) {
        self.away.get_or_insert(Away::Slot(back));
    }

    /// Looks whether the peer is back: its slot says from which round, and whether it is away.
    /// Returns true if it has come back since.
    pub(crate) fn look(&mut self, back: u32, is_away: bool) -> bool {
        let came = match self.away {
            Some(Away::Round(round)) => is_over(round, back),
            Some(Away::Slot(_) | Away::Unread) => !is_away,
            None => false,
        };
        if came {
            // It may have left again, which is in what was not read.
            self.away = is_away.then_some(Away::Unread);
        }
        came && !is_away
    }

    /// This side is back in the same memory, or has not left after all, and its slot says so.
    /// `is_away`: so says the peer's.
    pub(crate) fn back(&mut self, is_away: bool) {
        (self.asked, self.answered, self.suspend) = (None, false, None);
        if is_away {
            self.away.get_or_insert(Away::Unread);
        }
    }

    /// This side is back, in new memory, where the peer may not be yet.
    pub(crate) fn anew(&mut self) {
        *self = Pause { away: Some(Away::Slot(0)), ..Pause::default() };
    }
}
