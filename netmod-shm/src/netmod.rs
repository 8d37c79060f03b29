//! The netmod as a whole: its state, and the `Netmod` trait.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::RawFd;
use std::path::Path;
use std::time::Duration;

use netmod_core::config::ShmConfig;
use netmod_core::slab::VcKind;
use netmod_core::{
    Arm, Card, CardError, CardWriter, Core, Data, DeviceError, Diagnose, Event, Events, Finalize, Header,
    Message, Module, Netmod, NoDynamicProcesses, PeerName, PollOrder, Pollers, Refusal, ReqId, Request, Rma,
    RxBuf, Segment as Memory, SendBuf, Sent, SideTable, Time, VcError, VcErrorKind, VcId, VcLife, WorkList,
};

use crate::NAME;
use crate::card::Place;
use crate::checkpoint::Stage;
use crate::helper::Helper;
use crate::lane::Lane;
use crate::link::Link;
use crate::ring::Kind;
use crate::rma::Transfers;
use crate::segment::Segment;
use crate::segment::raw::OwnBells;
use crate::survey::joint_from;
use crate::sys::Pipe;
use crate::watch::Unwatched;

/// How long `finalize` waits for peers to read what is queued.
const PARTING: Duration = Duration::from_secs(2);
/// How long a peer may be away for a checkpoint, unless that is set.
const PATIENCE: Duration = Duration::from_secs(3600);
/// How often the kernel is asked whether peers live.
pub(crate) const CHECK: Duration = Duration::from_millis(100);

/// What the netmod has seen, beside what each VC counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShmStats {
    /// Doorbells rung.
    pub rings: u64,
    /// Ranks woken.
    pub wakes: u64,
    /// Times that a ring had no room.
    pub full: u64,
    /// Peers that could not prove to be of the job.
    pub strangers: u64,
    /// Parts of gets that were written for their readers.
    pub helped: u64,
}

/// How far `finalize` has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    No,
    Until(Time),
    Over,
}

/// The shared-memory netmod of one process.
#[derive(Debug)]
pub struct ShmNetmod {
    pub(crate) me: PeerName,
    cfg: ShmConfig,
    /// The node's memory, or why there is none.
    pub(crate) segment: Result<Segment, String>,
    /// There is nobody to share memory with.
    alone: bool,
    /// Between `ckpt_shutdown` and `ckpt_restart`.
    pub(crate) stage: Stage,
    /// Rounds of checkpoints that were begun, as they are numbered.
    pub(crate) round: u32,
    /// Ranks that have joined the node's memory, as far as this one knew when it last came back.
    pub(crate) members: usize,
    /// How long a peer may be away.
    pub(crate) patience: Duration,
    /// This rank's doorbells in it.
    pub(crate) bells: Option<OwnBells>,
    pub(crate) pipe: Option<Pipe>,
    /// For peers that do not find the pipe.
    pub(crate) helper: Option<Helper>,
    pub(crate) key: Option<[u8; 32]>,
    /// By slot.
    pub(crate) lanes: Vec<Lane>,
    pub(crate) links: SideTable<Link, VcKind>,
    pub(crate) by_peer: BTreeMap<PeerName, VcId>,
    /// Slots whose rings are looked at in each poll; that were until a moment ago; whose producers
    /// must look whether to ring; whose VCs have a queue.
    pub(crate) watched: Vec<usize>,
    pub(crate) unwatched: Unwatched,
    pub(crate) dirty: Vec<usize>,
    pub(crate) wanting: WorkList,
    /// One-sided transfers.
    pub(crate) transfers: Transfers,
    /// Events that arose outside `poll`.
    pub(crate) pending: VecDeque<Event>,
    pub(crate) armed: bool,
    pub(crate) now: Time,
    /// When the kernel is asked whether peers live, or `NEVER`.
    pub(crate) next_check: Time,
    /// Counts polls.
    pub(crate) epoch: u32,
    pub(crate) ending: Ending,
    pub(crate) stats: ShmStats,
}

