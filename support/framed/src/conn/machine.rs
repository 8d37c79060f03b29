//! The state machine of the connections: dialling, crossing dials, opening, failing. Handshakes are single words here.

use core::time::Duration;
use std::collections::{HashMap, VecDeque};

use netmod_connection::{Purpose, RejectReason};
use netmod_core::slab::VcKind;
use netmod_core::{PeerName, SideTable, Time, VcError, VcId};

use super::failure::Failure;
use super::inbound::Inbound;
use super::mutant::{Mutant, mutated};
use super::slots::{self, Slots};
use super::{Action, Env, InboundId, LocalTerms, Params, PeerTerms, To};
use crate::wire::{Kind, Slot};

/// Pause after a REJECT that announces the peer's own dial.
const CROSSING_WAIT: Duration = Duration::from_millis(50);

/// What becomes of a VC's connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Phase {
    /// There is none.
    Idle,
    /// This side has dialled.
    Dialing,
    /// A dial has failed, and the next one waits.
    Backoff,
    /// The peer's dial was accepted, and READY is awaited.
    Promised,
    /// It is made.
    Up,
    /// The peer has ended it, and the driver says what that means.
    Left,
    /// This side has said FIN.
    Parting,
    /// It has failed, and so has the VC.
    Failed,
}

/// The connection of a VC.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Link {
    pub(super) peer: PeerName,
    pub(super) purpose: Purpose,
    /// This side's dial survives a crossing one.
    survives: bool,
    pub(super) phase: Phase,
    /// Messages wait for a connection.
    pub(super) wanted: bool,
    /// `terminate` has not been answered.
    pub(super) terminating: bool,
    /// The peer's FIN has come.
    pub(super) fin: bool,
    /// What this side calls the present connection.
    pub(super) slot: Slot,
    /// Who has dialled it; `None`: this side.
    pub(super) from: Option<InboundId>,
    /// The same peer, whose dial waits for the end of the present connection.
    pub(super) waiting: Option<InboundId>,
    /// The peer's part of it, from the promise on.
    pub(super) theirs: Option<Box<PeerTerms>>,
    /// This side's part of its own dials.
    pub(super) terms: Option<Box<LocalTerms>>,
    /// The peer's incarnation; 0 if it is not known.
    pub(super) incarnation: u64,
    /// The number of the peer's last dial that is settled: that one and earlier ones are void.
    pub(super) peer_dial: u64,
    /// When the present phase must end.
    pub(super) timer: Time,
    /// When what was said last is said again, and after which pause that is.
    pub(super) again: Time,
    pub(super) pause: Duration,
    /// The last dial that was given up with GOODBYE.
    pub(super) void: Slot,
    /// When messages have waited too long, and since when they do.
    pub(super) give_up: Time,
    since: Time,
    /// Dials that have failed, since a connection has been wanted, and why the last one did.
    attempts: u16,
    last: Failure,
}

impl Link {
    fn new(peer: PeerName, purpose: Purpose, survives: bool) -> Link {
        Link {
            peer,
            purpose,
            survives,
            phase: Phase::Idle,
            wanted: false,
            terminating: false,
            fin: false,
            slot: slots::NONE,
            from: None,
            waiting: None,
            theirs: None,
            terms: None,
            incarnation: 0,
            peer_dial: 0,
            timer: Time::NEVER,
            again: Time::NEVER,
            pause: Duration::ZERO,
            void: slots::NONE,
            give_up: Time::NEVER,
            since: Time::ZERO,
            attempts: 0,
            last: Failure::None,
        }
    }

    /// Whether a dial of the peer makes way for the present one of this side. One that has failed before may never
    /// succeed, if the card is of a process that is no more: then the peer's is as good.
    pub(super) fn insists(&self) -> bool {
        self.survives && self.attempts == 0
    }

    /// When something is due.
    pub(super) fn due(&self) -> Time {
        self.timer.min(self.give_up).min(self.again)
    }

    /// Makes links equal that differ only in what they count.
    #[cfg(test)]
    pub(super) fn forget_counts(&mut self) {
        self.attempts = self.attempts.min(1);
        self.last = Failure::None;
    }
}

/// What the machine asks of the manager, in order.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Begin a handshake.
    Hello { vc: VcId, slot: Slot, dial: u64 },
    /// The same HELLO once more.
    HelloAgain { vc: VcId, slot: Slot },
    /// The dial was accepted, and is adopted.
    Ready { vc: VcId, slot: Slot },
    /// The dial is given up.
    Goodbye { vc: VcId, slot: Slot },
    /// A dial is accepted. `dials`: the number of this process's last one.
    Accept { inbound: InboundId, slot: Slot, terms: LocalTerms, dials: u64 },
    /// The same ACCEPT once more.
    AcceptAgain { inbound: InboundId },
    /// A dial is refused. The peer is forgotten next.
    Reject { inbound: InboundId, slot: Slot, reason: RejectReason },
    /// The rest.
    Do(Action),
}

