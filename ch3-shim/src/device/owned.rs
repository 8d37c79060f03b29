//! Requests that own their buffers: forgetting one leaks its memory and does no other harm.

#![allow(unsafe_code)]

use bytes::Bytes;
use netmod_core::{Segment, Time};

use super::{Comm, RawReq, Vci};
use crate::ch3::Owned;
use crate::error::Result;
use crate::pkt::Mode;
use crate::status::Status;

/// A send or receive under way whose buffer the device keeps.
///
/// Give it to [`Vci::wait`] or one of its kin, or lend it to them (`&mut`), which leaves a request that is
/// done with once it is finished. A dropped one finishes by itself.
#[derive(Debug)]
#[must_use = "wait for it, or the result is lost"]
pub struct Request {
    raw: RawReq,
}

impl Request {
    /// Its handle, to ask [`Vci::is_finished`] without making progress.
    pub fn raw(&self) -> RawReq {
        self.raw
    }

    pub(super) fn of(raw: RawReq) -> Request {
        Request { raw }
    }
}

/// A request that is given to a wait or a test, or lent to it.
///
/// It makes a difference for receives from any source after a failure ([`crate::Error::PendingFailed`]): one that
/// was lent stays posted and can be waited for again; one that was given is cancelled, since nobody has it
/// any more.
pub trait Waitable: sealed::Sealed {}

impl Waitable for Request {}
impl Waitable for &mut Request {}

mod sealed {
    use super::{RawReq, Request};

    pub trait Sealed {
        /// Whether the caller keeps it.
        const LENT: bool;
        fn handle(&self) -> RawReq;
        fn set_null(&mut self);
    }

    impl Sealed for Request {
        const LENT: bool = false;
        fn handle(&self) -> RawReq {
            self.raw
        }
        fn set_null(&mut self) {
            self.raw = RawReq::NULL;
        }
    }

    impl Sealed for &mut Request {
        const LENT: bool = true;
        fn handle(&self) -> RawReq {
            self.raw
        }
        fn set_null(&mut self) {
            self.raw = RawReq::NULL;
        }
    }
}

/// What came of a request.
#[derive(Debug, Default)]
pub struct Completion {
    /// Envelope and length.
    pub status: Status,
    /// The buffer of a receive, as it was given but for the `status.len` bytes at its start. Empty for
    /// sends.
    pub buffer: Vec<u8>,
}

fn handles(reqs: &[Request]) -> impl Iterator<Item = RawReq> + Clone {
    reqs.iter().map(|r| r.raw)
}

impl Vci {
    /// Starts to send `data`.
    ///
    /// # Errors
    /// A bad rank or tag; a peer that cannot be reached.
    pub fn isend(&mut self, data: impl Into<Bytes>, dest: i32, tag: i32, comm: Comm) -> Result<Request> {
        self.isend_mode(data.into(), dest, tag, comm, Mode::Standard)
    }

    /// As [`Vci::isend`], in a send mode.
    ///
    /// # Errors
    /// As [`Vci::isend`].
    pub fn isend_mode(
        &mut self,
        data: Bytes,
        dest: i32,
        tag: i32,
        comm: Comm,
        mode: Mode,
    ) -> Result<Request> {
        // SAFETY: the bytes are immutable and kept by the device until the request is used up, or, if
        // nobody asks for it, until the device ends; if the send was over at once nothing needs them any
        // more. However the device ends, its netmods come first: they deregister what peers read
        // (`Rma`), and only then are the queues dropped, which own the bytes.
        let seg = unsafe { Segment::contig(data.as_ptr().cast_mut(), data.len()) };
        let raw = self.isend_raw(seg, dest, tag, comm, mode)?;
        self.ch3.own(&self.engine.core, raw.0, Owned::Send(data));
        Ok(Request { raw })
    }

    /// Starts to receive up to `buf.len()` bytes into `buf`.
    ///
    /// # Errors
    /// A bad rank or tag; a peer whose connection is down.
    pub fn irecv(&mut self, mut buf: Vec<u8>, source: i32, tag: i32, comm: Comm) -> Result<Request> {
        // SAFETY: the heap memory of a Vec stays where it is when the Vec moves; the device keeps the
        // Vec, and nobody touches it, until the request is used up or the device ends. In every ending
        // the netmods come before the queues, which own the Vec: they deregister what peers write to, and
        // wait for who is writing.
        let seg = unsafe { Segment::contig(buf.as_mut_ptr(), buf.len()) };
        let raw = self.irecv_raw(seg, source, tag, comm)?;
        self.ch3.own(&self.engine.core, raw.0, Owned::Recv(buf));
        Ok(Request { raw })
    }

    pub(super) fn complete(&mut self, raw: RawReq) -> Result<Completion> {
        let (status, owned) = self.take(raw);
        let buffer = match owned {
            Owned::Recv(buf) => buf,
            Owned::Send(_) | Owned::Nothing => Vec::new(),
        };
        status.map(|status| Completion { status, buffer })
    }