impl ShmNetmod {
    /// Joins the segment of `me`'s job, of `size` ranks, on this node, or makes it for `local_ranks` ranks. Both the
    /// number of ranks and the `node` are the launcher's word; `NETMOD_SHM_RANKS` overrules both. `pollers` say whether each
    /// has a core.
    ///
    /// Where that is not possible the netmod reaches nobody, and says why.
    pub fn new(
        cfg: &ShmConfig,
        me: PeerName,
        size: u32,
        local_ranks: u32,
        node: Option<u32>,
        pollers: Pollers,
    ) -> ShmNetmod {
        let joint = joint_from(cfg, pollers.are_crowded(0));
        let (ranks, node) = match u32::try_from(cfg.ranks).unwrap_or(u32::MAX) {
            0 => (local_ranks, node),
            ranks => (ranks, None),
        };
        let (pipe, name) = match Pipe::new().and_then(|p| p.name().map(|name| (p, name))) {
            Ok((pipe, name)) => (Some(pipe), Ok(name)),
            Err(e) => {
                (None, Err(format!("no pipe to be woken by: {e}; is the limit of descriptors too low?")))
            }
        };
        let alone = match (size, ranks, node) {
            (..2, ..) => Some("this is the only rank of its job"),
            (_, ..2, Some(_)) => {
                Some("the launcher has put no other rank on this node (see NETMOD_SHM_RANKS)")
            }
            _ => None,
        };
        let segment = name.and_then(|name| {
            if let Some(why) = alone {
                return Err(why.into());
            }
            let segment = Segment::join(Path::new(&cfg.dir), me, node, ranks)?;
            segment.set_pipe(&name);
            Ok(segment)
        });
        if let Err(why) = &segment {
            tracing::info!(%why, "no shared memory with the other ranks of this node");
        }
        let n = segment.as_ref().map_or(0, Segment::ranks);
        ShmNetmod {
            me,
            cfg: cfg.clone(),
            bells: segment.as_ref().ok().map(Segment::own_bells),
            segment,
            alone: alone.is_some(),
            stage: Stage::No,
            round: 0,
            members: 0,
            patience: PATIENCE,
            pipe,
            helper: None,
            key: None,
            lanes: (0..n).map(|_| Lane::default()).collect(),
            links: SideTable::new(),
            by_peer: BTreeMap::new(),
            watched: Vec::with_capacity(16),
            unwatched: Unwatched::new(n),
            dirty: Vec::with_capacity(n),
            wanting: WorkList::default(),
            transfers: Transfers::new(cfg.register_max, joint),
            pending: VecDeque::with_capacity(64),
            armed: false,
            now: Time::ZERO,
            next_check: Time::NEVER,
            epoch: 1,
            ending: Ending::No,
            stats: ShmStats::default(),
        }
    }

    /// Sets how long a peer that is being checkpointed has to come back.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> ShmNetmod {
        self.patience = patience;
        self
    }

    /// What the netmod has seen.
    pub fn stats(&self) -> ShmStats {
        self.stats
    }

    /// The process of a slot, if it has proved to be of the job.
    pub(crate) fn proven(&self, slot: usize) -> Option<PeerName> {
        let (Ok(segment), Some(key)) = (&self.segment, &self.key) else { return None };
        let rank = segment.proven_rank(key, slot)?;
        Some(PeerName { group: self.me.group, rank })
    }

    pub(crate) fn no_segment() -> VcError {
        VcError::new(VcErrorKind::Unsupported, None, "netmod shm has no memory here")
    }

    /// The slot that a card names.
    fn slot_of(&self, card: &Card) -> Result<usize, String> {
        let (nonce_here, me, segment) = match (&self.segment, &self.stage) {
            (Ok(segment), _) => (segment.nonce(), segment.me(), Some(segment)),
            // What it says is looked at as far as it can be.
            (_, Stage::Away(Some(parked))) => (parked.nonce(), parked.me(), None),
            (Err(why), _) => return Err(why.clone()),
        };
        match Place::of(card)? {
            Place::Nowhere(why) => Err(format!("it has no shared memory: {why}")),
            Place::Slot { nonce, .. } if nonce != *nonce_here => {
                Err("it is in another segment: on another node, as the launcher has it (see NETMOD_SHM_RANKS), or in a \
                     container with another /dev/shm"
                    .into())
            }
            Place::Slot { slot, token, .. } => {
                let slot = usize::try_from(slot).unwrap_or(usize::MAX);
                // Behind a checkpoint of all, who is not back yet has not said what its token is.
                let late = |s: &Segment| self.members > 0 && slot < s.ranks() && !s.has_joined(slot);
                let is_its = segment.is_none_or(|s| s.has_token(slot, &token) || late(s));
                if slot == me || slot >= self.lanes.len() || !is_its {
                    return Err("its slot in the segment is another process's".into());
                }
                Ok(slot)
            }
        }
    }

    /// Connects a VC with the slot of its peer.
    pub(crate) fn bind(&mut self, vc: VcId, slot: usize) -> Result<(), String> {
        let lane = &mut self.lanes[slot];
        if lane.vc.is_some_and(|other| other != vc) {
            return Err("another VC has its slot in the segment".into());
        }
        lane.vc = Some(vc);
        lane.announced = false;
        if let Some(l) = self.links.get_mut(vc) {
            l.slot = Some(slot);
            l.asked = false;
            l.attach = None;
        }
        // A stream may be waiting for the VC.
        self.look_at(slot);
        Ok(())
    }

    fn take_card(&mut self, vc: VcId, peer: PeerName, card: &Card) -> Result<(), VcError> {
        let wrong = |text: String| VcError::new(VcErrorKind::Card, Some(peer), text);
        let slot = self.slot_of(card).map_err(wrong)?;
        if let Some(old) = self.links.get(vc).and_then(|l| l.slot)
            && old != slot
        {
            let text = "it has another slot than before; shared memory is of one start of a job";
            return Err(wrong(text.into()));
        }
        self.bind(vc, slot).map_err(wrong)
    }
}

