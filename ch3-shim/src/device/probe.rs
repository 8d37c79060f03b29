//! Looking at messages before they are received.

#![allow(unsafe_code)]

use netmod_core::{Segment, Time};

use super::blocking::Guard;
use super::{Comm, PROC_NULL, RawReq, Vci};
use crate::ch3::{MpiReq, Owned, Role, Unexpected};
use crate::error::Result;
use crate::status::Status;
use crate::tagmatch::{ANY_SOURCE, ANY_TAG, Envelope, Pattern};

/// A message that was matched by [`Vci::improbe`] and waits to be received.
///
/// It must be received. One that is dropped keeps its memory, and its sender the room that the
/// message takes, until the connection ends; a synchronous or long send of it never finishes. A
/// message that nobody wants is received into an empty buffer, and the error that it does not fit
/// ignored.
#[derive(Debug)]
#[must_use = "receive it: a matched message is lost to every other receive, and its room to its sender"]
pub struct Message {
    env: Envelope,
    /// `None` for a message of [`PROC_NULL`].
    body: Option<Unexpected>,
    /// Losses of its connection before it came.
    losses: u32,
}

impl Message {
    /// Its envelope and length.
    pub fn status(&self) -> Status {
        status_of(self.env, self.body.as_ref())
    }
}

/// The state of the queues when a probe found nothing.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pattern: Pattern,
    unexpected: u64,
    wants: u64,
}

fn status_of(env: Envelope, msg: Option<&Unexpected>) -> Status {
    let len = msg.map_or(0, |m| usize::try_from(m.len).unwrap_or(usize::MAX));
    Status { source: env.source(), tag: env.tag(), len, cancelled: false }
}

fn nobody() -> Envelope {
    Envelope::new(0, PROC_NULL, ANY_TAG)
}

impl Vci {
    fn look(&mut self, pattern: &Pattern) -> Option<Status> {
        self.ch3.queues.unexpected.peek_match(pattern).map(|(env, m)| status_of(env, Some(m)))
    }

    /// Returns true if a message has arrived that a receive with these arguments would match
    /// (`MPI_Iprobe`).
    ///
    /// # Errors
    /// A bad rank or tag; a netmod that failed; a source that is lost. With [`crate::ANY_SOURCE`]
    /// [`crate::Error::PendingFailed`], if a process had failed before the call and that was not
    /// acknowledged.
    pub fn iprobe(&mut self, source: i32, tag: i32, comm: Comm) -> Result<Option<Status>> {
        let Some(pattern) = self.sought(source, tag, comm)? else {
            return Ok(Some(status_of(nobody(), None)));
        };
        if let Some(s) = self.look(&pattern) {
            self.watching.found();
            self.flush();
            return Ok(Some(s));
        }
        self.look_again(&pattern)
    }

    /// Works like [`Vci::iprobe`] without progress, for a wait that makes that between two looks.
    ///
    /// # Errors
    /// As [`Vci::iprobe`].
    pub fn seek(&mut self, source: i32, tag: i32, comm: Comm) -> Result<Option<Status>> {
        let Some(pattern) = self.sought(source, tag, comm)? else {
            return Ok(Some(status_of(nobody(), None)));
        };
        self.find(&pattern, !self.ch3.failures.is_empty())
    }

    /// Works like [`Vci::improbe`] without progress, for a wait that makes that between two looks.
    ///
    /// # Errors
    /// As [`Vci::iprobe`].
    pub fn mseek(&mut self, source: i32, tag: i32, comm: Comm) -> Result<Option<Message>> {
        let Some(pattern) = self.sought(source, tag, comm)? else {
            return Ok(Some(Message { env: nobody(), body: None, losses: 0 }));
        };
        if let Some(message) = self.take_unexpected(&pattern) {
            return Ok(Some(message));
        }
        let is_said = !self.ch3.failures.is_empty();
        Ok(self.miss(&pattern, is_said)?.and_then(|_| self.take_unexpected(&pattern)))
    }

    /// Returns what a probe of these arguments looks for; nothing in messages of nobody.
    fn sought(&mut self, source: i32, tag: i32, comm: Comm) -> Result<Option<Pattern>> {
        self.check_origin()?;
        if source == PROC_NULL {
            return Ok(None);
        }
        self.incoming(source, tag, comm).map(Some)
    }

    /// Waits for such a message (`MPI_Probe`).
    ///
    /// # Errors
    /// As [`Vci::iprobe`].
    pub fn probe(&mut self, source: i32, tag: i32, comm: Comm) -> Result<Status> {
        loop {
            if let Some(s) = self.iprobe(source, tag, comm)? {
                return Ok(s);
            }
            let seen = self.seen(source, tag, comm)?;
            self.wait_until(Time::NEVER, |d| d.has_news(&seen))?;
        }
    }

    /// Returns the state that an empty probe has looked at.
    pub(super) fn seen(&self, source: i32, tag: i32, comm: Comm) -> Result<Seen> {
        let pattern = self.incoming(source, tag, comm)?;
        Ok(Seen { pattern, unexpected: self.ch3.stats.unexpected, wants: self.ch3.budget.wants })
    }

    /// Returns true if that probe should look again.
    pub(super) fn has_news(&self, seen: &Seen) -> bool {
        (self.ch3.stats.unexpected, self.ch3.budget.wants) != (seen.unexpected, seen.wants)
            || self.check_source(&seen.pattern).is_err()
    }

