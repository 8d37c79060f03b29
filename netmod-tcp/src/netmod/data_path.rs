//! The data path: sending, polling, waiting.

use std::os::fd::RawFd;

use netmod_core::{
    Arm, Core, DeviceError, Events, Header, Netmod, PacketFault, PollOrder, ReqId, RxBuf, SendBuf, Sent,
    Time, VcError, VcId,
};

use super::TcpNetmod;
use crate::txq::Data;

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
        self.sessions.vcs.get_mut(vc).and_then(|v| v.tx.queue.as_mut()).is_some_and(|q| q.cancel(core, req))
    }

    fn control_frame(&mut self, core: &mut Core, vc: VcId, hdr: &Header) -> Result<(), PacketFault> {
        self.control(core, vc, hdr).map_err(|e| PacketFault::violation(e.to_string()))
    }

    #[inline]
    fn flush(&mut self, core: &mut Core) {
        if !self.sessions.work.stuck.is_empty() {
            self.flush_stuck(core);
        }
        self.flush_staged(core);
        if !(self.sessions.work.dirty.is_empty() && self.sessions.work.stuck.is_empty()) {
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
        self.clock.begin_poll(now);
        self.sockets.arena.recycle();
        if !self.sessions.work.wanting.is_empty() {
            self.dial_wanted(core);
        }
        if order == PollOrder::OutFirst {
            self.flush_staged(core);
        }
        while let Some(ev) = self.events.pop_front() {
            events.push(ev);
        }
        self.poll_in(core, events)?;
        if now >= self.clock.next {
            self.timers_due(core, now, events)?;
        }
        if order == PollOrder::InFirst {
            self.flush_staged(core);
        }
        // Failures of this poll are reported with it, not after it.
        while let Some(ev) = self.events.pop_front() {
            events.push(ev);
        }
        if !events.is_empty() {
            self.sessions.idle_polls = 0;
        } else if !(self.sessions.work.owing.is_empty() && self.sessions.work.lending.is_empty()) {
            self.sessions.idle_polls = self.sessions.idle_polls.saturating_add(1);
            self.sessions.idle(core, &mut self.sockets, &mut self.stats);
        }
        if !(self.sessions.work.dirty.is_empty() && self.sessions.work.stuck.is_empty()) {
            core.note_staged();
        }
        Ok(())
    }

    #[inline]
    fn release(&mut self, buf: RxBuf) {
        self.sockets.arena.give_back(buf);
    }

    fn wait_fd(&self) -> Option<RawFd> {
        (!self.sockets.epoll.is_closed()).then(|| self.sockets.epoll.raw_fd())
    }

    fn arm(&mut self, core: &mut Core) -> Arm {
        let idle = self.sessions.work.owing.is_empty() && self.sessions.work.lending.is_empty();
        let finished =
            !idle && self.sessions.before_blocking(core, &mut self.sockets, &mut self.clock, &mut self.stats);
        self.flush_staged(core);
        self.sockets.rejoin_epoll_all();
        // Epoll is level-triggered: what is there already makes the descriptor readable.
        if !finished
            && self.events.is_empty()
            && self.sessions.work.wanting.is_empty()
            && self.sessions.work.dirty.is_empty()
            && self.sockets.unread.is_empty()
        {
            Arm::Armed
        } else {
            Arm::Busy
        }
    }

    fn deadline(&self) -> Option<Time> {
        (self.clock.next != Time::NEVER).then_some(self.clock.next)
    }
}
