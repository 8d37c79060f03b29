//! System calls on files that the standard library does not have.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, IntoRawFd};

/// The kind of a lock on a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lock {
    /// Others may read.
    Shared,
    /// Others wait.
    Exclusive,
}

/// Returns a number of bytes as the system has it.
///
/// # Errors
/// If no file can be so long.
fn offset(n: u64) -> io::Result<libc::off_t> {
    libc::off_t::try_from(n).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))
}

/// Sets the state of a range, and waits until nobody has a lock in its way.
///
/// The lock is that of the open file, so that threads exclude each other as processes do.
fn set(file: &File, kind: libc::c_int, range: &Range<u64>) -> io::Result<()> {
    // SAFETY: a record of numbers, for which zero is a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = offset(range.start)?;
    lock.l_len = offset(range.end.saturating_sub(range.start).max(1))?;
    // SAFETY: the descriptor is open, and the record is of this frame.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLKW, &raw const lock) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Locks a range.
///
/// # Errors
/// Those of the system, among them an interruption.
pub(super) fn lock(file: &File, kind: Lock, range: &Range<u64>) -> io::Result<()> {
    set(file, if kind == Lock::Shared { libc::F_RDLCK } else { libc::F_WRLCK }, range)
}

/// Unlocks a range.
///
/// # Errors
/// Those of the system.
pub(super) fn unlock(file: &File, range: &Range<u64>) -> io::Result<()> {
    set(file, libc::F_UNLCK, range)
}

/// Reserves space for the first `len` bytes. The file is at least so long afterwards.
///
/// # Errors
/// Those of the system.
pub(super) fn allocate(file: &File, len: u64) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, offset(len)?) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Closes a file.
///
/// # Errors
/// Those of the system: data that was written earlier may be lost.
pub(super) fn close(file: File) -> io::Result<()> {
    // SAFETY: the descriptor is this function's.
    match unsafe { libc::close(file.into_raw_fd()) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
