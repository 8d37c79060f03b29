//! Connections outside the message stream: accepting, the handshake, last words.

use netmod_connection::{
    HandshakeError, Initiator, InitiatorStep, Purpose, READY_LEN, RejectReason, Responder, ResponderParams,
    ResponderStep, Sender, Versions, reject_unauthenticated,
};
use netmod_core::{Core, Event, Events, VcId};
use socket2::Socket;

use super::TcpNetmod;
use crate::conn::{self, Conn, ConnId, RailEnd, Stage};
use crate::link::{Failure, HandshakeParams, LinkEvent};
use crate::pairs::{self, PAIRS_LEN, Pairs};
use crate::sys::{self, Interest};

/// Connections accepted in one poll.
const ACCEPTS: usize = 16;
/// Bytes of a handshake read at once.
const PIECE: usize = 512;
/// The capability of sessions that outlive their connections.
pub(crate) const RESUME: u64 = 1;
/// Returns the failure that a link is told of for a failed system call.
pub(crate) fn failure(e: &std::io::Error) -> Failure {
    e.raw_os_error().map_or(Failure::Protocol, Failure::Errno)
}

impl TcpNetmod {
    /// Closes a connection. Its link knows, or is told by the caller.
    pub(crate) fn close(&mut self, id: ConnId) {
        let Some(c) = self.sockets.remove(id) else { return };
        match &c.stage {
            Stage::Proved(_, peer) => self.sessions.disclaim(peer, id),
            Stage::Open { .. } => {
                if let Some(v) = c.vc.and_then(|vc| self.sessions.vcs.get_mut(vc)) {
                    v.session.rx = c.rx.position;
                }
            }
            Stage::Connecting
            | Stage::Dial(_)
            | Stage::Unauthenticated(_)
            | Stage::RailIn(_)
            | Stage::RailOut
            | Stage::Lingering { .. } => {}
        }
        self.sessions.detach(&c);
    }

    /// Takes connections from the listener; each peer has a limited time to prove its name.
    pub(crate) fn accept_some(&mut self) {
        for _ in 0..ACCEPTS {
            let Some(socket) = self.sockets.accept(&mut self.clock, &mut self.stats) else { return };
            if let Err(e) = self.take_in(socket) {
                tracing::debug!(%e, "incoming connection");
            }
        }
    }

    fn take_in(&mut self, socket: Socket) -> std::io::Result<()> {
        let caps = self.caps(&socket);
        let params = ResponderParams {
            me: self.id.me(),
            versions: Versions::OURS,
            caps,
            incarnation: self.id.incarnation(),
        };
        let responder = Box::new(Responder::new(params, TcpNetmod::nonce(caps)?));
        let until = self.clock.now + self.link_cfg.handshake_timeout;
        self.sockets.take_in(&mut self.clock, &mut self.stats, socket, responder, until)
    }

    /// Says last words on a connection without further use; it is closed when they were read.
    pub(crate) fn linger(&mut self, id: ConnId, words: &[u8]) {
        let Some(c) = self.sockets.conns.get(id) else { return };
        if let Stage::Proved(_, peer) = &c.stage {
            self.sessions.disclaim(peer, id);
        }
        self.sessions.detach(c);
        self.sockets.linger(&mut self.clock, id, words);
    }

    /// Sends ACCEPT on a proved connection.
    pub(crate) fn accept(&mut self, vc: VcId, id: ConnId) {
        let Some(v) = self.sessions.vcs.get_mut(vc) else { return };
        if let Some(Conn { stage: Stage::Proved(r, _), handshake, .. }) = self.sockets.conns.get_mut(id) {
            // The pairs were judged when the connection came.
            let agreed = handshake.proposed.take();
            let pairs = agreed.as_deref().copied().unwrap_or_default();
            let frame =
                r.accept(self.stats.dialled, v.session.position(handshake.params.session), &pairs.terms());
            v.routes.agree(v.peer, &pairs, self.cfg.rails);
            if let Some(frame) = frame {
                self.pin(id);
                self.sockets.write_out(id, frame.as_bytes());
            }
        }
    }

    /// Sends READY on a dial that was accepted.
    pub(crate) fn ready(&mut self, id: ConnId) {
        if let Some(Conn { stage: Stage::Dial(i), .. }) = self.sockets.conns.get_mut(id)
            && let Some(frame) = i.ready()
        {
            self.sockets.write_out(id, frame.as_bytes());
        }
    }

