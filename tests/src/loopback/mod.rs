//! A netmod in memory, whose deliveries can be cut anywhere and whose capacity is bounded.
//!
//! It is connection-oriented like a network of streams: the first send opens a stream to the peer,
//! `vc_terminate` ends it when all has gone, and either side may open the next. It follows the
//! contract of [`Netmod`] to the letter, so that a device that works over it relies on nothing
//! else; only the rule that the data path takes no lock is not kept.

mod cut;
mod fabric;
mod receive;
mod send;

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use netmod_core::card::{BodyReader, BodyWriter};
use netmod_core::slab::VcKind;
use netmod_core::{
    Arm, Break, Card, CardError, CardWriter, Checkpoint, Core, Data, DeviceError, Diagnose, Event, Events,
    Finalize, Header, Message, Module, Netmod, NoDynamicProcesses, PacketFault, PeerName, PollOrder, Pollers,
    Refusal, Report, ReqId, Request, Rma, RxBuf, Segment, SendBuf, SendQueue, Sent, SideTable, Time, VcError,
    VcErrorKind, VcId, VcLife,
};

use crate::sys::Arena;

use cut::Cutter;
pub use cut::{Cut, Rng};
use fabric::End;
pub use fabric::Fabric;

/// The netmod's name, and that of its section of the card.
pub const NAME: &str = "loopback";
/// Time that `finalize` waits for peers to read what is queued.
const PARTING: Duration = Duration::from_secs(2);

/// Behaviour of a fabric.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes in flight from one rank to another, after which sends are queued.
    pub capacity: usize,
    /// Cuts of deliveries.
    pub cut: Cut,
    /// True if received bytes go straight to the active receive.
    pub direct: bool,
    /// True if a message that fits is sent at once, rather than always queued.
    pub eager: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options { capacity: 256 << 10, cut: Cut::Whole, direct: true, eager: true }
    }
}

/// The netmod's part of a VC.
#[derive(Debug)]
struct Link {
    peer: PeerName,
    /// True if the peer's card is known, so that a stream to it can be opened.
    carded: bool,
    /// A card was asked for.
    asked: bool,
    /// `Up` has been reported and nothing to the contrary since.
    up: bool,
    /// Our stream to the peer is open.
    writing: bool,
    /// The peer's stream at the head of its lane is being read.
    reading: bool,
    /// True if the rest of the peer's present stream is dropped.
    discarding: bool,
    terminating: bool,
    down: Option<VcError>,
    queue: SendQueue,
}

/// Progress of `finalize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    No,
    Until(Time),
    Over,
}

/// The netmod of one rank.
#[derive(Debug)]
pub struct LoopbackNetmod {
    fabric: Arc<Fabric>,
    me: PeerName,
    links: SideTable<Link, VcKind>,
    /// The VC of each rank.
    by_rank: Vec<Option<VcId>>,
    /// Ranks reported by `NewPeer`.
    announced: Vec<bool>,
    arena: Arena,
    cutter: Cutter,
    /// Events that arose outside `poll`.
    pending: VecDeque<Event>,
    /// The rank that is served first in the next poll.
    first: u32,
    ending: Ending,
}

impl LoopbackNetmod {
    /// The netmod of the rank that `me` names.
    ///
    /// # Panics
    /// If the fabric has no such rank.
    pub fn new(fabric: Arc<Fabric>, me: PeerName) -> LoopbackNetmod {
        assert!(me.rank < fabric.size(), "rank {} is none of the fabric's {}", me.rank, fabric.size());
        let n = fabric.size() as usize;
        LoopbackNetmod {
            cutter: Cutter::new(&fabric.options.cut, me.rank),
            fabric,
            me,
            links: SideTable::new(),
            by_rank: vec![None; n],
            announced: vec![false; n],
            arena: Arena::new(128 << 10),
            pending: VecDeque::with_capacity(64),
            first: 0,
            ending: Ending::No,
        }
    }

