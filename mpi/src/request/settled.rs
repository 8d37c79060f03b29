//! Requests in waits and tests: which ones are over, and with which result.

use std::sync::Arc;

use ch3_shim::{RawReq, Vci};

use super::{Kind, Requests};
use crate::comm::{CommCore, Comms};
use crate::consts::UNDEFINED;
use crate::error::{Class, MpiError, Result};
use crate::greq::Generalized;
use crate::handle::{Request, invalid};
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
    pub(crate) fn result(self) -> Result<Status> {
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

impl Requests {
    /// Checks that a request exists.
    pub(crate) fn check(&self, request: Request) -> Result<()> {
        if is_nothing(request) {
            return Ok(());
        }
        let entry = self.table.get(request)?;
        if entry.freed {
            let text = format!("request {:#010x} was freed; it cannot be waited for", request.0);
            return Err(entry.kind.raised(MpiError::new(Class::REQUEST, text)));
        }
        Ok(())
    }

    /// Checks that several requests exist.
    pub(crate) fn check_all(&self, requests: &[Request]) -> Result<()> {
        let each = |(i, request): (usize, &Request)| {
            self.check(*request).map_err(|e| e.about(&format!("request {i}")))
        };
        requests.iter().enumerate().try_for_each(each)
    }

    /// Returns the operation of a request that is not over and that a function of the program waits
    /// for.
    pub(crate) fn waited(&self, request: Request) -> Option<Arc<Generalized>> {
        match &self.table.find(request)?.kind {
            Kind::Generalized(g) if g.has_waiter() && !g.is_complete() => Some(Arc::clone(g)),
            _ => None,
        }
    }

    /// Returns true if a wait for this request is over. One that does not exist is: another thread
    /// has used it up.
    #[inline]
    pub(crate) fn is_settled(&self, vci: &Vci, request: Request) -> bool {
        is_nothing(request) || self.table.find(request).is_none_or(|entry| entry.kind.is_settled(vci))
    }

    /// Returns true if a wait for any of several requests passes this one over.
    fn is_passed_over(&self, request: Request) -> bool {
        request.is_null() || self.table.find(request).is_some_and(|entry| entry.kind.is_inactive())
    }

    /// Ends the request of a message that is over as usual, and returns its status.
    ///
    /// `None` if [`Requests::end`] is to end it, now or when it is settled.
    #[inline]
    pub(crate) fn end_plain(
        &mut self,
        vci: &mut Vci,
        comms: &Comms,
        request: &mut Request,
    ) -> Option<Status> {
        let entry = self.table.find(*request).filter(|entry| !entry.freed)?;
        let status = match &entry.kind {
            Kind::Recv(raw, comm, ends) if ends.is_any() => {
                Status::of_message(vci.take_plain(*raw)?, comms.of(comm))
            }
            Kind::Send(raw, _) => vci.take_plain(*raw).map(|_| Status::of_send(false))?,
            _ => return None,
        };
        let removed = self.table.remove(std::mem::replace(request, Request::NULL));
        debug_assert!(removed.is_ok(), "it was found above");
        Some(status)
    }

    /// Ends a request that is settled: takes its result, and sets it to null unless it is
    /// persistent or goes on.
    pub(crate) fn end(&mut self, vci: &mut Vci, comms: &Comms, request: &mut Request) -> Ended {
        if is_nothing(*request) {
            return Ended::Now(Ok(status_of_nothing(std::mem::replace(request, Request::NULL))));
        }
        let Some(entry) = self.table.find_mut(*request) else {
            return Ended::Now(Err(invalid(*request)));
        };
        if let Kind::Persistent(p) = &mut entry.kind {
            return Ended::Now(p.end(vci, comms));
        }
        if let Some(e) = entry.kind.why_pending(vci, comms) {
            return Ended::Now(Err(e));
        }
        let Ok(entry) = self.table.remove(std::mem::replace(request, Request::NULL)) else {
            return Ended::Now(Ok(Status::EMPTY));
        };
        match entry.kind {
            Kind::Generalized(g) => Ended::Ask(g),
            kind => Ended::Now(kind.result(vci, comms)),
        }
    }

    /// Returns the result of a request that is settled, which is not used up.
    pub(crate) fn peek(&mut self, vci: &mut Vci, comms: &Comms, request: Request) -> Ended {
        if is_nothing(request) {
            return Ended::Now(Ok(status_of_nothing(request)));
        }
        let Some(entry) = self.table.find_mut(request) else {
            return Ended::Now(Err(invalid(request)));
        };
        Ended::Now(match &mut entry.kind {
            Kind::Generalized(g) => return Ended::Ask(Arc::clone(g)),
            Kind::Persistent(p) => match p.current.as_mut() {
                None => Ok(Status::EMPTY),
                Some(current) => current.peek(vci, comms),
            },
            kind => kind.peek(vci, comms),
        })
    }

    /// Ends the first of several requests that is over; failing that, the first that a failure
    /// keeps from finishing. `None` if a wait for them goes on; the index is [`UNDEFINED`] if there
    /// is none to wait for.
    pub(crate) fn end_any(
        &mut self,
        vci: &mut Vci,
        comms: &Comms,
        requests: &mut [Request],
    ) -> Option<(i32, Ended)> {
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
            Some(i) => Some((i32::try_from(i).unwrap_or(i32::MAX), self.end(vci, comms, &mut requests[i]))),
            None if active => None,
            None => Some((UNDEFINED, Ended::Now(Ok(Status::EMPTY)))),
        }
    }

    pub(crate) fn is_over(&self, vci: &Vci, request: Request) -> bool {
        is_nothing(request) || self.table.find(request).is_none_or(|entry| entry.kind.is_over(vci))
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
    pub(crate) fn why_pending(&self, vci: &Vci, comms: &Comms) -> Option<Box<MpiError>> {
        let why = |raw: RawReq, core: &CommCore| {
            let error = if vci.is_finished(raw) { None } else { vci.pending_failure(raw) };
            error.map(|e| failure(e, core))
        };
        match self {
            Kind::Send(raw, comm) | Kind::Recv(raw, comm, _) => why(*raw, comms.of(comm)),
            Kind::Replace(send, recv, core, _) => why(*recv, core).or_else(|| why(send.raw(), core)),
            Kind::Both(send, recv, core, _) => why(*recv, core).or_else(|| why(*send, core)),
            _ => None,
        }
    }

    /// Ends the operation if it is over, keeps its result, and returns that.
    fn peek(&mut self, vci: &mut Vci, comms: &Comms) -> Result<Status> {
        if let Some(e) = self.why_pending(vci, comms) {
            return Err(e);
        }
        let result = std::mem::replace(self, Kind::Over(Ok(Status::EMPTY))).result(vci, comms);
        *self = Kind::Over(result.clone());
        result
    }
}
