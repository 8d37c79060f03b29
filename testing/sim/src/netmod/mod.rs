//! The netmod of one simulated process.
//!
//! The state machine of the TCP netmod makes and ends its connections, and resolves crossing dials.
//! The rest is simulated: the network, the system's buffers and the process's own speed.

mod connect;
mod receive;
mod send;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use netmod_core::card::{BodyReader, BodyWriter};
use netmod_core::lifecycle::VcState;
use netmod_core::slab::VcKind;
use netmod_core::{
    Arm, Break, Card, CardError, CardWriter, Core, DeviceError, Diagnose, Event, Events, Finalize, Header,
    Module, Netmod, NoCheckpoint, NoDynamicProcesses, PacketFault, PeerName, PollOrder, Pollers, Refusal,
    Report, ReqId, Rma, RxBuf, SendBuf, Sent, SideTable, Time, VcError, VcErrorKind, VcId, VcLife,
};
use netmod_tcp::Control;
use netmod_tcp::link::{Link, LinkConfig, LinkEvent, Pending, Phase};

use crate::net::{ConnId, Net};
use crate::sys::Loans;
use netmod_harness::Rng;
use send::{Data, Queue};

/// The netmod's name, also of its section of the card.
pub const NAME: &str = "sim";

/// State of a VC.
#[derive(Debug)]
struct SimVc {
    link: Link,
    peer: PeerName,
    /// True if the peer's card is known, so that it can be dialled.
    carded: bool,
    asked: bool,
    /// True if the pipe is full; the network notifies when it has space.
    blocked: bool,
    dirty: bool,
    wanting: bool,
    timed: bool,
    queue: Option<Box<Queue>>,
    cause: Option<VcError>,
}

impl SimVc {
    fn pending(&self) -> Pending {
        match &self.queue {
            Some(q) if q.is_mid_message() => Pending::Partial,
            Some(q) if !q.is_empty() => Pending::Whole,
            _ => Pending::Nothing,
        }
    }

    fn is_drained(&self) -> bool {
        self.queue.as_ref().is_none_or(|q| q.is_empty())
    }
}

/// Progress of `finalize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    No,
    Until(Time),
    Over,
}

/// The netmod of one process of a simulated job.
#[derive(Debug)]
pub(crate) struct SimNetmod {
    net: Arc<Mutex<Net>>,
    me: PeerName,
    cfg: LinkConfig,
    rng: Rng,
    vcs: SideTable<SimVc, VcKind>,
    by_rank: BTreeMap<u32, VcId>,
    /// Connections whose peers have no VC.
    unclaimed: Vec<(u32, ConnId)>,
    /// Connections that are open, in any state.
    conns: Vec<ConnId>,
    /// Dials begun, to all peers.
    dials: u64,
    loans: Loans,
    dirty: Vec<VcId>,
    wanting: Vec<VcId>,
    timed: Vec<VcId>,
    next_timer: Time,
    events: VecDeque<Event>,
    now: Time,
    ending: Ending,
    /// True if the trace is on.
    traced: bool,
}

impl SimNetmod {
    pub(crate) fn new(net: Arc<Mutex<Net>>, me: PeerName, cfg: LinkConfig) -> SimNetmod {
        let (rng, traced) = {
            let mut net = net.lock().unwrap_or_else(PoisonError::into_inner);
            (net.rng.fork(), net.trace.is_on())
        };
        SimNetmod {
            net,
            me,
            cfg,
            rng,
            vcs: SideTable::new(),
            by_rank: BTreeMap::new(),
            unclaimed: Vec::new(),
            dials: 0,
            conns: Vec::new(),
            loans: Loans::default(),
            dirty: Vec::new(),
            wanting: Vec::new(),
            timed: Vec::new(),
            next_timer: Time::NEVER,
            events: VecDeque::new(),
            now: Time::ZERO,
            ending: Ending::No,
            traced,
        }
    }

