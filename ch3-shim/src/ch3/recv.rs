//! The receiving side: posting receives, and the packets that carry or announce data.

use netmod_core::{OnDone, Outcome, PacketFault, ReqId, RxBytes, Segment, Time, VcError, VcId};

use super::credit::{self, ENTRY};
use super::pool::segment_of;
use super::{Announced, Body, Ch3, DevIo, Lent, Matched, MpiReq, Owned, Role, Unexpected};
use crate::pkt::{HDR_LEN, Header, Mode, Packet, Plain, Short, ShortData};
use crate::status::Status;
use crate::tagmatch::{Envelope, Pattern};

/// Most messages that are taken in a row behind one with the same envelope. Their credit waits
/// until the row ends.
const ROW: usize = 63;

impl Ch3 {
    /// Posts a receive, or takes the first unexpected message that matches it.
    #[inline]
    pub(crate) fn irecv(
        &mut self,
        io: &mut DevIo<'_>,
        seg: impl Lent,
        pattern: Pattern,
    ) -> Result<ReqId, VcError> {
        if !self.queues.unexpected.is_empty()
            && let Some((env, msg)) = self.queues.unexpected.take_match(&pattern)
        {
            return Ok(self.recv_unexpected(io, seg.into(), pattern, env, msg));
        }
        if let Some(cause) = self.source_lost(&pattern) {
            return Err(cause);
        }
        let (req, r) = io.core.renew_req();
        r.renew(None, seg.into());
        let posted = self.queues.posted.post(pattern, req);
        let env = pattern.to_envelope();
        self.reqs.side.renew(req).renew_recv(env, posted, self.reqs.now);
        if self.budget.has_wanting() {
            self.relieve_for(io, &pattern);
        }
        Ok(req)
    }

    /// Makes a receive whose message has arrived.
    #[inline(never)]
    fn recv_unexpected(
        &mut self,
        io: &mut DevIo<'_>,
        seg: Segment,
        pattern: Pattern,
        env: Envelope,
        msg: Unexpected,
    ) -> ReqId {
        let asked = pattern.to_envelope();
        let req = self.reqs.make(io.core, None, seg, MpiReq::new(Role::Recv, asked));
        self.deliver(io, req, env, msg);
        req
    }

    /// Gives an unexpected message to a receive.
    #[inline(never)]
    pub(crate) fn deliver(&mut self, io: &mut DevIo<'_>, req: ReqId, env: Envelope, msg: Unexpected) {
        self.discharge(io, &msg);
        self.hand_over(io, req, env, msg);
    }

    /// Gives a message without a charge to a receive.
    pub(super) fn hand_over(&mut self, io: &mut DevIo<'_>, req: ReqId, env: Envelope, mut msg: Unexpected) {
        let room = self.fit(io, req, env, msg.len);
        // A message that a matched probe held may be complete by now.
        if let Some(arriving) = msg.arriving().filter(|a| io.core.is_finished(*a))
            && let Some(buf) = self.reqs.take_buffer(io.core, arriving)
        {
            msg.body = Body::Whole(buf);
        }
        match msg.body {
            Body::Inline(data) => {
                let data = data.as_slice();
                self.fill(io, req, &data[..room.min(data.len())]);
                self.reqs.finish(io.core, req, Outcome::Done);
            }
            Body::Whole(buf) => {
                self.fill(io, req, &buf[..room.min(buf.len())]);
                self.reqs.pool.give(buf);
                self.reqs.finish(io.core, req, Outcome::Done);
            }
            Body::Arriving(arriving) => {
                if let Some(MpiReq { role: Role::Arriving { then }, .. }) = self.reqs.side.get_mut(arriving) {
                    *then = Some(req);
                }
                if let Some(r) = io.core.req_mut(req) {
                    r.vc = msg.vc;
                }
            }
            Body::Rts(kept) => {
                if let (Some(vc), Some(sreq)) = (msg.vc, msg.sreq) {
                    self.start_rndv(io, vc, req, sreq, room as u64, kept.announced());
                }
                return;
            }
            Body::Local(sreq) => self.local_copy(io, sreq, req),
        }
        if let (Some(vc), Some(sreq)) = (msg.vc, msg.sreq) {
            self.send_control(io, vc, Packet::EagerSyncAck { sreq });
        }
    }