/// All connections of a process, without their handshakes' bytes.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) params: Params,
    pub(super) slots: Slots,
    pub(super) links: SideTable<Link, VcKind>,
    pub(super) by_peer: HashMap<PeerName, VcId>,
    pub(super) inbound: Vec<Option<Inbound>>,
    pub(super) by_slot: HashMap<Slot, InboundId>,
    pub(super) steps: VecDeque<Step>,
    /// The number of the last dial.
    pub(super) dials: u64,
    pub(super) finalized: bool,
    /// No deadline is earlier.
    pub(super) next: Time,
}

/// The link of a VC, or nothing happens.
macro_rules! link_of {
    ($self:ident, $vc:expr) => {
        match $self.links.get_mut($vc) {
            Some(link) => link,
            None => return,
        }
    };
}
pub(super) use link_of;

impl Machine {
    pub(super) fn new(params: Params) -> Machine {
        Machine {
            params,
            slots: Slots::default(),
            links: SideTable::new(),
            by_peer: HashMap::new(),
            inbound: Vec::new(),
            by_slot: HashMap::new(),
            steps: VecDeque::new(),
            dials: 0,
            finalized: false,
            next: Time::NEVER,
        }
    }

    pub(super) fn act(&mut self, action: Action) {
        self.steps.push_back(Step::Do(action));
    }

    /// `me` is this process's name towards the peer.
    pub(super) fn add(
        &mut self,
        vc: VcId,
        me: PeerName,
        peer: PeerName,
        purpose: Purpose,
        env: &mut Env<'_>,
    ) {
        let survives = match () {
            () if mutated(Mutant::BothInsist) => true,
            () if mutated(Mutant::BothYield) => false,
            () => me < peer,
        };
        self.links.set(vc, Link::new(peer, purpose, survives));
        self.by_peer.insert(peer, vc);
        if let Some(id) = self.waiting_inbound(&peer) {
            self.decide(id, env);
        }
    }

    /// A time at which something is due.
    pub(super) fn at(&mut self, time: Time) -> Time {
        self.next = self.next.min(time);
        time
    }

    pub(super) fn connect(&mut self, vc: VcId, terms: LocalTerms, env: &mut Env<'_>) {
        let link = link_of!(self, vc);
        link.terms = Some(Box::new(terms));
        match link.phase {
            Phase::Up | Phase::Failed => {}
            phase => {
                self.want(vc, env.now);
                if phase == Phase::Idle {
                    self.dial(vc, env);
                }
            }
        }
    }

    fn want(&mut self, vc: VcId, now: Time) {
        let give_up = self.at(now + self.params.connect_timeout);
        let link = link_of!(self, vc);
        if !link.wanted {
            link.wanted = true;
            link.give_up = give_up;
            link.since = now;
            link.attempts = 0;
            link.last = Failure::None;
        }
    }

    pub(super) fn dial(&mut self, vc: VcId, env: &mut Env<'_>) {
        let token = match token(env) {
            Ok(token) => token,
            Err(failure) => return self.attempt_failed(vc, failure, false, env),
        };
        let timer = self.at(env.now + self.params.handshake_timeout);
        let link = link_of!(self, vc);
        let slot = self.slots.take(vc, token);
        self.dials += 1;
        link.phase = Phase::Dialing;
        link.slot = slot;
        link.timer = timer;
        self.steps.push_back(Step::Hello { vc, slot, dial: self.dials });
        self.said(vc, env);
    }

    /// The dial that is under way has failed.
    pub(super) fn dial_failed(&mut self, vc: VcId, failure: Failure, proved: bool, env: &mut Env<'_>) {
        let link = link_of!(self, vc);
        if link.phase == Phase::Dialing {
            // Who has said no, or was never asked, needs no word.
            if !matches!(failure, Failure::Rejected(_) | Failure::NoKey) {
                self.give_up(vc);
            }
            self.attempt_failed(vc, failure, proved, env);
        }
    }

