//! Rails on which this side sends: dialled, fed with chunks, and dialled again.

use std::time::Duration;

use netmod_connection::InitiatorStep;
use netmod_core::{Core, Event, IoVec, Time, VcError, VcErrorKind, VcId};

use super::{TcpNetmod, VcRails};
use crate::conn::{self, Conn, ConnId, RailEnd, Stage};
use crate::link::Failure;
use crate::pairs::MAX_RAILS;
use crate::rail::share::{Chunk, Ended};
use crate::rail::wire::{ACK, Ack, ChunkHeader, HEADER};
use crate::record::RECORD_MAX;
use crate::route::Route;
use crate::sockets::connect;
use crate::sys::{self, Interest};

/// Bytes that are handed to the kernel in one go; what is left waits for epoll, so that others have
/// their turn.
const BUDGET: usize = 1 << 20;
/// Acknowledgements read at once.
const ACKS: usize = 32;

/// Failed dials of each rail after which another route is tried.
const STUCK: u32 = 4;

/// A rail of this side's.
#[derive(Debug)]
pub(super) struct OutRail {
    route: Route,
    conn: Option<ConnId>,
    /// Time of the next dial.
    pub(super) again: Time,
    until: Time,
    failures: u32,
    last: Failure,
    /// The chunk that is being sent, and how much of its header and data the kernel has.
    chunk: Option<Chunk>,
    header: [u8; HEADER],
    sent: usize,
    /// Part of an acknowledgement.
    ack: [u8; ACK],
    have: usize,
    /// Bytes acknowledged, and chunks that were given back.
    bytes: u64,
    resent: u64,
}

impl OutRail {
    fn new(route: Route) -> OutRail {
        OutRail {
            route,
            conn: None,
            again: Time::ZERO,
            until: Time::NEVER,
            failures: 0,
            last: Failure::None,
            chunk: None,
            header: [0; HEADER],
            sent: 0,
            ack: [0; ACK],
            have: 0,
            bytes: 0,
            resent: 0,
        }
    }

    pub(super) fn conn(&self) -> Option<ConnId> {
        self.conn
    }

    /// Forgets and returns its connection.
    pub(super) fn let_go(&mut self) -> Option<ConnId> {
        (self.chunk, self.sent, self.have, self.until) = (None, 0, 0, Time::NEVER);
        self.conn.take()
    }

    pub(super) fn describe(&self, number: usize, loaded: usize, window: usize) -> String {
        let state = match self.conn {
            Some(_) if self.until == Time::NEVER => "connected".to_string(),
            Some(_) => "dialling".to_string(),
            None if self.last == Failure::None => "not dialled".to_string(),
            None => format!("lost: {}", self.last),
        };
        let from = self.route.via.as_ref().map_or_else(String::new, |v| format!(" ({})", v.from));
        let mut text = format!(", rail {number} to {}{from}: {state}, {} bytes put", self.route, self.bytes);
        if loaded > 0 {
            text += &format!(", {loaded} of at most {window} on their way");
        }
        if self.resent > 0 {
            text += &format!(", {} chunks given to others", self.resent);
        }
        text
    }
}

impl TcpNetmod {
    /// Returns the rails of a VC, made now if there are none.
    pub(super) fn rails_of(&mut self, vc: VcId) -> Option<&mut VcRails> {
        if self.rails.vcs.get(vc).is_none() {
            self.rails.vcs.set(vc, Box::default());
        }
        self.rails.vcs.get_mut(vc).map(|r| &mut **r)
    }

