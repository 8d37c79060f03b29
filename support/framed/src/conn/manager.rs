//! All connections of a process: the handshakes' bytes around the [`Machine`].

use std::collections::HashMap;

use netmod_connection::{
    Claim, FrameType, HandshakeError, Identity, Initiator, InitiatorParams, InitiatorStep, NONCE_LEN,
    Purpose, Responder, ResponderParams, ResponderStep, Terms, Versions, reject_unauthenticated,
};
use netmod_core::{PeerName, Refusal, Time, VcError, VcErrorKind, VcId};

use super::failure::Failure;
use super::inbound::{Inbound, Stage};
use super::link::Phase;
use super::machine::{Machine, Step};
use super::retransmit::{Dial, Said};
use super::{Action, Env, InboundId, LocalTerms, Params, PeerTerms, To, terms};
use crate::wire::{Kind, Slot};

/// Unauthenticated peers that are told of in the log: a scanner must not fill it.
const LOGGED: u64 = 8;

/// The connections of a process, one for each VC. See the module for the protocol.
#[derive(Debug)]
pub struct Manager {
    id: Identity,
    machine: Machine,
    /// Handshakes of the dials under way.
    initiators: HashMap<VcId, Dial>,
    /// Handshakes of unauthenticated peers until they are connected, with the frames so far.
    responders: HashMap<InboundId, (Responder, Said)>,
    /// Unauthenticated peers that proved nothing, or said what cannot be used.
    refused: u64,
}

impl Manager {
    /// No connections. `id` says by which names and keys peers know this process.
    pub fn new(id: Identity, params: Params) -> Manager {
        Manager {
            id,
            machine: Machine::new(params),
            initiators: HashMap::new(),
            responders: HashMap::new(),
            refused: 0,
        }
    }

    /// Returns the names and keys by which peers know this process.
    pub fn identity(&self) -> &Identity {
        &self.id
    }

    /// The same, to give it the job's key, groups and ports.
    pub fn identity_mut(&mut self) -> &mut Identity {
        &mut self.id
    }

    /// Returns the parameters of all connections.
    pub fn params(&self) -> &Params {
        &self.machine.params
    }

    /// Returns the number of unauthenticated peers refused since the beginning.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Adds the VC of a peer, as `vc_init` asks; its dials are for `purpose`. If the peer has
    /// dialled and waits, it is answered.
    pub fn add(&mut self, vc: VcId, peer: PeerName, purpose: Purpose, env: &mut Env<'_>) {
        let me = self.id.name_towards(&peer.group);
        self.machine.add(vc, me, peer, purpose, env);
        self.carry_out(env);
    }

    /// `vc_destroy`: ends what there is, without a report.
    pub fn remove(&mut self, vc: VcId, env: &mut Env<'_>) {
        self.machine.remove(vc, env);
        self.carry_out(env);
        self.initiators.remove(&vc);
    }

    /// `vc_revive`: a VC that has failed is as after [`Manager::add`].
    pub fn revive(&mut self, vc: VcId) {
        self.machine.revive(vc);
    }

    /// `refuse_peer`: the peer that waits gets no VC.
    pub fn refuse(&mut self, peer: &PeerName, why: Refusal, env: &mut Env<'_>) {
        self.machine.refuse(peer, why.into());
        self.carry_out(env);
    }

    /// From now on every peer that dials is told that this process has finalized.
    pub fn shut(&mut self, env: &mut Env<'_>) {
        self.machine.shut();
        self.carry_out(env);
    }

    /// Dials unless a connection is made or under way: something is to be sent. `terms` are for
    /// this and later dials.
    pub fn connect(&mut self, vc: VcId, terms: LocalTerms, env: &mut Env<'_>) {
        self.machine.connect(vc, terms, env);
        self.carry_out(env);
    }

    /// A frame of the present dial could not be sent; `why` is for people. Another dial follows.
    pub fn dial_failed(&mut self, vc: VcId, why: &str, env: &mut Env<'_>) {
        self.machine.dial_failed(vc, Failure::Sending(why.into()), false, env);
        self.carry_out(env);
    }

