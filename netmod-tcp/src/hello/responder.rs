//! The side that listens.

use netmod_core::{GroupId, PeerName};

use super::frame::{Collector, Frame, FrameType, MAC_LEN};
use super::key::{Label, Transcript};
use super::{HelloError, JobKey, NONCE_LEN, Pairs, Purpose, RejectReason, Sender, Versions};

/// What a responder knows about groups and ports.
pub trait Directory {
    /// The key of a group, if this process belongs to it or otherwise answers for it.
    fn key(&self, group: &GroupId) -> Option<JobKey>;
    /// How many processes a group has; `None` if the group is unknown here.
    fn group_size(&self, group: &GroupId) -> Option<u32>;
    /// Whether somebody accepts on a port.
    fn port_is_open(&self, port: u64) -> bool;
    /// The name by which processes of `group`, or whoever comes to a port, know this process, which is `me`
    /// in its job; `None` if they may not ask for it. A key opens the group that it is of, and no other.
    fn name_for(&self, group: &GroupId, purpose: Purpose, me: PeerName) -> Option<PeerName>;
}

/// What a responder is.
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

/// An initiator that has proved to know the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Proved {
    /// Its name.
    pub peer: PeerName,
    /// What it wants the connection for.
    pub purpose: Purpose,
    /// The version that both use.
    pub version: u16,
    /// The capabilities that both have.
    pub caps: u64,
    /// Its incarnation.
    pub incarnation: u64,
    /// Which of its dials this is; later ones have greater numbers.
    pub dial: u64,
    /// The session that it wants resumed; 0 for a fresh one.
    pub session: u64,
    /// Bytes of that session that it has read.
    pub position: u64,
    /// The interfaces that it wants to talk to each other.
    pub pairs: Pairs,
    /// What a fresh session would be called.
    pub fresh: u64,
}

/// How far the handshake came with the bytes that were taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    nonce: [u8; NONCE_LEN],
    collector: Collector,
    transcript: Transcript,
    state: State,
    /// Known from HELLO on; believed from PROOF on.
    claim: Option<(Proved, JobKey)>,
}

impl Responder {
    /// Awaits a HELLO. `nonce` must be random and never used before.
    pub fn new(params: ResponderParams, nonce: [u8; NONCE_LEN]) -> Responder {
        Responder {
            params,
            nonce,
            collector: Collector::new(),
            transcript: Transcript::new(),
            state: State::Hello,
            claim: None,
        }
    }

    /// Takes bytes up to the end of one frame; says how many, and how far that led. To be called
    /// again with the rest until the step is `Ready` or `Goodbye` or no byte is left.
    ///
    /// # Errors
    /// The handshake has failed. [`Responder::sender`] says whose fault it is; if the error has a
    /// [`HelloError::reject_reason`], send [`reject_stranger`] before closing.
    pub fn on_bytes(
        &mut self,
        bytes: &[u8],
        directory: &(impl Directory + ?Sized),
    ) -> Result<(usize, ResponderStep), HelloError> {
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
                Some((FrameType::Challenge, _)) => return Err(HelloError::Reflected),
                Some((kind, _)) => return Err(HelloError::Unexpected { kind }),
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
    ) -> Result<ResponderStep, HelloError> {
        let mut body = frame.body();
        let theirs = Versions { min: body.u16(), max: body.u16() };
        let purpose = body.u32();
        let offered = body.u64();
        let peer = PeerName { group: GroupId(body.take()), rank: body.u32() };
        let wanted = PeerName { group: GroupId(body.take()), rank: body.u32() };
        let port = body.u64();
        let (incarnation, dial) = (body.u64(), body.u64());
        let (session, position) = (body.u64(), body.u64());
        let pairs = Pairs::parse(&mut body, FrameType::Hello)?;
        let ours = self.params.versions;
        let version = theirs.common(ours).ok_or(HelloError::Version { theirs, ours })?;
        let purpose = match purpose {
            0 if port == 0 => Purpose::Vc,
            1 => Purpose::Root { port },
            2 => Purpose::Rail { number: port },
            _ => return Err(HelloError::Reserved { kind: FrameType::Hello }),
        };
        if session == 0 && position != 0 {
            return Err(HelloError::Reserved { kind: FrameType::Hello });
        }
        if let Purpose::Root { port } = purpose
            && !directory.port_is_open(port)
        {
            return Err(HelloError::NoSuchPort { port });
        }
        let Some(key) = directory.key(&wanted.group) else {
            return Err(HelloError::UnknownGroup { name: wanted });
        };
        let Some(me) = directory.name_for(&peer.group, purpose, self.params.me) else {
            return Err(HelloError::UnknownGroup { name: peer });
        };
        if wanted != me {
            return Err(HelloError::WrongPeer { wanted, me });
        }
        if peer == me {
            return Err(HelloError::Reflected);
        }
        match directory.group_size(&peer.group) {
            Some(size) if peer.rank >= size => return Err(HelloError::BadRank { name: peer, size }),
            None if !matches!(purpose, Purpose::Root { .. }) => {
                return Err(HelloError::UnknownGroup { name: peer });
            }
            _ => {}
        }
        let caps = offered & self.params.caps;
        self.transcript.add(frame);
        let challenge = Frame::new(FrameType::Challenge)
            .put(&version.to_le_bytes())
            .put(&[0; 6])
            .put(&caps.to_le_bytes())
            .put(&self.params.incarnation.to_le_bytes())
            .put(&self.nonce);
        let challenge = self.transcript.seal(&key, Label::Responder, challenge);
        let claim =
            Proved { peer, purpose, version, caps, incarnation, dial, session, position, pairs, fresh: 0 };
        self.claim = Some((claim, key));
        self.state = State::Proof;
        Ok(ResponderStep::Challenge(challenge))
    }

