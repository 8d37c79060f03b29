//! The state machine of a link.

use core::time::Duration;

use netmod_connection::RejectReason;
use netmod_connection::establish::{self, Action as Made, Event, Machine, Rules, dial_survives};
use netmod_core::{PeerName, Time};

use super::{Actions, ConnKey, DownCause, Failure, LinkAction, LinkConfig, LinkEvent, Pending, Phase};

/// `Terminate` was asked and has not been answered.
pub(super) const TERMINATING: u16 = 1;
/// Every end leads to `Shut`.
pub(super) const SHUTTING: u16 = 2;
/// The peer has said GOODBYE on the adopted connection.
pub(super) const PEER_LEFT: u16 = 4;
/// The adopted connection was lost, and its session is to go on.
pub(super) const RESUMING: u16 = 8;
/// The session was promised, and it is not known whether the peer has adopted it. This side has
/// taken no part in it, and can let go of it.
pub(super) const PROVISIONAL: u16 = 16;
/// The promised connection begins the session, rather than resuming it.
pub(super) const FRESH: u16 = 32;
/// This process is being checkpointed.
pub(super) const ASLEEP: u16 = 64;
/// A checkpoint, of either side, will end or has ended the connection, and both know: until the
/// next one is adopted, the peer has long to come back, and refusals by its address say nothing.
pub(super) const PATIENT: u16 = 128;
/// The peer has adopted the adopted connection, too.
pub(super) const MUTUAL: u16 = 256;

/// Refusals in a row, and the least time since the loss, by which a process is known to be gone.
const GONE_AFTER: u8 = 3;
const GONE_TIME: Duration = Duration::from_millis(200);
/// Parts of the time for resuming that one handshake may take.
const RESUME_TRIES: u32 = 4;

/// The life of the connection since it was adopted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Life {
    /// It is not adopted.
    Making,
    /// Messages flow.
    Up,
    /// GOODBYE was said; the peer's is awaited.
    Parting,
    /// The VC was reported down.
    Failed,
    /// Shut down for good.
    Shut,
}

/// The connection to one peer. See the module for the protocol.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Link {
    /// The establishment of the connection.
    pub(super) establish: Machine<ConnKey, Failure>,
    /// A connection by a better way, which the peer has been offered in place of the adopted one.
    pub(super) next: ConnKey,
    /// End of an offer, or of the wait for the peer's GOODBYE.
    pub(super) timer: Time,
    /// The name of what the two sides say to each other over any number of connections; 0: nothing
    /// is resumed.
    pub(super) session: u64,
    /// Dials in a row that were refused, while resuming.
    refused: u8,
    pub(super) life: Life,
    pub(super) flags: u16,
}

impl Link {
    /// A link that was never used. The names must differ: a process has no link to itself, and one
    /// that is made all the same only ever fails. `seed` makes the pauses of different links
    /// differ.
    pub fn new(me: &PeerName, peer: &PeerName, seed: u32) -> Link {
        Link {
            establish: Machine::new(dial_survives(me, peer), seed),
            next: ConnKey::NONE,
            timer: Time::NEVER,
            session: 0,
            refused: 0,
            life: Life::Making,
            flags: 0,
        }
    }

    /// The present phase.
    #[inline]
    pub fn phase(&self) -> Phase {
        match (self.life, self.establish.phase()) {
            (Life::Making, establish::Phase::Dialing) => Phase::Dialing,
            (Life::Making, establish::Phase::Backoff) => Phase::Backoff,
            (Life::Making, establish::Phase::Promised) => Phase::Promised,
            (Life::Making, establish::Phase::Idle | establish::Phase::Made) => Phase::Idle,
            (Life::Up, _) => Phase::Up,
            (Life::Parting, _) => Phase::Parting,
            (Life::Failed, _) => Phase::Failed,
            (Life::Shut, _) => Phase::Shut,
        }
    }

    /// The adopted connection, on which messages may be sent.
    #[inline]
    pub fn up(&self) -> Option<ConnKey> {
        self.establish.conn().filter(|_| self.life == Life::Up)
    }

