//! The requesting side of a connected queue pair: ordered sends, acknowledgements, retries.

use core::time::Duration;

use hca::{Completion, QpKindOf, QpState, SendOp, Status, rnr_wait, timeout_wait};

use crate::model::cq::Cqe;
use crate::model::qp::{Local, after, ahead};
use crate::model::wire::{Body, Nak, Packet, Request};
use crate::model::{Id, State};

impl State {
    /// Sends what a send queue allows.
    pub(crate) fn pump(&mut self, id: Id) {
        while let Some(index) = self.next_to_send(id) {
            let datagrams = self.qps.get(&id).is_some_and(|qp| qp.kind == QpKindOf::Ud);
            let sent = if datagrams { self.send_datagram(id, index) } else { self.send_request(id, index) };
            if let Err(status) = sent {
                if let Some(entry) = self.qps.get_mut(&id).and_then(|qp| qp.sq.get_mut(index)) {
                    entry.failed = Some(status);
                }
                self.settle(id);
                break;
            }
        }
    }

    fn next_to_send(&self, id: Id) -> Option<u64> {
        let qp = self.qps.get(&id)?;
        let index = qp.sq.next;
        let entry = qp.sq.get(index)?;
        if qp.state != QpState::Rts
            || qp.sq.resting
            || entry.failed.is_some()
            || self.devices[qp.device].failed
        {
            return None;
        }
        let waiting = self.waiting_answers(id, index);
        let most = qp.rts.map_or(0, |rts| rts.max_rd_atomic.into());
        let full = entry.wants_answer() && most != 0 && waiting >= most;
        let fenced = entry.fence && waiting != 0;
        (!full && !fenced).then_some(index)
    }

    /// Returns the number of unanswered reads and atomics before a request.
    fn waiting_answers(&self, id: Id, index: u64) -> usize {
        let Some(qp) = self.qps.get(&id) else { return 0 };
        let earlier = (qp.sq.completed..index).filter_map(|at| qp.sq.get(at));
        earlier.filter(|entry| entry.wants_answer() && !entry.answered).count()
    }

    fn send_request(&mut self, id: Id, index: u64) -> Result<(), Status> {
        if self.rng.chance(self.settings.faults.send) {
            return Err(Status::GeneralErr);
        }
        let depth = self.waiting_answers(id, index) + 1;
        let Some(qp) = self.qps.get(&id) else { return Ok(()) };
        let (Some(entry), Some(rtr), Some(context)) = (qp.sq.get(index), qp.rtr, qp.owner()) else {
            return Ok(());
        };
        if entry.len > self.devices[qp.device].settings.max_msg_size.into() {
            return Err(Status::LocLenErr);
        }
        if entry.wants_answer() && qp.rts.is_none_or(|rts| rts.max_rd_atomic == 0) {
            return Err(Status::LocQpOpErr);
        }
        let data = match &entry.local {
            _ if entry.wants_answer() => Vec::new(),
            Local::Registered(sges) => self.gather(context, sges)?,
            Local::Copied(bytes) => bytes.clone(),
        };
        let request = Request {
            psn: entry.psn,
            packets: entry.packets,
            op: entry.op,
            data,
            mtu: qp.mtu(),
            len: entry.len,
            srq: entry.srq,
            solicited: entry.solicited,
            depth,
        };
        let (from, peer, source, migrated) = (qp.port_id(), qp.peer, qp.number.0, qp.paths.asks());
        let idle = qp.sq.timer.is_none();
        if let Some(to) = peer {
            let body = Body::Request(request);
            self.send(id, false, Packet { from, to, source, number: rtr.dest_qp.0, migrated, body });
        }
        if let Some(qp) = self.qps.get_mut(&id) {
            qp.sq.next = index + 1;
            qp.sq.sent = qp.sq.sent.max(index + 1);
        }
        if idle {
            self.await_ack(id);
        }
        Ok(())
    }

