//! Checkpoints: the netmod lets go of all that the system holds for it, and goes on later, perhaps elsewhere.
//!
//! What is under way needs no emptying of the network: it is in the windows of the sessions. Each peer is told
//! (SUSPEND), and says that it knows (SUSPENDED); then this side closes the connection, and the peer waits. After the
//! restart this side dials, resumes, and tells where it listens now (MOVED).

use std::sync::Arc;

use netmod_core::{Card, Core, DeviceError, Finalize, Time, VcError, VcErrorKind, VcId};

use crate::NAME;
use crate::address;
use crate::conn::{self, Conn, ConnId, Stage};
use crate::control::Control;
use crate::hot::Hot;
use crate::link::{LinkEvent, Phase};
use crate::netmod::{TcpNetmod, enter_listener};
use crate::sys::Epoll;
use crate::way::{Paired, Ways, is_link_local};

/// How far a checkpoint has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checkpoint {
    None,
    /// Peers have this long to answer.
    Until {
        time: Time,
        port: u16,
    },
    /// No descriptor is held. The port at which peers know this process is wished for again.
    Asleep {
        port: u16,
    },
}

/// What a connection is called in SUSPEND by its end `x`: both ends know who has dialled it, and its number
/// among the dials of that process.
fn connection(c: &Conn, said_by_us: bool) -> u64 {
    let (dial, ours) = if c.dial != 0 { (c.dial, true) } else { (c.hail.dial, false) };
    dial << 1 | u64::from(ours == said_by_us)
}

impl TcpNetmod {
    /// See [`netmod_core::Checkpoint::ckpt_shutdown`].
    pub(crate) fn quiesce(&mut self, core: &mut Core, now: Time) -> Result<Finalize, DeviceError> {
        self.now = now;
        let (until, port) = match self.checkpoint {
            Checkpoint::Asleep { .. } => return Ok(Finalize::Done),
            Checkpoint::Until { time, port } => (time, port),
            Checkpoint::None => self.begin_to_quiesce(core),
        };
        if now >= until {
            let late: Vec<VcId> =
                self.vcs.iter().filter(|(_, v)| !v.link.is_quiet()).map(|(vc, _)| vc).collect();
            for vc in late {
                let state = self.describe_vc(core, vc);
                let peer = self.vcs.get(vc).map_or(0, |v| v.peer.rank);
                tracing::warn!(peer, %state, "did not answer in time; it may take this process for dead");
                self.link_event(core, vc, LinkEvent::SleepNow);
            }
            let left: Vec<ConnId> = self.conns.iter().map(|(id, _)| id).collect();
            for id in left {
                self.close(id);
            }
            // Whoever comes now is refused.
            self.listener = None;
        }
        if !self.is_quiet() {
            self.next_timer = self.next_timer.min(until);
            return Ok(Finalize::Pending);
        }
        self.listener = None;
        self.own.let_go();
        self.accept_again = Time::NEVER;
        self.epoll.close();
        self.hot = Hot::default();
        self.checkpoint = Checkpoint::Asleep { port };
        Ok(Finalize::Done)
    }

    fn begin_to_quiesce(&mut self, core: &mut Core) -> (Time, u16) {
        let vcs: Vec<VcId> = self.vcs.iter().map(|(vc, _)| vc).collect();
        let until = self.now + self.link_cfg.parting_timeout;
        let port = self.port();
        self.checkpoint = Checkpoint::Until { time: until, port };
        self.close_all_rails();
        for vc in vcs {
            self.link_event(core, vc, LinkEvent::Sleep);
            if let Some(id) = self.vcs.get(vc).and_then(|v| v.link.up()).map(conn::id) {
                self.tell(core, vc, id);
                self.flush_vc(core, vc);
            }
        }
        (until, port)
    }

    /// Begins a session on an adopted connection that has none, unless the peer has said goodbye on it.
    fn begin_session(&mut self, core: &mut Core, vc: VcId, id: ConnId) {
        let Some(c) = self.conns.get(id).filter(|c| !c.peer_left) else { return };
        if self.vcs.get(vc).is_none_or(|v| v.link.session() != 0) {
            return;
        }
        self.link_event(core, vc, LinkEvent::BeginSession { session: c.session_name });
        let (Some(v), Some(c)) = (self.vcs.get_mut(vc), self.conns.get_mut(id)) else { return };
        v.session = v.link.session();
        if v.session != 0 {
            let unqueued = std::mem::take(&mut v.unqueued);
            v.kept_from = v.txq.get_or_insert_default().begin_to_retain(unqueued);
            // The peer keeps nothing of what has been read.
            (v.told, v.told_control) = (c.rx, 0);
            c.owe_at = c.rx + 1;
        }
    }

    /// Whether all connections have come to their end, those that are about to come in included: a peer whose dial
    /// is cut short has not been told why.
    fn is_quiet(&mut self) -> bool {
        if self.conns.is_empty() {
            self.accept_some(self.now);
        }
        self.conns.is_empty() && self.vcs.iter().all(|(_, v)| v.link.is_quiet())
    }

    /// Says on an adopted connection that this process is about to sleep.
    fn tell(&mut self, core: &mut Core, vc: VcId, id: ConnId) {
        self.begin_session(core, vc, id);
        let Some(name) = self.conns.get(id).map(|c| connection(c, true)) else { return };
        self.pay(vc, 1);
        self.say(vc, Control::Suspend { connection: name });
    }

