//! The rings of the Cooperative mode: one for each direction of a VC, made when first needed.
//!
//! For a checkpoint they are emptied and dropped, as [`netmod_lmt::coop::Rest`] has it. Messages
//! that would go through a ring meanwhile go another way.

use netmod_core::slab::VcKind;
use netmod_core::{ReqId, SideTable, VcId};
use netmod_lmt::cookie::{RingName, ShmDomain};
use netmod_lmt::coop::{InQueue, OutQueue, Rest, shm_domain};

/// Most rings that a process makes, one for each peer that sends it large messages; 30 MiB in all.
/// Further peers send in the Null mode.
const MAX_RINGS: usize = 64;
/// Rings that may be long.
const LONG_RINGS: usize = 8;

/// The rings of a VC.
#[derive(Debug, Default)]
pub(super) struct RingPair {
    pub(super) out: OutQueue<ReqId>,
    pub(super) inc: InQueue<ReqId>,
    /// Checkpoints of either side.
    pub(super) rest: Rest,
    /// A ring of the peer's could not be mapped; it is offered rings no more.
    pub(super) barred: bool,
}

impl RingPair {
    /// Returns true if nothing goes through either ring.
    pub(super) fn is_empty(&self) -> bool {
        self.out.is_empty() && self.inc.is_empty()
    }
}

/// The rings of all VCs.
#[derive(Debug)]
pub(super) struct Rings {
    /// The identity of this process's shared memory, if it has some and may use it.
    pub(super) domain: Option<ShmDomain>,
    pairs: SideTable<Box<RingPair>, VcKind>,
    /// Rings are neither granted nor accepted, for a checkpoint.
    resting: bool,
    /// VCs that copy.
    copying: Vec<VcId>,
}

/// Returns the identity of this process's shared memory.
fn own_domain() -> Option<ShmDomain> {
    shm_domain().inspect_err(|error| tracing::warn!(%error, "no Cooperative mode")).ok()
}

impl Rings {
    /// Makes the rings of a process, which may use them if `enabled`.
    pub(super) fn new(enabled: bool) -> Rings {
        let domain = if enabled { own_domain() } else { None };
        Rings { domain, pairs: SideTable::new(), resting: false, copying: Vec::new() }
    }

    /// Returns the rings of a VC, if there are any.
    pub(super) fn get(&self, vc: VcId) -> Option<&RingPair> {
        self.pairs.get(vc).map(|pair| &**pair)
    }

    /// Returns the rings of a VC, if there are any.
    pub(super) fn get_mut(&mut self, vc: VcId) -> Option<&mut RingPair> {
        self.pairs.get_mut(vc).map(|pair| &mut **pair)
    }

    /// Returns the rings of a VC, which may both be closed.
    pub(super) fn make(&mut self, vc: VcId) -> Option<&mut RingPair> {
        if self.pairs.get(vc).is_none() {
            self.pairs.set(vc, Box::default());
        }
        self.get_mut(vc)
    }

    /// Iterates over the VCs that have rings.
    pub(super) fn vcs(&self) -> impl Iterator<Item = VcId> {
        self.pairs.iter().map(|(vc, _)| vc)
    }

    /// Returns true if rings can be offered on a VC.
    pub(super) fn may_offer(&self, vc: VcId) -> bool {
        self.domain.is_some() && !self.resting && !self.is_barred(vc)
    }

    /// Returns true if a ring of the peer's could not be mapped.
    pub(super) fn is_barred(&self, vc: VcId) -> bool {
        self.get(vc).is_some_and(|pair| pair.barred)
    }

    /// Opens the ring for messages of the peer, unless it is open. Returns false if that cannot be.
    pub(super) fn open(&mut self, vc: VcId) -> bool {
        let resting = self.resting;
        if resting || self.make(vc).is_none_or(|pair| !pair.rest.may_grant()) {
            return false;
        }
        if self.get(vc).is_some_and(|pair| pair.inc.is_open()) {
            return true;
        }
        let rings = self.pairs.iter().filter(|(_, pair)| pair.inc.is_open()).count();
        if rings >= MAX_RINGS {
            return false;
        }
        let Some(pair) = self.get_mut(vc) else { return false };
        match pair.inc.open(rings < LONG_RINGS) {
            Ok(_) => true,
            Err(error) => {
                // The file system is full, or the like: not a matter of this message alone.
                tracing::warn!(%error, "no ring; large messages are sent in the Null mode from now on");
                self.domain = None;
                false
            }
        }
    }

