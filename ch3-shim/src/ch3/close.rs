//! The lifecycle of VCs: the table of `netmod_core::lifecycle`, carried out.

use netmod_core::lifecycle::{Action, VcEvent, VcState, step};
use netmod_core::{PacketFault, VcError, VcErrorKind, VcId, VcLife};

use super::{Ch3, DevIo, VcSide};
use crate::pkt::Packet;

/// The closes of this process's VCs.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    /// Closes that this side has begun and that have not ended.
    pub ops: i32,
    /// The device finalizes.
    pub finalizing: bool,
    /// VCs that a peer has connected since this process began to close its own.
    pub connected_late: Vec<VcId>,
}

impl Ch3 {
    /// Takes a step: stores the state, then carries the actions out. `why`: the cause of a loss.
    fn lifecycle(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        event: VcEvent,
        why: Option<&VcError>,
    ) -> Result<(), PacketFault> {
        let Some(v) = io.core.vc_mut(vc) else { return Ok(()) };
        let (state, action) =
            step(v.state, event).map_err(|e| PacketFault::Violation { what: e.to_string() })?;
        v.state = state;
        let peer = v.peer;
        self.closing.ops += action.close_ops();
        if action.contains(Action::CLOSE_FINISHED)
            && let Some(s) = self.vcs.get_mut(vc)
        {
            s.closes = s.closes.wrapping_add(1);
        }
        if action.contains(Action::FAIL_REQUESTS) {
            let no_cause = || {
                let text = "its netmod has ended the connection before both sides had closed it";
                VcError::new(VcErrorKind::Closed, Some(peer), text)
            };
            self.fail_requests(io, vc, &why.cloned().unwrap_or_else(no_cause));
        }
        if let Some(ack) = action.close_packet() {
            self.send_control(io, vc, Packet::Close { ack });
        }
        if action.contains(Action::TERMINATE) {
            io.netmod.vc_terminate(io.core, vc, io.now);
        }
        Ok(())
    }

    /// Takes a step for an event of this side, which the table always accepts.
    pub(super) fn own_event(&mut self, io: &mut DevIo<'_>, vc: VcId, event: VcEvent, why: Option<&VcError>) {
        if let Err(e) = self.lifecycle(io, vc, event, why) {
            tracing::error!(%vc, %e, "lifecycle");
        }
    }

    /// Notes that a VC is used, by this side or by a connection of the peer.
    pub(crate) fn vc_used(&mut self, io: &mut DevIo<'_>, vc: VcId) {
        self.own_event(io, vc, VcEvent::Use, None);
        self.flow_resumed(io, vc);
    }

    /// Returns true if there is nothing to close: the VC is at rest, or it has had no connection
    /// since a send made it active, and all its messages were taken back. The peer has not heard of
    /// it then, and may have left.
    pub(crate) fn has_nothing_to_close(&self, core: &netmod_core::Core, vc: VcId) -> bool {
        let Some(v) = core.vc(vc) else { return true };
        let pending = || core.reqs().any(|(_, r)| r.vc == Some(vc) && !r.is_finished());
        // A connection whose event has not been handled yet is in the netmod's count alone.
        let connected =
            || self.vcs.get(vc).is_none_or(|s| s.connects_before != VcSide::counted(v.stats.connects));
        v.state.is_at_rest() || v.state == VcState::Active && !connected() && !pending()
    }

    /// Begins to close a VC.
    pub(crate) fn vc_close(&mut self, io: &mut DevIo<'_>, vc: VcId) {
        self.own_event(io, vc, VcEvent::LocalClose, None);
    }

    /// Handles the end of a VC's connection after its close.
    pub(super) fn vc_terminated(&mut self, io: &mut DevIo<'_>, vc: VcId) {
        self.lmt_lost(io, vc);
        self.own_event(io, vc, VcEvent::Terminated, None);
    }

    /// Handles a CLOSE of the peer.
    pub(super) fn recv_close(&mut self, io: &mut DevIo<'_>, vc: VcId, ack: bool) -> Result<(), PacketFault> {
        self.lifecycle(io, vc, VcEvent::RecvClose { ack }, None)
    }
}
