//! The interface for language bindings: segments in, raw request handles out.
//!
//! The functions are safe to call; what is unsafe is to make the [`Segment`] that they take
//! ([`Segment::contig`] and its kin). Whoever makes one keeps its memory alive and untouched until
//! the request is finished and was used up by a wait or a test that says so.

use netmod_core::{Outcome, ReqId, Segment};

use super::{Comm, PROC_NULL, Vci};
use crate::ch3::{DONE, Lent, Matched, Owned};
use crate::error::{Error, Result};
use crate::pkt::Mode;
use crate::status::Status;
use crate::tagmatch::{ANY_SOURCE, ANY_TAG};
use netmod_core::Time;

/// A request by its bare handle. Copies of it mean the same request; after that was used up they
/// mean nothing, and count as finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RawReq(pub(crate) ReqId);

impl RawReq {
    /// The handle of nothing (`MPI_REQUEST_NULL`). A wait for it is over at once, and has the empty
    /// status; one for any or some of several requests passes it over.
    pub const NULL: RawReq = RawReq(ReqId::from_wire(1));

    /// The handle of a request that was over at once: finished, and still to be reported once.
    pub(crate) const DONE: RawReq = RawReq(DONE);

    /// Returns true if this is [`RawReq::NULL`].
    #[inline]
    pub fn is_null(self) -> bool {
        self == RawReq::NULL
    }

    /// Returns true if there is nothing to wait for: [`RawReq::NULL`], or a request that was over
    /// when its call returned. No request in the slab has the generation 0.
    #[inline]
    pub fn is_over(self) -> bool {
        self.0.generation() == 0
    }

    /// Its status, if there is nothing to wait for.
    #[inline]
    pub(crate) fn over(self) -> Option<Status> {
        let source = if self.is_null() { ANY_SOURCE } else { PROC_NULL };
        self.is_over().then(|| Status { source, tag: ANY_TAG, ..Status::default() })
    }
}

/// A request that was begun, or why not: so small that it is returned in registers.
pub(super) type Begun = std::result::Result<RawReq, Box<Error>>;

impl Vci {
    /// Starts to send the data of `seg` to rank `dest`. The message may be staged until the next
    /// call that waits, tests or makes progress; if none comes within a millisecond, a helper
    /// thread sends it (`NETMOD_PROGRESS`).
    ///
    /// # Errors
    /// A bad rank or tag; a peer that cannot be reached. Nothing was started then.
    #[inline]
    pub fn isend_raw(&mut self, seg: Segment, dest: i32, tag: i32, comm: Comm, mode: Mode) -> Result<RawReq> {
        self.begin_send(seg, dest, tag, comm, mode).map_err(|e| *e)
    }

    #[inline]
    pub(super) fn begin_send(&mut self, seg: Segment, dest: i32, tag: i32, comm: Comm, mode: Mode) -> Begun {
        match seg.into_run() {
            Ok(run) => self.start_send(run, dest, tag, comm, mode),
            Err(seg) => self.start_send(seg, dest, tag, comm, mode),
        }
    }

    #[inline(never)]
    fn start_send(&mut self, seg: impl Lent, dest: i32, tag: i32, comm: Comm, mode: Mode) -> Begun {
        self.check_origin()?;
        if dest == PROC_NULL {
            return Ok(RawReq::DONE);
        }
        let (to, env) = self.outgoing(dest, tag, comm)?;
        let now = self.now;
        match self.ch3.isend(&mut self.engine.io(now), seg, to, env, mode) {
            Ok(req) => Ok(RawReq(req)),
            Err(e) => Err(self.blame(e).into()),
        }
    }

    /// Starts to receive into `seg` from rank `source` or [`crate::ANY_SOURCE`], with `tag` or
    /// [`crate::ANY_TAG`].
    ///
    /// # Errors
    /// A bad rank or tag; a peer whose connection is down. Nothing was started then.
    #[inline]
    pub fn irecv_raw(&mut self, seg: Segment, source: i32, tag: i32, comm: Comm) -> Result<RawReq> {
        self.begin_recv(seg, source, tag, comm).map_err(|e| *e)
    }

    #[inline]
    pub(super) fn begin_recv(&mut self, seg: Segment, source: i32, tag: i32, comm: Comm) -> Begun {
        match seg.into_run() {
            Ok(run) => self.start_recv(run, source, tag, comm),
            Err(seg) => self.start_recv(seg, source, tag, comm),
        }
    }

