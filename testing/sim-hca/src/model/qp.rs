//! Queue pairs: their state, and their way to the error state.

use std::collections::VecDeque;

use hca::{
    Access, AsyncEvent, Completed, QpCap, QpKindOf, QpNum, QpState, SendOp, Sge, Status, ToRtr, ToRts,
};
use netmod_core::Time;

use crate::model::cq::Cqe;
use crate::model::device::Place;
use crate::model::path::Paths;
use crate::model::srq::Recv;
use crate::model::{Id, State};

/// Local memory of a request.
#[derive(Clone, Debug)]
pub(crate) enum Local {
    Registered(Vec<Sge>),
    Copied(Vec<u8>),
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) way: hca::AhAttr,
    pub(crate) number: u32,
    pub(crate) qkey: u32,
}

/// A request of the send queue, until its place is free.
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
    /// Its first packet's number, and how many there are.
    pub(crate) psn: u32,
    pub(crate) packets: u32,
    pub(crate) answered: bool,
    /// It cannot be done, which is told in its turn.
    pub(crate) failed: Option<Status>,
}

impl Entry {
    /// Whether its answer has more than an acknowledgement.
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

/// A send queue. Requests are numbered from 0 on, for ever.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    pub(crate) entries: VecDeque<Entry>,
    /// Number of the first of `entries`; all before it have free places.
    pub(crate) base: u64,
    /// The first that has not completed.
    pub(crate) completed: u64,
    /// The next that is sent.
    pub(crate) next: u64,
    /// All before it were sent at least once.
    pub(crate) sent: u64,
    /// Number of the next request's first packet.
    pub(crate) psn: u32,
    pub(crate) retries: u8,
    pub(crate) rnr_retries: u8,
    /// The peer had no receive: nothing is sent until the timer rings.
    pub(crate) resting: bool,
    /// An answer was found to be lost, and its request sent again; acknowledgements of before say so once more.
    pub(crate) implied: bool,
    /// When the timer rings, and its place in the agenda.
    pub(crate) timer: Option<(Time, u64)>,
    /// The device was told that there is work, and has not looked yet.
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

/// The side of a queue pair that answers.
#[derive(Debug, Default)]
pub(crate) struct Responder {
    /// Number of the packet that must come next.
    pub(crate) psn: u32,
    /// It was said that this one is missing.
    pub(crate) complained: bool,
    /// Results of the latest atomics, by packet number, for those who ask again.
    pub(crate) atomics: VecDeque<(u32, u64)>,
    /// Something came.
    pub(crate) met: bool,
}

/// A queue pair.
#[derive(Debug)]
pub(crate) struct Qp {
    pub(crate) device: usize,
    /// Processes that have made or opened it: one, but with receivers of XRC, which may have any number.
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
    pub(crate) peer: Option<Place>,
    pub(crate) paths: Paths,
    pub(crate) sq: SendQueue,
    pub(crate) rq: VecDeque<Recv>,
    pub(crate) responder: Responder,
}

impl Qp {
    /// The process whose memory and completions it has; none with a receiver of XRC.
    pub(crate) fn owner(&self) -> Option<usize> {
        if self.kind == QpKindOf::XrcTgt { None } else { self.owners.first().copied() }
    }

    pub(crate) fn uses_cq(&self, cq: Id) -> bool {
        self.send_cq == Some(cq) || self.recv_cq == Some(cq)
    }

    pub(crate) fn place(&self) -> Place {
        Place { device: self.device, port: self.port.max(1) }
    }

    /// Bytes in a packet.
    pub(crate) fn mtu(&self) -> u64 {
        self.rtr.map_or(4096, |rtr| rtr.path_mtu.bytes().into())
    }
}

/// How far a packet number is ahead of another one; they have 24 bits.
pub(crate) fn ahead(a: u32, b: u32) -> i32 {
    ((a.wrapping_sub(b) << 8) as i32) >> 8
}

/// The packet number that follows after so many.
pub(crate) fn after(psn: u32, packets: u32) -> u32 {
    psn.wrapping_add(packets) & 0x00ff_ffff
}

impl State {
    /// Tells the processes of a queue pair.
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

    /// A queue pair goes to the error state, and its requests are flushed. The event is for what no completion tells.
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

    /// Completes what is left of a queue pair in error, in order.
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

    /// A receive of a queue pair's own, or one that it took, fails.
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

    /// The first request that has not completed fails, and with it the queue pair.
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

    /// A completion of the send queue was polled: all places up to its request's are free.
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

    /// Takes everything from a queue pair that it was asked to do.
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
