//! The state that a netmod and the layer above share: virtual connections and requests.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::buf::IoVec;
use crate::completion::CompletionTable;
use crate::error::VcError;
use crate::header::HDR_LEN;
use crate::peer::PeerName;
use crate::request::{OnDone, Outcome, Request};
use crate::slab::{ReqId, ReqKind, Slab, VcId, VcKind};
use crate::vc::{Vc, VcStats};

/// The memory for the next payload bytes of a VC ([`Core::recv_target`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecvTarget {
    /// Number of list entries that were filled.
    pub pieces: usize,
    /// Their size in bytes; zero if there is no target.
    pub bytes: usize,
    /// True if they cover the rest of the receive, so that later bytes may follow them.
    pub whole: bool,
}

/// The state that netmods and the layer above share: VCs and requests.
#[derive(Debug, Default)]
pub struct Core {
    /// Virtual connections.
    vcs: Slab<Vc, VcKind>,
    /// Requests.
    reqs: Slab<Request, ReqKind>,
    /// Sends with [`OnDone::Upper`] whose data was sent, in order.
    pub(crate) sent: VecDeque<(VcId, ReqId)>,
    /// Table in which other threads see finished requests, if there are any.
    completions: Option<Arc<CompletionTable>>,
    /// Flag of [`Core::is_staged`].
    staged: bool,
    /// Number of [`Core::wanted`].
    wanted: usize,
    /// Requests for [`Core::next_released`].
    released: Vec<ReqId>,
    /// Counts of the VCs that were removed, by the number of their netmod.
    removed: Vec<VcStats>,
}

impl Core {
    /// Creates an empty core, with room for `requests` requests without allocation.
    pub fn new(requests: usize) -> Core {
        let mut core = Core { sent: VecDeque::with_capacity(64), wanted: usize::MAX, ..Core::default() };
        core.reqs.reserve(requests);
        core
    }

    /// Returns a VC, if the handle is live.
    #[inline]
    pub fn vc(&self, vc: VcId) -> Option<&Vc> {
        self.vcs.get(vc)
    }

    /// Returns a VC to be changed, if the handle is live.
    #[inline]
    pub fn vc_mut(&mut self, vc: VcId) -> Option<&mut Vc> {
        self.vcs.get_mut(vc)
    }

    /// Iterates over all VCs, in no particular order.
    pub fn vcs(&self) -> impl Iterator<Item = (VcId, &Vc)> {
        self.vcs.iter()
    }

    /// Returns the number of VCs.
    pub fn vc_count(&self) -> usize {
        self.vcs.len()
    }

    /// Adds a VC. For the upper layer, which then calls
    /// [`VcLife::vc_init`](crate::VcLife::vc_init).
    #[inline]
    pub fn add_vc(&mut self, vc: Vc) -> VcId {
        self.vcs.insert(vc)
    }

    /// Removes a VC. For the upper layer, after [`VcLife::vc_destroy`](crate::VcLife::vc_destroy).
    pub fn remove_vc(&mut self, vc: VcId) -> Option<Vc> {
        let vc = self.vcs.remove(vc)?;
        let at = usize::from(vc.netmod);
        if self.removed.len() <= at {
            self.removed.resize(at + 1, VcStats::default());
        }
        self.removed[at].add(&vc.stats);
        Some(vc)
    }

    /// Returns the counts of all VCs of a netmod of a set, those that were removed included.
    pub fn traffic(&self, netmod: u8) -> VcStats {
        let mut sum = self.removed.get(usize::from(netmod)).copied().unwrap_or_default();
        self.vcs().filter(|(_, vc)| vc.netmod == netmod).for_each(|(_, vc)| sum.add(&vc.stats));
        sum
    }

    /// Returns a request, if the handle is live.
    #[inline]
    pub fn req(&self, req: ReqId) -> Option<&Request> {
        self.reqs.get(req)
    }

    /// Returns a request to be changed, if the handle is live.
    #[inline]
    pub fn req_mut(&mut self, req: ReqId) -> Option<&mut Request> {
        self.reqs.get_mut(req)
    }

    /// Iterates over all requests, in no particular order.
    pub fn reqs(&self) -> impl Iterator<Item = (ReqId, &Request)> {
        self.reqs.iter()
    }

    /// Returns the number of requests.
    pub fn req_count(&self) -> usize {
        self.reqs.len()
    }

    /// Adds a request.
    #[inline]
    pub fn add_req(&mut self, req: Request) -> ReqId {
        self.reqs.insert(req)
    }

    /// Adds a request, to be set in place by [`Request::renew`].
    #[inline]
    pub fn renew_req(&mut self) -> (ReqId, &mut Request) {
        self.reqs.renew()
    }

