//! The Cooperative mode: copying into and out of rings, a bounded amount in each poll, and waking who sleeps.

use netmod_core::{ReqId, VcError, VcErrorKind, VcId, VcLife};
use netmod_lmt::cookie::{Cookie, RingName};
use netmod_lmt::coop::{Corrupt, LONG};
use netmod_lmt::{Event, Fault};

use super::Lanes;
use crate::ch3::{Ch3, DevIo};
use crate::pkt::Packet;

/// Most bytes that one poll copies each way of a VC, about as many as a get moves in one.
const PER_POLL: usize = 1 << 20;
/// Most rings that a process makes, one for each peer that sends it large messages, and how many of them may be long; 30 MiB in all. Further
/// peers send in the Null mode.
const MAX_RINGS: usize = 64;
const LONG_RINGS: usize = 8;

impl Ch3 {
    /// Whether there is a ring for messages of the peer, made if need be.
    pub(super) fn has_ring(&mut self, vc: VcId) -> bool {
        let resting = self.lmt.resting;
        let lanes = self.lmt.lanes_of(vc);
        if resting || lanes.is_none_or(|l| !l.rest.may_grant()) {
            return false;
        }
        if self.lmt.lanes.get(vc).is_some_and(|l| l.inc.is_open()) {
            return true;
        }
        let rings = self.lmt.lanes.iter().filter(|(_, l)| l.inc.is_open()).count();
        if rings >= MAX_RINGS {
            return false;
        }
        let Some(lanes) = self.lmt.lanes.get_mut(vc) else { return false };
        match lanes.inc.open(rings < LONG_RINGS) {
            Ok(_) => true,
            Err(error) => {
                // The file system is full, or the like: not a matter of this message alone.
                tracing::warn!(%error, "no ring; large messages are sent in the Null mode from now on");
                self.lmt.domain = None;
                false
            }
        }
    }

    pub(super) fn ring_name(&mut self, vc: VcId) -> Option<RingName> {
        self.lmt.lanes.get_mut(vc)?.inc.name()
    }

    /// Maps the ring that CTS names.
    pub(super) fn attach_ring(&mut self, vc: VcId, name: Option<RingName>) -> bool {
        let resting = self.lmt.resting;
        let (Some(lanes), Some(name)) = (self.lmt.lanes_of(vc), name) else { return false };
        if resting || !lanes.rest.may_accept() {
            return false;
        }
        match lanes.out.attach(name) {
            Ok(()) => true,
            Err(error) => {
                // It is said once.
                tracing::warn!(%error, "a peer's ring cannot be used; large messages to it go another way");
                lanes.barred = true;
                false
            }
        }
    }

    /// A transfer waits for its turn in the ring.
    pub(super) fn join_ring(&mut self, vc: VcId, req: ReqId, from_sender: bool, len: u64) {
        let Some(lanes) = self.lmt.lanes.get_mut(vc) else { return };
        self.stats.through_rings += 1;
        if from_sender {
            lanes.out.push(req, len);
        } else {
            lanes.inc.push(req, len);
        }
        if !self.lmt.copying.contains(&vc) {
            self.lmt.copying.push(vc);
        }
    }

    /// A transfer copies no more. A send that was queued takes the ring along, so that nothing else is put where its
    /// bytes are expected: its VC is given up.
    pub(super) fn leave_ring(&mut self, vc: VcId, req: ReqId, from_sender: bool) {
        let Some(lanes) = self.lmt.lanes.get_mut(vc) else { return };
        if !from_sender {
            lanes.inc.remove(req);
        } else if lanes.out.contains(req) {
            lanes.out = Default::default();
        }
    }

    /// What the peer puts in for a receive falls.
    pub(super) fn forget_in_ring(&mut self, vc: VcId, req: ReqId) {
        if let Some(lanes) = self.lmt.lanes.get_mut(vc) {
            lanes.inc.forget(req);
        }
    }

    /// Whether anything is being copied.
    #[inline]
    pub(crate) fn is_copying(&self) -> bool {
        !self.lmt.copying.is_empty()
    }

