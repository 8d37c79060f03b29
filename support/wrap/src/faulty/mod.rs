//! Fault injection: a netmod that breaks connections, and delays, cuts and alters received bytes.
//!
//! Received bytes are copied into buffers of the wrapper, and never read straight into a receive's
//! memory ([`netmod_core::Vc::no_direct`]), so that they can be held and cut. Events of a VC stay
//! behind its bytes. The wrapped netmod is told while bytes are held ([`Events::hold`]): it must
//! not take the end of a connection for a loss before the goodbye in those bytes is handled.

mod loan;
mod vc;

use std::fmt;

use netmod_core::slab::VcKind;
use netmod_core::{
    Arm, Break, Card, Checkpoint, Core, DeviceError, Diagnose, DynamicProcesses, Event, Events, Finalize,
    Header, Module, Netmod, PeerName, PollOrder, Refusal, ReqId, Request, RxBuf, Segment, SendBuf, Sent,
    SideTable, Time, VcError, VcErrorKind, VcId, VcLife, forward, port_group,
};

use crate::plan::FaultPlan;
use loan::Loans;
use netmod_harness::Rng;
use vc::{Data, Fate, Outgoing, Received, VcFaults};

/// Held bytes beyond which the wrapped netmod is not polled.
const HELD_MAX: usize = 16 << 20;
/// Purpose of the random numbers for unknown peers.
const UNKNOWN_PEERS: u64 = 4;

/// Counters of injected faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultStats {
    /// Broken connections.
    pub dropped: u64,
    /// Aborted VCs.
    pub aborted: u64,
    /// Delayed received pieces.
    pub delayed: u64,
    /// Cuts of received pieces.
    pub split: u64,
    /// Altered bits.
    pub flipped: u64,
    /// Refused peers.
    pub refused: u64,
    /// Messages held before they were sent.
    pub held: u64,
}

impl fmt::Display for FaultStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.dropped, "connections broken"),
            (self.aborted, "VCs given up"),
            (self.delayed, "pieces delayed"),
            (self.split, "cuts"),
            (self.flipped, "bits altered"),
            (self.refused, "peers refused"),
            (self.held, "sends held"),
        ];
        let mut between = "";
        for (n, what) in counts.into_iter().filter(|(n, _)| *n > 0) {
            write!(f, "{between}{n} {what}")?;
            between = ", ";
        }
        if between.is_empty() { f.write_str("nothing yet") } else { Ok(()) }
    }
}

/// A netmod with injected faults.
pub struct Faulty<N> {
    inner: N,
    plan: FaultPlan,
    me: PeerName,
    vcs: SideTable<VcFaults, VcKind>,
    /// VCs with held received data, in the order in which they are served.
    waiting: Vec<VcId>,
    /// VCs with held messages.
    sending: Vec<VcId>,
    /// Held bytes.
    held: usize,
    unknown_peers: Rng,
    incoming: Events,
    loans: Loans,
    now: Time,
    stats: FaultStats,
    told: bool,
}

impl<N: Netmod> fmt::Debug for Faulty<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.inner.name();
        f.debug_struct("Faulty").field("inner", &name).field("plan", &self.plan).finish_non_exhaustive()
    }
}

impl<N: Netmod> Faulty<N> {
    /// Wraps `inner` with the faults of a plan, in the process `me`.
    pub fn new(inner: N, plan: FaultPlan, me: PeerName) -> Faulty<N> {
        tracing::info!(target: "netmod::faults", netmod = inner.name(), %plan, "faults are injected");
        Faulty {
            inner,
            unknown_peers: Rng::for_purpose(plan.seed, &[u64::from(me.rank), 0, UNKNOWN_PEERS]),
            plan,
            me,
            vcs: SideTable::new(),
            waiting: Vec::new(),
            sending: Vec::new(),
            held: 0,
            incoming: Events::default(),
            loans: Loans::default(),
            now: Time::ZERO,
            stats: FaultStats::default(),
            told: false,
        }
    }

    /// Returns the wrapped netmod.
    pub fn inner(&self) -> &N {
        &self.inner
    }

    /// Returns the wrapped netmod.
    pub fn inner_mut(&mut self) -> &mut N {
        &mut self.inner
    }

    /// Returns the counters.
    pub fn stats(&self) -> FaultStats {
        self.stats
    }

