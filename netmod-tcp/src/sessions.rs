//! The VCs of a netmod, their sessions, and the work that they wait for.
//!
//! A session outlives its connections. The bytes of one direction behind the handshake, control
//! frames included, are one stream over all connections of a session, and its positions are the
//! sequence numbers. A receiver counts what it has read, in whole messages or not, tells the sender
//! now and then (ACK), and exactly in the handshake of the next connection, which goes on there.
//!
//! An acknowledgement costs the sender a system call. So one is sent when much is outstanding, when
//! nothing else is to be done, or when a sender may be waiting for it; never for acknowledgements
//! alone, unless they are many.

use std::time::Duration;

use netmod_core::slab::VcKind;
use netmod_core::{Core, Header, PeerName, SideTable, Time, VcError, VcErrorKind, VcId};

use crate::clock::Clock;
use crate::conn::{self, Conn, ConnId};
use crate::control::{CONTROL_LEN, Control};
use crate::link::{Failure, Phase};
use crate::sockets::Sockets;
use crate::stats::TcpStats;
use crate::txq::{COPY_MAX, KEEP_BOUND, WindowError};
use crate::vc::TcpVc;
use crate::vc::fresh::Fresh;
use crate::vc::peers::Peers;
use crate::vc::session::Loss;
use crate::work::WorkLists;

/// Outstanding bytes of small messages that are acknowledged at once, so that their copies stay in
/// the sender's cache.
const OWED: u64 = 128 << 10;
/// The same while large messages are received.
const OWED_BULK: u64 = 512 << 10;
const _: () = assert!(OWED_BULK < KEEP_BOUND as u64);
/// Outstanding bytes for which a sender may wait: they are acknowledged with other bytes that
/// leave, when a large receive is through, and before blocking.
pub(crate) const OWED_WAITING: u64 = 64 << 10;
/// Bytes of outstanding control frames that are acknowledged like messages, so that the window does
/// not fill with them.
const OWED_CONTROL: u64 = 4 << 10;
/// Empty polls after which what a sender may wait for is acknowledged.
const IDLE_SOON: u32 = 16;
/// Empty polls after which everything is acknowledged.
const IDLE_LONG: u32 = 1024;
/// The same in time, for a process that blocks.
const ACK_DELAY: Duration = Duration::from_millis(5);
/// Time after which memory that an idle VC has no use for is given back.
const TIDY_DELAY: Duration = Duration::from_secs(2);

/// A violation of a session's protocol by the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum SessionError {
    #[error("an acknowledgement on a connection without a session")]
    NoSession,
    #[error("it resumes at byte {position} of a session that has just begun")]
    JustBegun { position: u64 },
    #[error(transparent)]
    Window(#[from] WindowError),
}

/// The start of an adopted connection.
#[derive(Debug)]
pub(crate) enum Begun {
    /// A session begins, or none can be resumed.
    Fresh,
    /// The session of the connection before goes on; that one was lost for this reason.
    Resumed(Option<Failure>),
}

/// The VCs of a netmod.
#[derive(Debug)]
pub(crate) struct Sessions {
    /// VCs that were used: boxed, so that others cost no more than an entry of a table.
    pub(crate) vcs: SideTable<Box<TcpVc>, VcKind>,
    /// All VCs in the charge of this netmod.
    pub(crate) peers: Peers,
    pub(crate) fresh: Fresh,
    /// Authenticated peers without a VC.
    pub(crate) unclaimed: Vec<(PeerName, ConnId)>,
    pub(crate) work: WorkLists,
    /// Buffer in which a small message is put together.
    pub(crate) scratch: Vec<u8>,
    /// Time at which everything outstanding is acknowledged, or `NEVER`.
    ack_at: Time,
    /// Time at which memory is given back, or `NEVER`.
    tidy_at: Time,
    /// Empty polls in a row.
    pub(crate) idle_polls: u32,
}

impl Sessions {
    /// Makes the sessions of the process `me`, without VCs.
    pub(crate) fn new(me: &PeerName) -> Sessions {
        Sessions {
            vcs: SideTable::new(),
            peers: Peers::new(me.group),
            fresh: Fresh::default(),
            unclaimed: Vec::new(),
            work: WorkLists::default(),
            scratch: Vec::with_capacity(size_of::<Header>() + COPY_MAX),
            ack_at: Time::NEVER,
            tidy_at: Time::NEVER,
            idle_polls: 0,
        }
    }

