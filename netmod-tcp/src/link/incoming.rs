//! Incoming connections: a link's answer to a dial of the peer.

use netmod_connection::RejectReason;
use netmod_connection::establish::{Claim, Event, Incoming, Verdict};
use netmod_core::Time;

use super::machine::{FRESH, Life, PROVISIONAL, RESUMING, SHUTTING};
use super::{Actions, ConnKey, DownCause, Failure, HandshakeParams, Link, LinkAction, LinkConfig, Phase};

impl Link {
    pub(super) fn incoming(
        &mut self,
        conn: ConnKey,
        params: HandshakeParams,
        now: Time,
        cfg: &LinkConfig,
        acts: &mut Actions,
    ) {
        let replaced = self.establish.is_replaced_by(params.incarnation);
        if replaced && self.incoming_replaced(conn, params, now, cfg, acts) {
            return;
        }
        let (incarnation, number, claim) = (params.incarnation, params.dial, self.claim(params));
        let dial = Incoming { conn, incarnation, number, claim };
        if self.establish.verdict(&dial) == Verdict::Contested {
            if !self.end_for(conn, now, cfg, acts) {
                return;
            }
            self.establish(Event::Incoming(dial), now, cfg, acts);
            // The session's data waits for the new connection.
            self.establish(Event::Want, now, cfg, acts);
        } else {
            self.establish(Event::Incoming(dial), now, cfg, acts);
        }
        if self.phase() == Phase::Promised && self.conn() == Some(conn) {
            self.promised(params);
        }
    }

    /// Returns whether the dial may be accepted, by the session that it is for and the phase.
    fn claim(&self, params: HandshakeParams) -> Claim {
        let known = params.session != 0 && params.session == self.session;
        let wanted = known && (self.has(RESUMING) || self.life == Life::Up);
        Claim::Refused(match self.life {
            Life::Parting if known => return Claim::Acceptable,
            _ if self.has(SHUTTING) && !wanted => RejectReason::Finalized,
            // The start of that session may be under way: the ACCEPT to the own dial, or the
            // SUSPEND on the connection.
            _ if params.session != 0 && !known => match self.phase() {
                Phase::Dialing | Phase::Promised | Phase::Up if self.session == 0 => RejectReason::Crossing,
                _ => RejectReason::NoSession,
            },
            // A dial from before: one who knows of the session asks for it.
            Life::Making if params.session == 0 && self.has(RESUMING) => RejectReason::AlreadyConnected,
            Life::Making => return Claim::Acceptable,
            Life::Up if known => return Claim::Acceptable,
            Life::Up => RejectReason::AlreadyConnected,
            Life::Parting => RejectReason::Closing,
            Life::Failed => RejectReason::VcDown,
            Life::Shut => RejectReason::Finalized,
        })
    }

    /// The peer asks on a new connection for the session of the adopted one, which it has lost.
    /// Returns true if the new one may be accepted.
    fn end_for(&mut self, conn: ConnKey, now: Time, cfg: &LinkConfig, acts: &mut Actions) -> bool {
        if self.life == Life::Up && self.next != ConnKey::NONE && self.establish.survives() {
            // Both have found a better way, or the peer has lost the connection and connects again
            // when this is settled.
            acts.push(LinkAction::SendReject(conn, RejectReason::Crossing));
            return false;
        }
        self.end_move(acts);
        if let Some(old) = self.conn() {
            acts.push(LinkAction::Close(old));
        }
        if self.life == Life::Up {
            self.suspend(Failure::Replaced, now, cfg, acts);
            return true;
        }
        // All data of this side has been sent and acknowledged.
        self.end(now, cfg, acts);
        acts.push(LinkAction::SendReject(conn, RejectReason::NoSession));
        false
    }

    /// A dial of another process than the one that had the name before. Whether that settles it.
    fn incoming_replaced(
        &mut self,
        conn: ConnKey,
        params: HandshakeParams,
        now: Time,
        cfg: &LinkConfig,
        acts: &mut Actions,
    ) -> bool {
        if params.session != 0 || self.has(SHUTTING) {
            return false;
        }
        match self.life {
            // The new process has nothing to do with the failure of the old one.
            Life::Failed => {
                self.life = Life::Making;
                return false;
            }
            Life::Parting => {
                if let Some(old) = self.conn() {
                    acts.push(LinkAction::Close(old));
                }
                self.end(now, cfg, acts);
                acts.push(LinkAction::SendReject(conn, RejectReason::Closing));
            }
            _ if self.life == Life::Up || self.has(RESUMING) => {
                self.end_move(acts);
                if let Some(old) = self.conn() {
                    acts.push(LinkAction::Close(old));
                }
                self.down(DownCause::Replaced, now, cfg, acts);
                acts.push(LinkAction::SendReject(conn, RejectReason::VcDown));
            }
            _ => return false,
        }
        true
    }

    /// A dial was accepted.
    fn promised(&mut self, params: HandshakeParams) {
        self.flags &= !FRESH;
        if params.session == 0 {
            self.forget_session();
            self.session = params.fresh;
            if params.fresh != 0 {
                self.flags |= PROVISIONAL | FRESH;
            }
        }
    }
}
