//! All connections of a process, without the bytes of their handshakes: opening and failing.

use core::time::Duration;
use std::collections::{HashMap, VecDeque};

use netmod_connection::establish::{Action as Made, dial_survives};
use netmod_connection::{Purpose, RejectReason};
use netmod_core::slab::VcKind;
use netmod_core::{PeerName, SideTable, Time, VcError, VcId};

use super::failure::Failure;
use super::inbound::Inbound;
use super::link::{Conn, Event, Life, Link, Phase};
use super::slots::{self, Slots};
use super::{Action, Env, InboundId, LocalTerms, Params, PeerTerms, To};
use crate::wire::{Kind, Slot};

/// A task for the manager.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Begin a handshake.
    Hello { vc: VcId, slot: Slot, dial: u64 },
    /// Send the same HELLO once more.
    RetransmitHello { vc: VcId, slot: Slot },
    /// The dial was accepted, and is adopted.
    Ready { vc: VcId, slot: Slot },
    /// The dial is given up.
    Goodbye { vc: VcId, slot: Slot },
    /// A dial is accepted. `dials`: the number of this process's last one.
    Accept { inbound: InboundId, slot: Slot, terms: LocalTerms, dials: u64 },
    /// Send the same ACCEPT once more.
    RetransmitAccept { inbound: InboundId },
    /// A dial is refused. It is forgotten next.
    Reject { inbound: InboundId, slot: Slot, reason: RejectReason },
    /// The rest.
    Do(Action),
}

/// All connections of a process.
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

/// This side's part of a promise, before it is made.
pub(super) type Offered = (LocalTerms, u32);

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
        // Jitter is worth no failure.
        let seed = token(env).unwrap_or(1);
        self.links.set(vc, Link::new(peer, purpose, dial_survives(&me, &peer), seed));
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
        if !matches!(link.life, Life::Up | Life::Failed) {
            self.establish(vc, Event::Want, env);
        }
    }

    /// Something happens while a connection comes about.
    pub(super) fn establish(&mut self, vc: VcId, event: Event, env: &mut Env<'_>) {
        self.run(vc, event, None, env);
        let link = link_of!(self, vc);
        if link.terminating && link.phase() == Phase::Idle {
            link.terminating = false;
            self.act(Action::Terminated { vc });
        }
    }

    /// The same; whether that ends a termination is the caller's to say.
    pub(super) fn run(&mut self, vc: VcId, event: Event, offered: Option<Offered>, env: &mut Env<'_>) {
        let rules = self.params.rules();
        let link = link_of!(self, vc);
        let wanted = link.establish.is_wanted();
        let before = link.phase();
        let acts = link.establish.on(event, env.now, &rules);
        if link.phase() == Phase::Backoff && before != Phase::Backoff {
            let failure = link.establish.last_failure();
            tracing::debug!(peer = ?link.peer, ?failure, "a dial has failed");
        }
        let mut offered = offered;
        for act in acts {
            match act {
                Made::Dial => self.dial(vc, env),
                Made::Retransmit(Conn::Own(slot)) => self.steps.push_back(Step::RetransmitHello { vc, slot }),
                Made::Retransmit(Conn::Inbound(inbound)) => {
                    self.steps.push_back(Step::RetransmitAccept { inbound });
                }
                Made::Accept(Conn::Inbound(id)) => self.promise(vc, id, offered.take()),
                Made::Reject(Conn::Inbound(id), reason) => self.reject(id, reason),
                Made::Made { dialed, .. } => self.opened(vc, dialed, wanted, env),
                Made::Abandon(Conn::Own(slot)) => {
                    self.steps.push_back(Step::Goodbye { vc, slot });
                    self.given_up(vc, slot);
                }
                Made::Withdraw(Conn::Inbound(_)) => {
                    self.control(vc, Kind::Reset);
                    self.unbind(vc);
                }
                Made::Close(_) => self.unbind(vc),
                Made::Unreachable { attempts, elapsed, .. } => {
                    let link = link_of!(self, vc);
                    let failure = link.establish.last_failure().unwrap_or(&Failure::None);
                    let error = failure.error(link.peer, attempts.max(1), elapsed, &self.params.words);
                    self.down(vc, error, env);
                }
                // Own dials are never accepted or refused by this side, nor are the peer's given
                // up.
                Made::Accept(Conn::Own(_))
                | Made::Reject(Conn::Own(_), _)
                | Made::Abandon(Conn::Inbound(_))
                | Made::Withdraw(Conn::Own(_)) => debug_assert!(false, "{act:?}"),
            }
        }
        let due = self.links.get(vc).map_or(Time::NEVER, Link::due);
        self.at(due);
    }

    fn dial(&mut self, vc: VcId, env: &mut Env<'_>) {
        let event = match token(env) {
            Ok(token) => {
                let slot = self.slots.take(vc, token);
                let link = link_of!(self, vc);
                link.slot = slot;
                self.dials += 1;
                self.steps.push_back(Step::Hello { vc, slot, dial: self.dials });
                Event::Dialing { conn: Conn::Own(slot) }
            }
            Err(failure) => Event::Failed { conn: None, failure, permanent: false },
        };
        self.run(vc, event, None, env);
    }

    /// GOODBYE is said of a dial, perhaps once more.
    fn given_up(&mut self, vc: VcId, slot: Slot) {
        let link = link_of!(self, vc);
        if link.slot == slot {
            link.void = slot;
            self.unbind(vc);
        }
    }

    /// The dial that is under way has failed.
    pub(super) fn dial_failed(&mut self, vc: VcId, failure: Failure, proved: bool, env: &mut Env<'_>) {
        let link = link_of!(self, vc);
        let slot = link.slot;
        if link.phase() != Phase::Dialing {
            return;
        }
        let permanent = failure.is_permanent(proved);
        let conn = Conn::Own(slot);
        let event = match failure {
            Failure::Rejected(reason) => Event::Rejected { conn, reason, permanent },
            failure => {
                // A peer that was never asked needs no goodbye.
                if failure != Failure::NoKey {
                    self.steps.push_back(Step::Goodbye { vc, slot });
                }
                self.given_up(vc, slot);
                Event::Failed { conn: Some(conn), failure, permanent }
            }
        };
        self.establish(vc, event, env);
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
        if link.phase() == Phase::Dialing {
            link.theirs = Some(Box::new(theirs));
            let conn = Conn::Own(link.slot);
            self.establish(vc, Event::Accepted { conn, incarnation, dials }, env);
        }
    }

    /// The connection is made; by a dial of this side, if the peer is to hear of that.
    fn opened(&mut self, vc: VcId, dialed: bool, wanted: bool, env: &mut Env<'_>) {
        let link = link_of!(self, vc);
        let Some(peer) = link.theirs.as_deref().cloned() else { return };
        link.life = Life::Up;
        link.fin = false;
        // A connection wanted since the end was asked for goes first; then the driver asks again.
        let parts = link.terminating && !wanted;
        let (to, own, slot) = (to(vc, link), link.terms.as_ref().map_or(0, |t| t.port), link.slot);
        self.slots.open(slot);
        let link = link_of!(self, vc);
        let from = link.from.and_then(|id| self.inbound(id)).map(|s| (s.slot, s.port));
        if let Some((slot, _)) = from {
            // Its handshake is over, so that its frames of that kind are nobody's.
            self.by_slot.remove(&slot);
        }
        let port = from.map_or(own, |(_, port)| port);
        self.act(Action::Opened { vc, to, port, peer });
        if dialed {
            self.steps.push_back(Step::Ready { vc, slot });
        }
        if parts {
            self.part(vc, env);
        }
    }

    /// The destination of the present connection's frames, and their slot.
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

    /// Forgets the present connection.
    pub(super) fn unbind(&mut self, vc: VcId) {
        let link = link_of!(self, vc);
        let from = link.from.take();
        link.theirs = None;
        link.timer = Time::NEVER;
        link.fin = false;
        let slot = core::mem::replace(&mut link.slot, slots::NONE);
        self.slots.free(slot);
        if let Some(id) = from {
            self.forget(id);
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
        if link.timer > env.now {
            return self.establish(vc, Event::Timer, env);
        }
        link.timer = Time::NEVER;
        match link.life {
            Life::Parting => {
                self.give_up(vc, env);
                self.ended(vc, env);
            }
            Life::Up => self.superseded(vc, "it has given the connection up, and made another"),
            Life::Making | Life::Left | Life::Failed => {}
        }
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        (self.next != Time::NEVER).then_some(self.next)
    }

    pub(super) fn is_quiet(&self) -> bool {
        let resting = |l: &Link| matches!(l.phase(), Phase::Idle | Phase::Failed) && !l.terminating;
        self.slots.len() == 0
            && self.inbound.iter().all(Option::is_none)
            && self.links.iter().all(|(_, l)| resting(l))
    }

    /// Somebody accepts a dial that is not under way: it has not heard that it was given up.
    pub(super) fn answered_late(&mut self, slot: Slot) {
        // The answer still arrives if no frame is lost.
        if slot == slots::NONE || self.params.retransmit == Duration::MAX {
            return;
        }
        if let Some((vc, _)) = self.links.iter().find(|(_, l)| l.void == slot) {
            self.steps.push_back(Step::Goodbye { vc, slot });
        }
    }
}

