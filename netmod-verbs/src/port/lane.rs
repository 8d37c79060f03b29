//! Lanes: queue pairs that send, and what is under way on each.
//!
//! A reliable connection is the lane of one end, a sending queue pair of XRC that of all ends in a domain. Requests of a lane complete in
//! order, so that a completion covers all before it; short frames, which are copied when they are posted, ask for one only now and then.
//! A lane of XRC keeps what it has posted until that has completed, bytes that were copied too: what is flushed because a request for
//! another end has failed goes by another lane.

use std::collections::VecDeque;

use hca::{
    Access, AhAttr, Data, Error, Hca, ModifyQp, Mtu, Piece, Qp as _, QpCap, QpInit, QpKind, QpNum, SendFlags,
    SendOp, SendWr, Sge, SrqNum, To, ToRtr, ToRts, errno,
};
use netmod_core::VcId;
use netmod_framed::device::Refused;

use super::site::Site;
use super::{DEPTH, INLINE, Of, What, refused};
use crate::words::BITS_24;

/// Of so many requests that are copied one asks for a completion.
const SIGNAL_EVERY: u32 = 16;
/// Requests in the send queue of a lane of XRC.
pub(crate) const SHARED_DEPTH: u32 = 4 * DEPTH;
/// Reads that a queue pair has under way, or takes, at most.
pub(super) const READS: u8 = 16;
/// 34 ms until an answer is missed, which devices may make four times as long: with all repetitions less than what an owner waits who
/// takes memory back.
const TIMEOUT: u8 = 13;
/// So often a request is repeated.
const RETRIES: u8 = 7;
/// A request that meets no receive is repeated without end: the peer lives, as its device has answered.
const RNR_RETRIES: u8 = 7;
/// 0.64 ms until it is.
pub(super) const RNR_TIMER: u8 = 12;
/// So often an end whose turn it is may be missed before the next one has its turn: it may have nothing to send any more.
const MISSES: u32 = 16;

/// An end, by its place and what tells it from others that have had the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EndId {
    pub(super) at: u32,
    pub(super) generation: u32,
}

/// What a lane is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Made, and not connected.
    New,
    Connected,
    /// Of XRC: a request has failed which concerns one end alone. What is flushed goes by another lane.
    Flushing,
    /// It has failed, and that was told.
    Broken,
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posted {
    pub(super) what: What,
    pub(super) end: EndId,
    pub(super) vc: VcId,
}

/// What a request sends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Payload<'a> {
    /// These bytes, which are copied.
    Inline(&'a [u8]),
    Registered(Sge),
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    pub(super) op: SendOp,
    pub(super) payload: Payload<'a>,
    pub(super) what: What,
}

/// A request that was flushed, and is to be posted again.
#[derive(Debug)]
pub(super) struct Again {
    op: SendOp,
    payload: Kept,
    pub(super) what: What,
}

#[derive(Debug)]
enum Kept {
    Inline(Box<[u8]>),
    Registered(Sge),
}

impl Again {
    pub(super) fn request(&self) -> Request<'_> {
        let payload = match &self.payload {
            Kept::Inline(bytes) => Payload::Inline(bytes),
            Kept::Registered(sge) => Payload::Registered(*sge),
        };
        Request { op: self.op, payload, what: self.what }
    }
}

/// A request that a lane of XRC has posted: all that is needed to post it again.
#[derive(Clone, Copy, Debug)]
struct Record {
    op: SendOp,
    /// `None`: its bytes are in its place of the ring, so many of them.
    sge: Option<Sge>,
    slot: u32,
    len: u32,
}

/// What ends share.
#[derive(Debug)]
pub(super) struct Shared {
    /// Its number in JOINs.
    pub(super) number: u32,
    /// The receiving queue pair, once it is connected.
    pub(super) tgt: Option<QpNum>,
    records: VecDeque<Record>,
    ring: Box<[u8]>,
    each: usize,
    slot: u32,
    /// Ends that found no room, in the order in which they have a turn, and how often the first was missed.
    waiting: VecDeque<EndId>,
    misses: u32,
}

/// See the module.
pub(super) struct Lane<H: Hca> {
    qp: H::Qp,
    psn: u32,
    pub(super) stage: Stage,
    /// Ends that send by it.
    pub(super) users: u32,
    /// Nothing is sent any more, and what has completed is being taken.
    pub(super) draining: bool,
    depth: u32,
    under_way: VecDeque<Posted>,
    /// Number of the oldest.
    first: u32,
    /// How many of them, the last ones, have asked for no completion.
    silent: u32,
    pub(super) shared: Option<Box<Shared>>,
}

fn is_lasting(posted: &Posted) -> bool {
    posted.what != What::Inline
}

/// A peer's queue pair, as a lane is connected with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remote {
    pub(super) qp: QpNum,
    /// Number of the first packet that comes from it.
    pub(super) psn: u32,
    pub(super) ah: AhAttr,
    pub(super) mtu: Mtu,
    /// Reads that it takes.
    pub(super) reads: u8,
}