    /// Returns all VCs that were used.
    pub(crate) fn all(&self) -> Vec<VcId> {
        self.vcs.iter().map(|(vc, _)| vc).collect()
    }

    /// Returns the peer of a VC that is in the charge of this netmod.
    pub(crate) fn peer_of(&self, core: &Core, vc: VcId) -> Option<PeerName> {
        core.vc(vc).map(|v| v.peer).filter(|p| self.peers.get(p) == Some(vc))
    }

    /// Returns the peer's name, once the VC was used.
    pub(crate) fn peer(&self, vc: VcId) -> Option<PeerName> {
        self.vcs.get(vc).map(|v| v.peer)
    }

    /// Removes and returns a connection of an authenticated peer without a VC.
    pub(crate) fn claim(&mut self, peer: &PeerName) -> Option<ConnId> {
        let i = self.unclaimed.iter().position(|(p, _)| p == peer)?;
        Some(self.unclaimed.swap_remove(i).1)
    }

    /// Forgets a connection as that of an authenticated peer without a VC.
    pub(crate) fn disclaim(&mut self, peer: &PeerName, id: ConnId) {
        self.unclaimed.retain(|u| *u != (*peer, id));
    }

    /// Forgets the descriptor of a connection that is closed, or about to be.
    pub(crate) fn detach(&mut self, c: &Conn) {
        if let Some(v) = c.vc.and_then(|vc| self.vcs.get_mut(vc))
            && v.tx.fd == c.fd()
        {
            v.disconnect();
        }
    }

    /// Notes that a VC has messages and no connection.
    pub(crate) fn want(&mut self, vc: VcId) {
        if let Some(v) = self.vcs.get_mut(vc) {
            self.work.wanting.add(vc, &mut v.listed);
        }
    }

    /// Has the next flush write what a VC has queued.
    pub(crate) fn mark_dirty(&mut self, vc: VcId) {
        if let Some(v) = self.vcs.get_mut(vc) {
            self.work.dirty.add(vc, &mut v.listed);
        }
    }

    /// Has a flush ask the kernel again for a blocked VC.
    pub(crate) fn press(&mut self, vc: VcId) {
        if let Some(v) = self.vcs.get_mut(vc) {
            self.work.stuck.add(vc, &mut v.listed);
        }
    }

    /// Notes that data of sent messages is in their senders' memory: it is copied when there is
    /// time.
    pub(crate) fn lend(&mut self, vc: VcId) {
        if let Some(v) = self.vcs.get_mut(vc) {
            self.work.lending.add(vc, &mut v.listed);
        }
    }

    /// Queues a control frame, to leave with the next flush.
    pub(crate) fn say(&mut self, vc: VcId, frame: Control) {
        let Some(v) = self.vcs.get_mut(vc) else { return };
        v.tx.queue.get_or_insert_default().push_control(&frame.emit());
        self.work.dirty.add(vc, &mut v.listed);
    }

    /// Takes note that more was read than the connection had been told to report, or acknowledges
    /// it.
    #[cold]
    pub(crate) fn owes(&mut self, sockets: &mut Sockets, stats: &mut TcpStats, vc: VcId, id: ConnId) {
        let Some(c) = sockets.conns.get_mut(id) else { return };
        let Some(v) = self.vcs.get_mut(vc) else { return };
        if v.session.id == 0 {
            c.rx.owe_at = u64::MAX;
            return;
        }
        let limit = if c.rx.bulk { OWED_BULK } else { OWED };
        let now = v.link.is_terminating();
        c.rx.owe_at = if now { c.rx.position + 1 } else { v.session.told + limit };
        let acknowledge = now || c.rx.position >= v.session.told + limit;
        self.work.owing.add(vc, &mut v.listed);
        if acknowledge {
            self.acknowledge(sockets, stats, vc, 1);
        }
    }

    /// Acknowledges what was read on a VC, with the next flush, if at least `least` bytes are
    /// outstanding.
    pub(crate) fn acknowledge(&mut self, sockets: &mut Sockets, stats: &mut TcpStats, vc: VcId, least: u64) {
        if self.queue_ack(sockets, stats, vc, least) {
            self.mark_dirty(vc);
        }
    }