    /// What was under way towards a connection has come to nothing.
    pub(super) fn attempt_failed(&mut self, vc: VcId, failure: Failure, proved: bool, env: &mut Env<'_>) {
        self.unbind(vc);
        let params = self.params;
        let link = link_of!(self, vc);
        let permanent = failure.is_permanent(proved);
        let crossing = matches!(failure, Failure::Rejected(RejectReason::Crossing));
        if !crossing {
            link.attempts = link.attempts.saturating_add(1);
        }
        tracing::debug!(peer = ?link.peer, ?failure, attempts = link.attempts, "a dial has failed");
        if !crossing || link.last == Failure::None {
            link.last = failure;
        }
        if !link.wanted {
            link.phase = Phase::Idle;
            return self.rested(vc, env);
        }
        if permanent || env.now >= link.give_up {
            return self.unreachable(vc, env);
        }
        let pause = if crossing {
            CROSSING_WAIT.min(params.backoff_max)
        } else {
            let mut random = [0; 4];
            // Jitter is worth no failure.
            let jitter = (env.random)(&mut random).map_or(0, |()| u32::from_le_bytes(random));
            let doublings = u32::from(link.attempts.saturating_sub(1)).min(20);
            let full = params.backoff_min.saturating_mul(1 << doublings).min(params.backoff_max);
            full / 2 + (full / 2).mul_f64(f64::from(jitter) / f64::from(u32::MAX))
        };
        link.phase = Phase::Backoff;
        link.timer = env.now + pause;
        let timer = link.timer;
        self.at(timer);
    }

    /// The deadline has passed, or nothing that is tried could help.
    fn unreachable(&mut self, vc: VcId, env: &mut Env<'_>) {
        let link = link_of!(self, vc);
        let dials = link.attempts.max(1);
        let error = link.last.error(link.peer, dials, env.now.since(link.since), &self.params.words);
        self.down(vc, error, env);
    }

    /// ACCEPT has come. `dials`: the peer's dials up to that one are void.
    pub(super) fn accepted(
        &mut self,
        vc: VcId,
        theirs: PeerTerms,
        incarnation: u64,
        dials: u64,
        env: &mut Env<'_>,
    ) {
        let link = link_of!(self, vc);
        if link.phase != Phase::Dialing {
            return;
        }
        link.incarnation = incarnation;
        link.peer_dial = if mutated(Mutant::ForgetDials) { 0 } else { dials };
        link.theirs = Some(Box::new(theirs));
        self.opened(vc, true, env);
    }

    /// The connection is made; by a dial of this side, if the peer is to hear of that.
    pub(super) fn opened(&mut self, vc: VcId, dialled: bool, env: &mut Env<'_>) {
        let link = link_of!(self, vc);
        let Some(peer) = link.theirs.as_deref().cloned() else { return };
        link.phase = Phase::Up;
        link.timer = Time::NEVER;
        link.again = Time::NEVER;
        link.give_up = Time::NEVER;
        // What was wished for since the end was asked for goes first; then the driver asks again.
        let parts = link.terminating && (!link.wanted || mutated(Mutant::ForgetWishes));
        link.wanted = false;
        link.fin = false;
        let (to, own) = (to(vc, link), link.terms.as_ref().map_or(0, |t| t.port));
        self.slots.open(link.slot);
        let from = link.from.and_then(|id| self.inbound(id)).map(|s| (s.slot, s.port));
        if let Some((slot, _)) = from {
            // Its handshake is over, so that its frames of that kind are nobody's.
            self.by_slot.remove(&slot);
        }
        let port = from.map_or(own, |(_, port)| port);
        let slot = self.links.get(vc).map_or(slots::NONE, |l| l.slot);
        self.act(Action::Opened { vc, to, port, peer });
        if dialled && !mutated(Mutant::NoReady) {
            self.steps.push_back(Step::Ready { vc, slot });
        }
        if parts {
            self.part(vc, env);
        }
    }

    /// Where the frames of the present connection go, and their slot.
    pub(super) fn reach(&self, vc: VcId) -> Option<(To, Slot)> {
        let link = self.links.get(vc)?;
        Some((to(vc, link), link.theirs.as_ref()?.slot))
    }

    /// Sends a frame of the present connection.
    pub(super) fn control(&mut self, vc: VcId, kind: Kind) {
        if let Some((to, slot)) = self.reach(vc) {
            self.act(Action::Control { to, kind, slot });
        }
    }

    /// Tells the peer that nothing comes of what there is, whatever that is.
    pub(super) fn give_up(&mut self, vc: VcId) {
        let link = link_of!(self, vc);
        let slot = link.slot;
        match link.phase {
            Phase::Dialing if mutated(Mutant::SilentLoser) => {}
            Phase::Dialing => {
                self.steps.push_back(Step::Goodbye { vc, slot });
                link.void = slot;
            }
            Phase::Promised if mutated(Mutant::SilentWithdrawal) => {}
            Phase::Promised | Phase::Up | Phase::Parting => self.control(vc, Kind::Reset),
            Phase::Left if link.fin => self.control(vc, Kind::FinAck),
            Phase::Left | Phase::Idle | Phase::Backoff | Phase::Failed => {}
        }
    }