    /// Gives an authenticated connection to its VC.
    pub(crate) fn incoming(&mut self, core: &mut Core, vc: VcId, id: ConnId) {
        if self.first_use(core, vc).is_err() {
            return self.reject(id, RejectReason::Finalized);
        }
        if let Err((reason, pairs)) = self.judge_incoming(vc, id) {
            return self.reject_with(id, reason, &pairs);
        }
        if let Some(c) = self.sockets.conns.get_mut(id) {
            c.vc = Some(vc);
            let params = c.handshake.params;
            self.link_event(core, vc, LinkEvent::Incoming { conn: conn::key(id), params });
        }
    }

    /// Goes on with a connection outside the message stream that takes bytes, or has an error.
    pub(crate) fn handshake_writable(&mut self, core: &mut Core, id: ConnId) {
        let Some(c) = self.sockets.conns.get(id) else { return };
        if matches!(c.stage, Stage::Connecting) {
            return self.connected(core, id);
        }
        self.sockets.write_out(id, &[]);
        if self.sockets.conns.get(id).is_some_and(|c| c.out.is_empty()) {
            self.sockets.watch(id, Interest::READ);
        }
    }

    /// Reads bytes, or the end, of a connection outside the message stream.
    pub(crate) fn handshake_readable(&mut self, core: &mut Core, id: ConnId, events: &mut Events) {
        let mut piece = [0; PIECE];
        let Some(c) = self.sockets.conns.get(id) else { return };
        // Chunks may follow a rail's READY, and are read otherwise.
        let most = if c.rail == Some(RailEnd::In) {
            READY_LEN.saturating_sub(c.rx.position as usize)
        } else {
            PIECE
        };
        let n = match sys::recv(c.fd(), &mut piece[..most.min(PIECE)]) {
            Ok(None) => return,
            Ok(Some(0)) => return self.handshake_ended(core, id, Failure::Eof),
            Ok(Some(n)) => n,
            Err(e) => return self.handshake_ended(core, id, failure(&e)),
        };
        self.stats.rx_calls += 1;
        if let Some(c) = self.sockets.conns.get_mut(id).filter(|c| c.rail.is_some()) {
            c.rx.position += n as u64;
        }
        let mut rest = &piece[..n];
        while !rest.is_empty() {
            let Some(c) = self.sockets.conns.get_mut(id) else { return };
            let used = match &mut c.stage {
                Stage::Lingering { .. } | Stage::Connecting => return,
                Stage::RailIn(_) => return,
                // It acknowledges nothing that was sent.
                Stage::RailOut => {
                    self.rail_ended(id, Failure::Protocol);
                    return;
                }
                Stage::Open { .. } => return self.leftover(core, id, rest, events),
                Stage::Dial(i) => {
                    let step = i.on_bytes(rest).and_then(|(used, step)| {
                        let pairs = pairs::answered(&step)?;
                        Ok((used, step, pairs))
                    });
                    self.dial_step(core, id, step)
                }
                Stage::Unauthenticated(r) | Stage::Proved(r, _) => {
                    let step = r.on_bytes(rest, &self.id).and_then(|(used, step)| {
                        let pairs = pairs::proposed(r)?;
                        Ok((used, step, pairs))
                    });
                    if let Ok((used, ResponderStep::Proved(_), _)) = &step
                        && rest[*used..].starts_with(Initiator::goodbye().as_bytes())
                    {
                        // It was given up before it is taken: what it would replace is whole, or
                        // dialled again.
                        tracing::debug!(
                            "a connection that its dialler had given up before this process took it"
                        );
                        return self.close(id);
                    }
                    self.accept_step(core, id, step)
                }
            };
            match used {
                Some(n) => rest = &rest[n..],
                None => return,
            }
        }
    }

    /// Hands on message bytes that came in the same read as the last of the handshake.
    fn leftover(&mut self, core: &mut Core, id: ConnId, bytes: &[u8], events: &mut Events) {
        let Some(vc) = self.sockets.conns.get(id).and_then(|c| c.vc) else { return };
        while let Some(ev) = self.events.pop_front() {
            events.push(ev);
        }
        if self.sealed_leftover(core, id, bytes, events) {
            return;
        }
        match self.sockets.arena.copy_in(bytes) {
            Some(buf) => {
                events.push(Event::Rx { vc, buf });
                if let Some(c) = self.sockets.conns.get_mut(id) {
                    c.rx.position += bytes.len() as u64;
                    self.sessions.owes(&mut self.sockets, &mut self.stats, vc, id);
                }
            }
            None => {
                let e = netmod_core::VcError::new(
                    netmod_core::VcErrorKind::Resource,
                    None,
                    "the receive buffer is too small for a handshake; raise NETMOD_TCP_RX_BUFFER",
                );
                netmod_core::VcLife::vc_abort(self, core, vc, e);
            }
        }
    }

