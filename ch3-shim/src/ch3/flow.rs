//! Flow control, carried out: sends for which the peer has no room, and what is given back to peers.
//!
//! The numbers are `credit`'s. All of this is off the path of a message that finds room.

use netmod_core::lifecycle::VcState;
use netmod_core::{OnDone, Outcome, PacketFault, ReqId, Segment, Sent, VcId};

use super::credit::{self, ENTRY, Flow, Incoming, Outgoing, Way};
use super::lent::send_with;
use super::{Body, Ch3, DevIo, MpiReq, Role, Unexpected};
use crate::pkt::{self, Mode, Packet};
use crate::tagmatch::{ANY_SOURCE, Envelope, Pattern};

/// What flow control knows of a peer. Bytes are those of eager messages, each with a fixed charge for its
/// entry; slots are messages announced (RTS) and not yet matched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowReport {
    /// Bytes that each side may have sent before any is taken.
    pub window: u64,
    /// Messages that each side may have announced before any is taken.
    pub slots: u32,
    /// Bytes that this side may still send.
    pub left: u64,
    /// Messages that this side may still announce.
    pub slots_left: u32,
    /// Sends that wait because there are no slots left.
    pub waiting_sends: usize,
    /// Bytes of the peer's messages that wait here for their receives.
    pub held: u64,
    /// Messages that the peer has announced and that wait here for their receives.
    pub held_slots: u32,
    /// Bytes taken that were not given back yet.
    pub owed: u64,
    /// Announced messages taken that were not given back yet.
    pub owed_slots: u32,
    /// Slots that the peer was lent beyond its own, because this side waits for a message behind them.
    pub lent_slots: u32,
}

/// Whether packets can be sent on a VC that is not at its end.
pub(super) fn is_open(state: VcState) -> bool {
    matches!(state, VcState::Active | VcState::LocalClose | VcState::RemoteClose)
}

impl Ch3 {
    /// Whether the peer has room for an eager message, which is then taken.
    #[inline]
    pub(super) fn take_credit(&mut self, vc: VcId, charge: u32) -> bool {
        self.vcs.get_mut(vc).is_some_and(|s| s.flow.out.take(charge))
    }

    /// Sends a message that is too long to go eagerly, or for which the peer's window has no room (`eager`):
    /// announces it, or lets it wait.
    #[cold]
    #[inline(never)]
    pub(super) fn send_announced(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        seg: Segment,
        env: Envelope,
        mode: Mode,
        eager: bool,
    ) -> ReqId {
        let req = self.reqs.make(io.core, Some(vc), seg, MpiReq::new(Role::RndvSend, env));
        if eager {
            self.stats.eager_declined += 1;
        }
        let Some(s) = self.vcs.get_mut(vc) else { return req };
        if s.flow.out.take_slot() {
            self.announce(io, vc, req, mode == Mode::Sync);
        } else {
            self.hold_back(io, vc, req, mode, eager);
        }
        req
    }

    /// The peer has no slot left: the message waits here.
    #[cold]
    fn hold_back(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId, mode: Mode, eager: bool) {
        self.stats.sends_waited += 1;
        // Whatever its length, it goes with its own request if it goes eagerly: not within a header.
        let len = io.core.req(req).map_or(0, |r| r.seg.total());
        let charge = if eager { credit::charge(len as u32) } else { 0 };
        if let Some(m) = self.reqs.side.get_mut(req) {
            m.role = Role::Waiting { mode };
        }
        let Some(s) = self.vcs.get_mut(vc) else { return };
        let ask = s.flow.out.wait(req, charge);
        s.trace();
        if ask {
            self.tell(io, vc, true);
        }
    }

    /// Sends the RTS of a rendezvous, for which a slot was taken.
    fn announce(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId, sync: bool) {
        let (Some(r), Some(m)) = (io.core.req(req), self.reqs.side.get_mut(req)) else { return };
        m.role = Role::RndvSend;
        let total = r.seg.total() as u64;
        self.lmt_initiate(io, vc, req, total, sync);
    }

