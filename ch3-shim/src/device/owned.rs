//! Requests that own their buffers: forgetting one leaks its memory and does no other harm.

#![allow(unsafe_code)]

use std::sync::Arc;

use bytes::Bytes;
use netmod_core::{Segment, Time};

use super::dropped::Dropped;
use super::failed::{Completion, Ended, Failed, SomeFailed};
use super::{Comm, RawReq, Vci};
use crate::ch3::Owned;
use crate::error::{Error, Result};
use crate::pkt::Mode;

/// A send or receive under way whose buffer the device keeps.
///
/// Give it to [`Vci::wait`] or one of its kin, or lend it to them (`&mut`), which leaves a request
/// that is done with once it is finished. A dropped one finishes by itself: what it holds is freed
/// then.
///
/// A call that fails as a whole ([`crate::Error::Netmod`]) ends the requests that it was given:
/// each has that error as its result, with its buffer or data. Those that it was lent go on.
#[derive(Debug)]
#[must_use = "wait for it, or the result is lost"]
pub struct Request {
    raw: RawReq,
    /// The memory that the device does not keep: the buffer of a receive that was over at once, the
    /// data of a send that was copied.
    kept: Owned,
    /// The device's list of dropped requests; `None` for one that was over at once.
    dropped: Option<Arc<Dropped>>,
}

impl Request {
    /// Its handle, to ask [`Vci::is_finished`] without making progress.
    pub fn raw(&self) -> RawReq {
        self.raw
    }

    /// A request that is over, with memory that its wait gives back.
    pub(super) fn nothing(kept: Owned) -> Request {
        Request { raw: RawReq::NULL, kept, dropped: None }
    }

    /// The result, if there is nothing to wait for.
    pub(super) fn over(&mut self) -> Option<Completion> {
        let status = self.raw.over()?;
        Some(Completion { status, buffer: buffer_of(self.end()) })
    }

    /// Makes it a request of nothing, and returns the memory that it keeps.
    pub(super) fn end(&mut self) -> Owned {
        self.raw = RawReq::NULL;
        self.dropped = None;
        std::mem::take(&mut self.kept)
    }

