//! Requests that own their buffers: forgetting one leaks its memory and does no other harm.

#![allow(unsafe_code)]

use std::sync::Arc;

use bytes::Bytes;
use netmod_core::{Segment, Time};

use super::dropped::Dropped;
use super::failed::{Completion, Ended, Failed, SomeFailed};
use super::{Comm, RawReq, Vci};
use crate::ch3::Owned;
use crate::error::Result;
use crate::pkt::Mode;

/// A send or receive under way whose buffer the device keeps.
///
/// Give it to [`Vci::wait`] or one of its kin, or lend it to them (`&mut`), which leaves a request that is
/// done with once it is finished. A dropped one finishes by itself: what it holds is freed then.
#[derive(Debug)]
#[must_use = "wait for it, or the result is lost"]
pub struct Request {
    raw: RawReq,
    /// The buffer of a receive that was over at once, which the device does not keep.
    kept: Vec<u8>,
    /// The device's list of dropped requests; `None` for one that was over at once.
    dropped: Option<Arc<Dropped>>,
}

impl Request {
    /// Its handle, to ask [`Vci::is_finished`] without making progress.
    pub fn raw(&self) -> RawReq {
        self.raw
    }

    /// A request that is over, with a buffer that its wait gives back.
    pub(super) fn nothing(kept: Vec<u8>) -> Request {
        Request { raw: RawReq::NULL, kept, dropped: None }
    }

    /// The result, if there is nothing to wait for.
    pub(super) fn over(&mut self) -> Option<Completion> {
        let status = self.raw.over()?;
        Some(Completion { status, buffer: self.end() })
    }

    fn end(&mut self) -> Vec<u8> {
        self.raw = RawReq::NULL;
        self.dropped = None;
        std::mem::take(&mut self.kept)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(dropped) = self.dropped.take().filter(|_| !self.raw.is_over()) {
            dropped.leave(self.raw);
        }
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
        /// Makes it a handle of nothing and returns the buffer that it keeps.
        fn end(&mut self) -> Vec<u8>;
    }

    impl Sealed for Request {
        const LENT: bool = false;
        fn handle(&self) -> RawReq {
            self.raw
        }
        fn end(&mut self) -> Vec<u8> {
            Request::end(self)
        }
    }

    impl Sealed for &mut Request {
        const LENT: bool = true;
        fn handle(&self) -> RawReq {
            self.raw
        }
        fn end(&mut self) -> Vec<u8> {
            Request::end(self)
        }
    }
}

fn handles(reqs: &[Request]) -> impl Iterator<Item = RawReq> + Clone {
    reqs.iter().map(|r| r.raw)
}