    /// The VC is of no use any more: its requests fail, both directions end.
    fn fail(&mut self, core: &mut Core, vc: VcId, error: VcError) {
        let Some(l) = self.links.get_mut(vc) else { return };
        l.queue.fail(core, &error);
        l.terminating = false;
        l.up = false;
        if std::mem::take(&mut l.writing) {
            self.fabric.lane(self.me.rank, l.peer.rank).end(End::Reset);
        }
        l.discarding |= std::mem::take(&mut l.reading);
        if l.down.replace(error.clone()).is_none() {
            self.pending.push_back(Event::Down { vc, error });
        }
    }

    /// All has gone that was to go: ends our stream, and reports it.
    fn terminated(&mut self, vc: VcId) {
        let Some(l) = self.links.get_mut(vc) else { return };
        if std::mem::take(&mut l.writing) {
            self.fabric.lane(self.me.rank, l.peer.rank).end(End::Fin);
        }
        l.discarding |= std::mem::take(&mut l.reading);
        l.up = false;
        l.terminating = false;
        l.down = None;
        self.pending.push_back(Event::Terminated { vc });
    }

    fn read_card(&self, card: &Card) -> Result<u32, String> {
        let section = card.section(NAME).ok_or("its card has no section of netmod loopback")?;
        let mut body = BodyReader::new(NAME, section.body);
        let parsed = (|| {
            let (fabric, rank) = (body.u64("fabric")?, body.u32("rank")?);
            body.finish()?;
            Ok::<_, CardError>((fabric, rank))
        })();
        match parsed.map_err(|e| e.to_string())? {
            (fabric, _) if fabric != self.fabric.id() => Err("it is of another process".into()),
            (_, rank) if rank >= self.fabric.size() => Err(format!("rank {rank} is none of the fabric's")),
            (_, rank) => Ok(rank),
        }
    }

    fn has_queued(&self) -> bool {
        self.links.iter().any(|(_, l)| !l.queue.is_empty())
    }
}

impl VcLife for LoopbackNetmod {
    fn vc_init(
        &mut self,
        _core: &mut Core,
        vc: VcId,
        peer: PeerName,
        card: Option<&Card>,
    ) -> Result<(), VcError> {
        let wrong = |text: String| VcError::new(VcErrorKind::Card, Some(peer), text);
        let Some(slot) = self.by_rank.get(peer.rank as usize) else {
            return Err(wrong(format!("rank {} is none of the fabric's", peer.rank)));
        };
        if slot.is_some() {
            return Err(wrong("it has a VC already".into()));
        }
        if let Some(card) = card {
            self.read_card(card).map_err(wrong)?;
        }
        let link = Link {
            peer,
            carded: card.is_some(),
            asked: false,
            up: false,
            writing: false,
            reading: false,
            discarding: false,
            terminating: false,
            down: None,
            queue: SendQueue::default(),
        };
        self.links.insert(vc, link);
        self.by_rank[peer.rank as usize] = Some(vc);
        self.announced[peer.rank as usize] = false;
        Ok(())
    }

    fn set_card(&mut self, core: &mut Core, vc: VcId, card: Result<&Card, VcError>) {
        let Some(peer) = self.links.get(vc).map(|l| l.peer) else { return };
        let known = card.and_then(|c| {
            self.read_card(c).map_err(|text| VcError::new(VcErrorKind::Card, Some(peer), text))
        });
        if let Some(l) = self.links.get_mut(vc) {
            l.asked = false;
            l.carded = known.is_ok();
        }
        match known {
            Ok(_) => self.pump(core, vc),
            Err(e) => self.fail(core, vc, e),
        }
    }

    fn refuse_peer(&mut self, peer: PeerName, _: Refusal) {
        if let Some(announced) = self.announced.get_mut(peer.rank as usize) {
            *announced = false;
            self.fabric.lane(peer.rank, self.me.rank).streams.clear();
            let mut back = self.fabric.lane(self.me.rank, peer.rank);
            back.streams.push_back(fabric::Stream { bytes: VecDeque::new(), end: End::Reset });
        }
    }