    /// Works like [`Vci::iprobe`]; the message is matched and can only be received with
    /// [`Vci::imrecv`] (`MPI_Improbe`).
    ///
    /// # Errors
    /// As [`Vci::iprobe`].
    pub fn improbe(&mut self, source: i32, tag: i32, comm: Comm) -> Result<Option<Message>> {
        let Some(pattern) = self.sought(source, tag, comm)? else {
            return Ok(Some(Message { env: nobody(), body: None, losses: 0 }));
        };
        if let Some(message) = self.take_unexpected(&pattern) {
            return Ok(Some(message));
        }
        Ok(self.look_again(&pattern)?.and_then(|_| self.take_unexpected(&pattern)))
    }

    /// Progress for a message that is not here yet, and another look.
    fn look_again(&mut self, pattern: &Pattern) -> Result<Option<Status>> {
        // After the first failure the layer above says whose messages come in which context.
        let is_said = !self.ch3.failures.is_empty();
        self.test_once(|_| false)?;
        self.find(pattern, is_said)
    }

    /// Looks for a message. `is_said`: the layer above has said whose messages come in the context.
    fn find(&mut self, pattern: &Pattern, is_said: bool) -> Result<Option<Status>> {
        if let Some(status) = self.look(pattern) {
            self.watching.found();
            return Ok(Some(status));
        }
        self.miss(pattern, is_said)
    }

    /// Handles an empty look: lends slots to senders that wait for some, and looks again. If there
    /// is still nothing, notes the pattern for [`super::watch`]. `is_said`: as in [`Vci::find`].
    ///
    /// # Errors
    /// A source that is lost.
    fn miss(&mut self, pattern: &Pattern, is_said: bool) -> Result<Option<Status>> {
        if self.ch3.budget.has_wanting() {
            let now = self.now;
            self.ch3.relieve_for(&mut self.engine.io(now), pattern);
            if let Some(status) = self.look(pattern) {
                self.watching.found();
                return Ok(Some(status));
            }
        }
        self.watching.seeks(*pattern);
        if is_said || pattern.source() != ANY_SOURCE {
            self.check_source(pattern)?;
        }
        Ok(None)
    }

    /// Works like [`Vci::improbe`], waiting (`MPI_Mprobe`).
    ///
    /// # Errors
    /// As [`Vci::probe`].
    pub fn mprobe(&mut self, source: i32, tag: i32, comm: Comm) -> Result<Message> {
        loop {
            if let Some(m) = self.improbe(source, tag, comm)? {
                return Ok(m);
            }
            self.probe(source, tag, comm)?;
        }
    }

    pub(super) fn take_unexpected(&mut self, pattern: &Pattern) -> Option<Message> {
        let (env, body) = self.ch3.queues.unexpected.take_match(pattern)?;
        self.watching.found();
        Some(Message { env, losses: self.ch3.losses(body.vc), body: Some(body) })
    }

    /// Starts to receive a matched message into `seg` (`MPI_Imrecv`).
    pub fn imrecv_raw(&mut self, seg: Segment, msg: Message) -> RawReq {
        // A wait for it says why it is nothing.
        if !self.origin.is_here() {
            return RawReq::NULL;
        }
        let Some(body) = msg.body else { return RawReq::DONE };
        let now = self.now;
        let req = self.ch3.reqs.make(&mut self.engine.core, None, seg, MpiReq::new(Role::Recv, msg.env));
        self.ch3.deliver_held(&mut self.engine.io(now), req, msg.env, body, msg.losses);
        RawReq(req)
    }

    /// Receives a matched message into `seg` without a request.
    ///
    /// # Errors
    /// The message itself if it was not complete when the probe matched, does not fit, is one of
    /// [`PROC_NULL`], or its sender waits for an answer: [`Vci::imrecv_raw`] serves it.
    pub fn mrecv_whole(
        &mut self,
        seg: &mut Segment,
        mut msg: Message,
    ) -> std::result::Result<Status, Message> {
        let status = msg.status();
        // In a forked child the wait for the request that `imrecv_raw` returns says what is wrong.
        let body = if self.origin.is_here() { msg.body.take() } else { None };
        let Some(body) = body else { return Err(msg) };
        let now = self.now;
        match self.ch3.copy_held(&mut self.engine.io(now), seg, body) {
            None => {
                self.flush();
                Ok(status)
            }
            body => Err(Message { body, ..msg }),
        }
    }

    /// Starts to receive a matched message into a buffer that the device keeps.
    pub fn imrecv(&mut self, mut buf: Vec<u8>, msg: Message) -> super::Request {
        // SAFETY: as in `Vci::irecv`.
        let seg = unsafe { Segment::contig(buf.as_mut_ptr(), buf.len()) };
        let raw = self.imrecv_raw(seg, msg);
        self.request(raw, Owned::Recv(buf))
    }

    /// Receives a matched message into `buf` (`MPI_Mrecv`). Bytes behind a shorter one stay as they
    /// are.
    ///
    /// # Errors
    /// A message that does not fit; a peer that is lost.
    pub fn mrecv(&mut self, buf: &mut [u8], msg: Message) -> Result<Status> {
        self.check_origin()?;
        // SAFETY: as in `Vci::recv`.
        let mut seg = unsafe { Segment::contig(buf.as_mut_ptr(), buf.len()) };
        match self.mrecv_whole(&mut seg, msg) {
            Ok(status) => Ok(status),
            Err(msg) => {
                let req = self.imrecv_raw(seg, msg);
                Guard { dev: self, req }.wait()
            }
        }
    }
}
