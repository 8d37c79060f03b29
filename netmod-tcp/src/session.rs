//! Sessions: what two processes say to each other outlives their connections.
//!
//! The bytes of one direction behind the hello, control frames included, are one stream over all
//! connections of a session, and its positions are the sequence numbers. A receiver counts what it has
//! read, in whole messages or not, tells the sender now and then (ACK), and exactly in the hello of the next
//! connection, which goes on there.
//!
//! An acknowledgement costs the sender a system call, so one is sent when much is owed, when nothing else is to be
//! done, or when a sender may be waiting for it; never for acknowledgements alone, unless they are many.

use std::time::Duration;

use netmod_core::{Core, Time, VcError, VcErrorKind, VcId};

use crate::conn::{self, Conn, ConnId};
use crate::control::{CONTROL_LEN, Control};
use crate::link::{Failure, LinkEvent, Phase};
use crate::netmod::TcpNetmod;
use crate::txq::KEEP_BOUND;
use crate::vc::Route;

/// Owed bytes that are acknowledged at once: of small messages, whose copies should stay in the sender's cache, and
/// while large ones are received.
const OWED: u64 = 128 << 10;
const OWED_BULK: u64 = 512 << 10;
const _: () = assert!(OWED_BULK < KEEP_BOUND as u64);
/// Owed bytes for which a sender may wait: they are acknowledged with other bytes that leave, when a large receive
/// is through, and before blocking.
pub(crate) const OWED_WAITING: u64 = 64 << 10;
/// Owed control frames that are acknowledged like messages, so that the window does not fill with them.
const OWED_CONTROL: u64 = 4 << 10;
/// Polls in vain after which what a sender may wait for is acknowledged, and after which everything is.
const IDLE_SOON: u32 = 16;
const IDLE_LONG: u32 = 1024;
/// The same in time, for a process that blocks.
const ACK_DELAY: Duration = Duration::from_millis(5);
/// Time after which memory that an idle VC has no use for is given back.
const TIDY_DELAY: Duration = Duration::from_secs(2);

/// A connection that was lost, until its session is resumed.
#[derive(Debug)]
pub(crate) struct Loss {
    pub(crate) failure: Failure,
    since: Time,
}

impl TcpNetmod {
    /// More was read than the connection had been told to report. Takes note of the debt, or pays it.
    #[cold]
    pub(crate) fn owes(&mut self, vc: VcId, id: ConnId) {
        let Some(c) = self.conns.get_mut(id) else { return };
        let Some(v) = self.vcs.get_mut(vc) else { return };
        if v.session == 0 {
            c.owe_at = u64::MAX;
            return;
        }
        let limit = if c.bulk { OWED_BULK } else { OWED };
        let now = v.link.is_terminating();
        c.owe_at = if now { c.rx + 1 } else { v.told + limit };
        let pay = now || c.rx >= v.told + limit;
        if !v.owing {
            v.owing = true;
            self.owing.push(vc);
        }
        if pay {
            self.acknowledge(vc, 1);
        }
    }

    /// Acknowledges what was read on a VC, with the next flush, if at least so many bytes are owed.
    pub(crate) fn acknowledge(&mut self, vc: VcId, least: u64) {
        if self.pay(vc, least)
            && let Some(v) = self.vcs.get_mut(vc)
            && !v.dirty
        {
            v.dirty = true;
            self.dirty.push(vc);
        }
    }

    /// Bytes of messages that are read and not acknowledged.
    fn debt(&self, vc: VcId) -> u64 {
        let Some(v) = self.vcs.get(vc).filter(|v| v.session != 0) else { return 0 };
        let Some(c) = v.link.up().and_then(|c| self.conns.get(conn::id(c))) else { return 0 };
        c.rx.saturating_sub(v.told + v.told_control)
    }

    /// Queues an acknowledgement, if at least so many bytes are owed.
    pub(crate) fn pay(&mut self, vc: VcId, least: u64) -> bool {
        let Some(v) = self.vcs.get_mut(vc) else { return false };
        let (Some(key), true) = (v.link.up(), v.session != 0) else { return false };
        let Some(c) = self.conns.get_mut(conn::id(key)) else { return false };
        let owed = c.rx.saturating_sub(v.told + v.told_control);
        if owed < least && v.told_control < OWED_CONTROL {
            return false;
        }
        if c.rx == v.told {
            return false;
        }
        let limit = if c.bulk { OWED_BULK } else { OWED };
        v.told = c.rx;
        v.told_control = 0;
        c.owe_at = c.rx + if v.owing { limit } else { 1 };
        v.txq.get_or_insert_default().push_control(&Control::Ack { position: c.rx }.emit());
        self.stats.acks += 1;
        true
    }

    /// A large receive is through: its sender may be waiting, and this process may have other things to do now.
    #[inline]
    pub(crate) fn received_large(&mut self, vc: VcId) {
        self.acknowledge(vc, OWED);
    }