    /// Acknowledges a large receive that is through: its sender may be waiting, and this process
    /// may have other things to do now.
    #[inline]
    pub(crate) fn received_large(&mut self, sockets: &mut Sockets, stats: &mut TcpStats, vc: VcId) {
        self.acknowledge(sockets, stats, vc, OWED);
    }

    /// Returns the bytes of messages that are read and not acknowledged.
    fn outstanding(&self, sockets: &Sockets, vc: VcId) -> u64 {
        let Some(v) = self.vcs.get(vc).filter(|v| v.session.id != 0) else { return 0 };
        let Some(c) = v.link.up().and_then(|c| sockets.conns.get(conn::id(c))) else { return 0 };
        c.rx.position.saturating_sub(v.session.told + v.session.told_control)
    }

    /// Queues an acknowledgement, if at least `least` bytes are outstanding. Returns true if it
    /// did.
    pub(crate) fn queue_ack(
        &mut self,
        sockets: &mut Sockets,
        stats: &mut TcpStats,
        vc: VcId,
        least: u64,
    ) -> bool {
        let Some(v) = self.vcs.get_mut(vc) else { return false };
        let (Some(key), true) = (v.link.up(), v.session.id != 0) else { return false };
        let Some(c) = sockets.conns.get_mut(conn::id(key)) else { return false };
        let owed = c.rx.position.saturating_sub(v.session.told + v.session.told_control);
        if owed < least && v.session.told_control < OWED_CONTROL {
            return false;
        }
        if c.rx.position == v.session.told {
            return false;
        }
        let limit = if c.rx.bulk { OWED_BULK } else { OWED };
        v.session.told = c.rx.position;
        v.session.told_control = 0;
        c.rx.owe_at = c.rx.position + if self.work.owing.has(v.listed) { limit } else { 1 };
        v.tx.queue.get_or_insert_default().push_control(&Control::Ack { position: c.rx.position }.emit());
        stats.acks += 1;
        true
    }

    /// Acknowledges everything on each VC with at least `least` outstanding bytes.
    #[cold]
    fn acknowledge_all(&mut self, sockets: &mut Sockets, stats: &mut TcpStats, least: u64) {
        let mut i = 0;
        while let Some(vc) = self.work.owing.get(i) {
            self.acknowledge(sockets, stats, vc, least);
            if self.outstanding(sockets, vc) > 0 {
                i += 1;
                continue;
            }
            let v = self.vcs.get_mut(vc);
            if let Some(v) = &v
                && let Some(c) = v.link.up().and_then(|c| sockets.conns.get_mut(conn::id(c)))
                && v.session.id != 0
            {
                c.rx.owe_at = c.rx.position + 1;
            }
            self.work.owing.remove(i, v.map(|v| &mut v.listed));
        }
    }

    /// Returns the outstanding acknowledgement, if there is one, to precede the last words on a
    /// connection.
    pub(crate) fn last_acknowledgement(&mut self, stats: &mut TcpStats, vc: VcId, c: &Conn) -> Vec<u8> {
        let Some(v) = self.vcs.get_mut(vc) else { return Vec::new() };
        if v.session.id == 0 || c.rx.position == v.session.told {
            return Vec::new();
        }
        v.session.told = c.rx.position;
        stats.acks += 1;
        Control::Ack { position: c.rx.position }.emit().to_vec()
    }

    /// Serves a poll that has found nothing while acknowledgements or lent memory are outstanding.
    #[cold]
    pub(crate) fn idle(&mut self, core: &mut Core, sockets: &mut Sockets, stats: &mut TcpStats) {
        if self.idle_polls >= IDLE_SOON {
            self.keep_lent(core);
        }
        match self.idle_polls {
            IDLE_SOON => self.acknowledge_all(sockets, stats, OWED_WAITING),
            IDLE_LONG => self.acknowledge_all(sockets, stats, 1),
            _ => {}
        }
    }

    /// Prepares for the process to block. Returns true if that has finished requests, so that there
    /// may be no need to.
    #[cold]
    pub(crate) fn before_blocking(
        &mut self,
        core: &mut Core,
        sockets: &mut Sockets,
        clock: &mut Clock,
        stats: &mut TcpStats,
    ) -> bool {
        let finished = self.keep_lent(core);
        self.acknowledge_all(sockets, stats, OWED_WAITING);
        if !self.work.owing.is_empty() && self.ack_at == Time::NEVER {
            self.ack_at = clock.now + ACK_DELAY;
            clock.wake_by(self.ack_at);
        }
        finished
    }