    /// Sets the timer for the next acknowledgement, if one is expected.
    fn await_ack(&mut self, id: Id) {
        let Some(qp) = self.qps.get(&id) else { return };
        let outstanding = qp.sq.completed < qp.sq.next;
        match qp.rts.and_then(|rts| timeout_wait(rts.timeout)) {
            Some(wait) if outstanding && qp.state == QpState::Rts => {
                let wait = wait.as_nanos() as u64;
                // Devices may take up to four times as long.
                let wait = wait + self.rng.below(wait.saturating_mul(3));
                self.set_timer(id, Duration::from_nanos(wait));
            }
            _ => self.stop_timer(id),
        }
    }

    /// Handles the expiry of a queue pair's timer.
    pub(crate) fn timer(&mut self, id: Id) {
        let Some(qp) = self.qps.get_mut(&id) else { return };
        if qp.state != QpState::Rts || self.devices[qp.device].failed {
            return;
        }
        if qp.sq.resting {
            qp.sq.resting = false;
            self.pump(id);
        } else {
            self.again(id);
        }
    }

    /// Retransmits everything unacknowledged, within the number of retries.
    fn again(&mut self, id: Id) {
        let Some(qp) = self.qps.get_mut(&id) else { return };
        if qp.sq.resting {
            // Everything is sent again after the peer has had its time.
            return;
        }
        if qp.sq.retries == 0 && self.try_migrate(id) {
            return self.again(id);
        }
        let Some(qp) = self.qps.get_mut(&id) else { return };
        if qp.sq.retries == 0 {
            self.fail_send(id, Status::RetryExcErr);
            return;
        }
        qp.sq.retries -= 1;
        qp.sq.next = qp.sq.completed;
        self.stop_timer(id);
        self.pump(id);
    }

    /// Handles an answer of the peer.
    pub(crate) fn answer(&mut self, id: Id, body: Body) {
        if self.qps.get(&id).is_none_or(|qp| qp.state != QpState::Rts) {
            return;
        }
        match body {
            Body::Ack { psn } => self.acknowledge(id, after(psn, 1)),
            Body::Answer { psn, data } => {
                self.acknowledge(id, psn);
                self.result(id, psn, &data);
            }
            Body::Nak { psn, why } => {
                self.acknowledge(id, psn);
                // Only if it is about a sent request without another answer.
                let qp = self.qps.get(&id).filter(|qp| qp.state == QpState::Rts);
                let first =
                    qp.and_then(|qp| qp.sq.get(qp.sq.completed).filter(|_| qp.sq.completed < qp.sq.sent));
                if first.is_some_and(|entry| entry.psn == psn) {
                    self.refused(id, why);
                }
            }
            Body::Request(_) | Body::Datagram(_) => {}
        }
        self.pump(id);
    }

    /// Acknowledges all packets before a number.
    fn acknowledge(&mut self, id: Id, upto: u32) {
        let mut lost_answer = false;
        let Some(qp) = self.qps.get_mut(&id) else { return };
        let (mut index, before) = (qp.sq.completed, qp.sq.completed);
        while index < qp.sq.sent {
            let Some(entry) = qp.sq.get_mut(index) else { break };
            if ahead(after(entry.psn, entry.packets), upto) > 0 {
                break;
            }
            if entry.wants_answer() && !entry.answered {
                lost_answer = true;
                break;
            }
            entry.answered = true;
            index += 1;
        }
        if index != before {
            self.progressed(id);
            self.settle(id);
        }
        if lost_answer
            && let Some(qp) = self.qps.get_mut(&id)
            && !core::mem::replace(&mut qp.sq.implied, true)
        {
            // A later packet was acknowledged, so the answer to this one was lost.
            self.again(id);
        }
    }

    /// Restarts the retries, since the peer answers.
    fn progressed(&mut self, id: Id) {
        let Some(qp) = self.qps.get_mut(&id) else { return };
        qp.sq.implied = false;
        if let Some(rts) = qp.rts {
            qp.sq.retries = rts.retry_cnt;
            qp.sq.rnr_retries = rts.rnr_retry;
        }
    }

