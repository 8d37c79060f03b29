//! The device's requests, from making them to retiring them.

use netmod_core::slab::ReqKind;
use netmod_core::{Core, Outcome, ReqId, Request, Segment, SideTable, Time, VcId};

use super::{Matched, MpiReq, Owned, Pool, Role};
use crate::status::Status;
use crate::tagmatch::Envelope;

/// The device's part of all requests, and the memory that they own.
#[derive(Debug)]
pub(crate) struct Requests {
    /// The device's part of each request that has one.
    pub side: SideTable<MpiReq, ReqKind>,
    /// Memory of unexpected messages.
    pub pool: Pool,
    /// Time of the last poll, for the ages in a status report.
    pub now: Time,
}

impl Requests {
    /// Makes the table of a device that keeps at most `pool` bytes of unused buffers.
    pub(crate) fn new(pool: usize, now: Time) -> Requests {
        Requests { side: SideTable::new(), pool: Pool::new(pool), now }
    }

    /// Makes a request of the core with the device's part.
    #[inline]
    pub(crate) fn make(&mut self, core: &mut Core, vc: Option<VcId>, seg: Segment, mut mpi: MpiReq) -> ReqId {
        mpi.since = self.now;
        let req = core.add_req(Request::new(vc, seg));
        self.side.set(req, mpi);
        req
    }

    /// Finishes a request. One that nobody will ask for is freed.
    pub(crate) fn finish(&mut self, core: &mut Core, req: ReqId, outcome: Outcome) {
        core.finish(req, outcome);
        if self.side.get(req).is_some_and(|m| m.forgotten) {
            core.remove_req(req);
            self.side.clear(req);
        }
    }

    /// Removes a request that was not started.
    pub(super) fn discard(&mut self, core: &mut Core, req: ReqId) {
        core.remove_req(req);
        self.side.remove(req);
    }

    /// Removes a request of the device's own; returns the buffer that it received into.
    pub(super) fn take_buffer(&mut self, core: &mut Core, req: ReqId) -> Option<Vec<u8>> {
        core.remove_req(req);
        match self.side.remove(req) {
            Some(MpiReq { owned: Owned::Recv(buf), .. }) => Some(buf),
            _ => None,
        }
    }

    /// Removes a request of the device's own; its buffer returns to the pool.
    pub(super) fn free_arriving(&mut self, core: &mut Core, req: ReqId) {
        if let Some(buf) = self.take_buffer(core, req) {
            self.pool.give(buf);
        }
    }

    /// Fast path: retires a successful request that owns no memory, and stores what it had matched.
    /// Returns false and changes nothing otherwise; [`Requests::take_result`] retires the others.
    #[inline]
    pub(crate) fn take_plain(&mut self, core: &mut Core, req: ReqId, matched: &mut Matched) -> bool {
        let is_plain = |m: &MpiReq| {
            *matched = m.matched.by_words();
            m.is_plain()
        };
        core.retire_req_if(req, |r| r.is_plainly_done() && self.side.retire_if(req, is_plain) != Some(false))
    }

    /// Retires a request as [`Requests::take_plain`] does, without its status.
    #[inline]
    pub(crate) fn use_up_plain(&mut self, core: &mut Core, req: ReqId) -> bool {
        self.take_plain(core, req, &mut Matched::default())
    }

    /// Retires a finished request. Returns its outcome, its status, the length of a truncated
    /// message, and the memory that the device held for it.
    #[inline]
    pub(crate) fn take_result(
        &mut self,
        core: &mut Core,
        req: ReqId,
    ) -> (Outcome, Status, Option<u64>, Owned) {
        let Some(outcome) = core.take(req) else {
            return (Outcome::Done, Status::default(), None, Owned::Nothing);
        };
        let cancelled = outcome == Outcome::Cancelled;
        let used = self.side.remove_with(req, |m| {
            let cut = (m.truncated_from > 0).then_some(m.truncated_from);
            (m.matched.status(), cut, std::mem::take(&mut m.owned))
        });
        let (status, cut, owned) = used.unwrap_or_default();
        (outcome, Status { cancelled, ..status }, cut, owned)
    }

    /// Keeps memory for a request until that is retired. Returns it if the request borrows none:
    /// its data was copied, and several messages may share the request.
    pub(crate) fn own(&mut self, core: &Core, req: ReqId, owned: Owned) -> Owned {
        if let Some(m) = self.side.get_mut(req) {
            m.owned = owned;
        } else if core.req(req).is_some_and(|r| !r.copied) {
            let mut m = MpiReq::new(Role::Send, Envelope::new(0, 0, 0));
            m.owned = owned;
            self.side.set(req, m);
        } else {
            return owned;
        }
        Owned::Nothing
    }

    /// Drops the device's part of a request that has left the core's slab.
    pub(crate) fn clear_side(&mut self, req: ReqId) {
        self.side.clear(req);
    }

    /// Gives a request up: it is freed with its memory when it finishes.
    ///
    /// If the core finishes it, [`Requests::clear_side`] frees the memory.
    pub(crate) fn forget(&mut self, core: &mut Core, req: ReqId) {
        if let Some(m) = self.side.get_mut(req) {
            m.forgotten = true;
        }
        // It may be the core that finishes it.
        core.detach_reported(req);
    }
}
