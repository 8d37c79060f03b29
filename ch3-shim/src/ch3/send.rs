//! The sending side: eager short and eager, and the answers to them.

use netmod_core::{
    Netmod, OnDone, Outcome, PacketFault, ReqId, Segment, SendBuf, Sent, Time, VcError, VcErrorKind, VcId,
};

use super::credit::{self, ENTRY};
use super::lent::send_with;
use super::{Answer, Body, Ch3, DevIo, Lent, MpiReq, Role, Unexpected, VcSide, WORLD, threads};
use crate::pkt::{self, MAX_SHORT, Mode};
use crate::tagmatch::Envelope;

/// The request of a send that was complete at once: a handle of nothing, hence finished.
pub(crate) const DONE: ReqId = ReqId::from_wire(0);

/// Returns the error of a call on a VC that was destroyed.
#[cold]
fn destroyed() -> VcError {
    VcError::new(VcErrorKind::Aborted, None, "the VC no longer exists; was its group disconnected?")
}

impl Ch3 {
    /// Makes a VC active, if it is not.
    ///
    /// # Errors
    /// A VC that takes no messages.
    #[inline]
    pub(super) fn use_vc(&mut self, io: &mut DevIo<'_>, vc: VcId) -> Result<(), VcError> {
        match io.core.vc(vc) {
            Some(v) if v.state == netmod_core::lifecycle::VcState::Active => Ok(()),
            _ => self.activate(io, vc),
        }
    }

    #[cold]
    fn activate(&mut self, io: &mut DevIo<'_>, vc: VcId) -> Result<(), VcError> {
        let Some((state, peer)) = io.core.vc(vc).map(|v| (v.state, v.peer)) else {
            return Err(destroyed());
        };
        if !state.can_send() {
            return Err(self.failures.cause(&peer).cloned().unwrap_or_else(|| {
                VcError::new(
                    VcErrorKind::Closed,
                    Some(peer),
                    format!("its VC is {state}: no sends after it was closed"),
                )
            }));
        }
        if state.is_at_rest()
            && let (Some(s), Some(v)) = (self.vcs.get_mut(vc), io.core.vc(vc))
        {
            s.connects_before = VcSide::counted(v.stats.connects);
        }
        self.vc_used(io, vc);
        Ok(())
    }

    /// Sends a message to a rank of a group; its envelope has the context of the wire. Returns
    /// [`DONE`] if it was complete at once.
    #[inline]
    pub(crate) fn isend(
        &mut self,
        io: &mut DevIo<'_>,
        seg: impl Lent,
        (group, rank): (u32, u32),
        env: Envelope,
        mode: Mode,
    ) -> Result<ReqId, VcError> {
        if group == WORLD && rank == self.groups.world.me {
            return Ok(self.self_send(io, seg.into(), env, mode));
        }
        let vc = match self.known_vc(group, rank) {
            Some(vc) => vc,
            None => match self.begin_vc(io, group, rank)? {
                Some(vc) => vc,
                None => return Ok(self.send_later(io, rank, seg.into(), env, mode)),
            },
        };
        self.use_vc(io, vc)?;
        let Some(side) = self.vcs.get_mut(vc) else { return Err(destroyed()) };
        let contig = seg.contig();
        if mode != Mode::Sync
            && let Some(buf) = contig.as_ref().filter(|buf| buf.len() <= MAX_SHORT)
            && let Some(hdr) = pkt::emit_eager_short(env, mode == Mode::Ready, buf.bytes())
        {
            if !side.flow.out.take(ENTRY) {
                return Ok(self.send_announced(io, vc, seg.into(), env, mode, true));
            }
            let started = io.netmod.i_start_contig_msg(io.core, vc, &hdr, SendBuf::EMPTY)?;
            return Ok(started.unwrap_or(DONE));
        }
        let len = seg.len();
        let side = if len > side.eager_max as usize {
            if !self.is_eager(io, vc, len) {
                return Ok(self.send_announced(io, vc, seg.into(), env, mode, false));
            }
            let Some(side) = self.vcs.get_mut(vc) else { return Err(destroyed()) };
            side
        } else {
            side
        };
        if mode == Mode::Sync {
            return self.send_sync(io, vc, seg.into(), env);
        }
        let Some(buf) = contig else {
            return self.send_noncontig(io, vc, seg.into(), env, mode);
        };
        let charge = credit::charge(len as u32);
        if !side.flow.out.take(charge) {
            return Ok(self.send_announced(io, vc, seg.into(), env, mode, true));
        }
        let hdr = pkt::emit_eager(env, mode, len as u32, 0, side.flow.inc.settle_bytes());
        let started = io.netmod.i_start_contig_msg(io.core, vc, &hdr, buf)?;
        if let Some(req) = started
            && let Some(r) = io.core.req_mut(req)
        {
            r.charge = charge;
        }
        Ok(started.unwrap_or(DONE))
    }

