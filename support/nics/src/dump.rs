//! Netlink dumps: lists of all objects of a kind, in many messages, repeated if the kernel was
//! interrupted.

use std::io;

use crate::kernel::Channel;
use crate::wire::{self, Message};

/// A complete dump, or the best of several attempts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Dump<T> {
    /// The objects that could be read.
    pub(crate) items: Vec<T>,
    /// Number of objects that could not be read.
    pub(crate) unreadable: usize,
    /// True if objects may be missing or listed twice: each attempt was interrupted or lost
    /// messages.
    pub(crate) incomplete: bool,
}

/// Attempts at a dump that is interrupted or loses messages.
pub(crate) const ATTEMPTS: u32 = 8;

/// A requester of dumps.
#[derive(Debug)]
pub(crate) struct Dumper<'a, C> {
    channel: &'a mut C,
    sequence: u32,
    buffer: Vec<u8>,
}

impl<'a, C: Channel> Dumper<'a, C> {
    /// Creates a dumper on a socket of its own, where other answers are skipped.
    pub(crate) fn new(channel: &'a mut C) -> Dumper<'a, C> {
        // The kernel fills up to 32 KiB at once if the buffer has room.
        Dumper { channel, sequence: 0, buffer: vec![0; 32 << 10] }
    }

    /// Creates a dumper on a shared socket whose last request had this number.
    pub(crate) fn after(channel: &'a mut C, sequence: u32) -> Dumper<'a, C> {
        Dumper { sequence, ..Dumper::new(channel) }
    }

    /// Returns the number of the last request.
    pub(crate) fn sequence(&self) -> u32 {
        self.sequence
    }

    /// Requests all objects of a kind.
    ///
    /// `kind` and `fixed` are the request's, `build` appends its attributes, `answer` is the kind
    /// of messages that `parse` reads.
    ///
    /// # Errors
    ///
    /// Fails if the kernel refuses or does not answer.
    pub(crate) fn dump<T>(
        &mut self,
        kind: u16,
        fixed: &[u8],
        build: impl Fn(wire::Request, &mut Vec<u8>),
        answer: u16,
        parse: impl Fn(&[u8]) -> Option<T>,
    ) -> io::Result<Dump<T>> {
        let mut best: Option<Dump<T>> = None;
        for _ in 0..ATTEMPTS {
            self.sequence = self.sequence.wrapping_add(1);
            let mut request = Vec::new();
            let head = wire::request(&mut request, kind, libc::NLM_F_DUMP, self.sequence, fixed);
            build(head, &mut request);
            self.channel.send(&request)?;
            let got = self.read(answer, &parse)?;
            if !got.incomplete {
                return Ok(got);
            }
            if best.as_ref().is_none_or(|b| b.items.len() <= got.items.len()) {
                best = Some(got);
            }
        }
        best.ok_or_else(|| io::ErrorKind::TimedOut.into())
    }

    /// Reads up to the message that ends the dump, even if messages are lost: until then the kernel
    /// starts no other dump.
    fn read<T>(&mut self, answer: u16, parse: &impl Fn(&[u8]) -> Option<T>) -> io::Result<Dump<T>> {
        let mut dump = Dump { items: Vec::new(), unreadable: 0, incomplete: false };
        loop {
            let len = match self.channel.receive(&mut self.buffer, true) {
                Ok(len) => len,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {
                    dump.incomplete = true;
                    continue;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let text = "netlink does not end a list that was asked for";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                Err(e) => return Err(e),
            };
            if len > self.buffer.len() {
                // The rest of the datagram is lost.
                dump.incomplete = true;
            }
            for message in wire::messages(&self.buffer[..len.min(self.buffer.len())]) {
                let Ok(message) = message else {
                    dump.incomplete = true;
                    break;
                };
                if message.sequence != self.sequence {
                    continue;
                }
                if i32::from(message.flags) & libc::NLM_F_DUMP_INTR != 0 {
                    dump.incomplete = true;
                }
                if ends(&message)? {
                    return Ok(dump);
                }
                if message.kind == answer {
                    match parse(message.payload) {
                        Some(item) => dump.items.push(item),
                        None => dump.unreadable += 1,
                    }
                }
            }
            if len > self.buffer.len() {
                // Bounded, although the kernel reports only lengths that it has.
                self.buffer.resize(len.min(1 << 24).next_power_of_two(), 0);
            }
        }
    }
}

/// Returns true if the message is the last one of a dump.
fn ends(message: &Message<'_>) -> io::Result<bool> {
    let done = message.kind == libc::NLMSG_DONE as u16;
    if !done && message.kind != libc::NLMSG_ERROR as u16 {
        return Ok(false);
    }
    match message.error() {
        0 => Ok(done),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}
