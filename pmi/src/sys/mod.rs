//! System calls that the standard library does not offer, as safe functions.
//!
//! They wait for descriptors, use sockets without blocking or signals, and handle child processes
//! and signals. Besides `pmix::ffi` this is the library's only module with `unsafe`.
#![allow(unsafe_code)]

mod child;
mod cpus;
mod epoll;
mod event_fd;
mod signal;

pub(crate) use child::{
    ChildSetup, has_ended, kill, kill_group, open_pidfd, own_group, prepare_child, raise_open_files,
};
pub(crate) use cpus::{CpuMask, allowed_cpus};
pub(crate) use epoll::{Epoll, Interest, Ready};
pub(crate) use event_fd::EventFd;
pub(crate) use signal::{Sender, SignalPipe, by_name as signal_by_name, defuse_sigusr1, name as signal_name};

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Instant;

/// Turns the C convention (-1 and errno) into a result.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Duplicates a descriptor that this process inherited as a number; the duplicate is closed on
/// exec.
///
/// The original stays open, but is closed on exec, too, so that no child uses it.
///
/// # Errors
///
/// Fails if `fd` is not open or not a socket.
pub(crate) fn duplicate_inherited(fd: RawFd) -> io::Result<OwnedFd> {
    if kind(fd)? != libc::S_IFSOCK {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a socket"));
    }
    set_close_on_exec(fd)?;
    // SAFETY: F_DUPFD_CLOEXEC takes an integer and touches no memory of ours.
    let duplicate = check(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) })?;
    // SAFETY: the call has just created this descriptor, nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(duplicate) })
}

/// Returns the file type of a descriptor, as of fstat(2).
fn kind(fd: RawFd) -> io::Result<libc::mode_t> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `stat` has the size and alignment fstat(2) writes to; any number may be passed as
    // the descriptor, one that is not open gives EBADF.
    check(unsafe { libc::fstat(fd, stat.as_mut_ptr()) })?;
    // SAFETY: fstat succeeded, so it has filled the structure.
    Ok(unsafe { stat.assume_init() }.st_mode & libc::S_IFMT)
}

/// Returns true if a pipe, of which this is either end, holds unread bytes. False if it is no pipe.
pub(crate) fn holds_unread(fd: BorrowedFd<'_>) -> io::Result<bool> {
    if kind(fd.as_raw_fd())? != libc::S_IFIFO {
        return Ok(false);
    }
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open for the duration of the borrow, and FIONREAD writes one int.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &raw mut bytes) })?;
    Ok(bytes > 0)
}

/// Replaces the file of a descriptor by one that is never readable, under the same number.
pub(crate) fn silence(fd: &OwnedFd) -> io::Result<()> {
    let quiet = EventFd::new()?;
    // SAFETY: both descriptors are open and owned by this process; dup3 closes the second one's
    // file and makes it a descriptor of the first one's file.
    check(unsafe { libc::dup3(quiet.fd(), fd.as_raw_fd(), libc::O_CLOEXEC) }).map(drop)
}

/// Sets a descriptor to be closed on exec.
pub(crate) fn set_close_on_exec(fd: RawFd) -> io::Result<()> {
    // SAFETY: F_GETFD touches no memory; a descriptor that is not open gives EBADF.
    let flags = check(unsafe { libc::fcntl(fd, libc::F_GETFD) })?;
    // SAFETY: F_SETFD takes an integer and touches no memory.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, flags | libc::FD_CLOEXEC) }).map(drop)
}

/// Sets a descriptor to non-blocking.
pub(crate) fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open for the duration of the borrow; F_GETFL touches no memory.
    let flags = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: as above; F_SETFL takes an integer.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) }).map(drop)
}

/// Waits until `fd` is readable (or writable, with `write`), or has failed.
///
/// Returns `Ok(false)` if `deadline` passes first. Without a deadline it waits for ever.
pub(crate) fn wait_fd(fd: BorrowedFd<'_>, write: bool, deadline: Option<Instant>) -> io::Result<bool> {
    let events = if write { libc::POLLOUT } else { libc::POLLIN };
    loop {
        let timeout = match deadline {
            None => -1,
            Some(at) => {
                let left = at.saturating_duration_since(Instant::now());
                // Rounded up, so that the deadline has passed when poll(2) gives up.
                i32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
            }
        };
        let mut entry = libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 };
        // SAFETY: `entry` is one valid pollfd, and the count is 1.
        match check(unsafe { libc::poll(&mut entry, 1, timeout) }) {
            Ok(0) if timeout == 0 => return Ok(false),
            Ok(0) => {}
            Ok(_) => return Ok(true),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// Ends this process at once, without exit handlers.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: a number; it does not return.
    unsafe { libc::_exit(code) }
}

/// Sends on a socket without blocking, and without SIGPIPE if the other end is closed.
pub(crate) fn send(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the pointer and the length describe `bytes`, which is only read.
    let sent = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives from a socket without blocking; 0 at the end of the stream.
pub(crate) fn recv(fd: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the pointer and the length describe `bytes`, which is exclusively ours.
    let received =
        unsafe { libc::recv(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT) };
    usize::try_from(received).map_err(|_| io::Error::last_os_error())
}

/// Reads from a descriptor without the buffering of the standard streams.
pub(crate) fn read(fd: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the pointer and the length describe `bytes`, which is exclusively ours.
    let count = unsafe { libc::read(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Writes to a descriptor without the buffering of the standard streams.
pub(crate) fn write(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the pointer and the length describe `bytes`, which is only read.
    let count = unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}

/// Returns true if this process has a controlling terminal.
pub(crate) fn has_terminal() -> bool {
    // Opening it fails if there is none (tty(4)).
    std::fs::File::open("/dev/tty").is_ok()
}