impl VcLife for ShmNetmod {
    fn vc_init(
        &mut self,
        _core: &mut Core,
        vc: VcId,
        peer: PeerName,
        card: Option<&Card>,
    ) -> Result<(), VcError> {
        if self.by_peer.contains_key(&peer) {
            return Err(VcError::new(VcErrorKind::Aborted, Some(peer), "it has a VC already"));
        }
        self.links.insert(vc, Link::new(peer));
        let mut known = Ok(());
        if let Some(card) = card {
            known = self.take_card(vc, peer, card);
        } else if let Some(slot) = (0..self.lanes.len()).find(|s| {
            self.lanes[*s].announced && self.lanes[*s].vc.is_none() && self.proven(*s) == Some(peer)
        }) {
            known = self.bind(vc, slot).map_err(|e| VcError::new(VcErrorKind::Card, Some(peer), e));
        }
        if let Err(e) = known {
            self.links.remove(vc);
            return Err(e);
        }
        self.by_peer.insert(peer, vc);
        Ok(())
    }

    fn set_card(&mut self, core: &mut Core, vc: VcId, card: Result<&Card, VcError>) {
        let Some(peer) = self.links.get(vc).map(|l| l.peer) else { return };
        match card.and_then(|c| self.take_card(vc, peer, c)) {
            Ok(()) => self.pump(core, vc),
            Err(e) => self.fail(core, vc, e),
        }
    }

    fn refuse_peer(&mut self, peer: PeerName, why: Refusal) {
        for slot in 0..self.lanes.len() {
            if self.lanes[slot].announced && self.proven(slot) == Some(peer) {
                self.lanes[slot].announced = false;
                self.lanes[slot].refuse = Some(why);
                self.look_at(slot);
            }
        }
    }

    fn vc_destroy(&mut self, core: &mut Core, vc: VcId) {
        let Some(l) = self.links.get(vc) else { return };
        let (peer, slot) = (l.peer, l.slot);
        let events = self.pending.len();
        self.fail(core, vc, VcError::new(VcErrorKind::Aborted, Some(peer), "the VC was destroyed"));
        self.pending.truncate(events);
        self.links.remove(vc);
        self.by_peer.remove(&peer);
        if let Some(slot) = slot {
            self.lanes[slot].vc = None;
        }
        core.reset_receive(vc);
    }

    fn vc_terminate(&mut self, core: &mut Core, vc: VcId, _now: Time) {
        let Some(l) = self.links.get_mut(vc) else { return };
        l.ready = false;
        if l.down.is_some() {
            return self.terminated(vc);
        }
        l.terminating = true;
        self.pump(core, vc);
    }

    fn vc_abort(&mut self, core: &mut Core, vc: VcId, error: VcError) {
        self.fail(core, vc, error);
    }

    fn watch_peer(&mut self, core: &mut Core, vc: VcId, _now: Time) -> bool {
        self.ask_after(core, vc);
        true
    }