    /// Takes a step of a dial. Returns the bytes that were used, or `None` if the connection is of
    /// no further use.
    fn dial_step(
        &mut self,
        core: &mut Core,
        id: ConnId,
        step: Result<(usize, InitiatorStep, Pairs), HandshakeError>,
    ) -> Option<usize> {
        let c = self.sockets.conns.get(id)?;
        if c.rail.is_some() {
            return self.rail_dial_step(id, step.map(|(used, step, _)| (used, step)));
        }
        let (vc, conn, moves) = (c.vc?, conn::key(id), c.moves);
        match step {
            Ok((used, InitiatorStep::NeedMore, _)) => (used > 0).then_some(used),
            Ok((used, InitiatorStep::Prove(proof), _)) => {
                self.sockets.write_out(id, proof.as_bytes());
                Some(used)
            }
            Ok((
                used,
                InitiatorStep::Accepted { caps, incarnation, dials, session, position, .. },
                pairs,
            )) => {
                let seals = match self.dial_seals(id, caps) {
                    Ok(seals) => seals,
                    Err(reason) => {
                        self.close(id);
                        let failure = Failure::Rejected(reason);
                        self.link_event(core, vc, LinkEvent::DialFailed { conn, failure, permanent: true });
                        return None;
                    }
                };
                // A session that was asked for goes on: it began for a checkpoint.
                let goes_on = self.sessions.vcs.get(vc).is_some_and(|v| v.link.session() == session);
                if let Some(c) = self.sockets.conns.get_mut(id) {
                    c.handshake.session_name = session;
                    c.handshake.seals = seals;
                    c.handshake.peer_position = position;
                }
                if let Some(v) = self.sessions.vcs.get_mut(vc) {
                    v.routes.agree(v.peer, &pairs, self.cfg.rails);
                }
                let session = if caps & RESUME == 0 && !goes_on { 0 } else { session };
                self.link_event(core, vc, LinkEvent::Accepted { conn, session, incarnation, dials });
                Some(used)
            }
            Ok((_, InitiatorStep::Rejected { reason, proved, .. }, pairs)) => {
                if matches!(reason, RejectReason::NoWayBack | RejectReason::OtherPair) && proved && !moves {
                    self.other_pair(vc, reason, &pairs);
                }
                if proved
                    && !moves
                    && reason.is_transient()
                    && !matches!(reason, RejectReason::NoWayBack | RejectReason::OtherPair)
                    && let Some(v) = self.sessions.vcs.get_mut(vc)
                {
                    // There is nothing wrong with the route.
                    v.routes.dials = v.routes.dials.saturating_sub(1);
                }
                // An unproved REJECT may be wrong, so it is never final: another attempt may meet
                // the right process.
                let event = if proved || reason.is_transient() {
                    LinkEvent::Rejected { conn, reason }
                } else {
                    LinkEvent::DialFailed { conn, failure: Failure::Rejected(reason), permanent: false }
                };
                if matches!(event, LinkEvent::DialFailed { .. }) {
                    self.close(id);
                }
                self.link_event(core, vc, event);
                None
            }
            Err(e) => {
                tracing::warn!(%e, "handshake of a dial");
                self.close(id);
                let failure = match e {
                    HandshakeError::ResponderKey { .. } => Failure::WrongKey,
                    _ => Failure::Protocol,
                };
                self.link_event(core, vc, LinkEvent::DialFailed { conn, failure, permanent: false });
                None
            }
        }
    }

    fn accept_step(
        &mut self,
        core: &mut Core,
        id: ConnId,
        step: Result<(usize, ResponderStep, Pairs), HandshakeError>,
    ) -> Option<usize> {
        let Conn { vc, rail, .. } = self.sockets.conns.get(id)?;
        let (vc, is_rail, conn) = (*vc, rail.is_some(), conn::key(id));
        match step {
            Ok((used, ResponderStep::Ready, _)) if is_rail => {
                self.rail_ready(id);
                Some(used)
            }
            Ok((_, ResponderStep::Goodbye, _)) if is_rail => {
                self.rail_ended(id, Failure::Goodbye);
                None
            }
            Ok((used, ResponderStep::NeedMore, _)) => (used > 0).then_some(used),
            Ok((used, ResponderStep::Challenge(frame), _)) => {
                self.sockets.write_out(id, frame.as_bytes());
                Some(used)
            }
            Ok((used, ResponderStep::Proved(p), pairs)) => {
                let claim = p.claim;
                let mut seals = self.incoming_seals(id, claim.offers, p.caps);
                if let Some(c) = self.sockets.conns.get_mut(id) {
                    let fresh = if p.caps & RESUME == 0 { 0 } else { p.fresh };
                    c.handshake.params = HandshakeParams {
                        session: claim.session,
                        fresh,
                        incarnation: claim.incarnation,
                        dial: claim.dial,
                    };
                    c.handshake.session_name = p.fresh;
                    c.handshake.seals = seals.as_mut().ok().and_then(Option::take);
                    c.handshake.peer_position = claim.position;
                    c.moves = pairs.offer;
                    c.handshake.proposed = (!pairs.as_slice().is_empty()).then(|| Box::new(pairs));
                }
                self.proved(core, id, claim.peer, claim.purpose, seals.err());
                Some(used)
            }
            Ok((used, ResponderStep::Ready, _)) => {
                self.link_event(core, vc?, LinkEvent::Ready { conn });
                Some(used)
            }
            Ok((_, ResponderStep::Goodbye, _)) => {
                self.close(id);
                if let Some(vc) = vc {
                    self.link_event(core, vc, LinkEvent::Lost { conn, failure: Failure::Goodbye });
                }
                None
            }
            Err(e) => {
                self.handshake_failed(core, id, vc, &e);
                None
            }
        }
    }