    /// Injects the fault that the plan has for the next message.
    fn strike(&mut self, core: &mut Core, vc: VcId) {
        let Some(l) = self.vcs.get_mut(vc) else { return };
        let (fate, peer) = (l.fate(&self.plan), l.peer);
        match fate {
            Fate::Nothing => {}
            Fate::Break if self.inner.break_connection(core, vc, Break::Reset).is_ok() => {
                self.stats.dropped += 1;
                tracing::debug!(target: "netmod::faults", peer = peer.rank, "connection broken");
            }
            Fate::Break | Fate::Abort => {
                self.stats.aborted += 1;
                tracing::debug!(target: "netmod::faults", peer = peer.rank, "VC given up");
                let why = "the link was dropped by fault injection (NETMOD_FAULTS)";
                self.vc_abort(core, vc, VcError::new(VcErrorKind::Lost, Some(peer), why));
            }
        }
    }

    /// Returns true if the next message of a VC must be held.
    fn holds(&self, vc: VcId) -> bool {
        self.vcs.get(vc).is_some_and(|l| self.plan.send_delay.is_some() || !l.outbox.is_empty())
    }

    fn hold(&mut self, vc: VcId, req: ReqId, hdr: &Header, data: Data) {
        let Some(l) = self.vcs.get_mut(vc) else { return };
        let due = l.due(&self.plan, self.now);
        if l.outbox.is_empty() {
            self.sending.push(vc);
        }
        l.outbox.push_back(Outgoing { due, req, hdr: *hdr, data });
        self.stats.held += 1;
    }

    /// Passes the messages of a VC that are due by `until` to the netmod.
    fn send_held(&mut self, core: &mut Core, vc: VcId, until: Time) {
        while let Some(m) = self.vcs.get_mut(vc).and_then(|l| l.outbox.pop_front_if(|m| m.due <= until)) {
            let sent = match m.data {
                Data::Contig(data) => self.inner.i_send_contig(core, vc, m.req, &m.hdr, data),
                Data::Segment => self.inner.send_noncontig(core, vc, m.req, &m.hdr),
            };
            match sent {
                Ok(Sent::Queued) => {}
                Ok(Sent::Done) => core.send_finished(vc, m.req),
                Err(e) => core.send_failed(m.req, &e),
            }
        }
        if self.vcs.get(vc).is_none_or(|l| l.outbox.is_empty()) {
            self.sending.retain(|v| *v != vc);
        }
    }

    fn send_all_held(&mut self, core: &mut Core, until: Time) {
        let mut at = 0;
        while let Some(vc) = self.sending.get(at).copied() {
            self.send_held(core, vc, until);
            at += usize::from(self.sending.get(at) == Some(&vc));
        }
    }

    /// Fails the held messages of a VC.
    fn fail_held(&mut self, core: &mut Core, vc: VcId, error: &VcError) {
        if let Some(l) = self.vcs.get_mut(vc) {
            l.outbox.drain(..).for_each(|m| core.send_failed(m.req, error));
            self.sending.retain(|v| *v != vc);
        }
    }

    /// Copies received bytes, possibly altered.
    fn hold_back(&mut self, vc: VcId, mut bytes: Vec<u8>) -> Received {
        if let Some(l) = self.vcs.get_mut(vc) {
            l.flip(&self.plan, &mut bytes, &mut self.stats);
        }
        self.held += bytes.len();
        Received::Bytes { bytes, gone: 0 }
    }

    /// Takes the events of the wrapped netmod.
    fn take(&mut self, core: &mut Core, events: &mut Events) {
        while let Some(ev) = self.incoming.pop() {
            let (vc, what) = match ev {
                Event::Rx { vc, buf } => {
                    let mut bytes = Vec::with_capacity(buf.bytes().len());
                    buf.bytes().append_to(&mut bytes);
                    self.inner.release(buf);
                    (vc, self.hold_back(vc, bytes))
                }
                Event::NewPeer { peer, .. } | Event::PortPeer { peer, .. } => {
                    if self.unknown_peers.chance(self.plan.refuse) {
                        self.stats.refused += 1;
                        tracing::debug!(target: "netmod::faults", peer = peer.rank, "peer refused");
                        self.inner.refuse_peer(peer, Refusal::NotWanted);
                    } else {
                        events.push(ev);
                    }
                    continue;
                }
                Event::NeedCard { .. } => {
                    events.push(ev);
                    continue;
                }
                Event::Down { vc, ref error } => {
                    let error = error.clone();
                    self.fail_held(core, vc, &error);
                    (vc, Received::Event(ev))
                }
                Event::Up { vc }
                | Event::Resumed { vc }
                | Event::Terminated { vc }
                | Event::RecvDone { vc }
                | Event::RmaDone { vc, .. } => (vc, Received::Event(ev)),
            };
            match self.vcs.get_mut(vc) {
                Some(l) => {
                    if l.inbox.is_empty() {
                        self.waiting.push(vc);
                    }
                    l.receive(&self.plan, what, self.now, &mut self.stats);
                }
                // The netmod has given up the VC meanwhile: its bytes are dropped.
                None => match what {
                    Received::Bytes { bytes, .. } => self.held -= bytes.len(),
                    Received::Event(ev) => events.push(ev),
                },
            }
        }
    }

