//! Those who have dialled this process: from HELLO to READY, and what becomes of each.

use netmod_connection::{Purpose, RejectReason};
use netmod_core::{PeerName, Time, VcError, VcErrorKind, VcId};

use super::failure::Failure;
use super::machine::{Machine, Phase, Step, link_of, token};
use super::mutant::{Mutant, mutated};
use super::{Action, Env, InboundId, Offer, PeerTerms};
use crate::wire::Slot;

/// How far an unauthenticated peer is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Stage {
    /// It has said HELLO, and nothing of it is proved.
    Claimed,
    /// It has proved itself, and waits for a VC, or for the end of the VC's old connection.
    Proved,
    /// It was accepted: the present connection of a VC is with it.
    Accepted(VcId),
}

/// Somebody who has dialled.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Inbound {
    /// What it calls the connection.
    pub(super) slot: Slot,
    /// The endpoint that it has dialled.
    pub(super) port: u8,
    pub(super) stage: Stage,
    /// How long it may stay what it is.
    pub(super) until: Time,
    pub(super) peer: PeerName,
    pub(super) purpose: Purpose,
    pub(super) incarnation: u64,
    pub(super) dial: u64,
    pub(super) terms: PeerTerms,
}

impl Machine {
    pub(super) fn inbound(&self, id: InboundId) -> Option<&Inbound> {
        self.inbound.get(id.0 as usize)?.as_ref()
    }

    fn inbound_mut(&mut self, id: InboundId) -> Option<&mut Inbound> {
        self.inbound.get_mut(id.0 as usize)?.as_mut()
    }

    /// The peer that has proved itself and waits for a VC.
    pub(super) fn waiting_inbound(&self, peer: &PeerName) -> Option<InboundId> {
        let waits = |s: &Inbound| s.stage == Stage::Proved && s.peer == *peer;
        let at = self.inbound.iter().position(|s| s.as_ref().is_some_and(waits))?;
        Some(InboundId(at as u32))
    }

    /// A HELLO. `None`: somebody else uses that slot.
    pub(super) fn greet(&mut self, mut inbound: Inbound, now: Time) -> Option<InboundId> {
        if self.by_slot.contains_key(&inbound.slot) {
            return None;
        }
        inbound.until = self.at(now + self.params.handshake_timeout);
        inbound.stage = Stage::Claimed;
        let (slot, port) = (inbound.slot, inbound.port);
        let (context, address) = (inbound.terms.context, inbound.terms.address.clone());
        let at = match self.inbound.iter().position(Option::is_none) {
            Some(at) => {
                self.inbound[at] = Some(inbound);
                at
            }
            None => {
                self.inbound.push(Some(inbound));
                self.inbound.len() - 1
            }
        };
        let id = InboundId(at as u32);
        self.by_slot.insert(slot, id);
        self.act(Action::Meet { inbound: id, port, context, address });
        Some(id)
    }

    /// Another unauthenticated peer has come: the one that has had most time makes way.
    pub(super) fn make_room(&mut self) {
        let unproved =
            |s: &Option<Inbound>| s.as_ref().filter(|s| s.stage == Stage::Claimed).map(|s| s.until);
        if self.inbound.iter().filter_map(unproved).count() < self.params.unauthenticated_max {
            return;
        }
        let oldest = self.inbound.iter().enumerate().filter_map(|(at, s)| Some((unproved(s)?, at))).min();
        if let Some((_, at)) = oldest {
            self.reject(InboundId(at as u32), RejectReason::Busy);
        }
    }

    /// PROOF was right.
    pub(super) fn proved(&mut self, id: InboundId, env: &mut Env<'_>) {
        let until = self.at(env.now + self.params.connect_timeout);
        let Some(s) = self.inbound_mut(id) else { return };
        let peer = s.peer;
        let earlier = self.waiting_inbound(&peer);
        if let Some(s) = self.inbound_mut(id) {
            s.stage = Stage::Proved;
            s.until = until;
        }
        match earlier {
            // Of two dials that wait the later one counts: who dials again has given the other up.
            Some(other) if self.is_later(other, id) => self.reject(id, RejectReason::AlreadyConnected),
            Some(other) => {
                let known = self.by_peer.get(&peer).copied();
                self.reject(other, RejectReason::AlreadyConnected);
                // The upper layer knows that the peer waits, if it has no VC.
                if known.is_some() {
                    self.decide(id, env);
                }
            }
            None => self.decide(id, env),
        }
    }