    fn net(&self) -> MutexGuard<'_, Net> {
        self.net.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_card(&self, card: &Card) -> Result<u32, String> {
        let section = card.section(NAME).ok_or("its card has no section of netmod sim")?;
        let mut body = BodyReader::new(NAME, section.body);
        let rank = body.u32("rank").and_then(|r| body.finish().map(|()| r)).map_err(|e| e.to_string())?;
        if rank < self.net().size() { Ok(rank) } else { Err(format!("rank {rank} is none of the job's")) }
    }

    /// Returns true if the layer above still needs the peer.
    fn left_open(core: &Core, vc: VcId) -> bool {
        core.vc(vc)
            .is_some_and(|v| v.state.can_receive() || v.state.needs_close() || v.state == VcState::CloseAcked)
    }

    /// Requests another poll without any arrival.
    fn remind(&self) {
        self.net().wake(self.me.rank);
    }
}

impl VcLife for SimNetmod {
    fn vc_init(
        &mut self,
        core: &mut Core,
        vc: VcId,
        peer: PeerName,
        card: Option<&Card>,
    ) -> Result<(), VcError> {
        let wrong = |text: String| VcError::new(VcErrorKind::Card, Some(peer), text);
        if let Some(old) = self.by_rank.get(&peer.rank) {
            return Err(wrong(format!("it has a VC already ({old})")));
        }
        if let Some(card) = card {
            self.read_card(card).map_err(wrong)?;
        }
        let seed = self.rng.word() as u32;
        let v = SimVc {
            link: Link::new(&self.me, &peer, seed),
            peer,
            carded: card.is_some(),
            asked: false,
            blocked: false,
            dirty: false,
            wanting: false,
            timed: false,
            queue: None,
            cause: None,
        };
        self.vcs.insert(vc, v);
        self.by_rank.insert(peer.rank, vc);
        while let Some(i) = self.unclaimed.iter().position(|(r, _)| *r == peer.rank) {
            let (_, conn) = self.unclaimed.swap_remove(i);
            self.incoming(core, vc, conn);
        }
        Ok(())
    }

    fn set_card(&mut self, core: &mut Core, vc: VcId, card: Result<&Card, VcError>) {
        let Some(peer) = self.vcs.get(vc).map(|v| v.peer) else { return };
        let known = card.and_then(|c| {
            self.read_card(c).map_err(|text| VcError::new(VcErrorKind::Card, Some(peer), text))
        });
        if let Some(v) = self.vcs.get_mut(vc) {
            v.asked = false;
            v.carded = known.is_ok();
        }
        match known {
            Ok(_) => self.want(vc),
            Err(e) => self.vc_abort(core, vc, e),
        }
    }

    fn refuse_peer(&mut self, peer: PeerName, why: Refusal) {
        while let Some(i) = self.unclaimed.iter().position(|(r, _)| *r == peer.rank) {
            let (_, conn) = self.unclaimed.swap_remove(i);
            self.reject(conn, why.into());
        }
    }

    fn vc_destroy(&mut self, core: &mut Core, vc: VcId) {
        let Some(mut v) = self.vcs.remove(vc) else { return };
        self.by_rank.remove(&v.peer.rank);
        if let Some(c) = v.link.conn() {
            self.close(connect::id(c));
        }
        if let Some(q) = &mut v.queue {
            let e = VcError::new(VcErrorKind::Aborted, Some(v.peer), "the VC was destroyed");
            q.fail(core, &e);
        }
        core.reset_receive(vc);
    }

    fn vc_terminate(&mut self, core: &mut Core, vc: VcId, now: Time) {
        self.now = now;
        self.pump(core, vc);
        let Some(pending) = self.vcs.get(vc).map(|v| !v.is_drained()) else { return };
        self.link_event(core, vc, LinkEvent::Terminate { pending });
        self.remind();
    }

    fn vc_abort(&mut self, core: &mut Core, vc: VcId, error: VcError) {
        self.abort(core, vc, error);
        self.remind();
    }

