//! An eventfd, for waking a thread that polls descriptors.

use super::{check, wait_fd};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// A descriptor that is readable from a signal until it is consumed.
#[derive(Debug)]
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    pub(crate) fn new() -> io::Result<EventFd> {
        // SAFETY: eventfd(2) takes integers.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })?;
        // SAFETY: the call has just created this descriptor, nobody else owns it.
        Ok(EventFd(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Makes it readable.
    pub(crate) fn signal(&self) {
        let one = 1u64;
        // SAFETY: the eight bytes of `one` are read. There is at most one signal per consumption,
        // so the counter cannot overflow, and the write neither blocks nor fails.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Makes it unreadable; waits for a signal in progress.
    pub(crate) fn consume(&self) {
        let mut count = [0; 8];
        while matches!(super::read(self.0.as_fd(), &mut count),
            Err(e) if e.kind() == io::ErrorKind::Interrupted)
        {}
    }

    /// Waits until it is readable.
    pub(crate) fn wait(&self) -> io::Result<()> {
        wait_fd(self.0.as_fd(), false, None).map(drop)
    }

    /// Waits until it is readable, at most for `limit`. Returns true if it is readable.
    pub(crate) fn wait_for(&self, limit: std::time::Duration) -> io::Result<bool> {
        wait_fd(self.0.as_fd(), false, Some(std::time::Instant::now() + limit))
    }

    /// Returns true if it is readable.
    pub(crate) fn is_ready(&self) -> bool {
        wait_fd(self.0.as_fd(), false, Some(std::time::Instant::now())).unwrap_or(false)
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
