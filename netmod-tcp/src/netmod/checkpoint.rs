//! Checkpoints: the netmod lets go of all that the system holds for it, and goes on later, perhaps
//! elsewhere.
//!
//! What is under way needs no emptying of the network: it is in the windows of the sessions. Each
//! peer is told (SUSPEND), and says that it knows (SUSPENDED); then this side closes the
//! connection, and the peer waits. After the restart this side dials, resumes, and tells where it
//! listens now (MOVED).

use std::sync::Arc;

use netmod_core::{Card, Core, DeviceError, Finalize, Time, VcError, VcErrorKind, VcId};

use super::TcpNetmod;
use super::control::ControlFault;
use crate::NAME;
use crate::conn::{self, Conn, ConnId, Stage};
use crate::control::Control;
use crate::life::Checkpoint;
use crate::link::{LinkEvent, Phase};
use crate::route::{Paired, Routes, is_link_local};
use crate::sessions::no_such_vc;
use crate::sockets::Listener;

impl TcpNetmod {
    /// Closes everything for a checkpoint; see [`netmod_core::Checkpoint::ckpt_shutdown`].
    pub(crate) fn quiesce(&mut self, core: &mut Core, now: Time) -> Result<Finalize, DeviceError> {
        self.clock.now = now;
        let (until, port) = match self.life.checkpoint {
            Checkpoint::Asleep { .. } => return Ok(Finalize::Done),
            Checkpoint::Until { time, port } => (time, port),
            Checkpoint::None => self.begin_to_quiesce(core),
        };
        if now >= until {
            let late: Vec<VcId> =
                self.sessions.vcs.iter().filter(|(_, v)| !v.link.is_quiet()).map(|(vc, _)| vc).collect();
            for vc in late {
                let state = self.describe_vc(core, vc);
                let peer = self.sessions.vcs.get(vc).map_or(0, |v| v.peer.rank);
                tracing::warn!(peer, %state, "did not answer in time; it may take this process for dead");
                self.link_event(core, vc, LinkEvent::SleepNow);
            }
            let left: Vec<ConnId> = self.sockets.all();
            for id in left {
                self.close(id);
            }
            // New connections are refused from now on.
            self.sockets.listener = None;
        }
        if !self.is_quiet() {
            self.clock.wake_by(until);
            return Ok(Finalize::Pending);
        }
        self.sockets.let_go();
        self.interfaces.let_go();
        self.life.checkpoint = Checkpoint::Asleep { port };
        Ok(Finalize::Done)
    }

    fn begin_to_quiesce(&mut self, core: &mut Core) -> (Time, u16) {
        let vcs: Vec<VcId> = self.sessions.all();
        let until = self.clock.now + self.link_cfg.parting_timeout;
        let port = self.sockets.port();
        self.life.checkpoint = Checkpoint::Until { time: until, port };
        self.close_all_rails();
        for vc in vcs {
            self.link_event(core, vc, LinkEvent::Sleep);
            if let Some(id) = self.sessions.vcs.get(vc).and_then(|v| v.link.up()).map(conn::id) {
                self.tell(core, vc, id);
                self.flush_vc(core, vc);
            }
        }
        (until, port)
    }

    /// Begins a session on an adopted connection that has none, unless the peer has said goodbye on
    /// it.
    fn begin_session(&mut self, core: &mut Core, vc: VcId, id: ConnId) {
        let Some(c) = self.sockets.conns.get(id).filter(|c| !c.peer_left) else { return };
        if self.sessions.vcs.get(vc).is_none_or(|v| v.link.session() != 0) {
            return;
        }
        self.link_event(core, vc, LinkEvent::BeginSession { session: c.handshake.session_name });
        let (Some(v), Some(c)) = (self.sessions.vcs.get_mut(vc), self.sockets.conns.get_mut(id)) else {
            return;
        };
        v.session.id = v.link.session();
        if v.session.id != 0 {
            let unqueued = std::mem::take(&mut v.tx.unqueued);
            v.session.kept_from = v.tx.queue.get_or_insert_default().begin_to_retain(unqueued);
            // The peer keeps nothing of what has been read.
            (v.session.told, v.session.told_control) = (c.rx.position, 0);
            c.rx.owe_at = c.rx.position + 1;
        }
    }

    /// Returns true if all connections have come to their end. Those that are about to come in
    /// count too: a peer whose dial is cut short has not been told why.
    fn is_quiet(&mut self) -> bool {
        if self.sockets.conns.is_empty() {
            self.accept_some();
        }
        self.sockets.conns.is_empty() && self.sessions.vcs.iter().all(|(_, v)| v.link.is_quiet())
    }

    /// Says on an adopted connection that this process is about to sleep.
    fn tell(&mut self, core: &mut Core, vc: VcId, id: ConnId) {
        self.begin_session(core, vc, id);
        let Some(name) = self.sockets.conns.get(id).map(|c| c.name(true)) else { return };
        self.sessions.queue_ack(&mut self.sockets, &mut self.stats, vc, 1);
        self.sessions.say(vc, Control::Suspend { connection: name });
    }

