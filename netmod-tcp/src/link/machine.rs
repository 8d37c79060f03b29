//! The state machine of a link.

use core::time::Duration;

use netmod_connection::RejectReason;
use netmod_core::{PeerName, Time};

use super::arbiter;
use super::mutant::{Mutant, mutated};
use super::types::some_time;
use super::{
    Actions, ConnKey, DownCause, Failure, LinkAction, LinkConfig, LinkEvent, Pending, Phase, backoff,
};

/// Messages wait for a connection.
pub(super) const WANTED: u16 = 1;
/// `Terminate` was asked and has not been answered.
pub(super) const TERMINATING: u16 = 2;
/// Every end leads to `Shut`.
pub(super) const SHUTTING: u16 = 4;
/// The peer has said GOODBYE on the adopted connection.
pub(super) const PEER_LEFT: u16 = 8;
/// This side's dial survives a crossing one.
pub(super) const GREATER: u16 = 16;
/// The adopted connection was lost, and its session is to go on.
pub(super) const RESUMING: u16 = 32;
/// The session was promised, and it is not known whether the peer has adopted it. This side has taken no part
/// in it, and can let go of it.
pub(super) const PROVISIONAL: u16 = 64;
/// The promised connection begins the session, rather than resuming it.
pub(super) const FRESH: u16 = 128;
/// This process is being checkpointed.
pub(super) const ASLEEP: u16 = 256;
/// A checkpoint, of either side, will end or has ended the connection, and both know: until the next one is adopted,
/// the peer has long to come back, and refusals by its address say nothing.
pub(super) const PATIENT: u16 = 512;
/// The peer has adopted the adopted connection, too.
pub(super) const MUTUAL: u16 = 1024;

/// Refusals in a row, and the least time since the loss, by which a process is known to be gone.
const GONE_AFTER: u8 = 3;
const GONE_TIME: Duration = Duration::from_millis(200);
/// Parts of the time for resuming that one handshake may take.
const RESUME_TRIES: u32 = 4;

/// The connection to one peer. See the module for the protocol.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Link {
    pub(super) conn: ConnKey,
    /// A connection by a better way, which the peer has been offered in place of the adopted one.
    pub(super) next: ConnKey,
    /// When the present phase must end.
    pub(super) timer: Time,
    /// When messages that wait for a connection have waited too long.
    pub(super) give_up: Time,
    /// What the two sides call what they say to each other over any number of connections; 0: nothing is
    /// resumed.
    pub(super) session: u64,
    /// The peer's incarnation, once known.
    pub(super) peer: u64,
    /// The number of its last dial that is settled: that one was promised, or given up, and those before it were given up.
    pub(super) dial: u64,
    pub(super) last: Failure,
    pub(super) random: u32,
    pub(super) attempts: u16,
    /// Dials in a row that were refused, while resuming.
    refused: u8,
    pub(super) phase: Phase,
    pub(super) flags: u16,
}

impl Link {
    /// A link that was never used. The names must differ: a process has no link to itself, and one
    /// that is made all the same only ever fails. `seed` makes the pauses of different links differ.
    pub fn new(me: &PeerName, peer: &PeerName, seed: u32) -> Link {
        Link {
            conn: ConnKey::NONE,
            next: ConnKey::NONE,
            timer: Time::NEVER,
            give_up: Time::NEVER,
            session: 0,
            peer: 0,
            dial: 0,
            last: Failure::None,
            random: seed.max(1),
            attempts: 0,
            refused: 0,
            phase: Phase::Idle,
            flags: if arbiter::dial_survives(me, peer) { GREATER } else { 0 },
        }
    }

    /// The present phase.
    #[inline]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The adopted connection, on which messages may be sent.
    #[inline]
    pub fn up(&self) -> Option<ConnKey> {
        (self.phase == Phase::Up).then_some(self.conn)
    }

    /// The connection of the present phase, adopted or not.
    pub fn conn(&self) -> Option<ConnKey> {
        (self.conn != ConnKey::NONE).then_some(self.conn)
    }

    /// The session of the adopted connection, of the one that is to resume it, or one that was promised; 0 if
    /// there is none.
    pub fn session(&self) -> u64 {
        self.session
    }

    /// The peer's incarnation; 0 if it is not known.
    pub fn peer(&self) -> u64 {
        self.peer
    }

    /// Whether an adopted connection was lost and another one is to go on in its stead.
    pub fn is_resuming(&self) -> bool {
        self.has(RESUMING)
    }

