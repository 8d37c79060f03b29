//! The netmod as a whole: its state, and the `Netmod` trait.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::os::fd::RawFd;
use std::path::Path;
use std::time::Duration;

use crate::config::ShmConfig;
use netmod_core::slab::VcKind;
use netmod_core::{
    Arm, Break, Card, CardError, CardWriter, Core, Data, DeviceError, Diagnose, Event, Events, Finalize,
    Header, Message, Module, Netmod, NoDynamicProcesses, PacketFault, PeerName, PollOrder, Pollers, Report,
    ReqId, Request, Rma, RxBuf, Segment as Memory, SendBuf, Sent, SideTable, Time, VcError, VcErrorKind,
    VcId, WorkList,
};

use crate::NAME;
use crate::card::Location;
use crate::channel::Channel;
use crate::helper::Helper;
use crate::ring::Kind;
use crate::segment::raw::OwnBells;
use crate::segment::{RingError, Segment};
use crate::stage::{Checkpoints, Stage};
use crate::survey::joint_from;
use crate::sys::Pipe;
use crate::transfers::Transfers;
use crate::vc::ShmVc;
use crate::watched::Watch;

/// Time that `finalize` waits for peers to read queued messages.
const PARTING: Duration = Duration::from_secs(2);
/// Time between two checks whether peers live.
pub(crate) const CHECK: Duration = Duration::from_millis(100);

/// Counters of the netmod, beside those of each VC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShmStats {
    /// Doorbells rung.
    pub rings: u64,
    /// Ranks woken.
    pub wakes: u64,
    /// Times that a ring had no room.
    pub full: u64,
    /// Peers that could not prove to be of the job.
    pub unauthenticated: u64,
    /// Parts of gets that were written for their readers.
    pub helped: u64,
}

/// The progress of `finalize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    No,
    Until(Time),
    Over,
}

/// The reason why there is no shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoSegment {
    /// There is nobody to share it with.
    Alone(&'static str),
    /// It could not be joined or made. The text says why.
    Failed(String),
    /// This rank is away for a checkpoint.
    Away,
}

impl NoSegment {
    pub(crate) fn text(&self) -> &str {
        match self {
            NoSegment::Alone(why) => why,
            NoSegment::Failed(why) => why,
            NoSegment::Away => "this rank is away for a checkpoint",
        }
    }
}

impl NoSegment {
    /// Returns it as the reason why there is no ring.
    pub(crate) fn ring_error(&self) -> RingError {
        RingError::NoSegment(self.to_string())
    }
}

impl fmt::Display for NoSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// The ways to wake this rank.
#[derive(Debug)]
pub(crate) struct Wakeup {
    /// This rank's doorbells in the segment.
    pub(crate) bells: Option<OwnBells>,
    pub(crate) pipe: Option<Pipe>,
    /// The thread that wakes it for peers that do not find the pipe.
    pub(crate) helper: Option<Helper>,
    /// True if this rank has prepared to sleep.
    pub(crate) armed: bool,
}

/// Work that a poll or flush does for senders.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// Slots whose consumers may have to be woken.
    pub(crate) dirty: Vec<usize>,
    /// VCs that have a queue.
    pub(crate) queued: WorkList,
}

/// The time as of the last poll.
#[derive(Debug)]
pub(crate) struct Clock {
    pub(crate) now: Time,
    /// Time of the next check whether peers live, or `NEVER`.
    pub(crate) next_check: Time,
    /// Number of polls.
    pub(crate) epoch: u32,
}

/// The shared-memory netmod of one process.
#[derive(Debug)]
pub struct ShmNetmod {
    pub(crate) me: PeerName,
    cfg: ShmConfig,
    /// The node's memory.
    pub(crate) segment: Result<Segment, NoSegment>,
    pub(crate) ckpt: Checkpoints,
    pub(crate) wakeup: Wakeup,
    pub(crate) key: Option<[u8; 32]>,
    /// The channels to the ranks of the segment, by slot.
    pub(crate) channels: Vec<Channel>,
    pub(crate) vcs: SideTable<ShmVc, VcKind>,
    pub(crate) by_peer: BTreeMap<PeerName, VcId>,
    pub(crate) watch: Watch,
    pub(crate) out: Outgoing,
    /// One-sided transfers.
    pub(crate) transfers: Transfers,
    /// Events that arose outside `poll`.
    pub(crate) pending: VecDeque<Event>,
    pub(crate) clock: Clock,
    pub(crate) ending: Ending,
    pub(crate) stats: ShmStats,
}