    fn watch_peer(&mut self, core: &mut Core, vc: VcId, now: Time) -> bool {
        self.now = now;
        let idle = |v: &&SimVc| v.link.phase() == Phase::Idle;
        let Some(peer) = self.vcs.get(vc).filter(idle).map(|v| v.peer) else { return true };
        if self.net().has_ended(self.me.rank, peer.rank) {
            let text = "the process has ended, as its host says; has it failed?";
            self.vc_abort(core, vc, VcError::new(VcErrorKind::Lost, Some(peer), text));
        }
        true
    }

    fn vc_revive(&mut self, core: &mut Core, vc: VcId, card: Option<&Card>) -> Result<(), VcError> {
        let Some(peer) = self.vcs.get(vc).map(|v| v.peer) else { return Ok(()) };
        if let Some(card) = card {
            self.read_card(card).map_err(|text| VcError::new(VcErrorKind::Card, Some(peer), text))?;
            if let Some(v) = self.vcs.get_mut(vc) {
                v.carded = true;
            }
        }
        self.revive(core, vc);
        Ok(())
    }
}

impl NoDynamicProcesses for SimNetmod {
    const INSTEAD: &'static str = "simulate all in one job";
}

impl NoCheckpoint for SimNetmod {
    const WHY: &'static str = "a simulated process cannot be checkpointed; begin again from its seed";
}

// SAFETY: a queued message is dropped before its request is handed back.
#[allow(unsafe_code)]
unsafe impl Netmod for SimNetmod {
    fn i_send_contig(
        &mut self,
        core: &mut Core,
        vc: VcId,
        req: ReqId,
        hdr: &Header,
        data: SendBuf,
    ) -> Result<Sent, VcError> {
        if self.send_at_once(core, vc, hdr, data.bytes())? {
            return Ok(Sent::Done);
        }
        self.enqueue(core, vc, hdr, Data::Contig(data), req);
        Ok(Sent::Queued)
    }

    fn i_start_contig_msg(
        &mut self,
        core: &mut Core,
        vc: VcId,
        hdr: &Header,
        data: SendBuf,
    ) -> Result<Option<ReqId>, VcError> {
        if self.send_at_once(core, vc, hdr, data.bytes())? {
            return Ok(None);
        }
        Ok(Some(self.start(core, vc, hdr, data)))
    }

    fn send_noncontig(
        &mut self,
        core: &mut Core,
        vc: VcId,
        req: ReqId,
        hdr: &Header,
    ) -> Result<Sent, VcError> {
        self.check_sendable(vc)?;
        let len = core.req(req).map_or(0, |r| r.seg.remaining());
        self.count_send(core, vc, hdr, len);
        self.enqueue(core, vc, hdr, Data::Segment, req);
        Ok(Sent::Queued)
    }

    fn cancel_send(&mut self, core: &mut Core, vc: VcId, req: ReqId) -> bool {
        self.vcs.get_mut(vc).and_then(|v| v.queue.as_mut()).is_some_and(|q| q.cancel(core, req))
    }

    fn control_frame(&mut self, core: &mut Core, vc: VcId, hdr: &Header) -> Result<(), PacketFault> {
        let control = Control::parse(hdr).map_err(|e| PacketFault::violation(e.to_string()))?;
        self.control(core, vc, control);
        Ok(())
    }

    fn flush(&mut self, core: &mut Core) {
        for vc in std::mem::take(&mut self.dirty) {
            if let Some(v) = self.vcs.get_mut(vc) {
                v.dirty = false;
            }
            self.pump(core, vc);
        }
    }

    fn poll(
        &mut self,
        core: &mut Core,
        order: PollOrder,
        now: Time,
        events: &mut Events,
    ) -> Result<(), DeviceError> {
        if self.loans.open() > 0 {
            return Err(DeviceError::new(NAME, "the engine keeps receive buffers beyond a poll"));
        }
        self.now = now;
        self.housekeeping(core);
        if order == PollOrder::OutFirst {
            self.flush(core);
        }
        self.pass_events(events);
        self.receive(core, events);
        self.timers(core);
        self.pass_events(events);
        if order == PollOrder::InFirst {
            self.flush(core);
        }
        if !self.events.is_empty() || !self.dirty.is_empty() || !self.wanting.is_empty() {
            self.remind();
        }
        if !self.dirty.is_empty() {
            core.note_staged();
        }
        Ok(())
    }