    /// Removes a request. It counts as finished from now on, so no netmod may still use its memory.
    #[inline]
    pub fn remove_req(&mut self, req: ReqId) -> Option<Request> {
        self.reqs.remove(req)
    }

    /// Removes a request if `is_so` holds for it, and leaves its memory for
    /// [`Core::renew_req`]. Returns true if it did.
    #[inline]
    pub fn retire_req_if(&mut self, req: ReqId, is_so: impl FnOnce(&Request) -> bool) -> bool {
        self.reqs.retire_if(req, is_so)
    }

    /// Notes that staged data waits for the next poll or flush. For netmods.
    #[inline]
    pub fn note_staged(&mut self) {
        self.staged = true;
    }

    /// Returns true if a netmod may have staged data for the next poll or flush.
    ///
    /// A caller that makes no call for a while must make sure that one follows.
    #[inline]
    pub fn is_staged(&self) -> bool {
        self.staged
    }

    /// Sets the number of messages that the layer above has a place for, before a poll.
    #[inline]
    pub fn want(&mut self, messages: usize) {
        self.wanted = messages;
    }

    /// Returns the number of messages that the layer above has a place for.
    ///
    /// Those that come beyond it are kept in memory of its own, and copied again. A netmod that can
    /// leave them where they are at no cost ends its poll behind so many, and at least one.
    #[inline]
    pub fn wanted(&self) -> usize {
        self.wanted
    }

    /// Clears the flag before a flush. A netmod that still keeps data back sets it again.
    #[inline]
    pub fn clear_staged(&mut self) {
        self.staged = false;
    }

    /// Returns true if the request is finished, or not in the slab.
    #[inline]
    pub fn is_finished(&self, req: ReqId) -> bool {
        self.reqs.get(req).is_none_or(Request::is_finished)
    }

    /// Finishes a request. A finished one keeps its outcome; a detached one leaves the slab.
    #[inline]
    pub fn finish(&mut self, req: ReqId, outcome: Outcome) {
        if let Some(r) = self.reqs.get_mut(req)
            && !r.is_finished()
        {
            r.outcome = outcome;
            if r.detached {
                if r.reported {
                    self.released.push(req);
                }
                self.reqs.remove(req);
            }
            self.announce(req);
        }
    }

    /// Maintains a completion table from now on, for threads that do not hold the engine.
    pub fn keep_completions(&mut self, completions: Arc<CompletionTable>) {
        self.completions = Some(completions);
    }

    /// Publishes a request whose outcome was set other than by [`Core::finish`].
    #[inline]
    pub fn announce(&self, req: ReqId) {
        if let Some(completions) = &self.completions {
            completions.set(req);
        }
    }

    /// Retires one share of a finished request; returns its outcome. `None`, and nothing changes,
    /// if there is no such request or it is in progress.
    #[inline]
    pub fn take(&mut self, req: ReqId) -> Option<Outcome> {
        let r = self.reqs.get_mut(req).filter(|r| r.is_finished())?;
        if r.shares > 1 {
            r.shares -= 1;
            r.parted = true;
            return Some(r.outcome.clone());
        }
        self.reqs.remove(req).map(|r| r.outcome)
    }

    /// Detaches one share of a request: the request leaves the slab when it is finished and has no
    /// more shares.
    pub fn detach(&mut self, req: ReqId) {
        let Some(r) = self.reqs.get_mut(req) else { return };
        if r.shares > 1 {
            r.shares -= 1;
            r.parted = true;
        } else if r.is_finished() {
            self.reqs.remove(req);
        } else {
            r.detached = true;
        }
    }

    /// Detaches a request for which the upper layer holds something, such as its memory.
    ///
    /// Does the same as [`Core::detach`]; if it is finished later, [`Core::next_released`] returns
    /// it.
    pub fn detach_reported(&mut self, req: ReqId) {
        if let Some(r) = self.reqs.get_mut(req) {
            r.reported = true;
        }
        self.detach(req);
    }

    /// Returns true if [`Core::next_released`] has a request.
    #[inline]
    pub fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// Returns a request of [`Core::detach_reported`] that has finished and left the slab, in no
    /// order.
    ///
    /// The upper layer frees what it holds for it.
    pub fn next_released(&mut self) -> Option<ReqId> {
        self.released.pop()
    }

    /// Counts a message to send, with so many bytes of data. For netmods.
    #[inline]
    pub fn count_send(&mut self, vc: VcId, data_len: usize) {
        if let Some(v) = self.vcs.get_mut(vc) {
            v.stats.tx_msgs += 1;
            v.stats.tx_bytes += (HDR_LEN + data_len) as u64;
        }
    }

