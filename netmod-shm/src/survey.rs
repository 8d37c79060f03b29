//! Properties of shared memory on a machine without a job, for programs that look at the machine.

use std::io;

use crate::config::ShmConfig;
use netmod_core::IoVec;

use crate::joint;
use crate::ring::Geometry;
use crate::segment::layout::{Layout, MAX_RANKS};
use crate::sys::{self, Attach};

/// The capability that goes past Yama, as a bit of `CapEff` in `/proc/self/status`
/// (`capabilities(7)`).
const CAP_SYS_PTRACE: u64 = 1 << 19;

/// The reason why ranks may not copy from each other's memory.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The number of this process is another process's, as the system call has it.
    #[error("this process reads other memory than its own under its own number")]
    OtherMemory,
    /// The system call is refused.
    #[error("process_vm_readv: {0}; does the container's seccomp profile forbid it?")]
    Refused(io::Error),
    /// Yama allows less.
    #[error(
        "kernel.yama.ptrace_scope is {scope}, which keeps ranks from each other's memory; 0 permits it (sysctl)"
    )]
    Yama {
        /// Value of the setting.
        scope: u32,
    },
}

/// Returns the length in bytes from which on both sides copy in a get, depending on whether ranks
/// share cores (`crowded`); `usize::MAX`: never.
pub fn joint_from(cfg: &ShmConfig, crowded: bool) -> usize {
    let joint = match cfg.joint {
        "on" => true,
        "off" => false,
        _ => !crowded,
    };
    if joint { joint::WORTH } else { usize::MAX }
}

/// Bytes of the memory that so many ranks of a node share, from the start of the job on; `None` if
/// they are too few or too many to share any.
pub fn segment_bytes(ranks: u32) -> Option<usize> {
    (2..=MAX_RANKS).contains(&ranks).then(|| Layout::of(ranks).total())
}

/// Returns the bytes of a message that find room between the first of so many ranks (see
/// [`Vc::room`](netmod_core::Vc::room)); 0 if they share no memory.
pub fn room_between(ranks: u32) -> usize {
    let layout = (2..=MAX_RANKS).contains(&ranks).then(|| Layout::of(ranks));
    let ring = layout.and_then(|layout| layout.ring_bytes(0, 0));
    ring.map_or(0, |bytes| Geometry::of(bytes).room() as usize)
}

/// Checks that two ranks of one user may copy from each other's memory (cross-memory attach), as
/// far as can be told without a second process.
///
/// # Errors
/// Says what forbids it.
pub fn attach_here() -> Result<(), AttachError> {
    let word = std::process::id().to_le_bytes();
    let mut found = [0; 4];
    let ours = IoVec { base: found.as_mut_ptr(), len: found.len() };
    let theirs = IoVec { base: word.as_ptr().cast_mut(), len: word.len() };
    match sys::attach(Attach::Read, std::process::id(), &[ours], &[theirs]) {
        Ok(n) if n == word.len() && found == word => {}
        Ok(_) => return Err(AttachError::OtherMemory),
        Err(e) => return Err(AttachError::Refused(e)),
    }
    let text = |path| std::fs::read_to_string(path).unwrap_or_default();
    yama(&text("/proc/sys/kernel/yama/ptrace_scope"), &text("/proc/self/status"))
}

/// Checks what the texts of these two files permit. Without Yama the first one is empty.
fn yama(scope: &str, status: &str) -> Result<(), AttachError> {
    let scope: u32 = scope.trim().parse().unwrap_or(0);
    let capabilities = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let capabilities = capabilities.and_then(|c| u64::from_str_radix(c.trim(), 16).ok()).unwrap_or(0);
    if scope == 0 || (scope < 3 && capabilities & CAP_SYS_PTRACE != 0) {
        return Ok(());
    }
    Err(AttachError::Yama { scope })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yama_is_understood() {
        let (none, root) = ("Name:\tx\nCapEff:\t0000000000000000\n", "CapEff:\t000001ffffffffff\n");
        assert!(yama("", none).is_ok() && yama("0\n", none).is_ok());
        for scope in ["1\n", "2\n", "3\n"] {
            assert!(yama(scope, none).is_err_and(|e| e.to_string().contains(scope.trim())), "{scope}");
            assert!(yama(scope, "").is_err(), "{scope}");
            assert_eq!(yama(scope, root).is_ok(), scope != "3\n", "{scope}");
        }
    }

    #[test]
    fn both_sides_copy_where_each_has_a_core() {
        let from = |joint, crowded| {
            let cfg = ShmConfig { joint, ..ShmConfig::default() };
            joint_from(&cfg, crowded)
        };
        assert_eq!((from("auto", false), from("auto", true)), (joint::WORTH, usize::MAX));
        assert_eq!((from("on", true), from("off", false)), (joint::WORTH, usize::MAX));
    }

    #[test]
    fn memory_is_bounded_and_only_for_several() {
        assert_eq!((segment_bytes(1), segment_bytes(MAX_RANKS + 1)), (None, None));
        assert!(segment_bytes(32).is_some_and(|b| b <= 32 * (2 << 20)));
    }
}