    /// Copies a held message into memory without a request. Returns it if it was not complete when
    /// the probe matched, does not fit, or its sender waits for an answer.
    pub(crate) fn copy_held(
        &mut self,
        io: &mut DevIo<'_>,
        seg: &mut Segment,
        msg: Unexpected,
    ) -> Option<Unexpected> {
        let data = match &msg.body {
            Body::Inline(data) => data.as_slice(),
            Body::Whole(buf) => &buf[..],
            _ => return Some(msg),
        };
        if msg.sreq.is_some() || data.len() > seg.remaining() {
            return Some(msg);
        }
        seg.unpack(RxBytes::from_slice(data));
        self.discharge(io, &msg);
        if let Body::Whole(buf) = msg.body {
            self.reqs.pool.give(buf);
        }
        None
    }

    /// Records the message that a receive has matched. Returns the bytes of it that fit.
    #[inline]
    fn fit(&mut self, io: &mut DevIo<'_>, req: ReqId, env: Envelope, len: u64) -> usize {
        let (Some(r), Some(m)) = (io.core.req_mut(req), self.reqs.side.get_mut(req)) else { return 0 };
        m.posted = None;
        let len_here = usize::try_from(len).unwrap_or(usize::MAX);
        let room = len_here.min(r.seg.total());
        r.seg.truncate(room);
        m.matched = Matched::new(env, room);
        if room < len_here {
            m.truncated_from = len;
            self.stats.truncated += 1;
        }
        room
    }

    /// Copies bytes into a receive.
    #[inline]
    fn fill(&mut self, io: &mut DevIo<'_>, req: ReqId, data: &[u8]) {
        if let Some(r) = io.core.req_mut(req) {
            r.seg.unpack(RxBytes::from_slice(data));
        }
    }

    /// Copies a message of this process to itself into its receive.
    pub(crate) fn local_copy(&mut self, io: &mut DevIo<'_>, sreq: ReqId, rreq: ReqId) {
        let mut piece = [0; 8192];
        while let Some(s) = io.core.req_mut(sreq) {
            let n = s.seg.pack(&mut piece);
            let Some(r) = io.core.req_mut(rreq) else { break };
            if n == 0 || r.seg.unpack(RxBytes::from_slice(&piece[..n])) < n {
                break;
            }
        }
        self.reqs.finish(io.core, sreq, Outcome::Done);
        self.reqs.finish(io.core, rreq, Outcome::Done);
    }

    /// Keeps a message for a later receive.
    #[inline(never)]
    pub(crate) fn keep(&mut self, env: Envelope, mut msg: Unexpected) -> crate::tagmatch::UnexpectedKey {
        self.charge_kept(&msg);
        if self.contexts.note_kept(env.context()) {
            self.failures.raise_alarm();
        }
        msg.since = self.reqs.now;
        let key = self.queues.unexpected.push(env, msg);
        self.stats.unexpected_high = self.stats.unexpected_high.max(self.queues.unexpected.len() as u64);
        key
    }

    /// Returns the envelope of a packet, with this process's context.
    #[inline]
    pub(super) fn check_envelope(&self, vc: VcId, env: Envelope) -> Result<Envelope, PacketFault> {
        self.vcs.get(vc).and_then(|s| s.own_envelope(env)).ok_or_else(|| self.bad_envelope(vc, &env))
    }

    #[cold]
    fn bad_envelope(&self, vc: VcId, env: &Envelope) -> PacketFault {
        let rank = self.vcs.get(vc).map_or(u32::MAX, |s| s.rank);
        let group = self.vcs.get(vc).and_then(|s| self.groups.of_space(s.space)).unwrap_or(u32::MAX);
        PacketFault::Violation {
            what: format!(
                "a message with source {}, tag {} and context {:#x} on the connection of rank {rank} of group {group}",
                env.source(),
                env.tag(),
                env.context()
            ),
        }
    }

    #[cold]
    fn ready_without_receive(&mut self, env: &Envelope) {
        self.stats.ready_unmatched += 1;
        tracing::warn!(
            source = env.source(),
            tag = env.tag(),
            "a ready send found no posted receive; delivered as a standard one"
        );
    }

