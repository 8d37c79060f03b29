//! Connections outside the message stream: accepting, the hello, the last words.

use std::os::fd::AsRawFd;

use netmod_connection::{
    HelloError, Initiator, InitiatorStep, Purpose, READY_LEN, RejectReason, Responder, ResponderParams,
    ResponderStep, Sender, Versions, reject_stranger,
};
use netmod_core::{Core, Event, Events, Time, VcId};
use socket2::{SockRef, Socket};

use crate::alive;
use crate::conn::{self, Conn, ConnId, Stage};
use crate::link::{Failure, Hail, LinkEvent};
use crate::netmod::TcpNetmod;
use crate::pairs::{self, PAIRS_LEN, Pairs};
use crate::rail::RailEnd;
use crate::sys::{self, Interest};

/// Bytes of a handshake read at once.
const PIECE: usize = 512;
/// Connections whose peers have proved nothing take at most so large a part of the descriptors that the process may have, and leave at
/// least this part, and at most this number, to the program.
const UNPROVED_SHARE: usize = 4;
const RESERVE_SHARE: usize = 4;
const RESERVE: usize = 64;
/// How long last words may take to be read.
const LINGER: std::time::Duration = std::time::Duration::from_secs(1);
/// The capability of sessions that outlive their connections.
pub(crate) const RESUME: u64 = 1;
/// The capability, and wish, of records with checksums.
pub(crate) const CHECKSUM: u64 = 2;

/// Random bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut n = [0; N];
    getrandom::fill(&mut n).map_err(|e| std::io::Error::other(format!("no random numbers: {e}")))?;
    Ok(n)
}

/// What a link is told of a system call that failed.
pub(crate) fn failure(e: &std::io::Error) -> Failure {
    e.raw_os_error().map_or(Failure::Protocol, Failure::Errno)
}

/// What every connection wants of its socket.
pub(crate) fn prepare(socket: &Socket, detect: std::time::Duration) -> std::io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    if detect.is_zero() {
        return Ok(());
    }
    alive::keep_alive(socket, detect)
}

impl TcpNetmod {
    /// The capabilities of this side.
    pub(crate) fn caps(&self) -> u64 {
        let resume = if self.cfg.resume_timeout.is_zero() { 0 } else { RESUME };
        resume | if self.cfg.checksum { CHECKSUM } else { 0 }
    }

    /// Puts a connection into the slab and into epoll.
    pub(crate) fn enroll(&mut self, conn: Conn, interest: Interest) -> std::io::Result<ConnId> {
        let fd = conn.fd();
        let id = self.conns.insert(conn);
        if let Err(e) = self.epoll.add(fd, id.to_wire(), interest) {
            self.conns.remove(id);
            return Err(e);
        }
        if let Some(c) = self.conns.get_mut(id) {
            c.interest = interest;
            c.in_epoll = true;
        }
        Ok(id)
    }

    /// Sets what epoll watches on a connection.
    pub(crate) fn watch(&mut self, id: ConnId, interest: Interest) {
        let Some(c) = self.conns.get_mut(id) else { return };
        if c.interest == interest {
            return;
        }
        c.interest = interest;
        if !c.in_epoll {
            if interest != Interest::READ {
                self.rejoin_epoll(id);
            }
            return;
        }
        let fd = c.fd();
        if let Err(e) = self.epoll.modify(fd, id.to_wire(), interest) {
            tracing::error!(%e, "epoll does not know a connection that is open");
        }
    }

    /// Has epoll say when the connection takes bytes again, besides what it says anyhow.
    pub(crate) fn watch_for_room(&mut self, id: ConnId) {
        let deaf = self.conns.get(id).is_some_and(|c| c.deaf);
        self.watch(id, if deaf { Interest::WRITE } else { Interest::BOTH });
    }

    /// Has epoll say when the connection brings something.
    pub(crate) fn watch_for_input(&mut self, id: ConnId) {
        let deaf = self.conns.get(id).is_some_and(|c| c.deaf);
        self.watch(id, if deaf { Interest::NONE } else { Interest::READ });
    }