    /// Takes the request out, and leaves one of nothing.
    pub(super) fn take(&mut self) -> Request {
        std::mem::replace(self, Request::nothing(Owned::Nothing))
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
/// It makes a difference for receives from any source after a failure
/// ([`crate::Error::PendingFailed`]): one that was lent stays posted and can be waited for again;
/// one that was given is cancelled, since nobody has it any more.
pub trait Waitable: sealed::Sealed {}

impl Waitable for Request {}
impl Waitable for &mut Request {}

mod sealed {
    use super::{RawReq, Request};

    pub trait Sealed {
        /// True if the caller keeps it.
        const LENT: bool;
        fn handle(&self) -> RawReq;
        /// The request itself.
        fn request(&mut self) -> &mut Request;
    }

    impl Sealed for Request {
        const LENT: bool = false;
        fn handle(&self) -> RawReq {
            self.raw
        }
        fn request(&mut self) -> &mut Request {
            self
        }
    }

    impl Sealed for &mut Request {
        const LENT: bool = true;
        fn handle(&self) -> RawReq {
            self.raw
        }
        fn request(&mut self) -> &mut Request {
            self
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
    /// A bad rank or tag; a peer that cannot be reached. The data is given back with it.
    pub fn isend(
        &mut self,
        data: impl Into<Bytes>,
        dest: i32,
        tag: i32,
        comm: Comm,
    ) -> std::result::Result<Request, Box<Failed>> {
        self.isend_mode(data.into(), dest, tag, comm, Mode::Standard)
    }

    /// Works like [`Vci::isend`], in a send mode.
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
    ) -> std::result::Result<Request, Box<Failed>> {
        self.free_dropped();
        // SAFETY: the bytes are immutable and kept by the device until the request is used up, or,
        // if nobody asks for it, until it is finished or the device ends; if the send was over at
        // once nothing needs them any more. However the device ends, its netmods come first: they
        // deregister what peers read (`Rma`), and only then are the queues dropped, which own the
        // bytes.
        let seg = unsafe { Segment::contig(data.as_ptr().cast_mut(), data.len()) };
        let raw = self.isend_raw(seg, dest, tag, comm, mode);
        self.started(raw, Owned::Send(data))
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
        let raw = self.irecv_raw(seg, source, tag, comm);
        self.started(raw, Owned::Recv(buf))
    }

    /// The request that was started with this memory, or its failure with the memory.
    fn started(&mut self, raw: Result<RawReq>, owned: Owned) -> std::result::Result<Request, Box<Failed>> {
        match raw {
            Ok(raw) => Ok(self.request(raw, owned)),
            Err(e) => Err(Failed::keeping(e, owned)),
        }
    }

    /// The request of a handle, with memory that the device keeps for it as long as the handle
    /// needs it.
    pub(super) fn request(&mut self, raw: RawReq, owned: Owned) -> Request {
        if raw.is_over() {
            return Request { raw, kept: owned, dropped: None };
        }
        let kept = self.ch3.reqs.own(&self.engine.core, raw.0, owned);
        Request { raw, kept, dropped: Some(Arc::clone(&self.dropped)) }
    }

    /// The result of a request that is settled.
    pub(super) fn settle<W: Waitable>(&mut self, mut req: W) -> Ended {
        let raw = req.handle();
        if !self.is_finished(raw)
            && let Some(e) = self.unsettle(raw)
        {
            return self.give_up(req, e);
        }
        let kept = req.request().end();
        if let Some(status) = raw.over() {
            return Ok(Completion { status, buffer: buffer_of(kept) });
        }
        self.take_owned(raw, kept, None)
    }

    /// The result of a request whose call has failed as a whole: its own if it is settled, else the
    /// call's. Unless it was lent it is over then.
    #[cold]
    pub(super) fn fail<W: Waitable>(&mut self, req: W, error: Error) -> Ended {
        if self.origin.is_here() && self.is_settled(req.handle()) {
            self.settle(req)
        } else {
            self.give_up(req, error)
        }
    }

    /// Ends a request that is not finished, and returns its memory with the error; one that was
    /// lent goes on.
    #[cold]
    fn give_up<W: Waitable>(&mut self, mut req: W, error: Error) -> Ended {
        if W::LENT {
            return Err(Failed::call(error));
        }
        let (raw, kept) = (req.handle(), req.request().end());
        // A forked child's copy of the device has memory that nobody moves.
        if raw.is_over() || !self.origin.is_here() {
            return Err(Failed::keeping(error, kept));
        }
        self.end_request(raw);
        self.take_owned(raw, kept, Some(error))
    }

    /// Uses a finished request up; one that was cancelled has failed with the error `instead`, if
    /// there is one.
    fn take_owned(&mut self, raw: RawReq, kept: Owned, instead: Option<Error>) -> Ended {
        let (status, result, owned) = self.take_whole(raw);
        let owned = if matches!(owned, Owned::Nothing) { kept } else { owned };
        match (result, instead) {
            (_, Some(error)) if status.cancelled => Err(Failed::of(error, status, owned)),
            (Ok(()), _) => Ok(Completion { status, buffer: buffer_of(owned) }),
            (Err(error), _) => Err(Failed::of(error, status, owned)),
        }
    }

    /// Waits for a request.
    ///
    /// # Errors
    /// Of the message: truncated, or its peer lost; a receive's buffer and a send's data are given
    /// back with it. For a receive from any source [`crate::Error::PendingFailed`]: if it was lent
    /// (`dev.wait(&mut req)`) it stays posted and can be waited for again, else it is cancelled.
    pub fn wait<W: Waitable>(&mut self, req: W) -> Ended {
        let raw = req.handle();
        match self.wait_until(Time::NEVER, |d| d.is_settled(raw)) {
            Ok(()) => self.settle(req),
            Err(e) => self.fail(req, e),
        }
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
        match self.test_once(|d| d.is_finished(raw)) {
            Err(e) => self.fail(req, e).map(Ok),
            Ok(()) if self.is_settled(raw) => self.settle(req).map(Ok),
            Ok(()) => Ok(Err(req)),
        }
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
        // Skips finished requests at the front, so that a long list is not looked at in full each
        // time.
        let mut first = 0;
        let waited = self.wait_until(Time::NEVER, |d| {
            let settled = |r: &W| d.is_settled(r.handle());
            while reqs.get(first).is_some_and(settled) {
                first += 1;
            }
            first == reqs.len() && reqs.iter().all(settled)
        });
        self.results(reqs, waited)
    }

    /// The results of all requests of a call, which are settled unless the call has failed.
    fn results<W: Waitable>(
        &mut self,
        reqs: Vec<W>,
        call: Result<()>,
    ) -> std::result::Result<Vec<Completion>, SomeFailed> {
        let result = |req: W| match &call {
            Ok(()) => self.settle(req),
            Err(e) => self.fail(req, e.clone()),
        };
        let all = SomeFailed::unless_all(reqs.into_iter().map(result).enumerate().collect())?;
        Ok(all.map(|(_, done)| done).collect())
    }

    /// Waits until one of the requests is finished, and takes it out of the list. `None` if there
    /// is none to wait for: requests that a wait has used up already are passed over, and stay in
    /// the list.
    ///
    /// # Errors
    /// Of that message, with its index in the list, from which it is taken; if a netmod fails as a
    /// whole, that error for the first of them. [`crate::Error::PendingFailed`] if none is finished
    /// and one is a receive from any source that failures keep from finishing; it stays in the
    /// list.
    pub fn wait_any(
        &mut self,
        reqs: &mut Vec<Request>,
    ) -> std::result::Result<Option<(usize, Completion)>, Box<Failed>> {
        let Some(first) = handles(reqs).position(|r| !r.is_null()) else { return Ok(None) };
        let mut which = None;
        let waited = self.wait_until(Time::NEVER, |d| {
            which = d.first_settled(handles(reqs));
            which.is_some()
        });
        let i = which.unwrap_or(first);
        let done = match waited {
            Ok(()) => self.settle(&mut reqs[i]),
            Err(e) => self.fail(reqs[i].take(), e),
        };
        if reqs[i].raw.is_null() {
            let _ = reqs.remove(i);
        }
        done.map(|done| Some((i, done))).map_err(|failed| failed.at(i))
    }

    /// Waits until at least one request is finished; takes all finished ones out of the list, and
    /// returns each with its index there. Nothing if there is none to wait for, see
    /// [`Vci::wait_any`].
    ///
    /// # Errors
    /// If some of them have failed: the results of all that were taken out of the list, with the
    /// buffers. If a netmod fails as a whole these are all requests. If none is finished,
    /// [`crate::Error::PendingFailed`] as for [`Vci::wait_any`].
    pub fn wait_some(
        &mut self,
        reqs: &mut Vec<Request>,
    ) -> std::result::Result<Vec<(usize, Completion)>, SomeFailed> {
        if handles(reqs).all(RawReq::is_null) {
            return Ok(Vec::new());
        }
        let mut which = None;
        let waited = self.wait_until(Time::NEVER, |d| {
            which = d.first_settled(handles(reqs));
            which.is_some()
        });
        let (mut results, mut places) = (Vec::new(), 0..);
        // One that failures keep from finishing counts if there is no other.
        let pending = which.filter(|i| !self.is_finished(reqs[*i].raw));
        reqs.retain_mut(|r| {
            let place = places.next().unwrap_or_default();
            let result = match &waited {
                _ if r.raw.is_null() => return true,
                Err(e) => self.fail(r.take(), e.clone()),
                Ok(()) if self.is_finished(r.raw) || pending == Some(place) => self.settle(&mut *r),
                Ok(()) => return true,
            };
            results.push((place, result));
            !r.raw.is_null()
        });
        SomeFailed::unless_all(results).map(Iterator::collect)
    }

    /// One step of progress; then the results if all requests are finished, else the requests
    /// again.
    ///
    /// # Errors
    /// As [`Vci::wait_all`]. Receives from any source that fail with
    /// [`crate::Error::PendingFailed`] are cancelled.
    pub fn test_all(
        &mut self,
        reqs: Vec<Request>,
    ) -> std::result::Result<std::result::Result<Vec<Completion>, Vec<Request>>, SomeFailed> {
        match self.test_once(|_| false) {
            Err(e) => self.results(reqs, Err(e)).map(Ok),
            Ok(()) if reqs.iter().all(|r| self.is_settled(r.raw)) => self.wait_all(reqs).map(Ok),
            Ok(()) => Ok(Err(reqs)),
        }
    }

    /// Asks for a request to be cancelled; wait for it to learn whether it was.
    pub fn cancel(&mut self, req: &Request) {
        self.cancel_raw(req.raw);
    }
}
