//! Waits and tests: one request, all, any or some of several.

use std::sync::Arc;

use ch3_shim::Vci;

use crate::comm::CommCore;
use crate::consts::UNDEFINED;
use crate::error::{Class, MpiError, Result};
use crate::greq::Generalized;
use crate::handle::Request;
use crate::instance::{Mpi, Objects};
use crate::request::Kind;
use crate::status::{Status, failure};

/// The result of an operation, as far as it is known under the lock.
pub(crate) enum Ended {
    /// The result.
    Now(Result<Status>),
    /// The program's function tells it.
    Ask(Arc<Generalized>),
}

impl Ended {
    /// Returns the result; nothing may be locked.
    fn result(self) -> Result<Status> {
        match self {
            Ended::Now(result) => result,
            Ended::Ask(generalized) => generalized.end(),
        }
    }
}

/// Returns true if there is nothing to wait for.
#[inline]
pub(crate) fn is_nothing(request: Request) -> bool {
    request.is_null() || request == Request::COMPLETE || request == Request::FROM_NOBODY
}

/// Returns the status of a request that is nothing to wait for.
#[inline]
pub(crate) fn status_of_nothing(request: Request) -> Status {
    if request == Request::FROM_NOBODY { Status::OF_NOBODY } else { Status::EMPTY }
}

impl Objects {
    /// Checks that a request exists.
    pub(crate) fn check_request(&self, request: Request) -> Result<()> {
        if is_nothing(request) {
            return Ok(());
        }
        let entry = self.requests.table.get(request)?;
        if entry.freed {
            let text = format!("request {:#010x} was freed; it cannot be waited for", request.0);
            return Err(entry.kind.raised(MpiError::new(Class::REQUEST, text)));
        }
        Ok(())
    }

    /// Returns true if a wait for this request is over. One that does not exist is: another thread
    /// has used it up.
    #[inline]
    pub(crate) fn is_settled(&self, vci: &Vci, request: Request) -> bool {
        is_nothing(request)
            || self.requests.table.find(request).is_none_or(|entry| entry.kind.is_settled(vci))
    }

    /// Returns true if a wait for any of several requests passes this one over.
    fn is_passed_over(&self, request: Request) -> bool {
        request.is_null() || self.requests.table.find(request).is_some_and(|entry| entry.kind.is_inactive())
    }

    /// Ends a request that is settled: takes its result, and sets it to null unless it is
    /// persistent or goes on.
    fn end(&mut self, vci: &mut Vci, request: &mut Request) -> Ended {
        if is_nothing(*request) {
            return Ended::Now(Ok(status_of_nothing(std::mem::replace(request, Request::NULL))));
        }
        let Some(entry) = self.requests.table.find_mut(*request) else {
            return Ended::Now(Err(crate::handle::invalid(*request)));
        };
        if let Kind::Persistent(p) = &mut entry.kind {
            return Ended::Now(p.end(vci));
        }
        if let Some(e) = entry.kind.why_pending(vci) {
            return Ended::Now(Err(e));
        }
        let Ok(entry) = self.requests.table.remove(std::mem::replace(request, Request::NULL)) else {
            return Ended::Now(Ok(Status::EMPTY));
        };
        match entry.kind {
            Kind::Generalized(g) => Ended::Ask(g),
            kind => Ended::Now(kind.result(vci)),
        }
    }
}

impl Mpi {
    /// Waits for a request (`MPI_Wait`). It is null afterwards, or inactive.
    ///
    /// # Errors
    /// A bad request; the failure of its operation.
    pub fn wait(&self, request: &mut Request) -> Result<Status> {
        if is_nothing(*request) {
            return Ok(status_of_nothing(std::mem::replace(request, Request::NULL)));
        }
        self.with(|s| s.objects.check_request(*request))?;
        let ended = self.wait_until(|vci, objects| {
            let settled = objects.is_settled(vci, *request);
            settled.then(|| Ok(objects.end(vci, request)))
        })?;
        ended.result()
    }

    /// Tests a request (`MPI_Test`). Returns true and the status if it is over.
    ///
    /// # Errors
    /// As [`Mpi::wait`].
    pub fn test(&self, request: &mut Request) -> Result<(bool, Status)> {
        self.with(|s| s.objects.check_request(*request))?;
        let ended = self.test_until(|vci, objects| {
            let settled = objects.is_settled(vci, *request);
            settled.then(|| Ok(objects.end(vci, request)))
        })?;
        match ended {
            Some(ended) => ended.result().map(|status| (true, status)),
            None => Ok((false, Status::EMPTY)),
        }
    }

    pub(crate) fn check_requests(&self, requests: &[Request]) -> Result<()> {
        self.with(|s| {
            requests.iter().enumerate().try_for_each(|(i, r)| {
                s.objects.check_request(*r).map_err(|e| e.about(&format!("request {i}")))
            })
        })
    }