    fn release(&mut self, buf: RxBuf) {
        let known = self.loans.give_back(buf);
        debug_assert!(known, "a buffer that was not lent, or is given back twice");
    }

    fn wait_fd(&self) -> Option<RawFd> {
        None
    }

    fn arm(&mut self, core: &mut Core) -> Arm {
        self.flush(core);
        let idle = self.events.is_empty() && self.dirty.is_empty() && self.wanting.is_empty();
        if idle && self.net().inbox_len(self.me.rank) == 0 { Arm::Armed } else { Arm::Busy }
    }

    fn deadline(&self) -> Option<Time> {
        (self.next_timer != Time::NEVER).then_some(self.next_timer)
    }
}

impl Module for SimNetmod {
    fn name(&self) -> &'static str {
        NAME
    }

    fn threads(&self) -> usize {
        0
    }

    fn shares_memory(&self) -> bool {
        false
    }

    fn join_job(&mut self, _job_key: [u8; 32], _: Pollers) -> Result<(), DeviceError> {
        Ok(())
    }

    fn business_card(&self, card: &mut CardWriter) -> Result<(), CardError> {
        let mut body = BodyWriter::new();
        body.u32(self.me.rank);
        card.section(NAME, 1, body.as_bytes())
    }

    fn reachable(&mut self, card: &Card) -> Result<(), VcError> {
        self.read_card(card).map(|_| ()).map_err(VcError::of_card)
    }

    fn rma(&mut self, _core: &Core, _vc: VcId) -> Option<&mut dyn Rma> {
        None
    }

    fn finalize(&mut self, core: &mut Core, now: Time) -> Finalize {
        self.now = now;
        if self.ending == Ending::No {
            self.ending = Ending::Until(now + self.cfg.parting_timeout);
            let vcs: Vec<VcId> = self.vcs.iter().map(|(vc, _)| vc).collect();
            for vc in vcs {
                self.pump(core, vc);
                let pending = self.vcs.get(vc).is_some_and(|v| !v.is_drained());
                self.link_event(core, vc, LinkEvent::Shutdown { pending });
            }
            self.remind();
        }
        if matches!(self.ending, Ending::Until(t) if now >= t) {
            for conn in std::mem::take(&mut self.conns) {
                let side = self.net().side_of(conn, self.me.rank);
                self.net().close(conn, side);
            }
        }
        if !self.conns.is_empty() {
            return Finalize::Pending;
        }
        if self.ending != Ending::Over {
            self.ending = Ending::Over;
            self.net().finalized(self.me.rank);
        }
        Finalize::Done
    }
}

impl Diagnose for SimNetmod {
    fn failure(&self) -> Option<&str> {
        None
    }

    fn opened(&self) -> String {
        "a simulated network".into()
    }

    fn describe(&self, _core: &Core, vc: VcId) -> String {
        let Some(v) = self.vcs.get(vc) else { return "not in charge".into() };
        let state = match v.link.phase() {
            Phase::Failed => {
                format!("down: {}", v.cause.as_ref().map_or_else(String::new, ToString::to_string))
            }
            other => format!("{other:?}"),
        };
        let waiting = v.queue.as_ref().map_or(0, |q| q.len());
        format!("{state}, {waiting} messages queued{}", if v.blocked { ", the pipe is full" } else { "" })
    }

    fn report(&self) -> Option<Report> {
        None
    }

    fn break_connection(&mut self, _core: &mut Core, _vc: VcId, how: Break) -> Result<bool, VcError> {
        how.unsupported(self.name())
    }
}

impl Drop for SimNetmod {
    /// A process that ends without finalizing has crashed.
    fn drop(&mut self) {
        if self.ending != Ending::Over {
            self.net().crash(self.me.rank);
        }
    }
}