    /// Acknowledges, on every VC that owes at least so much, what it owes.
    #[cold]
    fn acknowledge_all(&mut self, least: u64) {
        let mut i = 0;
        while let Some(&vc) = self.owing.get(i) {
            self.acknowledge(vc, least);
            if self.debt(vc) > 0 {
                i += 1;
                continue;
            }
            self.owing.swap_remove(i);
            if let Some(v) = self.vcs.get_mut(vc) {
                v.owing = false;
                if let Some(c) = v.link.up().and_then(|c| self.conns.get_mut(conn::id(c)))
                    && v.session != 0
                {
                    c.owe_at = c.rx + 1;
                }
            }
        }
    }

    /// Before the last words on a connection: the acknowledgement that is owed, if one is.
    pub(crate) fn last_acknowledgement(&mut self, vc: VcId, id: ConnId) -> Vec<u8> {
        let (Some(v), Some(c)) = (self.vcs.get_mut(vc), self.conns.get(id)) else { return Vec::new() };
        if v.session == 0 || c.rx == v.told {
            return Vec::new();
        }
        v.told = c.rx;
        self.stats.acks += 1;
        Control::Ack { position: c.rx }.emit().to_vec()
    }

    /// A poll has found nothing, and there are debts or lent memory.
    #[cold]
    pub(crate) fn idle(&mut self, core: &mut Core) {
        if self.idle_polls >= IDLE_SOON {
            self.keep_lent(core);
        }
        match self.idle_polls {
            IDLE_SOON => self.acknowledge_all(OWED_WAITING),
            IDLE_LONG => self.acknowledge_all(1),
            _ => {}
        }
    }

    /// The process is about to block. True if that has finished requests, so that there may be no need to.
    #[cold]
    pub(crate) fn before_blocking(&mut self, core: &mut Core) -> bool {
        let finished = self.keep_lent(core);
        self.acknowledge_all(OWED_WAITING);
        if !self.owing.is_empty() && self.ack_at == Time::NEVER {
            self.ack_at = self.now + ACK_DELAY;
            self.next_timer = self.next_timer.min(self.ack_at);
        }
        finished
    }

    /// Timers of this file.
    pub(crate) fn session_timers(&mut self, now: Time) {
        if now >= self.ack_at {
            self.ack_at = Time::NEVER;
            self.acknowledge_all(1);
        }
        if now >= self.tidy_at {
            self.tidy_at = Time::NEVER;
            let vcs = &mut self.vcs;
            self.untidy.retain(|vc| {
                let Some(v) = vcs.get_mut(*vc) else { return false };
                let Some(q) = &mut v.txq else { return false };
                // One that has sent since has use for its memory.
                v.untidy = std::mem::replace(&mut v.tidy_mark, q.sent()) != q.sent();
                if !v.untidy {
                    q.shrink();
                }
                v.untidy
            });
            if !self.untidy.is_empty() {
                self.tidy_at = now + TIDY_DELAY;
            }
        }
        self.next_timer = self.next_timer.min(self.ack_at).min(self.tidy_at);
    }

    /// Data of sent messages is in their senders' memory: that is copied when there is time.
    pub(crate) fn lend(&mut self, vc: VcId) {
        if let Some(v) = self.vcs.get_mut(vc)
            && !v.lending
        {
            v.lending = true;
            self.lending.push(vc);
        }
    }

    /// Copies what senders wait for: everything of their VC has been handed to the kernel. Whether there was any.
    #[cold]
    fn keep_lent(&mut self, core: &mut Core) -> bool {
        let (mut i, mut any) = (0, false);
        while let Some(&vc) = self.lending.get(i) {
            let done = match self.vcs.get_mut(vc).and_then(|v| v.txq.as_deref_mut()) {
                Some(q) if q.is_lent() => {
                    // While more is to go, the acknowledgement will be there before the senders are through.
                    if !q.is_sendable() {
                        let lent = q.lent();
                        q.keep_all(core, vc);
                        any |= q.lent() < lent;
                    }
                    !q.is_lent()
                }
                _ => true,
            };
            if !done {
                i += 1;
                continue;
            }
            self.lending.swap_remove(i);
            if let Some(v) = self.vcs.get_mut(vc) {
                v.lending = false;
            }
        }
        any
    }

