//! The interface for language bindings: segments in, raw request handles out.
//!
//! The functions are safe to call; what is unsafe is to make the [`Segment`] that they take
//! ([`Segment::contig`] and its kin). Whoever makes one keeps its memory alive and untouched until the
//! request is finished and was used up by a wait or a test that says so.

use netmod_core::{Outcome, ReqId, Segment};

use super::{Comm, PROC_NULL, Vci};
use crate::ch3::{DONE, Owned};
use crate::error::{Error, Result};
use crate::pkt::Mode;
use crate::status::Status;
use netmod_core::Time;

/// A request by its bare handle. Copies of it mean the same request; after that was used up they mean
/// nothing, and count as finished (`MPI_REQUEST_NULL`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RawReq(pub(crate) ReqId);

impl RawReq {
    /// The handle of nothing.
    pub const NULL: RawReq = RawReq(DONE);

    /// Whether this is [`RawReq::NULL`].
    pub fn is_null(self) -> bool {
        self == RawReq::NULL
    }
}

impl Vci {
    /// Starts to send the data of `seg` to rank `dest`.
    ///
    /// # Errors
    /// A bad rank or tag; a peer that cannot be reached. Nothing was started then.
    #[inline]
    pub fn isend_raw(&mut self, seg: Segment, dest: i32, tag: i32, comm: Comm, mode: Mode) -> Result<RawReq> {
        if dest == PROC_NULL {
            return Ok(RawReq::NULL);
        }
        let (to, env) = self.outgoing(dest, tag, comm)?;
        let now = self.now;
        Ok(RawReq(self.ch3.isend(&mut self.engine.io(now), seg, to, env, mode)?))
    }

    /// Starts to receive into `seg` from rank `source` or [`crate::ANY_SOURCE`], with `tag` or
    /// [`crate::ANY_TAG`].
    ///
    /// # Errors
    /// A bad rank or tag; a peer whose connection is down. Nothing was started then.
    #[inline]
    pub fn irecv_raw(&mut self, seg: Segment, source: i32, tag: i32, comm: Comm) -> Result<RawReq> {
        if source == PROC_NULL {
            return Ok(RawReq::NULL);
        }
        let pattern = self.incoming(source, tag, comm)?;
        let now = self.now;
        Ok(RawReq(self.ch3.irecv(&mut self.engine.io(now), seg, pattern)?))
    }

    /// Whether a request is finished. Makes no progress, and does not use it up.
    #[inline]
    pub fn is_finished(&self, req: RawReq) -> bool {
        self.engine.core.is_finished(req.0)
    }

    /// The result of a finished request, which is used up, with the memory that the device held for it.
    #[inline]
    pub(super) fn take(&mut self, req: RawReq) -> (Result<Status>, Owned) {
        if req.is_null() {
            return (
                Ok(Status { source: PROC_NULL, tag: crate::ANY_TAG, ..Status::default() }),
                Owned::Nothing,
            );
        }
        let (outcome, status, cut, owned) = self.ch3.take_result(&mut self.engine.core, req.0);
        let result = match (outcome, cut) {
            (Outcome::Failed(e), _) => Err(Error::Peer(e)),
            (Outcome::Done, Some(sent)) => Err(Error::Truncated { status, sent }),
            (Outcome::Pending, _) => Err(Error::Usage("a request was used up before it was finished".into())),
            (Outcome::Done | Outcome::Cancelled, _) => Ok(status),
        };
        (result, owned)
    }

    /// Waits until a request is finished and uses it up.
    ///
    /// # Errors
    /// Of the message: truncated, or its peer lost.
    #[inline]
    pub fn wait_raw(&mut self, req: RawReq) -> Result<Status> {
        self.wait_until(Time::NEVER, |d| d.is_finished(req))?;
        self.take(req).0
    }

    /// Makes progress once; if the request is finished then, uses it up.
    ///
    /// # Errors
    /// Of the message, or of a netmod.
    pub fn test_raw(&mut self, req: RawReq) -> Result<Option<Status>> {
        self.prod(|d| d.is_finished(req))?;
        if self.is_finished(req) { self.take(req).0.map(Some) } else { Ok(None) }
    }

    /// One step of progress for a test, unless it is not needed.
    pub(super) fn prod(&mut self, done: impl Fn(&Vci) -> bool) -> Result<()> {
        if !done(self) {
            self.poll(netmod_core::PollOrder::OutFirst)?;
        }
        self.flush();
        Ok(())
    }