    /// Whether `a` is a later dial than `b`; of different incarnations that cannot be told, and the one that comes
    /// later is.
    fn is_later(&self, a: InboundId, b: InboundId) -> bool {
        match (self.inbound(a), self.inbound(b)) {
            (Some(a), Some(b)) => a.incarnation == b.incarnation && a.dial > b.dial,
            _ => false,
        }
    }

    /// Decides about an unauthenticated peer that has proved itself.
    pub(super) fn decide(&mut self, id: InboundId, env: &mut Env<'_>) {
        let Some(s) = self.inbound(id) else { return };
        let (peer, incarnation, dial, purpose) = (s.peer, s.incarnation, s.dial, s.purpose);
        if self.finalized {
            return self.reject(id, RejectReason::Finalized);
        }
        let Some(&vc) = self.by_peer.get(&peer) else {
            return self.act(match purpose {
                Purpose::Root { port } => Action::PortPeer { peer, port },
                Purpose::Vc | Purpose::Rail { .. } => Action::NewPeer { peer },
            });
        };
        let parting_timeout = self.at(env.now + self.params.parting_timeout);
        let link = link_of!(self, vc);
        let known = link.incarnation != 0;
        let replaced = known && link.incarnation != incarnation;
        if known && !replaced && dial <= link.peer_dial && !mutated(Mutant::StaleDial) {
            // It has been given up since.
            return self.reject(id, RejectReason::AlreadyConnected);
        }
        match link.phase {
            Phase::Idle | Phase::Backoff => self.accept(id, vc, env),
            Phase::Dialing if link.insists() => self.reject(id, RejectReason::Crossing),
            Phase::Dialing => {
                if mutated(Mutant::RejectAndAbandon) {
                    self.give_up(vc);
                    self.unbind(vc);
                    return self.reject(id, RejectReason::Crossing);
                }
                self.accept(id, vc, env);
            }
            // The peer has given up the dial that was promised, or is another process.
            Phase::Promised => self.accept(id, vc, env),
            Phase::Failed if replaced => self.accept(id, vc, env),
            Phase::Failed => self.reject(id, RejectReason::VcDown),
            Phase::Parting if replaced => {
                link.waiting = Some(id);
                self.unbind(vc);
                self.rested(vc, env);
            }
            Phase::Up if replaced => {
                link.waiting = Some(id);
                self.superseded(vc, "another process has taken its place; was it restarted?");
            }
            // What the peer said last on the old connection may come yet.
            Phase::Up => {
                link.waiting = Some(id);
                link.timer = link.timer.min(parting_timeout);
                if mutated(Mutant::Impatient) {
                    self.superseded(vc, "");
                }
            }
            Phase::Parting | Phase::Left => link.waiting = Some(id),
        }
    }

    /// The peer has no part in the present connection any more: the driver settles what that means.
    pub(super) fn superseded(&mut self, vc: VcId, text: &str) {
        let link = link_of!(self, vc);
        link.phase = Phase::Left;
        link.timer = Time::NEVER;
        let error = VcError::new(VcErrorKind::Lost, Some(link.peer), text);
        self.act(Action::PeerLeft { vc, error });
    }

    /// Accepts a dial in place of what is under way.
    fn accept(&mut self, id: InboundId, vc: VcId, env: &mut Env<'_>) {
        let Some(s) = self.inbound(id) else { return };
        let offer = Offer { peer: s.peer, terms: &s.terms, port: s.port };
        let terms = match (env.terms)(vc, &offer) {
            Ok(terms) => terms,
            Err(reason) => return self.reject(id, reason),
        };
        let token = match token(env) {
            Ok(token) => token,
            Err(failure) => {
                tracing::warn!(?failure, "a dial cannot be accepted");
                return self.reject(id, RejectReason::Busy);
            }
        };
        if self.links.get(vc).is_some_and(|l| l.phase == Phase::Dialing) && !mutated(Mutant::AcceptBoth) {
            self.give_up(vc);
        }
        if !mutated(Mutant::AcceptBoth) {
            self.unbind(vc);
        }
        let timer = self.at(env.now + self.params.promise_timeout);
        let slot = self.slots.take(vc, token);
        let Some(s) = self.inbound_mut(id) else { return };
        s.stage = Stage::Accepted(vc);
        s.until = Time::NEVER;
        let (theirs, incarnation, dial) = (s.terms.clone(), s.incarnation, s.dial);
        let link = link_of!(self, vc);
        link.phase = Phase::Promised;
        link.from = Some(id);
        link.slot = slot;
        link.theirs = Some(Box::new(theirs));
        link.incarnation = incarnation;
        link.peer_dial = dial;
        link.timer = timer;
        self.steps.push_back(Step::Accept { inbound: id, slot, terms, dials: self.dials });
        self.said(vc, env);
        if mutated(Mutant::AdoptOnPromise) {
            self.opened(vc, false, env);
        }
    }