    /// Makes the rails that a VC may have, and dials those that are due.
    pub(super) fn lay_rails(&mut self, vc: VcId) {
        let (routes, port) = self.rail_routes(vc);
        let same = |r: &VcRails| r.out.iter().map(|rail| &rail.route).eq(routes.iter().take(MAX_RAILS));
        let new = match self.rails.vcs.get(vc) {
            // A put that has begun is brought to its end, if need be by the route by which the VC
            // is connected.
            Some(r) if !r.share.is_idle() && (routes.is_empty() || r.makeshift || r.is_stuck()) => {
                let changes = r.share.rails_up() == 0 && (!r.makeshift || r.is_stuck());
                self.route_of_stream(vc).filter(|_| changes).map(|route| (vec![route], true))
            }
            Some(r) if same(r) => None,
            _ => Some((routes.to_vec(), false)),
        };
        if let Some((routes, makeshift)) = new
            && let Some(r) = self.rails_of(vc)
        {
            r.makeshift = makeshift;
            for id in r.relay(routes) {
                self.close(id);
            }
        }
        if self.takes_rails(vc) {
            self.dial_rails(vc, port);
        }
    }

    /// Returns the route by which a VC is connected.
    fn route_of_stream(&self, vc: VcId) -> Option<Route> {
        let v = self.sessions.vcs.get(vc)?;
        let pair = v.link.up().and_then(|c| self.sockets.conns.get(conn::id(c))).map(|c| c.pair);
        let list = v.routes.all.as_ref().map_or(&[][..], |w| &w.paired.list);
        let by_pair = list.iter().find(|w| pair.is_some_and(|p| w.is_between(p)));
        by_pair.or_else(|| v.routes.last_route()).cloned()
    }

    /// Gives up the rails of a VC that go by interfaces which are not usable any more.
    pub(crate) fn leave_lost_rails(&mut self, vc: VcId) {
        let Some(r) = self.rails.vcs.get(vc) else { return };
        let all: Vec<ConnId> = r.out.iter().filter_map(OutRail::conn).chain(r.inc.iter().copied()).collect();
        for id in all {
            let lost = self
                .sockets
                .conns
                .get(id)
                .filter(|c| c.pair != (0, 0) && !self.interfaces.is_usable(c.pair.0));
            if let Some(c) = lost {
                // The bytes in its buffers would never leave.
                if let Err(e) = sys::reset(c.fd()) {
                    tracing::debug!(%e, "a rail by an interface that is down");
                }
                self.rail_ended(id, Failure::Errno(libc::ENETDOWN));
            }
        }
    }

    fn dial_rails(&mut self, vc: VcId, port: u16) {
        let mut i = 0;
        while let Some(rail) = self.rails.vcs.get(vc).and_then(|r| r.out.get(i)) {
            let due = rail.conn.is_none() && rail.again <= self.clock.now;
            if due {
                let route = rail.route.clone();
                self.dial_rail(vc, i, &route, port);
            }
            i += 1;
        }
    }

    fn dial_rail(&mut self, vc: VcId, i: usize, route: &Route, port: u16) {
        self.stats.dialled += 1;
        let dialled = connect(&self.cfg, route, port, true).and_then(|socket| {
            let mut conn = Conn::new(socket, Stage::Connecting, Some(vc));
            conn.handshake.dial = self.stats.dialled;
            conn.rail = Some(RailEnd::Out(i as u8));
            conn.pair = route.pair().unwrap_or_default();
            self.sockets.enroll(conn, Interest::BOTH)
        });
        let until = self.clock.now + self.link_cfg.handshake_timeout;
        let Some(rail) = self.rails.vcs.get_mut(vc).and_then(|r| r.out.get_mut(i)) else { return };
        match dialled {
            Ok(id) => {
                (rail.conn, rail.until) = (Some(id), until);
                self.time_rails(vc);
            }
            Err(e) => {
                tracing::debug!(%route, port, %e, "dial of a rail");
                let failure = e.raw_os_error().map_or(Failure::Protocol, Failure::Errno);
                self.rail_down(vc, i, failure);
            }
        }
    }

