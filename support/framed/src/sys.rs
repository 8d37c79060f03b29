//! Requests to the kernel: one descriptor for all of a process's ports, and the limit of
//! descriptors.

#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::device::Port;

/// Waits for the completion queues of several ports at once (`epoll(7)`).
#[derive(Debug)]
pub(crate) struct Waiter {
    fd: RawFd,
    _own: Option<OwnedFd>,
}

impl Waiter {
    /// A descriptor that is readable when something happens at one of the ports, never if there are
    /// none; `None` if one of them has nothing to wait on.
    pub(crate) fn of(ports: &[impl Port]) -> Option<Waiter> {
        let fds: Option<Vec<RawFd>> = ports.iter().map(|p| p.wait_fd()).collect();
        let fds = fds?;
        if let [only] = fds[..] {
            return Some(Waiter { fd: only, _own: None });
        }
        // SAFETY: makes a new descriptor, or returns -1.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return None;
        }
        // SAFETY: the descriptor is new and nobody else's.
        let own = unsafe { OwnedFd::from_raw_fd(fd) };
        for one in fds {
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
            // SAFETY: both descriptors are open; the event lives during the call.
            let rc = unsafe { libc::epoll_ctl(own.as_raw_fd(), libc::EPOLL_CTL_ADD, one, &raw mut event) };
            if rc != 0 {
                return None;
            }
        }
        Some(Waiter { fd: own.as_raw_fd(), _own: Some(own) })
    }

    /// The descriptor.
    pub(crate) fn fd(&self) -> RawFd {
        self.fd
    }
}

/// Returns how many descriptors this process may have, if that is bounded (`getrlimit(2)`).
pub(crate) fn descriptor_limit() -> Option<usize> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a place for the result.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0
        || limit.rlim_cur == libc::RLIM_INFINITY
    {
        return None;
    }
    usize::try_from(limit.rlim_cur).ok()
}