    fn vc_destroy(&mut self, core: &mut Core, vc: VcId) {
        let Some(peer) = self.links.get(vc).map(|l| l.peer) else { return };
        let why = VcError::new(VcErrorKind::Aborted, Some(peer), "the VC was destroyed");
        let events = self.pending.len();
        self.fail(core, vc, why);
        self.pending.truncate(events);
        self.links.remove(vc);
        self.by_rank[peer.rank as usize] = None;
        self.fabric.lane(peer.rank, self.me.rank).streams.clear();
        core.reset_receive(vc);
    }

    fn vc_terminate(&mut self, core: &mut Core, vc: VcId, _now: Time) {
        let Some(l) = self.links.get_mut(vc) else { return };
        if l.down.is_some() {
            return self.terminated(vc);
        }
        l.terminating = true;
        self.pump(core, vc);
    }

    fn vc_abort(&mut self, core: &mut Core, vc: VcId, error: VcError) {
        let Some(l) = self.links.get(vc).filter(|l| l.down.is_none()) else { return };
        // A peer that has received nothing learns of it, too.
        if !l.writing {
            let end = fabric::Stream { bytes: VecDeque::new(), end: End::Reset };
            self.fabric.lane(self.me.rank, l.peer.rank).streams.push_back(end);
        }
        self.fail(core, vc, error);
    }

    fn watch_peer(&mut self, _core: &mut Core, _vc: VcId, _now: Time) -> bool {
        // All its processes are in this one.
        true
    }

    fn vc_revive(&mut self, _core: &mut Core, vc: VcId, card: Option<&Card>) -> Result<(), VcError> {
        let Some(peer) = self.links.get(vc).map(|l| l.peer) else { return Ok(()) };
        if let Some(card) = card {
            self.read_card(card).map_err(|text| VcError::new(VcErrorKind::Card, Some(peer), text))?;
        }
        if let Some(l) = self.links.get_mut(vc) {
            l.down = None;
            l.carded |= card.is_some();
        }
        Ok(())
    }
}

impl NoDynamicProcesses for LoopbackNetmod {
    const INSTEAD: &'static str = "start all in one job";
}

impl Checkpoint for LoopbackNetmod {
    fn can_ckpt(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn ckpt_shutdown(&mut self, core: &mut Core, _now: Time) -> Result<Finalize, DeviceError> {
        self.flush(core);
        Ok(if self.has_queued() { Finalize::Pending } else { Finalize::Done })
    }

    fn ckpt_restart(&mut self, _core: &mut Core, _now: Time) -> Result<(), DeviceError> {
        Ok(())
    }

    fn ckpt_peer(&mut self, _: &mut Core, _: VcId, _: &Card) -> Result<(), VcError> {
        Ok(())
    }
}

// SAFETY: a queued message is dropped before its request is handed back.
#[allow(unsafe_code)]
unsafe impl Netmod for LoopbackNetmod {
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
        self.enqueue(core, vc, Message::new(*hdr, Data::Contig(data), req));
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
        let req = core.add_req(Request::new(Some(vc), Segment::empty()));
        self.enqueue(core, vc, Message::new(*hdr, Data::Contig(data), req));
        Ok(Some(req))
    }

    fn send_noncontig(
        &mut self,
        core: &mut Core,
        vc: VcId,
        req: ReqId,
        hdr: &Header,
    ) -> Result<Sent, VcError> {
        if self.send_segment_at_once(core, vc, hdr, req)? {
            return Ok(Sent::Done);
        }
        self.enqueue(core, vc, Message::new(*hdr, Data::Segment, req));
        Ok(Sent::Queued)
    }

    fn cancel_send(&mut self, core: &mut Core, vc: VcId, req: ReqId) -> bool {
        self.links.get_mut(vc).is_some_and(|l| l.queue.cancel(core, req))
    }