fn buffer_of(owned: Owned) -> Vec<u8> {
    match owned {
        Owned::Recv(buf) => buf,
        Owned::Send(_) | Owned::Nothing => Vec::new(),
    }
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
        self.free_dropped();
        // SAFETY: the bytes are immutable and kept by the device until the request is used up, or,
        // if nobody asks for it, until it is finished or the device ends; if the send was over at
        // once nothing needs them any more. However the device ends, its netmods come first: they
        // deregister what peers read (`Rma`), and only then are the queues dropped, which own the
        // bytes.
        let seg = unsafe { Segment::contig(data.as_ptr().cast_mut(), data.len()) };
        let raw = self.isend_raw(seg, dest, tag, comm, mode)?;
        Ok(self.request(raw, Owned::Send(data)))
    }

    /// Starts to receive up to `buf.len()` bytes into `buf`.
    ///
    /// # Errors
    /// A bad rank or tag; a peer whose connection is down. The buffer is given back with it.
    pub fn irecv(
        &mut self,
        mut buf: Vec<u8>,
        source: i32,
        tag: i32,
        comm: Comm,
    ) -> std::result::Result<Request, Box<Failed>> {
        self.free_dropped();
        // SAFETY: the heap memory of a Vec stays where it is when the Vec moves; the device keeps
        // the Vec, and nobody touches it, until the request is used up, or finished when nobody
        // asks for it, or the device ends. In every ending the netmods come before the queues,
        // which own the Vec: they deregister what peers write to, and wait for who is writing.
        let seg = unsafe { Segment::contig(buf.as_mut_ptr(), buf.len()) };
        match self.irecv_raw(seg, source, tag, comm) {
            Ok(raw) => Ok(self.request(raw, Owned::Recv(buf))),
            Err(e) => Err(Failed::keeping(e, buf)),
        }
    }

    /// The request of a handle, with memory that the device keeps for it, unless it was over at
    /// once.
    pub(super) fn request(&mut self, raw: RawReq, owned: Owned) -> Request {
        if raw.is_over() {
            return Request { raw, kept: buffer_of(owned), dropped: None };
        }
        self.ch3.own(&self.engine.core, raw.0, owned);
        Request { raw, kept: Vec::new(), dropped: Some(Arc::clone(&self.dropped)) }
    }

    /// The result of a request that is settled.
    pub(super) fn settle<W: Waitable>(&mut self, mut req: W) -> Ended {
        let raw = req.handle();
        if !self.is_finished(raw)
            && let Some(e) = self.unsettle(raw)
        {
            if W::LENT {
                return Err(Failed::call(e));
            }
            let _ = req.end();
            return Err(Failed::keeping(e, buffer_of(self.reclaim(raw))));
        }
        let kept = req.end();
        if let Some(status) = raw.over() {
            return Ok(Completion { status, buffer: kept });
        }
        let (status, result, owned) = self.take_whole(raw);
        let buffer = buffer_of(owned);
        match result {
            Ok(()) => Ok(Completion { status, buffer }),
            Err(error) => Err(Box::new(Failed { error, status, buffer, place: None })),
        }
    }

    /// Waits for a request.
    ///
    /// # Errors
    /// Of the message: truncated, or its peer lost; a receive's buffer is given back with it. For a
    /// receive from any source [`crate::Error::PendingFailed`]: if it was lent
    /// (`dev.wait(&mut req)`) it stays posted and can be waited for again, else it is cancelled.
    pub fn wait<W: Waitable>(&mut self, req: W) -> Ended {
        let raw = req.handle();
        self.wait_until(Time::NEVER, |d| d.is_settled(raw))?;
        self.settle(req)
    }

    /// One step of progress; then the result if the request is finished, else the request again.
    ///
    /// # Errors
    /// As [`Vci::wait`]; of a netmod.
    pub fn test<W: Waitable>(
        &mut self,
        req: W,
    ) -> std::result::Result<std::result::Result<Completion, W>, Box<Failed>> {
        let raw = req.handle();
        self.prod(|d| d.is_finished(raw))?;
        if self.is_settled(raw) { self.settle(req).map(Ok) } else { Ok(Err(req)) }
    }

    /// Waits for all requests; results in their order.
    ///
    /// # Errors
    /// If some have failed: all results, with the buffers. All are finished all the same, but for
    /// receives from any source that were lent and failed with [`crate::Error::PendingFailed`]. If
    /// a netmod fails as a whole, the result of each request that is not finished is that error.
    pub fn wait_all<W: Waitable>(
        &mut self,
        reqs: impl IntoIterator<Item = W>,
    ) -> std::result::Result<Vec<Completion>, SomeFailed> {
        let reqs: Vec<W> = reqs.into_iter().collect();
        // Of many requests the first ones are not looked at again and again.
        let mut first = 0;
        let waited = self.wait_until(Time::NEVER, |d| {
            let settled = |r: &W| d.is_settled(r.handle());
            while reqs.get(first).is_some_and(settled) {
                first += 1;
            }
            first == reqs.len() && reqs.iter().all(settled)
        });
        let mut end = |(place, req): (usize, W)| match &waited {
            Err(e) if !self.origin.is_here() || !self.is_settled(req.handle()) => {
                Err(Failed::call(e.clone()).at(place))
            }
            _ => self.settle(req).map_err(|failed| failed.at(place)),
        };
        SomeFailed::unless_all(reqs.into_iter().enumerate().map(&mut end).collect())
    }

    /// Waits until one of the requests is finished, and takes it out of the list. `None` if there is none to wait
    /// for: requests that a wait has used up already are passed over, and stay in the list.
    ///
    /// # Errors
    /// Of that message, with its index in the list, from which it is taken.
    /// [`crate::Error::PendingFailed`] if none is finished and one is a receive from any source
    /// that failures keep from finishing; it stays in the list.
    pub fn wait_any(
        &mut self,
        reqs: &mut Vec<Request>,
    ) -> std::result::Result<Option<(usize, Completion)>, Box<Failed>> {
        if handles(reqs).all(RawReq::is_null) {
            return Ok(None);
        }
        let mut which = None;
        self.wait_until(Time::NEVER, |d| {
            which = d.first_settled(handles(reqs));
            which.is_some()
        })?;
        let Some(i) = which else { return Ok(None) };
        let done = self.settle(&mut reqs[i]);
        if reqs[i].raw.is_null() {
            let _ = reqs.remove(i);
        }
        done.map(|done| Some((i, done))).map_err(|failed| failed.at(i))
    }

    /// Waits until at least one request is finished; takes all finished ones out of the list. Nothing if there is
    /// none to wait for, see [`Vci::wait_any`].
    ///
    /// # Errors
    /// If some of them have failed: the results of all that were taken out of the list, with the
    /// buffers. If none is finished, [`crate::Error::PendingFailed`] as for [`Vci::wait_any`].
    pub fn wait_some(&mut self, reqs: &mut Vec<Request>) -> std::result::Result<Vec<Completion>, SomeFailed> {
        if handles(reqs).all(RawReq::is_null) {
            return Ok(Vec::new());
        }
        let mut which = None;
        self.wait_until(Time::NEVER, |d| {
            which = d.first_settled(handles(reqs));
            which.is_some()
        })?;
        let (mut results, mut places) = (Vec::new(), 0..);
        // One that failures keep from finishing counts if there is no other.
        let pending = which.filter(|i| !self.is_finished(reqs[*i].raw));
        reqs.retain_mut(|r| {
            let place = places.next().unwrap_or_default();
            if !r.raw.is_null() && (self.is_finished(r.raw) || pending == Some(place)) {
                results.push(self.settle(&mut *r).map_err(|failed| failed.at(place)));
                return !r.raw.is_null();
            }
            true
        });
        SomeFailed::unless_all(results)
    }

    /// One step of progress; then the results if all requests are finished, else the requests again.
    ///
    /// # Errors
    /// As [`Vci::wait_all`]. Receives from any source that fail with
    /// [`crate::Error::PendingFailed`] are cancelled.
    pub fn test_all(
        &mut self,
        reqs: Vec<Request>,
    ) -> std::result::Result<std::result::Result<Vec<Completion>, Vec<Request>>, SomeFailed> {
        self.prod(|_| false)?;
        if reqs.iter().all(|r| self.is_settled(r.raw)) { self.wait_all(reqs).map(Ok) } else { Ok(Err(reqs)) }
    }

    /// Asks for a request to be cancelled; wait for it to learn whether it was.
    pub fn cancel(&mut self, req: &Request) {
        self.cancel_raw(req.raw);
    }
}