    /// Takes a step of a rail's dial. Returns the bytes that were used, or `None` if the connection
    /// is of no further use.
    pub(crate) fn rail_dial_step(
        &mut self,
        id: ConnId,
        step: Result<(usize, InitiatorStep), netmod_connection::HandshakeError>,
    ) -> Option<usize> {
        match step {
            Ok((used, InitiatorStep::NeedMore)) => (used > 0).then_some(used),
            Ok((used, InitiatorStep::Prove(proof))) => {
                self.sockets.write_out(id, proof.as_bytes());
                Some(used)
            }
            Ok((used, InitiatorStep::Accepted { caps, .. })) => {
                match self.dial_seals(id, caps) {
                    Ok(seals) => self.sockets.conns.get_mut(id)?.handshake.seals = seals,
                    Err(reason) => {
                        self.rail_ended(id, Failure::Rejected(reason));
                        return None;
                    }
                }
                self.ready(id);
                self.rail_up(id);
                Some(used)
            }
            Ok((_, InitiatorStep::Rejected { reason, .. })) => {
                self.rail_ended(id, Failure::Rejected(reason));
                None
            }
            Err(e) => {
                tracing::warn!(%e, "handshake of a rail");
                self.rail_ended(id, Failure::Protocol);
                None
            }
        }
    }

    /// Opens a rail that the peer has taken.
    fn rail_up(&mut self, id: ConnId) {
        let Some(Conn { rail: Some(RailEnd::Out(n)), vc: Some(vc), stage, .. }) =
            self.sockets.conns.get_mut(id)
        else {
            return;
        };
        let (i, vc) = (usize::from(*n), *vc);
        *stage = Stage::RailOut;
        self.seal_rail(id);
        if let Some(r) = self.rails.vcs.get_mut(vc)
            && let Some(rail) = r.out.get_mut(i)
        {
            (rail.failures, rail.until, rail.last) = (0, Time::NEVER, Failure::None);
            r.share.up(i);
        }
        self.stats.rails += 1;
        self.sockets.expect_pulse(&mut self.clock);
        self.pump(vc);
    }

    /// Takes note that a rail has lost its connection, or got none. Its chunks go to the others.
    pub(super) fn rail_lost(&mut self, vc: VcId, i: usize, id: ConnId, failure: Failure) {
        let known = self.rails.vcs.get(vc).and_then(|r| r.out.get(i)).is_some_and(|r| r.conn == Some(id));
        if known {
            self.rail_down(vc, i, failure);
            self.pump(vc);
        }
    }

    fn rail_down(&mut self, vc: VcId, i: usize, failure: Failure) {
        let (min, max) = (self.cfg.backoff_min, self.cfg.backoff_max);
        let Some(r) = self.rails.vcs.get_mut(vc) else { return };
        let back = r.share.down(i) as u64;
        let Some(rail) = r.out.get_mut(i) else { return };
        rail.let_go();
        rail.last = failure;
        rail.resent += back;
        rail.again = self.clock.now + min.saturating_mul(1 << rail.failures.min(20)).min(max);
        rail.failures = rail.failures.saturating_add(1);
        let failures = rail.failures;
        self.stats.rail_resent += back;
        let peer = self.sessions.vcs.get(vc).map_or(0, |v| v.peer.rank);
        // Each rail's first failures are of interest, and then one now and then.
        if failures.is_power_of_two() && failures <= 64 {
            tracing::info!(peer, rail = i, %failure, failures, back, "rail lost");
        }
        self.time_rails(vc);
    }

    /// Schedules a VC's dials, or its put without rails.
    fn time_rails(&mut self, vc: VcId) {
        let Some(r) = self.rails.vcs.get_mut(vc) else { return };
        self.rails.timed.add(vc, &mut r.listed);
        let at = r.deadline();
        self.clock.wake_by(at);
        self.heed_rails();
    }