    /// Forgets the present connection.
    pub(super) fn unbind(&mut self, vc: VcId) {
        let link = link_of!(self, vc);
        let from = link.from.take();
        link.theirs = None;
        link.timer = Time::NEVER;
        link.again = Time::NEVER;
        link.fin = false;
        let slot = core::mem::replace(&mut link.slot, slots::NONE);
        if !mutated(Mutant::KeepSlot) {
            self.slots.free(slot);
        }
        if let Some(id) = from {
            self.forget(id);
        }
    }

    /// The VC has no connection any more: what has waited for that happens.
    pub(super) fn rested(&mut self, vc: VcId, env: &mut Env<'_>) {
        let link = link_of!(self, vc);
        link.phase = Phase::Idle;
        if link.terminating {
            link.terminating = false;
            self.act(Action::Terminated { vc });
        }
        let link = link_of!(self, vc);
        if let Some(id) = link.waiting.take() {
            self.decide(id, env);
        }
        let link = link_of!(self, vc);
        if link.phase == Phase::Idle {
            if link.wanted {
                // Patience begins now that there is no other connection.
                link.wanted = false;
                self.want(vc, env.now);
                self.dial(vc, env);
            } else {
                link.give_up = Time::NEVER;
            }
        }
    }

    /// The VC fails. The peer has been told what there was to tell.
    pub(super) fn down(&mut self, vc: VcId, error: VcError, env: &mut Env<'_>) {
        self.unbind(vc);
        let link = link_of!(self, vc);
        link.phase = if link.terminating { Phase::Idle } else { Phase::Failed };
        link.terminating = false;
        link.wanted = false;
        link.give_up = Time::NEVER;
        let waiting = link.waiting.take();
        self.act(Action::Down { vc, error });
        if let Some(id) = waiting {
            if self.links.get(vc).is_some_and(|l| l.phase == Phase::Failed) {
                self.reject(id, RejectReason::VcDown);
            } else {
                self.decide(id, env);
            }
        }
    }

    pub(super) fn timer(&mut self, env: &mut Env<'_>) {
        if env.now < self.next {
            return;
        }
        self.next = Time::NEVER;
        let due: Vec<VcId> =
            self.links.iter().filter(|(_, l)| l.due() <= env.now).map(|(vc, _)| vc).collect();
        for vc in due {
            self.link_timer(vc, env);
        }
        self.inbound_timer(env);
        let links = self.links.iter().map(|(_, l)| l.due());
        let inbound = self.inbound.iter().flatten().map(|s| s.until);
        self.next = links.chain(inbound).min().unwrap_or(Time::NEVER);
    }

    fn link_timer(&mut self, vc: VcId, env: &mut Env<'_>) {
        let link = link_of!(self, vc);
        let making = matches!(link.phase, Phase::Dialing | Phase::Backoff | Phase::Promised);
        if link.give_up <= env.now && making {
            if link.phase != Phase::Backoff && link.last == Failure::None {
                link.last = Failure::Silent;
            }
            self.give_up(vc);
            return self.unreachable(vc, env);
        }
        if link.timer > env.now {
            if link.again <= env.now {
                self.repeat(vc, env);
            }
            return;
        }
        link.timer = Time::NEVER;
        match link.phase {
            Phase::Dialing | Phase::Promised => {
                self.give_up(vc);
                self.attempt_failed(vc, Failure::Silent, false, env);
            }
            Phase::Backoff => self.dial(vc, env),
            Phase::Parting => {
                self.give_up(vc);
                self.unbind(vc);
                self.rested(vc, env);
            }
            Phase::Up => self.superseded(vc, "it has given the connection up, and made another"),
            Phase::Idle | Phase::Left | Phase::Failed => {}
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        (self.next != Time::NEVER).then_some(self.next)
    }

    pub(super) fn is_quiet(&self) -> bool {
        let resting = |l: &Link| matches!(l.phase, Phase::Idle | Phase::Failed) && !l.terminating;
        self.slots.len() == 0
            && self.inbound.iter().all(Option::is_none)
            && self.links.iter().all(|(_, l)| resting(l))
    }
}

fn to(vc: VcId, link: &Link) -> To {
    link.from.map_or(To::Vc(vc), To::Inbound)
}

/// A token for a slot.
pub(super) fn token(env: &mut Env<'_>) -> Result<u32, Failure> {
    let mut token = [0; 4];
    (env.random)(&mut token).map_err(|e| Failure::Sending(format!("no random numbers: {e}")))?;
    Ok(u32::from_le_bytes(token))
}
