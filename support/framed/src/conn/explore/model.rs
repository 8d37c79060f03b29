//! Two processes with a real [`Machine`] and one VC each, and the frames in flight between them.
//!
//! HELLO, CHALLENGE and PROOF are one frame here: nothing affects a VC before PROOF is right.
//! Frames of connections that one side has dialled stay in order. Those of connections that
//! different sides have dialled overtake each other, since their endpoints may differ. Times are
//! zero: a wait that may end at one moment may end at any. All tokens unused in a world are alike,
//! so a machine gets the least of them.

use core::time::Duration;
use std::collections::{BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};

use netmod_connection::Purpose;
use netmod_core::{GroupId, PeerName, Slab, Time, Vc, VcId};

use super::frame::{Frame, terms, theirs};
use super::mutant::Mutant;
use super::size::{Size, Timeouts};
use crate::conn::failure::Failure;
use crate::conn::inbound::{Inbound, Stage};
use crate::conn::link::{Life, Link, Phase};
use crate::conn::machine::{Machine, Step};
use crate::conn::slots::NONE;
use crate::conn::{Action, Env, Params, To};
use crate::device::Words;
use crate::wire::{Kind, Slot};

#[derive(Debug)]
pub(super) struct Side {
    pub(super) machine: Machine,
    pub(super) vc: Option<VcId>,
    /// Messages that the program has yet to send.
    pub(super) wishes: u8,
    pub(super) terminates: u8,
    pub(super) aborts: u8,
    pub(super) removals: u8,
    pub(super) restarts: u8,
    pub(super) revivals: u8,
    /// A peer waits for a VC.
    pub(super) asked: bool,
    pub(super) incarnation: u64,
    pub(super) queued: u8,
    pub(super) sent: u8,
    pub(super) got: u8,
    pub(super) terminating: bool,
}

impl Clone for Side {
    fn clone(&self) -> Side {
        let m = &self.machine;
        let mut machine = Machine::new(m.params);
        machine.slots = m.slots.clone();
        m.links.iter().for_each(|(vc, l)| machine.links.set(vc, l.clone()));
        machine.by_peer = m.by_peer.clone();
        machine.inbound = m.inbound.clone();
        machine.by_slot = m.by_slot.clone();
        machine.dials = m.dials;
        machine.finalized = m.finalized;
        Side { machine, ..*self }
    }
}

impl Hash for Side {
    fn hash<H: Hasher>(&self, h: &mut H) {
        let m = &self.machine;
        self.link().hash(h);
        (&m.slots, &m.inbound, m.dials, self.vc.is_some()).hash(h);
        (self.wishes, self.terminates, self.aborts, self.removals, self.restarts, self.revivals).hash(h);
        (self.asked, self.incarnation, self.queued, self.sent, self.got, self.terminating).hash(h);
    }
}

#[derive(Clone, Hash, Debug)]
pub(super) struct World {
    pub(super) sides: [Side; 2],
    /// Frames in flight, by receiver and then by dialling side.
    pub(super) wires: [[VecDeque<Frame>; 2]; 2],
    pub(super) losses: u8,
    pub(super) drops: u8,
    pub(super) repeats: u8,
    /// Something was lost, or failed.
    pub(super) faulty: bool,
}

/// The reason why a step is not followed further.
#[derive(Debug)]
pub(super) enum Stop {
    /// The model has no room for another dial.
    Bound,
    Wrong(String),
}

/// A call of a machine.
type Call<'f> = Box<dyn FnOnce(&mut Machine, VcId, &mut Env<'_>) + 'f>;

/// The time of everything but timeouts, which are later than retransmissions.
pub(super) const NOW: Time = Time::ZERO;
pub(super) const LATE: Time = Time(1);

pub(super) struct Model {
    pub(super) size: Size,
    pub(super) mutant: Option<Mutant>,
    /// The handle of the VC of each side; a VC that is made anew has it again.
    vc: VcId,
    pub(super) edges: std::cell::RefCell<BTreeSet<(Phase, Phase, &'static str)>>,
}

fn name(x: usize) -> PeerName {
    PeerName { group: GroupId([7; 16]), rank: x as u32 }
}

fn wrong<T>(text: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Wrong(text.into()))
}