    /// Dials that take too long, and those that are due. When the next thing is.
    pub(crate) fn rail_timers(&mut self, now: Time) {
        let mut i = 0;
        while let Some(vc) = self.rails.timed.get(i) {
            let late = |r: &VcRails| {
                let mut late = r.out.iter().filter(|o| o.until <= now).filter_map(|o| o.conn);
                late.next()
            };
            while let Some(id) = self.rails.vcs.get(vc).and_then(|r| late(r)) {
                self.rail_ended(id, Failure::TimedOut);
            }
            let busy = self.rails.vcs.get(vc).is_some_and(|r| !r.share.is_idle());
            if busy {
                self.lay_rails(vc);
            }
            let may = self.takes_rails(vc);
            match self.rails.vcs.get_mut(vc) {
                Some(r) if busy || r.out.iter().any(|o| o.until != Time::NEVER) => {
                    // While the VC is not connected there is nothing to be done before it is.
                    let at =
                        if may { r.deadline().max(now + Duration::from_millis(1)) } else { r.dials_until() };
                    self.clock.wake_by(at);
                    i += 1;
                }
                other => {
                    self.rails.timed.remove(i, other.map(|r| &mut r.listed));
                    self.heed_rails();
                }
            }
        }
    }

    /// Begins a put.
    pub(super) fn begin_put(
        &mut self,
        vc: VcId,
        local: netmod_core::rma::RegionId,
        mem: IoVec,
        region: u64,
        at: u64,
        op: u64,
    ) {
        if mem.len == 0 {
            self.events.push_back(Event::RmaDone { vc, op, result: Ok(()) });
            return;
        }
        self.lay_rails(vc);
        if let Some(r) = self.rails.vcs.get_mut(vc) {
            r.share.put(op, local, mem, region, at);
        }
        self.time_rails(vc);
        self.pump(vc);
    }

    /// Feeds the rails of a VC, in turn, as long as they take something.
    pub(super) fn pump(&mut self, vc: VcId) {
        let mut budget = BUDGET;
        let mut moved = true;
        while moved && budget > 0 {
            moved = false;
            let rails = self.rails.vcs.get(vc).map_or(0, |r| r.out.len());
            for i in 0..rails {
                match self.feed(vc, i, &mut budget) {
                    Ok(more) => moved |= more,
                    Err((id, failure)) => {
                        self.close(id);
                        let known = self.rails.vcs.get(vc).and_then(|r| r.out.get(i));
                        if known.is_some_and(|r| r.conn == Some(id)) {
                            self.rail_down(vc, i, failure);
                        }
                        moved = true;
                    }
                }
            }
        }
        self.watch_rails(vc);
    }