    /// Serves the timers of acknowledgements and of memory.
    pub(crate) fn serve_timers(&mut self, sockets: &mut Sockets, clock: &mut Clock, stats: &mut TcpStats) {
        if clock.now >= self.ack_at {
            self.ack_at = Time::NEVER;
            self.acknowledge_all(sockets, stats, 1);
        }
        if clock.now >= self.tidy_at {
            self.tidy_at = Time::NEVER;
            self.tidy();
            if !self.work.untidy.is_empty() {
                self.tidy_at = clock.now + TIDY_DELAY;
            }
        }
        clock.wake_by(self.ack_at.min(self.tidy_at));
    }

    /// Gives back memory of the VCs that have sent nothing since they were last seen to hold much.
    fn tidy(&mut self) {
        let mut i = 0;
        while let Some(vc) = self.work.untidy.get(i) {
            let mut v = self.vcs.get_mut(vc);
            let used = v.as_mut().is_some_and(|v| {
                let Some(q) = &mut v.tx.queue else { return false };
                // One that has sent since has use for its memory.
                let used = std::mem::replace(&mut v.session.tidy_mark, q.sent()) != q.sent();
                if !used {
                    q.shrink();
                }
                used
            });
            if used {
                i += 1;
            } else {
                self.work.untidy.remove(i, v.map(|v| &mut v.listed));
            }
        }
    }

    /// Copies what senders wait for where everything of their VC has been handed to the kernel.
    /// Returns true if there was any.
    #[cold]
    fn keep_lent(&mut self, core: &mut Core) -> bool {
        let (mut i, mut any) = (0, false);
        while let Some(vc) = self.work.lending.get(i) {
            let mut v = self.vcs.get_mut(vc);
            let done = match v.as_mut().and_then(|v| v.tx.queue.as_deref_mut()) {
                Some(q) if q.is_lent() => {
                    // While more is to go, the acknowledgement will be there before the senders are
                    // through.
                    if !q.is_sendable() {
                        let lent = q.lent();
                        q.keep_all(core, vc);
                        any |= q.lent() < lent;
                    }
                    !q.is_lent()
                }
                _ => true,
            };
            if done {
                self.work.lending.remove(i, v.map(|v| &mut v.listed));
            } else {
                i += 1;
            }
        }
        any
    }

    /// Takes an acknowledgement of the peer. Returns true if a VC that is being terminated has
    /// thereby nothing more to say.
    ///
    /// # Errors
    /// If there is nothing to be acknowledged.
    pub(crate) fn acknowledged(
        &mut self,
        core: &mut Core,
        clock: &mut Clock,
        vc: VcId,
        position: u64,
    ) -> Result<bool, SessionError> {
        let Some(v) = self.vcs.get_mut(vc) else { return Ok(false) };
        // Bytes that are handled here may have been acknowledged when they were read, with all
        // others read at that time.
        let handled = core.vc(vc).map_or(0, |v| v.stats.rx_bytes).saturating_sub(v.session.rx_base);
        if v.session.told < handled {
            v.session.told_control += CONTROL_LEN as u64;
        }
        if v.link.phase() == Phase::Parting {
            // The goodbye has been acknowledged too, and nobody waits for it.
            return Ok(false);
        }
        if v.session.id == 0 {
            return Err(SessionError::NoSession);
        }
        let q = v.tx.queue.get_or_insert_default();
        q.acknowledge(core, vc, position)?;
        if q.is_sendable() && v.tx.fd >= 0 && !v.tx.blocked {
            self.work.dirty.add(vc, &mut v.listed);
        }
        if !q.is_settled() {
            return Ok(false);
        }
        if q.is_large() && !self.work.untidy.has(v.listed) {
            self.work.untidy.add(vc, &mut v.listed);
            v.session.tidy_mark = q.sent();
            if self.tidy_at == Time::NEVER {
                self.tidy_at = clock.now + TIDY_DELAY;
                clock.wake_by(self.tidy_at);
            }
        }
        Ok(v.link.is_terminating() && v.link.up().is_some())
    }