    /// Whether a [`LinkEvent::Terminate`] or [`LinkEvent::Shutdown`] has not been answered yet.
    pub fn is_terminating(&self) -> bool {
        self.has(TERMINATING)
    }

    /// What the last attempt to connect has failed of, since a connection has been wanted.
    pub fn last_failure(&self) -> Failure {
        self.last
    }

    /// When [`LinkEvent::Timer`] is due.
    #[inline]
    pub fn deadline(&self) -> Option<Time> {
        some_time(self.timer.min(self.give_up))
    }

    /// Makes links equal that differ only in what they count and throw dice with.
    #[cfg(test)]
    pub(super) fn forget_random(&mut self) {
        self.random = 1;
        self.attempts = 0;
        self.refused = 0;
        self.last = Failure::None;
    }

    /// Lets one thing happen. `now` may be a little late, but not go backwards.
    ///
    /// Keys that the link does not know, or no longer, are stale: such an event does nothing, or
    /// ends that connection.
    pub fn on(&mut self, event: LinkEvent, now: Time, cfg: &LinkConfig) -> Actions {
        let mut acts = Actions::none();
        if self.on_while_moving(event, now, cfg, &mut acts) {
            return acts;
        }
        match event {
            LinkEvent::WantSend => self.want_send(now, cfg, &mut acts),
            LinkEvent::Dialing { conn } => self.dialing(conn, &mut acts),
            LinkEvent::Moving { conn } => self.moving_to(conn, now, cfg, &mut acts),
            LinkEvent::DialFailed { conn, failure, permanent } => {
                if self.phase == Phase::Dialing && self.conn == conn {
                    self.conn = ConnKey::NONE;
                    self.attempt_failed(failure, permanent, now, cfg, &mut acts);
                }
            }
            LinkEvent::Incoming { conn, hail } => self.incoming(conn, hail, now, cfg, &mut acts),
            LinkEvent::Accepted { conn, session, incarnation, dials } => {
                self.accepted(conn, session, incarnation, dials, &mut acts);
            }
            LinkEvent::Rejected { conn, reason } => self.rejected(conn, reason, now, cfg, &mut acts),
            LinkEvent::Ready { conn } => self.ready(conn, now, cfg, &mut acts),
            LinkEvent::Heard => {
                if self.phase == Phase::Up {
                    self.flags |= MUTUAL;
                }
            }
            LinkEvent::Goodbye { conn, pending } => self.goodbye(conn, pending, now, cfg, &mut acts),
            LinkEvent::Lost { conn, failure } => self.lost(conn, failure, now, cfg, &mut acts),
            LinkEvent::Terminate { pending } => self.terminate(pending, 0, now, cfg, &mut acts),
            LinkEvent::Shutdown { pending } => {
                self.terminate(pending, SHUTTING, now, cfg, &mut acts);
            }
            LinkEvent::Drained => self.drained(now, cfg, &mut acts),
            LinkEvent::Timer => self.on_timer(now, cfg, &mut acts),
            LinkEvent::Sleep => self.sleep(&mut acts),
            LinkEvent::SleepNow => self.sleep_now(now, cfg, &mut acts),
            LinkEvent::BeginSession { session } => self.begin_session(session),
            LinkEvent::Wake => self.wake(now, cfg),
            LinkEvent::PeerSleeps => self.peer_sleeps(now, cfg),
            LinkEvent::PeerKnows => self.peer_knows(now, cfg, &mut acts),
            LinkEvent::Revive => {
                if self.phase == Phase::Failed {
                    self.phase = Phase::Idle;
                }
            }
            LinkEvent::Abort => self.fail(),
        }
        acts
    }

    #[inline]
    pub(super) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn want_send(&mut self, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        match self.phase {
            Phase::Idle => {
                self.want(now, cfg);
                self.dial(now, cfg, acts);
            }
            Phase::Promised if mutated(Mutant::AdoptDead) => self.adopt(acts),
            Phase::Dialing | Phase::Backoff | Phase::Promised => self.want(now, cfg),
            // The old connection takes no more messages: they wait for the next one.
            Phase::Parting => self.flags |= WANTED,
            // The netmod looks at the phase before it takes a message.
            Phase::Up | Phase::Failed | Phase::Shut => {}
        }
    }

    fn want(&mut self, now: Time, cfg: &LinkConfig) {
        if !self.has(WANTED) {
            self.flags |= WANTED;
            self.attempts = 0;
            self.last = Failure::None;
        }
        if self.give_up == Time::NEVER && !self.has(ASLEEP) {
            self.give_up = now + cfg.connect_timeout;
        }
    }

