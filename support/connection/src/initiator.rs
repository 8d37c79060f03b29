//! The side that dials.

use netmod_core::PeerName;

use crate::collector::Collector;
use crate::frame::{Frame, FrameType, MAC_LEN};
use crate::key::{Label, Transcript};
use crate::{HandshakeError, JobKey, NONCE_LEN, Nonce, Purpose, RejectReason, Sender, Terms, Versions};

/// The parameters of a dial.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InitiatorParams {
    /// This process.
    pub me: PeerName,
    /// The process that should answer.
    pub peer: PeerName,
    /// The purpose of the connection.
    pub purpose: Purpose,
    /// The versions on offer.
    pub versions: Versions,
    /// The capabilities on offer, one a bit.
    pub caps: u64,
    /// This process, among those that have had its name.
    pub incarnation: u64,
    /// Number of the dial; later dials of this process have greater numbers.
    pub dial: u64,
    /// The session to be resumed; 0 for a fresh one.
    pub session: u64,
    /// Bytes of that session that have been read.
    pub position: u64,
    /// The terms that the netmod adds.
    pub terms: Terms,
    /// The key of the peer's group.
    pub key: JobKey,
}

/// The progress of the handshake after the bytes that were taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InitiatorStep {
    /// More bytes are needed.
    NeedMore,
    /// The responder has proved to know the key: send this PROOF.
    Prove(Frame),
    /// The responder promises to take the connection. Nothing more is taken; answer with
    /// [`Initiator::ready`] or [`Initiator::goodbye`].
    Accepted {
        /// The version that both use.
        version: u16,
        /// The capabilities that both have.
        caps: u64,
        /// The peer's incarnation.
        incarnation: u64,
        /// The number of the peer's last dial: that one, and those before it, have been given up. 0
        /// if it says nothing of them.
        dials: u64,
        /// The session: the one that was asked for, or a fresh one.
        session: u64,
        /// Bytes of the session that the peer has read.
        position: u64,
        /// The terms that the peer's netmod adds.
        terms: Terms,
    },
    /// The responder refuses. Nothing more is taken.
    Rejected {
        /// The reason.
        reason: RejectReason,
        /// True if it has proved to know the key. If not, the reason cannot be trusted.
        proved: bool,
        /// The terms that the peer's netmod adds; empty if nothing is proved.
        terms: Terms,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Challenge,
    Answer,
    Accepted,
    Over,
}

/// The handshake of a dial.
#[derive(Clone, Debug)]
pub struct Initiator {
    params: InitiatorParams,
    nonce: Nonce,
    collector: Collector,
    transcript: Transcript,
    /// The key of the connection, if the sides agree on one.
    traffic: Option<JobKey>,
    state: State,
    version: u16,
    caps: u64,
    /// The peer's.
    incarnation: u64,
    /// Name of a fresh session.
    fresh: u64,
}

impl Initiator {
    /// Begins a handshake; the frame is the HELLO to send. `nonce` must be random and never used
    /// before.
    pub fn new(params: InitiatorParams, nonce: impl Into<Nonce>) -> (Initiator, Frame) {
        let nonce = nonce.into();
        let (flags, port) = match params.purpose {
            Purpose::Vc => (0u32, 0u64),
            Purpose::Root { port } => (1, port),
            Purpose::Rail { number } => (2, number),
        };
        let hello = Frame::new(FrameType::Hello, params.terms.as_bytes().len())
            .put(&params.versions.min.to_le_bytes())
            .put(&params.versions.max.to_le_bytes())
            .put(&flags.to_le_bytes())
            .put(&params.caps.to_le_bytes())
            .put(&params.me.group.0)
            .put(&params.me.rank.to_le_bytes())
            .put(&params.peer.group.0)
            .put(&params.peer.rank.to_le_bytes())
            .put(&port.to_le_bytes())
            .put(&params.incarnation.to_le_bytes())
            .put(&params.dial.to_le_bytes())
            .put(&params.session.to_le_bytes())
            .put(&params.position.to_le_bytes())
            .put(params.terms.as_bytes())
            .put(nonce.public());
        let mut transcript = Transcript::new();
        transcript.add(&hello);
        let initiator = Initiator {
            params,
            nonce,
            collector: Collector::new(),
            transcript,
            traffic: None,
            state: State::Challenge,
            version: 0,
            caps: 0,
            incarnation: 0,
            fresh: 0,
        };
        (initiator, hello)
    }