    /// Handles an eager short message, and those behind it with the same envelope whose receives
    /// are posted. Returns the bytes of `rest` that they took. A row costs one look-up of the VC
    /// and one of the receives.
    #[inline(always)]
    pub(super) fn eager_short(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        short: Short,
        hdr: &Header,
        rest: RxBytes<'_>,
    ) -> Result<usize, PacketFault> {
        let env = short.env;
        let Some((side, env)) = self.vcs.get_mut(vc).and_then(|s| s.own_envelope(env).map(|env| (s, env)))
        else {
            return Err(self.bad_envelope(vc, &env));
        };
        let Some(req) = self.queues.posted.take_match(&env) else {
            return self.short_unexpected(vc, env, short.ready, short.to_data(hdr)).map(|()| 0);
        };
        let due = side.flow.inc.pass(ENTRY);
        self.receive_whole(io, req, env, RxBytes::from_slice(short.data(hdr)));
        if rest.len() >= HDR_LEN {
            return Ok(self.short_row(io, vc, (short, hdr), env, rest, due));
        }
        if due {
            self.credit_due(io, vc);
        }
        Ok(0)
    }

    /// Receives the messages behind an eager short one that are like it. Returns their bytes.
    #[inline(never)]
    fn short_row(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        (short, hdr): (Short, &Header),
        env: Envelope,
        rest: RxBytes<'_>,
        mut due: bool,
    ) -> usize {
        let mut more = 0;
        while more < ROW
            && let Some(next) = rest.skip(more * HDR_LEN).first::<HDR_LEN>()
            && short.is_alike(hdr, &next)
            && let Some(req) = self.queues.posted.take_again(&env)
        {
            self.receive_whole(io, req, env, RxBytes::from_slice(short.data(&next)));
            more += 1;
        }
        if more > 0 {
            io.core.count_received(vc, more as u64);
            due = self.vcs.get_mut(vc).is_some_and(|s| s.flow.inc.pass(more as u32 * ENTRY));
        }
        if due {
            self.credit_due(io, vc);
        }
        more * HDR_LEN
    }

    /// Keeps an eager short message without a receive.
    #[inline(never)]
    fn short_unexpected(
        &mut self,
        vc: VcId,
        env: Envelope,
        ready: bool,
        data: ShortData,
    ) -> Result<(), PacketFault> {
        let epoch = self.admit(vc, ENTRY)?;
        if ready {
            self.ready_without_receive(&env);
        }
        let len = data.as_slice().len() as u64;
        let body = Body::Inline(data);
        self.keep(env, Unexpected { vc: Some(vc), sreq: None, len, body, epoch, since: Time::ZERO });
        Ok(())
    }

    /// Returns the VC's epoch if the peer could send an eager message of this charge.
    ///
    /// # Errors
    /// A message beyond the peer's credit.
    #[inline]
    fn admit(&self, vc: VcId, charge: u32) -> Result<u32, PacketFault> {
        match self.vcs.get(vc) {
            Some(s) if s.flow.inc.admit(charge).is_ok() => Ok(s.flow.inc.epoch),
            _ => Err(self.eager_overdrawn(vc, charge)),
        }
    }

    #[cold]
    fn eager_overdrawn(&self, vc: VcId, charge: u32) -> PacketFault {
        self.overdrawn(vc, &format!("an eager message that takes {charge} bytes"))
    }

    /// Completes a receive with a message that is all here.
    #[inline(always)]
    fn receive_whole(&mut self, io: &mut DevIo<'_>, req: ReqId, env: Envelope, bytes: RxBytes<'_>) {
        let (Some(r), Some(m)) = (io.core.req_mut(req), self.reqs.side.get_mut(req)) else { return };
        let room = bytes.len().min(r.seg.total());
        r.seg.unpack(bytes.take(room));
        m.posted = None;
        m.matched = Matched::new(env, room);
        if room < bytes.len() {
            m.truncated_from = bytes.len() as u64;
            self.stats.truncated += 1;
        }
        if m.forgotten {
            return self.reqs.finish(io.core, req, Outcome::Done);
        }
        r.succeed();
        io.core.announce(req);
    }