    /// Closes a connection. Its link knows, or is told by the caller.
    pub(crate) fn close(&mut self, id: ConnId) {
        let Some(c) = self.conns.remove(id) else { return };
        self.hot.forget(id);
        match c.stage {
            Stage::Lingering { stranger, .. } => {
                self.lingering.retain(|l| *l != id);
                if stranger {
                    self.refused.retain(|l| *l != id);
                }
            }
            Stage::Proved(_, peer) => self.unclaimed.retain(|u| *u != (peer, id)),
            Stage::Connecting
            | Stage::Dial(_)
            | Stage::Stranger(_)
            | Stage::Open { .. }
            | Stage::RailIn(_)
            | Stage::RailOut => {}
        }
        let open = matches!(c.stage, Stage::Open { .. });
        if let Some(v) = c.vc.and_then(|vc| self.vcs.get_mut(vc)) {
            if open {
                v.rx = c.rx;
            }
            if v.fd == c.socket.as_raw_fd() {
                v.fd = -1;
                v.blocked = false;
            }
        }
    }

    /// An incoming connection: whoever it is has a limited time to prove it.
    pub(crate) fn stranger(&mut self, socket: Socket, now: Time) -> std::io::Result<()> {
        prepare(&socket, self.cfg.detect)?;
        self.make_room_for(socket.as_raw_fd());
        let params = ResponderParams {
            me: self.id.me(),
            versions: Versions::OURS,
            caps: self.caps(),
            incarnation: self.id.incarnation(),
        };
        let responder = Box::new(Responder::new(params, random()?));
        let id = self.enroll(Conn::new(socket, Stage::Stranger(responder), None), Interest::READ)?;
        let until = now + self.link_cfg.handshake_timeout;
        self.strangers.push_back((until, id));
        self.next_timer = self.next_timer.min(until);
        Ok(())
    }

    /// Makes room for an incoming connection with this descriptor. Those whose peers have proved nothing are bounded together, and when few
    /// descriptors are left to the program the oldest of them goes: a new descriptor is the lowest that is free.
    fn make_room_for(&mut self, fd: i32) {
        let limit = usize::try_from(sys::descriptor_limit()).unwrap_or(usize::MAX);
        let most = self.cfg.hello_max.min(limit / UNPROVED_SHARE).max(1);
        let scarce = usize::try_from(fd).is_ok_and(|fd| fd >= limit - (limit / RESERVE_SHARE).min(RESERVE));
        if scarce || self.refused.len() + self.strangers.len() >= most {
            // Those who have proved themselves since are strangers no more.
            let conns = &self.conns;
            self.strangers
                .retain(|(_, id)| conns.get(*id).is_some_and(|c| matches!(c.stage, Stage::Stranger(_))));
        }
        if scarce {
            self.evict_stranger();
        }
        while self.refused.len() + self.strangers.len() >= most && self.evict_stranger() {}
    }

    /// Closes the oldest connection that lingers for the sake of a refused stranger, or else the stranger that has had most time. False if
    /// there is none.
    fn evict_stranger(&mut self) -> bool {
        if let Some(id) = self.refused.pop_front() {
            self.close(id);
            return true;
        }
        let Some((_, id)) = self.strangers.pop_front() else { return false };
        self.silent(id);
        true
    }

    /// A stranger has used up its time.
    fn silent(&mut self, id: ConnId) {
        if self.conns.get(id).is_some_and(|c| matches!(c.stage, Stage::Stranger(_))) {
            self.stats.strangers += 1;
            self.stats.silent += 1;
            self.close(id);
        }
    }

    pub(crate) fn expire_strangers(&mut self, now: Time) {
        while let Some(&(until, id)) = self.strangers.front() {
            let waiting = self.conns.get(id).is_some_and(|c| matches!(c.stage, Stage::Stranger(_)));
            if waiting && until > now {
                self.next_timer = self.next_timer.min(until);
                break;
            }
            self.strangers.pop_front();
            self.silent(id);
        }
    }

