//! The side that listens.

use netmod_core::{GroupId, PeerName};

use crate::collector::Collector;
use crate::frame::{Frame, FrameType, MAC_LEN};
use crate::key::{Label, Transcript};
use crate::{
    HandshakeError, JobKey, MAX_TERMS, NONCE_LEN, Nonce, Purpose, RejectReason, Sender, Terms, Versions,
};

/// A responder's knowledge of groups and ports.
pub trait Directory {
    /// Returns the key of a group, if this process belongs to it or otherwise answers for it.
    fn key(&self, group: &GroupId) -> Option<JobKey>;
    /// Returns the number of processes of a group; `None` if the group is unknown here.
    fn group_size(&self, group: &GroupId) -> Option<u32>;
    /// Returns true if the port is open.
    fn port_is_open(&self, port: u64) -> bool;
    /// Returns the name by which processes of `group`, or those that come to a port, know this
    /// process, which is `me` in its job; `None` if they may not ask for it. A key opens its own
    /// group, and no other.
    fn name_for(&self, group: &GroupId, purpose: Purpose, me: PeerName) -> Option<PeerName>;
}

/// The parameters of a responder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResponderParams {
    /// This process in its job.
    pub me: PeerName,
    /// The versions that it speaks.
    pub versions: Versions,
    /// The capabilities that it has.
    pub caps: u64,
    /// This process, among those that have had its name.
    pub incarnation: u64,
}

/// An initiator's unproved description of itself in its HELLO.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Claim {
    /// Its name.
    pub peer: PeerName,
    /// The purpose of the connection.
    pub purpose: Purpose,
    /// The capabilities that it offers.
    pub offers: u64,
    /// Its incarnation.
    pub incarnation: u64,
    /// Number of the dial; later dials of the process have greater numbers.
    pub dial: u64,
    /// The session that it wants resumed; 0 for a fresh one.
    pub session: u64,
    /// Bytes of that session that it has read.
    pub position: u64,
    /// The terms that its netmod adds.
    pub terms: Terms,
}

/// An initiator that has proved to know the key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proved {
    /// Its description of itself, which is proved now.
    pub claim: Claim,
    /// The version that both use.
    pub version: u16,
    /// The capabilities that both have.
    pub caps: u64,
    /// Name of a fresh session.
    pub fresh: u64,
}

/// The progress of the handshake after the bytes that were taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ResponderStep {
    /// More bytes are needed.
    NeedMore,
    /// Send this CHALLENGE.
    Challenge(Frame),
    /// The initiator has proved to know the key. Answer with [`Responder::accept`] or
    /// [`Responder::reject`], now or later.
    Proved(Proved),
    /// The initiator has adopted the connection. Nothing more is taken.
    Ready,
    /// The initiator has given the connection up. Nothing more is taken.
    Goodbye,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Hello,
    Proof,
    /// PROOF was right, and the netmod has not answered yet.
    Undecided,
    Accepted,
    Over,
}

/// The handshake of an incoming connection.
#[derive(Clone, Debug)]
pub struct Responder {
    params: ResponderParams,
    nonce: Nonce,
    collector: Collector,
    transcript: Transcript,
    /// The key of the connection, if the sides agree on one.
    traffic: Option<JobKey>,
    state: State,
    /// Known from HELLO on; believed from PROOF on.
    claim: Option<Claim>,
    /// The parameters that CHALLENGE has announced.
    chosen: Option<Chosen>,
}

/// The parameters of a handshake that has not been refused.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    key: JobKey,
    version: u16,
    caps: u64,
    /// The initiator's.
    nonce: [u8; NONCE_LEN],
}

impl Responder {
    /// Awaits a HELLO. `nonce` must be random and never used before.
    pub fn new(params: ResponderParams, nonce: impl Into<Nonce>) -> Responder {
        Responder {
            params,
            nonce: nonce.into(),
            collector: Collector::new(),
            transcript: Transcript::new(),
            traffic: None,
            state: State::Hello,
            claim: None,
            chosen: None,
        }
    }

    /// Returns the initiator's description of itself once its HELLO has come, even if that was
    /// refused.
    ///
    /// **Nothing of it is proved** before the step is [`ResponderStep::Proved`]: until then it
    /// serves only to address an answer.
    pub fn claimed(&self) -> Option<&Claim> {
        self.claim.as_ref()
    }