    /// Sends what has waited, as far as there is room now.
    #[cold]
    pub(super) fn send_waiting(&mut self, io: &mut DevIo<'_>, vc: VcId) {
        if !io.core.vc(vc).is_some_and(|v| is_open(v.state)) {
            return;
        }
        while let Some(s) = self.vcs.get_mut(vc) {
            let next = s.flow.out.next(|req| !io.core.is_finished(*req));
            let Some((req, way)) = next else { return s.trace() };
            let Some(MpiReq { role: Role::Waiting { mode }, .. }) = self.reqs.side.get(req) else { continue };
            let mode = *mode;
            match way {
                Way::Eager => self.send_late(io, vc, req, mode),
                Way::Announced => self.announce(io, vc, req, mode == Mode::Sync),
            }
        }
    }

    /// Sends a message that has waited, with its data.
    fn send_late(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId, mode: Mode) {
        let (Some(r), Some(m)) = (io.core.req_mut(req), self.reqs.side.get_mut(req)) else { return };
        let Some(s) = self.vcs.get_mut(vc) else { return };
        let (len, sync) = (r.seg.total() as u32, mode == Mode::Sync);
        m.role = if sync { Role::SyncSend { sent: false, answer: None } } else { Role::Send };
        r.charge = credit::charge(len);
        if sync {
            r.on_done = OnDone::Upper;
        }
        let sreq = if sync { req.to_wire() } else { 0 };
        let hdr = pkt::emit_eager(m.env, mode, len, sreq, s.flow.inc.settle_bytes());
        match send_with(io, vc, req, &hdr) {
            Ok(Sent::Queued) => {}
            Ok(Sent::Done) => match self.reqs.side.get_mut(req) {
                Some(MpiReq { role: Role::SyncSend { sent, .. }, .. }) => *sent = true,
                _ => self.reqs.finish(io.core, req, Outcome::Done),
            },
            Err(e) => self.reqs.finish(io.core, req, Outcome::Failed(e)),
        }
    }

    /// An eager message was cancelled before any of it had left. Its header may have carried credits.
    #[cold]
    pub(super) fn refund(&mut self, io: &mut DevIo<'_>, vc: VcId, charge: u32) {
        if let Some(s) = self.vcs.get_mut(vc) {
            // A message that says nothing of its charge travelled in its header.
            s.flow.out.refund(if charge == 0 { ENTRY } else { charge });
            if s.flow.inc.must_say() {
                self.tell(io, vc, false);
            }
            self.send_waiting(io, vc);
        }
    }

    /// Sends a Credit: all that is owed is given back.
    #[cold]
    fn tell(&mut self, io: &mut DevIo<'_>, vc: VcId, want: bool) {
        let open = io.core.vc(vc).is_some_and(|v| is_open(v.state));
        let Some(s) = self.vcs.get_mut(vc).filter(|_| open) else { return };
        let (bytes, slots, more) = s.flow.inc.settle();
        if more && s.flow.inc.set_wanting(false) {
            self.budget.remove_wanting(vc);
        }
        self.stats.credits_sent += 1;
        self.send_control(io, vc, Packet::Credit { want, bytes, slots });
    }

    /// Tells the peer if sends wait for its room.
    pub(super) fn tell_if_waiting(&mut self, io: &mut DevIo<'_>, vc: VcId) {
        if self.vcs.get(vc).is_some_and(|s| s.flow.out.waiting() > 0) {
            self.tell(io, vc, true);
        }
    }

    /// Half of what the peer was granted is owed to it.
    #[cold]
    #[inline(never)]
    pub(super) fn credit_due(&mut self, io: &mut DevIo<'_>, vc: VcId) {
        self.tell(io, vc, false);
    }