    /// Ends the connection of a VC in order, as `vc_terminate` asks, when all messages before it
    /// have completed. The answer is [`Action::Terminated`] or [`Action::Down`]. Must be called
    /// again if something else was sent before FIN.
    pub fn terminate(&mut self, vc: VcId, env: &mut Env<'_>) {
        self.machine.terminate(vc, env);
        self.carry_out(env);
    }

    /// The VC has failed, says the driver: RESET to the peer, and [`Action::Down`].
    pub fn abort(&mut self, vc: VcId, error: VcError, env: &mut Env<'_>) {
        self.machine.abort(vc, error, env);
        self.carry_out(env);
    }

    /// Answers [`Action::PeerLeft`]: `None` if the VC was idle and stays usable; or the error by
    /// which it goes down.
    pub fn settle(&mut self, vc: VcId, error: Option<VcError>, env: &mut Env<'_>) {
        self.machine.settle(vc, error, env);
        self.carry_out(env);
    }

    /// Returns the VC whose open connection this process calls `slot`; `None` if no open connection
    /// has it.
    #[inline]
    pub fn lookup(&self, slot: Slot) -> Option<VcId> {
        self.machine.slots.opened(slot)
    }

    /// Returns the peer's slot for the connection of a VC.
    #[cfg(test)]
    pub(super) fn machine_slot(&self, vc: VcId) -> Option<Slot> {
        self.machine.reach(vc).map(|(_, slot)| slot)
    }

    /// Returns true if DATA may be sent on a VC.
    pub fn is_up(&self, vc: VcId) -> bool {
        self.machine.links.get(vc).is_some_and(|l| l.phase() == Phase::Up)
    }

    /// Returns `local`, this side's terms of an open connection, as bytes. A peer that does not
    /// know the connection needs them to answer.
    pub fn introduction(&self, vc: VcId, local: &LocalTerms) -> Option<Terms> {
        let link = self.machine.links.get(vc)?;
        terms::emit(local, link.slot).ok()
    }

    /// Returns the slot and address in a peer's introduction. They are a claim: nothing is proved.
    pub fn introduced(bytes: &[u8]) -> Option<PeerTerms> {
        terms::parse(bytes)
    }

    /// A frame has come for `slot`, and [`Manager::lookup`] knows no such connection.
    pub fn on_stray(&mut self, slot: Slot, env: &mut Env<'_>) {
        self.machine.stray(slot, env);
        self.carry_out(env);
    }

    /// A FIN has come, and all DATA that was sent before it.
    pub fn on_fin(&mut self, vc: VcId, env: &mut Env<'_>) {
        self.machine.fin(vc);
        self.carry_out(env);
    }

    /// A FIN_ACK has come.
    pub fn on_fin_ack(&mut self, vc: VcId, env: &mut Env<'_>) {
        self.machine.fin_ack(vc, env);
        self.carry_out(env);
    }

    /// A RESET has come.
    pub fn on_reset(&mut self, vc: VcId, env: &mut Env<'_>) {
        self.machine.reset(vc, env);
        self.carry_out(env);
    }

    /// To be called at [`Manager::deadline`]; earlier calls cost nothing and do nothing.
    pub fn timer(&mut self, env: &mut Env<'_>) {
        self.machine.timer(env);
        self.carry_out(env);
    }

    /// Returns the time at which [`Manager::timer`] is due. It may find nothing to do by then.
    #[inline]
    pub fn deadline(&self) -> Option<Time> {
        self.machine.deadline()
    }

    /// Returns true if no connection is open or under way, and no peer waits for an answer: the
    /// endpoints may be closed.
    pub fn is_quiet(&self) -> bool {
        self.machine.is_quiet()
    }

