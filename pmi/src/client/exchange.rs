//! Requests and replies over the connection: bounded messages, a time limit for replies, and no
//! recovery after a failure.

use crate::wire::frame::LENGTH;
use crate::wire::{Line, LineBuffer, quote};
use crate::{PmiError, sys, tell};
use forks::Origin;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

const REPLY_TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(super) struct Exchange {
    fd: OwnedFd,
    buffer: LineBuffer,
    /// True if messages are PMI-2 frames instead of lines.
    frames: bool,
    timeout: Duration,
    /// The failure after which requests and replies can no longer be matched.
    failed: Option<String>,
    /// The process that connected. The launcher would take a forked child's requests for its
    /// parent's.
    origin: Origin,
}

impl AsRawFd for Exchange {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl Exchange {
    pub(super) fn new(fd: OwnedFd) -> Exchange {
        Exchange {
            fd,
            buffer: LineBuffer::default(),
            frames: false,
            timeout: REPLY_TIMEOUT,
            failed: None,
            origin: Origin::here(),
        }
    }

    pub(super) fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Switches to PMI-2 frames, in both directions.
    pub(super) fn use_frames(&mut self) {
        self.frames = true;
    }

    pub(super) fn check_origin(&self, call: &'static str) -> Result<(), PmiError> {
        if self.origin.is_here() { Ok(()) } else { Err(PmiError::Forked { call }) }
    }

    fn fail(&mut self, error: PmiError) -> PmiError {
        self.failed = Some(error.to_string());
        // A closed connection stays readable, and others wait for its descriptor.
        if let Err(error) = sys::silence(&self.fd) {
            tracing::warn!(%error, "the descriptor of a failed PMI connection stays readable");
        }
        error
    }

    /// Returns the error for a malformed line; the connection is unusable from now on.
    pub(super) fn malformed(&mut self, doing: &'static str, line: &[u8], why: impl ToString) -> PmiError {
        self.fail(PmiError::Malformed { doing, line: quote(line), why: why.to_string() })
    }

    /// Sends a message. A PMI-1 message includes its newline; a PMI-2 message gets its length here.
    pub(super) fn send(&mut self, doing: &'static str, message: &str) -> Result<(), PmiError> {
        self.check_origin(doing)?;
        if let Some(why) = &self.failed {
            return Err(PmiError::State {
                call: "a request to the launcher",
                why: format!("the connection failed before: {why}"),
            });
        }
        let deadline = Instant::now() + self.timeout;
        let framed = self.frames.then(|| format!("{:width$}{message}", message.len(), width = LENGTH));
        let mut rest = framed.as_deref().unwrap_or(message).as_bytes();
        while !rest.is_empty() {
            match sys::send(self.fd.as_fd(), rest) {
                Ok(sent) => rest = &rest[sent..],
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(doing, true, Some(deadline))?;
                }
                Err(e) if is_closed(&e) => return Err(self.fail(PmiError::Closed { doing })),
                Err(source) => return Err(self.fail(PmiError::Io { doing, source })),
            }
        }
        Ok(())
    }

