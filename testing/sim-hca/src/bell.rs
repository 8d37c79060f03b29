//! A descriptor that is readable while events are pending.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;

/// A descriptor for pending events.
#[derive(Debug)]
pub(crate) struct Bell {
    listen: UnixStream,
    ring: UnixStream,
    /// True if a byte is in the socket.
    rung: Mutex<bool>,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Bell> {
        let (listen, ring) = UnixStream::pair()?;
        listen.set_nonblocking(true)?;
        ring.set_nonblocking(true)?;
        Ok(Bell { listen, ring, rung: Mutex::new(false) })
    }

    /// Makes the descriptor readable, or not.
    pub(crate) fn set(&self, on: bool) {
        let mut rung = self.rung.lock().unwrap_or_else(|poison| poison.into_inner());
        if on == *rung {
            return;
        }
        // At most one byte is in transit, so neither call can find the socket full or empty.
        let done = match on {
            true => (&self.ring).write(&[1]),
            false => (&self.listen).read(&mut [0]),
        };
        // If this fails, the next event tries again.
        *rung = on && matches!(done, Ok(1));
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.listen.as_fd()
    }
}
