//! The responding side of a connected queue pair: order, receives, memory that peers access.

use hca::{AsyncEvent, Completed, Completion, QpKindOf, QpNum, QpState, SendOp, Status};

use crate::model::cq::Cqe;
use crate::model::qp::{after, ahead};
use crate::model::srq::Recv;
use crate::model::wire::{Body, Nak, Packet, Request};
use crate::model::{Id, State};

/// Outcome of a request.
enum Outcome {
    Done,
    /// Done, with this result.
    Result(Vec<u8>),
    /// There was no receive.
    NotReady,
    /// Refused or failed: the queue pair fails, with an event unless a completion reports it.
    Refused(Nak, Option<fn(QpNum) -> AsyncEvent>),
}

const INVALID: Outcome = Outcome::Refused(Nak::InvalidRequest, Some(AsyncEvent::QpRequestError));
const DENIED: Outcome = Outcome::Refused(Nak::Access, Some(AsyncEvent::QpAccessError));

/// The owner of a request's memory and receives.
#[derive(Clone, Copy)]
struct Receiver {
    context: usize,
    srq: Option<Id>,
    cq: Option<Id>,
}

impl State {
    /// Handles a request.
    pub(crate) fn request(&mut self, id: Id, request: Request) {
        let Some(qp) = self.qps.get_mut(&id) else { return };
        if !matches!(qp.state, QpState::Rtr | QpState::Rts | QpState::Sqd) || qp.kind == QpKindOf::XrcIni {
            return;
        }
        if !core::mem::replace(&mut qp.responder.met, true) && qp.state == QpState::Rtr {
            self.event_of_qp(id, AsyncEvent::CommEstablished);
        }
        let Some(qp) = self.qps.get_mut(&id) else { return };
        let (expected, psn, packets) = (qp.responder.psn, request.psn, request.packets);
        match ahead(psn, expected) {
            0 => {}
            ..0 => return self.repeat(id, &request),
            _ => {
                if !core::mem::replace(&mut qp.responder.complained, true) {
                    self.respond(id, Body::Nak { psn: expected, why: Nak::Sequence });
                }
                return;
            }
        }
        let outcome = self.execute(id, &request);
        let Some(qp) = self.qps.get_mut(&id) else { return };
        qp.responder.complained = matches!(outcome, Outcome::NotReady);
        let timer = qp.rtr.map_or(0, |rtr| rtr.min_rnr_timer);
        if matches!(outcome, Outcome::Done | Outcome::Result(_)) {
            qp.responder.psn = after(psn, packets);
        }
        match outcome {
            Outcome::Done => self.respond(id, Body::Ack { psn: after(psn, packets - 1) }),
            Outcome::Result(data) => self.respond(id, Body::Answer { psn, data }),
            Outcome::NotReady => {
                self.stats.not_ready += 1;
                self.respond(id, Body::Nak { psn, why: Nak::NotReady(timer) });
            }
            Outcome::Refused(why, event) => {
                self.respond(id, Body::Nak { psn, why });
                self.fail_qp(id, event);
            }
        }
    }

    fn respond(&mut self, id: Id, body: Body) {
        let Some(qp) = self.qps.get(&id) else { return };
        let (Some(rtr), Some(to)) = (qp.rtr, qp.peer) else { return };
        let migrated = qp.paths.asks();
        let packet =
            Packet { from: qp.port_id(), to, source: qp.number.0, number: rtr.dest_qp.0, migrated, body };
        self.send(id, true, packet);
    }

    /// Handles a repeated request, whose answer was lost or is late. Only reads are executed again.
    fn repeat(&mut self, id: Id, request: &Request) {
        let Some(qp) = self.qps.get(&id) else { return };
        let before = after(qp.responder.psn, 0x00ff_ffff);
        match request.op {
            SendOp::RdmaRead { addr, rkey } => {
                if let Outcome::Result(data) = self.read(id, request, addr, rkey) {
                    self.respond(id, Body::Answer { psn: request.psn, data });
                }
            }
            SendOp::FetchAdd { .. } | SendOp::CompareSwap { .. } => {
                let found = qp.responder.atomics.iter().find(|(psn, _)| *psn == request.psn);
                if let Some((psn, value)) = found.copied() {
                    self.respond(id, Body::Answer { psn, data: value.to_ne_bytes().to_vec() });
                }
            }
            _ => self.respond(id, Body::Ack { psn: before }),
        }
    }

