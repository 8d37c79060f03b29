//! Operations with buffers that the device owns, and probes.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{Engine, Multiple};
use crate::ch3::Failure;
use crate::device::{Comm, Completion, Device, Ended, Failed, Message, RawReq, Request, SomeFailed, Vci};
use crate::error::Result;
use crate::pkt::Mode;
use crate::status::Status;

/// First and longest pause of a wait for one of several engines' requests.
const PAUSES: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));

/// A send or receive of a [`Multiple`] device under way, whose buffer the device keeps.
///
/// Any thread may wait for it. A dropped one finishes by itself: what it holds is freed then.
#[derive(Debug)]
#[must_use = "wait for it, or the result is lost"]
pub struct SharedRequest {
    req: Request,
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
    move |req| SharedRequest { req, engine }
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
    /// A bad rank or tag; a peer whose connection is down. The buffer is given back with it.
    pub fn irecv(
        &self,
        buf: Vec<u8>,
        source: i32,
        tag: i32,
        comm: Comm,
    ) -> std::result::Result<SharedRequest, Box<Failed>> {
        let n = match self.store.number(comm) {
            Ok(n) => n,
            Err(e) => return Err(Failed::keeping(e, buf)),
        };
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
    pub fn wait(&self, req: SharedRequest) -> Ended {
        let SharedRequest { mut req, engine } = req;
        self.store.check_origin()?;
        // Nothing of such a request waits to be flushed.
        if let Some(done) = req.over() {
            return Ok(done);
        }
        self.store.engine(engine).wait(req.raw(), |v| v.settle(req))?
    }

    /// As [`Device::wait`], with a request that is lent: after
    /// [`Error::PendingFailed`](crate::Error::PendingFailed) it stays posted, and can be waited for again when the
    /// failure was acknowledged ([`Device::ack_failures`]). Otherwise it is done with, and a further wait
    /// returns nothing.
    ///
    /// # Errors
    /// As [`Device::wait`].
    pub fn wait_on(&self, req: &mut SharedRequest) -> Ended {
        self.of(req).wait(req.req.raw(), |v| v.settle(&mut req.req))?
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
        self.of(req).is_finished(req.req.raw())
    }

    /// One step of progress, unless another thread makes it; then the result if the request is finished,
    /// else the request again.
    ///
    /// # Errors
    /// Of the message, or of a netmod.
    pub fn test(
        &self,
        req: SharedRequest,
    ) -> std::result::Result<std::result::Result<Completion, SharedRequest>, Box<Failed>> {
        if self.of(&req).test(req.req.raw())? { self.wait(req).map(Ok) } else { Ok(Err(req)) }
    }

    /// Waits for all requests; results in their order.
    ///
    /// # Errors
    /// If some have failed: all results, with the buffers. All are finished all the same.
    pub fn wait_all(
        &self,
        reqs: impl IntoIterator<Item = SharedRequest>,
    ) -> std::result::Result<Vec<Completion>, SomeFailed> {
        let mut reqs: Vec<SharedRequest> = reqs.into_iter().collect();
        let mut results = Vec::with_capacity(reqs.len());
        for row in reqs.chunk_by_mut(|a, b| a.engine == b.engine) {
            let until = results.len() + row.len();
            if let Err(e) = self.wait_row(row, &mut results) {
                results.resize_with(until, || Err(Failed::call(e.clone())));
            }
        }
        let placed = results.into_iter().enumerate().map(|(place, r)| r.map_err(|failed| failed.at(place)));
        SomeFailed::unless_all(placed.collect())
    }

    /// Waits for requests of one engine, with few turns at its lock: the thread is called once, when the last of
    /// them is finished, and takes the results of all that are finished by then.
    fn wait_row(&self, row: &mut [SharedRequest], results: &mut Vec<Ended>) -> Result<()> {
        let Some(last) = row.last() else { return Ok(()) };
        let (engine, mut next) = (self.of(last), Some(last.req.raw()));
        let mut left = row.iter_mut().peekable();
        let mut take = |v: &mut Vci| {
            while let Some(r) = left.next_if(|r| v.is_settled(r.req.raw())) {
                results.push(v.settle(std::mem::replace(&mut r.req, Request::nothing(Vec::new()))));
            }
            left.peek().map(|r| r.req.raw())
        };
        while let Some(raw) = next {
            next = engine.wait(raw, &mut take)?;
        }
        Ok(())
    }

    /// One step of progress; then the results if all requests are finished, else the requests again.
    ///
    /// # Errors
    /// As [`Device::wait_all`].
    pub fn test_all(
        &self,
        reqs: Vec<SharedRequest>,
    ) -> std::result::Result<std::result::Result<Vec<Completion>, Vec<SharedRequest>>, SomeFailed> {
        for r in &reqs {
            if !self.of(r).test(r.req.raw())? {
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
    pub fn wait_any(
        &self,
        reqs: &mut Vec<SharedRequest>,
    ) -> std::result::Result<Option<(usize, Completion)>, Box<Failed>> {
        let mut under_way = reqs.iter().filter(|r| !r.req.raw().is_null()).map(|r| r.engine);
        let Some(number) = under_way.next() else { return Ok(None) };
        if under_way.all(|e| e == number) {
            let raws: Arc<[RawReq]> = reqs.iter().map(|r| r.req.raw()).collect();
            let all = Arc::clone(&raws);
            let done = self.store.engine(number).wait_any(raws, |v| {
                let i = v.first_settled(all.iter().copied())?;
                Some((i, v.settle(&mut reqs[i].req)))
            })?;
            let Some((i, done)) = done else { return Ok(None) };
            if reqs[i].req.raw().is_null() {
                let _used_up = reqs.remove(i);
            }
            return done.map(|done| Some((i, done))).map_err(|failed| failed.at(i));
        }
        let mut pause = PAUSES.0;
        loop {
            for i in 0..reqs.len() {
                if !reqs[i].req.raw().is_null() && self.of(&reqs[i]).test(reqs[i].req.raw())? {
                    let req = reqs.remove(i);
                    return self.wait(req).map(|done| Some((i, done))).map_err(|failed| failed.at(i));
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
    /// If some of them have failed: the results of all that were taken out of the list, with the
    /// buffers.
    pub fn wait_some(
        &self,
        reqs: &mut Vec<SharedRequest>,
    ) -> std::result::Result<Vec<Completion>, SomeFailed> {
        let all = reqs.len();
        let (taken, first) = match self.wait_any(reqs) {
            Ok(None) => return Ok(Vec::new()),
            Ok(Some((place, done))) => (place, Ok(done)),
            Err(failed) if reqs.len() == all => return Err(failed.into()),
            Err(failed) => (failed.place.unwrap_or(all), Err(failed)),
        };
        let mut results = vec![first];
        let mut places = (0..all).filter(|place| *place != taken);
        for req in std::mem::take(reqs) {
            let place = places.next().unwrap_or(all);
            if req.req.raw().is_null() || !self.is_finished(&req) {
                reqs.push(req);
            } else {
                results.push(self.wait(req).map_err(|failed| failed.at(place)));
            }
        }
        SomeFailed::unless_all(results)
    }

    /// Asks for a request to be cancelled; wait for it to learn whether it was.
    pub fn cancel(&self, req: &SharedRequest) {
        if self.store.check_origin().is_err() {
            return;
        }
        self.of(req).baton.with(|v| v.cancel_raw(req.req.raw()));
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
            return SharedRequest { req: Request::nothing(buf), engine: msg.engine };
        }
        shared(msg.engine)(self.store.engine(msg.engine).baton.with(|v| v.imrecv(buf, msg.message)))
    }
}