    /// Counts a message that could not be sent at once. For netmods.
    #[inline]
    pub fn count_queued(&mut self, vc: VcId) {
        if let Some(v) = self.vcs.get_mut(vc) {
            v.stats.tx_queued += 1;
        }
        self.staged = true;
    }

    /// Notes that the last byte of a queued send was sent, and its memory is no longer needed. For
    /// netmods.
    #[inline]
    pub fn send_finished(&mut self, vc: VcId, req: ReqId) {
        match self.reqs.get_mut(req) {
            Some(r) if r.on_done == OnDone::Upper && !r.is_finished() => self.sent.push_back((vc, req)),
            Some(_) => self.finish(req, Outcome::Done),
            None => {}
        }
    }

    /// Takes the sends to report to the upper layer, in order.
    ///
    /// The engine calls this, and so does a netmod's test without an engine.
    pub fn drain_sent(&mut self) -> impl Iterator<Item = (VcId, ReqId)> + '_ {
        self.sent.drain(..)
    }

    /// Fails a queued send that will never be sent. For netmods.
    pub fn send_failed(&mut self, req: ReqId, error: &VcError) {
        self.finish(req, Outcome::Failed(error.clone()));
    }

    /// Returns the memory for the VC's next payload bytes, if a receive is active and has room. For
    /// netmods.
    #[inline]
    pub fn recv_target(&self, vc: VcId, out: &mut [IoVec]) -> RecvTarget {
        let Some(v) = self.vcs.get(vc) else { return RecvTarget::default() };
        debug_assert!(v.pending_len == 0 || v.recv_active().is_none());
        if v.no_direct() {
            return RecvTarget::default();
        }
        let Some(r) = v.recv_active().and_then(|req| self.reqs.get(req)) else {
            return RecvTarget::default();
        };
        let (pieces, bytes) = r.seg.next_iovecs(usize::MAX, out);
        RecvTarget { pieces, bytes, whole: bytes == r.seg.remaining() }
    }

    /// Notes that `n` bytes were read into the iovecs of [`Core::recv_target`]. For netmods.
    ///
    /// Returns true if that was the rest of the receive: push
    /// [`Event::RecvDone`](crate::Event::RecvDone) before any other event of this VC.
    #[inline]
    pub fn recv_advance(&mut self, vc: VcId, n: usize) -> bool {
        let Some(v) = self.vcs.get_mut(vc) else { return false };
        v.stats.rx_bytes += n as u64;
        v.stats.rx_direct += n as u64;
        let Some(r) = v.recv_active().and_then(|req| self.reqs.get_mut(req)) else { return false };
        r.seg.advance(n);
        r.seg.is_done() && r.excess == 0
    }

    /// Makes `req` the receive that the VC's next payload bytes belong to.
    ///
    /// The packet handler calls this after it has consumed all bytes that were there.
    #[inline]
    pub fn set_recv_active(&mut self, vc: VcId, req: ReqId) {
        if let Some(v) = self.vcs.get_mut(vc) {
            debug_assert!(v.pending_len == 0, "a receive became active within a header");
            v.set_recv_active(req);
        }
    }

    /// Detaches the active receive; the rest of its payload is discarded.
    pub fn abandon_recv(&mut self, vc: VcId) -> Option<ReqId> {
        let v = self.vcs.get_mut(vc)?;
        let req = v.take_recv_active()?;
        if let Some(r) = self.reqs.get(req) {
            v.discard += r.seg.remaining() as u64 + r.excess;
        }
        Some(req)
    }

    /// Counts a dropped packet.
    #[cold]
    pub fn count_fault(&mut self, vc: VcId, what: &str) {
        if let Some(v) = self.vcs.get_mut(vc) {
            v.stats.faults = v.stats.faults.saturating_add(1);
            tracing::warn!(peer = v.peer.rank, "{what}");
        }
    }

    /// Counts `n` messages that a handler has used in addition to the one it was called for. For
    /// upper layers.
    #[inline]
    pub fn count_received(&mut self, vc: VcId, n: u64) {
        if let Some(v) = self.vcs.get_mut(vc) {
            v.stats.rx_msgs += n;
        }
    }

    /// Resets reception when a connection begins or ends. For netmods.
    ///
    /// Returns the receive that was cut off, which the upper layer fails when it learns of it.
    pub fn reset_receive(&mut self, vc: VcId) -> Option<ReqId> {
        self.vcs.get_mut(vc)?.reset_receive()
    }

    /// Returns the name of a VC's peer.
    #[inline]
    pub(crate) fn peer(&self, vc: VcId) -> Option<PeerName> {
        self.vcs.get(vc).map(|v| v.peer)
    }
}