    /// Ends these requests, which are settled, and reports each with its index.
    ///
    /// # Errors
    /// [`Class::IN_STATUS`] if one has failed.
    fn end_all(
        &self,
        requests: &mut [Request],
        which: impl Iterator<Item = usize>,
        mut report: impl FnMut(usize, Status, Option<&MpiError>),
    ) -> Result<()> {
        let ended: Vec<(usize, Ended)> = self.with(|s| {
            let vci: &mut Vci = &mut s.dev;
            Ok(which.map(|i| (i, s.objects.end(vci, &mut requests[i]))).collect())
        })?;
        let (mut failed, mut first) = (0, None);
        for (i, ended) in ended {
            match ended.result() {
                Ok(status) => report(i, status, None),
                Err(e) => {
                    report(i, Status::of_failure(&e), Some(&e));
                    failed += 1;
                    first.get_or_insert((i, e));
                }
            }
        }
        match first {
            None => Ok(()),
            Some((i, e)) => {
                let text = format!("{failed} of the requests have failed; request {i}: {}", e.text);
                Err(Box::new(MpiError { comm: e.comm, ..*MpiError::new(Class::IN_STATUS, text) }))
            }
        }
    }

    /// Waits for all requests (`MPI_Waitall`), and reports each: its index, its status, and its
    /// error if it has failed.
    ///
    /// # Errors
    /// A bad request, before anything is reported; [`Class::IN_STATUS`] if an operation has failed.
    pub fn waitall(
        &self,
        requests: &mut [Request],
        report: impl FnMut(usize, Status, Option<&MpiError>),
    ) -> Result<()> {
        self.check_requests(requests)?;
        // Those at the front are not asked again.
        let mut first = 0;
        self.wait_until(|vci, objects| {
            while requests.get(first).is_some_and(|r| objects.is_settled(vci, *r)) {
                first += 1;
            }
            (first == requests.len()).then_some(Ok(()))
        })?;
        let all = 0..requests.len();
        self.end_all(requests, all, report)
    }

    /// Tests all requests (`MPI_Testall`). Returns true and reports each if all are over.
    ///
    /// # Errors
    /// As [`Mpi::waitall`].
    pub fn testall(
        &self,
        requests: &mut [Request],
        report: impl FnMut(usize, Status, Option<&MpiError>),
    ) -> Result<bool> {
        self.check_requests(requests)?;
        let settled = self.test_until(|vci, objects| {
            requests.iter().all(|r| objects.is_settled(vci, *r)).then_some(Ok(()))
        })?;
        if settled.is_none() {
            return Ok(false);
        }
        let all = 0..requests.len();
        self.end_all(requests, all, report).map(|()| true)
    }

    /// Waits for one of several requests (`MPI_Waitany`), which is used up. Returns its index, and
    /// its status or the failure of its operation; [`UNDEFINED`] if there is none to wait for.
    ///
    /// # Errors
    /// A bad request; if the device fails as a whole.
    pub fn waitany(&self, requests: &mut [Request]) -> Result<(i32, Result<Status>)> {
        self.check_requests(requests)?;
        let (index, ended) = self.wait_until(|vci, objects| objects.end_any(vci, requests).map(Ok))?;
        Ok((index, ended.result()))
    }

    /// Tests for one of several requests (`MPI_Testany`).
    ///
    /// Returns as [`Mpi::waitany`]; `None` if none is over.
    ///
    /// # Errors
    /// As [`Mpi::waitany`].
    pub fn testany(&self, requests: &mut [Request]) -> Result<Option<(i32, Result<Status>)>> {
        self.check_requests(requests)?;
        let ended = self.test_until(|vci, objects| objects.end_any(vci, requests).map(Ok))?;
        Ok(ended.map(|(index, ended)| (index, ended.result())))
    }

    /// Waits until at least one of several requests is over (`MPI_Waitsome`), and reports all that
    /// are. Returns their number; [`UNDEFINED`] if there is none to wait for.
    ///
    /// # Errors
    /// As [`Mpi::waitall`].
    pub fn waitsome(
        &self,
        requests: &mut [Request],
        report: impl FnMut(usize, Status, Option<&MpiError>),
    ) -> Result<i32> {
        self.check_requests(requests)?;
        let which = self.wait_until(|vci, objects| objects.settled(vci, requests).map(Ok))?;
        self.end_some(requests, which, report)
    }

    /// Works like [`Mpi::waitsome`], after one step of progress instead of waiting
    /// (`MPI_Testsome`).
    ///
    /// # Errors
    /// As [`Mpi::waitall`].
    pub fn testsome(
        &self,
        requests: &mut [Request],
        report: impl FnMut(usize, Status, Option<&MpiError>),
    ) -> Result<i32> {
        self.check_requests(requests)?;
        match self.test_until(|vci, objects| objects.settled(vci, requests).map(Ok))? {
            Some(which) => self.end_some(requests, which, report),
            None => Ok(0),
        }
    }

