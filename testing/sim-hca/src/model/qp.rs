//! Queue pairs: their state, and transition to the error state.

use std::collections::VecDeque;

use hca::{
    Access, AsyncEvent, Completed, QpCap, QpKindOf, QpNum, QpState, SendOp, Sge, Status, ToRtr, ToRts,
};
use netmod_core::Time;

use crate::model::cq::Cqe;
use crate::model::device::PortId;
use crate::model::path::Paths;
use crate::model::srq::Recv;
use crate::model::{Id, State};

/// Local memory of a request.
#[derive(Clone, Debug)]
pub(crate) enum Local {
    Registered(Vec<Sge>),
    Copied(Vec<u8>),
}

/// Destination of a datagram.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) route: hca::AhAttr,
    pub(crate) number: u32,
    pub(crate) qkey: u32,
}

/// A send request, until its slot is free.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) wr_id: u64,
    pub(crate) op: SendOp,
    pub(crate) local: Local,
    pub(crate) len: u64,
    pub(crate) signaled: bool,
    pub(crate) solicited: bool,
    pub(crate) fence: bool,
    pub(crate) target: Option<Target>,
    pub(crate) srq: Option<u32>,
    pub(crate) regions: Vec<Id>,
    /// Packet sequence number of its first packet, and the number of packets.
    pub(crate) psn: u32,
    pub(crate) packets: u32,
    pub(crate) answered: bool,
    /// Set if it cannot be executed, which is reported in order.
    pub(crate) failed: Option<Status>,
}

impl Entry {
    /// Returns true if its answer carries data beyond an acknowledgement.
    pub(crate) fn wants_answer(&self) -> bool {
        matches!(self.op, SendOp::RdmaRead { .. } | SendOp::FetchAdd { .. } | SendOp::CompareSwap { .. })
    }

    pub(crate) fn completed(&self) -> Completed {
        match self.op {
            SendOp::Send | SendOp::SendImm(_) => Completed::Send,
            SendOp::RdmaWrite { .. } | SendOp::RdmaWriteImm { .. } => Completed::RdmaWrite,
            SendOp::RdmaRead { .. } => Completed::RdmaRead,
            SendOp::FetchAdd { .. } => Completed::FetchAdd,
            SendOp::CompareSwap { .. } => Completed::CompareSwap,
        }
    }
}

/// A send queue. Requests are numbered from 0, without wrapping.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    pub(crate) entries: VecDeque<Entry>,
    /// Number of the first of `entries`; the slots of all earlier requests are free.
    pub(crate) base: u64,
    /// First request that has not completed.
    pub(crate) completed: u64,
    /// Next request to send.
    pub(crate) next: u64,
    /// First request that was never sent.
    pub(crate) sent: u64,
    /// Packet sequence number of the next request's first packet.
    pub(crate) psn: u32,
    pub(crate) retries: u8,
    pub(crate) rnr_retries: u8,
    /// True after the peer had no receive: nothing is sent until the timer expires.
    pub(crate) resting: bool,
    /// True after an answer was found to be lost and its request was sent again; earlier
    /// acknowledgements repeat that finding.
    pub(crate) implied: bool,
    /// Expiry of the timer, and its index in the agenda.
    pub(crate) timer: Option<(Time, u64)>,
    /// True if the device was notified of work that it has not looked at yet.
    pub(crate) rung: bool,
}

impl SendQueue {
    pub(crate) fn get(&self, index: u64) -> Option<&Entry> {
        self.entries.get(usize::try_from(index.checked_sub(self.base)?).ok()?)
    }

    pub(crate) fn get_mut(&mut self, index: u64) -> Option<&mut Entry> {
        self.entries.get_mut(usize::try_from(index.checked_sub(self.base)?).ok()?)
    }
}

/// The responding side of a queue pair.
#[derive(Debug, Default)]
pub(crate) struct Responder {
    /// Expected packet sequence number.
    pub(crate) psn: u32,
    /// True if a missing packet was reported.
    pub(crate) complained: bool,
    /// Results of the latest atomics by packet sequence number, for repeated requests.
    pub(crate) atomics: VecDeque<(u32, u64)>,
    /// True if a message has arrived.
    pub(crate) met: bool,
}

/// A queue pair.
#[derive(Debug)]
pub(crate) struct Qp {
    pub(crate) device: usize,
    /// Processes that have made or opened it: one, or any number for receivers of XRC.
    pub(crate) owners: Vec<usize>,
    pub(crate) kind: QpKindOf,
    pub(crate) number: QpNum,
    pub(crate) send_cq: Option<Id>,
    pub(crate) recv_cq: Option<Id>,
    pub(crate) srq: Option<Id>,
    pub(crate) domain: Option<Id>,
    pub(crate) cap: QpCap,
    pub(crate) signal_all: bool,
    pub(crate) state: QpState,
    pub(crate) port: u8,
    pub(crate) access: Access,
    pub(crate) qkey: u32,
    pub(crate) rtr: Option<ToRtr>,
    pub(crate) rts: Option<ToRts>,
    pub(crate) peer: Option<PortId>,
    pub(crate) paths: Paths,
    pub(crate) sq: SendQueue,
    pub(crate) rq: VecDeque<Recv>,
    pub(crate) responder: Responder,
}

impl Qp {
    /// Returns the process that owns its memory and completions; none for a receiver of XRC.
    pub(crate) fn owner(&self) -> Option<usize> {
        if self.kind == QpKindOf::XrcTgt { None } else { self.owners.first().copied() }
    }

