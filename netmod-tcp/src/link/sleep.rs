//! What a link does while its process, or the peer's, is being checkpointed.

use core::time::Duration;

use netmod_core::Time;

use super::machine::{ASLEEP, PATIENT, RESUMING, WANTED};
use super::mutant::{Mutant, mutated};
use super::{Actions, ConnKey, DownCause, Failure, Link, LinkAction, LinkConfig, Phase, backoff};

impl Link {
    /// Whether a lost connection was given up for a checkpoint, so that the peer has long to come back.
    pub fn is_patient(&self) -> bool {
        self.has(PATIENT)
    }

    pub(super) fn resume_timeout(&self, cfg: &LinkConfig) -> Duration {
        if self.has(PATIENT) { cfg.ckpt_timeout } else { cfg.resume_timeout }
    }

    pub(super) fn sleep(&mut self, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        self.flags |= ASLEEP;
        match self.phase {
            Phase::Dialing => {
                if self.conn != ConnKey::NONE {
                    acts.push(LinkAction::Abandon(self.conn));
                }
                self.wait_for_waking();
            }
            Phase::Promised => {
                acts.push(LinkAction::Withdraw(self.conn));
                self.conn = ConnKey::NONE;
                if self.has(WANTED) {
                    self.wait_for_waking();
                } else {
                    self.rest(now, cfg, acts);
                }
            }
            Phase::Backoff => self.wait_for_waking(),
            // What is open comes to its end: the netmod sees to it that it does.
            Phase::Up | Phase::Parting | Phase::Idle | Phase::Failed | Phase::Shut => {}
        }
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

    pub(super) fn peer_sleeps(&mut self, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        if self.phase == Phase::Up && self.session != 0 {
            acts.push(LinkAction::Close(self.conn));
            if mutated(Mutant::DeadSleeper) {
                self.down(DownCause::Lost(Failure::Checkpoint), acts);
                return;
            }
            self.flags |= PATIENT;
            self.suspend(Failure::Checkpoint, now, cfg, acts);
            self.last = Failure::Checkpoint;
            if self.has(ASLEEP) {
                self.wait_for_waking();
                return;
            }
            self.phase = Phase::Backoff;
            // The peer will dial.
            self.timer = Time::NEVER;
        } else if self.has(RESUMING) {
            // It said so on a connection that has broken since. Dials in vain do no harm.
            self.flags |= PATIENT;
            if !self.has(ASLEEP) {
                self.give_up = now + cfg.ckpt_timeout;
            }
        }
    }
}