    /// Returns the name of the ring for messages of the peer.
    pub(super) fn name(&mut self, vc: VcId) -> Option<RingName> {
        self.get_mut(vc)?.inc.name()
    }

    /// Maps the ring that CTS names. Returns false if that cannot be.
    pub(super) fn attach(&mut self, vc: VcId, name: Option<RingName>) -> bool {
        let resting = self.resting;
        let (Some(pair), Some(name)) = (self.make(vc), name) else { return false };
        if resting || !pair.rest.may_accept() {
            return false;
        }
        match pair.out.attach(name) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, "a peer's ring cannot be used; large messages to it go another way");
                pair.barred = true;
                false
            }
        }
    }

    /// Queues a transfer for a ring. Returns false if there is none.
    pub(super) fn join(&mut self, vc: VcId, req: ReqId, is_send: bool, len: u64) -> bool {
        let Some(pair) = self.get_mut(vc) else { return false };
        if is_send {
            pair.out.push(req, len);
        } else {
            pair.inc.push(req, len);
        }
        if !self.copying.contains(&vc) {
            self.copying.push(vc);
        }
        true
    }

    /// Takes a transfer out of a ring's queue.
    ///
    /// A send takes its ring along, so that nothing else is put where its bytes are expected; its
    /// VC is given up.
    pub(super) fn leave(&mut self, vc: VcId, req: ReqId, is_send: bool) {
        let Some(pair) = self.get_mut(vc) else { return };
        if !is_send {
            pair.inc.remove(req);
        } else if pair.out.contains(req) {
            pair.out = OutQueue::default();
        }
    }

    /// Drops what the peer puts into the ring for a receive.
    pub(super) fn discard(&mut self, vc: VcId, req: ReqId) {
        if let Some(pair) = self.get_mut(vc) {
            pair.inc.forget(req);
        }
    }

    /// Returns true if anything is to be copied.
    #[inline]
    pub(super) fn is_copying(&self) -> bool {
        !self.copying.is_empty()
    }

    /// Returns the `n`-th VC that copies.
    pub(super) fn copying(&self, n: usize) -> Option<VcId> {
        self.copying.get(n).copied()
    }

    /// Takes a VC off the list of those that copy, if nothing is left to copy. Returns true if so.
    pub(super) fn settle(&mut self, vc: VcId) -> bool {
        let done = self.get(vc).is_none_or(RingPair::is_empty);
        if done {
            self.copying.retain(|v| *v != vc);
            self.close_if_resting(vc);
        }
        done
    }

    /// Drops the rings of a VC.
    pub(super) fn drop_vc(&mut self, vc: VcId) {
        self.copying.retain(|v| *v != vc);
        self.pairs.remove(vc);
    }

    /// Returns true if the process may sleep: whoever makes something to copy will send a packet.
    #[inline]
    pub(super) fn prepare_to_sleep(&mut self) -> bool {
        self.copying.is_empty() || self.all_prepare_to_sleep()
    }

    fn all_prepare_to_sleep(&mut self) -> bool {
        let mut all = true;
        for vc in &self.copying {
            let Some(pair) = self.pairs.get_mut(*vc) else { continue };
            // A broken ring is found by the next poll.
            all &= pair.out.prepare_to_sleep() == Ok(true) && pair.inc.prepare_to_sleep() == Ok(true);
        }
        all
    }

    /// Grants and accepts no rings from now on. Returns true if it did before.
    pub(super) fn begin_rest(&mut self) -> bool {
        !std::mem::replace(&mut self.resting, true)
    }

    /// Grants and accepts rings again. `anew`: perhaps in another process, which may be in other
    /// namespaces.
    pub(super) fn end_rest(&mut self, anew: bool) {
        self.resting = false;
        if anew && self.domain.is_some() {
            self.domain = own_domain();
        }
    }

    /// Returns true if nothing goes through a ring.
    pub(super) fn are_empty(&self) -> bool {
        self.pairs.iter().all(|(_, pair)| pair.is_empty())
    }

    /// Closes the rings of a VC that are empty, if a checkpoint lets no message follow.
    pub(super) fn close_if_resting(&mut self, vc: VcId) {
        if let Some(pair) = self.get_mut(vc)
            && pair.rest.is_closing()
            && pair.is_empty()
        {
            pair.out.close();
            pair.inc = InQueue::default();
            pair.rest.closed();
        }
    }

    /// Returns true if a checkpoint keeps messages of a VC from the rings.
    pub(super) fn is_disturbed(&self, vc: VcId) -> bool {
        self.resting || self.get(vc).is_some_and(|pair| pair.rest.is_disturbed())
    }
}