    pub(crate) fn uses_cq(&self, cq: Id) -> bool {
        self.send_cq == Some(cq) || self.recv_cq == Some(cq)
    }

    pub(crate) fn port_id(&self) -> PortId {
        PortId { device: self.device, port: self.port.max(1) }
    }

    /// Returns the MTU in bytes.
    pub(crate) fn mtu(&self) -> u64 {
        self.rtr.map_or(4096, |rtr| rtr.path_mtu.bytes().into())
    }
}

/// Returns the distance between two packet sequence numbers of 24 bits.
pub(crate) fn ahead(a: u32, b: u32) -> i32 {
    ((a.wrapping_sub(b) << 8) as i32) >> 8
}

/// Returns the packet sequence number `packets` later.
pub(crate) fn after(psn: u32, packets: u32) -> u32 {
    psn.wrapping_add(packets) & 0x00ff_ffff
}

impl State {
    /// Reports an event to the processes of a queue pair.
    pub(crate) fn event_of_qp(&mut self, id: Id, event: fn(QpNum) -> AsyncEvent) {
        let Some(qp) = self.qps.get(&id) else { return };
        let (owners, event) = (qp.owners.clone(), event(qp.number));
        owners.into_iter().for_each(|owner| self.event(owner, event));
    }

    pub(crate) fn stop_timer(&mut self, id: Id) {
        if let Some(timer) = self.qps.get_mut(&id).and_then(|qp| qp.sq.timer.take()) {
            self.wire.cancel(timer);
        }
    }

    /// Fails a queue pair, and flushes its requests. The event is for causes that no completion
    /// reports.
    pub(crate) fn fail_qp(&mut self, id: Id, event: Option<fn(QpNum) -> AsyncEvent>) {
        let Some(qp) = self.qps.get_mut(&id) else { return };
        if matches!(qp.state, QpState::Err | QpState::Reset) {
            return;
        }
        qp.state = QpState::Err;
        let shared = qp.srq.is_some();
        self.stop_timer(id);
        if let Some(event) = event {
            self.event_of_qp(id, event);
        }
        self.flush(id);
        if shared {
            self.event_of_qp(id, AsyncEvent::LastWqeReached);
        }
    }

    /// Flushes the requests of a failed queue pair, in order.
    pub(crate) fn flush(&mut self, id: Id) {
        let vendor = self.settings.faults.vendor_err;
        while let Some(qp) = self.qps.get_mut(&id) {
            let index = qp.sq.completed;
            let Some(entry) = qp.sq.get(index) else { break };
            let (wr_id, op, number) = (entry.wr_id, entry.completed(), qp.number.0);
            qp.sq.completed = index + 1;
            let Some(cq) = qp.send_cq else { break };
            let mut cqe = Cqe::failed(id, number, wr_id, op, Status::WrFlushErr, vendor);
            cqe.sent = Some(index);
            self.complete(cq, cqe, false);
        }
        while let Some(qp) = self.qps.get_mut(&id) {
            let Some(recv) = qp.rq.pop_front() else { break };
            self.complete_recv_error(id, recv, Status::WrFlushErr);
        }
    }

    /// Fails a receive of a queue pair's own queue, or one that it took.
    pub(crate) fn complete_recv_error(&mut self, id: Id, recv: Recv, status: Status) {
        let Some(qp) = self.qps.get(&id) else { return };
        let (number, cq) = (qp.number.0, qp.recv_cq);
        let vendor = self.settings.faults.vendor_err;
        let mut cqe = Cqe::failed(id, number, recv.wr_id, Completed::Recv, status, vendor);
        cqe.regions = recv.regions;
        match cq {
            Some(cq) => self.complete(cq, cqe, false),
            None => self.release(&cqe.regions),
        }
    }

    /// Fails the first incomplete request, and with it the queue pair.
    pub(crate) fn fail_send(&mut self, id: Id, status: Status) {
        let vendor = self.settings.faults.vendor_err;
        let Some(qp) = self.qps.get_mut(&id) else { return };
        let index = qp.sq.completed;
        if let (Some(entry), Some(cq)) = (qp.sq.get(index), qp.send_cq) {
            let mut cqe = Cqe::failed(id, qp.number.0, entry.wr_id, entry.completed(), status, vendor);
            cqe.sent = Some(index);
            qp.sq.completed = index + 1;
            self.complete(cq, cqe, false);
        }
        self.fail_qp(id, None);
    }

    /// Frees the send queue slots up to a polled completion's request.
    pub(crate) fn free_sends(&mut self, id: Id, index: u64) {
        let mut lent = Vec::new();
        if let Some(qp) = self.qps.get_mut(&id) {
            while qp.sq.base <= index {
                let Some(mut entry) = qp.sq.entries.pop_front() else { break };
                lent.append(&mut entry.regions);
                qp.sq.base += 1;
            }
        }
        self.release(&lent);
    }

    /// Removes all requests of a queue pair.
    pub(crate) fn empty_qp(&mut self, id: Id) {
        self.stop_timer(id);
        let purge = self.rng.chance(0.5);
        let Some(qp) = self.qps.get_mut(&id) else { return };
        let mut lent: Vec<Id> = Vec::new();
        qp.sq.entries.drain(..).for_each(|entry| lent.extend(entry.regions));
        qp.rq.drain(..).for_each(|recv| lent.extend(recv.regions));
        qp.sq = SendQueue::default();
        qp.responder = Responder::default();
        let cqs = [qp.send_cq, qp.recv_cq];
        self.release(&lent);
        cqs.into_iter().flatten().for_each(|cq| self.disown(cq, id, purge));
    }
}
