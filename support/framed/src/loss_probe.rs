//! The state of loss probes: connections whose peer is asked how many frames it has sent.

use std::time::Duration;

use netmod_core::Time;

/// A connection that may have lost frames, or whose peer is silent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LossProbe {
    /// True if frames may be lost.
    pub(crate) lossy: bool,
    /// Begin of the probe: any later frame of the peer settles it.
    pub(crate) since: Time,
    /// Time of the next question.
    pub(crate) again: Time,
    pub(crate) pause: Duration,
}

impl LossProbe {
    /// Returns true if the probe is not settled, given the time of the peer's last frame. A later
    /// frame follows the lost ones, and its number shows the loss.
    pub(crate) fn is_open(&self, heard: Time) -> bool {
        heard <= self.since
    }

    /// Returns true if frames may be lost and no later frame has settled it.
    pub(crate) fn suspects_loss(&self, heard: Time) -> bool {
        self.lossy && self.is_open(heard)
    }
}

/// A port that may have lost frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SuspectPort {
    pub(crate) port: usize,
    /// True if a transfer may have failed without saying which.
    pub(crate) transfers: bool,
}
