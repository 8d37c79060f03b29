//! The Cooperative mode: copies into and out of rings, a bounded amount in each poll.

use netmod_core::{ReqId, VcError, VcErrorKind, VcId, VcLife};
use netmod_lmt::cookie::Cookie;
use netmod_lmt::coop::{Corrupt, LONG};
use netmod_lmt::{Event, Fault};

use crate::ch3::{Ch3, DevIo};
use crate::pkt::Packet;

/// Most bytes that one poll copies each way of a VC, about as many as a get moves in one.
const PER_POLL: usize = 1 << 20;

impl Ch3 {
    /// Returns true if anything is to be copied.
    #[inline]
    pub(crate) fn is_copying(&self) -> bool {
        self.lmt.rings.is_copying()
    }

    /// Returns true if rings let the device sleep.
    #[inline]
    pub(crate) fn prepare_to_sleep(&mut self) -> bool {
        self.lmt.rings.prepare_to_sleep()
    }

    /// Copies what can be copied now. Returns true if anything was.
    #[inline(never)]
    pub(crate) fn copy(&mut self, io: &mut DevIo<'_>) -> bool {
        let mut moved = false;
        let mut at = 0;
        while let Some(vc) = self.lmt.rings.copying(at) {
            match self.copy_on(io, vc, PER_POLL) {
                Ok(n) => moved |= n > 0,
                Err(e) => self.ring_broken(io, vc, e),
            }
            at += usize::from(!self.lmt.rings.settle(vc));
        }
        moved
    }

    /// Copies on a VC, at most about `budget` bytes each way. Returns the bytes copied.
    fn copy_on(&mut self, io: &mut DevIo<'_>, vc: VcId, budget: usize) -> Result<usize, Corrupt> {
        let out = self.copy_out(io, vc, budget)?;
        let inc = self.copy_in(io, vc, budget)?;
        let wakes = self.lmt.rings.get(vc).is_some_and(|pair| {
            let (sleeping_taker, sleeping_putter) =
                (out > 0 && pair.out.must_wake(), inc > 0 && pair.inc.must_wake());
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
            let Some(pair) = self.lmt.rings.get_mut(vc) else { break };
            let Some(req) = pair.out.front() else { break };
            let Some(r) = io.core.req_mut(req).filter(|r| !r.is_finished()) else {
                pair.out = Default::default();
                break;
            };
            let n = pair.out.fill(&mut r.seg, budget - moved)?;
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
            let Some(pair) = self.lmt.rings.get_mut(vc) else { break };
            let Some((req, wanted)) = pair.inc.front() else { break };
            let live = io.core.req_mut(req).filter(|r| wanted && !r.is_finished());
            let is_live = live.is_some();
            let n = pair.inc.drain(live.map(|r| &mut r.seg), budget - moved)?;
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

    /// Takes what is left out of the ring of a lost VC.
    pub(super) fn copy_in_rest(&mut self, io: &mut DevIo<'_>, vc: VcId) {
        if let Err(error) = self.copy_in(io, vc, LONG) {
            tracing::debug!(%error, "the ring of a lost connection");
        }
    }

    #[cold]
    fn ring_broken(&mut self, io: &mut DevIo<'_>, vc: VcId, e: Corrupt) {
        self.lmt.rings.drop_vc(vc);
        let peer = io.core.vc(vc).map(|v| v.peer);
        io.netmod.vc_abort(io.core, vc, VcError::new(VcErrorKind::Protocol, peer, e.to_string()));
    }
}
