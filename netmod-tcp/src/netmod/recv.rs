//! Receiving: which connections are read, and where their bytes go.

use std::io;

use netmod_core::{Core, DeviceError, Event, Events, VcId};

use super::TcpNetmod;
use super::pairing::INTERFACES;
use crate::NAME;
use crate::conn::{self, ConnId, Stage};
use crate::link::{Failure, LinkEvent};
use crate::sockets::{ACTIVE, LISTENER};
use crate::sys::{self, EPOLL_BATCH, MAX_IOV, Ready};

/// Room in the arena without which no further connection is read: a handshake's piece fits.
const MIN_ROOM: usize = 1024;
/// Events that one connection may cause.
const EVENTS_EACH: usize = 4;
/// From this size on a receive counts as large: what follows it is likely to be large too, and is
/// best read into its own place.
const LARGE: usize = 32 << 10;
/// Bytes read behind a large receive, or in place of a header before one.
const TAIL: usize = 4096;

impl TcpNetmod {
    /// Looks for incoming bytes: on the active connections, and now and then on all.
    #[inline]
    pub(crate) fn poll_in(&mut self, core: &mut Core, events: &mut Events) -> Result<(), DeviceError> {
        if !self.sockets.unread.is_empty() {
            self.hand_on_unread(core, events);
        }
        let mut found = false;
        for i in 0..ACTIVE {
            let Some(id) = self.sockets.active.at(i) else { break };
            if events.room() < EVENTS_EACH || self.sockets.arena.room() < MIN_ROOM {
                return Ok(());
            }
            if self.read(core, id, events) {
                found = true;
                if self.sockets.active.hit(i) {
                    self.sockets.leave_epoll(id);
                }
            } else if self.sockets.active.miss(i) {
                self.sockets.demote(id);
            }
        }
        if !found {
            // A read holds the socket's lock, which the peer's bytes need to get in: a short pause
            // between two empty reads leaves it to them.
            std::hint::spin_loop();
        }
        if !self.sockets.active.wants_epoll(found, self.sockets.conns.len()) {
            return Ok(());
        }
        self.poll_epoll(core, events)
    }

    /// Asks epoll, and serves what is ready.
    #[inline(never)]
    pub(crate) fn poll_epoll(&mut self, core: &mut Core, events: &mut Events) -> Result<(), DeviceError> {
        if self.sockets.epoll.is_closed() {
            return Ok(());
        }
        if self.sockets.active.asked() {
            self.sockets.demote_all();
        }
        self.stats.epoll_calls += 1;
        let mut ready = [Ready::default(); EPOLL_BATCH];
        let n = self
            .sockets
            .epoll
            .ready(&mut ready)
            .map_err(|e| DeviceError::new(NAME, format!("epoll_wait: {e}")))?;
        for r in &ready[..n] {
            if r.key == LISTENER {
                self.accept_some();
                continue;
            }
            if r.key == INTERFACES {
                self.interfaces_changed(self.clock.now);
                continue;
            }
            // Descriptors that do not fit in this poll are still ready in the next.
            if events.room() < EVENTS_EACH || self.sockets.arena.room() < MIN_ROOM {
                break;
            }
            let id = ConnId::from_wire(r.key);
            if r.writable && self.writable(core, id) {
                // Sending is progress, too: the wait had a reason to end.
                events.note_progress();
            }
            if r.readable {
                self.readable(core, id, events);
            }
            while let Some(ev) = self.events.pop_front() {
                events.push(ev);
            }
        }
        Ok(())
    }

    /// Goes on with a connection that takes bytes again. Returns true if something waited for that.
    fn writable(&mut self, core: &mut Core, id: ConnId) -> bool {
        let Some(c) = self.sockets.conns.get(id) else { return false };
        if !c.epoll.interest.write {
            return false;
        }
        match (&c.stage, c.vc) {
            (Stage::Open { parting }, Some(vc)) => {
                let parting = *parting;
                if !c.out.is_empty() {
                    self.sockets.write_out(id, &[]);
                    if self.sockets.conns.get(id).is_some_and(|c| !c.out.is_empty()) {
                        return true;
                    }
                }
                if parting {
                    self.sockets.watch_for_input(id);
                } else {
                    self.unblocked(core, id, vc);
                }
            }
            (Stage::RailOut, Some(vc)) => self.rail_writable(id, vc),
            _ => self.handshake_writable(core, id),
        }
        true
    }

    fn readable(&mut self, core: &mut Core, id: ConnId, events: &mut Events) {
        let Some(c) = self.sockets.conns.get(id) else { return };
        if !matches!(c.stage, Stage::Open { .. }) {
            match (&c.stage, c.vc) {
                (Stage::RailIn(_), Some(vc)) => self.rail_data(core, id, vc, events),
                (Stage::RailOut, Some(vc)) => self.rail_acks(core, id, vc),
                _ => self.handshake_readable(core, id, events),
            }
        } else if !c.epoll.deaf && self.read(core, id, events) {
            self.sockets.activate(id);
        }
    }

