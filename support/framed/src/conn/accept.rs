//! The machine's part in inbound dials: each is accepted, refused or forgotten.

use netmod_connection::establish::{Claim, Incoming, Verdict};
use netmod_connection::{Purpose, RejectReason};
use netmod_core::{PeerName, Time, VcError, VcErrorKind, VcId};

use super::inbound::{Inbound, Stage};
use super::link::{Conn, Event, Life, Phase};
use super::machine::{Machine, Offered, Step, link_of, token};
use super::{Action, Env, InboundId, Offer};
use crate::wire::Slot;

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
            // The later one of two waiting dials counts: the dialler has given the earlier one up.
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

    /// Returns true if `a` is a later dial of the same incarnation as `b`. Of different
    /// incarnations the one that comes later counts as later.
    fn is_later(&self, a: InboundId, b: InboundId) -> bool {
        match (self.inbound(a), self.inbound(b)) {
            (Some(a), Some(b)) => a.incarnation == b.incarnation && a.dial > b.dial,
            _ => false,
        }
    }

    /// Decides about a dial that has proved itself.
    pub(super) fn decide(&mut self, id: InboundId, env: &mut Env<'_>) {
        let Some(s) = self.inbound(id) else { return };
        let (peer, incarnation, number, purpose) = (s.peer, s.incarnation, s.dial, s.purpose);
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
        let replaced = link.establish.is_replaced_by(incarnation);
        let claim = match link.life {
            // The new process has nothing to do with the failure of the old one.
            Life::Failed if !replaced => Claim::Refused(RejectReason::VcDown),
            _ => Claim::Acceptable,
        };
        let dial = Incoming { conn: Conn::Inbound(id), incarnation, number, claim };
        match (link.establish.verdict(&dial), link.life) {
            (Verdict::Reject(reason), _) => self.reject(id, reason),
            (Verdict::Accept | Verdict::AcceptInstead, _) => self.accept(id, vc, dial, env),
            (Verdict::Contested, Life::Parting) if replaced => {
                link.waiting = Some(id);
                self.ended(vc, env);
            }
            (Verdict::Contested, Life::Up) if replaced => {
                link.waiting = Some(id);
                self.superseded(vc, "another process has taken its place; was it restarted?");
            }
            // The peer's last frames on the old connection may still arrive.
            (Verdict::Contested, Life::Up) => {
                link.waiting = Some(id);
                link.timer = link.timer.min(parting_timeout);
            }
            (Verdict::Contested, _) => link.waiting = Some(id),
        }
    }

    /// Accepts a dial in place of what is under way, if this side has terms for it.
    fn accept(&mut self, id: InboundId, vc: VcId, dial: Incoming<Conn>, env: &mut Env<'_>) {
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
        let link = link_of!(self, vc);
        if link.life == Life::Failed {
            link.life = Life::Making;
        }
        self.run(vc, Event::Incoming(dial), Some((terms, token)), env);
    }

    /// A dial is accepted, with what was offered for it.
    pub(super) fn promise(&mut self, vc: VcId, id: InboundId, offered: Option<Offered>) {
        let Some((terms, token)) = offered else { return };
        let slot = self.slots.take(vc, token);
        let Some(s) = self.inbound_mut(id) else { return };
        s.stage = Stage::Accepted(vc);
        s.until = Time::NEVER;
        let theirs = s.terms.clone();
        let link = link_of!(self, vc);
        link.from = Some(id);
        link.slot = slot;
        link.theirs = Some(Box::new(theirs));
        self.steps.push_back(Step::Accept { inbound: id, slot, terms, dials: self.dials });
    }

    /// READY.
    pub(super) fn ready(&mut self, id: InboundId, env: &mut Env<'_>) {
        if let Some(vc) = self.promised_to(id) {
            self.establish(vc, Event::Ready { conn: Conn::Inbound(id) }, env);
        }
    }

    /// The VC whose promised connection was dialled so.
    fn promised_to(&self, id: InboundId) -> Option<VcId> {
        let Stage::Accepted(vc) = self.inbound(id)?.stage else { return None };
        let link = self.links.get(vc)?;
        (link.phase() == Phase::Promised && link.from == Some(id)).then_some(vc)
    }

    /// A frame that is of no open connection. If it is of a promised one, READY, which was sent
    /// before it, is lost, and maybe more.
    pub(super) fn stray(&mut self, slot: Slot, env: &mut Env<'_>) {
        let Some(vc) = self.slots.under_way(slot) else { return };
        let link = link_of!(self, vc);
        if link.phase() == Phase::Promised {
            let text = "frames were lost: it takes the connection for made, and what says so never came";
            let error = VcError::new(VcErrorKind::Lost, Some(link.peer), text);
            self.abort(vc, error, env);
        }
    }

    /// GOODBYE, or a handshake that has failed.
    pub(super) fn inbound_left(&mut self, id: InboundId, env: &mut Env<'_>) {
        let Some(s) = self.inbound(id) else { return };
        let (stage, peer) = (s.stage, s.peer);
        if let Stage::Accepted(_) = stage {
            if let Some(vc) = self.promised_to(id) {
                self.establish(vc, Event::Goodbye { conn: Conn::Inbound(id) }, env);
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