    /// Listens again after a checkpoint; see [`netmod_core::Checkpoint::ckpt_restart`].
    pub(crate) fn restart(&mut self, core: &mut Core, now: Time) -> Result<(), DeviceError> {
        self.clock.now = now;
        let Checkpoint::Asleep { port } = self.life.checkpoint else {
            return Err(DeviceError::new(NAME, "cannot be restarted: it was not shut down for a checkpoint"));
        };
        self.interfaces.look_again()?;
        let listener = Listener::open(&self.cfg, &mut self.interfaces, port)?;
        self.sockets.reopen(listener)?;
        if self.id.has_job_key() {
            self.sockets.watch_listener()?;
        }
        self.life.checkpoint = Checkpoint::None;
        self.life.restarts += 1;
        self.heed_rails();
        let vcs: Vec<VcId> = self.sessions.all();
        for vc in &vcs {
            self.pair_again(*vc);
        }
        self.watch_interfaces();
        for vc in vcs {
            self.link_event(core, vc, LinkEvent::Wake);
        }
        Ok(())
    }

    /// Takes the new card of a peer; see [`netmod_core::Checkpoint::ckpt_peer`].
    pub(crate) fn peer_is_back(&mut self, core: &Core, vc: VcId, card: &Card) -> Result<(), VcError> {
        let peer = self.sessions.peer_of(core, vc).ok_or_else(no_such_vc)?;
        if self.life.is_checkpointed() {
            let text = "its new card comes too early: this process has not been restarted itself";
            return Err(VcError::new(VcErrorKind::Unsupported, Some(peer), text));
        }
        let routes = self.routes_of(peer, card)?;
        match self.sessions.vcs.get_mut(vc) {
            Some(v) => {
                v.routes.all = Some(routes);
                v.routes.forget_dials();
                v.routes.reckon(v.peer, self.cfg.rails);
            }
            None => self.sessions.fresh.put(vc, routes),
        }
        Ok(())
    }

    /// Names an adopted connection for SUSPEND, and tells the peer where this process listens since
    /// a restart.
    pub(crate) fn introduce(&mut self, core: &mut Core, vc: VcId, id: ConnId) {
        let (Some(v), Some(c)) = (self.sessions.vcs.get_mut(vc), self.sockets.conns.get(id)) else { return };
        v.session.connection = c.name(false);
        if v.session.restarts != self.life.restarts {
            v.session.restarts = self.life.restarts;
            if let Some(port) = self.sockets.listener.as_ref().map(|l| l.port) {
                self.sessions.say(vc, Control::Moved { port });
            }
        }
        if self.life.is_checkpointed() {
            self.tell(core, vc, id);
        }
    }

    /// Handles SUSPEND.
    pub(crate) fn peer_suspends(&mut self, core: &mut Core, vc: VcId, name: u64) {
        let Some(v) = self.sessions.vcs.get(vc) else { return };
        if v.link.phase() == Phase::Parting || v.session.connection != name {
            // A SUSPEND of an earlier connection is retransmitted with the rest of its stream.
            return;
        }
        if let Some(id) = v.link.up().map(conn::id) {
            self.begin_session(core, vc, id);
        }
        if self.sessions.vcs.get(vc).is_some_and(|v| v.session.id != 0) {
            self.sessions.say(vc, Control::Suspended { connection: name });
            self.link_event(core, vc, LinkEvent::PeerSleeps);
        }
    }

    /// Handles SUSPENDED.
    pub(crate) fn peer_knows(&mut self, core: &mut Core, vc: VcId, name: u64) {
        let up = self
            .sessions
            .vcs
            .get(vc)
            .and_then(|v| v.link.up())
            .and_then(|c| self.sockets.conns.get(conn::id(c)));
        // A SUSPENDED of an earlier connection may be retransmitted.
        if up.is_some_and(|c| c.name(true) == name) {
            self.link_event(core, vc, LinkEvent::PeerKnows);
        }
    }

    /// Handles MOVED.
    ///
    /// # Errors
    /// If that is no port.
    pub(crate) fn peer_moved(&mut self, vc: VcId, port: u16) -> Result<(), ControlFault> {
        if port == 0 {
            return Err(ControlFault::NoPort);
        }
        let Some(v) = self.sessions.vcs.get_mut(vc) else { return Ok(()) };
        let Some(Conn { socket, stage: Stage::Open { .. }, .. }) =
            v.link.up().and_then(|c| self.sockets.conns.get(conn::id(c)))
        else {
            return Ok(());
        };
        let at = socket.peer_addr().ok().and_then(|a| a.as_socket()).map(|a| a.ip().to_canonical());
        match &mut v.routes.all {
            Some(routes) if at.is_none_or(|at| routes.paired.list.iter().any(|w| w.to == at)) => {
                routes.port = port
            }
            routes => {
                // Without an interface a link-local address says nothing; the card is asked for
                // when it is needed.
                let to = at.filter(|at| !is_link_local(*at));
                *routes = to.map(|to| Routes { paired: Arc::new(Paired::only(to)), port });
            }
        }
        Ok(())
    }
}
