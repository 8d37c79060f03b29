//! Connections whose bytes are checked (`NETMOD_CHECKSUM`, `NETMOD_TCP_SECURITY`): they go out in
//! records, and come in by way of a buffer in which they are checked.
//!
//! A record that was altered on the way is reported with its place in the stream. It ends its
//! connection, not its session: what was checked counts as read, and the rest comes again. A place
//! at which records keep being altered takes the VC down.

use netmod_core::{Core, Event, Events, IoVec, VcError, VcErrorKind, VcId, VcLife};

use super::TcpNetmod;
use crate::conn::{self, ConnId};
use crate::link::{Failure, LinkEvent};
use crate::record::{Corrupt, Opener, RECORD_MAX};
use crate::sys::{self, MAX_IOV};

/// Times that a record at one position may be altered before the VC is given up.
const ALTERED_MAX: u32 = 3;

impl TcpNetmod {
    /// Has the bytes of an adopted connection checked from now on.
    pub(crate) fn seal(&mut self, vc: VcId, id: ConnId) {
        let Some(c) = self.sockets.conns.get_mut(id) else { return };
        let Some(v) = self.sessions.vcs.get_mut(vc) else { return };
        v.tx.sealed = c.handshake.seals.is_some();
        let seal = c.handshake.seals.as_mut().and_then(|seals| seals.inn.take());
        c.rx.opener = seal.map(|seal| Box::new(Opener::new(seal, c.rx.position)));
        if self.cfg.checksum && !v.tx.sealed {
            tracing::warn!(
                peer = v.peer.rank,
                "its messages are not checked: it was started without NETMOD_CHECKSUM=on"
            );
        }
    }

    /// Has the bytes of a rail in records from now on, if its connection has keys. With checksums
    /// its chunks have their own.
    pub(crate) fn seal_rail(&mut self, id: ConnId) {
        let Some(c) = self.sockets.conns.get_mut(id) else { return };
        let keyed = c.handshake.seals.as_mut().filter(|seals| seals.out.is_keyed());
        c.rx.opener = keyed.and_then(|seals| seals.inn.take()).map(|seal| Box::new(Opener::new(seal, 0)));
    }

    /// Returns last words in the form in which a connection carries its bytes. Nothing may follow.
    pub(crate) fn last_words(&mut self, id: ConnId, words: &[u8]) -> Vec<u8> {
        let c = self.sockets.conns.get_mut(id);
        let Some((c, seals)) = c.and_then(|c| c.handshake.seals.take().map(|seals| (c, seals))) else {
            return words.to_vec();
        };
        let sent =
            c.vc.and_then(|vc| self.sessions.vcs.get(vc))
                .and_then(|v| v.tx.queue.as_ref())
                .map_or(0, |q| q.sent());
        // A connection that was only promised goes on, if at all, where its peer has said that it
        // stopped.
        let pos = if c.rx.opener.is_some() { sent } else { c.handshake.peer_position };
        let (mut out, mut seal) = (Vec::new(), seals.out);
        seal.begin(&mut out);
        out.extend_from_slice(words);
        seal.finish(pos, &mut out);
        out
    }

    /// Writes as much of a VC's queue as the kernel takes, in records.
    #[cold]
    pub(crate) fn flush_sealed(&mut self, core: &mut Core, vc: VcId) {
        loop {
            let Some(v) = self.sessions.vcs.get_mut(vc) else { return };
            if v.tx.fd < 0 || v.tx.blocked {
                return;
            }
            let Some(id) = v.link.up().map(conn::id) else { return };
            let Some(c) = self.sockets.conns.get_mut(id) else { return };
            if !c.out.is_empty() {
                self.sockets.write_out(id, &[]);
                let full = self.sockets.conns.get(id).is_some_and(|c| !c.out.is_empty());
                if let Some(v) = self.sessions.vcs.get_mut(vc).filter(|_| full) {
                    v.tx.blocked = true;
                    return self.sessions.press(vc);
                }
                continue;
            }
            let Some(q) = v.tx.queue.as_mut().filter(|q| q.is_sendable()) else { return };
            let mut iov = [IoVec::EMPTY; MAX_IOV];
            let (n, _) = q.gather(core, &mut iov);
            let (n, bytes) = sys::first(&mut iov[..n], RECORD_MAX);
            if bytes == 0 {
                // Nothing but empty or cancelled messages, or the window is closed until an
                // acknowledgement comes.
                let before = q.len();
                q.written(core, vc, 0);
                if q.len() == before { return } else { continue }
            }
            let Some(seals) = c.handshake.seals.as_mut() else { return };
            // The copy is what is checked: its owners may take messages back that have not begun.
            let at = seals.out.begin(&mut c.out);
            sys::copy_iov(&iov[..n], &mut c.out);
            seals.out.finish(q.sent(), &mut c.out[at..]);
            q.written(core, vc, bytes);
            self.stats.tx_calls += 1;
        }
    }