    /// Handles an eager message that needs no answer: as [`Ch3::eager`], with one look-up of the VC
    /// if its receive is posted.
    #[inline]
    pub(super) fn eager_plain(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        plain: Plain,
        rest: RxBytes<'_>,
    ) -> Result<usize, PacketFault> {
        let Plain { env, ready, len, credit } = plain;
        let charge = credit::charge(len);
        if let Some(side) = self.vcs.get_mut(vc)
            && !side.flow.out.is_waited_for(credit)
            && side.flow.inc.admit(charge).is_ok()
            && let Some(env) = side.own_envelope(env)
        {
            if side.flow.out.is_news(credit) {
                side.flow.out.granted(credit, None);
            }
            let here = rest.take(len as usize);
            let Some(req) = self.queues.posted.take_match(&env) else {
                let epoch = side.flow.inc.epoch;
                if ready {
                    self.ready_without_receive(&env);
                }
                self.eager_unexpected(io, vc, env, len as usize, None, here, epoch);
                return Ok(here.len());
            };
            let due = side.flow.inc.pass(charge);
            if here.len() == len as usize {
                self.receive_whole(io, req, env, here);
            } else {
                let room = self.fit(io, req, env, u64::from(len));
                self.receive(io, vc, req, len as usize - room, here);
            }
            if due {
                self.credit_due(io, vc);
            }
            return Ok(here.len());
        }
        self.credit_came(io, vc, credit);
        self.eager(io, vc, env, len, if ready { Mode::Ready } else { Mode::Standard }, 0, rest)
    }

    /// Handles an eager message. Returns the bytes of `rest` that it took.
    #[inline(never)]
    #[allow(clippy::too_many_arguments)]
    pub(super) fn eager(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        env: Envelope,
        len: u32,
        mode: Mode,
        sreq: u64,
        rest: RxBytes<'_>,
    ) -> Result<usize, PacketFault> {
        let (sreq, ready) = ((mode == Mode::Sync).then_some(sreq), mode == Mode::Ready);
        let charge = credit::charge(len);
        let Some((side, env)) = self.vcs.get_mut(vc).and_then(|s| s.own_envelope(env).map(|env| (s, env)))
        else {
            return Err(self.bad_envelope(vc, &env));
        };
        if side.flow.inc.admit(charge).is_err() {
            return Err(self.eager_overdrawn(vc, charge));
        }
        let epoch = side.flow.inc.epoch;
        let len = len as usize;
        let here = rest.take(len);
        let Some(req) = self.queues.posted.take_match(&env) else {
            if ready {
                self.ready_without_receive(&env);
            }
            self.eager_unexpected(io, vc, env, len, sreq, here, epoch);
            return Ok(here.len());
        };
        if side.flow.inc.pass(charge) {
            self.credit_due(io, vc);
        }
        let room = self.fit(io, req, env, len as u64);
        if let Some(sreq) = sreq {
            self.send_control(io, vc, Packet::EagerSyncAck { sreq });
        }
        self.receive(io, vc, req, len - room, here);
        Ok(here.len())
    }

    /// Starts a receive with the payload that is here; `excess` bytes at its end do not fit.
    #[inline]
    fn receive(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId, excess: usize, here: RxBytes<'_>) {
        let Some(r) = io.core.req_mut(req) else { return };
        let n = r.seg.unpack(here);
        let surplus = here.len() - n;
        let to_drop = excess - surplus.min(excess);
        if r.seg.is_done() && to_drop == 0 {
            self.reqs.finish(io.core, req, Outcome::Done);
            return;
        }
        r.vc = Some(vc);
        r.excess = to_drop as u64;
        io.core.set_recv_active(vc, req);
    }

    /// Keeps an eager message without a receive, in memory of the pool.
    #[inline(never)]
    #[allow(clippy::too_many_arguments)]
    fn eager_unexpected(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        env: Envelope,
        len: usize,
        sreq: Option<u64>,
        here: RxBytes<'_>,
        epoch: u32,
    ) {
        let mut buf = self.reqs.pool.take(len);
        let n = here.copy_to(&mut buf);
        let body = if n == len {
            Body::Whole(buf)
        } else {
            let seg = segment_of(&mut buf[n..]);
            let mut mpi = MpiReq::new(Role::Arriving { then: None }, env);
            mpi.owned = Owned::Recv(buf);
            let req = self.reqs.make(io.core, Some(vc), seg, mpi);
            if let Some(r) = io.core.req_mut(req) {
                r.on_done = OnDone::Upper;
            }
            io.core.set_recv_active(vc, req);
            Body::Arriving(req)
        };
        self.keep(env, Unexpected { vc: Some(vc), sreq, len: len as u64, body, epoch, since: Time::ZERO });
    }

