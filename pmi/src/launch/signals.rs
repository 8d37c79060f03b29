//! Signals to the processes of ranks.

use super::group::{Grouping, marked};
use super::passed;
use super::rank::Rank;
use crate::sys;
use std::collections::BTreeSet;

impl Grouping {
    /// Sends a signal to all processes of the ranks that have not been reaped.
    pub(super) fn signal(&self, ranks: &[Rank], signal: i32) {
        for rank in ranks {
            rank.signal(signal);
        }
        if let Grouping::Shared { job } = self {
            let living = ranks.iter().filter(|r| r.exit.is_none());
            let of: BTreeSet<u32> = living.clone().map(Rank::number).collect();
            let told: BTreeSet<u32> = living.map(Rank::pid).collect();
            for (_, pid) in marked(job, &of).into_iter().filter(|(_, pid)| !told.contains(pid)) {
                // The process may have ended meanwhile.
                let _ = sys::kill(pid, signal);
            }
        }
    }

    /// Kills the processes that ended ranks have left in the shared group.
    pub(super) fn kill_leftovers(&self, ranks: &[Rank], ended: &[u32]) {
        let Grouping::Shared { job } = self else { return };
        let ended = ended.iter().filter_map(|rank| ranks.get(*rank as usize)).filter(|r| r.has_ended());
        for (_, pid) in marked(job, &ended.map(Rank::number).collect()) {
            // The process may have ended meanwhile.
            let _ = sys::kill(pid, libc::SIGKILL);
        }
    }

    /// Sends a signal to those processes of the ranks that catch it; returns the number of ranks
    /// with such a process.
    pub(super) fn pass_on(&self, ranks: &[Rank], signal: i32) -> usize {
        let living = ranks.iter().filter(|r| r.exit.is_none());
        match self {
            Grouping::Own => living.filter(|r| passed::to_catchers(r.pid(), signal) > 0).count(),
            Grouping::Shared { job } => {
                let of: BTreeSet<u32> = living.map(Rank::number).collect();
                let reached: BTreeSet<u32> = marked(job, &of)
                    .into_iter()
                    .filter(|(_, pid)| passed::to_catcher(*pid, signal))
                    .map(|(rank, _)| rank)
                    .collect();
                reached.len()
            }
        }
    }
}
