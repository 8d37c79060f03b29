//! The rings that each poll looks at, and those that it has just stopped to look at.

use std::time::Duration;

use netmod_core::Time;

/// Empty looks after which a ring is looked at no more until its producer rings.
pub(crate) const PATIENCE: u32 = 4096;
/// Time after which a store has left its processor's store buffer.
const DRAINED: Duration = Duration::from_millis(1);

/// The rings that this rank looks at, by slot.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Rings that each poll looks at.
    pub(crate) active: Vec<usize>,
    /// Rings that were active until a moment ago.
    pub(crate) lately: Retired,
}

impl Watch {
    /// Creates one for so many slots.
    pub(crate) fn new(slots: usize) -> Watch {
        Watch { active: Vec::with_capacity(16), lately: Retired::new(slots) }
    }
}

/// Rings that were watched until a moment ago, which are looked at once more.
#[derive(Debug)]
pub(crate) struct Retired {
    /// Since the last turn, and before it.
    fresh: Vec<usize>,
    old: Vec<usize>,
    /// Time when the old ones are looked at, and the fresh ones become old. `NEVER` if there are
    /// none.
    turn: Time,
}

impl Retired {
    /// Creates one for so many slots.
    pub(crate) fn new(slots: usize) -> Retired {
        let list = || Vec::with_capacity(slots);
        Retired { fresh: list(), old: list(), turn: Time::NEVER }
    }

    /// Returns the time of the next [`ShmNetmod::look_again`].
    #[inline]
    pub(crate) fn due(&self) -> Time {
        self.turn
    }

    pub(crate) fn add(&mut self, slot: usize, now: Time) {
        self.fresh.push(slot);
        if self.turn == Time::NEVER {
            self.turn = now + DRAINED;
        }
    }

    /// It is watched again.
    pub(crate) fn remove(&mut self, slot: usize) {
        self.fresh.retain(|s| *s != slot);
        self.old.retain(|s| *s != slot);
        if self.fresh.is_empty() && self.old.is_empty() {
            self.turn = Time::NEVER;
        }
    }

    /// A ring to look at now, if one is left.
    pub(crate) fn take(&mut self) -> Option<usize> {
        self.old.pop()
    }

    /// All old ones were taken. Those that came since the last turn wait for the next: `now` may
    /// have been read before they came, but it is newer than the turn before.
    pub(crate) fn turn(&mut self, now: Time) {
        std::mem::swap(&mut self.old, &mut self.fresh);
        self.turn = if self.old.is_empty() { Time::NEVER } else { now + DRAINED };
    }
}
