//! System calls of the jobs that std has not got.

#![allow(unsafe_code)]

use std::io;

/// Ends this process at once, with no chance to clean up.
pub fn kill_self() -> ! {
    // SAFETY: takes no memory.
    unsafe { libc::raise(libc::SIGKILL) };
    // SIGKILL is never blocked, and is delivered before `raise` returns.
    std::process::abort()
}

/// Sends a signal to all processes of a process group.
///
/// # Errors
/// There is no such group, or it may not be signalled.
pub fn signal_group(group: u32, signal: i32) -> io::Result<()> {
    let group = i32::try_from(group).map_err(io::Error::other)?;
    // SAFETY: takes no memory.
    match unsafe { libc::killpg(group, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sets how many descriptors this process may have; the limit on the limit stays.
///
/// # Errors
/// It is more than allowed.
pub fn limit_descriptors(most: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a live value of the type that the call fills.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    limit.rlim_cur = most;
    // SAFETY: `limit` is a live value of the type that the call reads.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Nanoseconds of the clock that all processes of this machine share and that never jumps.
pub fn shared_clock() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a live value of the type that the call fills.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
