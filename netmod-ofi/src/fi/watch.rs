//! One descriptor for a completion queue whose provider names several, which come and go (`FI_WAIT_POLLFD`, `fi_cq(3)`).
//!
//! A provider over sockets that is to give one descriptor looks at its sockets by `epoll(7)` all the time, and each message then pays, where it leaves and where
//! it arrives, for a waiter that mostly is not there. Asked for several descriptors it uses `poll(2)`, which
//! is less as long as they are few. So they are put into an epoll instance of our own, but only while somebody may wait, and somewhat longer.

#![allow(unsafe_code)]

use core::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use libfabric_sys::attr::fi_wait_pollfd;
use libfabric_sys::call::fi_control;
use libfabric_sys::consts::{FI_ETOOSMALL, FI_GETWAIT};
use libfabric_sys::fid::fid_cq;

/// After so many looks at the queue since somebody has waited nobody does any more: who waits for each message looks seldom in between.
const LOOKS: u32 = 64;
/// Descriptors that there is room for at first.
const FEW: usize = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Watch {
    epoll: OwnedFd,
    /// What the provider has named last.
    named: Vec<libc::pollfd>,
    /// Descriptors in the instance.
    watched: Vec<RawFd>,
    /// Looks at the queue since somebody has waited.
    looks: u32,
}

impl Watch {
    /// For a queue that was opened with `FI_WAIT_POLLFD`.
    ///
    /// # Errors
    /// What the system or the provider says; the latter by its number.
    ///
    /// # Safety
    /// The queue is live.
    pub(super) unsafe fn of(cq: *mut fid_cq) -> Result<Watch, io::Error> {
        let mut this = Watch::new()?;
        // SAFETY: by contract.
        unsafe { this.ask(cq)? };
        Ok(this)
    }

    fn new() -> Result<Watch, io::Error> {
        // SAFETY: makes a new descriptor, or returns -1.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else's.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Watch { epoll, named: Vec::with_capacity(FEW), watched: Vec::new(), looks: 0 })
    }

    /// The descriptor: readable, after [`Watch::arm`], when something may have happened.
    pub(super) fn fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// What the provider names now.
    ///
    /// # Safety
    /// The queue is live, and was opened with `FI_WAIT_POLLFD`.
    unsafe fn ask(&mut self, cq: *mut fid_cq) -> Result<(), io::Error> {
        loop {
            let mut wait =
                fi_wait_pollfd { change_index: 0, nfds: self.named.capacity(), fd: self.named.as_mut_ptr() };
            // SAFETY: the queue is live; there is room for as many as it is told.
            let rc = unsafe { fi_control(cq.cast(), FI_GETWAIT, (&raw mut wait).cast()) };
            if rc == 0 && wait.nfds <= self.named.capacity() {
                // SAFETY: the provider has written so many.
                unsafe { self.named.set_len(wait.nfds) };
                return Ok(());
            }
            if rc != -FI_ETOOSMALL || wait.nfds <= self.named.capacity() {
                return Err(io::Error::from_raw_os_error(-rc));
            }
            self.named.clear();
            self.named.reserve(wait.nfds);
        }
    }

    fn change(&self, op: c_int, fd: RawFd, events: u32) -> Result<(), io::Error> {
        let mut event = libc::epoll_event { events, u64: 0 };
        // SAFETY: the instance is open; the event lives during the call; a descriptor that is closed is an error.
        let rc = unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), op, fd, &raw mut event) };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// From now on the descriptor is readable when something may have happened.
    ///
    /// # Errors
    /// What the system or the provider says.
    ///
    /// # Safety
    /// As for [`Watch::of`].
    pub(super) unsafe fn arm(&mut self, cq: *mut fid_cq) -> Result<(), io::Error> {
        // SAFETY: by contract.
        unsafe { self.ask(cq)? };
        self.watch()
    }

    /// Has all descriptors in the instance that are named, and no others.
    fn watch(&mut self) -> Result<(), io::Error> {
        self.looks = 0;
        for gone in core::mem::take(&mut self.watched) {
            if self.named.iter().any(|one| one.fd == gone) {
                self.watched.push(gone);
            } else {
                // One that was closed has left by itself.
                let _ = self.change(libc::EPOLL_CTL_DEL, gone, 0);
            }
        }
        for at in 0..self.named.len() {
            let libc::pollfd { fd, events, .. } = self.named[at];
            // The values are the same as those of poll(2).
            let events = u32::from(events.cast_unsigned());
            // A descriptor of this number may be another one than before.
            let known = self.watched.contains(&fd) && self.change(libc::EPOLL_CTL_MOD, fd, events).is_ok();
            if !known {
                self.change(libc::EPOLL_CTL_ADD, fd, events)?;
                if !self.watched.contains(&fd) {
                    self.watched.push(fd);
                }
            }
        }
        Ok(())
    }

    /// The queue is looked at.
    #[inline]
    pub(super) fn looked(&mut self) {
        if !self.watched.is_empty() {
            self.rest();
        }
    }

    #[cold]
    fn rest(&mut self) {
        self.looks += 1;
        if self.looks >= LOOKS {
            for fd in core::mem::take(&mut self.watched) {
                // One that was closed has left by itself.
                let _ = self.change(libc::EPOLL_CTL_DEL, fd, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn named(watch: &mut Watch, of: &[&UnixStream]) {
        let fd = |s: &&UnixStream| libc::pollfd { fd: s.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        watch.named = of.iter().map(fd).collect();
    }

    fn is_readable(watch: &Watch) -> bool {
        let mut one = libc::pollfd { fd: watch.fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the descriptor's state is written to where it is.
        unsafe { libc::poll(&raw mut one, 1, 0) == 1 }
    }

    #[test]
    fn what_is_named_is_watched_until_nobody_waits_any_more() {
        let mut watch = Watch::new().expect("an instance");
        let [(a, mut to_a), (b, mut to_b), (c, mut to_c)] =
            [0; 3].map(|_| UnixStream::pair().expect("a pair"));
        to_b.write_all(b"x").expect("room");
        assert!(!is_readable(&watch));
        named(&mut watch, &[&a, &b]);
        watch.watch().expect("two descriptors");
        assert!(is_readable(&watch), "what was there before");
        // It is not named any more, and another one is.
        named(&mut watch, &[&a, &c]);
        watch.watch().expect("another descriptor");
        assert!(!is_readable(&watch));
        to_c.write_all(b"x").expect("room");
        assert!(is_readable(&watch));
        (0..LOOKS).for_each(|_| watch.looked());
        assert!(!is_readable(&watch) && watch.watched.is_empty());
        // Who waits again and again keeps them.
        for _ in 0..10 {
            watch.watch().expect("the same");
            (0..LOOKS - 1).for_each(|_| watch.looked());
            assert!(is_readable(&watch));
        }
        to_a.write_all(b"x").expect("room");
    }

    #[test]
    fn a_descriptor_that_was_closed_is_told_from_the_next_of_its_number() {
        let mut watch = Watch::new().expect("an instance");
        let (a, _to_a) = UnixStream::pair().expect("a pair");
        named(&mut watch, &[&a]);
        watch.watch().expect("a descriptor");
        let (b, mut to_b) = UnixStream::pair().expect("a pair");
        let number = a.as_raw_fd();
        // SAFETY: both are open; what had the number is closed, and is now another name of `b`.
        assert_eq!(unsafe { libc::dup2(b.as_raw_fd(), number) }, number);
        drop(b);
        watch.watch().expect("the other one");
        to_b.write_all(b"x").expect("room");
        assert!(is_readable(&watch));
    }
}
