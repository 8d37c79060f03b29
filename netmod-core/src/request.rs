//! Requests: messages that could not be finished at once.

use crate::error::VcError;
use crate::segment::Segment;
use crate::slab::VcId;

/// The action when all data of a request has moved (Nemesis's `OnDataAvail`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDone {
    /// It is finished (the NULL callback).
    Complete,
    /// [`crate::Upper::on_data_avail`] is called. Later messages do not wait for it.
    Upper,
}

/// The state or outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// In progress; the memory lent to it must be left alone.
    Pending,
    /// All data has moved.
    Done,
    /// It was cancelled; no more data will move.
    Cancelled,
    /// It failed with its VC; no more data will move.
    Failed(VcError),
}

/// A send or receive in progress.
///
/// It belongs to the layer that created it, or got it from `i_start_contig_msg`, and stays in the
/// slab until that layer removes it.
#[derive(Debug)]
pub struct Request {
    /// The VC it is bound to, once that is known.
    pub vc: Option<VcId>,
    /// Memory: source of a send, target of a receive.
    pub seg: Segment,
    /// Receives: bytes after the segment's that are discarded (truncation).
    pub excess: u64,
    /// The upper layer's charge for the message, which it may have to take back; not used here.
    pub charge: u32,
    /// Sends: number of the message in its netmod's queue.
    pub queue_seq: u64,
    /// Action when all data has moved.
    pub on_done: OnDone,
    /// True if nobody waits for it: it leaves the slab as soon as it is finished.
    pub detached: bool,
    /// True if [`crate::Core::next_released`] reports it when it leaves the slab detached.
    pub(crate) reported: bool,
    /// Number of messages that it stands for.
    ///
    /// More than one, or none lent, only for sends whose data was copied: each message's sender got
    /// the same handle, and [`crate::Core::take`] counts them down.
    pub shares: u32,
    /// True if a share of it was detached or retired: it stands for more messages than `shares`
    /// says.
    pub(crate) parted: bool,
    /// True if its data was copied: it borrows no memory.
    pub copied: bool,
    /// State or outcome.
    pub(crate) outcome: Outcome,
}

impl Request {
    /// Creates a request for the memory of `seg`, which only the core finishes.
    #[inline]
    pub fn new(vc: Option<VcId>, seg: Segment) -> Request {
        Request {
            vc,
            seg,
            excess: 0,
            charge: 0,
            queue_seq: 0,
            on_done: OnDone::Complete,
            detached: false,
            reported: false,
            shares: 1,
            parted: false,
            copied: false,
            outcome: Outcome::Pending,
        }
    }

    /// Turns this into the request of [`Request::new`], part by part in place.
    #[inline]
    pub fn renew(&mut self, vc: Option<VcId>, seg: Segment) {
        self.vc = vc;
        self.seg = seg;
        self.excess = 0;
        self.charge = 0;
        self.queue_seq = 0;
        self.on_done = OnDone::Complete;
        self.detached = false;
        self.reported = false;
        self.shares = 1;
        self.parted = false;
        self.copied = false;
        self.outcome = Outcome::Pending;
    }

    /// Returns its state or outcome.
    #[inline]
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Finishes it with success, for a layer that has looked it up already.
    ///
    /// Call [`Core::announce`](crate::Core::announce) afterwards. Unlike
    /// [`Core::finish`](crate::Core::finish), this does not remove a detached request.
    #[inline]
    pub fn succeed(&mut self) {
        self.outcome = Outcome::Done;
    }

    /// Returns true if it stands, or has stood, for more than one message: then none of them can be
    /// cancelled.
    pub fn is_shared(&self) -> bool {
        self.shares > 1 || self.parted
    }

    /// Returns true if its contiguous data has moved and nothing else matters: such a request holds
    /// nothing to drop.
    #[inline]
    pub fn is_plainly_done(&self) -> bool {
        matches!(self.outcome, Outcome::Done) && self.shares == 1 && self.seg.is_plain()
    }

    /// Returns true if it is finished, with any outcome.
    #[inline]
    pub fn is_finished(&self) -> bool {
        !matches!(self.outcome, Outcome::Pending)
    }
}

impl Default for Request {
    fn default() -> Request {
        Request::new(None, Segment::empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Core;

    /// The netmod's queue keeps both messages of a shared request when one of its two senders
    /// detaches.
    #[test]
    fn a_request_that_was_shared_stays_so() {
        let mut core = Core::new(2);
        let shared = |core: &mut Core| {
            let mut r = Request::new(None, Segment::empty());
            r.shares += 1;
            core.add_req(r)
        };
        let (a, b) = (shared(&mut core), shared(&mut core));
        core.detach(a);
        assert!(core.req(a).unwrap().is_shared());
        core.finish(b, Outcome::Done);
        assert!(core.take(b).is_some() && core.req(b).unwrap().is_shared());
        assert!(!Request::new(None, Segment::empty()).is_shared());
    }

    /// A request in progress cannot be retired: it would count as finished, and its memory be freed
    /// while the netmod still uses it.
    #[test]
    fn a_request_in_progress_is_not_retired() {
        let mut core = Core::new(1);
        let req = core.add_req(Request::default());
        assert_eq!(core.take(req), None);
        assert!(!core.is_finished(req));
        core.finish(req, Outcome::Done);
        assert_eq!(core.take(req), Some(Outcome::Done));
        assert_eq!(core.take(req), None);
    }

    /// Only the requested ones are reported, once, and not before they are finished.
    #[test]
    fn detached_requests_are_reported() {
        let mut core = Core::new(4);
        let [plain, reported, over] = [(); 3].map(|()| core.add_req(Request::default()));
        core.finish(over, Outcome::Done);
        core.detach(plain);
        core.detach_reported(reported);
        core.detach_reported(over);
        assert!(!core.has_released() && core.req(over).is_none());
        core.finish(plain, Outcome::Done);
        assert!(!core.has_released());
        core.finish(reported, Outcome::Cancelled);
        assert!(core.has_released() && core.req(reported).is_none());
        assert_eq!((core.next_released(), core.next_released()), (Some(reported), None));
        // Its slot is reused by another request, which is not reported.
        let next = core.add_req(Request::default());
        core.detach(next);
        core.finish(next, Outcome::Done);
        assert!(!core.has_released());
    }
}
