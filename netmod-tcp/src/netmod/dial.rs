//! Dials: route, time limit, handshake.

use netmod_connection::{Initiator, InitiatorParams, Purpose, Versions};
use netmod_core::{Core, Event, VcId};

use super::TcpNetmod;
use super::handshake::{RESUME, failure};
use super::pairing::astray;
use crate::conn::{Conn, ConnId, Stage};
use crate::link::Failure;
use crate::route::Route;
use crate::sockets::connect;
use crate::sys::Interest;

impl TcpNetmod {
    /// Begins a dial. The flag of an error says that another dial would fail likewise.
    pub(crate) fn start_dial(&mut self, vc: VcId) -> Result<ConnId, (Failure, bool)> {
        let Some(v) = self.sessions.vcs.get_mut(vc) else { return Err((Failure::None, true)) };
        let Some((route, port)) = v.routes.next_dial() else {
            // The peer has always been the one to connect: its card is asked for, and the next
            // attempt has it.
            if !v.routes.asked_card {
                v.routes.asked_card = true;
                self.events.push_back(Event::NeedCard { vc });
            }
            return Err((Failure::None, false));
        };
        self.stats.dialled += 1;
        self.dial(&route, port, vc).map_err(|e| {
            tracing::debug!(%route, port, %e, "dial");
            (failure(&e), false)
        })
    }

    fn dial(&mut self, route: &Route, port: u16, vc: VcId) -> std::io::Result<ConnId> {
        let pinned = self.sessions.vcs.get(vc).is_none_or(|v| !v.routes.has_tried_all());
        let socket = connect(&self.cfg, route, port, pinned)?;
        if let Some(via) = &route.via
            && matches!(socket.device(), Ok(None))
            && let Some(by) = self.interfaces.would_leave_by(via.mine, via.from, route.to)
        {
            astray(&mut self.stats, &via.device, &by);
        }
        // Writable when connected, or when that has failed.
        let mut conn = Conn::new(socket, Stage::Connecting, Some(vc));
        conn.handshake.dial = self.stats.dialled;
        if let Some(v) = &route.via {
            conn.pair = (v.mine, v.theirs);
        }
        let id = self.sockets.enroll(conn, Interest::BOTH)?;
        if route.via.is_some() {
            self.sockets.expect_answer(&mut self.clock, id);
        }
        Ok(id)
    }

    /// Gives up dials that no host has answered.
    pub(crate) fn expire_dials(&mut self, core: &mut Core) {
        while let Some(id) = self.sockets.unanswered(&mut self.clock) {
            self.handshake_ended(core, id, Failure::TimedOut);
        }
    }

    /// Goes on with a dial when TCP has connected, or failed to.
    pub(crate) fn connected(&mut self, core: &mut Core, id: ConnId) {
        let Some(c) = self.sockets.conns.get_mut(id) else { return };
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
                if let Err(failure) = self.begin_handshake(vc, id) {
                    self.handshake_ended(core, id, failure);
                }
            }
        }
    }

    /// Begins the handshake on a connection that this side has made.
    ///
    /// # Errors
    /// If there is no VC any more, or no random numbers.
    pub(crate) fn begin_handshake(&mut self, vc: VcId, id: ConnId) -> Result<(), Failure> {
        let Some(caps) = self.sockets.conns.get(id).map(|c| self.caps(&c.socket)) else { return Ok(()) };
        let nonce = TcpNetmod::nonce(caps).map_err(|e| failure(&e))?;
        let Some(c) = self.sockets.conns.get_mut(id) else { return Ok(()) };
        let rail = c.rail_number();
        // No network is in between that could break a connection within a node, and the copies of
        // what was sent would be felt there.
        let local =
            c.socket.peer_addr().ok().and_then(|a| a.as_socket()).is_some_and(|a| a.ip().is_loopback());
        let fresh = self.sessions.vcs.get(vc).is_none_or(|v| v.link.session() == 0);
        let mortal = rail.is_some() || local && fresh && !self.cfg.resume_local;
        let caps = if mortal { caps & !RESUME } else { caps };
        let params = self.sessions.vcs.get(vc).and_then(|v| {
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
                dial: c.handshake.dial,
                session,
                position: v.session.position(session),
                terms: v.routes.proposal(c.pair).offered(c.moves).terms(),
                key: self.id.key_towards(&v.peer.group)?,
            })
        });
        let (initiator, hello) = Initiator::new(params.ok_or(Failure::None)?, nonce);
        c.stage = Stage::Dial(Box::new(initiator));
        self.sockets.watch(id, Interest::READ);
        self.sockets.write_out(id, hello.as_bytes());
        Ok(())
    }
}