impl Side {
    pub(super) fn link(&self) -> Option<&Link> {
        self.vc.and_then(|vc| self.machine.links.get(vc))
    }

    pub(super) fn phase(&self) -> Phase {
        self.link().map_or(Phase::Idle, Link::phase)
    }

    /// Returns true if an inbound dial may have waited for too long.
    pub(super) fn has_inbound(&self) -> bool {
        self.machine.inbound.iter().flatten().any(|s| s.until != Time::NEVER)
    }

    /// Makes sides equal that differ only in counts, dice, and the time since the origin.
    fn normalize(&mut self, vc: VcId, since: Duration) {
        let earlier = |time: &mut Time| {
            if *time != Time::NEVER {
                *time = Time::ZERO + time.since(Time::ZERO + since);
            }
        };
        if let Some(l) = self.machine.links.get_mut(vc) {
            l.establish.normalize(since);
            earlier(&mut l.timer);
        }
        self.machine.inbound.iter_mut().flatten().for_each(|s| earlier(&mut s.until));
    }
}

impl World {
    /// Tokens that something in the world has.
    fn tokens(&self) -> BTreeSet<u32> {
        let mut used = BTreeSet::from([0]);
        for side in &self.sides {
            for (_, l) in side.machine.links.iter() {
                used.extend([l.slot.token, l.void.token]);
                used.extend(l.theirs.as_ref().map(|t| t.slot.token));
            }
            used.extend(side.machine.inbound.iter().flatten().map(|s| s.slot.token));
            used.extend(side.machine.slots.tokens());
        }
        for frame in self.wires.iter().flatten().flatten() {
            match frame {
                Frame::Dial { slot, .. } | Frame::Reject { slot, .. } | Frame::Ready { slot } => {
                    used.insert(slot.token);
                }
                Frame::Goodbye { slot } => {
                    used.insert(slot.token);
                }
                Frame::Accept { slot, own: other, .. }
                | Frame::Data { slot, of: other, .. }
                | Frame::Control { slot, of: other, .. } => used.extend([slot.token, other.token]),
            }
        }
        used
    }

    pub(super) fn in_flight(&self) -> impl Iterator<Item = String> {
        let f = |x: usize, d: usize| format!("to {x}, {d} dialled: {:?}", self.wires[x][d]);
        [f(0, 0), f(0, 1), f(1, 0), f(1, 1)].into_iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.wires.iter().flatten().all(VecDeque::is_empty)
    }
}

