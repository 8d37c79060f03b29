//! Child processes: their setup between fork and exec, and detection of their end.

use super::{CpuMask, check};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The setup of a child before exec.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChildSetup {
    /// A descriptor to keep open across exec.
    pub(crate) keep: Option<RawFd>,
    /// True if the child leads a process group.
    pub(crate) own_group: bool,
    /// True if the child dies with the thread that starts it.
    pub(crate) die_with_parent: bool,
    /// Soft limit of open files to restore.
    pub(crate) open_files: Option<u64>,
    /// Processors that the child may run on, if they are fewer than this process may.
    pub(crate) cpus: Option<CpuMask>,
}

/// Makes the child apply `setup` before exec.
pub(crate) fn prepare_child(command: &mut Command, setup: ChildSetup) {
    let parent = std::process::id();
    let hook = move || {
        // SAFETY: each of these is a plain system call on integers.
        unsafe {
            if setup.own_group {
                check(libc::setpgid(0, 0))?;
            }
            if setup.die_with_parent {
                check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong))?;
                // The parent may have died before the line above took effect.
                if libc::getppid() as u32 != parent {
                    return Err(io::Error::from_raw_os_error(libc::ESRCH));
                }
            }
        }
        if let Some(fd) = setup.keep {
            // SAFETY: F_SETFD takes integers; the descriptor was inherited by the fork.
            check(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) })?;
        }
        if let Some(soft) = setup.open_files {
            let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: `limit` is a valid rlimit that the first call fills and the second reads.
            unsafe {
                check(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit))?;
                limit.rlim_cur = soft;
                check(libc::setrlimit(libc::RLIMIT_NOFILE, &limit))?;
            }
        }
        setup.cpus.map_or(Ok(()), |cpus| cpus.apply())
    };
    // SAFETY: between fork and exec the hook only makes async-signal-safe system calls (setpgid,
    // prctl, getppid, fcntl, getrlimit, setrlimit, sched_setaffinity), on memory of its own. It
    // does not allocate, since an `io::Error` from an OS code holds no heap memory.
    unsafe { command.pre_exec(hook) };
}

/// Raises the soft limit of open files to at least `wanted`; returns the former limit if it was
/// raised.
pub(crate) fn raise_open_files(wanted: u64) -> io::Result<Option<u64>> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid rlimit to write to.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) })?;
    if limit.rlim_cur >= wanted {
        return Ok(None);
    }
    let former = limit.rlim_cur;
    if limit.rlim_max < wanted {
        return Err(io::Error::other(format!(
            "{wanted} open files are needed, the limit is {} (ulimit -Hn)",
            limit.rlim_max
        )));
    }
    limit.rlim_cur = wanted;
    // SAFETY: `limit` is a valid rlimit to read from.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) })?;
    Ok(Some(former))
}

/// Returns a descriptor that is readable when the process has ended (pidfd_open(2), Linux 5.3).
///
/// `None` if the kernel does not support it.
pub(crate) fn open_pidfd(pid: u32) -> Option<OwnedFd> {
    // SAFETY: the call takes integers and touches no memory. pidfds are closed on exec.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::c_long, 0) };
    let fd = RawFd::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: the call has just created this descriptor, nobody else owns it.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Returns true if a child of this process has ended.
///
/// It stays a zombie, so its number cannot be reused yet.
pub(crate) fn has_ended(pid: u32) -> io::Result<bool> {
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: siginfo_t is plain data, all zeroes is a valid value of it; waitid(2) writes to
    // it only, and leaves si_pid zero when nothing has ended, which makes the field valid to
    // read in both cases.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        check(libc::waitid(libc::P_PID, pid, &mut info, flags))?;
        Ok(info.si_pid() != 0)
    }
}

/// Sends a signal to one process.
pub(crate) fn kill(pid: u32, signal: i32) -> io::Result<()> {
    // SAFETY: the call takes integers.
    check(unsafe { libc::kill(pid as libc::pid_t, signal) }).map(drop)
}

/// Returns the process group of this process.
pub(crate) fn own_group() -> u32 {
    // SAFETY: takes no arguments, and never fails.
    unsafe { libc::getpgrp() as u32 }
}

/// Sends a signal to a process group that a process started here leads or led.
pub(crate) fn kill_group(leader: u32, signal: i32) -> io::Result<()> {
    // SAFETY: the call takes integers.
    check(unsafe { libc::killpg(leader as libc::pid_t, signal) }).map(drop)
}
