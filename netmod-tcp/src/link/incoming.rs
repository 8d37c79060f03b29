//! What a link does with a connection that the peer has made.

use netmod_connection::RejectReason;
use netmod_core::Time;

use super::arbiter::{self, Verdict};
use super::machine::{FRESH, GREATER, PROVISIONAL, RESUMING, SHUTTING};
use super::mutant::{Mutant, mutated};
use super::{Actions, ConnKey, DownCause, Failure, Hail, Link, LinkAction, LinkConfig, Phase};

impl Link {
    pub(super) fn incoming(
        &mut self,
        conn: ConnKey,
        hail: Hail,
        now: Time,
        cfg: &LinkConfig,
        acts: &mut Actions,
    ) {
        let known = hail.session != 0 && hail.session == self.session;
        let replaced = self.peer != 0 && self.peer != hail.incarnation;
        if replaced && self.incoming_replaced(conn, hail, now, cfg, acts) {
            return;
        }
        if !replaced && hail.dial != 0 && hail.dial <= self.dial && !mutated(Mutant::StaleDial) {
            // It has been given up since.
            acts.push(LinkAction::SendReject(conn, RejectReason::AlreadyConnected));
            return;
        }
        let shut = self.has(SHUTTING) && !(known && (self.has(RESUMING) || self.phase == Phase::Up));
        if hail.session != 0 && !known && !shut {
            // What begins that session may be under way: the ACCEPT to the own dial, or the SUSPEND on the connection.
            let may_begin = matches!(self.phase, Phase::Dialing | Phase::Promised | Phase::Up);
            let unsure = may_begin && self.session == 0 && !mutated(Mutant::RefuseUnsure);
            let reason = if unsure { RejectReason::Crossing } else { RejectReason::NoSession };
            acts.push(LinkAction::SendReject(conn, reason));
            return;
        }
        if hail.session == 0 && self.has(RESUMING) && !shut && !mutated(Mutant::FreshForLost) {
            // A dial from before: one who knows of the session asks for it.
            acts.push(LinkAction::SendReject(conn, RejectReason::AlreadyConnected));
            return;
        }
        match self.phase {
            // Both have found a better way, or the peer has lost the connection and connects again when this is settled.
            Phase::Up
                if known
                    && self.next != ConnKey::NONE
                    && self.has(GREATER)
                    && !mutated(Mutant::AcceptBothMoves) =>
            {
                acts.push(LinkAction::SendReject(conn, RejectReason::Crossing));
                return;
            }
            // The peer has lost the connection.
            Phase::Up if known => {
                if !mutated(Mutant::AcceptBothMoves) {
                    self.end_move(acts);
                }
                acts.push(LinkAction::Close(self.conn));
                self.suspend(Failure::Replaced, now, cfg, acts);
                self.promise(conn, hail, now, cfg, acts);
                return;
            }
            // The peer has given up the dial that was promised.
            Phase::Promised if !shut && hail.dial != 0 => {
                acts.push(LinkAction::Close(self.conn));
                self.promise(conn, hail, now, cfg, acts);
                return;
            }
            // What this side had to say has been said and acknowledged.
            Phase::Parting if known => {
                acts.push(LinkAction::Close(self.conn));
                self.rest(now, cfg, acts);
                acts.push(LinkAction::SendReject(conn, RejectReason::NoSession));
                return;
            }
            _ => {}
        }
        if mutated(Mutant::ContinueAfterReject) && self.phase == Phase::Shut {
            acts.push(LinkAction::SendReject(conn, RejectReason::Finalized));
            self.promise(conn, hail, now, cfg, acts);
            return;
        }
        // A dial that has failed before may never succeed, if only the peer can reach this process: then
        // the peer's is as good.
        let survives = self.has(GREATER) && self.attempts == 0;
        match arbiter::decide(survives, self.phase, shut) {
            Verdict::Reject(RejectReason::Crossing) if mutated(Mutant::AcceptBoth) => {
                acts.push(LinkAction::SendAccept(conn));
            }
            Verdict::Reject(reason) => {
                acts.push(LinkAction::SendReject(conn, reason));
                if mutated(Mutant::RejectAndAbandon) && reason == RejectReason::Crossing {
                    acts.push(LinkAction::Close(self.conn));
                    self.conn = ConnKey::NONE;
                }
            }
            Verdict::Accept => self.promise(conn, hail, now, cfg, acts),
            Verdict::AcceptAndAbandon => {
                if mutated(Mutant::SilentLoser) {
                    acts.push(LinkAction::Close(self.conn));
                } else if !mutated(Mutant::AcceptBeforeResolved) && self.conn != ConnKey::NONE {
                    acts.push(LinkAction::Abandon(self.conn));
                }
                self.promise(conn, hail, now, cfg, acts);
            }
        }
    }

    /// A dial of another process than the one that had the name before. Whether that settles it.
    fn incoming_replaced(
        &mut self,
        conn: ConnKey,
        hail: Hail,
        now: Time,
        cfg: &LinkConfig,
        acts: &mut Actions,
    ) -> bool {
        match self.phase {
            _ if hail.session != 0 || self.has(SHUTTING) => return false,
            // The new process has nothing to do with the failure of the old one.
            Phase::Failed => {
                self.phase = Phase::Idle;
                return false;
            }
            Phase::Parting => {
                acts.push(LinkAction::Close(self.conn));
                self.rest(now, cfg, acts);
                acts.push(LinkAction::SendReject(conn, RejectReason::Closing));
            }
            _ if self.phase == Phase::Up || self.has(RESUMING) => {
                self.end_move(acts);
                if self.conn != ConnKey::NONE {
                    acts.push(LinkAction::Close(self.conn));
                }
                self.down(DownCause::Replaced, acts);
                acts.push(LinkAction::SendReject(conn, RejectReason::VcDown));
            }
            Phase::Promised => {
                acts.push(LinkAction::Close(self.conn));
                self.promise(conn, hail, now, cfg, acts);
            }
            _ => return false,
        }
        true
    }

    fn promise(&mut self, conn: ConnKey, hail: Hail, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        acts.push(LinkAction::SendAccept(conn));
        self.phase = Phase::Promised;
        self.conn = conn;
        self.peer = hail.incarnation;
        self.dial = hail.dial;
        self.flags &= !FRESH;
        if hail.session == 0 {
            self.forget_session();
            self.session = hail.fresh;
            if hail.fresh != 0 {
                self.flags |= PROVISIONAL | FRESH;
            }
        }
        self.timer = now + self.handshake_timeout(cfg);
        if mutated(Mutant::AdoptOnPromise) {
            self.adopt(acts);
        }
    }
}