    /// A DIAL or ANSWER has come, to this process's endpoint `port`, with `slot` in its header.
    pub fn on_shake(&mut self, kind: Kind, slot: Slot, port: u8, bytes: &[u8], env: &mut Env<'_>) {
        match kind {
            Kind::Dial => match self.machine.by_slot.get(&slot).copied() {
                Some(id) => self.dialled_again(id, port, bytes, env),
                None => self.dialled(slot, port, bytes, env),
            },
            Kind::Answer => self.answered(slot, port, bytes, env),
            Kind::Data | Kind::Credit | Kind::Fin | Kind::FinAck | Kind::Reset => {}
        }
        self.carry_out(env);
    }

    /// The first frame of an unauthenticated peer.
    fn dialled(&mut self, slot: Slot, port: u8, bytes: &[u8], env: &mut Env<'_>) {
        if matches!(FrameType::of(bytes), Some(FrameType::Proof | FrameType::Ready | FrameType::Goodbye)) {
            // The handshake of this frame is over.
            return;
        }
        let mut nonce = [0; NONCE_LEN];
        if let Err(e) = (env.random)(&mut nonce) {
            tracing::warn!(%e, "a dial is not answered: no random numbers");
            return;
        }
        let params = ResponderParams {
            me: self.id.me(),
            versions: Versions::OURS,
            caps: 0,
            incarnation: self.id.incarnation(),
        };
        let mut responder = Responder::new(params, nonce);
        let step = responder.on_bytes(bytes, &self.id);
        let inbound = responder.claimed().and_then(|claim| inbound(claim, slot, port));
        let words = match &step {
            Ok((used, ResponderStep::Challenge(frame))) if *used == bytes.len() => {
                Some((frame.clone(), true))
            }
            Ok(_) => None,
            Err(e) => e.reject_reason().map(|reason| (reject_unauthenticated(reason, 0), false)),
        };
        if !matches!(words, Some((_, true))) {
            self.note_refused(step.err().as_ref());
        }
        // A frame without a return address gets no answer.
        let (Some(inbound), Some((frame, goes_on))) = (inbound, words) else { return };
        if self.machine.is_with(&inbound) {
            return;
        }
        self.machine.make_room();
        // Its number may be used again at once.
        self.carry_out(env);
        let Some(id) = self.machine.greet(inbound, env.now) else { return };
        if goes_on {
            let mut said = Said::default();
            said.heard(bytes);
            said.answered(frame.as_bytes());
            self.responders.insert(id, (responder, said));
        }
        self.shake(To::Inbound(id), Kind::Answer, slot, frame.as_bytes());
        if !goes_on {
            self.machine.forget(id);
        }
    }

    fn note_refused(&mut self, error: Option<&HandshakeError>) {
        self.refused += 1;
        if self.refused <= LOGGED {
            let why = error
                .map_or("its frame is of another length than it says".to_owned(), HandshakeError::to_string);
            tracing::info!(%why, "refused an unauthenticated peer");
        }
    }

    fn shake(&mut self, to: To, kind: Kind, slot: Slot, bytes: &[u8]) {
        self.machine.act(Action::Shake { to, kind, slot, bytes: bytes.into() });
    }

    fn tell_again(&mut self, id: InboundId, answer: Option<Box<[u8]>>) {
        if let Some((slot, answer)) = self.machine.inbound(id).map(|s| s.slot).zip(answer) {
            self.shake(To::Inbound(id), Kind::Answer, slot, &answer);
        }
    }