    pub(crate) fn expire_lingering(&mut self, now: Time) {
        let due: Vec<ConnId> = self
            .lingering
            .iter()
            .copied()
            .filter(|id| match self.conns.get(*id).map(|c| &c.stage) {
                Some(Stage::Lingering { until, .. }) => {
                    self.next_timer = self.next_timer.min(*until);
                    *until <= now
                }
                _ => true,
            })
            .collect();
        for id in due {
            self.close(id);
        }
    }

    /// A connection with no use any more says its last words, and is closed when they were read.
    pub(crate) fn linger(&mut self, id: ConnId, words: &[u8]) {
        let Some(c) = self.conns.get_mut(id) else { return };
        if let Stage::Proved(_, peer) = &c.stage {
            let peer = *peer;
            self.unclaimed.retain(|u| *u != (peer, id));
        }
        let until = self.now + LINGER;
        let stranger = matches!(c.stage, Stage::Stranger(_));
        c.stage = Stage::Lingering { until, shut: false, stranger };
        if stranger {
            self.strangers.retain(|(_, s)| *s != id);
            self.refused.push_back(id);
        }
        c.deaf = false;
        if let Some(v) = c.vc.take().and_then(|vc| self.vcs.get_mut(vc))
            && v.fd == c.socket.as_raw_fd()
        {
            v.fd = -1;
            v.blocked = false;
        }
        self.hot.forget(id);
        self.rejoin_epoll(id);
        self.watch(id, Interest::READ);
        self.lingering.push(id);
        self.next_timer = self.next_timer.min(until);
        self.write_out(id, words);
    }

    /// Writes handshake or farewell bytes; what the kernel does not take waits in `out`.
    pub(crate) fn write_out(&mut self, id: ConnId, bytes: &[u8]) {
        let Some(c) = self.conns.get_mut(id) else { return };
        c.out.extend_from_slice(bytes);
        // A failed write shows as end of file or error at the next read.
        if let Ok(Some(n)) = sys::send(c.fd(), &c.out) {
            c.out.drain(..n);
        }
        if !c.out.is_empty() {
            return self.watch_for_room(id);
        }
        let shut_now = match &mut c.stage {
            Stage::Open { parting: true } => true,
            Stage::Lingering { shut, .. } => !std::mem::replace(shut, true),
            _ => false,
        };
        if shut_now {
            // A peer that has reset the connection has no half to be shut any more.
            let _ = SockRef::from(&c.socket).shutdown(std::net::Shutdown::Write);
        }
    }

    /// Sends ACCEPT on a proved connection.
    pub(crate) fn accept(&mut self, vc: VcId, id: ConnId) {
        let Some(v) = self.vcs.get_mut(vc) else { return };
        if let Some(Conn { stage: Stage::Proved(r, _), hail, proposed, .. }) = self.conns.get_mut(id) {
            // Judged when it came.
            let agreed = proposed.take();
            let pairs = agreed.as_deref().copied().unwrap_or_default();
            let frame = r.accept(self.stats.dialled, v.position(hail.session), &pairs.terms());
            v.agree(&pairs, self.cfg.rails);
            if let Some(frame) = frame {
                self.pin(id);
                self.write_out(id, frame.as_bytes());
            }
        }
    }

    /// Sends READY on a dial that was accepted.
    pub(crate) fn ready(&mut self, id: ConnId) {
        if let Some(Conn { stage: Stage::Dial(i), .. }) = self.conns.get_mut(id)
            && let Some(frame) = i.ready()
        {
            self.write_out(id, frame.as_bytes());
        }
    }

    /// A proved connection and its VC have found each other.
    pub(crate) fn incoming(&mut self, core: &mut Core, vc: VcId, id: ConnId) {
        if self.first_use(core, vc).is_err() {
            return self.reject(id, RejectReason::Finalized);
        }
        if let Err((reason, pairs)) = self.judge_incoming(vc, id) {
            return self.reject_with(id, reason, &pairs);
        }
        if let Some(c) = self.conns.get_mut(id) {
            c.vc = Some(vc);
            let hail = c.hail;
            self.link_event(core, vc, LinkEvent::Incoming { conn: conn::key(id), hail });
        }
    }