    /// Reads once from a connection with records. Whether there was anything.
    #[cold]
    pub(crate) fn read_sealed(&mut self, core: &mut Core, id: ConnId, vc: VcId, events: &mut Events) -> bool {
        let Some(c) = self.sockets.conns.get_mut(id) else { return false };
        let fd = c.fd();
        let Some(opener) = &mut c.rx.opener else { return false };
        if !opener.is_full() {
            match opener.read(fd) {
                Ok(Some(n)) if n > 0 => self.stats.rx_calls += 1,
                Ok(None) => {
                    self.stats.rx_empty += 1;
                    return false;
                }
                Ok(Some(_)) => return self.read_ended(core, id, vc, events, Failure::Eof),
                Err(e) => {
                    let failure = e.raw_os_error().map_or(Failure::Eof, Failure::Errno);
                    return self.read_ended(core, id, vc, events, failure);
                }
            }
        }
        self.hand_on(core, id, vc, events);
        true
    }

    /// Checks bytes that came with the last of the handshake. Returns false if there is no room for
    /// them.
    pub(crate) fn sealed_leftover(
        &mut self,
        core: &mut Core,
        id: ConnId,
        bytes: &[u8],
        events: &mut Events,
    ) -> bool {
        let Some(c) = self.sockets.conns.get_mut(id) else { return true };
        let (Some(vc), Some(opener)) = (c.vc, &mut c.rx.opener) else { return false };
        let Some(space) = opener.space().get_mut(..bytes.len()) else { return false };
        space.copy_from_slice(bytes);
        opener.filled(bytes.len());
        self.hand_on(core, id, vc, events);
        true
    }

    /// Hands on what is checked, as far as there is room in this poll: to the active receive if
    /// there is one, else by way of the arena.
    fn hand_on(&mut self, core: &mut Core, id: ConnId, vc: VcId, events: &mut Events) {
        loop {
            let Some(c) = self.sockets.conns.get_mut(id) else { return };
            let Some(opener) = &mut c.rx.opener else { return };
            let payload = match opener.payload() {
                Ok([]) => break,
                Ok(payload) => payload,
                Err(corrupt) => return self.altered(core, id, vc, corrupt),
            };
            // Events of this poll come before it.
            if core.vc(vc).is_some_and(|v| v.recv_active().is_some()) && !events.concern(vc) {
                let mut iov = [IoVec::EMPTY; MAX_IOV];
                let pieces = core.recv_target(vc, &mut iov).pieces;
                let n = sys::scatter(payload, &iov[..pieces]);
                if n > 0 {
                    opener.take(n);
                    c.rx.position += n as u64;
                    let owes = c.rx.position >= c.rx.owe_at;
                    if core.recv_advance(vc, n) {
                        events.push(Event::RecvDone { vc });
                    } else {
                        events.note_progress();
                    }
                    if owes {
                        self.sessions.owes(&mut self.sockets, &mut self.stats, vc, id);
                    }
                    continue;
                }
            }
            let n = payload.len().min(self.sockets.arena.room());
            if n == 0 {
                // The rest is handed on in the next poll, whether more comes or not.
                self.sockets.unread.push(id);
                return;
            }
            let Some(buf) = self.sockets.arena.copy_in(&payload[..n]) else { return };
            opener.take(n);
            c.rx.position += n as u64;
            let owes = c.rx.position >= c.rx.owe_at;
            events.push(Event::Rx { vc, buf });
            if owes {
                self.sessions.owes(&mut self.sockets, &mut self.stats, vc, id);
            }
        }
    }

    /// Hands on what had no room in the last poll.
    pub(crate) fn hand_on_unread(&mut self, core: &mut Core, events: &mut Events) {
        for id in std::mem::take(&mut self.sockets.unread) {
            if let Some(vc) = self.sockets.conns.get(id).and_then(|c| c.vc) {
                self.hand_on(core, id, vc, events);
            }
        }
    }

    /// Ends a connection on which a record was altered.
    fn altered(&mut self, core: &mut Core, id: ConnId, vc: VcId, corrupt: Corrupt) {
        self.stats.altered += 1;
        let Some(v) = self.sessions.vcs.get_mut(vc) else { return };
        v.session.altered.times =
            if v.session.altered.at == corrupt.pos { v.session.altered.times + 1 } else { 1 };
        v.session.altered.at = corrupt.pos;
        v.session.altered.records += 1;
        let (times, peer, address) = (v.session.altered.times, v.peer, v.routes.address());
        tracing::error!(peer = peer.rank, %address, %corrupt, times, "corrupted on the way");
        if times < ALTERED_MAX && v.session.id != 0 {
            self.close(id);
            let lost = LinkEvent::Lost { conn: conn::key(id), failure: Failure::Altered };
            return self.link_event(core, vc, lost);
        }
        let text = format!(
            "connection with {address}: {corrupt}, {times} times; is the memory of a host, a network card or a \
             switch in between broken, or is somebody in between?"
        );
        self.vc_abort(core, vc, VcError::new(VcErrorKind::Lost, Some(peer), text));
    }
}