    /// Waits for all requests; uses them up and sets them to [`RawReq::NULL`]. Statuses go to `out` in
    /// their order (those of failed ones are default values).
    ///
    /// # Errors
    /// The first failure among them; all are finished and used up all the same.
    pub fn wait_all_raw(&mut self, reqs: &mut [RawReq], mut out: Option<&mut Vec<Status>>) -> Result<()> {
        let mut first = 0;
        self.wait_until(Time::NEVER, |d| {
            while first < reqs.len() && d.is_finished(reqs[first]) {
                first += 1;
            }
            first == reqs.len()
        })?;
        let mut failed = None;
        for r in reqs {
            let result = self.take(std::mem::replace(r, RawReq::NULL)).0;
            if let Some(out) = &mut out {
                out.push(result.as_ref().copied().unwrap_or_default());
            }
            if let Err(e) = result {
                failed.get_or_insert(e);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Waits until one of the requests is finished; uses that up and sets it to [`RawReq::NULL`]. `None` if
    /// all are null.
    ///
    /// # Errors
    /// Of that message.
    pub fn wait_any_raw(&mut self, reqs: &mut [RawReq]) -> Result<Option<(usize, Status)>> {
        if reqs.iter().all(|r| r.is_null()) {
            return Ok(None);
        }
        let mut which = None;
        self.wait_until(Time::NEVER, |d| {
            which = reqs.iter().position(|r| !r.is_null() && d.is_finished(*r));
            which.is_some()
        })?;
        let Some(i) = which else { return Ok(None) };
        let status = self.take(std::mem::replace(&mut reqs[i], RawReq::NULL)).0?;
        Ok(Some((i, status)))
    }

    /// Waits until at least one request is finished; uses all finished ones up. Their places and statuses
    /// go to `out`; nothing if all are null.
    ///
    /// # Errors
    /// The first failure among them.
    pub fn wait_some_raw(&mut self, reqs: &mut [RawReq], out: &mut Vec<(usize, Status)>) -> Result<()> {
        if reqs.iter().all(|r| r.is_null()) {
            return Ok(());
        }
        self.wait_until(Time::NEVER, |d| reqs.iter().any(|r| !r.is_null() && d.is_finished(*r)))?;
        self.take_finished(reqs, out)
    }

    /// As [`Vci::wait_some_raw`], after one step of progress instead of waiting.
    ///
    /// # Errors
    /// The first failure among the finished ones.
    pub fn test_some_raw(&mut self, reqs: &mut [RawReq], out: &mut Vec<(usize, Status)>) -> Result<()> {
        self.prod(|_| false)?;
        self.take_finished(reqs, out)
    }

    /// One step of progress; then, if one of the requests is finished, uses it up.
    ///
    /// # Errors
    /// Of that message.
    pub fn test_any_raw(&mut self, reqs: &mut [RawReq]) -> Result<Option<(usize, Status)>> {
        self.prod(|_| false)?;
        let Some(i) = reqs.iter().position(|r| !r.is_null() && self.is_finished(*r)) else { return Ok(None) };
        let status = self.take(std::mem::replace(&mut reqs[i], RawReq::NULL)).0?;
        Ok(Some((i, status)))
    }

    /// One step of progress; then, if all requests are finished, uses them up. Whether they are.
    ///
    /// # Errors
    /// The first failure among them.
    pub fn test_all_raw(&mut self, reqs: &mut [RawReq], out: Option<&mut Vec<Status>>) -> Result<bool> {
        self.prod(|_| false)?;
        if !reqs.iter().all(|r| self.is_finished(*r)) {
            return Ok(false);
        }
        self.wait_all_raw(reqs, out).map(|()| true)
    }

    fn take_finished(&mut self, reqs: &mut [RawReq], out: &mut Vec<(usize, Status)>) -> Result<()> {
        let mut failed = None;
        for (i, r) in reqs.iter_mut().enumerate() {
            if r.is_null() || !self.is_finished(*r) {
                continue;
            }
            match self.take(std::mem::replace(r, RawReq::NULL)).0 {
                Ok(s) => out.push((i, s)),
                Err(e) => {
                    failed.get_or_insert(e);
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Asks for a request to be cancelled. It must be waited for all the same; its status says
    /// whether it was (`MPI_Cancel`).
    pub fn cancel_raw(&mut self, req: RawReq) {
        let now = self.now;
        self.ch3.cancel(&mut self.engine.io(now), req.0);
    }

    /// Gives a request up to finish by itself (`MPI_Request_free`). Its memory must stay valid until
    /// then, which nobody will say.
    pub fn free_raw(&mut self, req: RawReq) {
        if self.is_finished(req) {
            let _ = self.take(req);
        } else {
            self.ch3.forget(&mut self.engine.core, req.0);
        }
    }

    /// Ends a request now, whatever it takes: its memory is free when this returns.
    pub(super) fn reclaim(&mut self, req: RawReq) {
        let now = self.now;
        self.ch3.reclaim(&mut self.engine.io(now), req.0);
        let _ = self.take(req);
    }
}