    /// Takes bytes up to the end of one frame; returns their number and the progress. Must be
    /// called again with the rest while the step is `NeedMore` or `Prove` and bytes are left.
    ///
    /// # Errors
    /// The handshake has failed; close the connection. [`Initiator::sender`] says whose fault it
    /// is.
    pub fn on_bytes(&mut self, bytes: &[u8]) -> Result<(usize, InitiatorStep), HandshakeError> {
        let allowed: &[FrameType] = match self.state {
            State::Challenge => &[FrameType::Challenge, FrameType::Reject, FrameType::Hello],
            State::Answer => &[FrameType::Accept, FrameType::Reject],
            State::Accepted | State::Over => return Ok((0, InitiatorStep::NeedMore)),
        };
        let taken = self.collector.take(bytes, allowed).and_then(|(used, frame)| {
            let step = match frame {
                None => InitiatorStep::NeedMore,
                Some((FrameType::Challenge, frame)) => self.challenge(&frame)?,
                Some((FrameType::Accept, frame)) => self.accept(&frame)?,
                Some((FrameType::Reject, frame)) => self.reject(&frame)?,
                Some((FrameType::Hello, _)) => return Err(HandshakeError::Reflected),
                Some((kind, _)) => return Err(HandshakeError::Unexpected { kind }),
            };
            Ok((used, step))
        });
        if taken.is_err() {
            self.state = State::Over;
        }
        taken
    }

    fn challenge(&mut self, frame: &Frame) -> Result<InitiatorStep, HandshakeError> {
        if !self.transcript.open(&self.params.key, Label::Responder, frame) {
            return Err(HandshakeError::ResponderKey { peer: self.params.peer });
        }
        self.state = State::Answer;
        let mut body = frame.body();
        let version = body.u16();
        let reserved: [u8; 6] = body.take();
        let caps = body.u64();
        let incarnation = body.u64();
        let nonce: [u8; NONCE_LEN] = body.take();
        if reserved != [0; 6] {
            return Err(HandshakeError::Reserved { kind: FrameType::Challenge });
        }
        if nonce == *self.nonce.public() {
            return Err(HandshakeError::Reflected);
        }
        let Versions { min, max } = self.params.versions;
        if !(min..=max).contains(&version) || caps & !self.params.caps != 0 {
            return Err(HandshakeError::NotOffered { version, caps });
        }
        self.version = version;
        self.caps = caps;
        self.incarnation = incarnation;
        let proof = Frame::new(FrameType::Proof, 0);
        let proof = self.transcript.seal(&self.params.key, Label::Initiator, proof);
        self.fresh = self.transcript.session(&self.params.key);
        let shared = self.nonce.shared(nonce, caps);
        self.traffic = shared.map(|shared| self.transcript.traffic(&self.params.key, &shared));
        Ok(InitiatorStep::Prove(proof))
    }

    fn accept(&mut self, frame: &Frame) -> Result<InitiatorStep, HandshakeError> {
        if !self.transcript.open(&self.params.key, Label::Accept, frame) {
            return Err(HandshakeError::Tampered { kind: FrameType::Accept });
        }
        self.state = State::Accepted;
        let resumed = self.params.session;
        let mut body = frame.body();
        let (dials, position) = (body.u64(), body.u64());
        Ok(InitiatorStep::Accepted {
            version: self.version,
            caps: self.caps,
            incarnation: self.incarnation,
            dials,
            session: if resumed == 0 { self.fresh } else { resumed },
            position,
            terms: body.terms(MAC_LEN),
        })
    }

    fn reject(&mut self, frame: &Frame) -> Result<InitiatorStep, HandshakeError> {
        let mut body = frame.body();
        let [code, proved] = body.take();
        let reserved: [u8; 6] = body.take();
        let terms = body.terms(MAC_LEN);
        if proved > 1 || reserved != [0; 6] {
            return Err(HandshakeError::Reserved { kind: FrameType::Reject });
        }
        let proved = proved == 1;
        if !proved && terms.as_bytes().iter().any(|b| *b != 0) {
            return Err(HandshakeError::Reserved { kind: FrameType::Reject });
        }
        if proved
            && (self.state != State::Answer || !self.transcript.open(&self.params.key, Label::Reject, frame))
        {
            return Err(HandshakeError::Tampered { kind: FrameType::Reject });
        }
        let reason = RejectReason::from_wire(code);
        let reason = reason.ok_or(HandshakeError::UnknownReason { code, proved })?;
        self.state = State::Over;
        Ok(InitiatorStep::Rejected { reason, proved, terms: if proved { terms } else { Terms::default() } })
    }

    /// Makes the READY once accepted: the initiator has adopted the connection, and messages may
    /// follow. `None` at any other time.
    pub fn ready(&mut self) -> Option<Frame> {
        if self.state != State::Accepted {
            return None;
        }
        self.state = State::Over;
        let ready = Frame::new(FrameType::Ready, 0);
        Some(self.transcript.seal(&self.params.key, Label::Ready, ready))
    }

    /// Makes the GOODBYE, in place of READY or at any time before.
    pub fn goodbye() -> Frame {
        Frame::new(FrameType::Goodbye, 0)
    }

    /// Returns the key of the connection once accepted, which its two ends alone know; `None`
    /// unless both sides have a capability that wants one ([`Nonce::of_exchange`]).
    pub fn key(&self) -> Option<JobKey> {
        self.traffic
    }

    /// Returns the kind of sender at the other end, as far as is proved.
    pub fn sender(&self) -> Sender {
        if self.transcript.proofs() > 0 { Sender::Peer } else { Sender::Unauthenticated }
    }

    /// Returns the parameters of the dial.
    pub fn params(&self) -> &InitiatorParams {
        &self.params
    }
}
