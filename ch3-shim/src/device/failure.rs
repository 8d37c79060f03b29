//! Failures as the program sees them: who has failed, what that means for receives from any source,
//! and how it goes on afterwards.
//!
//! A receive from any source that no message has matched may have waited for the very process that
//! failed. So its wait ends with [`Error::PendingFailed`], while the receive stays posted: it can
//! be waited for again once the program has acknowledged the failure ([`Vci::ack_failures`]). This
//! is ULFM's `MPI_ERR_PROC_FAILED_PENDING`. When no process is left that could send, such a receive
//! fails for good.

use netmod_core::{PollOrder, VcError};

use super::{RawReq, Vci};
use crate::ch3::{Failure, WaitOutlook};
use crate::error::{Error, Result};
use crate::tagmatch::{ANY_SOURCE, Pattern};

/// Polls that a wait makes at most, each of which finds something, before it ends because of a
/// failure.
const PATIENCE: u32 = 64;

impl Vci {
    /// The processes that have failed, as far as this process knows: by a lost connection, or
    /// because the process manager says so. One that has connected again is not among them.
    pub fn failed(&self) -> Vec<Failure> {
        self.ch3.failures.iter().cloned().collect()
    }

    /// Acknowledges all failures known so far, so that receives from any source wait for the other
    /// processes again; returns those that had not been acknowledged before.
    pub fn ack_failures(&mut self) -> Vec<Failure> {
        self.ch3.acknowledge()
    }

    /// Lets a failed process be used again: the failure is forgotten, its business card is fetched
    /// again, and the next message makes a new connection. Requests that have failed stay failed. A
    /// process that connects by itself needs no call. Makes progress first, so that a failure
    /// counts of which a refused send is all that is known yet; does nothing else if the process
    /// has not failed.
    ///
    /// # Errors
    /// A bad rank; no usable business card; a netmod that cannot go on.
    pub fn reconnect(&mut self, rank: u32) -> Result<()> {
        self.check_origin()?;
        let rank = self.check_rank(i32::try_from(rank).unwrap_or(-1))?;
        self.take_what_is_there()?;
        if !self.ch3.must_revive(rank) {
            return Ok(());
        }
        let card = self.wait_for_card(rank)?;
        let now = self.now;
        self.ch3.reconnect(&mut self.engine.io(now), rank, &card).map_err(|e| self.explain(e))
    }

    /// Returns the reason for which the wait for an unfinished request must end: it is a receive
    /// from any source, and there is a failure that was not acknowledged. `None` for every other
    /// request.
    pub fn pending_failure(&self, req: RawReq) -> Option<Error> {
        match self.ch3.wait_outlook(req.0) {
            WaitOutlook::Pending(e) => Some(e),
            WaitOutlook::Unaffected | WaitOutlook::NobodyLeft(_) => None,
        }
    }

    /// Progress before a wait that a failure may end at once: messages that are here come first.
    #[cold]
    pub(super) fn take_what_is_there(&mut self) -> Result<()> {
        let mut polls = 0;
        while polls < PATIENCE && self.poll(PollOrder::OutFirst)? {
            polls += 1;
        }
        Ok(())
    }

    /// Returns true if a wait for this request is over: the request is finished, or it is a receive
    /// from any source that failures keep from finishing.
    #[inline]
    pub fn is_settled(&self, req: RawReq) -> bool {
        self.is_finished(req) || (self.ch3.failures.alarm() && self.is_hopeless(req))
    }

    #[cold]
    fn is_hopeless(&self, req: RawReq) -> bool {
        !matches!(self.ch3.wait_outlook(req.0), WaitOutlook::Unaffected)
    }

    /// A request that [`Vci::is_settled`] without being finished: the error that its wait ends
    /// with, if it stays posted. Without any sender left it is finished by this, and there is none.
    #[cold]
    pub(super) fn unsettle(&mut self, req: RawReq) -> Option<Error> {
        match self.ch3.wait_outlook(req.0) {
            WaitOutlook::Unaffected => None,
            WaitOutlook::Pending(e) => Some(e),
            WaitOutlook::NobodyLeft(e) => {
                let now = self.now;
                self.ch3.give_up_wildcard(&mut self.engine.io(now), req.0, e);
                None
            }
        }
    }

    /// Fails if messages of this source can no longer come, or may not.
    pub(super) fn check_source(&self, pattern: &Pattern) -> Result<()> {
        if self.ch3.failures.is_empty() {
            return Ok(());
        }
        if pattern.source() != ANY_SOURCE {
            return self.ch3.source_lost(pattern).map_or(Ok(()), |cause| Err(cause.into()));
        }
        match self.ch3.outlook_of_any(pattern.context()) {
            WaitOutlook::Unaffected => Ok(()),
            WaitOutlook::Pending(e) => Err(e),
            WaitOutlook::NobodyLeft(e) => Err(e.into()),
        }
    }

    /// An error with the name of the peer's host.
    #[cold]
    pub(super) fn explain(&self, error: VcError) -> Error {
        Error::Peer(self.ch3.with_host(error))
    }
}