impl ShmNetmod {
    /// Joins the segment of `me`'s job, of `size` ranks, on this node, or makes it for
    /// `local_ranks` ranks. Both the number of ranks and the `node` are the launcher's word;
    /// `NETMOD_SHM_RANKS` overrules both. `pollers` say whether each has a core.
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
                let text = format!("no pipe to be woken by: {e}; is the limit of descriptors too low?");
                (None, Err(NoSegment::Failed(text)))
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
                return Err(NoSegment::Alone(why));
            }
            let segment = Segment::join(Path::new(&cfg.dir), me, node, ranks)
                .map_err(|e| NoSegment::Failed(e.to_string()))?;
            segment.set_pipe(&name);
            Ok(segment)
        });
        if let Err(why) = &segment {
            tracing::info!(%why, "no shared memory with the other ranks of this node");
        }
        let n = segment.as_ref().map_or(0, Segment::ranks);
        let bells = segment.as_ref().ok().map(Segment::own_bells);
        ShmNetmod {
            me,
            cfg: cfg.clone(),
            segment,
            ckpt: Checkpoints::default(),
            wakeup: Wakeup { bells, pipe, helper: None, armed: false },
            key: None,
            channels: (0..n).map(|_| Channel::default()).collect(),
            vcs: SideTable::new(),
            by_peer: BTreeMap::new(),
            watch: Watch::new(n),
            out: Outgoing { dirty: Vec::with_capacity(n), queued: WorkList::default() },
            transfers: Transfers::new(cfg.register_max, joint),
            pending: VecDeque::with_capacity(64),
            clock: Clock { now: Time::ZERO, next_check: Time::NEVER, epoch: 1 },
            ending: Ending::No,
            stats: ShmStats::default(),
        }
    }

    /// Sets the time limit for a checkpointed peer to return.
    #[must_use]
    pub fn with_ckpt_timeout(mut self, limit: Duration) -> ShmNetmod {
        self.ckpt.patience = limit;
        self
    }

    /// Returns the netmod's counters.
    pub fn stats(&self) -> ShmStats {
        self.stats
    }

    /// Returns the process of a slot, if it has proved to be of the job.
    pub(crate) fn proven(&self, slot: usize) -> Option<PeerName> {
        let (Ok(segment), Some(key)) = (&self.segment, &self.key) else { return None };
        let rank = segment.proven_rank(key, slot)?;
        Some(PeerName { group: self.me.group, rank })
    }

    pub(crate) fn no_segment() -> VcError {
        VcError::new(VcErrorKind::Unsupported, None, "netmod shm has no memory here")
    }
}

impl NoDynamicProcesses for ShmNetmod {
    const INSTEAD: &'static str = "allow tcp in NETMOD";
}

// SAFETY: a message leaves the queue before its request is handed back; lent cells stay mapped.
#[allow(unsafe_code)]
unsafe impl Netmod for ShmNetmod {
    #[inline]
    fn i_send_contig(
        &mut self,
        core: &mut Core,
        vc: VcId,
        req: ReqId,
        hdr: &Header,
        data: SendBuf,
    ) -> Result<Sent, VcError> {
        let gone = self.send(core, vc, hdr, data.bytes())?;
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
        let gone = self.send(core, vc, hdr, data.bytes())?;
        if gone == hdr.len() + data.len() {
            return Ok(None);
        }
        let req = core.add_req(Request::new(Some(vc), Memory::empty()));
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
        let len = core.req(req).map_or(0, |r| r.seg.remaining());
        core.count_send(vc, len);
        if self.send_segment(core, vc, hdr, req, len)? {
            return Ok(Sent::Done);
        }
        self.enqueue(core, vc, Message::new(*hdr, Data::Segment, req));
        Ok(Sent::Queued)
    }

    fn cancel_send(&mut self, core: &mut Core, vc: VcId, req: ReqId) -> bool {
        self.vcs.get_mut(vc).is_some_and(|l| l.queue.cancel(core, req))
    }

    fn control_frame(&mut self, _: &mut Core, _: VcId, hdr: &Header) -> Result<(), PacketFault> {
        Err(PacketFault::violation(format!("netmod shm has no control frame {:#04x}", hdr[1])))
    }

