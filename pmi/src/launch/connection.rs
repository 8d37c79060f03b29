//! A rank's PMI connection at the launcher: lines in, buffered bytes out, never blocking.

use crate::server::Sink;
use crate::sys;
use crate::wire::{LineBuffer, LineError};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most bytes of replies that a client may leave unread.
const MAX_UNREAD: usize = 1 << 20;

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    /// Some bytes; there may be more.
    Some,
    /// Nothing yet.
    Nothing,
    /// The peer has closed it, or it has failed, which is the same to the server.
    Closed,
}

#[derive(Debug)]
pub(super) struct Connection {
    fd: OwnedFd,
    lines: LineBuffer,
    /// True if the connection is polled for room to write.
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

/// Data to send to each rank.
#[derive(Debug)]
pub(super) struct Outbox {
    queues: Vec<Vec<u8>>,
    /// Ranks with new data to send.
    dirty: Vec<u32>,
}

impl Outbox {
    pub(super) fn new(ranks: u32) -> Outbox {
        Outbox { queues: (0..ranks).map(|_| Vec::new()).collect(), dirty: Vec::new() }
    }

    pub(super) fn take_dirty(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.dirty)
    }

    /// Returns true if the rank leaves more unread than allowed.
    pub(super) fn overflows(&self, rank: u32) -> bool {
        self.queues[rank as usize].len() > MAX_UNREAD
    }

    pub(super) fn clear(&mut self, rank: u32) {
        self.queues[rank as usize].clear();
    }

    /// Sends as much as possible; returns true if that was everything.
    pub(super) fn flush(&mut self, rank: u32, connection: &Connection) -> bool {
        let queue = &mut self.queues[rank as usize];
        let mut sent = 0;
        while sent < queue.len() {
            match sys::send(connection.fd(), &queue[sent..]) {
                Ok(count) => sent += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // Nobody will read it; the end of the rank is detected elsewhere.
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