    fn execute(&mut self, id: Id, request: &Request) -> Outcome {
        let Some(receiver) = self.receiver(id, request) else { return INVALID };
        let Some(qp) = self.qps.get(&id) else { return INVALID };
        if qp.mtu() != request.mtu {
            let (number, device, mtu) = (qp.number.0, qp.device, qp.mtu());
            self.violation(format!(
                "queue pair {number} of device {device}: its path MTU is {mtu}, its peer's {}",
                request.mtu
            ));
            return INVALID;
        }
        let (access, most) = (qp.access, qp.rtr.map_or(0, |rtr| rtr.max_dest_rd_atomic));
        let number = qp.number.0;
        let reads = matches!(
            request.op,
            SendOp::RdmaRead { .. } | SendOp::FetchAdd { .. } | SendOp::CompareSwap { .. }
        );
        if reads && request.depth > most.into() {
            self.violation(format!(
                "queue pair {number} of device {}: {} reads and atomics of its peer in flight, it takes {most}",
                self.qps[&id].device, request.depth
            ));
            return INVALID;
        }
        match request.op {
            SendOp::Send => self.deliver(id, receiver, request, None),
            SendOp::SendImm(imm) => self.deliver(id, receiver, request, Some(imm)),
            SendOp::RdmaWrite { addr, rkey } => {
                if !access.remote_write {
                    INVALID
                } else {
                    self.write(receiver, addr, rkey, &request.data)
                }
            }
            SendOp::RdmaWriteImm { addr, rkey, imm } => {
                if !access.remote_write {
                    return INVALID;
                }
                let Some(recv) = self.take_recv(id, receiver) else { return Outcome::NotReady };
                match self.write(receiver, addr, rkey, &request.data) {
                    Outcome::Done => {
                        let len = request.data.len() as u32;
                        self.received(
                            id,
                            receiver,
                            recv,
                            Completed::RecvRdmaWithImm,
                            len,
                            Some(imm),
                            request.solicited,
                        );
                        Outcome::Done
                    }
                    refused => {
                        // The receive was not used.
                        self.put_back(id, receiver, recv);
                        refused
                    }
                }
            }
            SendOp::RdmaRead { addr, rkey } => self.read(id, request, addr, rkey),
            SendOp::FetchAdd { addr, rkey, add } => {
                self.atomic(id, receiver, request.psn, addr, rkey, |old| old.wrapping_add(add))
            }
            SendOp::CompareSwap { addr, rkey, compare, swap } => self.atomic(
                id,
                receiver,
                request.psn,
                addr,
                rkey,
                |old| if old == compare { swap } else { old },
            ),
        }
    }

    /// Finds the receiver of a request.
    fn receiver(&self, id: Id, request: &Request) -> Option<Receiver> {
        let qp = self.qps.get(&id)?;
        if qp.kind != QpKindOf::XrcTgt {
            return Some(Receiver { context: qp.owner()?, srq: qp.srq, cq: qp.recv_cq });
        }
        let srq = self.find_xrc_srq(qp.device, qp.domain?, request.srq?)?;
        let (_, cq) = self.srqs[&srq].xrc?;
        Some(Receiver { context: self.srqs[&srq].context, srq: Some(srq), cq: Some(cq) })
    }

    fn take_recv(&mut self, id: Id, receiver: Receiver) -> Option<Recv> {
        if self.rng.chance(self.settings.faults.rnr) {
            return None;
        }
        match receiver.srq {
            Some(srq) => self.take_shared(srq),
            None => self.qps.get_mut(&id)?.rq.pop_front(),
        }
    }

    fn put_back(&mut self, id: Id, receiver: Receiver, recv: Recv) {
        let queue = match receiver.srq {
            Some(srq) => self.srqs.get_mut(&srq).map(|srq| &mut srq.posted),
            None => self.qps.get_mut(&id).map(|qp| &mut qp.rq),
        };
        if let Some(queue) = queue {
            queue.push_front(recv);
        }
    }