    /// The VC is used, perhaps again: what could not be told before is told now.
    pub(super) fn flow_resumed(&mut self, io: &mut DevIo<'_>, vc: VcId) {
        let Some(s) = self.vcs.get(vc) else { return };
        let waits = s.flow.out.waiting() > 0;
        if waits || s.flow.inc.is_due() {
            self.tell(io, vc, waits);
        }
    }

    /// A Credit of the peer.
    pub(super) fn recv_credit(&mut self, io: &mut DevIo<'_>, vc: VcId, want: bool, bytes: u32, slots: u32) {
        self.stats.credits_received += 1;
        let Some(s) = self.vcs.get_mut(vc) else { return };
        let had = s.flow.out.left().1;
        s.flow.out.granted(bytes, Some(slots));
        let more = s.flow.out.left().1 > had;
        if s.flow.out.waiting() > 0 {
            self.send_waiting(io, vc);
            if more {
                self.tell_if_waiting(io, vc);
            }
        }
        if want {
            self.budget.wants += 1;
            if let Some(s) = self.vcs.get_mut(vc)
                && !s.flow.inc.set_wanting(true)
            {
                self.budget.add_wanting(vc);
            }
            if self.is_awaited(vc) {
                self.relieve(io, vc);
            }
        }
    }

    /// Credits that came with an eager message.
    #[inline]
    pub(super) fn credit_came(&mut self, io: &mut DevIo<'_>, vc: VcId, bytes: u32) {
        let Some(s) = self.vcs.get_mut(vc).filter(|s| s.flow.out.is_news(bytes)) else { return };
        s.flow.out.granted(bytes, None);
        if s.flow.out.waiting() > 0 {
            self.send_waiting(io, vc);
        }
    }

    /// Whether a posted receive may be for a message of this VC.
    fn is_awaited(&self, vc: VcId) -> bool {
        let Some((rank, space)) = self.vcs.get(vc).map(|s| (s.rank as i32, s.space)) else { return false };
        self.queues
            .posted
            .any(|p| (p.source() == rank || p.source() == ANY_SOURCE) && space.owns(p.context()))
    }

    /// This process looks for a message that is not here. It may be behind others for which its sender has
    /// no slots.
    #[cold]
    #[inline(never)]
    pub(crate) fn relieve_for(&mut self, io: &mut DevIo<'_>, pattern: &Pattern) {
        let sources = self.vcs.iter().filter(|(_, s)| s.flow.inc.is_wanting());
        let fitting = sources.filter(|(_, s)| {
            (pattern.source() == s.rank as i32 || pattern.source() == ANY_SOURCE)
                && s.space.owns(pattern.context())
        });
        for vc in fitting.map(|(vc, _)| vc).collect::<Vec<_>>() {
            self.relieve(io, vc);
        }
    }

    /// Gives a peer that waits for slots those that are owed to it, or else lends it some.
    fn relieve(&mut self, io: &mut DevIo<'_>, vc: VcId) {
        // The peer may have closed meanwhile; its messages wait all the same.
        let open = io.core.vc(vc).is_some_and(|v| is_open(v.state));
        if self.closing.finalizing || !(open || self.use_vc(io, vc).is_ok()) {
            return;
        }
        let Some(s) = self.vcs.get_mut(vc).filter(|s| s.flow.inc.is_wanting()) else { return };
        if s.flow.inc.slots().1 == 0 {
            let n = self.budget.lend(s.flow.inc.terms().slots);
            if n == 0 {
                if self.budget.is_first_warning() {
                    tracing::warn!(
                        peer = s.rank,
                        "a receive waits for a message behind more unmatched ones than may be kept; if the \
                         program hangs, raise NETMOD_UNEXPECTED_MAX"
                    );
                }
                return;
            }
            s.flow.inc.lend(n);
            self.stats.slots_lent += u64::from(n);
        }
        self.tell(io, vc, false);
    }