    #[inline(never)]
    fn start_recv(&mut self, seg: impl Lent, source: i32, tag: i32, comm: Comm) -> Begun {
        self.check_origin()?;
        if source == PROC_NULL {
            return Ok(RawReq::DONE);
        }
        let pattern = self.incoming(source, tag, comm)?;
        let now = self.now;
        match self.ch3.irecv(&mut self.engine.io(now), seg, pattern) {
            Ok(req) => Ok(RawReq(req)),
            Err(e) => Err(self.blame(e).into()),
        }
    }

    /// Returns true if a request is finished. Makes no progress, and does not use it up.
    #[inline]
    pub fn is_finished(&self, req: RawReq) -> bool {
        self.engine.look(|e| e.core.is_finished(req.0))
    }

    /// The result of a finished request, which is used up, with the memory that the device held for
    /// it.
    #[inline]
    pub(super) fn take(&mut self, req: RawReq) -> (Result<Status>, Owned) {
        if let Some(status) = req.over() {
            return (Ok(status), Owned::Nothing);
        }
        let mut matched = Matched::default();
        if self.ch3.reqs.take_plain(&mut self.engine.core, req.0, &mut matched) {
            return (Ok(matched.status()), Owned::Nothing);
        }
        let (status, result, owned) = self.take_whole(req);
        (result.map(|()| status), owned)
    }

    /// Uses a finished request up: its status, also if it has failed, its failure, and the memory
    /// that the device held for it.
    #[inline(never)]
    pub(super) fn take_whole(&mut self, req: RawReq) -> (Status, Result<()>, Owned) {
        let revoked = self.ch3.contexts.was_revoked(req.0);
        let (outcome, status, cut, owned) = self.ch3.reqs.take_result(&mut self.engine.core, req.0);
        let result = match (outcome, cut) {
            (Outcome::Failed(e), _) => Err(self.blame(e)),
            (Outcome::Done, Some(sent)) => Err(Error::Truncated { status, sent }),
            (Outcome::Pending, _) => Err(Error::Usage("a request was used up before it was finished".into())),
            (Outcome::Done, _) => Ok(()),
            (Outcome::Cancelled, _) if revoked => Err(Error::Revoked),
            (Outcome::Cancelled, _) => Ok(()),
        };
        (status, result, owned)
    }

    /// Waits until a request is finished and uses it up.
    ///
    /// # Errors
    /// Of the message: truncated, or its peer lost. [`Error::PendingFailed`] for a receive from any
    /// source, which is then not used up and stays posted.
    #[inline]
    pub fn wait_raw(&mut self, req: RawReq) -> Result<Status> {
        let (mut plain, mut matched) = (false, Matched::default());
        self.wait_until(Time::NEVER, |d| {
            plain = d.ch3.reqs.take_plain(&mut d.engine.core, req.0, &mut matched);
            plain || d.is_settled(req)
        })?;
        if plain { Ok(matched.by_words().status()) } else { self.take_settled(req) }
    }

    /// Uses a request up that has succeeded and for which the device holds no memory, and returns
    /// its status. `None` for any other, which stays as it is: [`Vci::take_raw`] serves it.
    #[inline]
    pub fn take_plain(&mut self, req: RawReq) -> Option<Status> {
        let mut matched = Matched::default();
        let is_plain = self.ch3.reqs.take_plain(&mut self.engine.core, req.0, &mut matched);
        is_plain.then(|| matched.status())
    }

    /// Returns the result of a request that [`Vci::is_settled`], without progress, and uses it up.
    ///
    /// # Errors
    /// As [`Vci::wait_raw`]; a request that is not settled, which goes on.
    #[inline]
    pub fn take_raw(&mut self, req: RawReq) -> Result<Status> {
        let mut matched = Matched::default();
        if self.ch3.reqs.take_plain(&mut self.engine.core, req.0, &mut matched) {
            return Ok(matched.status());
        }
        if !self.is_settled(req) {
            return Err(Error::Usage("a request was asked for its result before it was finished".into()));
        }
        self.take_settled(req)
    }

    /// The result of a request that is settled: it is used up if it is finished.
    #[inline(never)]
    fn take_settled(&mut self, req: RawReq) -> Result<Status> {
        if !self.is_finished(req)
            && let Some(e) = self.unsettle(req)
        {
            return Err(e);
        }
        self.take(req).0
    }

    /// Makes progress once; if the request is finished then, uses it up.
    ///
    /// # Errors
    /// As [`Vci::wait_raw`]; of a netmod.
    pub fn test_raw(&mut self, req: RawReq) -> Result<Option<Status>> {
        self.test_once(|d| d.is_finished(req))?;
        if self.is_settled(req) { self.take_settled(req).map(Some) } else { Ok(None) }
    }

