//! Checkpoints: of a link's own process, or of the peer's.

use netmod_connection::RejectReason;
use netmod_connection::establish::Event;
use netmod_core::Time;

use super::machine::{ASLEEP, Life, PATIENT, PEER_LEFT, RESUMING};
use super::{Actions, Failure, Link, LinkAction, LinkConfig, Phase};

impl Link {
    /// Returns true if both sides know that the connection ends for a checkpoint, so that the peer
    /// has long to come back.
    pub fn is_patient(&self) -> bool {
        self.has(PATIENT)
    }

    /// Returns true if nothing is under way that would have to come to its end before the process
    /// sleeps.
    pub fn is_quiet(&self) -> bool {
        self.conn().is_none() && self.deadline().is_none()
    }

    /// A peer that has not heard of the checkpoint would take the process for dead: whoever may
    /// hold a session with it is still connected with, so that the netmod can tell it on the
    /// connection.
    pub(super) fn sleep(&mut self, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        self.flags |= ASLEEP;
        if self.phase() == Phase::Backoff && self.must_not_dial() {
            self.establish(Event::Wait, now, cfg, acts);
        }
    }

    /// A connection that would not be resumed after a loss is resumed after a checkpoint.
    pub(super) fn begin_session(&mut self, session: u64) {
        if self.life == Life::Up && self.session == 0 && !self.has(PEER_LEFT) {
            self.session = session;
        }
    }

    /// Returns true if a refusal says that a peer that was checkpointed is elsewhere now.
    pub(super) fn is_elsewhere(&self, reason: RejectReason) -> bool {
        let another = matches!(reason, RejectReason::WrongPeer | RejectReason::UnknownGroup);
        another && self.has(PATIENT)
    }

    /// There is no more time to tell anybody.
    pub(super) fn sleep_now(&mut self, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        self.flags |= ASLEEP;
        if let Some(conn) = self.conn() {
            acts.push(LinkAction::Close(conn));
            self.flags |= PATIENT;
            self.lost(conn, Failure::Checkpoint, now, cfg, acts);
        }
        if self.phase() == Phase::Backoff {
            if self.has(RESUMING) {
                self.flags |= PATIENT;
            }
            self.establish(Event::Wait, now, cfg, acts);
        }
    }

    /// Returns true if no dial may begin, and no time passes. A peer that knows of no reason why
    /// its connection was lost must be told yet.
    pub(super) fn must_not_dial(&self) -> bool {
        self.has(ASLEEP) && (!self.has(RESUMING) || self.has(PATIENT))
    }

    pub(super) fn wake(&mut self, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        self.flags &= !ASLEEP;
        if self.life == Life::Making {
            self.establish(Event::Wake, now, cfg, acts);
        }
    }

    /// The peer is about to be checkpointed. Its word may come from a connection that has broken
    /// since.
    pub(super) fn peer_sleeps(&mut self, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        if self.life == Life::Up && self.session != 0 {
            self.flags |= PATIENT;
        } else if self.has(RESUMING) {
            self.flags |= PATIENT;
            if self.has(ASLEEP) {
                self.sleep(now, cfg, acts);
            } else {
                self.establish(Event::Extend, now, cfg, acts);
            }
        }
    }

    /// The peer will be patient: the connection has served its purpose.
    pub(super) fn peer_knows(&mut self, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        if self.life == Life::Up && self.session != 0 && self.has(ASLEEP) {
            if let Some(conn) = self.conn() {
                acts.push(LinkAction::Close(conn));
            }
            self.flags |= PATIENT;
            self.rest_with_peer(now, cfg, acts);
        }
    }

    /// The connection has ended for a checkpoint: who wakes dials.
    pub(super) fn rest_with_peer(&mut self, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        self.suspend(Failure::Checkpoint, now, cfg, acts);
        self.establish(Event::Wait, now, cfg, acts);
    }
}