    /// Sends eager data that lies in more than one piece.
    #[inline(never)]
    fn send_noncontig(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        mut seg: Segment,
        env: Envelope,
        mode: Mode,
    ) -> Result<ReqId, VcError> {
        let len = seg.remaining();
        let mut data = [0; MAX_SHORT];
        if len <= MAX_SHORT {
            seg.pack(&mut data[..len]);
        }
        let short = data.get(..len).and_then(|d| pkt::emit_eager_short(env, mode == Mode::Ready, d));
        let charge = if short.is_some() { ENTRY } else { credit::charge(len as u32) };
        let Some(side) = self.vcs.get_mut(vc) else { return Err(destroyed()) };
        if !side.flow.out.take(charge) {
            seg.seek(0);
            return Ok(self.send_announced(io, vc, seg, env, mode, true));
        }
        if let Some(hdr) = short {
            return Ok(io.netmod.i_start_contig_msg(io.core, vc, &hdr, SendBuf::EMPTY)?.unwrap_or(DONE));
        }
        let hdr = pkt::emit_eager(env, mode, len as u32, 0, side.flow.inc.settle_bytes());
        let req = self.reqs.make(io.core, Some(vc), seg, MpiReq::new(Role::Send, env));
        if let Some(r) = io.core.req_mut(req) {
            r.charge = charge;
        }
        let sent = io.netmod.send_noncontig(io.core, vc, req, &hdr);
        self.started(io, req, sent)
    }

    /// Sends a synchronous message with its data and its request, which the receiver acknowledges.
    #[inline(never)]
    fn send_sync(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        seg: Segment,
        env: Envelope,
    ) -> Result<ReqId, VcError> {
        let len = seg.remaining() as u32;
        let charge = credit::charge(len);
        let Some(side) = self.vcs.get_mut(vc) else { return Err(destroyed()) };
        if !side.flow.out.take(charge) {
            return Ok(self.send_announced(io, vc, seg, env, Mode::Sync, true));
        }
        let credit = side.flow.inc.settle_bytes();
        let req = self.reqs.make(
            io.core,
            Some(vc),
            seg,
            MpiReq::new(Role::SyncSend { sent: false, answer: None }, env),
        );
        if let Some(r) = io.core.req_mut(req) {
            r.on_done = OnDone::Upper;
            r.charge = charge;
        }
        let hdr = pkt::emit_eager(env, Mode::Sync, len, req.to_wire(), credit);
        match send_with(io, vc, req, &hdr) {
            Ok(Sent::Done) => {
                if let Some(MpiReq { role: Role::SyncSend { sent, .. }, .. }) = self.reqs.side.get_mut(req) {
                    *sent = true;
                }
                Ok(req)
            }
            other => self.started(io, req, other),
        }
    }

    /// Settles the request of a send by the netmod's answer.
    fn started(
        &mut self,
        io: &mut DevIo<'_>,
        req: ReqId,
        sent: Result<Sent, VcError>,
    ) -> Result<ReqId, VcError> {
        match sent {
            Ok(Sent::Queued) => Ok(req),
            Ok(Sent::Done) => {
                io.core.finish(req, Outcome::Done);
                Ok(req)
            }
            Err(e) => {
                self.reqs.discard(io.core, req);
                Err(e)
            }
        }
    }

    /// Sends a message to this process. A short standard one is copied, as an eager one would be,
    /// unless there are too many copies.
    #[cold]
    #[inline(never)]
    fn self_send(&mut self, io: &mut DevIo<'_>, mut seg: Segment, env: Envelope, mode: Mode) -> ReqId {
        let env = threads::of_wire(env, self.groups.world.me).unwrap_or(env);
        if let Some(rreq) = self.queues.posted.take_match(&env) {
            let len = seg.remaining() as u64;
            let sreq = self.reqs.make(io.core, None, seg, MpiReq::new(Role::SelfSend, env));
            self.deliver_local(io, rreq, env, sreq, len);
            return sreq;
        }
        let len = seg.remaining();
        let msg =
            |body| Unexpected { vc: None, sreq: None, len: len as u64, body, epoch: 0, since: Time::ZERO };
        if mode != Mode::Sync && self.budget.take_own(len) {
            let mut buf = self.reqs.pool.take(len);
            seg.pack(&mut buf);
            self.keep(env, msg(Body::Whole(buf)));
            return DONE;
        }
        let sreq = self.reqs.make(io.core, None, seg, MpiReq::new(Role::SelfSend, env));
        self.keep(env, msg(Body::Local(sreq)));
        sreq
    }

    fn deliver_local(&mut self, io: &mut DevIo<'_>, rreq: ReqId, env: Envelope, sreq: ReqId, len: u64) {
        let msg =
            Unexpected { vc: None, sreq: None, len, body: Body::Local(sreq), epoch: 0, since: Time::ZERO };
        self.hand_over(io, rreq, env, msg);
    }

    /// Handles the acknowledgement of a synchronous eager send.
    pub(super) fn sync_ack(&mut self, io: &mut DevIo<'_>, vc: VcId, sreq: u64) -> Result<(), PacketFault> {
        let req = ReqId::from_wire(sreq);
        let live = io.core.req(req).is_some_and(|r| r.vc == Some(vc) && !r.is_finished());
        match self.reqs.side.get_mut(req) {
            Some(MpiReq { role: Role::SyncSend { sent, answer }, .. }) if live && answer.is_none() => {
                *answer = Some(Answer::Matched);
                if *sent {
                    self.reqs.finish(io.core, req, Outcome::Done);
                }
                Ok(())
            }
            _ => Err(PacketFault::Drop {
                what: format!("acknowledgement of request {req}, which does not wait for one"),
                payload: 0,
            }),
        }
    }
}