impl<H: Hca> Lane<H> {
    /// Makes a reliable connection that is ready to be connected.
    ///
    /// # Errors
    /// What the device says.
    pub(super) fn reliable(site: &Site<H>, srq: &H::Srq) -> Result<Lane<H>, String> {
        let kind = QpKind::Rc { send_cq: &site.cq, recv_cq: &site.cq, srq: Some(srq) };
        Lane::make(site, kind, DEPTH)
    }

    /// Makes a sender of XRC.
    ///
    /// # Errors
    /// What the device says.
    pub(super) fn shared(site: &Site<H>, number: u32) -> Result<Lane<H>, String> {
        let mut lane = Lane::make(site, QpKind::XrcIni { send_cq: &site.cq }, SHARED_DEPTH)?;
        let each = lane.inline();
        lane.shared = Some(Shared::new(number, lane.depth, each).into());
        Ok(lane)
    }

    fn make(site: &Site<H>, kind: QpKind<'_, H>, depth: u32) -> Result<Lane<H>, String> {
        let device = site.hca.device();
        let mut random = [0; 4];
        getrandom::fill(&mut random).map_err(|e| format!("no random numbers: {e}"))?;
        let make = |max_inline| {
            let max_send_wr = depth.min(device.max_qp_wr);
            let cap = QpCap { max_send_wr, max_recv_wr: 0, max_send_sge: 1, max_recv_sge: 0, max_inline };
            site.hca.create_qp(&QpInit { kind, cap, signal_all: false })
        };
        // Devices do not say how much they can send inline: they refuse.
        let made = [INLINE, 128, 64, 0].into_iter().find_map(|inline| match make(inline) {
            Err(e) if e.errno == errno::EINVAL && inline > 0 => None,
            made => Some(made),
        });
        let qp = made.ok_or("no queue pair")?.map_err(|e: Error| e.to_string())?;
        let access =
            Access { local_write: true, remote_write: true, remote_read: true, remote_atomic: false };
        let (port, pkey_index) = (site.options.port, site.options.pkey_index);
        qp.modify(&ModifyQp::Init { port, pkey_index, access }).map_err(|e| e.to_string())?;
        let depth = qp.cap().max_send_wr.min(depth);
        Ok(Lane {
            psn: u32::from_le_bytes(random) & BITS_24,
            stage: Stage::New,
            users: 1,
            draining: false,
            depth,
            under_way: VecDeque::with_capacity(depth as usize),
            first: 0,
            silent: 0,
            shared: None,
            qp,
        })
    }

    /// Connects it with a peer's queue pair.
    ///
    /// # Errors
    /// What the device says.
    pub(super) fn connect(&mut self, site: &Site<H>, to: &Remote) -> Result<(), String> {
        if self.stage != Stage::New {
            return Err("the queue pair is connected already".into());
        }
        let device = site.hca.device();
        let rtr = ToRtr {
            path_mtu: to.mtu.min(site.attr.active_mtu),
            dest_qp: to.qp,
            rq_psn: to.psn,
            max_dest_rd_atomic: device.max_qp_rd_atom.min(READS),
            min_rnr_timer: RNR_TIMER,
            ah: to.ah,
            alt: None,
        };
        let rts = ToRts {
            sq_psn: self.psn,
            timeout: TIMEOUT,
            retry_cnt: RETRIES,
            rnr_retry: RNR_RETRIES,
            max_rd_atomic: device.max_qp_init_rd_atom.min(READS).min(to.reads),
            alt: None,
            path_mig_state: None,
        };
        self.qp.modify(&ModifyQp::Rtr(rtr)).map_err(|e| e.to_string())?;
        self.qp.modify(&ModifyQp::Rts(rts)).map_err(|e| e.to_string())?;
        self.stage = Stage::Connected;
        Ok(())
    }

    pub(super) fn number(&self) -> QpNum {
        self.qp.number()
    }

    /// Number of the first packet that it sends.
    pub(super) fn psn(&self) -> u32 {
        self.psn
    }

    /// Longest frame that it can copy.
    pub(super) fn inline(&self) -> usize {
        self.qp.cap().max_inline.min(INLINE) as usize
    }

    /// Requests under way.
    pub(super) fn under_way(&self) -> u32 {
        self.under_way.len() as u32
    }

    /// Whether nothing is under way that anybody waits for.
    pub(super) fn is_quiet(&self) -> bool {
        !self.under_way.iter().any(is_lasting)
    }

    /// Everything under way is given up, as completions will say.
    pub(super) fn flush(&self) {
        if let Err(why) = self.qp.modify(&ModifyQp::Err) {
            tracing::warn!(%why, "a queue pair cannot be given up; it is closed");
        }
    }