    /// Sends one chunk of a rail, as far as the kernel takes it; whether all of it.
    fn feed(&mut self, vc: VcId, i: usize, budget: &mut usize) -> Result<bool, (ConnId, Failure)> {
        let Some(r) = self.rails.vcs.get_mut(vc) else { return Ok(false) };
        let Some(OutRail { conn: Some(id), .. }) = r.out.get(i) else { return Ok(false) };
        let id = *id;
        let open = |c: &&mut Conn| matches!(c.stage, Stage::RailOut) && c.out.is_empty();
        let Some(c) = self.sockets.conns.get_mut(id).filter(open) else { return Ok(false) };
        let records = c.rx.opener.is_some();
        let sealed = c.handshake.seals.is_some() && !records;
        let rail = &mut r.out[i];
        let chunk = match rail.chunk {
            Some(chunk) => chunk,
            None => {
                let Some(chunk) = r.share.next(i) else { return Ok(false) };
                let crc = sealed.then(|| sys::checksum(chunk.mem));
                let (number, region, at) = (chunk.number, chunk.region, chunk.at);
                rail.header = ChunkHeader { number, region, at, len: chunk.mem.len as u32, crc }.emit();
                (rail.chunk, rail.sent) = (Some(chunk), 0);
                chunk
            }
        };
        let head = &mut rail.header[rail.sent.min(HEADER)..];
        let done = rail.sent.saturating_sub(HEADER);
        let mut iov = [
            IoVec { base: head.as_mut_ptr(), len: head.len() },
            IoVec { base: chunk.mem.base.wrapping_add(done), len: chunk.mem.len - done },
        ];
        let written = if records {
            let (pieces, n) = sys::first(&mut iov, RECORD_MAX);
            c.seal_piece(|out| sys::copy_iov(&iov[..pieces], out));
            self.sockets.write_out(id, &[]);
            Ok(Some(n))
        } else {
            sys::send_iov(c.fd(), &iov)
        };
        match written {
            Ok(Some(n)) => {
                self.stats.tx_calls += 1;
                rail.sent += n;
                *budget = budget.saturating_sub(n);
                if rail.sent < HEADER + chunk.mem.len {
                    return Ok(records);
                }
                rail.chunk = None;
                r.share.sent(i);
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(e) => Err((id, e.raw_os_error().map_or(Failure::Eof, Failure::Errno))),
        }
    }

    /// Has epoll say when rails take more, if they have more.
    fn watch_rails(&mut self, vc: VcId) {
        let mut i = 0;
        while let Some(r) = self.rails.vcs.get(vc)
            && let Some(rail) = r.out.get(i)
        {
            let more = rail.chunk.is_some() || r.share.would_take(i);
            if let Some(id) = rail.conn
                && let Some(Conn { stage: Stage::RailOut, out, .. }) = self.sockets.conns.get(id)
            {
                let interest = if more || !out.is_empty() { Interest::BOTH } else { Interest::READ };
                self.sockets.watch(id, interest);
            }
            i += 1;
        }
    }

    /// Goes on with a rail that takes more.
    pub(crate) fn rail_writable(&mut self, id: ConnId, vc: VcId) {
        if self.sockets.conns.get(id).is_some_and(|c| !c.out.is_empty()) {
            self.sockets.write_out(id, &[]);
        }
        self.pump(vc);
    }

    /// Reads acknowledgements from a rail, or its end.
    pub(crate) fn rail_acks(&mut self, core: &mut Core, id: ConnId, vc: VcId) {
        let Some(c) = self.sockets.conns.get_mut(id) else { return };
        let Some(RailEnd::Out(i)) = c.rail else { return };
        let (i, fd) = (usize::from(i), c.fd());
        let mut piece = [0; ACKS * ACK];
        let read = match &mut c.rx.opener {
            Some(opener) => opener.read(fd),
            None => sys::recv(fd, &mut piece),
        };
        let n = match read {
            Ok(None) => return,
            Ok(Some(0)) => {
                self.rail_ended(id, Failure::Eof);
                return;
            }
            Ok(Some(n)) => n,
            Err(e) => {
                self.rail_ended(id, e.raw_os_error().map_or(Failure::Eof, Failure::Errno));
                return;
            }
        };
        self.stats.rx_calls += 1;
        if self.sockets.conns.get(id).is_some_and(|c| c.rx.opener.is_none()) {
            self.take_acks(core, id, vc, i, &piece[..n]);
        }
        while let Some(opener) = self.sockets.conns.get_mut(id).and_then(|c| c.rx.opener.as_mut()) {
            let Ok(acks) = opener.payload() else { return self.rail_altered(core, vc, id) };
            let n = acks.len().min(piece.len());
            piece[..n].copy_from_slice(&acks[..n]);
            opener.take(n);
            if n == 0 {
                break;
            }
            self.take_acks(core, id, vc, i, &piece[..n]);
        }
        if let Some(r) = self.rails.vcs.get_mut(vc)
            && r.out.get(i).is_some_and(|r| r.conn == Some(id))
            && r.share.is_waiting()
        {
            r.share.adapt(i, sys::unsent(fd));
        }
        self.pump(vc);
    }

    /// Takes acknowledgements, cut anywhere, of the rail with this number.
    fn take_acks(&mut self, core: &mut Core, id: ConnId, vc: VcId, i: usize, acks: &[u8]) {
        let mut rest = acks;
        while !rest.is_empty() {
            let Some(r) = self.rails.vcs.get_mut(vc) else { return };
            let Some(rail) = r.out.get_mut(i).filter(|r| r.conn == Some(id)) else { return };
            let take = (ACK - rail.have).min(rest.len());
            rail.ack[rail.have..rail.have + take].copy_from_slice(&rest[..take]);
            rail.have += take;
            rest = &rest[take..];
            if rail.have < ACK {
                break;
            }
            rail.have = 0;
            let told = Ack::parse(&rail.ack).and_then(|ack| Ok((ack.len, r.share.acked(i, ack)?)));
            match told {
                Ok((len, (ended, stuck))) => {
                    r.faults = 0;
                    rail.bytes += u64::from(len);
                    self.stats.rail_tx_bytes += u64::from(len);
                    if let Some(ended) = ended {
                        self.put_ended(vc, ended);
                    }
                    if stuck != 0 {
                        self.unstick(vc, stuck);
                    }
                }
                Err(what) => return self.rail_fault(core, vc, id, what),
            }
        }
    }

    fn put_ended(&mut self, vc: VcId, ended: Ended) {
        let result = if ended.ok {
            Ok(())
        } else {
            let peer = self.sessions.vcs.get(vc).map(|v| v.peer);
            Err(VcError::new(VcErrorKind::Lost, peer, "the peer's region of a put has ended before it"))
        };
        self.events.push_back(Event::RmaDone { vc, op: ended.op, result });
        if let Some(r) = self.rails.vcs.get_mut(vc)
            && r.share.is_idle()
        {
            // Its timers find nothing more to do.
            self.clock.wake_by(self.clock.now);
        }
    }

    /// Gives up rails, one a bit, that are in the middle of a chunk which is not to be sent any
    /// more: bytes that followed on them would be taken for its rest.
    pub(super) fn unstick(&mut self, vc: VcId, stuck: u64) {
        for i in (0..MAX_RAILS).filter(|i| stuck & 1 << i != 0) {
            let Some(rail) = self.rails.vcs.get_mut(vc).and_then(|r| r.out.get_mut(i)) else { continue };
            let Some(id) = rail.conn else { continue };
            self.close(id);
            self.rail_down(vc, i, Failure::Withdrawn);
            if let Some(rail) = self.rails.vcs.get_mut(vc).and_then(|r| r.out.get_mut(i)) {
                // This side gave the rail up; it is no failure.
                (rail.failures, rail.again) = (0, self.clock.now);
            }
        }
        self.pump(vc);
    }
}

impl VcRails {
    /// Returns true if no rail could be dialled for some time.
    fn is_stuck(&self) -> bool {
        self.out.iter().all(|rail| rail.failures >= STUCK)
    }

    /// Replaces the routes of the rails. Returns the connections of the old rails.
    fn relay(&mut self, routes: Vec<Route>) -> Vec<ConnId> {
        let mut closed = Vec::new();
        // Chunks of a rail that changes its index are sent again.
        while let Some(mut rail) = self.out.pop() {
            self.share.remove_rail(self.out.len());
            closed.extend(rail.let_go());
        }
        for route in routes.into_iter().take(MAX_RAILS) {
            self.out.push(OutRail::new(route));
            self.share.add_rail();
        }
        closed
    }

    /// Returns the earliest time at which a dial is given up.
    fn dials_until(&self) -> Time {
        self.out.iter().map(|o| o.until).min().unwrap_or(Time::NEVER)
    }

    /// Returns the time at which something is to be done.
    fn deadline(&self) -> Time {
        let again = self.out.iter().filter(|o| o.conn.is_none()).map(|o| o.again).min();
        let again = again.filter(|_| !self.share.is_idle()).unwrap_or(Time::NEVER);
        self.dials_until().min(again)
    }
}