    /// The connection is ready for writing, or has an error, while it is not yet or no longer open.
    pub(crate) fn handshake_writable(&mut self, core: &mut Core, id: ConnId) {
        let Some(c) = self.conns.get(id) else { return };
        if matches!(c.stage, Stage::Connecting) {
            return self.connected(core, id);
        }
        self.write_out(id, &[]);
        if self.conns.get(id).is_some_and(|c| c.out.is_empty()) {
            self.watch(id, Interest::READ);
        }
    }

    /// Bytes, or the end, of a connection whose stream is not (or no longer) messages.
    pub(crate) fn handshake_readable(&mut self, core: &mut Core, id: ConnId, events: &mut Events) {
        let mut piece = [0; PIECE];
        let Some(c) = self.conns.get(id) else { return };
        // Chunks may follow a rail's READY, and are read otherwise.
        let most = if c.rail == Some(RailEnd::In) { READY_LEN.saturating_sub(c.rx as usize) } else { PIECE };
        let n = match sys::recv(c.fd(), &mut piece[..most.min(PIECE)]) {
            Ok(None) => return,
            Ok(Some(0)) => return self.handshake_ended(core, id, Failure::Eof),
            Ok(Some(n)) => n,
            Err(e) => return self.handshake_ended(core, id, failure(&e)),
        };
        self.stats.rx_calls += 1;
        if let Some(c) = self.conns.get_mut(id).filter(|c| c.rail.is_some()) {
            c.rx += n as u64;
        }
        let mut rest = &piece[..n];
        while !rest.is_empty() {
            let Some(c) = self.conns.get_mut(id) else { return };
            let used = match &mut c.stage {
                Stage::Lingering { .. } | Stage::Connecting => return,
                Stage::RailIn(_) => return,
                // An acknowledgement of nothing.
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
                Stage::Stranger(r) | Stage::Proved(r, _) => {
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

    /// Message bytes that came in the same read as the last of the handshake.
    fn leftover(&mut self, core: &mut Core, id: ConnId, bytes: &[u8], events: &mut Events) {
        let Some(vc) = self.conns.get(id).and_then(|c| c.vc) else { return };
        while let Some(ev) = self.events.pop_front() {
            events.push(ev);
        }
        if self.sealed_leftover(core, id, bytes, events) {
            return;
        }
        match self.arena.copy_in(bytes) {
            Some(buf) => {
                events.push(Event::Rx { vc, buf });
                if let Some(c) = self.conns.get_mut(id) {
                    c.rx += bytes.len() as u64;
                    self.owes(vc, id);
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

    /// How many bytes were used; `None` if nothing more can come of this connection.
    fn dial_step(
        &mut self,
        core: &mut Core,
        id: ConnId,
        step: Result<(usize, InitiatorStep, Pairs), HelloError>,
    ) -> Option<usize> {
        let c = self.conns.get(id)?;
        if c.rail.is_some() {
            return self.rail_dial_step(id, step.map(|(used, step, _)| (used, step)));
        }
        let (vc, conn, moves) = (c.vc?, conn::key(id), c.moves);
        match step {
            Ok((used, InitiatorStep::NeedMore, _)) => (used > 0).then_some(used),
            Ok((used, InitiatorStep::Prove(proof), _)) => {
                self.write_out(id, proof.as_bytes());
                Some(used)
            }
            Ok((
                used,
                InitiatorStep::Accepted { caps, incarnation, dials, session, position, .. },
                pairs,
            )) => {
                // A session that was asked for goes on: it began for a checkpoint.
                let goes_on = self.vcs.get(vc).is_some_and(|v| v.link.session() == session);
                if let Some(c) = self.conns.get_mut(id) {
                    c.session_name = session;
                    c.sealed = caps & CHECKSUM != 0;
                    c.peer_position = position;
                }
                if let Some(v) = self.vcs.get_mut(vc) {
                    v.agree(&pairs, self.cfg.rails);
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
                    && let Some(v) = self.vcs.get_mut(vc)
                {
                    // There is nothing wrong with the way.
                    v.dials = v.dials.saturating_sub(1);
                }
                // Hearsay may be wrong, so it is never final: another attempt may meet the right process.
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
                    HelloError::ResponderKey { .. } => Failure::WrongKey,
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
        step: Result<(usize, ResponderStep, Pairs), HelloError>,
    ) -> Option<usize> {
        let Conn { vc, rail, .. } = self.conns.get(id)?;
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
                self.write_out(id, frame.as_bytes());
                Some(used)
            }
            Ok((used, ResponderStep::Proved(p), pairs)) => {
                let claim = p.claim;
                if let Some(c) = self.conns.get_mut(id) {
                    let fresh = if p.caps & RESUME == 0 { 0 } else { p.fresh };
                    c.hail = Hail {
                        session: claim.session,
                        fresh,
                        incarnation: claim.incarnation,
                        dial: claim.dial,
                    };
                    c.session_name = p.fresh;
                    c.sealed = p.caps & CHECKSUM != 0;
                    c.peer_position = claim.position;
                    c.moves = pairs.offer;
                    c.proposed = (!pairs.as_slice().is_empty()).then(|| Box::new(pairs));
                }
                self.proved(core, id, claim.peer, claim.purpose);
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
                self.bad_hello(core, id, vc, &e);
                None
            }
        }
    }

    /// A peer has proved who it is.
    fn proved(&mut self, core: &mut Core, id: ConnId, peer: netmod_core::PeerName, purpose: Purpose) {
        let Some(c) = self.conns.get_mut(id) else { return };
        let stage = std::mem::replace(&mut c.stage, Stage::Connecting);
        let Stage::Stranger(r) = stage else {
            c.stage = stage;
            return;
        };
        c.stage = Stage::Proved(r, peer);
        if let Purpose::Rail { .. } = purpose {
            return self.rail_offered(id, peer);
        }
        match self.by_peer.get(&peer) {
            Some(vc) => self.incoming(core, vc, id),
            None => {
                self.unclaimed.push((peer, id));
                self.events.push_back(match purpose {
                    Purpose::Vc | Purpose::Rail { .. } => Event::NewPeer { peer, netmod: 0 },
                    Purpose::Root { port } => Event::PortPeer { peer, port, netmod: 0 },
                });
            }
        }
    }

    /// The handshake of an incoming connection has failed.
    fn bad_hello(&mut self, core: &mut Core, id: ConnId, vc: Option<VcId>, e: &HelloError) {
        let Some(c) = self.conns.get(id) else { return };
        let from = c.socket.peer_addr().ok().and_then(|a| a.as_socket());
        let proved = match &c.stage {
            Stage::Stranger(r) | Stage::Proved(r, _) => r.sender() == Sender::Peer,
            _ => false,
        };
        if proved {
            tracing::warn!(?from, %e, "handshake of an incoming connection");
            self.stats.refused += 1;
        } else {
            self.stats.strangers += 1;
            // The first few are of interest; a scanner must not fill the log.
            if self.stats.strangers <= 8 {
                tracing::info!(?from, %e, "refused a stranger");
            }
        }
        if self.rail_ended(id, Failure::Protocol) {
            return;
        }
        match e.reject_reason() {
            Some(reason) if !proved => {
                let words = reject_stranger(reason, PAIRS_LEN);
                self.linger(id, words.as_bytes());
            }
            _ => self.close(id),
        }
        if let Some(vc) = vc {
            self.link_event(core, vc, LinkEvent::Lost { conn: conn::key(id), failure: Failure::Protocol });
        }
    }

    /// End of file or an error outside the message stream.
    pub(crate) fn handshake_ended(&mut self, core: &mut Core, id: ConnId, failure: Failure) {
        if self.rail_ended(id, failure) {
            return;
        }
        let Some(c) = self.conns.get(id) else { return };
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
            Stage::Stranger(_) => {
                self.stats.strangers += 1;
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
