//! The netmod as a whole: it composes sockets, sessions, rails and interfaces.
//!
//! Each part has its own state and methods, and knows no other that stands above it. What concerns
//! several of them is in the modules here: what a link decides ([`links`]), handshakes, sending,
//! receiving, moves between interfaces, checkpoints, the end.

mod checkpoint;
mod control;
mod data_path;
mod describe;
mod dial;
mod down;
mod ending;
mod handshake;
mod links;
mod moving;
mod pairing;
mod rails;
mod recv;
mod sealed;
mod security;
mod send;
mod vc_life;
mod watch;

use core::time::Duration;
use std::collections::VecDeque;
use std::net::SocketAddr;

use netmod_connection::{Identity, JobKey};
use netmod_core::{
    Break, Card, CardError, CardWriter, Core, DeviceError, Diagnose, Event, Finalize, Module, PeerName,
    Pollers, Report, Rma, Time, VcError, VcErrorKind, VcId,
};

use crate::NAME;
use crate::card;
use crate::clock::Clock;
use crate::config::TcpConfig;
use crate::conn::{self, Conn};
use crate::error::OpenError;
use crate::interfaces::Interfaces;
use crate::life::Life;
use crate::link::LinkConfig;
use crate::sessions::Sessions;
use crate::sockets::{Listener, Sockets};
use crate::stats::{TcpReport, TcpStats};
use crate::sys;

use rails::Rails;
use watch::Watching;

/// The TCP netmod of one process.
pub struct TcpNetmod {
    cfg: TcpConfig,
    link_cfg: LinkConfig,
    id: Identity,
    interfaces: Interfaces,
    sockets: Sockets,
    sessions: Sessions,
    rails: Rails,
    /// Processes without a connection whose end is looked for.
    watching: Watching,
    clock: Clock,
    /// Events that arose outside `poll`.
    events: VecDeque<Event>,
    stats: TcpStats,
    life: Life,
}

impl std::fmt::Debug for TcpNetmod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TcpNetmod")
            .field("me", &self.id.me())
            .field("conns", &self.sockets.conns.len())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl TcpNetmod {
    /// Opens the listener. Nobody is accepted before [`Module::join_job`].
    ///
    /// `group_size` is the number of processes of `me`'s group.
    ///
    /// # Errors
    /// [`OpenError::Setting`]; or [`OpenError::Host`] if there is no interface or port to listen
    /// on, or no descriptor for it.
    pub fn new(cfg: TcpConfig, me: PeerName, group_size: u32) -> Result<TcpNetmod, OpenError> {
        let incarnation =
            sys::random().map(u64::from_ne_bytes).map_err(|e| DeviceError::new(NAME, e.to_string()))?;
        let mut interfaces = Interfaces::new(&cfg)?;
        let listener = Listener::open(&cfg, &mut interfaces, 0)?;
        let link_cfg = LinkConfig {
            connect_timeout: cfg.connect_timeout,
            handshake_timeout: cfg.hello_timeout,
            backoff_min: cfg.backoff_min,
            backoff_max: cfg.backoff_max,
            resume_timeout: cfg.resume_timeout,
            ..LinkConfig::default()
        };
        Ok(TcpNetmod {
            sockets: Sockets::new(&cfg, listener)?,
            rails: Rails::new(cfg.rails_loopback),
            cfg,
            link_cfg,
            id: Identity::new(me, group_size, incarnation),
            interfaces,
            sessions: Sessions::new(&me),
            watching: Watching::default(),
            clock: Clock::new(),
            events: VecDeque::new(),
            stats: TcpStats::default(),
            life: Life::new(),
        })
    }

    /// Sets the time limit for a checkpointed peer to return.
    #[must_use]
    pub fn with_ckpt_timeout(mut self, limit: Duration) -> TcpNetmod {
        self.link_cfg.ckpt_timeout = limit;
        self
    }

    /// Returns the netmod's counts.
    pub fn stats(&self) -> TcpStats {
        self.stats
    }

    /// Returns the addresses at which peers find this process, those of the loopback interface
    /// last.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let port = self.sockets.port();
        self.interfaces.addresses().map(|ip| SocketAddr::new(ip, port)).collect()
    }

    /// Returns the number of open connections, in whatever stage.
    pub fn connections(&self) -> usize {
        self.sockets.conns.len()
    }
    /// Breaks a VC's connection as a fault of the network would. Returns false if there is no
    /// connection.
    ///
    /// # Errors
    /// Fails if the system refuses.
    ///
    /// Nothing is lost if the session can be resumed (`NETMOD_TCP_RESUME_TIMEOUT`); otherwise the
    /// VC goes down.
    fn sever(&mut self, vc: VcId, how: impl FnOnce(&Conn) -> std::io::Result<()>) -> Result<bool, VcError> {
        let Some(v) = self.sessions.vcs.get(vc) else { return Ok(false) };
        let Some(c) = v.link.up().and_then(|c| self.sockets.conns.get(conn::id(c))) else { return Ok(false) };
        match how(c) {
            Ok(()) => Ok(true),
            // It was broken already.
            Err(e) if e.kind() == std::io::ErrorKind::NotConnected => Ok(false),
            Err(e) => {
                let text = format!("its connection cannot be broken: {e}");
                Err(VcError::new(VcErrorKind::Unsupported, Some(v.peer), text))
            }
        }
    }
}

impl Module for TcpNetmod {
    fn name(&self) -> &'static str {
        NAME
    }

    fn threads(&self) -> usize {
        0
    }

    fn shares_memory(&self) -> bool {
        false
    }

    fn join_job(&mut self, job_key: [u8; 32], _: Pollers) -> Result<(), DeviceError> {
        self.id.set_job_key(JobKey(job_key));
        self.sockets.watch_listener()
    }

    fn business_card(&self, card: &mut CardWriter) -> Result<(), CardError> {
        card::emit(self.interfaces.published(), self.sockets.port(), card)
    }

    fn reachable(&mut self, card: &Card) -> Result<(), VcError> {
        self.reach(card).map_err(|e| VcError::of_card(e.to_string()))
    }

    fn rma(&mut self, _core: &Core, _vc: VcId) -> Option<&mut dyn Rma> {
        Some(self)
    }

    fn finalize(&mut self, core: &mut Core, now: Time) -> Finalize {
        self.end(core, now)
    }
}

impl Diagnose for TcpNetmod {
    fn failure(&self) -> Option<&str> {
        None
    }

    fn opened(&self) -> String {
        let addresses: Vec<String> = self.interfaces.addresses().map(|a| a.to_string()).collect();
        format!("port {} of {}", self.sockets.port(), addresses.join(", "))
    }

    fn report(&self) -> Option<Report> {
        Some(Box::new(TcpReport { stats: self.stats, connections: self.connections() }))
    }

    fn break_connection(&mut self, _core: &mut Core, vc: VcId, how: Break) -> Result<bool, VcError> {
        match how {
            Break::Reset => self.sever(vc, |c| sys::reset(c.fd())),
            Break::Shut => self.sever(vc, |c| c.socket.shutdown(std::net::Shutdown::Both)),
            Break::Rail(rail) => self.sever_rail(vc, rail),
        }
    }

    fn describe(&self, core: &Core, vc: VcId) -> String {
        self.describe_vc(core, vc)
    }
}