    /// Accounts for a message that is kept for a receive to come.
    pub(super) fn charge_kept(&mut self, msg: &Unexpected) {
        if let Some(s) = msg.vc.and_then(|vc| self.vcs.get_mut(vc)) {
            match msg.body {
                Body::Rts(_) => s.flow.inc.hold_slot(),
                Body::Inline(_) | Body::Whole(_) | Body::Arriving(_) => s.flow.inc.hold(msg.charge()),
                Body::Local(_) => {}
            }
        }
        let stats = &mut self.stats;
        stats.unexpected += 1;
        stats.unexpected_bytes += msg.held();
        stats.unexpected_memory += u64::from(ENTRY) + msg.held();
        stats.unexpected_memory_high = stats.unexpected_memory_high.max(stats.unexpected_memory);
    }

    /// A message that was kept is no more: what it was charged is owed to its sender.
    pub(super) fn discharge(&mut self, io: &mut DevIo<'_>, msg: &Unexpected) {
        self.stats.unexpected_bytes -= msg.held();
        self.stats.unexpected_memory -= u64::from(ENTRY) + msg.held();
        let Some(vc) = msg.vc else {
            if matches!(msg.body, Body::Whole(_)) {
                self.budget.give_own(msg.charge());
            }
            return;
        };
        match msg.body {
            Body::Rts(_) => self.slot_free(io, vc, msg.epoch, true),
            _ => {
                if let Some(s) = self.vcs.get_mut(vc).filter(|s| s.flow.inc.epoch == msg.epoch)
                    && s.flow.inc.release(msg.charge())
                {
                    self.credit_due(io, vc);
                }
            }
        }
    }

    /// The slot of an announced message is free again; whether it was `held` here for a while.
    pub(super) fn slot_free(&mut self, io: &mut DevIo<'_>, vc: VcId, epoch: u32, held: bool) {
        let Some(s) = self.vcs.get_mut(vc).filter(|s| s.flow.inc.epoch == epoch) else { return };
        let inc = &mut s.flow.inc;
        let before = inc.slots().2;
        let due = if held { inc.release_slot() } else { inc.pass_slot() };
        self.budget.repaid(before - inc.slots().2);
        if due {
            self.credit_due(io, vc);
        }
    }

    /// A message that the peer had no right to send.
    #[cold]
    pub(super) fn overdrawn(&self, vc: VcId, what: &str) -> PacketFault {
        let r = self.flow_report(vc);
        PacketFault::Violation {
            what: format!(
                "{what}, more than was granted: {} of {} bytes and {} of {} slots are in use",
                r.held + r.owed,
                r.window,
                r.held_slots + r.owed_slots,
                r.slots + r.lent_slots
            ),
        }
    }

    /// The VC has failed: both sides start anew, should they meet again.
    pub(super) fn flow_lost(&mut self, vc: VcId) {
        let Some(s) = self.vcs.get_mut(vc) else { return };
        self.budget.repaid(s.flow.inc.slots().2);
        let epoch = s.flow.inc.epoch.wrapping_add(1);
        // Nothing waits any more: its end has to be told.
        s.flow.out = Outgoing::new(s.flow.inc.terms());
        s.trace();
        s.flow.inc = Incoming::new(s.flow.inc.terms());
        s.flow.inc.epoch = epoch;
        self.budget.remove_wanting(vc);
    }

    /// Flow control of a VC, for people.
    pub(crate) fn flow_report(&self, vc: VcId) -> FlowReport {
        let Some(Flow { out, inc }) = self.vcs.get(vc).map(|s| &s.flow) else {
            return FlowReport::default();
        };
        let (terms, (left, slots_left), (held, owed)) = (inc.terms(), out.left(), inc.bytes());
        let (held_slots, owed_slots, lent_slots) = inc.slots();
        FlowReport {
            window: terms.window.into(),
            slots: terms.slots,
            left: left.into(),
            slots_left,
            waiting_sends: out.waiting(),
            held: held.into(),
            held_slots,
            owed: owed.into(),
            owed_slots,
            lent_slots,
        }
    }
}
