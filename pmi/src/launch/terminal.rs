//! Rank 0's stdin when the launcher's own is a terminal.
//!
//! Ranks are in background process groups, and one that read from the terminal would be
//! stopped; so the launcher reads for it.

use crate::sys;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ChildStdin;
use std::time::{Duration, Instant};

/// How long to wait before looking again whether the launcher is in the foreground.
const RETRY: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Terminal {
    /// `None` when rank 0 has closed its stdin.
    pipe: Option<ChildStdin>,
    unsent: Vec<u8>,
    ended: bool,
    retry_at: Option<Instant>,
}

/// What to watch next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watch {
    /// The terminal, for input.
    Terminal,
    /// The pipe, for room.
    Pipe,
    /// Nothing until [`Terminal::retry_at`].
    Pause,
    /// Nothing any more.
    Nothing,
}

impl Terminal {
    pub(super) fn new(pipe: ChildStdin) -> io::Result<Terminal> {
        sys::set_nonblocking(pipe.as_fd())?;
        Ok(Terminal { pipe: Some(pipe), unsent: Vec::new(), ended: false, retry_at: None })
    }

    pub(super) fn pipe(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(|pipe| pipe.as_fd())
    }

    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Moves what can be moved without waiting.
    pub(super) fn pump(&mut self, now: Instant) -> Watch {
        self.retry_at = None;
        let stdin = io::stdin();
        let stdin = stdin.as_fd();
        if self.unsent.is_empty() && !self.ended {
            // In the background, input is the shell's, and reading would stop this process.
            if !sys::in_foreground(stdin) {
                self.retry_at = Some(now + RETRY);
                return Watch::Pause;
            }
            match sys::wait_fd(stdin, false, Some(now)) {
                Ok(true) => {}
                Ok(false) => return Watch::Terminal,
                Err(_) => self.ended = true,
            }
            let mut bytes = [0; 4096];
            match sys::read(stdin, &mut bytes) {
                Ok(count) if count > 0 => self.unsent.extend_from_slice(&bytes[..count]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => return Watch::Terminal,
                _ => self.ended = true,
            }
        }
        let Some(pipe) = &mut self.pipe else { return Watch::Nothing };
        while !self.unsent.is_empty() {
            match pipe.write(&self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Watch::Pipe,
                Err(_) => {
                    self.pipe = None;
                    return Watch::Nothing;
                }
            }
        }
        if self.ended {
            self.pipe = None;
            return Watch::Nothing;
        }
        Watch::Terminal
    }
}