    pub(super) fn dial(&mut self, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        if self.must_not_dial() {
            self.wait_for_waking();
            return;
        }
        self.phase = Phase::Dialing;
        self.conn = ConnKey::NONE;
        self.timer = now + self.handshake_timeout(cfg);
        acts.push(LinkAction::StartDial);
    }

    pub(super) fn handshake_timeout(&self, cfg: &LinkConfig) -> Duration {
        // Without a time for resuming, only the end of a checkpoint is resumed, which has all the time it needs.
        if self.has(RESUMING) && !cfg.resume_timeout.is_zero() {
            cfg.handshake_timeout.min(cfg.resume_timeout / RESUME_TRIES)
        } else {
            cfg.handshake_timeout
        }
    }

    fn dialing(&mut self, conn: ConnKey, acts: &mut Actions) {
        if self.phase == Phase::Dialing && self.conn == ConnKey::NONE {
            self.conn = conn;
        } else {
            acts.push(LinkAction::Abandon(conn));
        }
    }

    /// A dial or a promise came to nothing and its connection is done with.
    fn attempt_failed(
        &mut self,
        failure: Failure,
        permanent: bool,
        now: Time,
        cfg: &LinkConfig,
        acts: &mut Actions,
    ) {
        self.conn = ConnKey::NONE;
        if failure == Failure::Goodbye && self.has(FRESH) || mutated(Mutant::ForgetPromised) {
            // Nobody has adopted it.
            self.forget_session();
        }
        if !self.has(WANTED) {
            self.rest(now, cfg, acts);
            return;
        }
        self.attempts = self.attempts.saturating_add(1);
        self.last = failure;
        if permanent {
            self.down(DownCause::Refused(failure), acts);
            return;
        }
        let refused = failure == Failure::Errno(libc::ECONNREFUSED);
        self.refused = if refused { self.refused.saturating_add(1) } else { 0 };
        let elapsed = self.wished_for(self.resume_timeout(cfg), now);
        if self.has(RESUMING) && !self.has(PATIENT) && self.refused >= GONE_AFTER && elapsed >= GONE_TIME {
            self.down(DownCause::Gone { refused: self.refused, elapsed }, acts);
            return;
        }
        if now >= self.give_up {
            self.down(self.connect_failure(now, cfg), acts);
            return;
        }
        if self.must_not_dial() {
            self.wait_for_waking();
            return;
        }
        if mutated(Mutant::RedialAtOnce) {
            self.dial(now, cfg, acts);
            return;
        }
        let random = backoff::next_random(&mut self.random);
        let mut pause = backoff::pause(self.attempts, cfg.backoff_min, cfg.backoff_max, random);
        if failure == Failure::Rejected(RejectReason::Crossing) {
            pause = pause.max(cfg.crossing_wait);
        }
        self.phase = Phase::Backoff;
        self.timer = now + pause;
    }

    fn connect_failure(&self, now: Time, cfg: &LinkConfig) -> DownCause {
        let (attempts, last) = (self.attempts, self.last);
        if self.has(RESUMING) {
            return DownCause::NotResumed {
                attempts,
                elapsed: self.wished_for(self.resume_timeout(cfg), now),
                last,
            };
        }
        DownCause::Connect { attempts, elapsed: self.wished_for(cfg.connect_timeout, now), last }
    }

    /// How long a connection has been wanted, if `give_up` was set `timeout` after the wish.
    fn wished_for(&self, timeout: Duration, now: Time) -> Duration {
        let left = self.give_up.since(now);
        let late = now.since(self.give_up);
        timeout.saturating_sub(left).saturating_add(late)
    }

    fn accepted(&mut self, conn: ConnKey, session: u64, incarnation: u64, dials: u64, acts: &mut Actions) {
        if self.phase == Phase::Dialing && self.conn == conn {
            self.session = session;
            self.peer = incarnation;
            self.dial = if mutated(Mutant::ForgetDials) { 0 } else { dials };
            acts.push(LinkAction::SendReady(conn));
            self.adopt(acts);
        } else if self.conn != conn {
            acts.push(LinkAction::Abandon(conn));
        }
    }

    fn ready(&mut self, conn: ConnKey, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        if self.phase == Phase::Promised && self.conn == conn {
            let pending = self.has(WANTED);
            self.adopt(acts);
            self.flags |= MUTUAL;
            if self.has(TERMINATING) && !pending {
                self.part(now, cfg, acts);
            }
        } else if self.conn != conn {
            // The peer may have sent messages behind its READY: it must not take this for an
            // orderly end.
            acts.push(LinkAction::Withdraw(conn));
        }
    }

