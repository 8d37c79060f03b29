//! The end of a connection: FIN and FIN_ACK, RESET, failures that the driver has found, VCs that
//! go.

use netmod_connection::RejectReason;
use netmod_core::{Time, VcError, VcErrorKind, VcId};

use super::link::{Event, Life, Phase};
use super::machine::{Machine, link_of};
use super::{Action, Env};
use crate::wire::Kind;

impl Machine {
    pub(super) fn terminate(&mut self, vc: VcId, env: &mut Env<'_>) {
        let link = link_of!(self, vc);
        match link.phase() {
            Phase::Idle | Phase::Failed => {
                link.life = Life::Making;
                self.act(Action::Terminated { vc });
            }
            // The peer may have sent something behind the READY of a promise: that is kept.
            Phase::Dialing | Phase::Backoff | Phase::Promised => {
                link.terminating = true;
                self.establish(vc, Event::Cancel, env);
            }
            Phase::Up => self.part(vc, env),
            Phase::Left | Phase::Parting => link.terminating = true,
        }
    }

    /// Nothing more is sent.
    pub(super) fn part(&mut self, vc: VcId, env: &mut Env<'_>) {
        let timer = self.at(env.now + self.params.parting_timeout);
        let link = link_of!(self, vc);
        link.life = Life::Parting;
        link.terminating = true;
        link.timer = timer;
        self.control(vc, Kind::Fin);
    }

    pub(super) fn fin(&mut self, vc: VcId) {
        let link = link_of!(self, vc);
        match link.life {
            Life::Up => {
                link.fin = true;
                let text = "it has left without closing its connection with this process by agreement; did it \
                            finalize early, or run into its NETMOD_CLOSE_TIMEOUT?";
                self.left(vc, VcErrorKind::Closed, text);
            }
            Life::Parting if !link.fin => {
                link.fin = true;
                self.control(vc, Kind::FinAck);
            }
            _ => {}
        }
    }

    /// The peer has no part in the present connection any more: the driver settles what that means.
    pub(super) fn left(&mut self, vc: VcId, kind: VcErrorKind, text: &str) {
        let link = link_of!(self, vc);
        link.life = Life::Left;
        link.timer = Time::NEVER;
        let error = VcError::new(kind, Some(link.peer), text);
        self.act(Action::PeerLeft { vc, error });
    }

    /// The peer has dialled anew.
    pub(super) fn superseded(&mut self, vc: VcId, text: &str) {
        self.left(vc, VcErrorKind::Lost, text);
    }

    pub(super) fn fin_ack(&mut self, vc: VcId, env: &mut Env<'_>) {
        let link = link_of!(self, vc);
        if link.life == Life::Parting {
            self.ended(vc, env);
        } else {
            let text = "it acknowledged the end of a connection that goes on; do both sides run the same version \
                        of this library?";
            let error = VcError::new(VcErrorKind::Protocol, Some(link.peer), text);
            self.abort(vc, error, env);
        }
    }

    pub(super) fn settle(&mut self, vc: VcId, error: Option<VcError>, env: &mut Env<'_>) {
        let link = link_of!(self, vc);
        if link.life != Life::Left {
            return;
        }
        self.give_up(vc, env);
        match error {
            Some(error) => self.down(vc, error, env),
            None => self.ended(vc, env),
        }
    }

    pub(super) fn reset(&mut self, vc: VcId, env: &mut Env<'_>) {
        let link = link_of!(self, vc);
        match link.life {
            // It has read all, and waited in vain for what is on its way.
            Life::Parting if link.fin => self.ended(vc, env),
            Life::Up | Life::Left | Life::Parting => {
                let text = "it has broken the connection off: it failed, gave this process up, or was aborted; its \
                            own messages say why";
                let error = VcError::new(VcErrorKind::Lost, Some(link.peer), text);
                self.down(vc, error, env);
            }
            Life::Making | Life::Failed => {}
        }
    }

    pub(super) fn abort(&mut self, vc: VcId, error: VcError, env: &mut Env<'_>) {
        if self.links.get(vc).is_some_and(|l| l.life != Life::Failed) {
            self.give_up(vc, env);
            self.down(vc, error, env);
        }
    }

    pub(super) fn remove(&mut self, vc: VcId, env: &mut Env<'_>) {
        self.give_up(vc, env);
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
        if link.life == Life::Failed {
            link.life = Life::Making;
        }
    }
}
