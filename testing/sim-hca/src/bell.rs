//! A descriptor that is readable while events wait.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;

/// Events that wait, and a descriptor for them.
#[derive(Debug)]
pub(crate) struct Bell {
    listen: UnixStream,
    ring: UnixStream,
    /// Whether a byte is under way.
    rung: Mutex<bool>,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Bell> {
        let (listen, ring) = UnixStream::pair()?;
        listen.set_nonblocking(true)?;
        ring.set_nonblocking(true)?;
        Ok(Bell { listen, ring, rung: Mutex::new(false) })
    }

    /// Makes it readable, or not.
    pub(crate) fn set(&self, on: bool) {
        let mut rung = self.rung.lock().unwrap_or_else(|poison| poison.into_inner());
        if on == *rung {
            return;
        }
        // One byte is on its way at most, so neither call can find the socket full or empty.
        let done = match on {
            true => (&self.ring).write(&[1]),
            false => (&self.listen).read(&mut [0]),
        };
        // What could not be rung is rung at the next event.
        *rung = on && matches!(done, Ok(1));
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.listen.as_fd()
    }
}