    fn proof(&mut self, frame: &Frame) -> Result<ResponderStep, HelloError> {
        let Some((claim, key)) = &mut self.claim else {
            return Err(HelloError::Unexpected { kind: FrameType::Proof });
        };
        if !self.transcript.open(key, Label::Initiator, frame) {
            return Err(HelloError::InitiatorKey { name: claim.peer });
        }
        claim.fresh = self.transcript.session(key);
        self.state = State::Undecided;
        Ok(ResponderStep::Proved(*claim))
    }

    fn ready(&mut self, frame: &Frame) -> Result<ResponderStep, HelloError> {
        let right = self.claim.is_some_and(|(_, key)| self.transcript.open(&key, Label::Ready, frame));
        if !right {
            return Err(HelloError::Tampered { kind: FrameType::Ready });
        }
        self.state = State::Over;
        Ok(ResponderStep::Ready)
    }

    /// ACCEPT, once the initiator has proved itself; then READY is awaited. `None` at any other time.
    /// `position` is how many bytes of the session have been read here, `pairs` the interfaces that are to talk to each other.
    pub fn accept(&mut self, position: u64, pairs: &Pairs) -> Option<Frame> {
        let key = self.undecided()?;
        self.state = State::Accepted;
        let accept = Frame::new(FrameType::Accept).put(&position.to_le_bytes()).put(&pairs.emit());
        Some(self.transcript.seal(&key, Label::Accept, accept))
    }

    /// REJECT, once the initiator has proved itself; then the handshake is over. `None` at any other
    /// time. `pairs` are the interfaces that could talk to each other.
    pub fn reject(&mut self, reason: RejectReason, pairs: &Pairs) -> Option<Frame> {
        let key = self.undecided()?;
        self.state = State::Over;
        let reject =
            Frame::new(FrameType::Reject).put(&[reason.to_wire(), 1]).put(&[0; 6]).put(&pairs.emit());
        Some(self.transcript.seal(&key, Label::Reject, reject))
    }

    fn undecided(&self) -> Option<JobKey> {
        self.claim.filter(|_| self.state == State::Undecided).map(|(_, key)| key)
    }

    /// Who is at the other end, as far as is proved.
    pub fn sender(&self) -> Sender {
        if self.transcript.proofs() > 0 { Sender::Peer } else { Sender::Stranger }
    }
}

/// A REJECT for somebody who has not proved to know the key. It carries no MAC, and its receiver
/// takes it as hearsay.
pub fn reject_stranger(reason: RejectReason) -> Frame {
    Frame::new(FrameType::Reject)
        .put(&[reason.to_wire(), 0])
        .put(&[0; 6])
        .put(&Pairs::default().emit())
        .put(&[0; MAC_LEN])
}