impl Model {
    pub(super) fn new(size: Size, mutant: Option<Mutant>) -> (Model, World) {
        let vc = Slab::<Vc, netmod_core::slab::VcKind>::new().insert(Vc::new(name(0), 0));
        let model = Model { size, mutant, vc, edges: Default::default() };
        let side = |x: usize| Side {
            machine: Machine::new(model.params()),
            vc: None,
            wishes: size.wishes[x],
            terminates: size.terminates[x],
            aborts: size.aborts[x],
            removals: size.removals[x],
            restarts: size.restarts[x],
            revivals: size.revivals[x],
            asked: false,
            incarnation: 1,
            queued: 0,
            sent: 0,
            got: 0,
            terminating: false,
        };
        let sides = [side(0), side(1)];
        let mut w = World {
            sides,
            wires: Default::default(),
            losses: size.losses,
            drops: size.drops,
            repeats: size.repeats,
            faulty: size.impatient,
        };
        for x in 0..2 {
            model.add(&mut w, x).expect("nothing has happened yet");
            if size.tried {
                model.wish(&mut w, x).expect("a dial");
                let silent = |m: &mut Machine, vc, env: &mut Env<'_>| {
                    m.dial_failed(vc, Failure::Silent, false, env);
                };
                model.call(&mut w, x, "silence", silent).expect("a dial that fails");
                w.wires = Default::default();
            }
        }
        (model, w)
    }

    pub(super) fn params(&self) -> Params {
        let wait = |ends: bool| if ends { LATE - NOW } else { Duration::MAX };
        Params {
            connect_timeout: wait(self.size.impatient),
            handshake_timeout: wait(self.size.timeouts != Timeouts::Never),
            backoff_min: Duration::ZERO,
            backoff_max: Duration::ZERO,
            // A timeout would hide that a lost frame of a promise is not retransmitted.
            promise_timeout: wait(self.size.timeouts != Timeouts::Never && self.size.drops == 0),
            retransmit: if self.size.drops > 0 { Duration::ZERO } else { Duration::MAX },
            parting_timeout: wait(self.size.timeouts != Timeouts::Never),
            unauthenticated_max: 2,
            words: Words::SAMPLE,
        }
    }

    pub(super) fn add(&self, w: &mut World, x: usize) -> Result<(), Stop> {
        w.sides[x].vc = Some(self.vc);
        w.sides[x].asked = false;
        let me = self.mutant.map_or(name(x), |m| m.name(name(x)));
        self.call(w, x, "", |m, vc, env| m.add(vc, me, name(1 - x), Purpose::Vc, env))
    }

    /// The program sends a message.
    pub(super) fn wish(&self, w: &mut World, x: usize) -> Result<(), Stop> {
        w.sides[x].wishes -= 1;
        w.sides[x].queued += 1;
        self.call(w, x, "connect", |m, vc, env| m.connect(vc, terms(x as u8), env))
    }

    /// Calls a machine, and does what it asks for.
    pub(super) fn call(
        &self,
        w: &mut World,
        x: usize,
        what: &'static str,
        f: impl FnOnce(&mut Machine, VcId, &mut Env<'_>),
    ) -> Result<(), Stop> {
        self.call_at(w, x, what, NOW, Box::new(f))
    }

    /// Lets a side's waits end.
    pub(super) fn time_out(&self, w: &mut World, x: usize) -> Result<(), Stop> {
        self.call_at(w, x, "timer", LATE, Box::new(|m, _, env| m.timer(env)))
    }

    /// The hook of all mutants is around the call.
    fn call_at(
        &self,
        w: &mut World,
        x: usize,
        what: &'static str,
        now: Time,
        f: Call<'_>,
    ) -> Result<(), Stop> {
        let used = w.tokens();
        let mut fresh = (1..).filter(|t| !used.contains(t));
        let mut out = vec![];
        let mut env = Env {
            now,
            random: &mut |b| {
                b.copy_from_slice(&fresh.next().unwrap_or(u32::MAX).to_le_bytes());
                Ok(())
            },
            terms: &mut |_, offer| Ok(terms(offer.terms.port)),
            out: &mut out,
        };
        let side = &mut w.sides[x];
        let before = side.phase();
        // Frames that this call sends belong to the connection before it.
        let of = side.link().map_or(NONE, |l| l.slot);
        let stood = (side.link().map_or(Life::Making, |l| l.life), side.machine.slots.len());
        // An early look at the clock disturbs no side without a deadline.
        side.machine.next = Time::ZERO;
        if self.mutant.is_none_or(|m| m.before(what, side)) {
            f(&mut side.machine, self.vc, &mut env);
        }
        if let Some(mutant) = self.mutant {
            mutant.after(what, stood, side, &mut env);
        }
        side.normalize(self.vc, now - NOW);
        let after = side.phase();
        if before != after {
            self.edges.borrow_mut().insert((before, after, what));
        }
        while let Some(step) = w.sides[x].machine.steps.pop_front() {
            self.carry_out(w, x, step, of)?;
        }
        if w.sides[x].machine.dials > self.size.dials {
            return if self.size.long_pauses { wrong("it dials too often") } else { Err(Stop::Bound) };
        }
        self.drive(w, x)?;
        self.check(w)
    }

    fn put(&self, w: &mut World, x: usize, to: To, frame: Frame) {
        let mut dialler = match to {
            To::Vc(_) => x,
            To::Inbound(_) => 1 - x,
        };
        if self.size.in_order {
            dialler = 0;
        }
        w.wires[1 - x][dialler].push_back(frame);
    }

    fn carry_out(&self, w: &mut World, x: usize, step: Step, of: Slot) -> Result<(), Stop> {
        let own = To::Vc(self.vc);
        let incarnation = w.sides[x].incarnation;
        match step {
            Step::Hello { slot, dial, .. } => self.put(w, x, own, Frame::Dial { slot, dial, incarnation }),
            Step::RetransmitHello { slot, .. } => {
                let dial = w.sides[x].machine.dials;
                self.put(w, x, own, Frame::Dial { slot, dial, incarnation });
            }
            Step::Ready { slot, .. } => self.put(w, x, own, Frame::Ready { slot }),
            Step::Goodbye { slot, .. } => self.put(w, x, own, Frame::Goodbye { slot }),
            Step::Accept { inbound, slot: own, dials, .. } => {
                if let Some(slot) = w.sides[x].machine.inbound(inbound).map(|s| s.slot) {
                    self.put(w, x, To::Inbound(inbound), Frame::Accept { slot, own, incarnation, dials });
                }
            }
            Step::RetransmitAccept { inbound } => {
                let side = &w.sides[x];
                let (dials, from) = (side.machine.dials, side.machine.inbound(inbound).map(|s| s.slot));
                if let Some((slot, own)) = from.zip(side.link().map(|l| l.slot)) {
                    self.put(w, x, To::Inbound(inbound), Frame::Accept { slot, own, incarnation, dials });
                }
            }
            Step::Reject { inbound, slot, reason } => {
                self.put(w, x, To::Inbound(inbound), Frame::Reject { slot, reason });
            }
            Step::Do(action) => self.act(w, x, action, of)?,
        }
        Ok(())
    }

    fn act(&self, w: &mut World, x: usize, action: Action, of: Slot) -> Result<(), Stop> {
        match action {
            Action::Control { to, kind, slot } => {
                self.put(w, x, to, Frame::Control { slot, kind, of });
            }
            Action::PeerLeft { error, .. } => {
                let error = self.size.busy.then_some(error);
                self.call(w, x, "settle", |m, vc, env| m.settle(vc, error, env))?;
            }
            Action::Terminated { .. } if !w.sides[x].terminating => return wrong("it was not asked to end"),
            Action::Terminated { .. } => w.sides[x].terminating = false,
            Action::Down { error, .. } => {
                if !w.faulty && !self.size.busy {
                    return wrong(format!("down without a fault: {error}"));
                }
                w.faulty = true;
                w.sides[x].terminating = false;
                w.sides[x].queued = 0;
            }
            Action::NewPeer { .. } if w.sides[x].vc.is_some() => return wrong("the peer has a VC"),
            Action::NewPeer { .. } => w.sides[x].asked = true,
            Action::Opened { .. } | Action::Meet { .. } | Action::Forget { .. } => {}
            Action::Shake { .. } | Action::PortPeer { .. } => {
                return wrong("the machine knows no such thing");
            }
        }
        Ok(())
    }

    /// Sends what waits, when a connection is there.
    fn drive(&self, w: &mut World, x: usize) -> Result<(), Stop> {
        while w.sides[x].phase() == Phase::Up && w.sides[x].queued > 0 {
            let Some((to, slot)) = w.sides[x].machine.reach(self.vc) else {
                return wrong("a connection without an address");
            };
            let of = w.sides[x].link().map_or(NONE, |l| l.slot);
            w.sides[x].queued -= 1;
            w.sides[x].sent += 1;
            let number = w.sides[x].sent;
            self.put(w, x, to, Frame::Data { slot, of, number });
        }
        let ends = |l: &Link| l.phase() == Phase::Up && l.terminating;
        if w.sides[x].terminating && w.sides[x].link().is_some_and(ends) {
            return self.call(w, x, "terminate", |m, vc, env| m.terminate(vc, env));
        }
        Ok(())
    }

    pub(super) fn deliver(&self, w: &mut World, x: usize, d: usize) -> Result<(), Stop> {
        let Some(frame) = w.wires[x][d].pop_front() else { return Ok(()) };
        let frame = self.mutant.map_or(frame.clone(), |m| m.frame(frame));
        let under_way = |w: &World, slot| {
            let m = &w.sides[x].machine;
            let dialling =
                m.links.get(self.vc).is_some_and(|l| l.phase() == Phase::Dialing && l.slot == slot);
            m.slots.under_way(slot).is_some() && dialling
        };
        let by_slot = |w: &World, slot: &Slot| w.sides[x].machine.by_slot.get(slot).copied();
        match frame {
            Frame::Dial { slot, dial, incarnation } => {
                let inbound = Inbound {
                    slot,
                    port: 0,
                    stage: Stage::Claimed,
                    until: Time::NEVER,
                    peer: name(1 - x),
                    purpose: Purpose::Vc,
                    incarnation,
                    dial,
                    terms: theirs(slot),
                };
                // The peer is known: it has said it again.
                if let Some(id) = by_slot(w, &slot) {
                    return self.call(w, x, "again", |m, _, _| {
                        if m.inbound(id).is_some_and(|s| matches!(s.stage, Stage::Accepted(_))) {
                            m.steps.push_back(Step::RetransmitAccept { inbound: id });
                        }
                    });
                }
                if w.sides[x].machine.is_with(&inbound) {
                    return Ok(());
                }
                self.call(w, x, "proved", |m, _, env| {
                    m.make_room();
                    if let Some(id) = m.greet(inbound, Time::ZERO) {
                        m.proved(id, env);
                    }
                })
            }
            Frame::Accept { slot, own, incarnation, dials } => {
                if !under_way(w, slot) {
                    return self.call(w, x, "late ACCEPT", |m, _, _| m.answered_late(slot));
                }
                self.call(w, x, "ACCEPT", |m, vc, env| m.accepted(vc, theirs(own), incarnation, dials, env))
            }
            Frame::Reject { slot, reason } => {
                if !under_way(w, slot) {
                    return Ok(());
                }
                let failure = Failure::Rejected(reason);
                self.call(w, x, "REJECT", |m, vc, env| m.dial_failed(vc, failure, true, env))
            }
            Frame::Ready { slot } => match by_slot(w, &slot) {
                Some(id) => self.call(w, x, "READY", |m, _, env| m.ready(id, env)),
                None => Ok(()),
            },
            Frame::Goodbye { slot } => match by_slot(w, &slot) {
                Some(id) => self.call(w, x, "GOODBYE", |m, _, env| m.inbound_left(id, env)),
                None => Ok(()),
            },
            Frame::Data { slot, of, number } => self.data(w, x, slot, of, number),
            Frame::Control { slot, kind, of } => {
                if !self.is_for(w, x, slot, of)? {
                    return self.call(w, x, "stray", |m, _, env| m.stray(slot, env));
                }
                match kind {
                    Kind::Fin => self.call(w, x, "FIN", |m, vc, _| m.fin(vc)),
                    Kind::FinAck if w.sides[x].phase() != Phase::Parting => wrong("FIN_ACK to no FIN"),
                    Kind::FinAck => self.call(w, x, "FIN_ACK", |m, vc, env| m.fin_ack(vc, env)),
                    _ => self.call(w, x, "RESET", |m, vc, env| m.reset(vc, env)),
                }
            }
        }
    }

    /// Returns true if a frame is for the present connection, an error if it is taken for one.
    fn is_for(&self, w: &World, x: usize, slot: Slot, of: Slot) -> Result<bool, Stop> {
        let side = &w.sides[x];
        if side.machine.slots.opened(slot).is_none() {
            return Ok(false);
        }
        match side.link() {
            Some(l) if l.slot == slot && l.theirs.as_ref().is_some_and(|t| t.slot == of) => Ok(true),
            _ => wrong(format!("a frame of {of:?} is taken for one of another connection, at {slot:?}")),
        }
    }

    fn data(&self, w: &mut World, x: usize, slot: Slot, of: Slot, number: u8) -> Result<(), Stop> {
        if !self.is_for(w, x, slot, of)? {
            // A side that removes its VC has sent all its frames before, and they arrive.
            let Size { losses, restarts, aborts, timeouts, removals, .. } = self.size;
            let told = (losses, restarts, aborts, timeouts) == (0, [0, 0], [0, 0], Timeouts::Never);
            let heard = !w.faulty || told && removals[x] == 0;
            if heard {
                return wrong(format!("message {number} finds nobody"));
            }
            let promised = w.sides[x].machine.slots.under_way(slot).is_some();
            self.call(w, x, "stray", |m, _, env| m.stray(slot, env))?;
            // A side must not go on believing in a connection that was not made.
            if promised && w.sides[x].machine.slots.under_way(slot).is_some() {
                return wrong(format!("message {number} is lost, and nobody is told"));
            }
            return Ok(());
        }
        let phase = w.sides[x].phase();
        if !matches!(phase, Phase::Up | Phase::Parting) {
            return wrong(format!("DATA in {phase:?}"));
        }
        if !w.faulty && number != w.sides[x].got + 1 {
            return wrong(format!("message {number} after {}", w.sides[x].got));
        }
        w.sides[x].got = number;
        Ok(())
    }

    /// Checks the invariants of every world.
    fn check(&self, w: &World) -> Result<(), Stop> {
        let [a, b] = [&w.sides[0], &w.sides[1]];
        for s in [a, b] {
            let waiting = s.machine.inbound.iter().flatten().filter(|s| s.stage == Stage::Proved);
            if waiting.count() > 1 {
                return wrong("of two dials of one peer none was refused");
            }
            let Some(l) = s.link() else { continue };
            let has = matches!(l.phase(), Phase::Idle | Phase::Backoff | Phase::Failed);
            if s.machine.slots.len() != usize::from(!has) {
                return wrong(format!("{} slots in {:?}", s.machine.slots.len(), l.phase()));
            }
            let accepted =
                s.machine.inbound.iter().flatten().filter(|s| matches!(s.stage, Stage::Accepted(_)));
            if accepted.count() != usize::from(l.from.is_some()) {
                return wrong("an inbound dial is kept whose connection is gone");
            }
            let waits = l.establish.is_wanted() && matches!(l.phase(), Phase::Idle | Phase::Failed);
            if waits {
                return wrong(format!("messages wait for nothing in {:?}", l.phase()));
            }
        }
        if let (Some(la), Some(lb)) = (a.link(), b.link())
            && la.phase() == Phase::Up
            && lb.phase() == Phase::Up
            && (la.establish.incarnation(), lb.establish.incarnation()) == (b.incarnation, a.incarnation)
            && let (Some(ta), Some(tb)) = (&la.theirs, &lb.theirs)
            && (ta.slot, tb.slot) != (lb.slot, la.slot)
            && !w.faulty
        {
            return wrong("both are connected, not with each other");
        }
        Ok(())
    }

    /// Checks the invariants of worlds in which nothing more happens.
    pub(super) fn check_end(&self, w: &World) -> Result<(), String> {
        for s in &w.sides {
            let phase = s.phase();
            if !matches!(phase, Phase::Idle | Phase::Up | Phase::Failed) {
                return Err(format!("it stays in {phase:?} for ever"));
            }
            if s.terminating {
                return Err(format!("a termination is never answered, in {phase:?}"));
            }
            if s.queued > 0 {
                return Err(format!("a message waits for ever, in {phase:?}"));
            }
            if phase != Phase::Up && !s.machine.is_quiet() {
                return Err(format!("something is left in {phase:?}"));
            }
        }
        let [a, b] = &w.sides;
        if !w.faulty && !self.size.busy {
            if (a.phase(), b.phase()) != (Phase::Up, Phase::Up)
                && (a.phase(), b.phase()) != (Phase::Idle, Phase::Idle)
            {
                return Err(format!("one is {:?} and the other is {:?}", a.phase(), b.phase()));
            }
            if (a.sent, b.sent) != (b.got, a.got) {
                return Err("messages are lost".into());
            }
        }
        // Without a loss, a death or a timeout, everybody learns of every end.
        let told =
            self.size.losses == 0 && self.size.restarts == [0, 0] && self.size.timeouts == Timeouts::Never;
        if told && a.vc.is_some() && b.vc.is_some() && (a.phase() == Phase::Up) != (b.phase() == Phase::Up) {
            return Err(format!("one is {:?} and was not told that the other is {:?}", a.phase(), b.phase()));
        }
        Ok(())
    }
}
