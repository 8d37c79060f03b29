//! Cancelling: receives that have not matched, sends that have not left or have not matched.

use netmod_core::{Netmod, Outcome, PacketFault, ReqId, VcId, VcLife};

use super::{Answer, Body, Ch3, DevIo, MpiReq, Role};
use crate::pkt::Packet;
use crate::tagmatch::Envelope;

impl Ch3 {
    /// Asks for a request to be cancelled. It finishes in any case: cancelled, or as if nothing had
    /// been asked. If the receiver must be asked, it finishes when the answer arrives.
    pub(crate) fn cancel(&mut self, io: &mut DevIo<'_>, req: ReqId) {
        if io.core.is_finished(req) {
            return;
        }
        let vc = io.core.req(req).and_then(|r| r.vc);
        let Some(m) = self.reqs.side.get_mut(req) else {
            // A plain eager send that is queued.
            self.cancel_eager(io, vc, req);
            return;
        };
        match m.role {
            Role::Recv => {
                if let Some(key) = m.posted.take()
                    && self.queues.posted.cancel(key).is_some()
                {
                    self.reqs.finish(io.core, req, Outcome::Cancelled);
                }
            }
            Role::SelfSend => {
                let env = m.env;
                let key =
                    self.queues.unexpected.find_exact(&env, |u| matches!(u.body, Body::Local(r) if r == req));
                if let Some(msg) = key.and_then(|k| self.queues.unexpected.remove(k)) {
                    self.discharge(io, &msg);
                    self.reqs.finish(io.core, req, Outcome::Cancelled);
                }
            }
            Role::Send => self.cancel_eager(io, vc, req),
            Role::SyncSend { sent, answer } => {
                if !sent {
                    self.cancel_eager(io, vc, req);
                }
                if let Some(vc) = vc
                    && answer.is_none()
                    && !io.core.is_finished(req)
                {
                    self.ask_receiver(io, vc, req);
                }
            }
            Role::Waiting { .. } => {
                self.reqs.finish(io.core, req, Outcome::Cancelled);
                if let Some(vc) = vc {
                    if let Some(s) = self.vcs.get_mut(vc) {
                        s.flow.out.cancelled(|req| !io.core.is_finished(*req));
                    }
                    // Others may have waited only for this one.
                    self.send_waiting(io, vc);
                }
            }
            Role::RndvSend => {
                if let Some(vc) = vc
                    && self.lmt.is_offered(req)
                {
                    self.ask_receiver(io, vc, req);
                }
            }
            Role::RndvRecv | Role::OneSided | Role::Arriving { .. } | Role::Cookie | Role::SentCookie => {}
        }
    }

    /// Takes an eager message back, if it is still in the netmod's queue.
    fn cancel_eager(&mut self, io: &mut DevIo<'_>, vc: Option<VcId>, req: ReqId) {
        if let Some(vc) = vc
            && io.netmod.cancel_send(io.core, vc, req)
        {
            let charge = io.core.req(req).map_or(0, |r| r.charge);
            self.reqs.finish(io.core, req, Outcome::Cancelled);
            self.refund(io, vc, charge);
        }
    }

    /// Asks the receiver to return a message, if it is still unexpected there.
    fn ask_receiver(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId) {
        let Some(m) = self.reqs.side.get_mut(req) else { return };
        if m.cancelling {
            return;
        }
        m.cancelling = true;
        let env = m.env;
        self.send_control(io, vc, Packet::CancelReq { sreq: req.to_wire(), env });
    }

    /// Handles a sender's request to return a message.
    pub(super) fn cancel_req(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        sreq: u64,
        env: Envelope,
    ) -> Result<(), PacketFault> {
        let env = self.check_envelope(vc, env)?;
        let key = self.queues.unexpected.find_exact(&env, |u| u.vc == Some(vc) && u.sreq == Some(sreq));
        let msg = key.and_then(|k| self.queues.unexpected.remove(k));
        let ack = msg.is_some();
        if let Some(msg) = msg {
            self.discharge(io, &msg);
            match msg.body {
                Body::Whole(buf) => self.reqs.pool.give(buf),
                Body::Arriving(arriving) => {
                    // The request comes behind the data, so only a peer that breaks the protocol
                    // sends more; that is discarded.
                    io.core.abandon_recv(vc);
                    self.reqs.free_arriving(io.core, arriving);
                }
                _ => {}
            }
        }
        self.send_control(io, vc, Packet::CancelResp { sreq, ack });
        Ok(())
    }

    /// Handles the receiver's answer.
    pub(super) fn cancel_resp(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        sreq: u64,
        ack: bool,
    ) -> Result<(), PacketFault> {
        let req = ReqId::from_wire(sreq);
        let bound = io.core.req(req).is_some_and(|r| r.vc == Some(vc));
        match self.reqs.side.get_mut(req) {
            Some(MpiReq { cancelling, role: Role::SyncSend { .. } | Role::RndvSend, .. })
                if bound && *cancelling =>
            {
                *cancelling = false
            }
            // The request may have been retired before the answer came.
            _ if !ack => return Ok(()),
            _ => {
                return Err(PacketFault::Drop {
                    what: format!("answer to a cancel request for {req} that was not made"),
                    payload: 0,
                });
            }
        }
        if ack && !io.core.is_finished(req) {
            match self.reqs.side.get_mut(req).map(|m| &mut m.role) {
                Some(Role::RndvSend) => return self.lmt_withdrawn(io, req),
                // The netmod may still have to send its memory again to a peer that connects again.
                Some(Role::SyncSend { sent: false, answer }) => *answer = Some(Answer::TakenBack),
                _ => self.reqs.finish(io.core, req, Outcome::Cancelled),
            }
        }
        Ok(())
    }

    /// Returns true if a request is a send to another process.
    pub(crate) fn is_send(&self, req: ReqId) -> bool {
        self.reqs
            .side
            .get(req)
            .is_none_or(|m| matches!(m.role, Role::Send | Role::SyncSend { .. } | Role::RndvSend))
    }

    /// Ends a request at once, so that its memory can be freed. Its message is cancelled,
    /// abandoned, or lost with its VC.
    pub(crate) fn reclaim(&mut self, io: &mut DevIo<'_>, req: ReqId) {
        self.cancel(io, req);
        if io.core.is_finished(req) {
            return;
        }
        let vc = io.core.req(req).and_then(|r| r.vc);
        if self.end_onesided(io, req).is_some() {
            return self.reqs.finish(io.core, req, Outcome::Cancelled);
        }
        let severs = self.lmt_abandon(io, req);
        if let Some(vc) = vc {
            // A transfer that tells the peer of its end does not need the VC's.
            let is_send = self.is_send(req) && severs != Some(false);
            let receiving = io.core.vc(vc).is_some_and(|v| v.recv_active() == Some(req));
            if receiving {
                io.core.abandon_recv(vc);
            } else if is_send && (!io.netmod.cancel_send(io.core, vc, req) || severs == Some(true)) {
                let peer = io.core.vc(vc).map(|v| v.peer);
                let why = netmod_core::VcError::new(
                    netmod_core::VcErrorKind::Aborted,
                    peer,
                    "a send was abandoned in the middle of its message (its scope ended by a panic, or its receiver made no progress)",
                );
                io.netmod.vc_abort(io.core, vc, why);
            }
        }
        self.reqs.finish(io.core, req, Outcome::Cancelled);
    }
}
