//! The netmod's part of the liveness checks: none where nobody can be asked.

use netmod_core::{Time, VcId};

use crate::life::{Life, Verdict};

/// The liveness checks of peers, and their results.
#[derive(Debug)]
pub(crate) struct Liveness {
    pub(crate) life: Option<Life>,
    verdicts: Vec<(VcId, Verdict)>,
}

impl Liveness {
    pub(crate) fn new(life: Option<Life>) -> Liveness {
        Liveness { life, verdicts: Vec::new() }
    }

    /// Checks the peer of a VC no longer.
    pub(crate) fn unwatch(&mut self, vc: VcId) {
        if let Some(life) = &mut self.life {
            life.unwatch(vc);
        }
    }

    /// Returns the time of the next check.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.life.as_ref().and_then(Life::deadline)
    }

    /// Runs the checks that are due, and returns their results.
    pub(crate) fn poll(&mut self, now: Time) -> Vec<(VcId, Verdict)> {
        if let Some(life) = &mut self.life {
            life.poll(now, &mut self.verdicts);
        }
        std::mem::take(&mut self.verdicts)
    }
}
