//! Pauses between the attempts to go over to a better pair of interfaces.

use std::time::Duration;

use netmod_core::Time;

use crate::conn::ConnId;
use crate::interfaces::HOLD;

/// Attempts with doubled pauses.
const TRIES: u8 = 7;
/// Pause between later attempts. After so long without one, earlier attempts do not count.
const SELDOM: Duration = Duration::from_secs(300);

/// Time after the lapse of an offer in which the end of the connection may be the peer's answer to
/// it, which crossed the end of the offer on the way.
const CROSSING: Duration = Duration::from_secs(1);

/// The attempts of a VC to go over to a better pair of interfaces.
#[derive(Debug)]
pub(crate) struct Upgrade {
    /// Time of the next attempt, or `NEVER`.
    pub(crate) at: Time,
    /// Attempts since there was news of the interfaces, or success.
    pub(crate) tries: u8,
    /// Times that the connection went over to a better pair, whoever of the two began it.
    pub(crate) moves: u8,
    /// Time of the last attempt or move.
    pub(crate) last: Time,
    /// The connection that is not read while the new one is offered.
    pub(crate) frozen: Option<ConnId>,
    /// Time when the peer had last not answered an offer in time; `NEVER` if it always has.
    pub(crate) lapsed: Time,
}

impl Upgrade {
    pub(crate) fn new(now: Time) -> Upgrade {
        Upgrade { at: Time::NEVER, tries: 0, moves: 0, last: now, frozen: None, lapsed: Time::NEVER }
    }

    /// Forgets earlier attempts after a long time without one.
    pub(crate) fn forget(&mut self, now: Time) {
        if now.since(self.last) > SELDOM {
            (self.tries, self.moves) = (0, 0);
        }
    }

    /// Returns the pause before the next attempt.
    pub(crate) fn pause(&self) -> Duration {
        let before = self.tries.max(self.moves);
        if before < TRIES { HOLD * (1 << before) } else { SELDOM }
    }

    /// Returns true if an offer lapsed so shortly ago that the end of the connection may be the
    /// peer's answer to it.
    pub(crate) fn has_just_lapsed(&self, now: Time) -> bool {
        self.lapsed <= now && now.since(self.lapsed) < CROSSING
    }

    /// Takes note of an attempt.
    pub(crate) fn tried(&mut self, now: Time) {
        self.at = Time::NEVER;
        self.tries = (self.tries + 1).min(TRIES);
        self.last = now;
    }

    /// Takes note that the connection has gone over to a better pair.
    pub(crate) fn moved(&mut self, now: Time) {
        self.forget(now);
        self.tries = 0;
        self.moves = (self.moves + 1).min(TRIES);
        self.last = now;
    }
}