    pub(super) fn adopt(&mut self, acts: &mut Actions) {
        self.phase = Phase::Up;
        self.flags &= !(WANTED | RESUMING | PROVISIONAL | FRESH | PATIENT | MUTUAL);
        self.timer = Time::NEVER;
        self.give_up = Time::NEVER;
        self.attempts = 0;
        self.refused = 0;
        self.last = Failure::None;
        acts.push(LinkAction::Adopt(self.conn));
    }

    fn rejected(
        &mut self,
        conn: ConnKey,
        reason: RejectReason,
        now: Time,
        cfg: &LinkConfig,
        acts: &mut Actions,
    ) {
        if self.phase != Phase::Dialing || self.conn != conn {
            return;
        }
        acts.push(LinkAction::Close(conn));
        let mut permanent = !reason.is_transient();
        if reason == RejectReason::NoSession && self.has(PROVISIONAL) && !mutated(Mutant::InsistOnPromised) {
            // The peer never learned of the promise, or had given it up.
            self.forget_session();
            permanent = false;
        }
        if self.is_elsewhere(reason) {
            permanent = false;
        }
        self.attempt_failed(Failure::Rejected(reason), permanent, now, cfg, acts);
    }

    fn goodbye(&mut self, conn: ConnKey, pending: Pending, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        if self.conn != conn {
            return;
        }
        match self.phase {
            Phase::Dialing | Phase::Promised => {
                if keeps_promises() && self.phase == Phase::Promised {
                    return;
                }
                acts.push(LinkAction::Close(conn));
                self.attempt_failed(Failure::Goodbye, false, now, cfg, acts);
            }
            Phase::Up if pending == Pending::Nothing => {
                acts.push(LinkAction::Abandon(conn));
                self.rest(now, cfg, acts);
            }
            // A peer that has said GOODBYE reads on until it hears ours, so what is pending may
            // still go out.
            Phase::Up if self.has(TERMINATING) => self.flags |= PEER_LEFT,
            Phase::Up if pending == Pending::Whole => {
                acts.push(LinkAction::Abandon(conn));
                self.flags |= WANTED;
                self.rest(now, cfg, acts);
            }
            Phase::Up => {
                acts.push(LinkAction::Close(conn));
                self.down(DownCause::CutOff, acts);
            }
            Phase::Parting => {
                acts.push(LinkAction::Close(conn));
                self.rest(now, cfg, acts);
            }
            Phase::Idle | Phase::Backoff | Phase::Failed | Phase::Shut => {}
        }
    }

    pub(super) fn lost(
        &mut self,
        conn: ConnKey,
        failure: Failure,
        now: Time,
        cfg: &LinkConfig,
        acts: &mut Actions,
    ) {
        if self.conn != conn {
            return;
        }
        match self.phase {
            Phase::Promised if keeps_promises() => {}
            Phase::Dialing | Phase::Promised => {
                self.attempt_failed(failure, false, now, cfg, acts);
            }
            Phase::Up if mutated(Mutant::LostIsDown) => self.down(DownCause::Lost(failure), acts),
            Phase::Up if self.session != 0 && self.has(PATIENT) => self.rest_with_peer(now, cfg, acts),
            Phase::Up if self.session != 0 && failure != Failure::Protocol && !self.has(PEER_LEFT) => {
                self.suspend(failure, now, cfg, acts);
                self.dial(now, cfg, acts);
            }
            Phase::Up => self.down(DownCause::Lost(failure), acts),
            Phase::Parting if mutated(Mutant::PartingEofIsDeath) => {
                self.down(DownCause::Lost(failure), acts);
            }
            // The peer has read nothing of what was sent to it before the GOODBYE.
            Phase::Parting if failure == Failure::Withdrawn => self.down(DownCause::Lost(failure), acts),
            // The end of the connection is the peer's goodbye.
            Phase::Parting => self.rest(now, cfg, acts),
            Phase::Idle | Phase::Backoff | Phase::Failed | Phase::Shut => {}
        }
    }