    /// Copies what can be copied now; whether anything was.
    #[inline(never)]
    pub(crate) fn copy(&mut self, io: &mut DevIo<'_>) -> bool {
        let mut moved = false;
        let mut at = 0;
        while let Some(&vc) = self.lmt.copying.get(at) {
            match self.copy_on(io, vc, PER_POLL) {
                Ok(n) => moved |= n > 0,
                Err(e) => self.ring_broken(io, vc, e),
            }
            let empty = |l: &Lanes| l.out.is_empty() && l.inc.is_empty();
            if self.lmt.lanes.get(vc).is_none_or(|l| empty(l)) {
                self.lmt.copying.retain(|v| *v != vc);
                self.shed_rings(vc);
            } else {
                at += 1;
            }
        }
        moved
    }

    /// Bytes that were copied on a VC, at most about `budget` each way.
    fn copy_on(&mut self, io: &mut DevIo<'_>, vc: VcId, budget: usize) -> Result<usize, Corrupt> {
        let out = self.copy_out(io, vc, budget)?;
        let inc = self.copy_in(io, vc, budget)?;
        let wakes = self.lmt.lanes.get(vc).is_some_and(|l| {
            let (sleeping_taker, sleeping_putter) =
                (out > 0 && l.out.must_wake(), inc > 0 && l.inc.must_wake());
            sleeping_taker || sleeping_putter
        });
        if wakes {
            let packet = |cookie_len| Packet::Cookie { from_sender: out > 0, sreq: 0, rreq: 0, cookie_len };
            self.send_cookie(io, vc, &Cookie::Wake, packet);
        }
        Ok(out + inc)
    }

    fn copy_out(&mut self, io: &mut DevIo<'_>, vc: VcId, budget: usize) -> Result<usize, Corrupt> {
        let mut moved = 0;
        while moved < budget {
            let Some(lanes) = self.lmt.lanes.get_mut(vc) else { break };
            let Some(req) = lanes.out.front() else { break };
            let Some(r) = io.core.req_mut(req).filter(|r| !r.is_finished()) else {
                lanes.out = Default::default();
                break;
            };
            let n = lanes.out.fill(&mut r.seg, budget - moved)?;
            if n == 0 {
                break;
            }
            moved += n;
            self.copied(io, req, n);
        }
        Ok(moved)
    }

    fn copy_in(&mut self, io: &mut DevIo<'_>, vc: VcId, budget: usize) -> Result<usize, Corrupt> {
        let mut moved = 0;
        while moved < budget {
            let Some(lanes) = self.lmt.lanes.get_mut(vc) else { break };
            let Some((req, wanted)) = lanes.inc.front() else { break };
            let live = io.core.req_mut(req).filter(|r| wanted && !r.is_finished());
            let is_live = live.is_some();
            let n = lanes.inc.drain(live.map(|r| &mut r.seg), budget - moved)?;
            if n == 0 {
                break;
            }
            moved += n;
            if is_live {
                self.copied(io, req, n);
            }
        }
        Ok(moved)
    }

    fn copied(&mut self, io: &mut DevIo<'_>, req: ReqId, n: usize) {
        match self.lmt_tell(io, req, Event::Copied(n as u64)) {
            Ok(()) | Err(Fault::Late) => {}
            Err(e) => tracing::error!(%req, %e, "copied bytes that were not asked for"),
        }
    }

    /// What is left in a ring whose VC has gone.
    pub(super) fn copy_in_rest(&mut self, io: &mut DevIo<'_>, vc: VcId) {
        if let Err(error) = self.copy_in(io, vc, LONG) {
            tracing::debug!(%error, "the ring of a lost connection");
        }
    }

    #[cold]
    fn ring_broken(&mut self, io: &mut DevIo<'_>, vc: VcId, e: Corrupt) {
        self.lmt.copying.retain(|v| *v != vc);
        self.lmt.lanes.remove(vc);
        let peer = io.core.vc(vc).map(|v| v.peer);
        io.netmod.vc_abort(io.core, vc, VcError::new(VcErrorKind::Protocol, peer, e.to_string()));
    }

    /// Whether the device may sleep: there is nothing to copy, and who makes something to copy will send a
    /// packet.
    #[inline]
    pub(crate) fn lie_down(&mut self) -> bool {
        self.lmt.copying.is_empty() || self.all_lie_down()
    }

    fn all_lie_down(&mut self) -> bool {
        let mut all = true;
        for vc in &self.lmt.copying {
            let Some(lanes) = self.lmt.lanes.get_mut(*vc) else { continue };
            // A broken ring is found by the next poll.
            all &= lanes.out.prepare_to_sleep() == Ok(true) && lanes.inc.prepare_to_sleep() == Ok(true);
        }
        all
    }
}
