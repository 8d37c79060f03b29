//! Grouping of the ranks' processes.
//!
//! A terminal has one process group as its foreground job. Only that group reads, writes with `stty
//! tostop` set, changes the modes, and gets the signals of the keys. So under a controlling
//! terminal the ranks stay in the launcher's group, and kernel and shell stop, continue, interrupt
//! and hang up all of them as any job. Without a terminal each rank leads a group of its own, so
//! that the processes it has started end with it. In the shared group those are found by an
//! environment variable.

use super::passed;
use crate::sys;
use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

/// The variable that marks a rank's processes in the shared group.
///
/// Its prefix keeps a launcher started by a rank from passing it on.
const MARK: &str = "PMI_NMRUN_RANK";

/// Number of times that the environment of a process in the middle of an `exec` is read.
const EXEC_LOOKS: u32 = 50;

/// Pause between two of them.
const EXEC_PAUSE: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(super) enum Grouping {
    /// Each rank leads a group.
    Own,
    /// The ranks are in the launcher's group; the job has this name.
    Shared { job: String },
}

impl Grouping {
    /// Returns the grouping of the ranks of job `job`.
    pub(super) fn of_this_process(job: &str) -> Grouping {
        if sys::has_terminal() { Grouping::Shared { job: job.to_owned() } } else { Grouping::Own }
    }

    pub(super) fn is_shared(&self) -> bool {
        matches!(self, Grouping::Shared { .. })
    }

    /// Returns the variable that marks the processes of a rank, if needed.
    pub(super) fn mark(&self, rank: u32) -> Option<(&'static str, String)> {
        match self {
            Grouping::Own => None,
            Grouping::Shared { job } => Some((MARK, format!("{job}.{rank}"))),
        }
    }
}

/// Returns the processes of this process's group that are marked as ranks of a job, as (rank,
/// process).
pub(super) fn marked(job: &str, ranks: &BTreeSet<u32>) -> Vec<(u32, u32)> {
    let (me, group) = (std::process::id(), sys::own_group());
    // Without /proc only the ranks themselves are reached.
    let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = all.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let of_group = pids.filter(|pid| *pid != me && passed::is_of(*pid, group));
    let marked = of_group.filter_map(|pid| {
        let rank = rank_of(&environ_of(pid)?, job)?;
        ranks.contains(&rank).then_some((rank, pid))
    });
    marked.collect()
}

/// Returns the environment of a process. While a process changes its program (`exec`) it is empty,
/// so that an empty one is read again.
fn environ_of(pid: u32) -> Option<Vec<u8>> {
    for _ in 0..EXEC_LOOKS {
        let environ = fs::read(format!("/proc/{pid}/environ")).ok()?;
        // Processes that have ended have none either.
        if !environ.is_empty() || passed::has_ended(pid) {
            return Some(environ);
        }
        std::thread::sleep(EXEC_PAUSE);
    }
    None
}

/// Returns the rank of a job that an environment is marked with.
fn rank_of(environ: &[u8], job: &str) -> Option<u32> {
    let words = environ.split(|b| *b == 0);
    let mut values = words.filter_map(|w| w.strip_prefix(MARK.as_bytes())?.strip_prefix(b"="));
    let value = std::str::from_utf8(values.next()?).ok()?;
    value.strip_prefix(job)?.strip_prefix('.')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_of_one_job_and_one_rank() {
        let environ = b"PATH=/bin\0PMI_NMRUN_RANK=kvs_1.12\0HOME=/\0";
        assert_eq!(rank_of(environ, "kvs_1"), Some(12));
        for other in ["kvs_", "kvs_1.1", "kvs_12", ""] {
            assert_eq!(rank_of(environ, other), None, "{other}");
        }
        for none in [
            &b""[..],
            b"PMI_NMRUN_RANK",
            b"PMI_NMRUN_RANK=",
            b"PMI_NMRUN_RANK=kvs_1",
            b"X=PMI_NMRUN_RANK=kvs_1.1",
        ] {
            assert_eq!(rank_of(none, "kvs_1"), None, "{none:?}");
        }
    }
}
