//! Checkpoints: the rings of the Cooperative mode are emptied and dropped, as
//! [`netmod_lmt::coop::Rest`] has it. Messages that would go through one meanwhile go another way.

use netmod_core::{PacketFault, VcId};
use netmod_lmt::Mode;
use netmod_lmt::cookie::{Cookie, RingName};

use super::{Lanes, Lmt, Machine};
use crate::ch3::flow::is_open;
use crate::ch3::{Ch3, DevIo};
use crate::pkt::{CookieLen, Packet};

/// A cookie that belongs to a VC, not to a message.
fn of_vc(cookie_len: CookieLen) -> Packet {
    Packet::Cookie { from_sender: false, sreq: 0, rreq: 0, cookie_len }
}

impl Lmt {
    /// The rings of a VC, which may be none.
    pub(super) fn lanes_of(&mut self, vc: VcId) -> Option<&mut Lanes> {
        if self.lanes.get(vc).is_none() {
            self.lanes.set(vc, Box::default());
        }
        self.lanes.get_mut(vc).map(|lanes| &mut **lanes)
    }
}

impl Ch3 {
    /// Grants and accepts no rings from now on, and tells peers so. Those that are there go when
    /// they are empty.
    pub(crate) fn rest_rings(&mut self, io: &mut DevIo<'_>) {
        if std::mem::replace(&mut self.lmt.resting, true) {
            return;
        }
        // Rings may be on their way for what was offered.
        let offered = self.lmt.transfers.iter().filter_map(|(_, t)| {
            (matches!(t.machine, Machine::Send(_)) && t.offered.has(Mode::Coop)).then_some(t.vc)
        });
        let mut vcs: Vec<VcId> = self.lmt.lanes.iter().map(|(vc, _)| vc).chain(offered).collect();
        vcs.sort_unstable();
        vcs.dedup();
        for vc in vcs {
            if !io.core.vc(vc).is_some_and(|v| is_open(v.state)) {
                continue;
            }
            let Some(lanes) = self.lmt.lanes_of(vc) else { continue };
            lanes.rest.say();
            let rest = Cookie::Rest(lanes.out.accepted());
            self.send_cookie(io, vc, &rest, of_vc);
            self.shed_rings(vc);
        }
    }

    /// Grants and accepts rings again. `anew`: perhaps in another process, which may be in other
    /// namespaces.
    pub(crate) fn resume_rings(&mut self, anew: bool) {
        self.lmt.resting = false;
        if anew && self.lmt.domain.is_some() {
            let domain = netmod_lmt::coop::shm_domain();
            self.lmt.domain = domain.inspect_err(|error| tracing::warn!(%error, "no Cooperative mode")).ok();
        }
    }

    /// Returns true if nothing goes through a ring.
    pub(crate) fn rings_are_empty(&self) -> bool {
        self.lmt.lanes.iter().all(|(_, l)| l.out.is_empty() && l.inc.is_empty())
    }

    /// The peer is about to leave.
    pub(super) fn peer_rests(&mut self, io: &mut DevIo<'_>, vc: VcId, accepted: Option<(RingName, u64)>) {
        let Some(lanes) = self.lmt.lanes_of(vc) else { return };
        lanes.rest.heard();
        lanes.inc.void_behind(accepted);
        self.send_cookie(io, vc, &Cookie::Rested, of_vc);
        self.shed_rings(vc);
    }

    /// The peer knows that this side is about to leave, or was.
    pub(super) fn peer_rested(&mut self, vc: VcId) -> Result<(), PacketFault> {
        if self.lmt.lanes.get_mut(vc).is_some_and(|lanes| lanes.rest.answered()) {
            return Ok(());
        }
        Err(PacketFault::Violation { what: "an answer to a checkpoint that was not asked for".into() })
    }

    /// Drops the rings of a VC if they are empty and no message is to follow.
    pub(super) fn shed_rings(&mut self, vc: VcId) {
        let Some(lanes) = self.lmt.lanes.get_mut(vc) else { return };
        if lanes.rest.is_closing() && lanes.out.is_empty() && lanes.inc.is_empty() {
            lanes.out.close();
            lanes.inc = Default::default();
            lanes.rest.closed();
        }
    }

    /// Returns true if a checkpoint keeps messages of a VC from the rings.
    pub(super) fn is_ring_disturbed(&self, vc: VcId) -> bool {
        self.lmt.resting || self.lmt.lanes.get(vc).is_some_and(|l| l.rest.is_disturbed())
    }
}
