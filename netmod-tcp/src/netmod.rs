//! The netmod as a whole: its state, and the `Netmod` trait.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};

use crate::config::TcpConfig;
use netmod_connection::{Identity, JobKey};
use netmod_core::slab::VcKind;
use netmod_core::{
    Arm, Break, Card, CardError, CardWriter, Core, DeviceError, Diagnose, DynamicProcesses, Event, Events,
    Finalize, GroupId, Header, Module, Netmod, PacketFault, PeerName, PollOrder, Pollers, Refusal,
    RemoteGroup, Report, ReqId, Rma, RxBuf, SendBuf, Sent, SideTable, Slab, Time, VcError, VcErrorKind, VcId,
    VcLife, port_group,
};

use crate::NAME;
use crate::address::{self, Listener};
use crate::checkpoint::Checkpoint;
use crate::conn::{self, Conn, ConnId, ConnKind};
use crate::ending::Ending;
use crate::error::OpenError;
use crate::hot::Hot;
use crate::link::{LinkConfig, LinkEvent, Phase};
use crate::own::Own;
use crate::peers::Peers;
use crate::rail::Rails;
use crate::stats::{TcpReport, TcpStats};
use crate::sys::{self, Epoll, Interest, RxArena};
use crate::txq::Data;
use crate::vc::{Fresh, TcpVc};
use crate::watch::Watching;
use crate::way::Ways;

/// The key of the listener in epoll; no connection has it.
pub(crate) const LISTENER: u64 = u64::MAX;
/// The key of what tells of changes of interfaces.
pub(crate) const INTERFACES: u64 = u64::MAX - 1;

/// The TCP netmod of one process.
pub struct TcpNetmod {
    pub(crate) cfg: TcpConfig,
    pub(crate) link_cfg: LinkConfig,
    pub(crate) id: Identity,
    pub(crate) own: Own,
    pub(crate) epoll: Epoll,
    pub(crate) listener: Option<Listener>,
    /// When accepting goes on after descriptors ran out.
    pub(crate) accept_again: Time,
    pub(crate) conns: Slab<Conn, ConnKind>,
    /// Of the VCs that were used: boxed, so that others cost no more than a place in a table.
    pub(crate) vcs: SideTable<Box<TcpVc>, VcKind>,
    /// All VCs in the charge of this netmod.
    pub(crate) by_peer: Peers,
    pub(crate) fresh: Fresh,
    /// Proved peers without a VC.
    pub(crate) unclaimed: Vec<(PeerName, ConnId)>,
    /// Incoming connections that have proved nothing, oldest first, with their deadlines.
    pub(crate) strangers: VecDeque<(Time, ConnId)>,
    /// Dials between interfaces that no host has answered yet, with their deadlines.
    pub(crate) connecting: VecDeque<(Time, ConnId)>,
    pub(crate) lingering: Vec<ConnId>,
    /// Of them, those of strangers that were refused, oldest first.
    pub(crate) refused: VecDeque<ConnId>,
    pub(crate) arena: RxArena,
    pub(crate) hot: Hot,
    /// Where a small message is put together.
    pub(crate) scratch: Vec<u8>,
    pub(crate) dirty: Vec<VcId>,
    /// VCs of which the kernel takes nothing at present.
    pub(crate) stuck: Vec<VcId>,
    pub(crate) wanting: Vec<VcId>,
    pub(crate) timed: Vec<VcId>,
    /// VCs whose connection is to go over to a better pair of interfaces.
    pub(crate) movers: Vec<VcId>,
    /// VCs that owe acknowledgements; with data of sent messages in the senders' memory; with memory to spare.
    pub(crate) owing: Vec<VcId>,
    pub(crate) lending: Vec<VcId>,
    pub(crate) untidy: Vec<VcId>,
    /// When debts are paid, and memory is given back, at the latest.
    pub(crate) ack_at: Time,
    pub(crate) tidy_at: Time,
    pub(crate) rails: Rails,
    /// Polls in a row that have found nothing.
    pub(crate) idle_polls: u32,
    /// Connections with checked bytes that had no room in the last poll.
    pub(crate) unread: Vec<ConnId>,
    pub(crate) watching: Watching,
    pub(crate) next_timer: Time,
    /// When the open connections are looked at, or `NEVER`.
    pub(crate) next_pulse: Time,
    /// Events that arose outside `poll`.
    pub(crate) events: VecDeque<Event>,
    pub(crate) now: Time,
    /// Counts polls, so that a send knows whether it is the first since the last one.
    pub(crate) epoch: u32,
    pub(crate) stats: TcpStats,
    pub(crate) ending: Ending,
    pub(crate) checkpoint: Checkpoint,
    /// Restarts after a checkpoint.
    pub(crate) restarts: u32,
}

