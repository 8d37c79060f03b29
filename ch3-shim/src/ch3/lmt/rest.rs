//! Checkpoints: both sides of a VC agree that no message goes through its rings.

use netmod_core::{PacketFault, VcId};
use netmod_lmt::Mode;
use netmod_lmt::cookie::{Cookie, RingName};

use crate::ch3::flow::is_open;
use crate::ch3::{Ch3, DevIo};
use crate::pkt::{CookieLen, Packet};

/// Makes the packet of a cookie that belongs to a VC, not to a message.
fn of_vc(cookie_len: CookieLen) -> Packet {
    Packet::Cookie { from_sender: false, sreq: 0, rreq: 0, cookie_len }
}

impl Ch3 {
    /// Grants and accepts no rings from now on, and tells peers so. Rings that exist are closed
    /// when they are empty.
    pub(crate) fn rest_rings(&mut self, io: &mut DevIo<'_>) {
        if !self.lmt.rings.begin_rest() {
            return;
        }
        // Rings may be on their way for what was offered.
        let offered = self.lmt.transfers.iter().filter(|t| t.is_send() && t.offered.has(Mode::Coop));
        let mut vcs: Vec<VcId> = self.lmt.rings.vcs().chain(offered.map(|t| t.vc)).collect();
        vcs.sort_unstable();
        vcs.dedup();
        for vc in vcs {
            if !io.core.vc(vc).is_some_and(|v| is_open(v.state)) {
                continue;
            }
            let Some(pair) = self.lmt.rings.make(vc) else { continue };
            pair.rest.say();
            let rest = Cookie::Rest(pair.out.accepted());
            self.send_cookie(io, vc, &rest, of_vc);
            self.lmt.rings.close_if_resting(vc);
        }
    }

    /// Grants and accepts rings again. `anew`: perhaps in another process, which may be in other
    /// namespaces.
    pub(crate) fn resume_rings(&mut self, anew: bool) {
        self.lmt.rings.end_rest(anew);
    }

    /// Returns true if nothing goes through a ring.
    pub(crate) fn rings_are_empty(&self) -> bool {
        self.lmt.rings.are_empty()
    }

    /// The peer is about to leave.
    pub(super) fn peer_rests(&mut self, io: &mut DevIo<'_>, vc: VcId, accepted: Option<(RingName, u64)>) {
        let Some(pair) = self.lmt.rings.make(vc) else { return };
        pair.rest.heard();
        pair.inc.void_behind(accepted);
        self.send_cookie(io, vc, &Cookie::Rested, of_vc);
        self.lmt.rings.close_if_resting(vc);
    }

    /// The peer knows that this side is about to leave, or was.
    pub(super) fn peer_rested(&mut self, vc: VcId) -> Result<(), PacketFault> {
        if self.lmt.rings.get_mut(vc).is_some_and(|pair| pair.rest.answered()) {
            return Ok(());
        }
        Err(PacketFault::Violation { what: "an answer to a checkpoint that was not asked for".into() })
    }
}