    /// A further frame of an unauthenticated peer.
    fn dialled_again(&mut self, id: InboundId, port: u8, bytes: &[u8], env: &mut Env<'_>) {
        let dialled = self.machine.inbound(id).is_some_and(|s| s.port == port);
        let Some((responder, said)) = self.responders.get_mut(&id).filter(|_| dialled) else { return };
        if let Some(answer) = said.again(bytes) {
            let answer = answer.map(Box::from);
            return self.tell_again(id, answer);
        }
        match responder.on_bytes(bytes, &self.id) {
            Ok((used, ResponderStep::Proved(_))) if used == bytes.len() => {
                said.heard(bytes);
                self.machine.proved(id, env);
            }
            Ok((used, ResponderStep::Ready)) if used == bytes.len() => {
                self.machine.ready(id, env);
                self.responders.remove(&id);
            }
            Ok((_, ResponderStep::Goodbye)) => self.machine.inbound_left(id, env),
            step => {
                self.note_refused(step.err().as_ref());
                // It may have opened the connection that was promised to it.
                if let Some(Stage::Accepted(vc)) = self.machine.inbound(id).map(|s| s.stage) {
                    self.machine.control(vc, Kind::Reset);
                }
                self.machine.inbound_left(id, env);
            }
        }
    }

    /// A frame of somebody who was dialled.
    fn answered(&mut self, slot: Slot, port: u8, bytes: &[u8], env: &mut Env<'_>) {
        let Some(vc) = self.machine.slots.under_way(slot) else {
            if FrameType::of(bytes) == Some(FrameType::Accept) {
                self.machine.answered_late(slot);
            }
            return;
        };
        let dialled = self.machine.links.get(vc).is_some_and(|l| {
            l.phase() == Phase::Dialing && l.slot == slot && l.terms.as_ref().is_some_and(|t| t.port == port)
        });
        let Some(dial) = self.initiators.get_mut(&vc).filter(|_| dialled) else { return };
        let step = dial.on_bytes(bytes);
        let (failure, proved) = match step {
            Ok((used, _)) if used != bytes.len() => {
                (Failure::Protocol("a frame of another length than it says".into()), false)
            }
            Ok((_, InitiatorStep::NeedMore)) => {
                (Failure::Protocol("a frame that is cut short".into()), false)
            }
            Ok((_, InitiatorStep::Prove(frame))) => {
                return self.shake(To::Vc(vc), Kind::Dial, slot, frame.as_bytes());
            }
            Ok((_, InitiatorStep::Accepted { incarnation, dials, terms, .. })) => {
                match terms::parse(terms.as_bytes()) {
                    Some(theirs) => {
                        return self.machine.accepted(vc, theirs, incarnation, dials, env);
                    }
                    None => (Failure::Protocol("its terms cannot be read".into()), true),
                }
            }
            Ok((_, InitiatorStep::Rejected { reason, proved, .. })) => (Failure::Rejected(reason), proved),
            Err(HandshakeError::ResponderKey { .. }) => (Failure::WrongKey, false),
            Err(e) => (Failure::Protocol(e.to_string()), false),
        };
        self.machine.dial_failed(vc, failure, proved, env);
    }

    /// Does what the machine asks for, and hands the rest on.
    fn carry_out(&mut self, env: &mut Env<'_>) {
        while let Some(step) = self.machine.steps.pop_front() {
            match step {
                Step::Hello { vc, slot, dial } => match self.hello(vc, slot, dial, env) {
                    Ok(bytes) => {
                        env.out.push(Action::Shake { to: To::Vc(vc), kind: Kind::Dial, slot, bytes });
                    }
                    Err(failure) => self.machine.dial_failed(vc, failure, true, env),
                },
                Step::RetransmitHello { vc, slot } => {
                    if let Some(dial) = self.initiators.get(&vc) {
                        let bytes = dial.hello().into();
                        env.out.push(Action::Shake { to: To::Vc(vc), kind: Kind::Dial, slot, bytes });
                    }
                }
                Step::RetransmitAccept { inbound } => {
                    let answer =
                        self.responders.get(&inbound).and_then(|(_, said)| said.last()).map(Box::from);
                    self.tell_again(inbound, answer);
                }
                Step::Ready { vc, slot } => {
                    if let Some(frame) = self.initiators.remove(&vc).and_then(|mut d| d.initiator().ready()) {
                        let bytes = frame.as_bytes().into();
                        env.out.push(Action::Shake { to: To::Vc(vc), kind: Kind::Dial, slot, bytes });
                    }
                }
                Step::Goodbye { vc, slot } => {
                    let bytes = Initiator::goodbye().as_bytes().into();
                    env.out.push(Action::Shake { to: To::Vc(vc), kind: Kind::Dial, slot, bytes });
                }
                Step::Accept { inbound, slot, terms, dials } => {
                    self.accept(inbound, slot, &terms, dials, env);
                }
                Step::Reject { inbound, slot, reason } => {
                    let proved = self
                        .responders
                        .get_mut(&inbound)
                        .and_then(|(r, _)| r.reject(reason, &Terms::default()));
                    let frame = proved.unwrap_or_else(|| reject_unauthenticated(reason, 0));
                    let (to, bytes) = (To::Inbound(inbound), frame.as_bytes().into());
                    env.out.push(Action::Shake { to, kind: Kind::Answer, slot, bytes });
                }
                Step::Do(action) => {
                    if let Action::Forget { inbound } = action {
                        self.responders.remove(&inbound);
                    }
                    env.out.push(action);
                }
            }
        }
    }