    fn vc_revive(&mut self, _core: &mut Core, vc: VcId, card: Option<&Card>) -> Result<(), VcError> {
        let Some(peer) = self.links.get(vc).map(|l| l.peer) else { return Ok(()) };
        if let Some(card) = card {
            self.take_card(vc, peer, card)?;
        }
        if let Some(l) = self.links.get_mut(vc) {
            l.down = None;
        }
        Ok(())
    }
}

impl NoDynamicProcesses for ShmNetmod {
    const INSTEAD: &'static str = "allow tcp in NETMOD";
}

impl Netmod for ShmNetmod {
    #[inline]
    fn i_send_contig(
        &mut self,
        core: &mut Core,
        vc: VcId,
        req: ReqId,
        hdr: &Header,
        data: SendBuf,
    ) -> Result<Sent, VcError> {
        let gone = self.send(core, vc, hdr, data)?;
        if gone == hdr.len() + data.len() {
            return Ok(Sent::Done);
        }
        self.enqueue(core, vc, Message::new(*hdr, Data::Contig(data), req).without(gone));
        Ok(Sent::Queued)
    }

    // A further call on the way of a small message is felt in the message rate.
    #[inline(always)]
    fn i_start_contig_msg(
        &mut self,
        core: &mut Core,
        vc: VcId,
        hdr: &Header,
        data: SendBuf,
    ) -> Result<Option<ReqId>, VcError> {
        let gone = self.send(core, vc, hdr, data)?;
        if gone == hdr.len() + data.len() {
            return Ok(None);
        }
        let req = core.reqs.insert(Request::new(Some(vc), Memory::empty()));
        self.enqueue(core, vc, Message::new(*hdr, Data::Contig(data), req).without(gone));
        Ok(Some(req))
    }

    fn send_noncontig(
        &mut self,
        core: &mut Core,
        vc: VcId,
        req: ReqId,
        hdr: &Header,
    ) -> Result<Sent, VcError> {
        self.check(vc)?;
        let len = core.reqs.get(req).map_or(0, |r| r.seg.remaining());
        core.count_send(vc, len);
        if self.send_segment(core, vc, hdr, req, len)? {
            return Ok(Sent::Done);
        }
        self.enqueue(core, vc, Message::new(*hdr, Data::Segment, req));
        Ok(Sent::Queued)
    }

    fn cancel_send(&mut self, core: &mut Core, vc: VcId, req: ReqId) -> bool {
        self.links.get_mut(vc).is_some_and(|l| l.queue.cancel(core, req))
    }

    fn control_frame(&mut self, _core: &mut Core, _vc: VcId, hdr: &Header) -> Result<(), String> {
        Err(format!("netmod shm has no control frame {:#04x}", hdr[1]))
    }

    /// What waits for room is tried again, too.
    #[inline]
    fn flush(&mut self, core: &mut Core) {
        self.push_out(core);
        if !self.wanting.is_empty() {
            core.note_staged();
        }
    }

    #[inline]
    fn poll(
        &mut self,
        core: &mut Core,
        order: PollOrder,
        now: Time,
        events: &mut Events,
    ) -> Result<(), DeviceError> {
        self.now = now;
        self.epoch = self.epoch.wrapping_add(1);
        if self.armed {
            self.disarm();
        }
        if order == PollOrder::OutFirst {
            if self.push_out(core) {
                events.note_progress();
            }
        } else if !self.dirty.is_empty() {
            self.settle();
        }
        if now >= self.unwatched.due() {
            self.look_again();
        }
        self.receive(core, events);
        if order == PollOrder::InFirst && self.push_out(core) {
            events.note_progress();
        }
        if !self.transfers.running.is_empty() && self.transfer() {
            events.note_progress();
        }
        if self.is_wanted() && self.help() {
            events.note_progress();
        }
        if now >= self.next_check {
            self.check_peers(core);
        }
        if !self.pending.is_empty() {
            self.report_pending(events);
        }
        if !self.wanting.is_empty() {
            core.note_staged();
        }
        Ok(())
    }

    #[inline]
    fn release(&mut self, buf: RxBuf) {
        let slot = buf.token() as usize;
        let Some(lane) = self.lanes.get_mut(slot) else { return };
        lane.lent = lane.lent.saturating_sub(1);
        if lane.lent == 0 && lane.rx.as_ref().is_some_and(|rx| rx.is_due()) {
            self.give_back(slot);
        }
    }

