//! Requests: messages that could not be finished at once.

use crate::error::VcError;
use crate::segment::Segment;
use crate::slab::VcId;

/// What happens when the data of a request has all moved (Nemesis's `OnDataAvail`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDone {
    /// It is finished (the NULL callback).
    Complete,
    /// [`crate::Upper::on_data_avail`] is called. The messages behind a send do not wait for it.
    Upper,
}

/// How a request stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Under way; the memory lent to it must be left alone.
    Pending,
    /// All data has moved.
    Done,
    /// It was cancelled; no data will move any more.
    Cancelled,
    /// It failed with its VC; no data will move any more.
    Failed(VcError),
}

/// A send or receive under way.
///
/// It belongs to the layer that made it, or that got it from `i_start_contig_msg`, and stays in the
/// slab until that layer removes it.
#[derive(Debug)]
pub struct Request {
    /// The VC it is bound to, once that is known.
    pub vc: Option<VcId>,
    /// The memory: source of a send, target of a receive.
    pub seg: Segment,
    /// Receives: bytes that follow the segment's and are discarded (truncation).
    pub excess: u64,
    /// What the layer above charges the message with, if it may have to take that back; of no account here.
    pub charge: u32,
    /// Sends: where the message is in its netmod's queue, by the queue's own count.
    pub queue_seq: u64,
    /// What happens when the data has all moved.
    pub on_done: OnDone,
    /// Nobody waits for it: it leaves the slab as soon as it is finished.
    pub detached: bool,
    /// When it leaves the slab detached, [`crate::Core::next_released`] tells of it.
    pub(crate) reported: bool,
    /// How many messages it stands for. More than one, or none lent, only for sends whose data was
    /// copied: each message's sender got the same handle, and [`crate::Core::take`] counts them down.
    pub shares: u32,
    /// A share of it was given up or used up: it stands for more messages than `shares` says.
    pub(crate) parted: bool,
    /// Its data was copied: it borrows no memory.
    pub copied: bool,
    /// How it stands.
    pub outcome: Outcome,
}

impl Request {
    /// A request for the memory of `seg`, finished by nobody but the core.
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

    /// Makes this the request that [`Request::new`] makes, part by part where they lie.
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

    /// Whether it stands, or has stood, for more than one message: then none of them can be taken back.
    pub fn is_shared(&self) -> bool {
        self.shares > 1 || self.parted
    }

    /// Whether all there is to say of it is that its data, which lies in one piece, has moved: such a request holds nothing
    /// that must be dropped.
    #[inline]
    pub fn is_plainly_done(&self) -> bool {
        matches!(self.outcome, Outcome::Done) && self.shares == 1 && self.seg.is_plain()
    }

    /// Whether it is finished, in whatever way.
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
    use crate::engine::Core;

    /// One that is given up by one of two senders still has the messages of both in the netmod's queue.
    #[test]
    fn a_request_that_was_shared_stays_so() {
        let mut core = Core::new(2);
        let shared = |core: &mut Core| {
            let mut r = Request::new(None, Segment::empty());
            r.shares += 1;
            core.reqs.insert(r)
        };
        let (a, b) = (shared(&mut core), shared(&mut core));
        core.detach(a);
        assert!(core.reqs.get(a).unwrap().is_shared());
        assert!(core.take(b).is_some() && core.reqs.get(b).unwrap().is_shared());
        assert!(!Request::new(None, Segment::empty()).is_shared());
    }

    /// Only what the upper layer asked for is reported, once, and not before it is finished.
    #[test]
    fn detached_requests_are_reported() {
        let mut core = Core::new(4);
        let [plain, reported, over] = [(); 3].map(|()| core.reqs.insert(Request::default()));
        core.finish(over, Outcome::Done);
        core.detach(plain);
        core.detach_reported(reported);
        core.detach_reported(over);
        assert!(!core.has_released() && core.reqs.get(over).is_none());
        core.finish(plain, Outcome::Done);
        assert!(!core.has_released());
        core.finish(reported, Outcome::Cancelled);
        assert!(core.has_released() && core.reqs.get(reported).is_none());
        assert_eq!((core.next_released(), core.next_released()), (Some(reported), None));
        // Its place in the slab serves another request, of which nothing is reported.
        let next = core.reqs.insert(Request::default());
        core.detach(next);
        core.finish(next, Outcome::Done);
        assert!(!core.has_released());
    }
}