    /// Takes note that a VC's connection is gone, and its session is not.
    pub(crate) fn suspend(&mut self, now: Time, vc: VcId, failure: Failure) {
        let Some(v) = self.vcs.get_mut(vc) else { return };
        // The peer may have taken an offer just as that lapsed, and closed this connection.
        let closed = matches!(failure, Failure::Eof | Failure::Errno(libc::ECONNRESET));
        let lapsed = v.routes.upgrade.as_ref().is_some_and(|u| u.has_just_lapsed(now));
        let failure = if closed && lapsed { Failure::Lapsed } else { failure };
        v.disconnect();
        let address = v.routes.address();
        if failure == Failure::Checkpoint {
            tracing::info!(peer = v.peer.rank, "connection closed for a checkpoint");
        } else if failure == Failure::Moved {
            tracing::info!(peer = v.peer.rank, "connection goes over to a better pair of interfaces");
        } else if failure == Failure::Lapsed {
            tracing::info!(peer = v.peer.rank, cause = %failure, "connection ended; connecting again");
        } else {
            tracing::warn!(
                peer = v.peer.rank,
                %address,
                cause = %failure,
                resumes = v.session.resumes,
                "connection lost; connecting again"
            );
        }
        v.session.loss.get_or_insert_with(|| Box::new(Loss { failure, since: now }));
    }

    /// Begins a session on an adopted connection, or goes on with that of the one before.
    ///
    /// # Errors
    /// If the peer has read what was never sent, or wants what is not kept.
    pub(crate) fn begin_or_resume(
        &mut self,
        core: &mut Core,
        now: Time,
        stats: &mut TcpStats,
        vc: VcId,
        c: &mut Conn,
    ) -> Result<Begun, SessionError> {
        let Some(v) = self.vcs.get_mut(vc) else { return Ok(Begun::Fresh) };
        let session = v.link.session();
        let position = c.handshake.peer_position;
        let resumed = session != 0 && session == v.session.id;
        if !resumed {
            v.session.id = session;
            (v.tx.unqueued, v.session.kept_from) = (0, 0);
            v.session.rx = 0;
            v.session.rx_base = core.vc(vc).map_or(0, |v| v.stats.rx_bytes);
            v.session.loss = None;
            if session != 0 || v.tx.queue.is_some() {
                v.tx.queue.get_or_insert_default().begin(core, vc, session != 0);
            }
            if position != 0 {
                return Err(SessionError::JustBegun { position });
            }
        }
        c.rx.position = v.session.rx;
        c.rx.owe_at = if session == 0 { u64::MAX } else { v.session.rx + 1 };
        (v.session.told, v.session.told_control) = (v.session.rx, 0);
        if !resumed {
            (v.routes.pair, v.routes.change) = (c.pair, None);
            return Ok(Begun::Fresh);
        }
        let again = v.tx.queue.get_or_insert_default().rewind(core, vc, position)?;
        let loss = v.session.loss.take();
        let lost = loss.as_ref().is_none_or(|l| !matches!(l.failure, Failure::Moved | Failure::Lapsed));
        v.session.resumes = v.session.resumes.saturating_add(u32::from(lost));
        stats.resumes += u64::from(lost);
        stats.resent_bytes += again;
        if let Some(loss) = &loss {
            let after = now.since(loss.since);
            tracing::info!(peer = v.peer.rank, "resumed after {after:.0?}, {again} bytes sent again");
        }
        Ok(Begun::Resumed(loss.map(|l| l.failure)))
    }

    /// Ends a session that the link has let go of.
    pub(crate) fn end_session(&mut self, core: &mut Core, vc: VcId) {
        if let Some(v) = self.vcs.get_mut(vc)
            && v.session.id != 0
            && v.session.id != v.link.session()
        {
            v.session.id = 0;
            v.session.loss = None;
            if let Some(q) = &mut v.tx.queue {
                q.settle(core, vc);
            }
        }
    }

    /// Returns "lost (why) and ", for the text of what followed.
    pub(crate) fn lost_of(&self, vc: VcId) -> String {
        let loss = self.vcs.get(vc).and_then(|v| v.session.loss.as_ref());
        loss.map_or_else(String::new, |l| format!("lost ({}), and ", l.failure))
    }
}

/// Returns the error of a VC that is not in the charge of this netmod.
pub(crate) fn no_such_vc() -> VcError {
    VcError::new(VcErrorKind::Aborted, None, "the VC is not in the charge of netmod tcp")
}