    /// Takes bytes up to the end of one frame; returns their number and the progress. Must be
    /// called again with the rest until the step is `Ready` or `Goodbye` or no byte is left.
    ///
    /// # Errors
    /// The handshake has failed. [`Responder::sender`] says whose fault it is; if the error has a
    /// [`HandshakeError::reject_reason`], send [`reject_unauthenticated`] before closing.
    pub fn on_bytes(
        &mut self,
        bytes: &[u8],
        directory: &(impl Directory + ?Sized),
    ) -> Result<(usize, ResponderStep), HandshakeError> {
        let allowed: &[FrameType] = match self.state {
            State::Hello => &[FrameType::Hello],
            State::Proof => &[FrameType::Proof, FrameType::Goodbye, FrameType::Challenge],
            State::Undecided => &[FrameType::Goodbye],
            State::Accepted => &[FrameType::Ready, FrameType::Goodbye],
            State::Over => return Ok((0, ResponderStep::NeedMore)),
        };
        let taken = self.collector.take(bytes, allowed).and_then(|(used, frame)| {
            let step = match frame {
                None => ResponderStep::NeedMore,
                Some((FrameType::Hello, frame)) => self.hello(&frame, directory)?,
                Some((FrameType::Proof, frame)) => self.proof(&frame)?,
                Some((FrameType::Ready, frame)) => self.ready(&frame)?,
                Some((FrameType::Goodbye, _)) => {
                    self.state = State::Over;
                    ResponderStep::Goodbye
                }
                Some((FrameType::Challenge, _)) => return Err(HandshakeError::Reflected),
                Some((kind, _)) => return Err(HandshakeError::Unexpected { kind }),
            };
            Ok((used, step))
        });
        if taken.is_err() {
            self.state = State::Over;
        }
        taken
    }

    fn hello(
        &mut self,
        frame: &Frame,
        directory: &(impl Directory + ?Sized),
    ) -> Result<ResponderStep, HandshakeError> {
        let mut body = frame.body();
        let theirs = Versions { min: body.u16(), max: body.u16() };
        let purpose = body.u32();
        let offered = body.u64();
        let peer = PeerName { group: GroupId(body.take()), rank: body.u32() };
        let wanted = PeerName { group: GroupId(body.take()), rank: body.u32() };
        let port = body.u64();
        let (incarnation, dial) = (body.u64(), body.u64());
        let (session, position) = (body.u64(), body.u64());
        let terms = body.terms(NONCE_LEN);
        let nonce: [u8; NONCE_LEN] = body.take();
        let purpose = match purpose {
            0 if port == 0 => Some(Purpose::Vc),
            1 => Some(Purpose::Root { port }),
            2 => Some(Purpose::Rail { number: port }),
            _ => None,
        };
        let purpose = purpose.filter(|_| session != 0 || position == 0);
        self.claim = purpose.map(|purpose| Claim {
            peer,
            purpose,
            offers: offered,
            incarnation,
            dial,
            session,
            position,
            terms,
        });
        let ours = self.params.versions;
        let version = theirs.common(ours).ok_or(HandshakeError::Version { theirs, ours })?;
        let purpose = purpose.ok_or(HandshakeError::Reserved { kind: FrameType::Hello })?;
        if let Purpose::Root { port } = purpose
            && !directory.port_is_open(port)
        {
            return Err(HandshakeError::NoSuchPort { port });
        }
        let Some(key) = directory.key(&wanted.group) else {
            return Err(HandshakeError::UnknownGroup { name: wanted });
        };
        let Some(me) = directory.name_for(&peer.group, purpose, self.params.me) else {
            return Err(HandshakeError::UnknownGroup { name: peer });
        };
        if wanted != me {
            return Err(HandshakeError::WrongPeer { wanted, me });
        }
        if peer == me {
            return Err(HandshakeError::Reflected);
        }
        match directory.group_size(&peer.group) {
            Some(size) if peer.rank >= size => return Err(HandshakeError::BadRank { name: peer, size }),
            None if !matches!(purpose, Purpose::Root { .. }) => {
                return Err(HandshakeError::UnknownGroup { name: peer });
            }
            _ => {}
        }
        let caps = offered & self.params.caps;
        self.transcript.add(frame);
        let challenge = Frame::new(FrameType::Challenge, 0)
            .put(&version.to_le_bytes())
            .put(&[0; 6])
            .put(&caps.to_le_bytes())
            .put(&self.params.incarnation.to_le_bytes())
            .put(self.nonce.public());
        let challenge = self.transcript.seal(&key, Label::Responder, challenge);
        self.chosen = Some(Chosen { key, version, caps, nonce });
        self.state = State::Proof;
        Ok(ResponderStep::Challenge(challenge))
    }

