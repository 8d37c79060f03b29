//! The state of loss probes: connections whose peer is asked how many frames it has sent.

use std::time::Duration;

use netmod_core::Time;

/// A connection that is in doubt, or whose peer is silent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LossProbe {
    /// True if frames may be lost.
    pub(crate) doubts: bool,
    /// Begin of the probe: whatever the peer says later settles it.
    pub(crate) since: Time,
    /// Time of the next question.
    pub(crate) again: Time,
    pub(crate) pause: Duration,
}

impl LossProbe {
    /// Returns true if nothing has settled it, given when the peer was heard of last. What it has
    /// said since follows what was lost, and tells of it by its numbers.
    pub(crate) fn is_open(&self, heard: Time) -> bool {
        heard <= self.since
    }

    /// Returns true if frames may be lost, as far as is known.
    pub(crate) fn is_doubt(&self, heard: Time) -> bool {
        self.doubts && self.is_open(heard)
    }
}

/// A port that may have lost frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SuspectPort {
    pub(crate) port: usize,
    /// True if a transfer may have failed without saying which.
    pub(crate) transfers: bool,
}