    /// An acknowledgement of the peer.
    pub(crate) fn acknowledged(&mut self, core: &mut Core, vc: VcId, position: u64) -> Result<(), String> {
        let Some(v) = self.vcs.get_mut(vc) else { return Ok(()) };
        // What is handled here may have been acknowledged when it was read, with all that was read then.
        let handled = core.vc(vc).map_or(0, |v| v.stats.rx_bytes).saturating_sub(v.rx_base);
        if v.told < handled {
            v.told_control += CONTROL_LEN as u64;
        }
        if v.link.phase() == Phase::Parting {
            // Of the goodbye too, which nobody waits for.
            return Ok(());
        }
        if v.session == 0 {
            return Err("an acknowledgement on a connection without a session".into());
        }
        let q = v.txq.get_or_insert_default();
        q.acknowledge(core, vc, position)?;
        let settled = q.is_settled();
        if q.is_sendable() && v.fd >= 0 && !v.blocked && !v.dirty {
            v.dirty = true;
            self.dirty.push(vc);
        }
        if settled {
            if !v.untidy && q.is_large() {
                v.untidy = true;
                v.tidy_mark = q.sent();
                self.untidy.push(vc);
                if self.tidy_at == Time::NEVER {
                    self.tidy_at = self.now + TIDY_DELAY;
                    self.next_timer = self.next_timer.min(self.tidy_at);
                }
            }
            if v.link.is_terminating() && v.link.up().is_some() {
                self.link_event(core, vc, LinkEvent::Drained);
            }
        }
        Ok(())
    }

    /// The VC's connection is gone; its session is not.
    pub(crate) fn suspend(&mut self, vc: VcId, failure: Failure) {
        let now = self.now;
        let failure = if self.took_what_lapsed(vc, failure) { Failure::Lapsed } else { failure };
        let Some(v) = self.vcs.get_mut(vc) else { return };
        v.fd = -1;
        v.blocked = false;
        let address = v.address();
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
                resumes = v.resumes,
                "connection lost; connecting again"
            );
        }
        v.loss.get_or_insert_with(|| Box::new(Loss { failure, since: now }));
    }

    /// A connection is adopted: whether it goes on with the session of the one before.
    ///
    /// # Errors
    /// The peer has read what was never sent, or wants what is not kept.
    pub(crate) fn begin_or_resume(&mut self, core: &mut Core, vc: VcId, id: ConnId) -> Result<bool, String> {
        let (Some(v), Some(c)) = (self.vcs.get_mut(vc), self.conns.get_mut(id)) else { return Ok(false) };
        let session = v.link.session();
        let position = c.peer_position;
        let resumed = session != 0 && session == v.session;
        if !resumed {
            v.session = session;
            (v.unqueued, v.kept_from) = (0, 0);
            v.rx = 0;
            v.rx_base = core.vc(vc).map_or(0, |v| v.stats.rx_bytes);
            v.loss = None;
            if session != 0 || v.txq.is_some() {
                v.txq.get_or_insert_default().begin(core, vc, session != 0);
            }
            if position != 0 {
                return Err(format!("it resumes at byte {position} of a session that has just begun"));
            }
        }
        (c.rx, c.owe_at) = (v.rx, if session == 0 { u64::MAX } else { v.rx + 1 });
        (v.told, v.told_control) = (v.rx, 0);
        if !resumed {
            v.route = Route { pair: c.pair, change: None };
            return Ok(false);
        }
        let again = v.txq.get_or_insert_default().rewind(core, vc, position)?;
        let lost = v.loss.as_ref().is_none_or(|l| !matches!(l.failure, Failure::Moved | Failure::Lapsed));
        v.resumes = v.resumes.saturating_add(u32::from(lost));
        self.stats.resumes += u64::from(lost);
        self.stats.resent_bytes += again;
        if let Some(loss) = v.loss.take() {
            let after = self.now.since(loss.since);
            tracing::info!(peer = v.peer.rank, "resumed after {after:.0?}, {again} bytes sent again");
            self.note_route(vc, id, loss.failure);
        }
        if let (Some(v), Some(c)) = (self.vcs.get_mut(vc), self.conns.get(id)) {
            v.route.pair = c.pair;
        }
        Ok(true)
    }

    /// After a link's event: a session that it has let go of is over for the queue too.
    pub(crate) fn end_session(&mut self, core: &mut Core, vc: VcId) {
        if let Some(v) = self.vcs.get_mut(vc)
            && v.session != 0
            && v.session != v.link.session()
        {
            v.session = 0;
            v.loss = None;
            if let Some(q) = &mut v.txq {
                q.settle(core, vc);
            }
        }
    }

    /// "lost (why) and ", for the text of what followed.
    pub(crate) fn lost_of(&self, vc: VcId) -> String {
        let loss = self.vcs.get(vc).and_then(|v| v.loss.as_ref());
        loss.map_or_else(String::new, |l| format!("lost ({}), and ", l.failure))
    }

    /// Breaks a VC's connection as a fault of the network would. Nothing is lost if the session can be
    /// resumed (`NETMOD_TCP_RESUME_TIMEOUT`); otherwise the VC goes down. Returns false if there is no
    /// connection.
    ///
    /// # Errors
    /// Fails if the system refuses.
    pub(crate) fn sever(
        &mut self,
        vc: VcId,
        how: impl FnOnce(&Conn) -> std::io::Result<()>,
    ) -> Result<bool, VcError> {
        let Some(v) = self.vcs.get(vc) else { return Ok(false) };
        let Some(c) = v.link.up().and_then(|c| self.conns.get(conn::id(c))) else { return Ok(false) };
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