impl std::fmt::Debug for TcpNetmod {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TcpNetmod")
            .field("me", &self.id.me())
            .field("conns", &self.conns.len())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

/// Enters the listener into epoll, which may lack room for it; nothing is told of it before [`TcpNetmod::watch_listener`].
pub(crate) fn enter_listener(epoll: &Epoll, listener: &Listener) -> Result<(), DeviceError> {
    epoll
        .add(listener.socket.as_raw_fd(), LISTENER, Interest::NONE)
        .map_err(|e| DeviceError::new(NAME, format!("cannot watch the listening socket: {e}")))
}

impl TcpNetmod {
    /// Opens the listener. Nobody is accepted before [`Module::join_job`].
    ///
    /// `group_size` is the number of processes of `me`'s group.
    ///
    /// # Errors
    /// [`OpenError::Setting`]; or [`OpenError::Host`] if there is no interface or port to listen on, or no descriptor for it.
    pub fn new(cfg: TcpConfig, me: PeerName, group_size: u32) -> Result<TcpNetmod, OpenError> {
        let incarnation = crate::shake::random()
            .map(u64::from_ne_bytes)
            .map_err(|e| DeviceError::new(NAME, e.to_string()))?;
        let mut own = Own::new(&cfg)?;
        let listener = address::listen(&cfg, &mut own, 0)?;
        let epoll = Epoll::new()
            .map_err(|e| DeviceError::new(NAME, format!("cannot make an epoll instance: {e}")))?;
        enter_listener(&epoll, &listener)?;
        let link_cfg = LinkConfig {
            connect_timeout: cfg.connect_timeout,
            handshake_timeout: cfg.hello_timeout,
            backoff_min: cfg.backoff_min,
            backoff_max: cfg.backoff_max,
            resume_timeout: cfg.resume_timeout,
            ckpt_timeout: cfg.ckpt_timeout,
            ..LinkConfig::default()
        };
        let rails = Rails::new(cfg.rails_loopback);
        Ok(TcpNetmod {
            arena: RxArena::new(cfg.rx_buffer.max(4096)),
            cfg,
            link_cfg,
            id: Identity::new(me, group_size, incarnation),
            own,
            epoll,
            listener: Some(listener),
            accept_again: Time::NEVER,
            conns: Slab::new(),
            vcs: SideTable::new(),
            by_peer: Peers::new(me.group),
            fresh: Fresh::default(),
            unclaimed: Vec::new(),
            strangers: VecDeque::new(),
            connecting: VecDeque::new(),
            lingering: Vec::new(),
            refused: VecDeque::new(),
            hot: Hot::default(),
            scratch: Vec::with_capacity(size_of::<Header>() + crate::txq::COPY_MAX),
            dirty: Vec::new(),
            stuck: Vec::new(),
            wanting: Vec::new(),
            timed: Vec::new(),
            movers: Vec::new(),
            owing: Vec::new(),
            lending: Vec::new(),
            untidy: Vec::new(),
            ack_at: Time::NEVER,
            tidy_at: Time::NEVER,
            rails,
            idle_polls: 0,
            unread: Vec::new(),
            watching: Watching::default(),
            next_timer: Time::NEVER,
            next_pulse: Time::NEVER,
            events: VecDeque::new(),
            now: Time::ZERO,
            epoch: 1,
            stats: TcpStats::default(),
            ending: Ending::No,
            checkpoint: Checkpoint::None,
            restarts: 0,
        })
    }

    /// Has epoll tell of connections from now on.
    pub(crate) fn watch_listener(&self) -> Result<(), DeviceError> {
        let Some(l) = &self.listener else { return Ok(()) };
        self.epoll
            .modify(l.socket.as_raw_fd(), LISTENER, Interest::READ)
            .map_err(|e| DeviceError::new(NAME, format!("cannot watch the listening socket: {e}")))
    }

    /// What the netmod has seen.
    pub fn stats(&self) -> TcpStats {
        self.stats
    }

    /// The addresses at which peers find it, those of the loopback interface last.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let port = self.port();
        self.own.addresses().map(|ip| SocketAddr::new(ip, port)).collect()
    }

