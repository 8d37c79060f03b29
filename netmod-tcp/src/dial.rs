//! Dials: by which way, for how long, and what their hello says.

use netmod_connection::{Initiator, InitiatorParams, Purpose, Versions};
use netmod_core::{Core, Event, Time, VcId};

use crate::conn::{Conn, ConnId, Stage};
use crate::link::Failure;
use crate::netmod::TcpNetmod;
use crate::rail;
use crate::shake::{RESUME, failure, random};
use crate::sys::Interest;
use crate::way::Way;

/// How long a host may take to answer by one pair of interfaces before another one is tried; twice the time after which
/// systems try again.
pub(crate) const CONNECT: std::time::Duration = std::time::Duration::from_secs(2);

impl TcpNetmod {
    /// Begins a dial. The flag of an error says that another dial would fail likewise.
    pub(crate) fn start_dial(&mut self, vc: VcId) -> Result<ConnId, (Failure, bool)> {
        let Some(v) = self.vcs.get_mut(vc) else { return Err((Failure::None, true)) };
        let Some((way, port)) = v.next_dial() else {
            // The peer has always been the one to connect: its card is asked for, and the next attempt
            // has it.
            if !v.asked_card {
                v.asked_card = true;
                self.events.push_back(Event::NeedCard { vc });
            }
            return Err((Failure::None, false));
        };
        self.stats.dialled += 1;
        self.dial(&way, port, vc).map_err(|e| {
            tracing::debug!(%way, port, %e, "dial");
            (failure(&e), false)
        })
    }

    fn dial(&mut self, way: &Way, port: u16, vc: VcId) -> std::io::Result<ConnId> {
        let pinned = self.vcs.get(vc).is_none_or(|v| !v.has_tried_all());
        let socket = self.connect_by(way, port, pinned)?;
        if let Some(via) = &way.via
            && matches!(socket.device(), Ok(None))
            && let Some(by) = self.own.would_leave_by(via.mine, via.from, way.to)
        {
            self.astray(&via.device, &by);
        }
        // Writable when connected, or when that has failed.
        let mut conn = Conn::new(socket, Stage::Connecting, Some(vc));
        conn.dial = self.stats.dialled;
        if let Some(v) = &way.via {
            conn.pair = (v.mine, v.theirs);
        }
        let id = self.enroll(conn, Interest::BOTH)?;
        if way.via.is_some() {
            let until = self.now + CONNECT;
            self.connecting.push_back((until, id));
            self.next_timer = self.next_timer.min(until);
        }
        Ok(id)
    }

    /// Dials that no host has answered make way for others.
    pub(crate) fn expire_dials(&mut self, core: &mut Core, now: Time) {
        while let Some(&(until, id)) = self.connecting.front() {
            let waiting = self.conns.get(id).is_some_and(|c| matches!(c.stage, Stage::Connecting));
            if waiting && until > now {
                self.next_timer = self.next_timer.min(until);
                break;
            }
            self.connecting.pop_front();
            if waiting {
                self.handshake_ended(core, id, Failure::TimedOut);
            }
        }
    }

    /// TCP has connected, or failed to.
    pub(crate) fn connected(&mut self, core: &mut Core, id: ConnId) {
        let Some(c) = self.conns.get_mut(id) else { return };
        let Some(vc) = c.vc else { return self.close(id) };
        let moves = c.moves;
        let error = match c.socket.take_error() {
            Ok(None) => None,
            Ok(Some(e)) | Err(e) => Some(e),
        };
        match error {
            Some(e) => self.handshake_ended(core, id, failure(&e)),
            None if moves => self.moving(core, vc, id),
            None => {
                if let Err(failure) = self.say_hello(vc, id) {
                    self.handshake_ended(core, id, failure);
                }
            }
        }
    }

    /// Begins the hello on a connection that this side has made.
    ///
    /// # Errors
    /// If there is no VC any more, or no random numbers.
    pub(crate) fn say_hello(&mut self, vc: VcId, id: ConnId) -> Result<(), Failure> {
        let caps = self.caps();
        let Some(c) = self.conns.get_mut(id) else { return Ok(()) };
        let rail = rail::number(c);
        // No network is in between that could break a connection within a node, and the copies of what was sent
        // would be felt there.
        let local =
            c.socket.peer_addr().ok().and_then(|a| a.as_socket()).is_some_and(|a| a.ip().is_loopback());
        let fresh = self.vcs.get(vc).is_none_or(|v| v.link.session() == 0);
        let mortal = rail.is_some() || local && fresh && !self.cfg.resume_local;
        let caps = if mortal { caps & !RESUME } else { caps };
        let params = self.vcs.get(vc).and_then(|v| {
            // A rail has no session, and nothing of its own to be agreed on.
            let session = if rail.is_some() { 0 } else { v.link.session() };
            let stream = v.port.map_or(Purpose::Vc, |port| Purpose::Root { port });
            Some(InitiatorParams {
                me: self.id.name_towards(&v.peer.group),
                peer: v.peer,
                purpose: rail.map_or(stream, |number| Purpose::Rail { number }),
                versions: Versions::OURS,
                caps,
                incarnation: self.id.incarnation(),
                dial: c.dial,
                session,
                position: v.position(session),
                terms: v.proposal(c.pair).offered(c.moves).terms(),
                key: self.id.key_towards(&v.peer.group)?,
            })
        });
        let nonce = random().map_err(|e| failure(&e))?;
        let (initiator, hello) = Initiator::new(params.ok_or(Failure::None)?, nonce);
        c.stage = Stage::Dial(Box::new(initiator));
        self.watch(id, Interest::READ);
        self.write_out(id, hello.as_bytes());
        Ok(())
    }
}