    /// Delivers a message to a receive.
    fn deliver(&mut self, id: Id, receiver: Receiver, request: &Request, imm: Option<u32>) -> Outcome {
        let Some(recv) = self.take_recv(id, receiver) else { return Outcome::NotReady };
        match self.scatter(receiver.context, &recv.sges, &request.data) {
            Ok(()) => {
                let len = request.data.len() as u32;
                self.received(id, receiver, recv, Completed::Recv, len, imm, request.solicited);
                Outcome::Done
            }
            Err(status) => {
                let number = self.qps[&id].number.0;
                let vendor = self.settings.faults.vendor_err;
                let mut cqe = Cqe::failed(id, number, recv.wr_id, Completed::Recv, status, vendor);
                cqe.regions = recv.regions;
                match receiver.cq {
                    Some(cq) => self.complete(cq, cqe, false),
                    None => self.release(&cqe.regions),
                }
                let why = if status == Status::LocLenErr { Nak::InvalidRequest } else { Nak::Operation };
                Outcome::Refused(why, None)
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn received(
        &mut self,
        id: Id,
        receiver: Receiver,
        recv: Recv,
        op: Completed,
        byte_len: u32,
        imm: Option<u32>,
        solicited: bool,
    ) {
        self.stats.received += 1;
        let what = Completion {
            wr_id: recv.wr_id,
            status: Status::Success,
            op,
            byte_len,
            imm,
            qp_num: self.qps[&id].number.0,
            ..Completion::EMPTY
        };
        if let Some(cq) = receiver.cq {
            self.complete(cq, Cqe { what, qp: id, sent: None, regions: recv.regions }, solicited);
        }
    }

    fn write(&mut self, receiver: Receiver, addr: u64, rkey: u32, data: &[u8]) -> Outcome {
        // Keys are not checked without data.
        if data.is_empty() {
            return Outcome::Done;
        }
        let lent = self.remote(receiver.context, rkey, addr, data.len() as u64, |access| access.remote_write);
        match lent.and_then(|lent| lent.write(addr, data)) {
            Some(()) => Outcome::Done,
            None => DENIED,
        }
    }

    fn read(&mut self, id: Id, request: &Request, addr: u64, rkey: u32) -> Outcome {
        let Some(receiver) = self.receiver(id, request) else { return INVALID };
        if !self.qps[&id].access.remote_read {
            return INVALID;
        }
        let mut data = Vec::new();
        if request.len == 0 {
            return Outcome::Result(data);
        }
        let lent = self.remote(receiver.context, rkey, addr, request.len, |access| access.remote_read);
        match lent.and_then(|lent| lent.read(addr, request.len, &mut data)) {
            Some(()) => Outcome::Result(data),
            None => DENIED,
        }
    }

    fn atomic(
        &mut self,
        id: Id,
        receiver: Receiver,
        psn: u32,
        addr: u64,
        rkey: u32,
        change: impl Fn(u64) -> u64,
    ) -> Outcome {
        if !self.qps[&id].access.remote_atomic || !addr.is_multiple_of(8) {
            return INVALID;
        }
        let Some(lent) = self.remote(receiver.context, rkey, addr, 8, |access| access.remote_atomic) else {
            return DENIED;
        };
        let mut bytes = Vec::new();
        if lent.read(addr, 8, &mut bytes).is_none() {
            return DENIED;
        }
        let old = bytes.try_into().map_or(0, u64::from_ne_bytes);
        if lent.write(addr, &change(old).to_ne_bytes()).is_none() {
            return DENIED;
        }
        let kept = self.qps[&id].rtr.map_or(1, |rtr| usize::from(rtr.max_dest_rd_atomic));
        if let Some(qp) = self.qps.get_mut(&id) {
            qp.responder.atomics.push_back((psn, old));
            while qp.responder.atomics.len() > kept {
                qp.responder.atomics.pop_front();
            }
        }
        Outcome::Result(old.to_ne_bytes().to_vec())
    }
}