    /// The port at which it listens; 0 if it does not.
    pub(crate) fn port(&self) -> u16 {
        self.listener.as_ref().map_or(0, |l| l.port)
    }

    /// Connections that are open, in whatever stage.
    pub fn connections(&self) -> usize {
        self.conns.len()
    }

    pub(crate) fn no_such_vc() -> VcError {
        VcError::new(VcErrorKind::Aborted, None, "the VC is not in the charge of netmod tcp")
    }

    pub(crate) fn ways_of(&mut self, peer: PeerName, card: &Card) -> Result<Ways, VcError> {
        let decides = self.id.name_towards(&peer.group) < peer;
        let found = address::parse(card)
            .and_then(|(published, port)| Ok(Ways { paired: self.own.ways_to(&published, decides)?, port }));
        self.watch_interfaces();
        found.map_err(|e| VcError::new(VcErrorKind::Card, Some(peer), e))
    }

    /// Takes the ways to the peer of a VC that is in use.
    fn take_ways(&mut self, core: &Core, vc: VcId, card: &Card) -> Result<(), VcError> {
        let peer = self.first_use(core, vc)?.peer;
        let ways = self.ways_of(peer, card)?;
        if let Some(v) = self.vcs.get_mut(vc) {
            v.ways = Some(ways);
            v.reckon(self.cfg.rails);
        }
        Ok(())
    }
}

impl VcLife for TcpNetmod {
    fn vc_init(
        &mut self,
        core: &mut Core,
        vc: VcId,
        peer: PeerName,
        card: Option<&Card>,
    ) -> Result<(), VcError> {
        if let Some(old) = self.by_peer.get(&peer) {
            return Err(VcError::new(
                VcErrorKind::Aborted,
                Some(peer),
                format!("it has a VC already ({old})"),
            ));
        }
        if let Some(card) = card {
            let ways = self.ways_of(peer, card)?;
            self.fresh.put(vc, ways);
        }
        self.by_peer.insert(peer, vc);
        while let Some(i) = self.unclaimed.iter().position(|(p, _)| *p == peer) {
            let (_, conn) = self.unclaimed.swap_remove(i);
            self.incoming(core, vc, conn);
        }
        Ok(())
    }

    fn set_card(&mut self, core: &mut Core, vc: VcId, card: Result<&Card, VcError>) {
        let taken = card.and_then(|c| self.take_ways(core, vc, c));
        if let Some(v) = self.vcs.get_mut(vc) {
            v.asked_card = false;
        }
        match taken {
            Ok(()) => self.want(vc),
            Err(e) => self.vc_abort(core, vc, e),
        }
    }

    fn refuse_peer(&mut self, peer: PeerName, why: Refusal) {
        while let Some(i) = self.unclaimed.iter().position(|(p, _)| *p == peer) {
            let (_, conn) = self.unclaimed.swap_remove(i);
            self.reject(conn, why.into());
        }
    }

    fn vc_destroy(&mut self, core: &mut Core, vc: VcId) {
        self.fresh.take(vc);
        if let Some(peer) = self.by_vc(core, vc) {
            self.by_peer.remove(&peer);
        }
        if let Some(v) = self.vcs.get(vc) {
            let error = VcError::new(VcErrorKind::Aborted, Some(v.peer), "the VC was destroyed");
            self.end_rails(vc, &error);
        }
        let Some(mut v) = self.vcs.remove(vc) else { return };
        for c in [v.link.conn(), v.link.moving()].into_iter().flatten() {
            self.close(conn::id(c));
        }
        if let Some(q) = &mut v.txq {
            let e = VcError::new(VcErrorKind::Aborted, Some(v.peer), "the VC was destroyed");
            q.fail(core, &e);
        }
        core.reset_receive(vc);
    }

    fn vc_terminate(&mut self, core: &mut Core, vc: VcId, now: Time) {
        self.now = now;
        if self.first_use(core, vc).is_err() {
            // At the netmod's end: a VC that was never used has nothing to say.
            if self.by_vc(core, vc).is_some() {
                self.events.push_back(Event::Terminated { vc });
            }
            return;
        }
        self.acknowledge(vc, 1);
        self.flush_vc(core, vc);
        let Some(pending) = self.vcs.get(vc).map(|v| !v.is_settled()) else { return };
        self.link_event(core, vc, LinkEvent::Terminate { pending });
        // From now on the peer is told at once what was read: it may be waiting for that.
        if let Some(c) = self.vcs.get(vc).and_then(|v| v.link.up())
            && let Some(c) = self.conns.get_mut(conn::id(c))
        {
            c.owe_at = c.owe_at.min(c.rx + 1);
        }
    }