    /// Queues a control frame, to leave with the next flush.
    fn say(&mut self, vc: VcId, frame: Control) {
        let Some(v) = self.vcs.get_mut(vc) else { return };
        v.txq.get_or_insert_default().push_control(&frame.emit());
        if !v.dirty {
            v.dirty = true;
            self.dirty.push(vc);
        }
    }

    /// See [`netmod_core::Checkpoint::ckpt_restart`].
    pub(crate) fn restart(&mut self, core: &mut Core, now: Time) -> Result<(), DeviceError> {
        self.now = now;
        let Checkpoint::Asleep { port } = self.checkpoint else {
            return Err(DeviceError::new(NAME, "cannot be restarted: it was not shut down for a checkpoint"));
        };
        let epoll = Epoll::new()
            .map_err(|e| DeviceError::new(NAME, format!("cannot make an epoll instance: {e}")))?;
        self.own.look_again()?;
        let listener = address::listen(&self.cfg, &mut self.own, port)?;
        enter_listener(&epoll, &listener)?;
        self.listener = Some(listener);
        self.epoll = epoll;
        if self.id.has_job_key() {
            self.watch_listener()?;
        }
        self.checkpoint = Checkpoint::None;
        self.restarts += 1;
        self.heed_rails();
        let vcs: Vec<VcId> = self.vcs.iter().map(|(vc, _)| vc).collect();
        for vc in &vcs {
            self.pair_again(*vc);
        }
        self.watch_interfaces();
        for vc in vcs {
            self.link_event(core, vc, LinkEvent::Wake);
        }
        Ok(())
    }

    /// See [`netmod_core::Checkpoint::ckpt_peer`].
    pub(crate) fn peer_is_back(&mut self, core: &Core, vc: VcId, card: &Card) -> Result<(), VcError> {
        let peer = self.by_vc(core, vc).ok_or_else(TcpNetmod::no_such_vc)?;
        if self.checkpoint != Checkpoint::None {
            let text = "its new card comes too early: this process has not been restarted itself";
            return Err(VcError::new(VcErrorKind::Unsupported, Some(peer), text));
        }
        let ways = self.ways_of(peer, card)?;
        match self.vcs.get_mut(vc) {
            Some(v) => {
                v.ways = Some(ways);
                v.forget_dials();
                v.reckon(self.cfg.rails);
            }
            None => self.fresh.put(vc, ways),
        }
        Ok(())
    }

    /// A connection is adopted: what it is called in SUSPEND, and where this process listens since a restart.
    pub(crate) fn introduce(&mut self, core: &mut Core, vc: VcId, id: ConnId) {
        let (Some(v), Some(c)) = (self.vcs.get_mut(vc), self.conns.get(id)) else { return };
        v.connection = connection(c, false);
        if v.restarts != self.restarts {
            v.restarts = self.restarts;
            if let Some(port) = self.listener.as_ref().map(|l| l.port) {
                self.say(vc, Control::Moved { port });
            }
        }
        if self.checkpoint != Checkpoint::None {
            self.tell(core, vc, id);
        }
    }

    /// SUSPEND has come.
    pub(crate) fn peer_suspends(&mut self, core: &mut Core, vc: VcId, name: u64) {
        let Some(v) = self.vcs.get(vc) else { return };
        if v.link.phase() == Phase::Parting || v.connection != name {
            // What was said on an earlier connection has come again with what else that had lost.
            return;
        }
        if let Some(id) = v.link.up().map(conn::id) {
            self.begin_session(core, vc, id);
        }
        if self.vcs.get(vc).is_some_and(|v| v.session != 0) {
            self.say(vc, Control::Suspended { connection: name });
            self.link_event(core, vc, LinkEvent::PeerSleeps);
        }
    }

    /// SUSPENDED has come.
    pub(crate) fn peer_knows(&mut self, core: &mut Core, vc: VcId, name: u64) {
        let up = self.vcs.get(vc).and_then(|v| v.link.up()).and_then(|c| self.conns.get(conn::id(c)));
        // What was said on an earlier connection may come again.
        if up.is_some_and(|c| connection(c, true) == name) {
            self.link_event(core, vc, LinkEvent::PeerKnows);
        }
    }

    /// MOVED has come.
    ///
    /// # Errors
    /// If that is no port.
    pub(crate) fn peer_moved(&mut self, vc: VcId, port: u16) -> Result<(), String> {
        if port == 0 {
            return Err("it says that it has moved to port 0".into());
        }
        let Some(v) = self.vcs.get_mut(vc) else { return Ok(()) };
        let Some(Conn { socket, stage: Stage::Open { .. }, .. }) =
            v.link.up().and_then(|c| self.conns.get(conn::id(c)))
        else {
            return Ok(());
        };
        let at = socket.peer_addr().ok().and_then(|a| a.as_socket()).map(|a| a.ip().to_canonical());
        match &mut v.ways {
            Some(ways) if at.is_none_or(|at| ways.paired.list.iter().any(|w| w.to == at)) => ways.port = port,
            ways => {
                // Without an interface a link-local address says nothing; the card is asked for when it is needed.
                let to = at.filter(|at| !is_link_local(*at));
                *ways = to.map(|to| Ways { paired: Arc::new(Paired::only(to)), port });
            }
        }
        Ok(())
    }
}
