//! Flow control, carried out: sends that wait for room, and credit that is returned to peers.
//!
//! `credit` counts. All of this is off the path of a message that finds room.

use netmod_core::lifecycle::VcState;
use netmod_core::{OnDone, Outcome, PacketFault, ReqId, Segment, Sent, VcId};

use super::credit::{self, ENTRY, Flow, Incoming, Outgoing, Protocol};
use super::lent::send_with;
use super::{Body, Ch3, DevIo, MpiReq, Role, Unexpected, threads};
use crate::incident::IncidentKind;
use crate::pkt::{self, Mode, Packet};
use crate::tagmatch::{ANY_SOURCE, Envelope, Pattern};

/// The state of flow control with a peer. Bytes are those of eager messages, each with a fixed
/// charge for its entry; slots are messages announced (RTS) and not yet matched.
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
    /// Bytes of the peer's messages that wait for their receives here.
    pub held: u64,
    /// Messages that the peer has announced and that wait for their receives here.
    pub held_slots: u32,
    /// Bytes taken and not returned.
    pub owed: u64,
    /// Announced messages taken whose slots were not returned.
    pub owed_slots: u32,
    /// Slots lent to the peer, since this side waits for a message behind them.
    pub lent_slots: u32,
}

/// Returns true if packets can be sent on a VC in this state.
pub(super) fn is_open(state: VcState) -> bool {
    matches!(state, VcState::Active | VcState::LocalClose | VcState::RemoteClose)
}

impl Ch3 {
    /// Announces a message that is too long to go eagerly, or has no room in the peer's window
    /// (`eager`). Queues it if no slot is left.
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

    /// Queues a message for which the peer has no slot left.
    #[cold]
    fn hold_back(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId, mode: Mode, eager: bool) {
        self.stats.sends_waited += 1;
        // An eager message that has waited uses its own request, never a header, whatever its
        // length.
        let len = io.core.req(req).map_or(0, |r| r.seg.total());
        let charge = if eager { credit::charge(len as u32) } else { 0 };
        if let Some(m) = self.reqs.side.get_mut(req) {
            m.role = Role::Waiting { mode };
        }
        let Some(s) = self.vcs.get_mut(vc) else { return };
        let is_first = s.flow.out.waiting() == 0;
        let ask = s.flow.out.wait(req, charge);
        s.trace();
        if is_first {
            self.note_incident(io, vc, IncidentKind::Slow);
        }
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

    /// Sends what has waited, as far as there is room.
    #[cold]
    pub(super) fn send_waiting(&mut self, io: &mut DevIo<'_>, vc: VcId) {
        if !io.core.vc(vc).is_some_and(|v| is_open(v.state)) {
            return;
        }
        while let Some(s) = self.vcs.get_mut(vc) {
            let next = s.flow.out.next(|req| !io.core.is_finished(*req));
            let Some((req, protocol)) = next else { return s.trace() };
            let Some(MpiReq { role: Role::Waiting { mode }, .. }) = self.reqs.side.get(req) else { continue };
            let mode = *mode;
            match protocol {
                Protocol::Eager => self.send_late(io, vc, req, mode),
                Protocol::Announced => self.announce(io, vc, req, mode == Mode::Sync),
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

    /// Returns the charge of an eager message that was cancelled before it left. Its header may
    /// have carried credits.
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

    /// Sends a Credit, which returns all that is owed.
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

    /// Returns credit to the peer, since half of its terms is owed.
    #[cold]
    #[inline(never)]
    pub(super) fn credit_due(&mut self, io: &mut DevIo<'_>, vc: VcId) {
        self.tell(io, vc, false);
    }

    /// Sends the Credit that a VC could not send before it was used.
    pub(super) fn flow_resumed(&mut self, io: &mut DevIo<'_>, vc: VcId) {
        let Some(s) = self.vcs.get(vc) else { return };
        let waits = s.flow.out.waiting() > 0;
        if waits || s.flow.inc.is_due() {
            self.tell(io, vc, waits);
        }
    }

    /// Handles a Credit of the peer.
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

    /// Handles the credit that came with an eager message.
    #[inline]
    pub(super) fn credit_came(&mut self, io: &mut DevIo<'_>, vc: VcId, bytes: u32) {
        let Some(s) = self.vcs.get_mut(vc).filter(|s| s.flow.out.is_news(bytes)) else { return };
        s.flow.out.granted(bytes, None);
        if s.flow.out.waiting() > 0 {
            self.send_waiting(io, vc);
        }
    }

    /// Returns true if a posted receive may match a message of this VC.
    fn is_awaited(&self, vc: VcId) -> bool {
        let Some((rank, space)) = self.vcs.get(vc).map(|s| (s.source(), s.space)) else { return false };
        self.queues.posted.any(|p| [rank, ANY_SOURCE].contains(&threads::asked(p)) && space.owns(p.context()))
    }

    /// Lends slots to the senders that a pattern fits, since the message that it looks for may wait
    /// behind others there.
    #[cold]
    #[inline(never)]
    pub(crate) fn relieve_for(&mut self, io: &mut DevIo<'_>, pattern: &Pattern) {
        let sources = self.vcs.iter().filter(|(_, s)| s.flow.inc.is_wanting());
        let fitting = sources.filter(|(_, s)| {
            [s.source(), ANY_SOURCE].contains(&threads::asked(pattern)) && s.space.owns(pattern.context())
        });
        for vc in fitting.map(|(vc, _)| vc).collect::<Vec<_>>() {
            self.relieve(io, vc);
        }
    }

    /// Returns the slots that are owed to a peer that waits for some, or lends it some.
    fn relieve(&mut self, io: &mut DevIo<'_>, vc: VcId) {
        // The peer may have closed; its messages wait all the same.
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

    /// Charges a message that is kept for a later receive.
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

    /// Ends the charge of a kept message; it is owed to the sender.
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

    /// Frees the slot of an announced message. `held`: it was kept here.
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

    /// Returns the fault of a message beyond the peer's credit.
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

    /// Resets flow control of a VC that has failed; both sides begin anew.
    pub(super) fn flow_lost(&mut self, vc: VcId) {
        let Some(s) = self.vcs.get_mut(vc) else { return };
        self.budget.repaid(s.flow.inc.slots().2);
        let epoch = s.flow.inc.epoch.wrapping_add(1);
        // The log tells that nothing waits any more.
        s.flow.out = Outgoing::new(s.flow.inc.terms());
        s.trace();
        s.flow.inc = Incoming::new(s.flow.inc.terms());
        s.flow.inc.epoch = epoch;
        self.budget.remove_wanting(vc);
    }

    /// Returns the state of flow control of a VC, for human readers.
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