    /// Stores the result of a read or atomic.
    fn result(&mut self, id: Id, psn: u32, data: &[u8]) {
        let Some(qp) = self.qps.get(&id) else { return };
        let index = qp.sq.completed;
        let (Some(entry), Some(context)) = (qp.sq.get(index), qp.owner()) else { return };
        if entry.psn != psn || !entry.wants_answer() || entry.answered || index >= qp.sq.sent {
            return;
        }
        let written = match &entry.local {
            Local::Registered(sges) => self.scatter(context, sges, data),
            Local::Copied(_) => Err(Status::LocQpOpErr),
        };
        if let Some(entry) = self.qps.get_mut(&id).and_then(|qp| qp.sq.get_mut(index)) {
            match written {
                Ok(()) => entry.answered = true,
                Err(status) => entry.failed = Some(status),
            }
        }
        self.progressed(id);
        self.settle(id);
    }

    /// Handles the peer's refusal of the first incomplete request.
    fn refused(&mut self, id: Id, why: Nak) {
        let Some(qp) = self.qps.get_mut(&id) else { return };
        match why {
            Nak::Sequence => self.again(id),
            Nak::NotReady(code) => {
                let endless = qp.rts.is_some_and(|rts| rts.rnr_retry == 7);
                if !endless && qp.sq.rnr_retries == 0 {
                    self.fail_send(id, Status::RnrRetryExcErr);
                    return;
                }
                qp.sq.rnr_retries = qp.sq.rnr_retries.saturating_sub(1);
                qp.sq.retries = qp.rts.map_or(0, |rts| rts.retry_cnt);
                qp.sq.next = qp.sq.completed;
                qp.sq.resting = true;
                self.set_timer(id, rnr_wait(code));
            }
            Nak::InvalidRequest => self.fail_send(id, Status::RemInvReqErr),
            Nak::Access => self.fail_send(id, Status::RemAccessErr),
            Nak::Operation => self.fail_send(id, Status::RemOpErr),
        }
    }

    /// Completes finished requests in order, and failed ones when it is their turn.
    pub(crate) fn settle(&mut self, id: Id) {
        loop {
            let Some(qp) = self.qps.get_mut(&id).filter(|qp| qp.state == QpState::Rts) else { return };
            let index = qp.sq.completed;
            let signal_all = qp.signal_all;
            let Some(entry) = qp.sq.get(index) else { break };
            if let Some(status) = entry.failed {
                self.fail_send(id, status);
                return;
            }
            if !entry.answered {
                break;
            }
            let reported = entry.signaled || signal_all;
            let what = Completion {
                wr_id: entry.wr_id,
                status: Status::Success,
                op: entry.completed(),
                byte_len: if entry.wants_answer() { entry.len as u32 } else { 0 },
                qp_num: qp.number.0,
                ..Completion::EMPTY
            };
            let cq = qp.send_cq;
            qp.sq.completed = index + 1;
            qp.sq.next = qp.sq.next.max(index + 1);
            if let (true, Some(cq)) = (reported, cq) {
                self.complete(cq, Cqe { what, qp: id, sent: Some(index), regions: Vec::new() }, false);
            }
        }
        if self.qps.get(&id).is_some_and(|qp| !qp.sq.resting) {
            self.await_ack(id);
        }
    }

    /// Returns the number of packets of a message.
    pub(crate) fn packets(mtu: u64, op: &SendOp, len: u64) -> u32 {
        match op {
            SendOp::FetchAdd { .. } | SendOp::CompareSwap { .. } => 1,
            _ => u32::try_from(len.div_ceil(mtu)).unwrap_or(u32::MAX).max(1),
        }
    }

    /// Handles a packet for a connected queue pair.
    pub(crate) fn connected(&mut self, id: Id, packet: Packet) {
        let Some(qp) = self.qps.get(&id) else { return };
        let Some(rtr) = qp.rtr else { return };
        if rtr.dest_qp.0 != packet.source || !self.came(id, &packet) {
            return;
        }
        match packet.body {
            Body::Request(request) => self.request(id, request),
            body => self.answer(id, body),
        }
    }
}