    /// The connection of the present phase, adopted or not.
    pub fn conn(&self) -> Option<ConnKey> {
        self.establish.conn()
    }

    /// The session of the adopted connection, of the one that is to resume it, or one that was
    /// promised; 0 if there is none.
    pub fn session(&self) -> u64 {
        self.session
    }

    /// The peer's incarnation; 0 if it is not known.
    pub fn peer(&self) -> u64 {
        self.establish.incarnation()
    }

    /// Returns true if an adopted connection was lost and another one is to go on in its stead.
    pub fn is_resuming(&self) -> bool {
        self.has(RESUMING)
    }

    /// Returns true if a [`LinkEvent::Terminate`] or [`LinkEvent::Shutdown`] has not been answered
    /// yet.
    pub fn is_terminating(&self) -> bool {
        self.has(TERMINATING)
    }

    /// The last failure of an attempt to connect, since a connection has been wanted.
    pub fn last_failure(&self) -> Failure {
        let none = if self.has(PATIENT) { Failure::Checkpoint } else { Failure::None };
        self.establish.last_failure().copied().unwrap_or(none)
    }

    /// The time at which [`LinkEvent::Timer`] is due.
    #[inline]
    pub fn deadline(&self) -> Option<Time> {
        let due = self.timer.min(self.establish.deadline().unwrap_or(Time::NEVER));
        (due != Time::NEVER).then_some(due)
    }

