//! Operations with buffers that the device owns, and probes.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{Engine, Multiple};
use crate::ch3::Failure;
use crate::device::{Comm, Completion, Device, Message, RawReq, Request, Vci};
use crate::error::Result;
use crate::pkt::Mode;
use crate::status::Status;

/// First and longest pause of a wait for one of several engines' requests.
const PAUSES: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));

/// A send or receive of a [`Multiple`] device under way, whose buffer the device keeps.
///
/// Any thread may wait for it. A dropped one finishes by itself.
#[derive(Debug)]
#[must_use = "wait for it, or the result is lost"]
pub struct SharedRequest {
    raw: RawReq,
    engine: u8,
}

/// A message that was matched by [`Device::improbe`] of a [`Multiple`] device.
#[derive(Debug)]
#[must_use = "a matched message is lost to every other receive"]
pub struct SharedMessage {
    message: Message,
    engine: u8,
}

impl SharedMessage {
    /// Its envelope and length.
    pub fn status(&self) -> Status {
        self.message.status()
    }
}

fn shared(engine: u8) -> impl FnOnce(Request) -> SharedRequest {
    move |req| SharedRequest { raw: req.raw(), engine }
}

impl Device<Multiple> {
    /// Starts to send `data`.
    ///
    /// # Errors
    /// A bad rank or tag; a peer that cannot be reached.
    pub fn isend(&self, data: impl Into<Bytes>, dest: i32, tag: i32, comm: Comm) -> Result<SharedRequest> {
        self.isend_mode(data.into(), dest, tag, comm, Mode::Standard)
    }

    /// As [`Device::isend`], in a send mode.
    ///
    /// # Errors
    /// As [`Device::isend`].
    pub fn isend_mode(
        &self,
        data: Bytes,
        dest: i32,
        tag: i32,
        comm: Comm,
        mode: Mode,
    ) -> Result<SharedRequest> {
        let n = self.store.number(comm)?;
        let send = |v: &mut Vci| -> Result<Request> {
            let req = v.isend_mode(data, dest, tag, comm, mode)?;
            // Whoever holds a request that is over does not come back to the engine.
            if req.raw().is_over() {
                v.flush();
            }
            Ok(req)
        };
        self.store.engine(n).baton.with(send).map(shared(n))
    }

    /// Starts to receive up to `buf.len()` bytes into `buf`.
    ///
    /// # Errors
    /// A bad rank or tag; a peer whose connection is down.
    pub fn irecv(&self, buf: Vec<u8>, source: i32, tag: i32, comm: Comm) -> Result<SharedRequest> {
        let n = self.store.number(comm)?;
        self.store.engine(n).baton.with(|v| v.irecv(buf, source, tag, comm)).map(shared(n))
    }

    fn of(&self, req: &SharedRequest) -> &Engine {
        self.store.engine(req.engine)
    }

    /// Waits for a request. A receive from any source that failures keep from finishing is cancelled; see
    /// [`Device::wait_on`].
    ///
    /// # Errors
    /// Of the message: truncated, or its peer lost; [`Error::PendingFailed`](crate::Error::PendingFailed).
    pub fn wait(&self, req: SharedRequest) -> Result<Completion> {
        // Nothing of such a request waits to be flushed.
        if let Some(status) = req.raw.over() {
            return Ok(Completion { status, buffer: Vec::new() });
        }
        self.of(&req).wait(req.raw, |v| v.settle(Request::of(req.raw)))?
    }

    /// As [`Device::wait`], with a request that is lent: after
    /// [`Error::PendingFailed`](crate::Error::PendingFailed) it stays posted, and can be waited for again when the
    /// failure was acknowledged ([`Device::ack_failures`]). Otherwise it is done with, and a further wait
    /// returns nothing.
    ///
    /// # Errors
    /// As [`Device::wait`].
    pub fn wait_on(&self, req: &mut SharedRequest) -> Result<Completion> {
        let mut inner = Request::of(req.raw);
        let done = self.of(req).wait(req.raw, |v| v.settle(&mut inner))?;
        req.raw = inner.raw();
        done
    }

    /// The processes that have failed, as far as one of the engines knows; see [`crate::Vci::failed`].
    pub fn failed(&self) -> Vec<Failure> {
        self.failures(|v| v.failed())
    }

    /// Acknowledges all failures known so far; returns those that had not been acknowledged before. See
    /// [`crate::Vci::ack_failures`].
    pub fn ack_failures(&self) -> Vec<Failure> {
        self.failures(|v| v.ack_failures())
    }