    fn end_some(
        &self,
        requests: &mut [Request],
        which: Option<Vec<usize>>,
        report: impl FnMut(usize, Status, Option<&MpiError>),
    ) -> Result<i32> {
        let Some(which) = which else { return Ok(UNDEFINED) };
        let count = which.len() as i32;
        self.end_all(requests, which.into_iter(), report).map(|()| count)
    }

    /// Gives a request up, whose operation ends by itself, and sets it to null
    /// (`MPI_Request_free`).
    ///
    /// # Errors
    /// A bad or null request; that of the function of a generalized request.
    pub fn request_free(&self, request: &mut Request) -> Result<()> {
        if !request.is_null() && is_nothing(*request) {
            *request = Request::NULL;
            return Ok(());
        }
        let generalized = self.with(|s| {
            s.objects.check_request(*request)?;
            let vci: &mut Vci = &mut s.dev;
            let entry = s.objects.requests.table.get_mut(*request)?;
            if !entry.kind.let_go(vci) {
                entry.freed = true;
                return Ok(None);
            }
            Ok(match s.objects.requests.table.remove(*request)?.kind {
                Kind::Generalized(g) => Some(g),
                _ => None,
            })
        })?;
        *request = Request::NULL;
        generalized.map_or(Ok(()), |g| g.free())
    }

    /// Asks for an operation to be cancelled (`MPI_Cancel`). Its status says whether it was.
    ///
    /// # Errors
    /// A bad or null request, or one that cannot be cancelled.
    pub fn cancel(&self, request: &mut Request) -> Result<()> {
        if !request.is_null() && is_nothing(*request) {
            return Ok(());
        }
        let generalized = self.with(|s| {
            s.objects.check_request(*request)?;
            let entry = s.objects.requests.table.get(*request)?;
            entry.kind.cancel(&mut s.dev)?;
            Ok(match &entry.kind {
                Kind::Generalized(g) => Some(Arc::clone(g)),
                _ => None,
            })
        })?;
        generalized.map_or(Ok(()), |g| g.cancel())
    }
}

impl Objects {
    /// Ends the first of several requests that is over; failing that, the first that a failure
    /// keeps from finishing. `None` if a wait for them goes on; the index is [`UNDEFINED`] if there
    /// is none to wait for.
    fn end_any(&mut self, vci: &mut Vci, requests: &mut [Request]) -> Option<(i32, Ended)> {
        let (mut active, mut found) = (false, None);
        for (i, request) in requests.iter().enumerate() {
            if self.is_passed_over(*request) {
                continue;
            }
            active = true;
            if self.is_over(vci, *request) {
                found = Some(i);
                break;
            }
            if found.is_none() && self.is_settled(vci, *request) {
                found = Some(i);
            }
        }
        match found {
            Some(i) => Some((i32::try_from(i).unwrap_or(i32::MAX), self.end(vci, &mut requests[i]))),
            None if active => None,
            None => Some((UNDEFINED, Ended::Now(Ok(Status::EMPTY)))),
        }
    }

    fn is_over(&self, vci: &Vci, request: Request) -> bool {
        is_nothing(request) || self.requests.table.find(request).is_none_or(|entry| entry.kind.is_over(vci))
    }

    /// Returns the indices of the requests that are over, or of one that a failure keeps from
    /// finishing if none is. `None` if a wait for them goes on; `Some(None)` if there is none to
    /// wait for.
    pub(crate) fn settled(&self, vci: &Vci, requests: &[Request]) -> Option<Option<Vec<usize>>> {
        let active = |i: &usize| !self.is_passed_over(requests[*i]);
        let all = || (0..requests.len()).filter(active);
        let mut which: Vec<usize> = all().filter(|i| self.is_over(vci, requests[*i])).collect();
        if which.is_empty() {
            which.extend(all().find(|i| self.is_settled(vci, requests[*i])));
        }
        match which.is_empty() {
            false => Some(Some(which)),
            true if all().next().is_some() => None,
            true => Some(None),
        }
    }
}

impl Kind {
    /// Returns the reason for which a wait ends although the operation goes on; `None` if it is
    /// over.
    pub(crate) fn why_pending(&self, vci: &Vci) -> Option<Box<MpiError>> {
        let why = |raw: ch3_shim::RawReq, core: &CommCore| {
            let error = if vci.is_finished(raw) { None } else { vci.pending_failure(raw) };
            error.map(|e| failure(e, core))
        };
        match self {
            Kind::Send(raw, core) | Kind::Recv(raw, core) => why(*raw, core),
            Kind::Replace(send, recv, core) => why(*recv, core).or_else(|| why(send.raw(), core)),
            Kind::Both(send, recv, core) => why(*recv, core).or_else(|| why(*send, core)),
            _ => None,
        }
    }
}