    /// READY.
    pub(super) fn ready(&mut self, id: InboundId, env: &mut Env<'_>) {
        let Some(Stage::Accepted(vc)) = self.inbound(id).map(|s| s.stage) else { return };
        let link = link_of!(self, vc);
        if link.phase != Phase::Promised || link.from != Some(id) {
            return;
        }
        self.opened(vc, false, env);
    }

    /// A frame that is of no open connection. If it is of a promised one, READY, which was before it, is lost, and maybe more.
    pub(super) fn stray(&mut self, slot: Slot, env: &mut Env<'_>) {
        let Some(vc) = self.slots.under_way(slot) else { return };
        let link = link_of!(self, vc);
        if link.phase == Phase::Promised && !mutated(Mutant::IgnoreStray) {
            let text = "frames were lost: it takes the connection for made, and what says so never came";
            let error = VcError::new(VcErrorKind::Lost, Some(link.peer), text);
            self.abort(vc, error, env);
        }
    }

    /// GOODBYE, or a handshake that has failed.
    pub(super) fn inbound_left(&mut self, id: InboundId, env: &mut Env<'_>) {
        let Some(s) = self.inbound(id) else { return };
        let (stage, peer) = (s.stage, s.peer);
        if let Stage::Accepted(vc) = stage {
            if self.links.get(vc).is_some_and(|l| l.phase == Phase::Promised && l.from == Some(id))
                && !mutated(Mutant::KeepPromise)
            {
                self.attempt_failed(vc, Failure::Goodbye, false, env);
            }
            return;
        }
        if let Some(link) = self.by_peer.get(&peer).and_then(|vc| self.links.get_mut(*vc))
            && link.waiting == Some(id)
        {
            link.waiting = None;
        }
        self.forget(id);
    }

    /// REJECT, and it is forgotten.
    pub(super) fn reject(&mut self, id: InboundId, reason: RejectReason) {
        let Some(s) = self.inbound(id) else { return };
        let (peer, slot) = (s.peer, s.slot);
        if let Some(link) = self.by_peer.get(&peer).and_then(|vc| self.links.get_mut(*vc))
            && link.waiting == Some(id)
        {
            link.waiting = None;
        }
        self.steps.push_back(Step::Reject { inbound: id, slot, reason });
        self.forget(id);
    }

    /// Nothing goes to it any more.
    pub(super) fn forget(&mut self, id: InboundId) {
        let Some(s) = self.inbound.get_mut(id.0 as usize).and_then(Option::take) else { return };
        if self.by_slot.get(&s.slot) == Some(&id) {
            self.by_slot.remove(&s.slot);
        }
        while self.inbound.last().is_some_and(Option::is_none) {
            self.inbound.pop();
        }
        self.act(Action::Forget { inbound: id });
    }

    /// `refuse_peer`.
    pub(super) fn refuse(&mut self, peer: &PeerName, reason: RejectReason) {
        while let Some(id) = self.waiting_inbound(peer) {
            self.reject(id, reason);
        }
    }

    pub(super) fn inbound_timer(&mut self, env: &mut Env<'_>) {
        for at in 0..self.inbound.len() {
            let id = InboundId(at as u32);
            match self.inbound(id).filter(|s| s.until <= env.now).map(|s| s.stage) {
                // It was silent, and gets no answer.
                Some(Stage::Claimed) => self.forget(id),
                Some(Stage::Proved) => self.reject(id, RejectReason::Busy),
                Some(Stage::Accepted(_)) | None => {}
            }
        }
    }

    /// From now on nobody is accepted, and who waits is told so.
    pub(super) fn shut(&mut self) {
        self.finalized = true;
        for at in 0..self.inbound.len() {
            let id = InboundId(at as u32);
            if self.inbound(id).is_some_and(|s| s.stage == Stage::Proved) {
                self.reject(id, RejectReason::Finalized);
            }
        }
    }
}