    /// Whether there is room for a request of an end.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.under_way() < self.depth
    }

    /// Whether a request of an end may be posted now: there is room, and no other end has waited for it. Who is told no has a turn later.
    #[inline]
    fn admits(&mut self, end: EndId) -> bool {
        let room = self.has_room();
        match &mut self.shared {
            Some(shared) if !room || !shared.waiting.is_empty() => shared.queue(end, room),
            _ => room,
        }
    }

    /// Posts a request.
    ///
    /// # Errors
    /// If it does not go.
    #[inline]
    pub(super) fn post(
        &mut self,
        at: u32,
        (end, srq, vc): (EndId, Option<SrqNum>, VcId),
        request: Request<'_>,
    ) -> Result<(), Refused> {
        if !self.admits(end) {
            return Err(Refused::Again);
        }
        let n = self.under_way();
        let posted = Posted { what: request.what, end, vc };
        let signaled = is_lasting(&posted) || self.silent + 1 >= SIGNAL_EVERY || n + 1 >= self.depth;
        let (piece, sge);
        let data = match request.payload {
            Payload::Inline(bytes) => {
                piece = Piece::new(bytes);
                Data::Inline(core::slice::from_ref(&piece))
            }
            Payload::Registered(of) => {
                sge = of;
                Data::Registered(core::slice::from_ref(&sge))
            }
        };
        let wr = SendWr {
            wr_id: Of::Lane(at, self.first.wrapping_add(n)).wr_id(),
            op: request.op,
            data,
            flags: SendFlags { signaled, ..SendFlags::NONE },
            to: srq.map_or(To::Peer, To::Srq),
        };
        if let Err(e) = self.qp.post_send(&[wr]) {
            let why = Error::new("ibv_post_send", "a reliable connection", e.errno);
            return Err(if e.errno == errno::ENOMEM { Refused::Again } else { refused(&why) });
        }
        if let Some(shared) = &mut self.shared {
            shared.keep(&request, self.depth);
        }
        self.under_way.push_back(posted);
        self.silent = if signaled { 0 } else { self.silent + 1 };
        Ok(())
    }

    /// How many requests have ended with the one of this number; `None` if it is none that is under way.
    pub(super) fn ended_with(&self, number: u32) -> Option<u32> {
        let before = number.wrapping_sub(self.first);
        (before < self.under_way()).then(|| before + 1)
    }

    /// The oldest request has ended. What is needed to post it again, if it is to be.
    pub(super) fn pop(&mut self, again: bool) -> Option<(Posted, Option<Again>)> {
        let posted = self.under_way.pop_front()?;
        self.first = self.first.wrapping_add(1);
        self.silent = self.silent.min(self.under_way());
        let record = self.shared.as_mut().and_then(|shared| shared.take(again, posted.what));
        Some((posted, record))
    }

    /// An end sends by it no more.
    pub(super) fn leave(&mut self, end: EndId) {
        self.users -= 1;
        if let Some(shared) = &mut self.shared {
            shared.waiting.retain(|waits| *waits != end);
        }
    }
}

impl Shared {
    /// Of a lane with this number and so many requests, of which each copies so many bytes at most.
    fn new(number: u32, depth: u32, each: usize) -> Shared {
        Shared {
            number,
            tgt: None,
            records: VecDeque::with_capacity(depth as usize),
            ring: vec![0; depth as usize * each].into(),
            each,
            slot: 0,
            waiting: VecDeque::new(),
            misses: 0,
        }
    }

    /// Whether an end may post, since there is room and it is its turn; it waits for its turn otherwise.
    #[cold]
    fn queue(&mut self, end: EndId, room: bool) -> bool {
        if room && self.waiting.front() == Some(&end) {
            self.waiting.pop_front();
            self.misses = 0;
            return true;
        }
        if !self.waiting.contains(&end) {
            self.waiting.push_back(end);
        }
        if room {
            self.misses += 1;
            if self.misses == MISSES {
                self.waiting.pop_front();
                self.misses = 0;
            }
        }
        false
    }

    #[inline]
    fn keep(&mut self, request: &Request<'_>, depth: u32) {
        let (slot, op) = (self.slot, request.op);
        self.slot = if slot + 1 == depth { 0 } else { slot + 1 };
        let record = match request.payload {
            Payload::Inline(bytes) => {
                let at = slot as usize * self.each;
                self.ring[at..at + bytes.len()].copy_from_slice(bytes);
                Record { op, sge: None, slot, len: bytes.len() as u32 }
            }
            Payload::Registered(sge) => Record { op, sge: Some(sge), slot, len: sge.len },
        };
        self.records.push_back(record);
    }

    #[inline]
    fn take(&mut self, again: bool, what: What) -> Option<Again> {
        let record = self.records.pop_front().filter(|_| again)?;
        let payload = match record.sge {
            Some(sge) => Kept::Registered(sge),
            None => {
                let at = record.slot as usize * self.each;
                Kept::Inline(self.ring[at..at + record.len as usize].into())
            }
        };
        Some(Again { op: record.op, payload, what })
    }
}

#[cfg(test)]
#[path = "lane_tests.rs"]
mod tests;