    fn control_frame(&mut self, _core: &mut Core, _vc: VcId, hdr: &Header) -> Result<(), PacketFault> {
        Err(PacketFault::violation(format!("netmod loopback has no control frame {:#04x}", hdr[1])))
    }

    fn flush(&mut self, core: &mut Core) {
        for rank in 0..self.by_rank.len() {
            if let Some(vc) = self.by_rank[rank]
                && self.links.get(vc).is_some_and(|l| !l.queue.is_empty())
            {
                self.pump(core, vc);
            }
        }
    }

    fn poll(
        &mut self,
        core: &mut Core,
        order: PollOrder,
        _now: Time,
        events: &mut Events,
    ) -> Result<(), DeviceError> {
        assert_eq!(self.arena.lent(), 0, "the engine keeps receive buffers beyond a poll");
        if order == PollOrder::OutFirst {
            self.flush(core);
        }
        while let Some(ev) = self.pending.pop_front() {
            events.push(ev);
        }
        self.receive(core, events);
        if order == PollOrder::InFirst {
            self.flush(core);
        }
        Ok(())
    }

    fn release(&mut self, buf: RxBuf) {
        self.arena.give_back(buf);
    }

    fn wait_fd(&self) -> Option<RawFd> {
        None
    }

    fn arm(&mut self, core: &mut Core) -> Arm {
        self.flush(core);
        if self.pending.is_empty() { Arm::Armed } else { Arm::Busy }
    }

    fn deadline(&self) -> Option<Time> {
        match self.ending {
            Ending::Until(t) => Some(t),
            Ending::No | Ending::Over => None,
        }
    }
}

impl Module for LoopbackNetmod {
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
        body.u64(self.fabric.id()).u32(self.me.rank);
        card.section(NAME, 1, body.as_bytes())
    }

    fn reachable(&mut self, card: &Card) -> Result<(), VcError> {
        self.read_card(card).map(|_| ()).map_err(VcError::of_card)
    }

    fn rma(&mut self, _core: &Core, _vc: VcId) -> Option<&mut dyn Rma> {
        None
    }

    fn finalize(&mut self, core: &mut Core, now: Time) -> Finalize {
        if self.ending == Ending::No {
            self.ending = Ending::Until(now + PARTING);
        }
        self.flush(core);
        let late = matches!(self.ending, Ending::Until(t) if now >= t);
        if self.ending != Ending::Over && self.has_queued() && !late {
            return Finalize::Pending;
        }
        if self.ending != Ending::Over {
            self.ending = Ending::Over;
            for vc in self.by_rank.iter().flatten() {
                if let Some(l) = self.links.get_mut(*vc)
                    && l.queue.is_empty()
                    && std::mem::take(&mut l.writing)
                {
                    self.fabric.lane(self.me.rank, l.peer.rank).end(End::Fin);
                }
            }
            self.fabric.leave(self.me.rank);
        }
        Finalize::Done
    }
}

impl Diagnose for LoopbackNetmod {
    fn failure(&self) -> Option<&str> {
        None
    }

    fn opened(&self) -> String {
        "memory of this process".into()
    }

    fn describe(&self, _core: &Core, vc: VcId) -> String {
        let Some(l) = self.links.get(vc) else { return "not in charge".into() };
        let state = match &l.down {
            Some(e) => format!("down: {e}"),
            None if l.terminating => "terminating".into(),
            None if l.up => "connected".into(),
            None => "no connection".into(),
        };
        format!("{state}, {} messages queued", l.queue.len())
    }

    fn report(&self) -> Option<Report> {
        None
    }

    fn break_connection(&mut self, _core: &mut Core, _vc: VcId, how: Break) -> Result<bool, VcError> {
        how.unsupported(self.name())
    }
}

impl Drop for LoopbackNetmod {
    /// A process that ends without finalizing: its peers find their connections broken.
    fn drop(&mut self) {
        if self.ending != Ending::Over {
            self.fabric.leave(self.me.rank);
        }
    }
}