    /// Delivers what is due, as far as there is room.
    fn deliver(&mut self, events: &mut Events) {
        for i in 0..self.waiting.len() {
            let vc = self.waiting[i];
            while events.room() > 0
                && let Some(l) = self.vcs.get_mut(vc)
                && l.inbox.front().is_some_and(|(due, _)| *due <= self.now)
                && let Some((due, what)) = l.inbox.pop_front()
            {
                let (bytes, gone) = match what {
                    Received::Event(ev) => {
                        events.push(ev);
                        continue;
                    }
                    Received::Bytes { bytes, gone } => (bytes, gone),
                };
                let left = bytes.len() - gone;
                let (n, later) = l.cut(&self.plan, left, &mut self.stats);
                events.push(Event::Rx { vc, buf: self.loans.lend(bytes[gone..gone + n].to_vec()) });
                self.held -= n;
                if n < left {
                    l.inbox.push_front((due, Received::Bytes { bytes, gone: gone + n }));
                    if later {
                        break;
                    }
                }
            }
        }
        let vcs = &self.vcs;
        self.waiting.retain(|vc| vcs.get(*vc).is_some_and(|l| !l.inbox.is_empty()));
        // Another VC comes first next time.
        if self.waiting.len() > 1 {
            self.waiting.rotate_left(1);
        }
    }

    /// Drops the bytes of a VC that were not delivered.
    fn discard(&mut self, vc: VcId) {
        let Some(l) = self.vcs.get_mut(vc) else { return };
        let mut bytes = 0;
        l.inbox.retain(|(_, what)| match what {
            Received::Bytes { bytes: b, gone } => {
                bytes += b.len() - gone;
                false
            }
            Received::Event(_) => true,
        });
        self.held -= bytes;
    }

    /// Starts the side table entry of a new VC.
    fn take_charge(&mut self, core: &mut Core, vc: VcId, peer: PeerName) {
        if let Some(v) = core.vc_mut(vc) {
            v.forbid_direct();
        }
        self.vcs.insert(vc, VcFaults::new(&self.plan, self.me, peer));
    }

    fn next_due(&self) -> Option<Time> {
        let next = |vc: &VcId| self.vcs.get(*vc).and_then(VcFaults::next);
        self.waiting.iter().chain(&self.sending).filter_map(next).min()
    }
}

/// Names the wrapped netmod for [`netmod_core::forward`].
macro_rules! inner {
    ($wrapper:expr, [$($vc:ident),*], $n:ident => $body:expr) => {{
        let Self { inner: $n, .. } = $wrapper;
        $body
    }};
}

impl<N: Netmod> VcLife for Faulty<N> {
    forward!(inner: set_card, refuse_peer, vc_revive, watch_peer);

    fn vc_init(
        &mut self,
        core: &mut Core,
        vc: VcId,
        peer: PeerName,
        card: Option<&Card>,
    ) -> Result<(), VcError> {
        self.inner.vc_init(core, vc, peer, card)?;
        self.take_charge(core, vc, peer);
        Ok(())
    }

    fn vc_destroy(&mut self, core: &mut Core, vc: VcId) {
        let peer = self.vcs.get(vc).map(|l| l.peer);
        self.fail_held(core, vc, &VcError::new(VcErrorKind::Aborted, peer, "the VC was destroyed"));
        self.discard(vc);
        self.vcs.remove(vc);
        self.waiting.retain(|v| *v != vc);
        self.inner.vc_destroy(core, vc);
    }

    fn vc_terminate(&mut self, core: &mut Core, vc: VcId, now: Time) {
        self.send_held(core, vc, Time::NEVER);
        self.inner.vc_terminate(core, vc, now);
    }

    fn vc_abort(&mut self, core: &mut Core, vc: VcId, error: VcError) {
        self.fail_held(core, vc, &error);
        // Data after the abort is not of the trusted connection.
        self.discard(vc);
        self.inner.vc_abort(core, vc, error);
    }
}

impl<N: Netmod> DynamicProcesses for Faulty<N> {
    forward!(inner: open_port, close_port, join_group, leave_group);

    fn connect_to_root(
        &mut self,
        core: &mut Core,
        vc: VcId,
        card: &Card,
        port_tag: u64,
    ) -> Result<(), VcError> {
        self.inner.connect_to_root(core, vc, card, port_tag)?;
        self.take_charge(core, vc, PeerName { group: port_group(port_tag), rank: 0 });
        Ok(())
    }
}