    fn proof(&mut self, frame: &Frame) -> Result<ResponderStep, HandshakeError> {
        let (Some(claim), Some(Chosen { key, version, caps, nonce })) = (&self.claim, self.chosen) else {
            return Err(HandshakeError::Unexpected { kind: FrameType::Proof });
        };
        if !self.transcript.open(&key, Label::Initiator, frame) {
            return Err(HandshakeError::InitiatorKey { name: claim.peer });
        }
        let fresh = self.transcript.session(&key);
        let shared = self.nonce.shared(nonce, caps);
        self.traffic = shared.map(|shared| self.transcript.traffic(&key, &shared));
        self.state = State::Undecided;
        Ok(ResponderStep::Proved(Proved { claim: claim.clone(), version, caps, fresh }))
    }

    fn ready(&mut self, frame: &Frame) -> Result<ResponderStep, HandshakeError> {
        let right = self.chosen.is_some_and(|c| self.transcript.open(&c.key, Label::Ready, frame));
        if !right {
            return Err(HandshakeError::Tampered { kind: FrameType::Ready });
        }
        self.state = State::Over;
        Ok(ResponderStep::Ready)
    }

    /// Makes the ACCEPT once the initiator has proved itself; then READY is awaited. `None` at any
    /// other time. `dials` is the number of this process's last dial: of the two processes' dials,
    /// this one survives. `position` is the number of bytes of the session read here, `terms` what
    /// the netmod adds.
    pub fn accept(&mut self, dials: u64, position: u64, terms: &Terms) -> Option<Frame> {
        let key = self.undecided()?;
        self.state = State::Accepted;
        let terms = terms.as_bytes();
        let accept = Frame::new(FrameType::Accept, terms.len());
        let accept = accept.put(&dials.to_le_bytes()).put(&position.to_le_bytes()).put(terms);
        Some(self.transcript.seal(&key, Label::Accept, accept))
    }

    /// Makes the REJECT once the initiator has proved itself; then the handshake is over. `None` at
    /// any other time. `terms` are what the netmod adds.
    pub fn reject(&mut self, reason: RejectReason, terms: &Terms) -> Option<Frame> {
        let key = self.undecided()?;
        self.state = State::Over;
        let terms = terms.as_bytes();
        let reject = Frame::new(FrameType::Reject, terms.len());
        let reject = reject.put(&[reason.to_wire(), 1]).put(&[0; 6]).put(terms);
        Some(self.transcript.seal(&key, Label::Reject, reject))
    }

    fn undecided(&self) -> Option<JobKey> {
        self.chosen.filter(|_| self.state == State::Undecided).map(|c| c.key)
    }

    /// Returns the key of the connection once the initiator has proved itself ([`Initiator::key`]).
    ///
    /// [`Initiator::key`]: crate::Initiator::key
    pub fn key(&self) -> Option<JobKey> {
        self.traffic
    }

    /// Returns the kind of sender at the other end, as far as is proved.
    pub fn sender(&self) -> Sender {
        if self.transcript.proofs() > 0 { Sender::Peer } else { Sender::Unauthenticated }
    }
}

/// Makes a REJECT for an unauthenticated peer. It carries no MAC, and its receiver takes it as
/// hearsay. It is as long as one with `terms` bytes of terms (at most [`MAX_TERMS`]), which are
/// zero.
pub fn reject_unauthenticated(reason: RejectReason, terms: usize) -> Frame {
    let terms = terms.min(MAX_TERMS);
    Frame::new(FrameType::Reject, terms)
        .put(&[reason.to_wire(), 0])
        .put(&[0; 6])
        .put(&[0; MAX_TERMS][..terms])
        .put(&[0; MAC_LEN])
}
