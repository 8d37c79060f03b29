//! Jobs that ranks of this one ask for.

use super::Job;
use crate::Spawn;
use crate::launch::LaunchError;

impl Job<'_> {
    /// Starts programs for a rank, and answers it.
    pub(super) fn start_child(&mut self, rank: u32, spawn: Spawn) {
        let name = self.server.name().to_owned();
        let started = if self.ending {
            Err(LaunchError::Ending)
        } else {
            self.children.start(self.launcher, &name, rank, spawn)
        };
        self.server.spawned(rank, started, &mut self.outbox);
    }

    /// Takes the reports of jobs that ranks have asked for. A failure there was told, and is no
    /// failure of this job, whose ranks see it as an error and decide.
    pub(super) fn children_ended(&mut self) {
        for report in self.children.take_ended() {
            if let Err(error) = report {
                self.say(&error.to_string());
            }
        }
    }
}