impl<N: Netmod> Checkpoint for Faulty<N> {
    forward!(inner: can_ckpt, ckpt_restart, ckpt_peer);

    fn ckpt_shutdown(&mut self, core: &mut Core, now: Time) -> Result<Finalize, DeviceError> {
        self.send_all_held(core, Time::NEVER);
        let inner = self.inner.ckpt_shutdown(core, now)?;
        Ok(if self.waiting.is_empty() { inner } else { Finalize::Pending })
    }
}

// SAFETY: a delayed message is dropped before its request is handed back; `Loans` keeps lent bytes.
#[allow(unsafe_code)]
unsafe impl<N: Netmod> Netmod for Faulty<N> {
    forward!(inner: control_frame, flush, wait_fd);

    fn i_send_contig(
        &mut self,
        core: &mut Core,
        vc: VcId,
        req: ReqId,
        hdr: &Header,
        data: SendBuf,
    ) -> Result<Sent, VcError> {
        self.strike(core, vc);
        if self.holds(vc) {
            self.hold(vc, req, hdr, Data::Contig(data));
            return Ok(Sent::Queued);
        }
        self.inner.i_send_contig(core, vc, req, hdr, data)
    }

    fn i_start_contig_msg(
        &mut self,
        core: &mut Core,
        vc: VcId,
        hdr: &Header,
        data: SendBuf,
    ) -> Result<Option<ReqId>, VcError> {
        self.strike(core, vc);
        if self.holds(vc) {
            let req = core.add_req(Request::new(Some(vc), Segment::empty()));
            self.hold(vc, req, hdr, Data::Contig(data));
            return Ok(Some(req));
        }
        self.inner.i_start_contig_msg(core, vc, hdr, data)
    }

    fn send_noncontig(
        &mut self,
        core: &mut Core,
        vc: VcId,
        req: ReqId,
        hdr: &Header,
    ) -> Result<Sent, VcError> {
        self.strike(core, vc);
        if self.holds(vc) {
            self.hold(vc, req, hdr, Data::Segment);
            return Ok(Sent::Queued);
        }
        self.inner.send_noncontig(core, vc, req, hdr)
    }

    fn cancel_send(&mut self, core: &mut Core, vc: VcId, req: ReqId) -> bool {
        if let Some(l) = self.vcs.get_mut(vc)
            && let Some(at) = l.outbox.iter().position(|m| m.req == req)
        {
            l.outbox.remove(at);
            if l.outbox.is_empty() {
                self.sending.retain(|v| *v != vc);
            }
            return true;
        }
        self.inner.cancel_send(core, vc, req)
    }

    fn poll(
        &mut self,
        core: &mut Core,
        order: PollOrder,
        now: Time,
        events: &mut Events,
    ) -> Result<(), DeviceError> {
        self.now = now;
        self.send_all_held(core, now);
        if self.held < HELD_MAX {
            self.incoming.hold(self.waiting.iter().copied(), events);
            self.inner.poll(core, order, now, &mut self.incoming)?;
            self.take(core, events);
        }
        self.deliver(events);
        Ok(())
    }

    fn release(&mut self, buf: RxBuf) {
        self.loans.give_back(buf);
    }

    fn arm(&mut self, core: &mut Core) -> Arm {
        match self.inner.arm(core) {
            Arm::Armed if self.next_due().is_some_and(|due| due <= self.now) => Arm::Busy,
            armed => armed,
        }
    }

    fn deadline(&self) -> Option<Time> {
        self.inner.deadline().into_iter().chain(self.next_due()).min()
    }
}

impl<N: Netmod> Module for Faulty<N> {
    forward!(inner: name, threads, shares_memory, join_job, business_card, reachable, rma);

    fn finalize(&mut self, core: &mut Core, now: Time) -> Finalize {
        self.now = now;
        self.send_all_held(core, Time::NEVER);
        if !std::mem::replace(&mut self.told, true) {
            tracing::info!(target: "netmod::faults", netmod = self.name(), done = %self.stats, "faults injected");
        }
        self.inner.finalize(core, now)
    }
}

impl<N: Netmod> Diagnose for Faulty<N> {
    forward!(inner: failure, opened, report, break_connection);

    fn describe(&self, core: &Core, vc: VcId) -> String {
        let inner = self.inner.describe(core, vc);
        let (inbox, outbox) = self.vcs.get(vc).map_or((0, 0), |l| (l.inbox.len(), l.outbox.len()));
        format!(
            "{inner}; faults by {}: {}; of this VC {inbox} pieces and {outbox} sends are held",
            self.plan, self.stats
        )
    }
}
