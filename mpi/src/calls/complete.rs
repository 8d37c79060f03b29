//! Waits and tests: one request, all, any or some of several.

use std::sync::Arc;

use ch3_shim::Vci;

use crate::consts::UNDEFINED;
use crate::error::{Class, MpiError, Result};
use crate::greq::Generalized;
use crate::handle::Request;
use crate::instance::{Mpi, State};
use crate::request::{Ended, Kind, is_nothing, status_of_nothing};
use crate::status::Status;

/// Seconds that a function of the program waits for a request, before others go on.
const TURN: f64 = 1e-3;

/// A generalized request for which a wait calls a function of the program.
enum Asked {
    /// It is to be waited for.
    Wait(Arc<Generalized>),
    /// It is over.
    End(Arc<Generalized>),
}

/// The failures among several requests.
#[derive(Default)]
struct Failures {
    count: usize,
    /// The first of them, with its index.
    first: Option<(usize, Box<MpiError>)>,
}

impl Failures {
    /// Reports a result, and notes it if it is a failure.
    fn tell(
        &mut self,
        index: usize,
        result: Result<Status>,
        report: &mut impl FnMut(usize, Status, Option<&MpiError>),
    ) {
        match result {
            Ok(status) => report(index, status, None),
            Err(e) => {
                report(index, Status::of_failure(&e), Some(&e));
                self.count += 1;
                self.first.get_or_insert((index, e));
            }
        }
    }

    /// Returns the error of the call.
    fn result(self) -> Result<()> {
        let Some((i, e)) = self.first else { return Ok(()) };
        let text = format!("{} of the requests have failed; request {i}: {}", self.count, e.text);
        Err(Box::new(MpiError { comm: e.comm, ..*MpiError::new(Class::IN_STATUS, text) }))
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
        let mut checked = false;
        loop {
            let ended = self.wait_until(|vci, objects, known| {
                if let Some(status) = known.end_plain(vci, &objects.comms, request) {
                    return Some(Ok(Ok(Ended::Now(Ok(status)))));
                }
                if !std::mem::replace(&mut checked, true) {
                    if let Err(e) = known.check(*request) {
                        return Some(Err(e));
                    }
                    if let Some(waited) = known.waited(*request) {
                        return Some(Ok(Err(waited)));
                    }
                }
                known.is_settled(vci, *request).then(|| Ok(Ok(known.end(vci, &objects.comms, request))))
            })?;
            match ended {
                Ok(ended) => return ended.result(),
                Err(waited) => self.wait_by_function(&waited)?,
            }
        }
    }

    /// Waits for a request by the program's function, while everything else goes on now and then.
    fn wait_by_function(&self, request: &Generalized) -> Result<()> {
        while !request.is_complete() {
            request.wait(TURN);
            self.progress()?;
        }
        Ok(())
    }

    /// Tests a request (`MPI_Test`). Returns the status or the failure of its operation if that is
    /// over; the request is null then, or inactive.
    ///
    /// # Errors
    /// A bad request; a failure that keeps its operation from finishing.
    pub fn test(&self, request: &mut Request) -> Result<Option<Result<Status>>> {
        self.with(|s| s.requests.check(*request))?;
        let ended = self.test_until(|vci, objects, known| {
            let settled = known.is_settled(vci, *request);
            settled.then(|| {
                let goes_on = !known.is_over(vci, *request);
                Ok((goes_on, known.end(vci, &objects.comms, request)))
            })
        })?;
        match ended {
            None => Ok(None),
            Some((true, ended)) => ended.result().map(|status| Some(Ok(status))),
            Some((false, ended)) => Ok(Some(ended.result())),
        }
    }

    pub(crate) fn check_requests(&self, requests: &[Request]) -> Result<()> {
        self.with(|s| s.requests.check_all(requests))
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
            let State { dev, objects, requests: known } = s;
            Ok(which.map(|i| (i, known.end(dev, &objects.comms, &mut requests[i]))).collect())
        })?;
        let mut failures = Failures::default();
        for (i, ended) in ended {
            failures.tell(i, ended.result(), &mut report);
        }
        failures.result()
    }

    /// Waits for all requests (`MPI_Waitall`), and reports each: its index, its status, and its
    /// error if it has failed.
    ///
    /// # Errors
    /// A bad request, before anything is reported; [`Class::IN_STATUS`] if an operation has failed.
    pub fn waitall(
        &self,
        requests: &mut [Request],
        mut report: impl FnMut(usize, Status, Option<&MpiError>),
    ) -> Result<()> {
        let (mut checked, mut failures) = (false, Failures::default());
        // Each is ended as soon as those before it are, while the next are under way.
        let mut next = 0;
        // A request that a function of the program waits for, and that was not asked for yet.
        let mut unasked = 0;
        loop {
            let asked = self.wait_until(|vci, objects, known| {
                if !std::mem::replace(&mut checked, true)
                    && let Err(e) = known.check_all(requests)
                {
                    return Some(Err(e));
                }
                let comms = &objects.comms;
                while let Some(request) = requests.get_mut(next) {
                    if is_nothing(*request) {
                        report(next, status_of_nothing(std::mem::replace(request, Request::NULL)), None);
                    } else if let Some(status) = known.end_plain(vci, comms, request) {
                        report(next, status, None);
                    } else if !known.is_settled(vci, *request) {
                        let first = std::mem::replace(&mut unasked, next + 1) <= next;
                        let waited = if first { known.waited(*request) } else { None };
                        return waited.map(|waited| Ok(Some(Asked::Wait(waited))));
                    } else {
                        match known.end(vci, comms, request) {
                            Ended::Now(result) => failures.tell(next, result, &mut report),
                            Ended::Ask(ended) => return Some(Ok(Some(Asked::End(ended)))),
                        }
                    }
                    next += 1;
                }
                Some(Ok(None))
            })?;
            // The program's functions are called without the lock.
            match asked {
                None => return failures.result(),
                Some(Asked::Wait(waited)) => self.wait_by_function(&waited)?,
                Some(Asked::End(ended)) => {
                    failures.tell(next, ended.end(), &mut report);
                    next += 1;
                }
            }
        }
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
        let settled = self.test_until(|vci, _, known| {
            requests.iter().all(|r| known.is_settled(vci, *r)).then_some(Ok(()))
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
        let (index, ended) =
            self.wait_until(|vci, o, known| known.end_any(vci, &o.comms, requests).map(Ok))?;
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
        let ended = self.test_until(|vci, o, known| known.end_any(vci, &o.comms, requests).map(Ok))?;
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
        let which = self.wait_until(|vci, _, known| known.settled(vci, requests).map(Ok))?;
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
        match self.test_until(|vci, _, known| known.settled(vci, requests).map(Ok))? {
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
            s.requests.check(*request)?;
            let vci: &mut Vci = &mut s.dev;
            let entry = s.requests.table.get_mut(*request)?;
            if !entry.kind.let_go(vci) {
                entry.freed = true;
                return Ok(None);
            }
            Ok(match s.requests.table.remove(*request)?.kind {
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
            s.requests.check(*request)?;
            let entry = s.requests.table.get(*request)?;
            entry.kind.cancel(&mut s.dev)?;
            Ok(match &entry.kind {
                Kind::Generalized(g) => Some(Arc::clone(g)),
                _ => None,
            })
        })?;
        generalized.map_or(Ok(()), |g| g.cancel())
    }
}
