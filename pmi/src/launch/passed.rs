//! Forwarding of a signal that must not end processes that do not catch it, such as a query for
//! their state.

use std::fs;

use crate::sys;

/// Sends `signal` to the processes of a group that catch it; returns their number.
pub(super) fn to_catchers(group: u32, signal: i32) -> usize {
    // A group that cannot be examined has ended, or is another user's: it gets nothing.
    let Ok(all) = fs::read_dir("/proc") else { return 0 };
    let pids = all.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| is_of(*pid, group) && to_catcher(*pid, signal)).count()
}

/// Sends `signal` to a process if it catches it; returns true if it was sent.
pub(super) fn to_catcher(pid: u32, signal: i32) -> bool {
    catches(pid, signal) && sys::kill(pid, signal).is_ok()
}

/// Returns true if a process belongs to a group.
pub(super) fn is_of(pid: u32, group: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|text| group_of(&text) == Some(group))
}

/// Returns true if a process has ended, reaped or not.
pub(super) fn has_ended(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.map_or(true, |text| {
        text.rsplit_once(')').is_none_or(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
    })
}

/// Returns the group in `/proc/PID/stat`: the third field after the name, which may contain
/// anything.
fn group_of(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse().ok()
}

fn catches(pid: u32, signal: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|text| is_caught(&text, signal))
}

/// Returns true if `/proc/PID/status` lists the signal among those with a handler.
fn is_caught(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|l| l.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok()).unwrap_or(0);
    u32::try_from(signal - 1).ok().and_then(|bit| mask.checked_shr(bit)).is_some_and(|m| m & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_masks() {
        assert_eq!(group_of("77 (a) S 1) b) S 1 70 70 0 -1"), Some(70));
        assert_eq!(group_of("77 (a"), None);
        let status = "Name:\ta\nSigIgn:\tffffffffffffffff\nSigCgt:\t0000000000000800\n";
        assert!(is_caught(status, 12) && !is_caught(status, 11) && !is_caught(status, 13));
        for none in [0, -1, 64, 65, i32::MIN + 1] {
            assert!(!is_caught(status, none), "{none}");
        }
        assert!(!is_caught("Name:\ta\n", 12));
    }
}
