//! The one system call of this crate: waiting on descriptors.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// Waits until one of the descriptors is readable or the time is over (`ppoll(2)`). A signal ends the
/// wait early.
pub(crate) fn wait_readable(fds: &[RawFd], timeout: Duration) -> io::Result<()> {
    let mut polled: Vec<libc::pollfd> =
        fds.iter().map(|fd| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 }).collect();
    let ts =
        libc::timespec { tv_sec: timeout.as_secs() as libc::time_t, tv_nsec: timeout.subsec_nanos().into() };
    // SAFETY: `polled` is a live array of its length, `ts` a live struct; no signal mask is given.
    let n = unsafe { libc::ppoll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, &ts, std::ptr::null()) };
    if n >= 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        e if e.kind() == io::ErrorKind::Interrupted => Ok(()),
        e => Err(e),
    }
}
