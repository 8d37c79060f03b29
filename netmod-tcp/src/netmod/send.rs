//! Sending: at once if possible, else through the VC's queue.

use netmod_core::{Core, Header, ReqId, SendBuf, VcError, VcId};

use super::TcpNetmod;
use crate::conn;
use crate::link::{Failure, LinkEvent, Phase};
use crate::sessions::{OWED_WAITING, no_such_vc};
use crate::sys::{self, MAX_IOV};
use crate::txq::{COPY_MAX, Data, LOG_MAX};
use crate::vc::finalized;

/// Small messages between two polls that are a burst.
const BURST: u16 = 8;
/// Bursts in a row after which the next message is taken for the first of another one.
const BURSTS: u8 = 4;
/// Messages of medium size that one system call sends. They are not copied, but the call costs more
/// than their bytes.
const TOGETHER: u16 = 8;

impl TcpNetmod {
    /// Returns an error if the VC takes no messages.
    #[inline]
    pub(crate) fn check_sendable(&mut self, core: &Core, vc: VcId) -> Result<(), VcError> {
        match self.sessions.vcs.get(vc) {
            Some(v) if v.tx.fd >= 0 => Ok(()),
            _ => self.check_unconnected(core, vc),
        }
    }

    #[cold]
    fn check_unconnected(&mut self, core: &Core, vc: VcId) -> Result<(), VcError> {
        let v = self.first_use(core, vc)?;
        match v.link.phase() {
            Phase::Failed | Phase::Shut => Err(v.cause.clone().unwrap_or_else(|| finalized(v.peer))),
            _ => Ok(()),
        }
    }

    /// Writes a message at once if it may and can. `None`: all of it has gone. Otherwise the number
    /// of bytes that have, and the message must be queued.
    #[inline]
    pub(crate) fn send(
        &mut self,
        core: &mut Core,
        vc: VcId,
        hdr: &Header,
        data: &SendBuf,
    ) -> Result<Option<usize>, VcError> {
        let epoch = self.clock.epoch;
        let Some(v) = self.sessions.vcs.get_mut(vc).filter(|v| v.tx.fd >= 0) else {
            self.check_unconnected(core, vc)?;
            core.count_send(vc, data.len());
            return Ok(Some(0));
        };
        core.count_send(vc, data.len());
        // A message that is not long and not the first since the last progress waits for company.
        // So does the first if it is sure to get some.
        let small = data.len() <= COPY_MAX;
        if data.len() <= LOG_MAX {
            if v.tx.sent_in == epoch {
                v.tx.sends = v.tx.sends.saturating_add(1);
                return Ok(Some(0));
            }
            v.tx.bursts = if v.tx.sends >= BURST { v.tx.bursts.saturating_add(1) } else { 0 };
            v.tx.sends = 1;
            v.tx.sent_in = epoch;
            if v.tx.bursts >= BURSTS {
                return Ok(Some(0));
            }
        }
        if v.tx.blocked || v.tx.sealed || !v.is_drained() {
            return Ok(Some(0));
        }
        let total = hdr.len() + data.len();
        if total > v.tx.calls.write() {
            return Ok(Some(0));
        }
        let keeps = v.session.id != 0;
        if keeps && v.tx.queue.as_ref().is_some_and(|q| !q.is_open(total.min(LOG_MAX))) {
            return Ok(Some(0));
        }
        let moved = if data.is_empty() {
            sys::send(v.tx.fd, hdr)
        } else if small {
            self.sessions.scratch.clear();
            self.sessions.scratch.extend_from_slice(hdr);
            self.sessions.scratch.extend_from_slice(data.bytes());
            sys::send(v.tx.fd, &self.sessions.scratch)
        } else {
            let mut hdr = *hdr;
            sys::send_iov(
                v.tx.fd,
                &[netmod_core::IoVec { base: hdr.as_mut_ptr(), len: hdr.len() }, data.iov()],
            )
        };
        self.stats.tx_calls += 1;
        match moved {
            Ok(Some(n)) if n == total => {
                if keeps {
                    if data.len() > LOG_MAX {
                        return Ok(Some(total));
                    }
                    v.tx.queue.get_or_insert_default().log([hdr, data.bytes()]);
                } else {
                    v.tx.unqueued += total as u64;
                }
                Ok(None)
            }
            Ok(n) => {
                self.block(vc);
                Ok(Some(n.unwrap_or(0)))
            }
            Err(e) => {
                self.connection_broken(core, vc, &e);
                if self.sessions.vcs.get(vc).is_some_and(|v| v.link.is_resuming()) {
                    return Ok(Some(0));
                }
                Err(self.sessions.vcs.get(vc).and_then(|v| v.cause.clone()).unwrap_or_else(no_such_vc))
            }
        }
    }

