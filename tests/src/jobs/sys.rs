//! System calls of the jobs that std has not got.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// Ends this process at once, with no chance to clean up.
pub fn kill_self() -> ! {
    // SAFETY: takes no memory.
    unsafe { libc::raise(libc::SIGKILL) };
    // SIGKILL is never blocked, and is delivered before `raise` returns.
    std::process::abort()
}

/// Sends a signal to this process.
///
/// # Errors
/// There is no such signal.
pub fn raise(signal: i32) -> io::Result<()> {
    // SAFETY: takes no memory.
    match unsafe { libc::raise(signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The signal that the tests of status reports use.
pub const USR2: i32 = libc::SIGUSR2;

/// Sends a signal to a process.
///
/// # Errors
/// There is no such process, or it may not be signalled.
pub fn signal(pid: u32, signal: i32) -> io::Result<()> {
    let pid = i32::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: takes no memory.
    match unsafe { libc::kill(pid, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
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

/// Returns true if a descriptor is readable, or becomes so within a time.
///
/// # Errors
/// What the system says.
pub fn readable(fd: RawFd, within: Duration) -> io::Result<bool> {
    let mut p = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let ms = i32::try_from(within.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: `p` is one live entry.
    match unsafe { libc::poll(&mut p, 1, ms) } {
        n if n >= 0 => Ok(n > 0),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Time that this process has been on a processor, in the kernel too.
///
/// # Errors
/// What the system says.
pub fn cpu_time() -> io::Result<Duration> {
    cpu_time_of(libc::RUSAGE_SELF)
}

/// Returns [`cpu_time`] of the calling thread.
///
/// # Errors
/// What the system says.
pub fn thread_cpu_time() -> io::Result<Duration> {
    cpu_time_of(libc::RUSAGE_THREAD)
}

fn cpu_time_of(whose: libc::c_int) -> io::Result<Duration> {
    let u = usage(whose)?;
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    Ok(time(u.ru_utime) + time(u.ru_stime))
}

/// Returns the numbers of voluntary and involuntary context switches of this process.
///
/// # Errors
/// What the system says.
pub fn switches() -> io::Result<[u64; 2]> {
    let u = usage(libc::RUSAGE_SELF)?;
    Ok([u.ru_nvcsw, u.ru_nivcsw].map(|n| u64::try_from(n).unwrap_or(0)))
}

fn usage(whose: libc::c_int) -> io::Result<libc::rusage> {
    let mut u = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call fills `u`, for which zeros are a valid value anyway.
    let (done, u) = unsafe { (libc::getrusage(whose, u.as_mut_ptr()), u.assume_init()) };
    if done == 0 { Ok(u) } else { Err(io::Error::last_os_error()) }
}

/// Moves the calling thread, and the processes that it will start, into a new network namespace,
/// which goes with the last of them. Returns the thread's id, by which others can name the
/// namespace.
///
/// # Errors
/// Those of `unshare(2)`: only root may.
pub fn own_network() -> io::Result<i32> {
    // SAFETY: takes no memory.
    match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
        // SAFETY: no arguments, cannot fail.
        0 => Ok(unsafe { libc::gettid() }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Starts a child that is a copy of this process, with all its memory, sleeps for so long, and
/// ends.
///
/// # Errors
/// What the system says.
pub fn fork_sleeper(time: Duration) -> io::Result<i32> {
    let (seconds, nanoseconds) = (time.as_secs() as libc::time_t, time.subsec_nanos().into());
    let nap = libc::timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    // SAFETY: takes no memory.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: these are system calls alone, which the child of a process of many threads may
        // make; `nap` is on its stack.
        0 => unsafe {
            libc::nanosleep(&nap, std::ptr::null_mut());
            libc::_exit(0)
        },
        child => Ok(child),
    }
}

/// Makes a child that goes on like this process; 0 in the child. It has this thread alone.
///
/// # Errors
/// What the system says.
pub fn fork() -> io::Result<i32> {
    // SAFETY: takes no memory. The C library makes its allocator usable in the child, which ends by
    // `exit_now`.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        child => Ok(child),
    }
}

/// Ends this process at once, without what was registered for its exit.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: a number; it does not return.
    unsafe { libc::_exit(code) }
}

/// Waits for a child to end as it should.
///
/// # Errors
/// What the system says, or how the child has ended.
pub fn reap(child: i32) -> io::Result<()> {
    let mut status = 0;
    // SAFETY: `status` is a live value of the type that the call fills.
    match unsafe { libc::waitpid(child, &mut status, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ if status == 0 => Ok(()),
        _ => Err(io::Error::other(format!("a child has ended with status {status:#x}"))),
    }
}
