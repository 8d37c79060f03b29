//! A rank's PMI connection on the launcher's side: lines in, buffered bytes out, never waiting.

use crate::server::Sink;
use crate::sys;
use crate::wire::{LineBuffer, LineError};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Replies that a client may leave unread, in bytes.
const MAX_UNREAD: usize = 1 << 20;

/// What reading has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    /// Some bytes; there may be more.
    Some,
    /// Nothing now.
    Nothing,
    /// The other side has closed, or the connection failed, which is the same to the server.
    Closed,
}

#[derive(Debug)]
pub(super) struct Connection {
    fd: OwnedFd,
    lines: LineBuffer,
    /// Whether the connection is watched for room to write.
    pub(super) watched_for_room: bool,
}

impl Connection {
    pub(super) fn new(fd: OwnedFd) -> Connection {
        Connection { fd, lines: LineBuffer::default(), watched_for_room: false }
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Reads once.
    pub(super) fn fill(&mut self) -> Input {
        let mut bytes = [0; 16 * 1024];
        loop {
            return match sys::recv(self.fd.as_fd(), &mut bytes) {
                Ok(0) => Input::Closed,
                Ok(count) => {
                    self.lines.extend(&bytes[..count]);
                    Input::Some
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => Input::Nothing,
                Err(_) => Input::Closed,
            };
        }
    }

    pub(super) fn next_line(&mut self) -> Result<Option<&[u8]>, LineError> {
        self.lines.next_line()
    }

    pub(super) fn unfinished(&self) -> &[u8] {
        self.lines.rest()
    }
}

/// What is to be sent to each rank.
#[derive(Debug)]
pub(super) struct Outbox {
    queues: Vec<Vec<u8>>,
    /// Ranks with something new to send.
    dirty: Vec<u32>,
}

impl Outbox {
    pub(super) fn new(ranks: u32) -> Outbox {
        Outbox { queues: (0..ranks).map(|_| Vec::new()).collect(), dirty: Vec::new() }
    }

    pub(super) fn take_dirty(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.dirty)
    }

    /// Whether the rank leaves more unread than it may.
    pub(super) fn overflows(&self, rank: u32) -> bool {
        self.queues[rank as usize].len() > MAX_UNREAD
    }

    pub(super) fn clear(&mut self, rank: u32) {
        self.queues[rank as usize].clear();
    }

    /// Sends what goes; `true` if that was everything.
    pub(super) fn flush(&mut self, rank: u32, connection: &Connection) -> bool {
        let queue = &mut self.queues[rank as usize];
        let mut sent = 0;
        while sent < queue.len() {
            match sys::send(connection.fd(), &queue[sent..]) {
                Ok(count) => sent += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // Nobody will read it; the end of the rank is noticed elsewhere.
                Err(_) => sent = queue.len(),
            }
        }
        queue.drain(..sent);
        queue.is_empty()
    }
}

impl Sink for Outbox {
    fn send(&mut self, rank: u32, line: &str) {
        let queue = &mut self.queues[rank as usize];
        if queue.is_empty() {
            self.dirty.push(rank);
        }
        queue.extend_from_slice(line.as_bytes());
    }
}
