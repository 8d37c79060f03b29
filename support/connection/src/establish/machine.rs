//! The machine and its one transition function.

use core::time::Duration;

use netmod_core::Time;

use super::{Action, Actions, Claim, Event, Incoming, Phase, Rules, Setback, Verdict, backoff};
use crate::RejectReason;

/// The establishment of the connection to one peer. See the module for the protocol.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Machine<K, F> {
    pub(super) phase: Phase,
    /// True if this side's dial survives a crossing one.
    pub(super) survives: bool,
    /// True if messages wait for a connection.
    pub(super) wanted: bool,
    /// Dials that failed since a connection has been wanted.
    pub(super) attempts: u16,
    /// State of the generator of jitter.
    random: u32,
    /// The connection of the present phase. `None` in `Dialing`: the dial has no key yet.
    pub(super) conn: Option<K>,
    /// The peer's incarnation; 0 until it is known.
    pub(super) peer: u64,
    /// The number of the peer's last dial that is settled: that one and earlier ones are void.
    pub(super) settled: u64,
    /// End of the present phase.
    pub(super) timer: Time,
    /// The time at which the peer is reported unreachable.
    give_up: Time,
    /// The next retransmission, and the pause before it.
    retransmit: (Time, Duration),
    /// The last failure since a connection has been wanted.
    last: Option<F>,
}

impl<K: Copy + PartialEq, F: Clone + From<Setback>> Machine<K, F> {
    /// A machine that was never used. `survives` is [`super::dial_survives`] of the two names;
    /// `seed` makes the pauses of different machines differ.
    pub fn new(survives: bool, seed: u32) -> Machine<K, F> {
        Machine {
            phase: Phase::Idle,
            survives,
            wanted: false,
            attempts: 0,
            random: seed.max(1),
            conn: None,
            peer: 0,
            settled: 0,
            timer: Time::NEVER,
            give_up: Time::NEVER,
            retransmit: (Time::NEVER, Duration::ZERO),
            last: None,
        }
    }

    /// The present phase.
    #[inline]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The connection of the present phase.
    #[inline]
    pub fn conn(&self) -> Option<K> {
        self.conn
    }

    /// Returns true if this side's dial survives a crossing one.
    pub fn survives(&self) -> bool {
        self.survives
    }

    /// Returns true if messages wait for a connection.
    pub fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// The peer's incarnation; 0 until it is known.
    pub fn incarnation(&self) -> u64 {
        self.peer
    }

    /// Returns true if `incarnation` is another process than the one that had the name before.
    pub fn is_replaced_by(&self, incarnation: u64) -> bool {
        self.peer != 0 && self.peer != incarnation
    }

    /// The last failure since a connection has been wanted.
    pub fn last_failure(&self) -> Option<&F> {
        self.last.as_ref()
    }

    /// The time at which [`Event::Timer`] is due.
    #[inline]
    pub fn deadline(&self) -> Option<Time> {
        let due = self.timer.min(self.give_up).min(self.retransmit.0);
        (due != Time::NEVER).then_some(due)
    }

    /// Clears what machines differ in that are otherwise equal: counts, dice, and the time since
    /// the origin, by which all deadlines become earlier. For explorers.
    #[doc(hidden)]
    pub fn normalize(&mut self, since: Duration) {
        self.random = 1;
        self.attempts = self.attempts.min(1);
        self.last = None;
        for time in [&mut self.timer, &mut self.give_up, &mut self.retransmit.0] {
            if *time != Time::NEVER {
                *time = Time::ZERO + time.since(Time::ZERO + since);
            }
        }
    }

    /// The arbiter: decides about a dial of the peer that has proved itself. Changes nothing.
    pub fn verdict(&self, dial: &Incoming<K>) -> Verdict {
        if !self.is_replaced_by(dial.incarnation) && dial.number <= self.settled {
            // The peer has given it up since.
            return Verdict::Reject(RejectReason::AlreadyConnected);
        }
        if let Claim::Refused(reason) = dial.claim {
            return Verdict::Reject(reason);
        }
        match self.phase {
            Phase::Idle | Phase::Backoff => Verdict::Accept,
            Phase::Dialing if self.survives && self.attempts == 0 => Verdict::Reject(RejectReason::Crossing),
            // A later dial: the peer has given up the one that was promised, or is another process.
            Phase::Dialing | Phase::Promised => Verdict::AcceptInstead,
            Phase::Made => Verdict::Contested,
        }
    }

