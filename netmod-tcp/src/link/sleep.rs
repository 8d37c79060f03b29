//! What a link does while its process, or the peer's, is being checkpointed.

use core::time::Duration;

use netmod_connection::RejectReason;
use netmod_core::Time;

use super::machine::{ASLEEP, PATIENT, PEER_LEFT, RESUMING};
use super::mutant::{Mutant, mutated};
use super::{Actions, ConnKey, DownCause, Failure, Link, LinkAction, LinkConfig, Phase, backoff};

impl Link {
    /// Whether both sides know that the connection ends for a checkpoint, so that the peer has long to come back.
    pub fn is_patient(&self) -> bool {
        self.has(PATIENT)
    }

    pub(super) fn resume_timeout(&self, cfg: &LinkConfig) -> Duration {
        if self.has(PATIENT) { cfg.ckpt_timeout } else { cfg.resume_timeout }
    }

    /// Whether nothing is under way that would have to come to its end before the process sleeps.
    pub fn is_quiet(&self) -> bool {
        self.conn == ConnKey::NONE && self.deadline().is_none()
    }

    /// A peer that has not heard of the checkpoint would take the process for dead: whoever may hold a session with
    /// it is still connected with, so that the netmod can tell it on the connection.
    pub(super) fn sleep(&mut self, acts: &mut Actions) {
        self.flags |= ASLEEP;
        if self.phase == Phase::Promised && mutated(Mutant::MuteSleeper) {
            acts.push(LinkAction::Withdraw(self.conn));
            self.wait_for_waking();
        }
        if self.phase == Phase::Backoff && !self.must_tell() {
            self.wait_for_waking();
        }
    }

    /// A connection that would not be resumed after a loss is resumed after a checkpoint.
    pub(super) fn begin_session(&mut self, session: u64) {
        if mutated(Mutant::SleeperAlone) && !self.has(ASLEEP) {
            return;
        }
        if self.phase == Phase::Up && self.session == 0 && !self.has(PEER_LEFT) {
            self.session = session;
        }
    }

    /// Returns true if a refusal says that a peer that was checkpointed is elsewhere now.
    pub(super) fn is_elsewhere(&self, reason: RejectReason) -> bool {
        let another = matches!(reason, RejectReason::WrongPeer | RejectReason::UnknownGroup);
        another && self.has(PATIENT) && !mutated(Mutant::TakeTheFirst)
    }

    /// There is no more time to tell anybody.
    pub(super) fn sleep_now(&mut self, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        self.flags |= ASLEEP;
        if self.conn != ConnKey::NONE {
            let conn = self.conn;
            acts.push(LinkAction::Close(conn));
            self.flags |= PATIENT;
            self.lost(conn, Failure::Checkpoint, now, cfg, acts);
        }
        if self.phase == Phase::Backoff {
            self.wait_for_waking();
        }
    }

    /// Whether the peer knows of no reason why a connection was lost.
    fn must_tell(&self) -> bool {
        self.has(RESUMING) && !self.has(PATIENT)
    }

    /// Whether no dial may begin.
    pub(super) fn must_not_dial(&self) -> bool {
        self.has(ASLEEP) && !self.must_tell() && !mutated(Mutant::DialAsleep)
    }

    /// No time passes for a process that is being checkpointed.
    pub(super) fn wait_for_waking(&mut self) {
        self.phase = Phase::Backoff;
        self.conn = ConnKey::NONE;
        self.timer = Time::NEVER;
        self.give_up = Time::NEVER;
        if self.has(RESUMING) {
            self.flags |= PATIENT;
        }
    }

    pub(super) fn wake(&mut self, now: Time, cfg: &LinkConfig) {
        self.flags &= !ASLEEP;
        if self.phase == Phase::Backoff {
            // Not all at once.
            let random = backoff::next_random(&mut self.random);
            self.timer = now + backoff::pause(1, cfg.backoff_min, cfg.backoff_max, random);
            let resuming = self.has(RESUMING);
            self.give_up = now + if resuming { self.resume_timeout(cfg) } else { cfg.connect_timeout };
        }
    }

    /// What the peer says of itself may also come from a connection that has broken since.
    pub(super) fn peer_sleeps(&mut self, now: Time, cfg: &LinkConfig) {
        if self.phase == Phase::Up && self.session != 0 {
            self.flags |= PATIENT;
        } else if self.has(RESUMING) {
            self.flags |= PATIENT;
            if self.has(ASLEEP) {
                self.sleep(&mut Actions::none());
            } else {
                self.give_up = now + cfg.ckpt_timeout;
            }
        }
    }

    /// The peer will be patient: the connection has served its purpose.
    pub(super) fn peer_knows(&mut self, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        if self.phase == Phase::Up && self.session != 0 && self.has(ASLEEP) {
            acts.push(LinkAction::Close(self.conn));
            self.flags |= PATIENT;
            self.rest_with_peer(now, cfg, acts);
        }
    }

    /// The connection has ended for a checkpoint: who wakes dials.
    pub(super) fn rest_with_peer(&mut self, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        if mutated(Mutant::DeadSleeper) {
            self.down(DownCause::Lost(Failure::Checkpoint), acts);
            return;
        }
        self.suspend(Failure::Checkpoint, now, cfg, acts);
        self.last = Failure::Checkpoint;
        self.phase = Phase::Backoff;
        self.timer = Time::NEVER;
        if self.has(ASLEEP) {
            self.wait_for_waking();
        }
    }
}