    /// The result of a request that is settled.
    pub(super) fn settle<W: Waitable>(&mut self, mut req: W) -> Result<Completion> {
        let raw = req.handle();
        if !self.is_finished(raw)
            && let Some(e) = self.unsettle(raw)
        {
            if !W::LENT {
                self.reclaim(raw);
            }
            return Err(e);
        }
        req.set_null();
        self.complete(raw)
    }

    /// Waits for a request.
    ///
    /// # Errors
    /// Of the message: truncated, or its peer lost. For a receive from any source
    /// [`crate::Error::PendingFailed`]: if it was lent (`dev.wait(&mut req)`) it stays posted and can be waited
    /// for again, else it is cancelled.
    pub fn wait<W: Waitable>(&mut self, req: W) -> Result<Completion> {
        let raw = req.handle();
        self.wait_until(Time::NEVER, |d| d.is_settled(raw))?;
        self.settle(req)
    }

    /// One step of progress; then the result if the request is finished, else the request again.
    ///
    /// # Errors
    /// As [`Vci::wait`]; of a netmod.
    pub fn test<W: Waitable>(&mut self, req: W) -> Result<std::result::Result<Completion, W>> {
        let raw = req.handle();
        self.prod(|d| d.is_finished(raw))?;
        if self.is_settled(raw) { self.settle(req).map(Ok) } else { Ok(Err(req)) }
    }

    /// Waits for all requests; results in their order.
    ///
    /// # Errors
    /// The first failure among them; all are finished all the same, but for receives from any source that
    /// were lent and failed with [`crate::Error::PendingFailed`].
    pub fn wait_all<W: Waitable>(&mut self, reqs: impl IntoIterator<Item = W>) -> Result<Vec<Completion>> {
        let reqs: Vec<W> = reqs.into_iter().collect();
        // Of many requests the first ones are not looked at again and again.
        let mut first = 0;
        self.wait_until(Time::NEVER, |d| {
            let settled = |r: &W| d.is_settled(r.handle());
            while reqs.get(first).is_some_and(settled) {
                first += 1;
            }
            first == reqs.len() && reqs.iter().all(settled)
        })?;
        let results: Vec<Result<Completion>> = reqs.into_iter().map(|r| self.settle(r)).collect();
        results.into_iter().collect()
    }

    /// Waits until one of the requests is finished, and takes it out of the list. `None` if there is none to wait
    /// for: requests that a wait has used up already are passed over, and stay in the list.
    ///
    /// # Errors
    /// Of that message. [`crate::Error::PendingFailed`] if none is finished and one is a receive from any
    /// source that failures keep from finishing; it stays in the list.
    pub fn wait_any(&mut self, reqs: &mut Vec<Request>) -> Result<Option<(usize, Completion)>> {
        if handles(reqs).all(RawReq::is_null) {
            return Ok(None);
        }
        let mut which = None;
        self.wait_until(Time::NEVER, |d| {
            which = d.first_settled(handles(reqs));
            which.is_some()
        })?;
        let Some(i) = which else { return Ok(None) };
        let raw = reqs[i].raw;
        if !self.is_finished(raw)
            && let Some(e) = self.unsettle(raw)
        {
            return Err(e);
        }
        let _ = reqs.remove(i);
        Ok(Some((i, self.complete(raw)?)))
    }

    /// Waits until at least one request is finished; takes all finished ones out of the list. Nothing if there is
    /// none to wait for, see [`Vci::wait_any`].
    ///
    /// # Errors
    /// The first failure among them; if none is finished, [`crate::Error::PendingFailed`] as for
    /// [`Vci::wait_any`].
    pub fn wait_some(&mut self, reqs: &mut Vec<Request>) -> Result<Vec<Completion>> {
        if handles(reqs).all(RawReq::is_null) {
            return Ok(Vec::new());
        }
        let mut which = None;
        self.wait_until(Time::NEVER, |d| {
            which = d.first_settled(handles(reqs));
            which.is_some()
        })?;
        if let Some(raw) = which.map(|i| reqs[i].raw).filter(|r| !self.is_finished(*r))
            && let Some(e) = self.unsettle(raw)
        {
            return Err(e);
        }
        let finished: Vec<RawReq> =
            reqs.extract_if(.., |r| !r.raw.is_null() && self.is_finished(r.raw)).map(|r| r.raw).collect();
        let results: Vec<Result<Completion>> = finished.into_iter().map(|r| self.complete(r)).collect();
        results.into_iter().collect()
    }

    /// One step of progress; then the results if all requests are finished, else the requests again.
    ///
    /// # Errors
    /// The first failure among them. Receives from any source that fail with
    /// [`crate::Error::PendingFailed`] are cancelled.
    pub fn test_all(
        &mut self,
        reqs: Vec<Request>,
    ) -> Result<std::result::Result<Vec<Completion>, Vec<Request>>> {
        self.prod(|_| false)?;
        if reqs.iter().all(|r| self.is_settled(r.raw)) { self.wait_all(reqs).map(Ok) } else { Ok(Err(reqs)) }
    }

    /// Asks for a request to be cancelled; wait for it to learn whether it was.
    pub fn cancel(&mut self, req: &Request) {
        self.cancel_raw(req.raw);
    }
}