    /// What the engines say, each process once.
    fn failures(&self, of: impl Fn(&mut Vci) -> Vec<Failure>) -> Vec<Failure> {
        let mut all: Vec<Failure> = self.store.engines.iter().flat_map(|e| e.baton.with(&of)).collect();
        let mut seen = HashSet::new();
        all.retain(|f| seen.insert(f.peer.rank));
        all
    }

    /// Lets a failed process be used again, see [`crate::Vci::reconnect`].
    ///
    /// # Errors
    /// As it says.
    pub fn reconnect(&self, rank: u32) -> Result<()> {
        self.store.check_origin()?;
        self.store.engines.iter().try_for_each(|e| e.baton.with(|v| v.reconnect(rank)))
    }

    /// Whether a request is finished, as far as is known without a lock and without progress. If it says
    /// yes, a wait does not block.
    pub fn is_finished(&self, req: &SharedRequest) -> bool {
        self.of(req).is_finished(req.raw)
    }

    /// One step of progress, unless another thread makes it; then the result if the request is finished,
    /// else the request again.
    ///
    /// # Errors
    /// Of the message, or of a netmod.
    pub fn test(&self, req: SharedRequest) -> Result<std::result::Result<Completion, SharedRequest>> {
        if self.of(&req).test(req.raw)? { self.wait(req).map(Ok) } else { Ok(Err(req)) }
    }

    /// Waits for all requests; results in their order.
    ///
    /// # Errors
    /// The first failure among them; all are finished all the same.
    pub fn wait_all(&self, reqs: impl IntoIterator<Item = SharedRequest>) -> Result<Vec<Completion>> {
        let reqs: Vec<SharedRequest> = reqs.into_iter().collect();
        let mut results = Vec::with_capacity(reqs.len());
        for row in reqs.chunk_by(|a, b| a.engine == b.engine) {
            self.wait_row(row, &mut results)?;
        }
        results.into_iter().collect()
    }

    /// Waits for requests of one engine, with few turns at its lock: the thread is called once, when the last of
    /// them is finished, and takes the results of all that are finished by then.
    fn wait_row(&self, row: &[SharedRequest], results: &mut Vec<Result<Completion>>) -> Result<()> {
        let Some(last) = row.last() else { return Ok(()) };
        let engine = self.of(last);
        let mut left = row.iter().map(|r| r.raw).peekable();
        let mut take = |v: &mut Vci| {
            while let Some(raw) = left.next_if(|r| v.is_settled(*r)) {
                results.push(v.settle(Request::of(raw)));
            }
            left.peek().copied()
        };
        let mut next = Some(last.raw);
        while let Some(raw) = next {
            next = engine.wait(raw, &mut take)?;
        }
        Ok(())
    }

    /// One step of progress; then the results if all requests are finished, else the requests again.
    ///
    /// # Errors
    /// The first failure among them.
    pub fn test_all(
        &self,
        reqs: Vec<SharedRequest>,
    ) -> Result<std::result::Result<Vec<Completion>, Vec<SharedRequest>>> {
        for r in &reqs {
            if !self.of(r).test(r.raw)? {
                return Ok(Err(reqs));
            }
        }
        self.wait_all(reqs).map(Ok)
    }