    /// Queues a message of which `gone` bytes have been written.
    #[inline]
    pub(crate) fn enqueue(
        &mut self,
        core: &mut Core,
        vc: VcId,
        hdr: &Header,
        data: Data,
        gone: usize,
        req: ReqId,
    ) {
        let Some(v) = self.sessions.vcs.get_mut(vc) else { return };
        let q = v.tx.queue.get_or_insert_default();
        let (large, medium) = match &data {
            Data::Contig(b) => (b.len() > LOG_MAX, b.len() > COPY_MAX),
            Data::Segment => (false, false),
        };
        q.push(core, vc, hdr, data, gone, req);
        if gone > 0 && q.is_drained() {
            // All of it is on its way, and waits for no more than its acknowledgement.
            return self.sessions.lend(vc);
        }
        core.count_queued(vc);
        if v.tx.fd < 0 {
            self.sessions.want(vc);
        } else if !v.tx.blocked {
            let full = q.staged() >= self.cfg.stage || medium && v.tx.sends.is_multiple_of(TOGETHER);
            if full || large {
                self.flush_vc(core, vc);
            } else {
                self.sessions.work.dirty.add(vc, &mut v.listed);
            }
        }
    }

    /// Queues a small message by copying it. `None` if it is not small enough, or there is too much
    /// already.
    #[inline]
    pub(crate) fn stage(&mut self, core: &mut Core, vc: VcId, hdr: &Header, data: &[u8]) -> Option<ReqId> {
        let v = self.sessions.vcs.get_mut(vc)?;
        let q = v.tx.queue.get_or_insert_default();
        if !q.copies(data.len()) {
            return None;
        }
        let req = q.push_copied(core, vc, hdr, data);
        core.count_queued(vc);
        if v.tx.fd < 0 {
            self.sessions.want(vc);
        } else if !v.tx.blocked {
            if q.staged() >= self.cfg.stage {
                self.flush_vc(core, vc);
            } else {
                self.sessions.work.dirty.add(vc, &mut v.listed);
            }
        }
        Some(req)
    }

    /// Writes a message, just queued, that is alone or large.
    pub(crate) fn flush_lone(&mut self, core: &mut Core, vc: VcId) {
        let epoch = self.clock.epoch;
        let Some(v) = self.sessions.vcs.get_mut(vc) else { return };
        if v.tx.fd >= 0
            && !v.tx.blocked
            && (v.tx.sent_in != epoch || v.tx.queue.as_ref().is_some_and(|q| q.len() == 1))
        {
            v.tx.sent_in = epoch;
            self.flush_vc(core, vc);
        }
    }

    /// Writes what is staged on every VC, unless the kernel takes nothing of it.
    #[inline]
    pub(crate) fn flush_staged(&mut self, core: &mut Core) {
        if !self.sessions.work.dirty.is_empty() {
            self.flush_dirty(core);
        }
    }

    /// Asks the kernel again, for blocked VCs: epoll tells of room only in a poll, and none may
    /// come.
    #[cold]
    #[inline(never)]
    pub(crate) fn flush_stuck(&mut self, core: &mut Core) {
        let before = self.sessions.work.stuck.len();
        for i in 0..before {
            let Some(vc) = self.sessions.work.stuck.get(i) else { break };
            if let Some(v) = self.sessions.vcs.get_mut(vc)
                && self.sessions.work.stuck.unmark(&mut v.listed)
                && std::mem::take(&mut v.tx.blocked)
            {
                self.flush_vc(core, vc);
            }
        }
        self.sessions.work.stuck.remove_first(before);
    }

    /// Writes what is staged on every VC.
    #[inline(never)]
    pub(crate) fn flush_dirty(&mut self, core: &mut Core) {
        // In the order in which they became dirty; what a flush makes dirty again waits its turn.
        for i in 0..self.sessions.work.dirty.len() {
            let Some(vc) = self.sessions.work.dirty.get(i) else { break };
            if let Some(v) = self.sessions.vcs.get_mut(vc) {
                self.sessions.work.dirty.unmark(&mut v.listed);
            }
            self.flush_vc(core, vc);
        }
        let vcs = &self.sessions.vcs;
        self.sessions.work.dirty.keep_marked(|vc| vcs.get(vc).map(|v| v.listed));
    }