    fn wait(&mut self, doing: &'static str, write: bool, deadline: Option<Instant>) -> Result<(), PmiError> {
        // Without a time limit, the reply depends on other processes.
        if let Some(deadline) = deadline {
            let patience = (Instant::now() + tell::PATIENCE).min(deadline);
            match sys::wait_fd(self.fd.as_fd(), write, Some(patience)) {
                Ok(true) => return Ok(()),
                Ok(false) if patience < deadline => tell::waits(&doing),
                Ok(false) => {}
                Err(source) => return Err(self.fail(PmiError::Io { doing, source })),
            }
        }
        match sys::wait_fd(self.fd.as_fd(), write, deadline) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let after = self.timeout;
                Err(self.fail(PmiError::Timeout { doing, after }))
            }
            Err(source) => Err(self.fail(PmiError::Io { doing, source })),
        }
    }

    /// Returns a whole message if there is one; never waits.
    pub(super) fn try_receive(&mut self, doing: &'static str) -> Result<Option<Vec<u8>>, PmiError> {
        self.check_origin(doing)?;
        if let Some(why) = &self.failed {
            return Err(PmiError::State {
                call: "waiting for the launcher",
                why: format!("the connection failed before: {why}"),
            });
        }
        loop {
            let next = if self.frames { self.buffer.next_frame() } else { self.buffer.next_line() };
            match next {
                Ok(Some(line)) => return Ok(Some(line.to_vec())),
                Ok(None) => {}
                Err(why) => {
                    let begin = self.buffer.rest().to_vec();
                    return Err(self.malformed(doing, &begin, why));
                }
            }
            let mut bytes = [0; 4096];
            match sys::recv(self.fd.as_fd(), &mut bytes) {
                Ok(0) => return Err(self.fail(PmiError::Closed { doing })),
                Ok(received) => self.buffer.extend(&bytes[..received]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(e) if is_closed(&e) => return Err(self.fail(PmiError::Closed { doing })),
                Err(source) => return Err(self.fail(PmiError::Io { doing, source })),
            }
        }
    }

    /// Waits until a message can be received, within the time limit of a reply.
    pub(super) fn await_message(&mut self, doing: &'static str) -> Result<(), PmiError> {
        let deadline = Instant::now() + self.timeout;
        self.wait(doing, false, Some(deadline))
    }

    /// Waits until a message can be received, without a limit.
    pub(super) fn await_message_for_ever(&mut self, doing: &'static str) -> Result<(), PmiError> {
        self.wait(doing, false, None)
    }

    pub(super) fn receive(&mut self, doing: &'static str) -> Result<Vec<u8>, PmiError> {
        let deadline = Instant::now() + self.timeout;
        self.receive_until(doing, Some(deadline))
    }

    fn receive_until(&mut self, doing: &'static str, deadline: Option<Instant>) -> Result<Vec<u8>, PmiError> {
        loop {
            if let Some(line) = self.try_receive(doing)? {
                return Ok(line);
            }
            self.wait(doing, false, deadline)?;
        }
    }

    /// Sends a request and receives its reply, which must say `cmd=expected`.
    pub(super) fn ask(
        &mut self,
        doing: &'static str,
        request: &str,
        expected: &str,
    ) -> Result<Vec<u8>, PmiError> {
        self.send(doing, request)?;
        let text = self.receive(doing)?;
        self.expect(doing, &text, expected)?;
        Ok(text)
    }

    pub(super) fn expect(
        &mut self,
        doing: &'static str,
        text: &[u8],
        expected: &str,
    ) -> Result<(), PmiError> {
        if self.parse(doing, text)?.cmd() == expected {
            return Ok(());
        }
        Err(self.malformed(doing, text, format!("cmd={expected} is due")))
    }

    pub(super) fn parse<'a>(&mut self, doing: &'static str, text: &'a [u8]) -> Result<Line<'a>, PmiError> {
        let parsed = if self.frames { Line::parse_frame(text) } else { Line::parse(text) };
        parsed.map_err(|why| self.malformed(doing, text, why))
    }

    /// Requires `rc=0`, or no `rc` in the replies where Hydra 4 omits it.
    pub(super) fn accept_if_told(&mut self, doing: &'static str, text: &[u8]) -> Result<(), PmiError> {
        match self.parse(doing, text)?.get("rc") {
            None | Some("0") => Ok(()),
            Some(_) => Err(PmiError::Refused { doing, line: quote(text) }),
        }
    }

    /// Requires `rc=0`, except in Hydra 4's `initack`, which has none.
    pub(super) fn accept(&mut self, doing: &'static str, text: &[u8]) -> Result<(), PmiError> {
        let line = self.parse(doing, text)?;
        if line.get("rc").is_none() && line.cmd() != "initack" {
            return Err(self.malformed(doing, text, "there is no rc"));
        }
        self.accept_if_told(doing, text)
    }

    pub(super) fn wait_closed(&mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let mut bytes = [0; 1024];
        while let Ok(true) = sys::wait_fd(self.fd.as_fd(), false, Some(deadline)) {
            match sys::recv(self.fd.as_fd(), &mut bytes) {
                Ok(0) => return,
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}
