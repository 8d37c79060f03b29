//! Retransmission, where frames of handshakes may be lost.
//!
//! The side that dials retransmits HELLO. The other side answers as it answered before: with
//! CHALLENGE, by which PROOF comes again, by which ACCEPT does. So each of them comes through in
//! the end. A REJECT, whose sender has forgotten the handshake, is made anew. The side that has
//! promised retransmits ACCEPT by itself: the other side may have given that dial up with a GOODBYE
//! that was lost, and says so again.
//!
//! READY is not retransmitted: it goes by the connection that it opens.

use netmod_connection::{FrameType, HandshakeError, Initiator, InitiatorStep};

use super::inbound::Inbound;
use super::machine::Machine;

/// The handshake of a dial that is under way.
#[derive(Debug)]
pub(super) struct Dial {
    hello: Box<[u8]>,
    /// The state behind HELLO.
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

    /// Takes a frame of the responder's. CHALLENGE may come more than once, and from a responder
    /// that has forgotten the first one.
    pub(super) fn on_bytes(&mut self, bytes: &[u8]) -> Result<(usize, InitiatorStep), HandshakeError> {
        if FrameType::of(bytes) == Some(FrameType::Challenge) {
            self.initiator = self.begun.clone();
        }
        self.initiator.on_bytes(bytes)
    }

    pub(super) fn initiator(&mut self) -> &mut Initiator {
        &mut self.initiator
    }
}

/// The frames of an inbound dial so far, with their answers.
#[derive(Debug, Default)]
pub(super) struct Said(Vec<Turn>);

/// Something that it has said.
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

    /// Records the answer to the last frame heard.
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
    /// Returns true if a connection has been promised to this dial, or made by it: its HELLO was
    /// retransmitted, and is late.
    pub(super) fn is_with(&self, inbound: &Inbound) -> bool {
        let link = self.by_peer.get(&inbound.peer).and_then(|vc| self.links.get(*vc));
        link.and_then(|l| l.theirs.as_ref()).is_some_and(|theirs| theirs.slot == inbound.slot)
    }
}
