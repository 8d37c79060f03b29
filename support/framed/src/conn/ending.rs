//! The end of a connection: FIN and FIN_ACK, RESET, failures that the driver has found, VCs that go.

use netmod_connection::RejectReason;
use netmod_core::{VcError, VcErrorKind, VcId};

use super::machine::{Machine, Phase, link_of};
use super::mutant::{Mutant, mutated};
use super::{Action, Env};
use crate::wire::Kind;

impl Machine {
    pub(super) fn terminate(&mut self, vc: VcId, env: &mut Env<'_>) {
        let link = link_of!(self, vc);
        match link.phase {
            Phase::Idle | Phase::Failed => {
                link.phase = Phase::Idle;
                self.act(Action::Terminated { vc });
            }
            Phase::Dialing | Phase::Backoff => {
                link.terminating = true;
                link.wanted = false;
                self.give_up(vc);
                self.unbind(vc);
                self.rested(vc, env);
            }
            // The peer may have sent something behind its READY.
            Phase::Promised => {
                link.terminating = true;
                link.wanted = false;
            }
            Phase::Up => self.part(vc, env),
            Phase::Left | Phase::Parting => link.terminating = true,
        }
    }

    /// Nothing more is sent.
    pub(super) fn part(&mut self, vc: VcId, env: &mut Env<'_>) {
        let timer = self.at(env.now + self.params.parting_timeout);
        let link = link_of!(self, vc);
        link.phase = Phase::Parting;
        link.terminating = true;
        link.timer = timer;
        self.control(vc, Kind::Fin);
    }

    pub(super) fn fin(&mut self, vc: VcId) {
        let link = link_of!(self, vc);
        match link.phase {
            Phase::Up => {
                link.phase = Phase::Left;
                link.fin = true;
                link.timer = netmod_core::Time::NEVER;
                let text = "it has left without closing its connection with this process by agreement; did it \
                            finalize early, or run into its NETMOD_CLOSE_TIMEOUT?";
                let error = VcError::new(VcErrorKind::Closed, Some(link.peer), text);
                self.act(Action::PeerLeft { vc, error });
            }
            Phase::Parting if !link.fin => {
                link.fin = true;
                if !mutated(Mutant::NoAckWhileParting) {
                    self.control(vc, Kind::FinAck);
                }
            }
            _ => {}
        }
    }

    pub(super) fn fin_ack(&mut self, vc: VcId, env: &mut Env<'_>) {
        let link = link_of!(self, vc);
        if link.phase == Phase::Parting {
            self.unbind(vc);
            self.rested(vc, env);
        } else {
            let text = "it acknowledged the end of a connection that goes on; do both sides run the same version \
                        of this library?";
            let error = VcError::new(VcErrorKind::Protocol, Some(link.peer), text);
            self.abort(vc, error, env);
        }
    }

    pub(super) fn settle(&mut self, vc: VcId, error: Option<VcError>, env: &mut Env<'_>) {
        let link = link_of!(self, vc);
        if link.phase != Phase::Left {
            return;
        }
        if !mutated(Mutant::NoAck) {
            self.give_up(vc);
        }
        match error {
            Some(error) => self.down(vc, error, env),
            None => {
                self.unbind(vc);
                self.rested(vc, env);
            }
        }
    }

    pub(super) fn reset(&mut self, vc: VcId, env: &mut Env<'_>) {
        let link = link_of!(self, vc);
        match link.phase {
            // It has read all, and waited in vain for what is on its way.
            Phase::Parting if link.fin => {
                self.unbind(vc);
                self.rested(vc, env);
            }
            Phase::Up | Phase::Left | Phase::Parting => {
                let text = "it has broken the connection off: it failed, gave this process up, or was aborted; its \
                            own messages say why";
                let error = VcError::new(VcErrorKind::Lost, Some(link.peer), text);
                self.down(vc, error, env);
            }
            _ => {}
        }
    }

    pub(super) fn abort(&mut self, vc: VcId, error: VcError, env: &mut Env<'_>) {
        if self.links.get(vc).is_some_and(|l| l.phase != Phase::Failed) {
            if !mutated(Mutant::SilentAbort) {
                self.give_up(vc);
            }
            self.down(vc, error, env);
        }
    }

    pub(super) fn remove(&mut self, vc: VcId) {
        self.give_up(vc);
        self.unbind(vc);
        let Some(link) = self.links.remove(vc) else { return };
        if self.by_peer.get(&link.peer) == Some(&vc) {
            self.by_peer.remove(&link.peer);
        }
        if let Some(id) = link.waiting {
            self.reject(id, RejectReason::VcDown);
        }
    }

    pub(super) fn revive(&mut self, vc: VcId) {
        let link = link_of!(self, vc);
        if link.phase == Phase::Failed {
            link.phase = Phase::Idle;
        }
    }
}