    fn vc_abort(&mut self, core: &mut Core, vc: VcId, error: VcError) {
        let (now, cfg) = (self.now, self.link_cfg);
        let Ok(v) = self.first_use(core, vc) else { return };
        // What the link wants done is moot: its connection is closed here, and the VC fails for our reason.
        let conns = [v.link.conn(), v.link.moving()];
        let _ = v.link.on(LinkEvent::Abort, now, &cfg);
        for c in conns.into_iter().flatten() {
            self.close(conn::id(c));
        }
        self.vc_failed(core, vc, error);
    }

    fn watch_peer(&mut self, core: &mut Core, vc: VcId, now: Time) -> bool {
        self.ask_after(core, vc, now)
    }

    fn vc_revive(&mut self, core: &mut Core, vc: VcId, card: Option<&Card>) -> Result<(), VcError> {
        if let Some(card) = card {
            self.take_ways(core, vc, card)?;
        }
        self.link_event(core, vc, LinkEvent::Revive);
        if let Some(v) = self.vcs.get_mut(vc)
            && v.link.phase() == Phase::Idle
        {
            v.cause = None;
            v.asked_card = false;
        }
        Ok(())
    }
}

impl DynamicProcesses for TcpNetmod {
    fn connect_to_root(
        &mut self,
        core: &mut Core,
        vc: VcId,
        card: &Card,
        port_tag: u64,
    ) -> Result<(), VcError> {
        let peer = PeerName { group: port_group(port_tag), rank: 0 };
        self.vc_init(core, vc, peer, Some(card))?;
        self.first_use(core, vc)?.port = Some(port_tag);
        self.link_event(core, vc, LinkEvent::WantSend);
        Ok(())
    }

    fn open_port(&mut self, port: u64, key: [u8; 32]) -> Result<(), DeviceError> {
        self.id.open_port(port, JobKey(key));
        Ok(())
    }

    fn close_port(&mut self, port: u64) {
        self.id.close_port(port);
    }

    fn join_group(&mut self, met: &RemoteGroup) -> Result<(), DeviceError> {
        self.id.meet(*met);
        Ok(())
    }

    fn leave_group(&mut self, id: &GroupId) {
        self.id.part(id);
        while let Some((_, conn)) = self.unclaimed.iter().find(|(p, _)| p.group == *id).copied() {
            self.reject(conn, netmod_connection::RejectReason::Finalized);
        }
    }
}

impl netmod_core::Checkpoint for TcpNetmod {
    fn can_ckpt(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn ckpt_shutdown(&mut self, core: &mut Core, now: Time) -> Result<Finalize, DeviceError> {
        self.quiesce(core, now)
    }

    fn ckpt_restart(&mut self, core: &mut Core, now: Time) -> Result<(), DeviceError> {
        self.restart(core, now)
    }

    fn ckpt_peer(&mut self, core: &mut Core, vc: VcId, card: &Card) -> Result<(), VcError> {
        self.peer_is_back(core, vc, card)
    }
}

// SAFETY: a message leaves the queue before its request is handed back; pools keep lent buffers.
#[allow(unsafe_code)]
unsafe impl Netmod for TcpNetmod {
    #[inline]
    fn i_send_contig(
        &mut self,
        core: &mut Core,
        vc: VcId,
        req: ReqId,
        hdr: &Header,
        data: SendBuf,
    ) -> Result<Sent, VcError> {
        let Some(gone) = self.send(core, vc, hdr, &data)? else { return Ok(Sent::Done) };
        self.enqueue(core, vc, hdr, Data::Contig(data), gone, req);
        Ok(Sent::Queued)
    }

    #[inline]
    fn i_start_contig_msg(
        &mut self,
        core: &mut Core,
        vc: VcId,
        hdr: &Header,
        data: SendBuf,
    ) -> Result<Option<ReqId>, VcError> {
        match self.send(core, vc, hdr, &data)? {
            None => Ok(None),
            Some(gone) => {
                if gone == 0
                    && let Some(req) = self.stage(core, vc, hdr, data.bytes())
                {
                    return Ok(Some(req));
                }
                let req = core.add_req(netmod_core::Request::new(Some(vc), netmod_core::Segment::empty()));
                self.enqueue(core, vc, hdr, Data::Contig(data), gone, req);
                Ok(Some(req))
            }
        }
    }