    /// Completes an unexpected message whose data has arrived.
    pub(super) fn arrived(&mut self, core: &mut netmod_core::Core, arriving: ReqId) {
        let Some(MpiReq { role: Role::Arriving { then }, env, .. }) = self.reqs.side.get(arriving) else {
            core.remove_req(arriving);
            return;
        };
        let (then, env) = (*then, *env);
        let key = self.queues.unexpected.find_exact(&env, |u| u.arriving() == Some(arriving));
        if then.is_none() && key.is_none() {
            // A matched probe holds the message until it is received.
            if let Some(r) = core.req_mut(arriving) {
                r.vc = None;
            }
            core.finish(arriving, Outcome::Done);
            return;
        }
        let Some(buf) = self.reqs.take_buffer(core, arriving) else { return };
        if let Some(req) = then {
            if let Some(r) = core.req_mut(req) {
                let room = r.seg.remaining().min(buf.len());
                r.seg.unpack(RxBytes::from_slice(&buf[..room]));
            }
            self.reqs.pool.give(buf);
            self.reqs.finish(core, req, Outcome::Done);
            return;
        }
        match key.and_then(|k| self.queues.unexpected.get_mut(k)) {
            Some(u) => u.body = Body::Whole(buf),
            None => self.reqs.pool.give(buf),
        }
    }

    /// Handles RTS: starts the transfer if the receive is posted, or keeps the announcement.
    pub(super) fn rts(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        env: Envelope,
        sreq: u64,
        data_sz: u64,
        announced: Announced,
    ) -> Result<(), PacketFault> {
        let env = self.check_envelope(vc, env)?;
        let epoch = match self.vcs.get(vc) {
            Some(s) if s.flow.inc.admit_slot().is_ok() => s.flow.inc.epoch,
            _ => return Err(self.overdrawn(vc, "an announced message")),
        };
        tracing::trace!(target: "netmod::message", peer = env.source(), tag = env.tag(), bytes = data_sz, "RTS came");
        match self.queues.posted.take_match(&env) {
            Some(req) => {
                let room = self.fit(io, req, env, data_sz);
                self.start_rndv(io, vc, req, sreq, room as u64, announced);
                self.slot_free(io, vc, epoch, false);
            }
            None => {
                let (vc, sreq) = (Some(vc), Some(sreq));
                let body = Body::Rts(announced.keep());
                self.keep(env, Unexpected { vc, sreq, len: data_sz, body, epoch, since: Time::ZERO });
            }
        }
        Ok(())
    }

    /// Starts a rendezvous for a receive that takes `room` bytes.
    fn start_rndv(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        req: ReqId,
        sreq: u64,
        room: u64,
        announced: Announced,
    ) {
        if let Some(m) = self.reqs.side.get_mut(req) {
            m.role = Role::RndvRecv;
        }
        self.lmt_start_recv(io, vc, req, sreq, room, announced);
    }

    /// Handles the header of a rendezvous's data. Returns the bytes of `rest` that it took.
    #[inline(never)]
    pub(super) fn rndv_data(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        rreq: u64,
        len: u64,
        rest: RxBytes<'_>,
    ) -> Result<usize, PacketFault> {
        let req = ReqId::from_wire(rreq);
        if !self.lmt_data(io, vc, req, len) {
            return Err(PacketFault::Drop {
                what: format!("{len} bytes of rendezvous data for request {req}, which does not expect them"),
                payload: len,
            });
        }
        let traced = tracing::enabled!(target: "netmod::message", tracing::Level::TRACE);
        if traced {
            tracing::trace!(target: "netmod::message", %req, bytes = len, "rendezvous data begins");
            // The end is traced, too.
            if let Some(r) = io.core.req_mut(req) {
                r.on_done = OnDone::Upper;
            }
        }
        let here = rest.take(usize::try_from(len).unwrap_or(usize::MAX));
        self.receive(io, vc, req, 0, here);
        if traced && io.core.is_finished(req) {
            self.trace_received(req);
        }
        Ok(here.len())
    }

    /// Traces the end of a rendezvous's data.
    #[cold]
    pub(super) fn trace_received(&self, req: ReqId) {
        if let Some(Status { source, tag, len, .. }) = self.reqs.side.get(req).map(|m| m.matched.status()) {
            tracing::trace!(
                target: "netmod::message", %req, peer = source, tag, bytes = len, "rendezvous data ends"
            );
        }
    }
}