    /// Lets one thing happen. `now` may be a little late, but does not go backwards.
    pub fn on(&mut self, event: Event<K, F>, now: Time, rules: &Rules) -> Actions<K> {
        let mut acts = Actions::none();
        match event {
            Event::Want => self.want(now, rules, &mut acts),
            Event::Dialing { conn } if self.phase == Phase::Dialing && self.conn.is_none() => {
                self.conn = Some(conn);
                self.begin_retransmission(now, rules);
            }
            Event::Dialing { conn } => acts.push(Action::Abandon(conn)),
            Event::Incoming(dial) => self.incoming(&dial, now, rules, &mut acts),
            Event::Accepted { conn, incarnation, dials } => {
                self.accepted(conn, incarnation, dials, &mut acts);
            }
            Event::Rejected { conn, reason, permanent } => {
                if self.phase == Phase::Dialing && self.conn == Some(conn) {
                    acts.push(Action::Close(conn));
                    self.rejected(reason, permanent, now, rules, &mut acts);
                }
            }
            Event::Failed { conn, failure, permanent } => {
                if self.conn == conn && matches!(self.phase, Phase::Dialing | Phase::Promised) {
                    self.fail(failure, permanent, now, rules, &mut acts);
                }
            }
            Event::Ready { conn } if self.conn != Some(conn) => acts.push(Action::Withdraw(conn)),
            Event::Ready { conn } => {
                if self.phase == Phase::Promised {
                    self.made(conn, false, &mut acts);
                }
            }
            Event::Goodbye { conn } => {
                if self.conn == Some(conn) && matches!(self.phase, Phase::Dialing | Phase::Promised) {
                    acts.push(Action::Close(conn));
                    self.fail(Setback::Goodbye.into(), false, now, rules, &mut acts);
                }
            }
            Event::Timer => self.on_timer(now, rules, &mut acts),
            Event::Cancel => self.cancel(&mut acts),
            Event::Abort => {
                self.announce(&mut acts);
                self.clear();
            }
            Event::Forget => self.clear(),
            Event::Ended => {
                if self.phase == Phase::Made {
                    let wanted = self.wanted;
                    self.clear();
                    if wanted {
                        self.want(now, rules, &mut acts);
                    }
                }
            }
            Event::Wait => self.wait(now, rules),
            Event::Extend => self.extend(now, rules),
            Event::Wake => {
                if self.phase == Phase::Backoff {
                    // Not all at once.
                    self.timer = now + self.pause(1, rules);
                    self.extend(now, rules);
                }
            }
        }
        acts
    }

    fn want(&mut self, now: Time, rules: &Rules, acts: &mut Actions<K>) {
        if !self.wanted {
            self.wanted = true;
            self.attempts = 0;
            self.last = None;
        }
        // Patience begins when there is no other connection.
        if self.phase != Phase::Made && self.give_up == Time::NEVER {
            self.extend(now, rules);
        }
        if self.phase == Phase::Idle {
            self.dial(now, rules, acts);
        }
    }

    fn extend(&mut self, now: Time, rules: &Rules) {
        if self.wanted && !rules.held {
            self.give_up = now + rules.connect_timeout;
        }
    }

    fn dial(&mut self, now: Time, rules: &Rules, acts: &mut Actions<K>) {
        if rules.held {
            self.wait(now, rules);
            return;
        }
        self.phase = Phase::Dialing;
        self.conn = None;
        self.timer = now + rules.handshake_timeout;
        acts.push(Action::Dial);
    }

    /// Waits in `Backoff` for the peer's dial.
    fn wait(&mut self, now: Time, rules: &Rules) {
        if matches!(self.phase, Phase::Dialing | Phase::Promised) && self.conn.is_some() {
            return;
        }
        self.phase = Phase::Backoff;
        self.conn = None;
        self.wanted = true;
        self.timer = Time::NEVER;
        self.give_up = Time::NEVER;
        self.extend(now, rules);
    }

    fn begin_retransmission(&mut self, now: Time, rules: &Rules) {
        self.retransmit = (now + rules.retransmit, rules.retransmit);
    }

    fn incoming(&mut self, dial: &Incoming<K>, now: Time, rules: &Rules, acts: &mut Actions<K>) {
        match self.verdict(dial) {
            Verdict::Reject(reason) => acts.push(Action::Reject(dial.conn, reason)),
            Verdict::Accept => self.promise(dial, now, rules, acts),
            Verdict::AcceptInstead => {
                match (self.phase, self.conn) {
                    (Phase::Dialing, Some(own)) => acts.push(Action::Abandon(own)),
                    (_, Some(earlier)) => acts.push(Action::Close(earlier)),
                    (_, None) => {}
                }
                self.promise(dial, now, rules, acts);
            }
            // The owner ends the connection, and lets the dial come again.
            Verdict::Contested => {}
        }
    }

    fn promise(&mut self, dial: &Incoming<K>, now: Time, rules: &Rules, acts: &mut Actions<K>) {
        acts.push(Action::Accept(dial.conn));
        self.phase = Phase::Promised;
        self.conn = Some(dial.conn);
        self.peer = dial.incarnation;
        self.settled = dial.number;
        self.timer = now + rules.promise_timeout;
        self.begin_retransmission(now, rules);
    }