    /// Waits until one of the requests is finished, and takes it out of the list. `None` if there is none to wait
    /// for: requests that a wait has used up already are passed over, and stay in the list.
    ///
    /// Requests of different engines are tested in turn, with pauses of up to 1 ms in between.
    ///
    /// # Errors
    /// Of that message. [`Error::PendingFailed`](crate::Error::PendingFailed) if none is finished and one is
    /// a receive from any source that failures keep from finishing; it stays in the list, unless the requests
    /// are of different engines, when it is cancelled.
    pub fn wait_any(&self, reqs: &mut Vec<SharedRequest>) -> Result<Option<(usize, Completion)>> {
        let mut under_way = reqs.iter().filter(|r| !r.raw.is_null()).map(|r| r.engine);
        let Some(number) = under_way.next() else { return Ok(None) };
        if under_way.all(|e| e == number) {
            let raws: Arc<[RawReq]> = reqs.iter().map(|r| r.raw).collect();
            let all = Arc::clone(&raws);
            let done = self.store.engine(number).wait_any(raws, |v| {
                let Some(i) = v.first_settled(all.iter().copied()) else { return Ok(None) };
                match if v.is_finished(all[i]) { None } else { v.unsettle(all[i]) } {
                    Some(e) => Err(e),
                    None => Ok(Some((i, v.complete(all[i])))),
                }
            })??;
            let Some((i, result)) = done else { return Ok(None) };
            let _used_up = reqs.remove(i);
            return result.map(|c| Some((i, c)));
        }
        let mut pause = PAUSES.0;
        loop {
            for i in 0..reqs.len() {
                if !reqs[i].raw.is_null() && self.of(&reqs[i]).test(reqs[i].raw)? {
                    let req = reqs.remove(i);
                    return self.wait(req).map(|c| Some((i, c)));
                }
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Waits until at least one request is finished; takes all finished ones out of the list. Nothing if there is
    /// none to wait for, see [`Device::wait_any`].
    ///
    /// # Errors
    /// The first failure among them.
    pub fn wait_some(&self, reqs: &mut Vec<SharedRequest>) -> Result<Vec<Completion>> {
        let Some((_, first)) = self.wait_any(reqs)? else { return Ok(Vec::new()) };
        let finished: Vec<SharedRequest> =
            reqs.extract_if(.., |r| !r.raw.is_null() && self.is_finished(r)).collect();
        let mut done = vec![first];
        done.extend(self.wait_all(finished)?);
        Ok(done)
    }

    /// Asks for a request to be cancelled; wait for it to learn whether it was.
    pub fn cancel(&self, req: &SharedRequest) {
        if self.store.check_origin().is_err() {
            return;
        }
        self.of(req).baton.with(|v| v.cancel_raw(req.raw));
    }

    /// Whether a message has arrived that a receive with these arguments would match (`MPI_Iprobe`).
    /// Another thread may receive it first; see [`Device::improbe`].
    ///
    /// # Errors
    /// A bad rank or tag; a netmod that failed.
    pub fn iprobe(&self, source: i32, tag: i32, comm: Comm) -> Result<Option<Status>> {
        let n = self.store.number(comm)?;
        self.store.engine(n).baton.with(|v| v.iprobe(source, tag, comm))
    }

    /// Waits for such a message (`MPI_Probe`).
    ///
    /// # Errors
    /// As [`Device::iprobe`]; besides, if the source is lost.
    pub fn probe(&self, source: i32, tag: i32, comm: Comm) -> Result<Status> {
        let n = self.store.number(comm)?;
        let e = self.store.engine(n);
        loop {
            let (found, seen) = e.baton.with(|v| (v.iprobe(source, tag, comm), v.seen(source, tag, comm)));
            if let Some(status) = found? {
                return Ok(status);
            }
            e.wait_news(seen?)?;
        }
    }

    /// As [`Device::iprobe`]; the message is matched, so that this thread alone can receive it, with
    /// [`Device::imrecv`] (`MPI_Improbe`).
    ///
    /// # Errors
    /// As [`Device::iprobe`].
    pub fn improbe(&self, source: i32, tag: i32, comm: Comm) -> Result<Option<SharedMessage>> {
        let n = self.store.number(comm)?;
        let found = self.store.engine(n).baton.with(|v| v.improbe(source, tag, comm))?;
        Ok(found.map(|message| SharedMessage { message, engine: n }))
    }

    /// As [`Device::improbe`], waiting (`MPI_Mprobe`).
    ///
    /// # Errors
    /// As [`Device::probe`].
    pub fn mprobe(&self, source: i32, tag: i32, comm: Comm) -> Result<SharedMessage> {
        let n = self.store.number(comm)?;
        let e = self.store.engine(n);
        loop {
            let (found, seen) = e.baton.with(|v| (v.improbe(source, tag, comm), v.seen(source, tag, comm)));
            if let Some(message) = found? {
                return Ok(SharedMessage { message, engine: n });
            }
            e.wait_news(seen?)?;
        }
    }

    /// Starts to receive a matched message into a buffer that the device keeps (`MPI_Imrecv`).
    pub fn imrecv(&self, buf: Vec<u8>, msg: SharedMessage) -> SharedRequest {
        if self.store.check_origin().is_err() {
            // A wait for it says why.
            return SharedRequest { raw: RawReq::NULL, engine: msg.engine };
        }
        shared(msg.engine)(self.store.engine(msg.engine).baton.with(|v| v.imrecv(buf, msg.message)))
    }
}
