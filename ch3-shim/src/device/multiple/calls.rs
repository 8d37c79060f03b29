//! Operations with buffers that the device owns, and probes.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{Engine, Multiple, SharedMessage, SharedRequest};
use crate::ch3::{Failure, Owned};
use crate::device::{Comm, Completion, Device, Ended, Failed, RawReq, Request, SomeFailed, Vci};
use crate::error::{Error, Result};
use crate::pkt::Mode;
use crate::status::Status;

/// First and longest pause of a wait for one of several engines' requests.
const PAUSES: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(1));

fn shared(engine: u8) -> impl FnOnce(Request) -> SharedRequest {
    move |req| SharedRequest { req, engine }
}

impl Device<Multiple> {
    /// Starts to send `data`.
    ///
    /// # Errors
    /// A bad rank or tag; a peer that cannot be reached. The data is given back with it.
    pub fn isend(
        &self,
        data: impl Into<Bytes>,
        dest: i32,
        tag: i32,
        comm: Comm,
    ) -> std::result::Result<SharedRequest, Box<Failed>> {
        self.isend_mode(data.into(), dest, tag, comm, Mode::Standard)
    }

    /// Works like [`Device::isend`], in a send mode.
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
    ) -> std::result::Result<SharedRequest, Box<Failed>> {
        let n = match self.store.number(comm) {
            Ok(n) => n,
            Err(e) => return Err(Failed::keeping(e, Owned::Send(data))),
        };
        let send = |v: &mut Vci| {
            let req = v.isend_mode(data, dest, tag, comm, mode)?;
            // The holder of a complete request does not come back to the engine.
            if req.raw().is_over() {
                v.flush();
            }
            Ok(req)
        };
        self.store.engine(n).lock.with(send).map(shared(n))
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
            Err(e) => return Err(Failed::keeping(e, Owned::Recv(buf))),
        };
        self.store.engine(n).lock.with(|v| v.irecv(buf, source, tag, comm)).map(shared(n))
    }

    fn of(&self, req: &SharedRequest) -> &Engine {
        self.store.engine(req.engine)
    }

    /// Waits for a request. A receive from any source that failures keep from finishing is
    /// cancelled; see [`Device::wait_on`].
    ///
    /// # Errors
    /// Of the message: truncated, or its peer lost;
    /// [`Error::PendingFailed`](crate::Error::PendingFailed). A receive's buffer and a send's data
    /// are given back with it.
    pub fn wait(&self, mut req: SharedRequest) -> Ended {
        if let Err(e) = self.store.check_origin() {
            return self.fail(req, e);
        }
        // Nothing of such a request waits to be flushed.
        if let Some(done) = req.req.over() {
            return Ok(done);
        }
        let ended = self.of(&req).wait(req.req.raw(), |v| v.settle(req.req.take()));
        ended.unwrap_or_else(|e| self.fail(req, e))
    }

    /// The result of a request whose call has failed as a whole: its own if it is settled, else the
    /// call's.
    #[cold]
    fn fail(&self, mut req: SharedRequest, error: Error) -> Ended {
        // A forked child cannot have the lock: another thread of its parent may hold it.
        if self.store.check_origin().is_err() {
            return Err(Failed::keeping(error, req.req.end()));
        }
        self.store.engine(req.engine).lock.with(|v| v.fail(req.req, error))
    }

    /// Works like [`Device::wait`], with a request that is lent: after
    /// [`Error::PendingFailed`](crate::Error::PendingFailed) it stays posted, and can be waited for
    /// again when the failure was acknowledged ([`Device::ack_failures`]). Otherwise it is done
    /// with, and a further wait returns nothing.
    ///
    /// # Errors
    /// As [`Device::wait`].
    pub fn wait_on(&self, req: &mut SharedRequest) -> Ended {
        self.of(req).wait(req.req.raw(), |v| v.settle(&mut req.req)).unwrap_or_else(|e| Err(Failed::call(e)))
    }

    /// The processes that have failed, as far as one of the engines knows; see
    /// [`crate::Vci::failed`].
    pub fn failed(&self) -> Vec<Failure> {
        self.failures(|v| v.failed())
    }

    /// Acknowledges all failures known so far; returns those that had not been acknowledged before.
    /// See [`crate::Vci::ack_failures`].
    pub fn ack_failures(&self) -> Vec<Failure> {
        self.failures(|v| v.ack_failures())
    }

    /// Collects the failures of all engines, each process once.
    fn failures(&self, of: impl Fn(&mut Vci) -> Vec<Failure>) -> Vec<Failure> {
        let mut all: Vec<Failure> = self.store.engines.iter().flat_map(|e| e.lock.with(&of)).collect();
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
        self.store.engines.iter().try_for_each(|e| e.lock.with(|v| v.reconnect(rank)))
    }

    /// Returns true if a request is finished, as far as is known without a lock and without
    /// progress. If it says yes, a wait does not block.
    pub fn is_finished(&self, req: &SharedRequest) -> bool {
        self.of(req).is_finished(req.req.raw())
    }

    /// One step of progress, unless another thread makes it; then the result if the request is
    /// finished, else the request again.
    ///
    /// # Errors
    /// Of the message, or of a netmod.
    pub fn test(
        &self,
        req: SharedRequest,
    ) -> std::result::Result<std::result::Result<Completion, SharedRequest>, Box<Failed>> {
        match self.of(&req).test(req.req.raw()) {
            Ok(true) => self.wait(req).map(Ok),
            Ok(false) => Ok(Err(req)),
            Err(e) => self.fail(req, e).map(Ok),
        }
    }

    /// Waits for all requests; results in their order.
    ///
    /// # Errors
    /// If some have failed: all results, with the buffers. All are finished all the same: if a
    /// netmod fails as a whole, with that error.
    pub fn wait_all(
        &self,
        reqs: impl IntoIterator<Item = SharedRequest>,
    ) -> std::result::Result<Vec<Completion>, SomeFailed> {
        let mut reqs: Vec<SharedRequest> = reqs.into_iter().collect();
        let mut results = Vec::with_capacity(reqs.len());
        for row in reqs.chunk_by_mut(|a, b| a.engine == b.engine) {
            let before = results.len();
            if let Err(e) = self.wait_row(row, &mut results) {
                let rest = row.iter_mut().skip(results.len() - before);
                results.extend(rest.map(|r| self.fail(r.take(), e.clone())));
            }
        }
        let all = SomeFailed::unless_all(results.into_iter().enumerate().collect())?;
        Ok(all.map(|(_, done)| done).collect())
    }

    /// Waits for requests of one engine, with few turns at its lock: the thread is called once,
    /// when the last of them is finished, and takes the results of all that are finished by then.
    fn wait_row(&self, row: &mut [SharedRequest], results: &mut Vec<Ended>) -> Result<()> {
        let Some(last) = row.last() else { return Ok(()) };
        let (engine, mut next) = (self.of(last), Some(last.req.raw()));
        let mut left = row.iter_mut().peekable();
        let mut take = |v: &mut Vci| {
            while let Some(r) = left.next_if(|r| v.is_settled(r.req.raw())) {
                results.push(v.settle(r.req.take()));
            }
            left.peek().map(|r| r.req.raw())
        };
        while let Some(raw) = next {
            next = engine.wait(raw, &mut take)?;
        }
        Ok(())
    }

    /// One step of progress; then the results if all requests are finished, else the requests
    /// again.
    ///
    /// # Errors
    /// As [`Device::wait_all`].
    pub fn test_all(
        &self,
        reqs: Vec<SharedRequest>,
    ) -> std::result::Result<std::result::Result<Vec<Completion>, Vec<SharedRequest>>, SomeFailed> {
        for r in &reqs {
            match self.of(r).test(r.req.raw()) {
                Ok(true) => {}
                Ok(false) => return Ok(Err(reqs)),
                // The wait fails, too, but for those that are finished.
                Err(_) => break,
            }
        }
        self.wait_all(reqs).map(Ok)
    }

    /// Waits until one of the requests is finished, and takes it out of the list. `None` if there
    /// is none to wait for: requests that a wait has used up already are passed over, and stay in
    /// the list.
    ///
    /// Requests of different engines are tested in turn, with pauses of up to 1 ms in between.
    ///
    /// # Errors
    /// Of that message; if a netmod fails as a whole, that error for one of them.
    /// [`Error::PendingFailed`](crate::Error::PendingFailed) if none is finished and one is a
    /// receive from any source that failures keep from finishing; it stays in the list, unless the
    /// requests are of different engines, when it is cancelled.
    pub fn wait_any(
        &self,
        reqs: &mut Vec<SharedRequest>,
    ) -> std::result::Result<Option<(usize, Completion)>, Box<Failed>> {
        let (i, done) = match self.take_any(reqs) {
            None => return Ok(None),
            Some((i, Ok(done))) => (i, done),
            Some((i, Err(e))) => (i, self.fail(reqs.remove(i), e)),
        };
        done.map(|done| Some((i, done))).map_err(|failed| failed.at(i))
    }

    /// Waits for one of the requests, and takes it out of the list; its index and result. The outer
    /// error is the call's, and leaves the list as it is; the index is that of a request that is
    /// not finished.
    fn take_any(&self, reqs: &mut Vec<SharedRequest>) -> Option<(usize, Result<Ended>)> {
        let first = reqs.iter().position(|r| !r.req.raw().is_null())?;
        let number = reqs[first].engine;
        let under_way = |r: &SharedRequest| !r.req.raw().is_null();
        if reqs.iter().filter(|r| under_way(r)).all(|r| r.engine == number) {
            let raws: Arc<[RawReq]> = reqs.iter().map(|r| r.req.raw()).collect();
            let all = Arc::clone(&raws);
            let done = self.store.engine(number).wait_any(raws, |v| {
                let i = v.first_settled(all.iter().copied())?;
                Some((i, v.settle(&mut reqs[i].req)))
            });
            let (i, done) = match done {
                Ok(done) => done?,
                Err(e) => return Some((first, Err(e))),
            };
            if reqs[i].req.raw().is_null() {
                let _used_up = reqs.remove(i);
            }
            return Some((i, Ok(done)));
        }
        let mut pause = PAUSES.0;
        loop {
            for i in 0..reqs.len() {
                if !under_way(&reqs[i]) {
                    continue;
                }
                match self.of(&reqs[i]).test(reqs[i].req.raw()) {
                    Ok(true) => {
                        let req = reqs.remove(i);
                        return Some((i, Ok(self.wait(req))));
                    }
                    Ok(false) => {}
                    Err(e) => return Some((i, Err(e))),
                }
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Waits until at least one request is finished; takes all finished ones out of the list, and
    /// returns each with its index there. Nothing if there is none to wait for, see
    /// [`Device::wait_any`].
    ///
    /// # Errors
    /// If some of them have failed: the results of all that were taken out of the list, with the
    /// buffers. If a netmod fails as a whole these are all requests.
    pub fn wait_some(
        &self,
        reqs: &mut Vec<SharedRequest>,
    ) -> std::result::Result<Vec<(usize, Completion)>, SomeFailed> {
        let all = reqs.len();
        let (mut results, call) = match self.take_any(reqs) {
            None => return Ok(Vec::new()),
            Some((i, Ok(done))) => (vec![(i, done)], Ok(())),
            Some((_, Err(e))) => (Vec::new(), Err(e)),
        };
        let taken = results.first().map(|(i, _)| *i).filter(|_| reqs.len() < all);
        let mut places = (0..all).filter(|place| Some(*place) != taken);
        for req in std::mem::take(reqs) {
            let place = places.next().unwrap_or(all);
            if req.req.raw().is_null() || (call.is_ok() && !self.is_finished(&req)) {
                reqs.push(req);
            } else {
                let result = match &call {
                    Ok(()) => self.wait(req),
                    Err(e) => self.fail(req, e.clone()),
                };
                results.push((place, result));
            }
        }
        results.sort_by_key(|(place, _)| *place);
        SomeFailed::unless_all(results).map(Iterator::collect)
    }

    /// Asks for a request to be cancelled; wait for it to learn whether it was.
    pub fn cancel(&self, req: &SharedRequest) {
        if self.store.check_origin().is_err() {
            return;
        }
        self.of(req).lock.with(|v| v.cancel_raw(req.req.raw()));
    }

    /// Returns true if a message has arrived that a receive with these arguments would match
    /// (`MPI_Iprobe`). Another thread may receive it first; see [`Device::improbe`].
    ///
    /// # Errors
    /// A bad rank or tag; a netmod that failed.
    pub fn iprobe(&self, source: i32, tag: i32, comm: Comm) -> Result<Option<Status>> {
        let n = self.store.number(comm)?;
        self.store.engine(n).lock.with(|v| v.iprobe(source, tag, comm))
    }

    /// Waits for such a message (`MPI_Probe`).
    ///
    /// # Errors
    /// As [`Device::iprobe`]; besides, if the source is lost.
    pub fn probe(&self, source: i32, tag: i32, comm: Comm) -> Result<Status> {
        let n = self.store.number(comm)?;
        let e = self.store.engine(n);
        loop {
            let (found, seen) = e.lock.with(|v| (v.iprobe(source, tag, comm), v.seen(source, tag, comm)));
            if let Some(status) = found? {
                return Ok(status);
            }
            e.wait_news(seen?)?;
        }
    }

    /// Works like [`Device::iprobe`]; the message is matched, so that this thread alone can receive
    /// it, with [`Device::imrecv`] (`MPI_Improbe`).
    ///
    /// # Errors
    /// As [`Device::iprobe`].
    pub fn improbe(&self, source: i32, tag: i32, comm: Comm) -> Result<Option<SharedMessage>> {
        let n = self.store.number(comm)?;
        let found = self.store.engine(n).lock.with(|v| v.improbe(source, tag, comm))?;
        Ok(found.map(|message| SharedMessage { message, engine: n }))
    }

    /// Works like [`Device::improbe`], waiting (`MPI_Mprobe`).
    ///
    /// # Errors
    /// As [`Device::probe`].
    pub fn mprobe(&self, source: i32, tag: i32, comm: Comm) -> Result<SharedMessage> {
        let n = self.store.number(comm)?;
        let e = self.store.engine(n);
        loop {
            let (found, seen) = e.lock.with(|v| (v.improbe(source, tag, comm), v.seen(source, tag, comm)));
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
            return SharedRequest { req: Request::nothing(Owned::Recv(buf)), engine: msg.engine };
        }
        shared(msg.engine)(self.store.engine(msg.engine).lock.with(|v| v.imrecv(buf, msg.message)))
    }
}