    fn accepted(&mut self, conn: K, incarnation: u64, dials: u64, acts: &mut Actions<K>) {
        if self.conn != Some(conn) {
            acts.push(Action::Abandon(conn));
        } else if self.phase == Phase::Dialing {
            self.peer = incarnation;
            self.settled = dials;
            self.made(conn, true, acts);
        }
    }

    fn made(&mut self, conn: K, dialed: bool, acts: &mut Actions<K>) {
        self.clear();
        self.phase = Phase::Made;
        self.conn = Some(conn);
        acts.push(Action::Made { conn, dialed });
    }

    /// A dial or a promise has come to nothing, and its connection is closed.
    fn fail(&mut self, failure: F, permanent: bool, now: Time, rules: &Rules, acts: &mut Actions<K>) {
        self.conn = None;
        self.retransmit.0 = Time::NEVER;
        if !self.wanted {
            self.clear();
            return;
        }
        self.attempts = self.attempts.saturating_add(1);
        self.last = Some(failure);
        if permanent || now >= self.give_up {
            self.unreachable(permanent, now, rules, acts);
        } else if rules.held {
            self.wait(now, rules);
        } else {
            self.phase = Phase::Backoff;
            self.timer = now + self.pause(self.attempts, rules);
        }
    }

    fn rejected(
        &mut self,
        reason: RejectReason,
        permanent: bool,
        now: Time,
        rules: &Rules,
        acts: &mut Actions<K>,
    ) {
        let crossing = reason == RejectReason::Crossing;
        // A failure says more than the peer's own dial does.
        let earlier = self.last.clone().filter(|_| crossing);
        let failure = earlier.unwrap_or_else(|| Setback::Rejected(reason).into());
        self.fail(failure, permanent, now, rules, acts);
        if crossing && self.phase == Phase::Backoff && !rules.held {
            self.timer = self.timer.max(now + rules.crossing_wait);
        }
    }

    fn unreachable(&mut self, permanent: bool, now: Time, rules: &Rules, acts: &mut Actions<K>) {
        let elapsed = self.wanted_for(now, rules);
        acts.push(Action::Unreachable { permanent, attempts: self.attempts, elapsed });
        let last = self.last.take();
        self.clear();
        self.last = last;
    }

    /// Time since a connection was wanted, if the deadline was set by the same rules.
    pub fn wanted_for(&self, now: Time, rules: &Rules) -> Duration {
        let (left, late) = (self.give_up.since(now), now.since(self.give_up));
        rules.connect_timeout.saturating_sub(left).saturating_add(late)
    }

    fn pause(&mut self, failed: u16, rules: &Rules) -> Duration {
        let random = backoff::next_random(&mut self.random);
        backoff::pause(failed, rules.backoff_min, rules.backoff_max, random)
    }

    fn on_timer(&mut self, now: Time, rules: &Rules, acts: &mut Actions<K>) {
        if now < self.timer.min(self.give_up) {
            if now >= self.retransmit.0
                && let Some(conn) = self.conn
            {
                let pause = self.retransmit.1.saturating_mul(2);
                self.retransmit = (now + pause, pause);
                acts.push(Action::Retransmit(conn));
            }
            return;
        }
        match self.phase {
            Phase::Dialing | Phase::Promised => {
                self.announce(acts);
                self.fail(Setback::TimedOut.into(), false, now, rules, acts);
            }
            Phase::Backoff if now >= self.give_up => self.unreachable(false, now, rules, acts),
            Phase::Backoff => self.dial(now, rules, acts),
            Phase::Idle | Phase::Made => {}
        }
    }

    /// Tells the peer that a dial or a promise is given up.
    fn announce(&self, acts: &mut Actions<K>) {
        match (self.phase, self.conn) {
            (Phase::Dialing, Some(conn)) => acts.push(Action::Abandon(conn)),
            (Phase::Promised, Some(conn)) => acts.push(Action::Withdraw(conn)),
            _ => {}
        }
    }

    fn cancel(&mut self, acts: &mut Actions<K>) {
        self.wanted = false;
        self.give_up = Time::NEVER;
        if matches!(self.phase, Phase::Dialing | Phase::Backoff) {
            self.announce(acts);
            self.clear();
        }
    }

    /// There is no connection, and none is wanted. What is known of the peer's dials stays.
    fn clear(&mut self) {
        self.phase = Phase::Idle;
        self.conn = None;
        self.wanted = false;
        self.attempts = 0;
        self.timer = Time::NEVER;
        self.give_up = Time::NEVER;
        self.retransmit = (Time::NEVER, Duration::ZERO);
        self.last = None;
    }
}