    fn wait_fd(&self) -> Option<RawFd> {
        // Without memory there is nothing to wait for, and nothing that would never come.
        self.pipe.as_ref().map(Pipe::fd)
    }

    fn arm(&mut self, core: &mut Core) -> Arm {
        self.go_to_sleep(core)
    }

    fn deadline(&self) -> Option<Time> {
        let parting = match self.ending {
            Ending::Until(t) => t,
            Ending::No | Ending::Over => Time::NEVER,
        };
        let at = self.next_check.min(parting).min(self.nap_end()).min(self.unwatched.due());
        (at != Time::NEVER).then_some(at)
    }
}

impl Module for ShmNetmod {
    fn name(&self) -> &'static str {
        NAME
    }

    fn threads(&self) -> usize {
        0
    }

    fn shares_memory(&self) -> bool {
        true
    }

    fn join_job(&mut self, job_key: [u8; 32], pollers: Pollers) -> Result<(), DeviceError> {
        self.transfers.joint = joint_from(&self.cfg, pollers.are_crowded(0));
        self.key = Some(job_key);
        if let Ok(segment) = &self.segment {
            segment.prove(&job_key, self.me.rank);
            segment.remove_name();
            if segment.has_other_namespaces() {
                segment.set_unwakeable(segment.me());
            }
        }
        Ok(())
    }

    fn business_card(&self, card: &mut CardWriter) -> Result<(), CardError> {
        let place = match &self.segment {
            Ok(s) => Place::Slot { nonce: *s.nonce(), slot: s.me() as u32, token: *s.token() },
            Err(why) => Place::Nowhere(why.clone()),
        };
        place.emit(card)
    }

    fn reachable(&mut self, card: &Card) -> Result<(), String> {
        self.slot_of(card).map(|_| ())
    }

    fn rma(&mut self, _core: &Core, _vc: VcId) -> Option<&mut dyn Rma> {
        // While this rank is away regions can be ended, at least.
        let is_away = matches!(self.stage, Stage::Away(Some(_)));
        (self.segment.is_ok() || is_away).then_some(self as &mut dyn Rma)
    }

    fn finalize(&mut self, core: &mut Core, now: Time) -> Finalize {
        if self.ending == Ending::No {
            self.ending = Ending::Until(now + PARTING);
            // From now on sends are looked at before they are written.
            for vc in self.by_peer.values() {
                if let Some(l) = self.links.get_mut(*vc) {
                    l.ready = false;
                }
            }
        }
        self.push_out(core);
        let late = matches!(self.ending, Ending::Until(t) if now >= t);
        if self.ending != Ending::Over && self.has_queued() && !late {
            return Finalize::Pending;
        }
        if self.ending != Ending::Over {
            for slot in 0..self.lanes.len() {
                let quiet = |l: &Link| l.queue.is_empty();
                if self.lanes[slot].vc.and_then(|vc| self.links.get(vc)).is_some_and(quiet) {
                    self.end_stream(slot, Kind::Fin);
                }
            }
            self.settle();
            self.leave();
        }
        Finalize::Done
    }
}

impl Diagnose for ShmNetmod {
    fn failure(&self) -> Option<&str> {
        self.segment.as_ref().err().map(String::as_str).filter(|_| !self.alone)
    }

    fn opened(&self) -> String {
        self.segment.as_ref().map_or_else(Clone::clone, Segment::describe)
    }

    fn describe(&self, _core: &Core, vc: VcId) -> String {
        let Some(l) = self.links.get(vc) else { return "not in charge".into() };
        let state = match &l.down {
            Some(e) => format!("down: {e}"),
            None if l.terminating => "terminating".into(),
            None if l.up => "connected".into(),
            None => "no connection".into(),
        };
        let transfers = l.slot.map_or_else(String::new, |s| format!(", {}", self.describe_transfers(s)));
        let lane = l.slot.and_then(|s| self.lanes.get(s));
        let ring = lane.and_then(|l| l.tx.as_ref()).map_or_else(String::new, |tx| {
            format!(", {} cells of a {} KiB ring in flight", tx.in_flight(), tx.mem.geometry().bytes() >> 10)
        });
        format!("{state}{ring}, {} messages queued{transfers}", l.queue.len())
    }

    fn break_connection(&mut self, _core: &mut Core, _vc: VcId) -> bool {
        false
    }
}