    /// Begins a handshake.
    fn hello(&mut self, vc: VcId, slot: Slot, dial: u64, env: &mut Env<'_>) -> Result<Box<[u8]>, Failure> {
        let link = self.machine.links.get(vc).ok_or(Failure::None)?;
        let local = link.terms.as_deref().ok_or(Failure::None)?;
        let key = self.id.key_towards(&link.peer.group).ok_or(Failure::NoKey)?;
        let terms = terms::emit(local, slot).map_err(|e| Failure::Protocol(e.to_string()))?;
        let mut nonce = [0; NONCE_LEN];
        (env.random)(&mut nonce).map_err(|e| Failure::Sending(format!("no random numbers: {e}")))?;
        let params = InitiatorParams {
            me: self.id.name_towards(&link.peer.group),
            peer: link.peer,
            purpose: link.purpose,
            versions: Versions::OURS,
            caps: 0,
            incarnation: self.id.incarnation(),
            dial,
            session: 0,
            position: 0,
            terms,
            key,
        };
        let (initiator, frame) = Initiator::new(params, nonce);
        self.initiators.insert(vc, Dial::new(initiator, frame.as_bytes()));
        Ok(frame.as_bytes().into())
    }

    fn accept(&mut self, id: InboundId, own: Slot, local: &LocalTerms, dials: u64, env: &mut Env<'_>) {
        let Some(Inbound { slot, stage: Stage::Accepted(vc), peer, .. }) = self.machine.inbound(id) else {
            return;
        };
        let (slot, vc, peer) = (*slot, *vc, *peer);
        match terms::emit(local, own) {
            Ok(terms) => {
                let Some((responder, said)) = self.responders.get_mut(&id) else { return };
                if let Some(frame) = responder.accept(dials, 0, &terms) {
                    said.answered(frame.as_bytes());
                    let (to, bytes) = (To::Inbound(id), frame.as_bytes().into());
                    env.out.push(Action::Shake { to, kind: Kind::Answer, slot, bytes });
                }
            }
            Err(e) => {
                let text = format!("its dial cannot be accepted: {e}; {}", self.machine.params.words.address);
                self.machine.abort(vc, VcError::new(VcErrorKind::Unsupported, Some(peer), text), env);
            }
        }
    }
}

/// Returns the claim of a HELLO; `None` if no such connection is possible, or it names no address
/// to answer to.
fn inbound(claim: &Claim, slot: Slot, port: u8) -> Option<Inbound> {
    let terms = terms::parse(claim.terms.as_bytes())?;
    let is_stream = matches!(claim.purpose, Purpose::Vc | Purpose::Root { .. }) && claim.session == 0;
    (is_stream && terms.slot == slot).then_some(Inbound {
        slot,
        port,
        stage: Stage::Claimed,
        until: Time::NEVER,
        peer: claim.peer,
        purpose: claim.purpose,
        incarnation: claim.incarnation,
        dial: claim.dial,
        terms,
    })
}