    /// Asks `done`; if it returns false, makes progress once and asks again. Sends that were staged
    /// have been handed to the network when it returns.
    ///
    /// # Errors
    /// If a netmod fails as a whole.
    #[inline]
    pub fn test_until(&mut self, mut done: impl FnMut(&mut Vci) -> bool) -> Result<bool> {
        if done(self) {
            self.flush();
            return Ok(true);
        }
        self.test_once(|_| false)?;
        Ok(done(self))
    }

    /// One step of progress for a test, unless it is not needed.
    pub(super) fn test_once(&mut self, done: impl Fn(&Vci) -> bool) -> Result<()> {
        self.check_origin()?;
        if !done(self) && !self.poll(netmod_core::PollOrder::OutFirst)? && self.failure_deadline() <= self.now
        {
            self.look_for_failures();
        }
        self.flush();
        Ok(())
    }

    /// Waits for all requests; uses them up and sets them to [`RawReq::NULL`]. Statuses go to `out`
    /// in their order (those of failed ones are default values).
    ///
    /// # Errors
    /// The first failure among them; all are finished and used up all the same, but for receives
    /// from any source that failed with [`Error::PendingFailed`], which stay posted and keep their
    /// handles.
    pub fn wait_all_raw(&mut self, reqs: &mut [RawReq], mut out: Option<&mut Vec<Status>>) -> Result<()> {
        let (mut first, mut failed) = (0, None);
        self.wait_until(Time::NEVER, |d| {
            // Each as soon as it is finished, while the next is under way.
            let rest = &mut reqs[first..];
            let left = rest.iter_mut().position(|r| !d.use_up(r, &mut out, &mut failed));
            first += left.unwrap_or(rest.len());
            // A request that is settled without being finished may become unsettled: a peer may
            // connect again.
            first == reqs.len() || (d.ch3.failures.alarm() && reqs[first..].iter().all(|r| d.is_settled(*r)))
        })?;
        for r in &mut reqs[first..] {
            let pending = if self.is_finished(*r) { None } else { self.unsettle(*r) };
            let Some(e) = pending else {
                self.use_up_other(r, &mut out, &mut failed);
                continue;
            };
            if let Some(out) = &mut out {
                out.push(Status::default());
            }
            failed.get_or_insert(e);
        }
        failed.map_or(Ok(()), Err)
    }

    /// Uses a request up and sets it to [`RawReq::NULL`] if it is finished; whether it was. Its
    /// status is put behind the others, its failure kept if it is the first.
    #[inline]
    fn use_up(
        &mut self,
        r: &mut RawReq,
        out: &mut Option<&mut Vec<Status>>,
        failed: &mut Option<Error>,
    ) -> bool {
        if out.is_none() && (r.is_over() || self.ch3.reqs.use_up_plain(&mut self.engine.core, r.0)) {
            *r = RawReq::NULL;
            return true;
        }
        let finished = self.is_finished(*r);
        if finished {
            self.use_up_other(r, out, failed);
        }
        finished
    }

    #[inline(never)]
    fn use_up_other(
        &mut self,
        r: &mut RawReq,
        out: &mut Option<&mut Vec<Status>>,
        failed: &mut Option<Error>,
    ) {
        let result = self.take(std::mem::replace(r, RawReq::NULL)).0;
        if let Some(out) = out {
            out.push(result.as_ref().copied().unwrap_or_default());
        }
        if let Err(e) = result {
            failed.get_or_insert(e);
        }
    }

    /// Waits until one of the requests is finished; uses that up and sets it to [`RawReq::NULL`].
    /// `None` if all are null.
    ///
    /// # Errors
    /// Of that message. [`Error::PendingFailed`] if none is finished and one is a receive from any
    /// source that failures keep from finishing ([`Vci::pending_failure`] tells which); it stays
    /// posted.
    pub fn wait_any_raw(&mut self, reqs: &mut [RawReq]) -> Result<Option<(usize, Status)>> {
        if reqs.iter().all(|r| r.is_null()) {
            return Ok(None);
        }
        let mut which = None;
        self.wait_until(Time::NEVER, |d| {
            which = d.first_settled(reqs.iter().copied());
            which.is_some()
        })?;
        self.take_one(reqs, which)
    }

    /// Returns the first of these requests that is finished; failing that, the first of which a
    /// failure says that a wait for it must end. Null ones are passed over.
    pub(super) fn first_settled(&self, reqs: impl Iterator<Item = RawReq> + Clone) -> Option<usize> {
        match reqs.clone().position(|r| !r.is_null() && self.is_finished(r)) {
            None if self.ch3.failures.alarm() => {
                reqs.clone().position(|r| !r.is_null() && self.is_settled(r))
            }
            found => found,
        }
    }

