//! The one system call of this crate: waiting on descriptors.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// Waits until one of the descriptors is readable or the time is over (`ppoll(2)`). A signal ends the
/// wait early.
pub(crate) fn wait_readable(fds: &[RawFd], timeout: Duration) -> io::Result<()> {
    // As a rule a netmod's and the process manager's: a wait needs no memory then.
    let mut few = [libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 }; 8];
    let mut many = Vec::new();
    let polled = match few.get_mut(..fds.len()) {
        Some(few) => few,
        None => {
            many.resize(fds.len(), few[0]);
            &mut many[..]
        }
    };
    for (p, fd) in polled.iter_mut().zip(fds) {
        p.fd = *fd;
    }
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