    /// Also tries again to send messages that wait for room.
    #[inline]
    fn flush(&mut self, core: &mut Core) {
        self.push_out(core);
        if !self.out.queued.is_empty() {
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
        self.clock.now = now;
        self.clock.epoch = self.clock.epoch.wrapping_add(1);
        if self.wakeup.armed {
            self.disarm();
        }
        if order == PollOrder::OutFirst {
            if self.push_out(core) {
                events.note_progress();
            }
        } else if !self.out.dirty.is_empty() {
            self.settle();
        }
        if now >= self.watch.lately.due() {
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
        if now >= self.clock.next_check {
            self.check_peers(core);
        }
        if !self.pending.is_empty() {
            self.report_pending(events);
        }
        if !self.out.queued.is_empty() {
            core.note_staged();
        }
        Ok(())
    }

    #[inline]
    fn release(&mut self, buf: RxBuf) {
        let slot = buf.token() as usize;
        let Some(channel) = self.channels.get_mut(slot) else { return };
        channel.lent = channel.lent.saturating_sub(1);
        if channel.lent == 0 && channel.rx.as_ref().is_some_and(|rx| rx.is_due()) {
            self.give_back(slot);
        }
    }

    fn wait_fd(&self) -> Option<RawFd> {
        // Without memory there is nothing to wait for, and nothing that would never come.
        self.wakeup.pipe.as_ref().map(Pipe::fd)
    }

    fn arm(&mut self, core: &mut Core) -> Arm {
        self.go_to_sleep(core)
    }

    fn deadline(&self) -> Option<Time> {
        let parting = match self.ending {
            Ending::Until(t) => t,
            Ending::No | Ending::Over => Time::NEVER,
        };
        let at = self.clock.next_check.min(parting).min(self.nap_end()).min(self.watch.lately.due());
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
            Ok(s) => Location::Slot { nonce: *s.nonce(), slot: s.me() as u32, token: *s.token() },
            Err(why) => Location::Nowhere(why.to_string()),
        };
        place.emit(card)
    }

    fn reachable(&mut self, card: &Card) -> Result<(), VcError> {
        self.slot_of(card).map(|_| ()).map_err(|e| VcError::of_card(e.to_string()))
    }

    fn rma(&mut self, _core: &Core, _vc: VcId) -> Option<&mut dyn Rma> {
        // While this rank is away regions can be ended, at least.
        let is_away = matches!(self.ckpt.stage, Stage::Away(Some(_)));
        (self.segment.is_ok() || is_away).then_some(self as &mut dyn Rma)
    }

    fn finalize(&mut self, core: &mut Core, now: Time) -> Finalize {
        if self.ending == Ending::No {
            self.ending = Ending::Until(now + PARTING);
            // From now on sends are looked at before they are written.
            for vc in self.by_peer.values() {
                if let Some(l) = self.vcs.get_mut(*vc) {
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
            for slot in 0..self.channels.len() {
                let quiet = |l: &ShmVc| l.queue.is_empty();
                if self.channels[slot].vc.and_then(|vc| self.vcs.get(vc)).is_some_and(quiet) {
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
        self.segment.as_ref().err().filter(|e| !matches!(e, NoSegment::Alone(_))).map(NoSegment::text)
    }

    fn opened(&self) -> String {
        self.segment.as_ref().map_or_else(NoSegment::to_string, Segment::describe)
    }

    fn describe(&self, _core: &Core, vc: VcId) -> String {
        let Some(l) = self.vcs.get(vc) else { return "not in charge".into() };
        let state = match &l.down {
            Some(e) => format!("down: {e}"),
            None if l.terminating => "terminating".into(),
            None if l.up => "connected".into(),
            None => "no connection".into(),
        };
        let transfers = l.slot.map_or_else(String::new, |s| format!(", {}", self.describe_transfers(s)));
        let channel = l.slot.and_then(|s| self.channels.get(s));
        let ring = channel.and_then(|l| l.tx.as_ref()).map_or_else(String::new, |tx| {
            format!(", {} cells of a {} KiB ring in flight", tx.in_flight(), tx.mem.geometry().bytes() >> 10)
        });
        format!("{state}{ring}, {} messages queued{transfers}", l.queue.len())
    }

    fn report(&self) -> Option<Report> {
        Some(Box::new(self.stats()))
    }

    fn break_connection(&mut self, _core: &mut Core, _vc: VcId, how: Break) -> Result<bool, VcError> {
        how.unsupported(self.name())
    }
}