    fn take_one(&mut self, reqs: &mut [RawReq], which: Option<usize>) -> Result<Option<(usize, Status)>> {
        let Some(i) = which else { return Ok(None) };
        if !self.is_finished(reqs[i])
            && let Some(e) = self.unsettle(reqs[i])
        {
            return Err(e);
        }
        let status = self.take(std::mem::replace(&mut reqs[i], RawReq::NULL)).0?;
        Ok(Some((i, status)))
    }

    /// Waits until at least one request is finished; uses all finished ones up. Their places and
    /// statuses go to `out`; nothing if all are null.
    ///
    /// # Errors
    /// The first failure among them; if none is finished, [`Error::PendingFailed`] as for
    /// [`Vci::wait_any_raw`].
    pub fn wait_some_raw(&mut self, reqs: &mut [RawReq], out: &mut Vec<(usize, Status)>) -> Result<()> {
        if reqs.iter().all(|r| r.is_null()) {
            return Ok(());
        }
        self.wait_until(Time::NEVER, |d| d.first_settled(reqs.iter().copied()).is_some())?;
        self.take_finished(reqs, out)
    }

    /// Works like [`Vci::wait_some_raw`], after one step of progress instead of waiting.
    ///
    /// # Errors
    /// As [`Vci::wait_some_raw`].
    pub fn test_some_raw(&mut self, reqs: &mut [RawReq], out: &mut Vec<(usize, Status)>) -> Result<()> {
        self.test_once(|_| false)?;
        self.take_finished(reqs, out)
    }

    /// One step of progress; then, if one of the requests is finished, uses it up.
    ///
    /// # Errors
    /// As [`Vci::wait_any_raw`].
    pub fn test_any_raw(&mut self, reqs: &mut [RawReq]) -> Result<Option<(usize, Status)>> {
        self.test_once(|_| false)?;
        let which = self.first_settled(reqs.iter().copied());
        self.take_one(reqs, which)
    }

    /// One step of progress; then, if all requests are finished, uses them up. Whether they are.
    ///
    /// # Errors
    /// As [`Vci::wait_all_raw`].
    pub fn test_all_raw(&mut self, reqs: &mut [RawReq], out: Option<&mut Vec<Status>>) -> Result<bool> {
        self.test_once(|_| false)?;
        if !reqs.iter().all(|r| self.is_settled(*r)) {
            return Ok(false);
        }
        self.wait_all_raw(reqs, out).map(|()| true)
    }

    fn take_finished(&mut self, reqs: &mut [RawReq], out: &mut Vec<(usize, Status)>) -> Result<()> {
        let first = self.first_settled(reqs.iter().copied());
        if let Some(i) = first.filter(|i| !self.is_finished(reqs[*i]))
            && let Some(e) = self.unsettle(reqs[i])
        {
            return Err(e);
        }
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
        if !self.origin.is_here() {
            return;
        }
        let now = self.now;
        self.ch3.cancel(&mut self.engine.io(now), req.0);
    }

    /// Gives a request up to finish by itself (`MPI_Request_free`). Its memory must stay valid
    /// until then, which nobody will say.
    pub fn free_raw(&mut self, req: RawReq) {
        if !self.origin.is_here() {
            // The child's copy of it goes with the child's copy of the device.
        } else if self.is_finished(req) {
            let _ = self.take(req);
        } else {
            self.ch3.reqs.forget(&mut self.engine.core, req.0);
        }
    }

    /// Ends a request whose memory is to be given back now, whatever it takes. A send that has
    /// partly left is given time to end in order.
    pub fn end_raw(&mut self, req: RawReq) {
        if !req.is_over() {
            drop(self.reclaim(req));
        }
    }

    /// Ends a request, whatever it takes, and returns the memory that the device held for it.
    ///
    /// A send that has partly left, or whose receiver is asked for it back, is given time to end in
    /// order. In a panic it is not: waiting might panic again.
    pub(super) fn reclaim(&mut self, req: RawReq) -> Owned {
        if !self.origin.is_here() {
            // Nobody moves the memory of a forked child.
            return Owned::Nothing;
        }
        self.end_request(req);
        self.take(req).1
    }

    /// Ends a request, as [`Vci::reclaim`] does, which is still to be used up.
    pub(super) fn end_request(&mut self, req: RawReq) {
        let now = self.now;
        self.ch3.cancel(&mut self.engine.io(now), req.0);
        if !self.is_finished(req) && self.ch3.is_send(req.0) && !std::thread::panicking() {
            let limit = self.deadline_in(self.cfg.close_timeout);
            // A netmod that fails as a whole ends the wait; what is left then is ended below.
            let _ = self.wait_until(limit, |d| d.is_finished(req));
        }
        let now = self.now;
        self.ch3.reclaim(&mut self.engine.io(now), req.0);
    }
}
