//! Looking at requests that are not used up by it.

use crate::consts::UNDEFINED;
use crate::error::Result;
use crate::handle::Request;
use crate::instance::{Mpi, State};
use crate::request::Ended;
use crate::status::Status;

impl Mpi {
    /// Returns the status or the failure of a request's operation if that is over. The request is
    /// not used up (`MPI_Request_get_status`).
    ///
    /// # Errors
    /// A bad request; a failure that keeps its operation from finishing.
    pub fn request_get_status(&self, request: Request) -> Result<Option<Result<Status>>> {
        self.with(|s| s.requests.check(request))?;
        let seen = self.test_until(|vci, objects, known| {
            let settled = known.is_settled(vci, request);
            settled.then(|| Ok((!known.is_over(vci, request), known.peek(vci, &objects.comms, request))))
        })?;
        let Some((goes_on, seen)) = seen else { return Ok(None) };
        let result = match seen {
            Ended::Now(result) => result,
            Ended::Ask(g) => g.query(),
        };
        if goes_on { result.map(|status| Some(Ok(status))) } else { Ok(Some(result)) }
    }

    /// Returns true if a request's operation is over, as far as that is known without progress
    /// (`MPIX_Request_is_complete`). One that does not exist is over.
    pub fn request_is_complete(&self, request: Request) -> bool {
        self.with(|s| Ok(s.requests.is_settled(&s.dev, request))).unwrap_or(true)
    }

    /// Returns true if all requests are over, and reports each, which is not used up
    /// (`MPI_Request_get_status_all`).
    ///
    /// # Errors
    /// A bad request; the first failure of an operation.
    pub fn request_get_status_all(
        &self,
        requests: &[Request],
        report: impl FnMut(usize, Status),
    ) -> Result<bool> {
        self.check_requests(requests)?;
        let all = self.test_until(|vci, _, known| {
            requests.iter().all(|r| known.is_settled(vci, *r)).then_some(Ok(()))
        })?;
        if all.is_none() {
            return Ok(false);
        }
        self.peek_at(requests, 0..requests.len(), report).map(|()| true)
    }

    /// Looks for a request that is over (`MPI_Request_get_status_any`). Returns its index, true and
    /// its status; the index [`UNDEFINED`] and true if there is none to wait for.
    ///
    /// # Errors
    /// As [`Mpi::request_get_status_all`].
    pub fn request_get_status_any(&self, requests: &[Request]) -> Result<(i32, bool, Status)> {
        self.check_requests(requests)?;
        let which = self.test_until(|vci, _, known| known.settled(vci, requests).map(Ok))?;
        let Some(which) = which else { return Ok((UNDEFINED, false, Status::EMPTY)) };
        let Some(first) = which.and_then(|which| which.first().copied()) else {
            return Ok((UNDEFINED, true, Status::EMPTY));
        };
        let mut seen = Status::EMPTY;
        self.peek_at(requests, std::iter::once(first), |_, status| seen = status)?;
        Ok((i32::try_from(first).unwrap_or(i32::MAX), true, seen))
    }

    /// Reports the requests that are over (`MPI_Request_get_status_some`). Returns their number;
    /// [`UNDEFINED`] if there is none to wait for.
    ///
    /// # Errors
    /// As [`Mpi::request_get_status_all`].
    pub fn request_get_status_some(
        &self,
        requests: &[Request],
        report: impl FnMut(usize, Status),
    ) -> Result<i32> {
        self.check_requests(requests)?;
        let which = self.test_until(|vci, _, known| known.settled(vci, requests).map(Ok))?;
        let Some(which) = which else { return Ok(0) };
        let Some(which) = which else { return Ok(UNDEFINED) };
        let count = which.len() as i32;
        self.peek_at(requests, which.into_iter(), report).map(|()| count)
    }

    fn peek_at(
        &self,
        requests: &[Request],
        which: impl Iterator<Item = usize>,
        mut report: impl FnMut(usize, Status),
    ) -> Result<()> {
        let seen: Vec<(usize, Ended)> = self.with(|s| {
            let State { dev, objects, requests: known } = s;
            Ok(which.map(|i| (i, known.peek(dev, &objects.comms, requests[i]))).collect())
        })?;
        for (i, seen) in seen {
            let status = match seen {
                Ended::Now(result) => result,
                Ended::Ask(generalized) => generalized.query(),
            };
            let status = status.map_err(|e| e.about(&format!("request {i}")))?;
            report(i, status);
        }
        Ok(())
    }
}