    /// Writes as much of a VC's queue as the kernel takes.
    pub(crate) fn flush_vc(&mut self, core: &mut Core, vc: VcId) {
        let mut left = self.sessions.vcs.get(vc).map_or(0, |v| v.tx.calls.write());
        self.sessions.queue_ack(&mut self.sockets, &mut self.stats, vc, OWED_WAITING);
        if self.sessions.vcs.get(vc).is_some_and(|v| v.tx.sealed) {
            self.flush_sealed(core, vc);
            return self.flushed(core, vc);
        }
        loop {
            let Some(v) = self.sessions.vcs.get_mut(vc) else { return };
            if v.tx.fd < 0 || v.tx.blocked {
                return;
            }
            let Some(q) = v.tx.queue.as_mut().filter(|q| q.is_sendable()) else { break };
            let mut iov = [netmod_core::IoVec::EMPTY; MAX_IOV];
            let (n, bytes) = q.gather(core, &mut iov);
            if bytes == 0 {
                // Nothing but empty or cancelled messages, or the window is closed until an
                // acknowledgement comes.
                let before = q.len();
                q.written(core, vc, 0);
                if q.len() == before { break } else { continue }
            }
            if left == 0 {
                self.sessions.work.dirty.add(vc, &mut v.listed);
                return;
            }
            let (n, bytes) = sys::first(&mut iov[..n], left);
            self.stats.tx_calls += 1;
            match sys::send_iov(v.tx.fd, &iov[..n]) {
                Ok(Some(sent)) => {
                    q.written(core, vc, sent);
                    left -= sent;
                    if sent < bytes {
                        return self.block(vc);
                    }
                }
                Ok(None) => return self.block(vc),
                Err(e) => return self.connection_broken(core, vc, &e),
            }
        }
        self.flushed(core, vc);
    }

    /// Takes note that everything which could go has gone.
    fn flushed(&mut self, core: &mut Core, vc: VcId) {
        let Some(v) = self.sessions.vcs.get(vc) else { return };
        if v.tx.queue.as_ref().is_some_and(|q| q.is_lent()) {
            self.sessions.lend(vc);
        }
        let Some(v) = self.sessions.vcs.get(vc) else { return };
        if v.link.is_terminating() && v.is_settled() {
            self.link_event(core, vc, LinkEvent::Drained);
        }
    }

    /// Waits for epoll to report room: the kernel has taken what it could.
    #[inline(never)]
    pub(crate) fn block(&mut self, vc: VcId) {
        let Some(v) = self.sessions.vcs.get_mut(vc) else { return };
        v.tx.blocked = true;
        if let Some(c) = v.link.conn() {
            self.sockets.watch_for_room(conn::id(c));
        }
        self.sessions.press(vc);
    }

    /// Goes on with the connection of a VC that takes bytes again.
    pub(crate) fn unblocked(&mut self, core: &mut Core, id: conn::ConnId, vc: VcId) {
        if let Some(v) = self.sessions.vcs.get_mut(vc) {
            v.tx.blocked = false;
        }
        self.sockets.watch_for_input(id);
        self.flush_vc(core, vc);
    }

    /// Ends a connection on which a write has failed.
    #[cold]
    fn connection_broken(&mut self, core: &mut Core, vc: VcId, e: &std::io::Error) {
        let Some(c) = self.sessions.vcs.get(vc).and_then(|v| v.link.conn()) else { return };
        let failure = e.raw_os_error().map_or(Failure::Eof, Failure::Errno);
        self.close(conn::id(c));
        self.link_event(core, vc, LinkEvent::Lost { conn: c, failure });
    }
}

#[cfg(test)]
mod tests {
    use netmod_core::{Netmod as _, SendBuf};

    use super::*;
    use crate::netmod::rails::tests::Two;

    /// Messages too long to be copied, and still not long: the first one leaves at once, and of the
    /// others several with each system call.
    #[test]
    fn messages_of_medium_size_share_system_calls() {
        static DATA: [u8; COPY_MAX + 1] = [5; COPY_MAX + 1];
        let mut two = Two::new(|_| {});
        two.step_one(0);
        let vc = two.vcs[0];
        let before = two.engines[0].netmod.stats.tx_calls;
        let calls = |two: &Two| two.engines[0].netmod.stats.tx_calls - before;
        let each: Vec<u64> = (0..2 * TOGETHER + 1)
            .map(|_| {
                let e = &mut two.engines[0];
                let data = SendBuf::from_static(&DATA);
                e.netmod.i_start_contig_msg(&mut e.core, vc, &[1; 32], data).expect("a message");
                calls(&two)
            })
            .collect();
        let together = usize::from(TOGETHER);
        assert_eq!(each, [vec![1; together - 1], vec![2; together], vec![3; 2]].concat());
        // The last one has found no company.
        two.step_one(0);
        assert_eq!(calls(&two), 4, "{}", two.describe());
    }
}