    fn send_noncontig(
        &mut self,
        core: &mut Core,
        vc: VcId,
        req: ReqId,
        hdr: &Header,
    ) -> Result<Sent, VcError> {
        self.check_sendable(core, vc)?;
        let len = core.req(req).map_or(0, |r| r.seg.remaining());
        core.count_send(vc, len);
        self.enqueue(core, vc, hdr, Data::Segment, 0, req);
        // A large message, or a lone one, goes out now.
        self.flush_lone(core, vc);
        Ok(Sent::Queued)
    }

    fn cancel_send(&mut self, core: &mut Core, vc: VcId, req: ReqId) -> bool {
        self.vcs.get_mut(vc).and_then(|v| v.txq.as_mut()).is_some_and(|q| q.cancel(core, req))
    }

    fn control_frame(&mut self, core: &mut Core, vc: VcId, hdr: &Header) -> Result<(), PacketFault> {
        self.control(core, vc, hdr).map_err(PacketFault::violation)
    }

    #[inline]
    fn flush(&mut self, core: &mut Core) {
        if !self.stuck.is_empty() {
            self.flush_stuck(core);
        }
        self.flush_staged(core);
        if !(self.dirty.is_empty() && self.stuck.is_empty()) {
            core.note_staged();
        }
    }

    #[inline]
    fn poll(
        &mut self,
        core: &mut Core,
        order: PollOrder,
        now: Time,
        events: &mut Events,
    ) -> Result<(), DeviceError> {
        self.now = now;
        self.epoch = self.epoch.wrapping_add(1);
        self.arena.recycle();
        if !self.wanting.is_empty() {
            self.dial_wanted(core);
        }
        if order == PollOrder::OutFirst {
            self.flush_staged(core);
        }
        while let Some(ev) = self.events.pop_front() {
            events.push(ev);
        }
        self.poll_in(core, events)?;
        if now >= self.next_timer {
            self.timers_due(core, now, events)?;
        }
        if order == PollOrder::InFirst {
            self.flush_staged(core);
        }
        // What has failed by now is told with it, not after it.
        while let Some(ev) = self.events.pop_front() {
            events.push(ev);
        }
        if !events.is_empty() {
            self.idle_polls = 0;
        } else if !(self.owing.is_empty() && self.lending.is_empty()) {
            self.idle_polls = self.idle_polls.saturating_add(1);
            self.idle(core);
        }
        if !(self.dirty.is_empty() && self.stuck.is_empty()) {
            core.note_staged();
        }
        Ok(())
    }

    #[inline]
    fn release(&mut self, buf: RxBuf) {
        self.arena.give_back(buf);
    }

    fn wait_fd(&self) -> Option<RawFd> {
        (!self.epoll.is_closed()).then(|| self.epoll.raw_fd())
    }

    fn arm(&mut self, core: &mut Core) -> Arm {
        let idle = self.owing.is_empty() && self.lending.is_empty();
        let finished = !idle && self.before_blocking(core);
        self.flush_staged(core);
        self.rejoin_epoll_all();
        // Epoll is level-triggered: what is there already makes the descriptor readable.
        if !finished
            && self.events.is_empty()
            && self.wanting.is_empty()
            && self.dirty.is_empty()
            && self.unread.is_empty()
        {
            Arm::Armed
        } else {
            Arm::Busy
        }
    }

    fn deadline(&self) -> Option<Time> {
        (self.next_timer != Time::NEVER).then_some(self.next_timer)
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
        self.watch_listener()
    }

    fn business_card(&self, card: &mut CardWriter) -> Result<(), CardError> {
        address::emit(self.own.published(), self.port(), card)
    }

    fn reachable(&mut self, card: &Card) -> Result<(), VcError> {
        let (peer, _) = address::parse(card).map_err(VcError::of_card)?;
        self.own.ways_to(&peer, true).map(drop).map_err(VcError::of_card)
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
        let addresses: Vec<String> = self.own.addresses().map(|a| a.to_string()).collect();
        format!("port {} of {}", self.port(), addresses.join(", "))
    }

    fn report(&self) -> Option<Report> {
        Some(Box::new(TcpReport { stats: self.stats, connections: self.conns.len() }))
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