    /// Reads once from an open connection: into the active receive if there is one, else into the
    /// arena. Whether there was anything.
    #[inline]
    fn read(&mut self, core: &mut Core, id: ConnId, events: &mut Events) -> bool {
        let Some(c) = self.sockets.conns.get_mut(id) else { return false };
        let (Some(vc), Stage::Open { .. }) = (c.vc, &c.stage) else { return false };
        if c.rx.opener.is_some() {
            return self.read_sealed(core, id, vc, events);
        }
        // Bytes read earlier in this poll, with a handshake or from another connection, belong
        // before this.
        if core.vc(vc).is_some_and(|v| v.recv_active().is_some()) && !events.concern(vc) {
            return self.read_direct(core, id, vc, events);
        }
        let max = if c.rx.bulk && !c.rx.filled { TAIL } else { usize::MAX };
        match self.sockets.arena.recv(c.fd(), max) {
            Ok(Some(n)) if n > 0 => {
                c.rx.bulk = false;
                c.rx.filled = n >= max;
                c.rx.position += n as u64;
                let owes = c.rx.position >= c.rx.owe_at;
                self.stats.rx_calls += 1;
                events.push_rx(vc, self.sockets.arena.lend(n));
                if owes {
                    self.sessions.owes(&mut self.sockets, &mut self.stats, vc, id);
                }
                true
            }
            nothing => self.read_nothing(core, id, vc, events, nothing),
        }
    }

    /// Reads once into the active receive, with a tail behind it for what follows.
    #[inline(never)]
    fn read_direct(&mut self, core: &mut Core, id: ConnId, vc: VcId, events: &mut Events) -> bool {
        let Some(c) = self.sockets.conns.get_mut(id) else { return false };
        let mut iov = [netmod_core::IoVec::EMPTY; MAX_IOV];
        let target = core.recv_target(vc, &mut iov[..MAX_IOV - 1]);
        let large = target.bytes >= LARGE;
        c.rx.filled = false;
        c.rx.bulk |= large;
        let bulk = c.rx.bulk;
        let mut pieces = target.pieces;
        // Without a target the receive is full, and what comes next is its surplus.
        if target.whole || target.bytes == 0 {
            iov[pieces] = self.sockets.arena.free(if large { TAIL } else { usize::MAX });
            pieces += 1;
        }
        let (pieces, _) = sys::first(&mut iov[..pieces], c.rx.calls.read());
        match sys::recv_iov(c.fd(), &iov[..pieces]) {
            Ok(Some(n)) if n > 0 => {
                c.rx.position += n as u64;
                let owes = c.rx.position >= c.rx.owe_at;
                self.stats.rx_calls += 1;
                let direct = n.min(target.bytes);
                if direct > 0 {
                    if core.recv_advance(vc, direct) {
                        events.push(Event::RecvDone { vc });
                        if bulk {
                            self.sessions.received_large(&mut self.sockets, &mut self.stats, vc);
                        }
                    } else {
                        events.note_progress();
                    }
                }
                if owes {
                    self.sessions.owes(&mut self.sockets, &mut self.stats, vc, id);
                }
                if n > direct {
                    events.push_rx(vc, self.sockets.arena.lend(n - direct));
                }
                true
            }
            nothing => self.read_nothing(core, id, vc, events, nothing),
        }
    }

    /// Handles a read that brought no bytes. Returns true if the connection has ended.
    #[inline]
    fn read_nothing(
        &mut self,
        core: &mut Core,
        id: ConnId,
        vc: VcId,
        events: &Events,
        read: io::Result<Option<usize>>,
    ) -> bool {
        let failure = match read {
            Ok(None) => {
                self.stats.rx_empty += 1;
                return false;
            }
            Ok(Some(_)) => Failure::Eof,
            Err(e) => e.raw_os_error().map_or(Failure::Eof, Failure::Errno),
        };
        self.read_ended(core, id, vc, events, failure)
    }

    /// Ends an open connection whose stream has ended.
    #[cold]
    pub(crate) fn read_ended(
        &mut self,
        core: &mut Core,
        id: ConnId,
        vc: VcId,
        events: &Events,
        failure: Failure,
    ) -> bool {
        if events.concern(vc) {
            // Bytes read earlier in this poll may be the GOODBYE that makes this end a proper
            // one. The end is still there in the next poll.
            return false;
        }
        self.close(id);
        self.link_event(core, vc, LinkEvent::Lost { conn: conn::key(id), failure });
        true
    }
}