    /// Makes links equal that differ only in what they count and throw dice with.
    #[cfg(test)]
    pub(super) fn forget_random(&mut self) {
        self.establish.normalize(Duration::ZERO);
        self.refused = 0;
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
            LinkEvent::Dialing { conn } => self.establish(Event::Dialing { conn }, now, cfg, &mut acts),
            LinkEvent::Moving { conn } => self.moving_to(conn, now, cfg, &mut acts),
            LinkEvent::DialFailed { conn, failure, permanent } => {
                self.dial_failed(conn, failure, permanent, now, cfg, &mut acts);
            }
            LinkEvent::Incoming { conn, params } => self.incoming(conn, params, now, cfg, &mut acts),
            LinkEvent::Accepted { conn, session, incarnation, dials } => {
                if self.phase() == Phase::Dialing && self.establish.conn() == Some(conn) {
                    self.session = session;
                }
                self.establish(Event::Accepted { conn, incarnation, dials }, now, cfg, &mut acts);
            }
            LinkEvent::Rejected { conn, reason } => self.rejected(conn, reason, now, cfg, &mut acts),
            LinkEvent::Ready { conn } => self.ready(conn, now, cfg, &mut acts),
            LinkEvent::Heard => {
                if self.life == Life::Up {
                    self.flags |= MUTUAL;
                }
            }
            LinkEvent::Goodbye { conn, pending } => self.goodbye(conn, pending, now, cfg, &mut acts),
            LinkEvent::Lost { conn, failure } => self.lost(conn, failure, now, cfg, &mut acts),
            LinkEvent::Terminate { pending } => self.terminate(pending, 0, now, cfg, &mut acts),
            LinkEvent::Shutdown { pending } => {
                self.terminate(pending, SHUTTING, now, cfg, &mut acts);
            }
            LinkEvent::Drained => {
                if self.life == Life::Up && self.has(TERMINATING) {
                    self.part(now, cfg, &mut acts);
                }
            }
            LinkEvent::Timer => self.on_timer(now, cfg, &mut acts),
            LinkEvent::Sleep => self.sleep(now, cfg, &mut acts),
            LinkEvent::SleepNow => self.sleep_now(now, cfg, &mut acts),
            LinkEvent::BeginSession { session } => self.begin_session(session),
            LinkEvent::Wake => self.wake(now, cfg, &mut acts),
            LinkEvent::PeerSleeps => self.peer_sleeps(now, cfg, &mut acts),
            LinkEvent::PeerKnows => self.peer_knows(now, cfg, &mut acts),
            LinkEvent::Revive => {
                if self.life == Life::Failed {
                    self.life = Life::Making;
                }
            }
            LinkEvent::Abort => self.fail(now, cfg),
        }
        acts
    }

    #[inline]
    pub(super) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Something happens to a connection that comes about, or begins to.
    pub(super) fn establish(
        &mut self,
        event: Event<ConnKey, Failure>,
        now: Time,
        cfg: &LinkConfig,
        acts: &mut Actions,
    ) {
        let rules = self.rules(cfg);
        for act in self.establish.on(event, now, &rules) {
            let act = match act {
                Made::Dial => LinkAction::StartDial,
                Made::Accept(c) => LinkAction::SendAccept(c),
                Made::Reject(c, reason) => LinkAction::SendReject(c, reason),
                Made::Abandon(c) => LinkAction::Abandon(c),
                Made::Withdraw(c) => LinkAction::Withdraw(c),
                Made::Close(c) => LinkAction::Close(c),
                Made::Made { conn, dialed } => {
                    if dialed {
                        acts.push(LinkAction::SendReady(conn));
                    }
                    self.adopted();
                    LinkAction::Adopt(conn)
                }
                Made::Unreachable { permanent, attempts, elapsed } => {
                    let cause = self.unreachable(permanent, attempts, elapsed);
                    self.fail(now, cfg);
                    LinkAction::Down(cause)
                }
                // TCP retransmits by itself, and the rules say so.
                Made::Retransmit(_) => continue,
            };
            acts.push(act);
        }
        if self.phase() == Phase::Idle {
            self.rested(acts);
        }
    }

    fn rules(&self, cfg: &LinkConfig) -> Rules {
        let mut handshake_timeout = cfg.handshake_timeout;
        // Without a time for resuming, only the end of a checkpoint is resumed, which has all the
        // time it needs.
        if self.has(RESUMING) && !cfg.resume_timeout.is_zero() {
            handshake_timeout = handshake_timeout.min(cfg.resume_timeout / RESUME_TRIES);
        }
        Rules {
            connect_timeout: match self.has(RESUMING) {
                true if self.has(PATIENT) => cfg.ckpt_timeout,
                true => cfg.resume_timeout,
                false => cfg.connect_timeout,
            },
            handshake_timeout,
            promise_timeout: handshake_timeout,
            backoff_min: cfg.backoff_min,
            backoff_max: cfg.backoff_max,
            crossing_wait: cfg.crossing_wait,
            retransmit: Duration::MAX,
            held: self.must_not_dial(),
        }
    }

    fn unreachable(&self, permanent: bool, attempts: u16, elapsed: Duration) -> DownCause {
        let last = self.last_failure();
        match permanent {
            true => DownCause::Refused(last),
            false if self.has(RESUMING) => DownCause::NotResumed { attempts, elapsed, last },
            false => DownCause::Connect { attempts, elapsed, last },
        }
    }

    pub(super) fn want_send(&mut self, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        match self.life {
            // The old connection takes no more messages: they wait for the next one.
            Life::Making | Life::Parting => self.establish(Event::Want, now, cfg, acts),
            // The netmod looks at the phase before it takes a message.
            Life::Up | Life::Failed | Life::Shut => {}
        }
    }

    fn dial_failed(
        &mut self,
        conn: ConnKey,
        failure: Failure,
        permanent: bool,
        now: Time,
        cfg: &LinkConfig,
        acts: &mut Actions,
    ) {
        let conn = (conn != ConnKey::NONE).then_some(conn);
        if self.phase() != Phase::Dialing || self.establish.conn() != conn {
            return;
        }
        let refused = failure == Failure::Errno(libc::ECONNREFUSED);
        self.refused = if refused { self.refused.saturating_add(1) } else { 0 };
        let elapsed = self.establish.wanted_for(now, &self.rules(cfg));
        let gone = self.refused >= GONE_AFTER && elapsed >= GONE_TIME;
        if gone && !permanent && self.has(RESUMING) && !self.has(PATIENT) {
            self.down(DownCause::Gone { refused: self.refused, elapsed }, now, cfg, acts);
        } else {
            self.establish(Event::Failed { conn, failure, permanent }, now, cfg, acts);
        }
    }

    fn ready(&mut self, conn: ConnKey, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        let pending = self.establish.is_wanted();
        let promised = self.phase() == Phase::Promised && self.establish.conn() == Some(conn);
        self.establish(Event::Ready { conn }, now, cfg, acts);
        if promised {
            self.flags |= MUTUAL;
            if self.has(TERMINATING) && !pending {
                self.part(now, cfg, acts);
            }
        }
    }

    fn adopted(&mut self) {
        self.life = Life::Up;
        self.flags &= !(RESUMING | PROVISIONAL | FRESH | PATIENT | MUTUAL);
        self.timer = Time::NEVER;
        self.refused = 0;
    }

    fn rejected(
        &mut self,
        conn: ConnKey,
        reason: RejectReason,
        now: Time,
        cfg: &LinkConfig,
        acts: &mut Actions,
    ) {
        if self.phase() != Phase::Dialing || self.establish.conn() != Some(conn) {
            return;
        }
        let mut permanent = !reason.is_transient();
        if reason == RejectReason::NoSession && self.has(PROVISIONAL) {
            // The peer never learned of the promise, or had given it up.
            self.forget_session();
            permanent = false;
        }
        if self.is_elsewhere(reason) {
            permanent = false;
        }
        self.refused = 0;
        self.establish(Event::Rejected { conn, reason, permanent }, now, cfg, acts);
    }

    fn goodbye(&mut self, conn: ConnKey, pending: Pending, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        if self.establish.conn() != Some(conn) {
            return;
        }
        match self.life {
            Life::Making => {
                if self.has(FRESH) {
                    // Nobody has adopted it.
                    self.forget_session();
                }
                self.refused = 0;
                self.establish(Event::Goodbye { conn }, now, cfg, acts);
            }
            Life::Up if pending == Pending::Nothing => {
                acts.push(LinkAction::Abandon(conn));
                self.end(now, cfg, acts);
            }
            // A peer that has said GOODBYE reads on until it hears ours, so what is pending may
            // still go out.
            Life::Up if self.has(TERMINATING) => self.flags |= PEER_LEFT,
            Life::Up if pending == Pending::Whole => {
                acts.push(LinkAction::Abandon(conn));
                self.establish(Event::Want, now, cfg, acts);
                self.end(now, cfg, acts);
            }
            Life::Up => {
                acts.push(LinkAction::Close(conn));
                self.down(DownCause::CutOff, now, cfg, acts);
            }
            Life::Parting => {
                acts.push(LinkAction::Close(conn));
                self.end(now, cfg, acts);
            }
            Life::Failed | Life::Shut => {}
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
        if self.establish.conn() != Some(conn) {
            return;
        }
        match self.life {
            Life::Making => {
                self.refused = 0;
                let conn = Some(conn);
                self.establish(Event::Failed { conn, failure, permanent: false }, now, cfg, acts);
            }
            Life::Up if self.session != 0 && self.has(PATIENT) => self.rest_with_peer(now, cfg, acts),
            Life::Up if self.session != 0 && failure != Failure::Protocol && !self.has(PEER_LEFT) => {
                self.suspend(failure, now, cfg, acts);
                self.establish(Event::Want, now, cfg, acts);
            }
            Life::Up => self.down(DownCause::Lost(failure), now, cfg, acts),
            // The peer has read nothing of what was sent to it before the GOODBYE.
            Life::Parting if failure == Failure::Withdrawn => {
                self.down(DownCause::Lost(failure), now, cfg, acts);
            }
            // The end of the connection is the peer's goodbye.
            Life::Parting => self.end(now, cfg, acts),
            Life::Failed | Life::Shut => {}
        }
    }

    fn terminate(&mut self, pending: bool, shutting: u16, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        self.flags |= TERMINATING | shutting;
        match self.phase() {
            Phase::Idle if !pending => self.end(now, cfg, acts),
            Phase::Failed | Phase::Shut => self.end(now, cfg, acts),
            // The peer may have adopted a promised connection already and be sending: its READY
            // decides.
            Phase::Dialing | Phase::Backoff | Phase::Promised if !pending => {
                self.flags &= !(RESUMING | PATIENT);
                self.establish(Event::Cancel, now, cfg, acts);
            }
            Phase::Idle | Phase::Dialing | Phase::Backoff | Phase::Promised => {
                self.establish(Event::Want, now, cfg, acts);
            }
            Phase::Up if !pending => self.part(now, cfg, acts),
            Phase::Up | Phase::Parting => {}
        }
    }

    fn part(&mut self, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        let Some(conn) = self.establish.conn() else { return };
        if self.has(PEER_LEFT) {
            acts.push(LinkAction::Abandon(conn));
            self.end(now, cfg, acts);
        } else {
            acts.push(LinkAction::SayGoodbye(conn));
            self.life = Life::Parting;
            self.timer = now + cfg.parting_timeout;
        }
    }

    fn on_timer(&mut self, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        if self.deadline().is_none_or(|at| now < at) {
            return;
        }
        match (self.life, self.establish.conn()) {
            (Life::Making, _) => {
                if self.phase() != Phase::Backoff {
                    self.refused = 0;
                }
                self.establish(Event::Timer, now, cfg, acts);
            }
            (Life::Parting, Some(conn)) => {
                acts.push(LinkAction::Close(conn));
                self.end(now, cfg, acts);
            }
            _ => {}
        }
    }

    /// No connection is left; answers `Terminate`, and goes on if messages wait for a new one.
    pub(super) fn end(&mut self, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        self.life = Life::Making;
        self.rested(acts);
        if self.life == Life::Shut {
            self.forget(now, cfg);
        } else {
            self.establish(Event::Ended, now, cfg, acts);
        }
    }

    /// No connection is under way, and none was wanted when there was one.
    fn rested(&mut self, acts: &mut Actions) {
        self.clear();
        if self.has(TERMINATING) {
            self.flags &= !TERMINATING;
            acts.push(LinkAction::Terminated);
        }
        if self.has(SHUTTING) {
            self.life = Life::Shut;
        }
    }

    pub(super) fn down(&mut self, cause: DownCause, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        acts.push(LinkAction::Down(cause));
        self.fail(now, cfg);
    }

    fn fail(&mut self, now: Time, cfg: &LinkConfig) {
        // A terminating link is at its end anyhow, and can be used again.
        self.life = if self.has(SHUTTING) {
            Life::Shut
        } else if self.has(TERMINATING) {
            Life::Making
        } else {
            Life::Failed
        };
        self.flags &= !(TERMINATING | PROVISIONAL);
        self.forget(now, cfg);
        self.clear();
    }

    /// The machine forgets what there is. It asks for nothing.
    fn forget(&mut self, now: Time, cfg: &LinkConfig) {
        let rules = self.rules(cfg);
        let acts = self.establish.on(Event::Forget, now, &rules);
        debug_assert!(acts.into_iter().next().is_none(), "what is forgotten is closed");
    }

    /// The adopted connection is lost, and its session goes on. The next event is what is done
    /// about it.
    pub(super) fn suspend(&mut self, failure: Failure, now: Time, cfg: &LinkConfig, acts: &mut Actions) {
        acts.push(LinkAction::Suspend(failure));
        self.life = Life::Making;
        self.flags |= RESUMING;
        self.refused = 0;
        self.forget(now, cfg);
    }

    pub(super) fn forget_session(&mut self) {
        self.session = 0;
        self.flags &= !(PROVISIONAL | FRESH);
    }

    fn clear(&mut self) {
        self.timer = Time::NEVER;
        self.refused = 0;
        self.flags &= !(PEER_LEFT | RESUMING | FRESH | PATIENT);
        // The peer may have adopted what was promised, and resume it.
        if !self.has(PROVISIONAL) {
            self.session = 0;
        }
    }
}
