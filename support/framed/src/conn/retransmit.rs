//! What is said again while no answer comes, where frames of handshakes may be lost.
//!
//! Who dials repeats HELLO, and whoever has heard it says again what it said then: CHALLENGE, by which PROOF is said again, by which ACCEPT is. So
//! each of them comes through in the end, and a REJECT, whose sender has forgotten the handshake, is made anew. Who has promised repeats ACCEPT
//! by itself: the other side may have given that dial up with a GOODBYE that was lost, and says so again.
//!
//! READY is not repeated: it goes by the connection that it opens.

use core::time::Duration;

use netmod_connection::{FrameType, HelloError, Initiator, InitiatorStep};
use netmod_core::VcId;

use super::Env;
use super::inbound::Inbound;
use super::machine::{Machine, Phase, Step, link_of};
use super::mutant::{Mutant, mutated};
use super::slots;
use crate::wire::Slot;

/// The handshake of a dial that is under way.
#[derive(Debug)]
pub(super) struct Dial {
    hello: Box<[u8]>,
    /// As it was when HELLO was said.
    begun: Initiator,
    initiator: Initiator,
}

impl Dial {
    pub(super) fn new(initiator: Initiator, hello: &[u8]) -> Dial {
        Dial { hello: hello.into(), begun: initiator.clone(), initiator }
    }

    pub(super) fn hello(&self) -> &[u8] {
        &self.hello
    }

    /// A frame of the responder's, whose CHALLENGE may come more than once, and from a responder that has forgotten the first one.
    pub(super) fn on_bytes(&mut self, bytes: &[u8]) -> Result<(usize, InitiatorStep), HelloError> {
        if FrameType::of(bytes) == Some(FrameType::Challenge) {
            self.initiator = self.begun.clone();
        }
        self.initiator.on_bytes(bytes)
    }

    pub(super) fn initiator(&mut self) -> &mut Initiator {
        &mut self.initiator
    }
}

/// What an unauthenticated peer has said so far, and what it was told.
#[derive(Debug, Default)]
pub(super) struct Said(Vec<Turn>);

/// Something that an unauthenticated peer has said.
#[derive(Debug)]
struct Turn {
    heard: Box<[u8]>,
    answer: Option<Box<[u8]>>,
}

impl Said {
    /// It has said something.
    pub(super) fn heard(&mut self, bytes: &[u8]) {
        self.0.push(Turn { heard: bytes.into(), answer: None });
    }

    /// That is answered now.
    pub(super) fn answered(&mut self, bytes: &[u8]) {
        if let Some(turn) = self.0.last_mut() {
            turn.answer = Some(bytes.into());
        }
    }

    /// The answer to something that it has said before, if there is one yet.
    pub(super) fn again(&self, bytes: &[u8]) -> Option<Option<&[u8]>> {
        self.0.iter().find(|turn| *turn.heard == *bytes).map(|turn| turn.answer.as_deref())
    }

    /// The last answer.
    pub(super) fn last(&self) -> Option<&[u8]> {
        self.0.last()?.answer.as_deref()
    }
}

impl Machine {
    /// A frame has been said that an answer is awaited to.
    pub(super) fn said(&mut self, vc: VcId, env: &Env<'_>) {
        let pause = self.params.repeat;
        let again = self.at(env.now + pause);
        let link = link_of!(self, vc);
        (link.again, link.pause) = (again, pause);
    }

    /// No answer has come so far.
    pub(super) fn repeat(&mut self, vc: VcId, env: &Env<'_>) {
        let link = link_of!(self, vc);
        link.pause = link.pause.saturating_mul(2);
        let again = env.now + link.pause;
        let again = self.at(again);
        let link = link_of!(self, vc);
        link.again = again;
        match (link.phase, link.from) {
            (Phase::Dialing, _) => self.steps.push_back(Step::HelloAgain { vc, slot: link.slot }),
            (Phase::Promised, Some(inbound)) if !mutated(Mutant::SaidOnce) => {
                self.steps.push_back(Step::AcceptAgain { inbound });
            }
            _ => {}
        }
    }

    /// Whether an unauthenticated peer is one that a connection has been made with: its HELLO was said again, and is late.
    pub(super) fn is_with(&self, inbound: &Inbound) -> bool {
        let link = self.by_peer.get(&inbound.peer).and_then(|vc| self.links.get(*vc));
        link.and_then(|l| l.theirs.as_ref()).is_some_and(|theirs| theirs.slot == inbound.slot)
    }

    /// Somebody accepts a dial that is not under way: it has not heard that it was given up.
    pub(super) fn answered_late(&mut self, slot: Slot) {
        if slot == slots::NONE || self.params.repeat == Duration::MAX || mutated(Mutant::VoidInSilence) {
            return;
        }
        if let Some((vc, _)) = self.links.iter().find(|(_, l)| l.void == slot) {
            self.steps.push_back(Step::Goodbye { vc, slot });
        }
    }
}