    fn terminate(&mut self, pending: bool, shutting: u16, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        self.flags |= TERMINATING | shutting;
        match self.phase {
            Phase::Idle if pending => self.want_send(now, cfg, acts),
            Phase::Idle | Phase::Failed => self.rest(now, cfg, acts),
            Phase::Dialing | Phase::Backoff if !pending => {
                if self.conn != ConnKey::NONE {
                    acts.push(LinkAction::Abandon(self.conn));
                }
                self.flags &= !WANTED;
                self.rest(now, cfg, acts);
            }
            // The peer may have adopted the connection already and be sending: its READY decides.
            Phase::Promised if !pending => {
                self.flags &= !(WANTED | RESUMING | PATIENT);
                self.give_up = Time::NEVER;
            }
            Phase::Dialing | Phase::Backoff | Phase::Promised => self.want(now, cfg),
            Phase::Up if !pending => self.part(now, cfg, acts),
            Phase::Up | Phase::Parting => {}
            Phase::Shut => self.rest(now, cfg, acts),
        }
    }

    fn drained(&mut self, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        if self.phase == Phase::Up && self.has(TERMINATING) {
            self.part(now, cfg, acts);
        }
    }

    fn part(&mut self, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        if self.has(PEER_LEFT) {
            acts.push(LinkAction::Abandon(self.conn));
            self.rest(now, cfg, acts);
        } else {
            acts.push(LinkAction::SayGoodbye(self.conn));
            self.phase = Phase::Parting;
            self.timer = now + cfg.parting_timeout;
        }
    }

    fn on_timer(&mut self, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        if self.deadline().is_none_or(|at| now < at) {
            return;
        }
        let conn = self.conn;
        let too_late = now >= self.give_up;
        match self.phase {
            Phase::Dialing => {
                if conn != ConnKey::NONE {
                    acts.push(LinkAction::Abandon(conn));
                }
                self.attempt_failed(Failure::TimedOut, false, now, cfg, acts);
            }
            Phase::Promised => {
                acts.push(if mutated(Mutant::GoodbyeForWithdrawn) {
                    LinkAction::Abandon(conn)
                } else {
                    LinkAction::Withdraw(conn)
                });
                self.attempt_failed(Failure::TimedOut, false, now, cfg, acts);
            }
            Phase::Backoff if too_late => self.down(self.connect_failure(now, cfg), acts),
            Phase::Backoff => self.dial(now, cfg, acts),
            Phase::Parting => {
                acts.push(LinkAction::Close(conn));
                self.rest(now, cfg, acts);
            }
            Phase::Idle | Phase::Up | Phase::Failed | Phase::Shut => {}
        }
    }

    /// No connection is left; answers `Terminate`, and goes on if messages wait for a new one.
    pub(super) fn rest(&mut self, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        let wanted = self.has(WANTED);
        self.clear();
        if self.has(TERMINATING) {
            self.flags &= !TERMINATING;
            acts.push(LinkAction::Terminated);
        }
        if self.has(SHUTTING) {
            self.phase = Phase::Shut;
        } else {
            self.phase = Phase::Idle;
            if wanted {
                self.want_send(now, cfg, acts);
            }
        }
    }

    pub(super) fn down(&mut self, cause: DownCause, acts: &mut Actions) {
        acts.push(LinkAction::Down(cause));
        self.fail();
    }

    fn fail(&mut self) {
        // A terminating link is at its end anyhow, and can be used again.
        self.phase = if self.has(SHUTTING) {
            Phase::Shut
        } else if self.has(TERMINATING) {
            Phase::Idle
        } else {
            Phase::Failed
        };
        self.flags &= !(TERMINATING | PROVISIONAL);
        self.clear();
    }

    /// The adopted connection is lost, and its session goes on.
    pub(super) fn suspend(&mut self, failure: Failure, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        acts.push(LinkAction::Suspend(failure));
        self.conn = ConnKey::NONE;
        self.flags |= RESUMING | WANTED;
        self.attempts = 0;
        self.refused = 0;
        self.last = Failure::None;
        self.give_up = now + self.resume_timeout(cfg);
    }

    pub(super) fn forget_session(&mut self) {
        self.session = 0;
        self.flags &= !(PROVISIONAL | FRESH);
    }

    fn clear(&mut self) {
        self.conn = ConnKey::NONE;
        self.timer = Time::NEVER;
        self.give_up = Time::NEVER;
        self.attempts = 0;
        self.refused = 0;
        self.last = Failure::None;
        self.flags &= !(WANTED | PEER_LEFT | RESUMING | FRESH | PATIENT);
        // The peer may have adopted what was promised, and resume it.
        if !self.has(PROVISIONAL) {
            self.session = 0;
        }
    }
}

fn keeps_promises() -> bool {
    mutated(Mutant::KeepPromise) || mutated(Mutant::AdoptDead)
}
