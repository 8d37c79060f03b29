//! epoll(7): a level-triggered set of descriptors, each with a number.

use super::check;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Instant;

/// The conditions to watch a descriptor for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Data or the end of the stream.
    Read,
    /// Data as for `Read`, and room to write.
    ReadWrite,
}

impl Interest {
    fn bits(self) -> u32 {
        (match self {
            Interest::Read => libc::EPOLLIN,
            Interest::ReadWrite => libc::EPOLLIN | libc::EPOLLOUT,
        }) as u32
    }
}

/// A descriptor that is ready.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ready {
    /// The number with which it was added.
    pub(crate) token: u64,
    /// True if it has failed or was closed by the peer; reading tells which.
    pub(crate) hung_up: bool,
}

/// An epoll instance.
#[derive(Debug)]
pub(crate) struct Epoll {
    fd: OwnedFd,
}

impl Epoll {
    pub(crate) fn new() -> io::Result<Epoll> {
        // SAFETY: the call takes an integer.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the call has just created this descriptor, nobody else owns it.
        Ok(Epoll { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    pub(crate) fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, interest)
    }

    pub(crate) fn change(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, interest)
    }

    pub(crate) fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, Interest::Read)
    }

    fn control(&self, op: libc::c_int, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        let mut event = libc::epoll_event { events: interest.bits(), u64: token };
        // SAFETY: both descriptors are open, `event` is a valid epoll_event for the call.
        check(unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), op, fd.as_raw_fd(), &mut event) }).map(drop)
    }

    /// Waits until descriptors are ready or `deadline` has passed.
    ///
    /// `ready` gets the ready ones; it is empty after the deadline or a signal.
    pub(crate) fn wait(&self, ready: &mut Vec<Ready>, deadline: Option<Instant>) -> io::Result<()> {
        const BATCH: usize = 128;
        ready.clear();
        let timeout = deadline.map_or(-1, |at| {
            let left = at.saturating_duration_since(Instant::now());
            i32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
        });
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; BATCH];
        // SAFETY: `events` has room for BATCH entries, which is the maximum given.
        let count = check(unsafe {
            libc::epoll_wait(self.fd.as_raw_fd(), events.as_mut_ptr(), BATCH as libc::c_int, timeout)
        });
        let count = match count {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => 0,
            other => usize::try_from(other?).unwrap_or(0),
        };
        ready.extend(events[..count].iter().map(|event| Ready {
            token: event.u64,
            hung_up: event.events & (libc::EPOLLHUP | libc::EPOLLERR) as u32 != 0,
        }));
        Ok(())
    }
}