/// The VC's failure and the end of its connection.
impl Machine {
    /// Tells the peer that nothing comes of what there is, whatever that is.
    pub(super) fn give_up(&mut self, vc: VcId, env: &mut Env<'_>) {
        let link = link_of!(self, vc);
        match link.life {
            Life::Making => self.run(vc, Event::Abort, None, env),
            Life::Up | Life::Parting => self.control(vc, Kind::Reset),
            Life::Left if link.fin => self.control(vc, Kind::FinAck),
            Life::Left | Life::Failed => {}
        }
    }

    /// The made connection is no more: what has waited for that happens.
    pub(super) fn ended(&mut self, vc: VcId, env: &mut Env<'_>) {
        self.unbind(vc);
        let link = link_of!(self, vc);
        link.life = Life::Making;
        if core::mem::take(&mut link.terminating) {
            self.act(Action::Terminated { vc });
        }
        let link = link_of!(self, vc);
        let (wanted, waiting) = (link.establish.is_wanted(), link.waiting.take());
        // The peer's dial that waits goes before one of this side.
        self.run(vc, Event::Cancel, None, env);
        self.run(vc, Event::Ended, None, env);
        if let Some(id) = waiting {
            self.decide(id, env);
        }
        if wanted {
            self.run(vc, Event::Want, None, env);
        }
    }

    /// The VC fails. The peer has been told what there was to tell.
    pub(super) fn down(&mut self, vc: VcId, error: VcError, env: &mut Env<'_>) {
        self.unbind(vc);
        self.run(vc, Event::Forget, None, env);
        let link = link_of!(self, vc);
        link.life = if link.terminating { Life::Making } else { Life::Failed };
        link.terminating = false;
        let waiting = link.waiting.take();
        self.act(Action::Down { vc, error });
        if let Some(id) = waiting {
            if self.links.get(vc).is_some_and(|l| l.life == Life::Failed) {
                self.reject(id, RejectReason::VcDown);
            } else {
                self.decide(id, env);
            }
        }
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