    /// Takes note that a peer has proved its name. It is refused if there is a reason.
    fn proved(
        &mut self,
        core: &mut Core,
        id: ConnId,
        peer: netmod_core::PeerName,
        purpose: Purpose,
        refused: Option<RejectReason>,
    ) {
        let Some(c) = self.sockets.conns.get_mut(id) else { return };
        let stage = std::mem::replace(&mut c.stage, Stage::Connecting);
        let Stage::Unauthenticated(r) = stage else {
            c.stage = stage;
            return;
        };
        c.stage = Stage::Proved(r, peer);
        if let Some(reason) = refused {
            return self.reject(id, reason);
        }
        if let Purpose::Rail { .. } = purpose {
            return self.rail_offered(id, peer);
        }
        match self.sessions.peers.get(&peer) {
            Some(vc) => self.incoming(core, vc, id),
            None => {
                self.sessions.unclaimed.push((peer, id));
                self.events.push_back(match purpose {
                    Purpose::Vc | Purpose::Rail { .. } => Event::NewPeer { peer, netmod: 0 },
                    Purpose::Root { port } => Event::PortPeer { peer, port, netmod: 0 },
                });
            }
        }
    }

    /// Refuses an incoming connection whose handshake has failed.
    fn handshake_failed(&mut self, core: &mut Core, id: ConnId, vc: Option<VcId>, e: &HandshakeError) {
        let Some(c) = self.sockets.conns.get(id) else { return };
        let from = c.socket.peer_addr().ok().and_then(|a| a.as_socket());
        let proved = match &c.stage {
            Stage::Unauthenticated(r) | Stage::Proved(r, _) => r.sender() == Sender::Peer,
            _ => false,
        };
        if proved {
            tracing::warn!(?from, %e, "handshake of an incoming connection");
            self.stats.refused += 1;
        } else {
            self.stats.unauthenticated += 1;
            // The first few are of interest; a scanner must not fill the log.
            if self.stats.unauthenticated <= 8 {
                tracing::info!(?from, %e, "refused an unauthenticated peer");
            }
        }
        if self.rail_ended(id, Failure::Protocol) {
            return;
        }
        match e.reject_reason() {
            Some(reason) if !proved => {
                let words = reject_unauthenticated(reason, PAIRS_LEN);
                self.linger(id, words.as_bytes());
            }
            _ => self.close(id),
        }
        if let Some(vc) = vc {
            self.link_event(core, vc, LinkEvent::Lost { conn: conn::key(id), failure: Failure::Protocol });
        }
    }

    /// Ends a connection outside the message stream, after the end of file or an error.
    pub(crate) fn handshake_ended(&mut self, core: &mut Core, id: ConnId, failure: Failure) {
        if self.rail_ended(id, failure) {
            return;
        }
        let Some(c) = self.sockets.conns.get(id) else { return };
        let (vc, conn) = (c.vc, conn::key(id));
        if c.moves && matches!(c.stage, Stage::Connecting) {
            self.close(id);
            if let Some(vc) = vc {
                self.move_failed(vc);
            }
            return;
        }
        let event = match c.stage {
            Stage::Connecting | Stage::Dial(_) => {
                Some(LinkEvent::DialFailed { conn, failure, permanent: false })
            }
            Stage::Proved(..) | Stage::Open { .. } => Some(LinkEvent::Lost { conn, failure }),
            Stage::Unauthenticated(_) => {
                self.stats.unauthenticated += 1;
                None
            }
            Stage::Lingering { .. } | Stage::RailIn(_) | Stage::RailOut => None,
        };
        self.close(id);
        if let (Some(vc), Some(event)) = (vc, event) {
            self.link_event(core, vc, event);
        }
    }
}
