//! Queue pairs that send, and their requests in flight.
//!
//! A reliable connection is the QP of one endpoint. A sending QP of XRC is shared by all endpoints
//! of a domain. Requests of a QP complete in order, so a completion covers all earlier ones. Inline
//! frames request a completion only now and then. A shared QP keeps a record of each request until
//! it completes, with a copy of inline data: requests that are flushed because one to another
//! endpoint has failed are posted again on another QP.

use std::collections::VecDeque;

use hca::{
    AhAttr, Data, Error, Hca, ModifyQp, Mtu, Piece, Qp as _, QpCap, QpInit, QpKind, QpNum, SendFlags, SendOp,
    SendWr, Sge, SrqNum, To, ToRtr, ToRts, errno,
};
use netmod_core::VcId;

use super::site::Site;
use super::{Of, What, refused};
use crate::error::{PortError, Refused};
use crate::sizes::{DEPTH, INLINE};
use crate::wire::BITS_24;

/// Interval of completions among inline requests.
const SIGNAL_EVERY: u32 = 16;
/// Capacity of a shared QP's send queue.
pub(crate) const SHARED_DEPTH: u32 = 4 * DEPTH;
/// Maximum number of reads in flight, as initiator or target.
pub(super) const READS: u8 = 16;
/// Acknowledgement timeout of 34 ms, as a code; devices may wait four times as long. With all
/// retries, this is less than the time that an owner waits to take its memory back.
const TIMEOUT: u8 = 13;
/// Number of retries without an answer.
const RETRIES: u8 = 7;
/// Retries without a receive have no limit: the peer's device has answered, so it lives.
const RNR_RETRIES: u8 = 7;
/// Delay of 0.64 ms before a retry without receive, as a code.
pub(super) const RNR_TIMER: u8 = 12;
/// Polls in which the endpoint whose turn it is may fail to send before the next one gets its turn:
/// it may have nothing left to send.
const MISSES: u32 = 16;

/// An endpoint: its slot, and a number that distinguishes it from earlier ones in the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EndpointId {
    pub(super) at: u32,
    pub(super) generation: u32,
}

/// State of a QP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Made, but not connected.
    New,
    Connected,
    /// Shared, and being flushed: a request has failed that concerns only one endpoint. Flushed
    /// requests are posted again on another QP.
    Flushing,
    /// Failed and reported.
    Broken,
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posted {
    pub(super) what: What,
    pub(super) endpoint: EndpointId,
    pub(super) vc: VcId,
}

/// Data of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Payload<'a> {
    /// Bytes that are sent inline.
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

/// A flushed request that is to be posted again.
#[derive(Debug)]
pub(super) struct Repost {
    op: SendOp,
    payload: Kept,
    pub(super) what: What,
}

#[derive(Debug)]
enum Kept {
    Inline(Box<[u8]>),
    Registered(Sge),
}

impl Repost {
    pub(super) fn request(&self) -> Request<'_> {
        let payload = match &self.payload {
            Kept::Inline(bytes) => Payload::Inline(bytes),
            Kept::Registered(sge) => Payload::Registered(*sge),
        };
        Request { op: self.op, payload, what: self.what }
    }
}

/// A request posted on a shared QP, with everything needed to post it again.
#[derive(Clone, Copy, Debug)]
struct Record {
    op: SendOp,
    /// Its memory; `None`: `len` inline bytes in its slot of the ring.
    sge: Option<Sge>,
    slot: u32,
    len: u32,
}

/// State of a shared QP.
#[derive(Debug)]
pub(super) struct Shared {
    /// Its number in JOINs.
    pub(super) number: u32,
    /// The receiving QP that it is connected to.
    pub(super) tgt: Option<QpNum>,
    records: VecDeque<Record>,
    ring: Box<[u8]>,
    each: usize,
    slot: u32,
    /// Endpoints waiting for room, in order of their turns, and how often the first has missed its
    /// turn.
    waiting: VecDeque<EndpointId>,
    misses: u32,
}

/// A queue pair that sends.
pub(super) struct SendQp<H: Hca> {
    qp: H::Qp,
    psn: u32,
    pub(super) stage: Stage,
    /// Number of endpoints that use it.
    pub(super) users: u32,
    /// True if it sends no more and its completions are being taken.
    pub(super) draining: bool,
    depth: u32,
    under_way: VecDeque<Posted>,
    /// Number of the oldest request.
    first: u32,
    /// Number of requests at the end that have requested no completion.
    silent: u32,
    pub(super) shared: Option<Box<Shared>>,
}

fn is_lasting(posted: &Posted) -> bool {
    posted.what != What::Inline
}

/// A peer's queue pair to connect with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remote {
    pub(super) qp: QpNum,
    /// Packet sequence number of its first packet.
    pub(super) psn: u32,
    pub(super) ah: AhAttr,
    pub(super) mtu: Mtu,
    /// Number of reads that it serves at once.
    pub(super) reads: u8,
}

impl<H: Hca> SendQp<H> {
    /// Makes a reliable connection that is ready to be connected.
    ///
    /// # Errors
    /// The device's error.
    pub(super) fn reliable(site: &Site<H>, srq: &H::Srq) -> Result<SendQp<H>, PortError> {
        let kind = QpKind::Rc { send_cq: &site.cq, recv_cq: &site.cq, srq: Some(srq) };
        SendQp::make(site, kind, DEPTH)
    }

    /// Makes a sender of XRC.
    ///
    /// # Errors
    /// The device's error.
    pub(super) fn shared(site: &Site<H>, number: u32) -> Result<SendQp<H>, PortError> {
        let mut send_qp = SendQp::make(site, QpKind::XrcIni { send_cq: &site.cq }, SHARED_DEPTH)?;
        let each = send_qp.inline();
        send_qp.shared = Some(Shared::new(number, send_qp.depth, each).into());
        Ok(send_qp)
    }

    fn make(site: &Site<H>, kind: QpKind<'_, H>, depth: u32) -> Result<SendQp<H>, PortError> {
        let device = site.hca.device();
        let mut random = [0; 4];
        getrandom::fill(&mut random).map_err(PortError::Random)?;
        let make = |max_inline| {
            let max_send_wr = depth.min(device.max_qp_wr);
            let cap = QpCap { max_send_wr, max_recv_wr: 0, max_send_sge: 1, max_recv_sge: 0, max_inline };
            site.hca.create_qp(&QpInit { kind, cap, signal_all: false })
        };
        // Devices do not tell the maximum length of inline data, so smaller ones are tried.
        let made = [INLINE, 128, 64].into_iter().find_map(|inline| match make(inline) {
            Err(e) if e.errno == errno::EINVAL => None,
            made => Some(made),
        });
        let qp = made.unwrap_or_else(|| make(0))?;
        let access = site.peers_access();
        let (port, pkey_index) = (site.options.port, site.options.pkey_index);
        qp.modify(&ModifyQp::Init { port, pkey_index, access })?;
        let depth = qp.cap().max_send_wr.min(depth);
        Ok(SendQp {
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

    /// Connects with a peer's queue pair.
    ///
    /// # Errors
    /// The device's error.
    pub(super) fn connect(&mut self, site: &Site<H>, to: &Remote) -> Result<(), PortError> {
        if self.stage != Stage::New {
            return Err(PortError::Connected);
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
        self.qp.modify(&ModifyQp::Rtr(rtr))?;
        self.qp.modify(&ModifyQp::Rts(rts))?;
        self.stage = Stage::Connected;
        Ok(())
    }

    pub(super) fn number(&self) -> QpNum {
        self.qp.number()
    }

    /// Returns the packet sequence number of its first packet.
    pub(super) fn psn(&self) -> u32 {
        self.psn
    }

    /// Returns the maximum length of inline data.
    pub(super) fn inline(&self) -> usize {
        self.qp.cap().max_inline.min(INLINE) as usize
    }

    /// Returns the number of requests in flight.
    pub(super) fn under_way(&self) -> u32 {
        self.under_way.len() as u32
    }

    /// Returns true if no request in flight has an owner waiting.
    pub(super) fn is_quiet(&self) -> bool {
        !self.under_way.iter().any(is_lasting)
    }

    /// Flushes all requests in flight; their completions follow.
    pub(super) fn flush(&self) {
        if let Err(why) = self.qp.modify(&ModifyQp::Err) {
            tracing::warn!(%why, "a queue pair cannot be given up; it is closed");
        }
    }

    /// Returns true if there is room for a request.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.under_way() < self.depth
    }

    /// Returns true if an endpoint may post a request now: there is room, and no other endpoint has
    /// waited for it. Otherwise it gets a turn later.
    #[inline]
    fn admits(&mut self, endpoint: EndpointId) -> bool {
        let room = self.has_room();
        match &mut self.shared {
            Some(shared) if !room || !shared.waiting.is_empty() => shared.queue(endpoint, room),
            _ => room,
        }
    }

    /// Posts a request.
    ///
    /// # Errors
    /// If it cannot be posted.
    #[inline]
    pub(super) fn post(
        &mut self,
        at: u32,
        (endpoint, srq, vc): (EndpointId, Option<SrqNum>, VcId),
        request: Request<'_>,
    ) -> Result<(), Refused> {
        if !self.admits(endpoint) {
            return Err(Refused::Again);
        }
        let n = self.under_way();
        let posted = Posted { what: request.what, endpoint, vc };
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
            wr_id: Of::SendQp(at, self.first.wrapping_add(n)).wr_id(),
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

    /// Returns the number of requests that end with the one of this number; `None` if it is not in
    /// flight.
    pub(super) fn ended_with(&self, number: u32) -> Option<u32> {
        let before = number.wrapping_sub(self.first);
        (before < self.under_way()).then(|| before + 1)
    }

    /// Removes the oldest request. `again`: returns what is needed to post it again.
    pub(super) fn pop(&mut self, again: bool) -> Option<(Posted, Option<Repost>)> {
        let posted = self.under_way.pop_front()?;
        self.first = self.first.wrapping_add(1);
        self.silent = self.silent.min(self.under_way());
        let record = self.shared.as_mut().and_then(|shared| shared.take(again, posted.what));
        Some((posted, record))
    }

    /// Removes an endpoint.
    pub(super) fn leave(&mut self, endpoint: EndpointId) {
        self.users -= 1;
        if let Some(shared) = &mut self.shared {
            shared.waiting.retain(|waits| *waits != endpoint);
        }
    }
}

impl Shared {
    /// Makes the state of the shared QP with this number, for `depth` requests with up to `each`
    /// inline bytes.
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

    /// Returns true if an endpoint may post: there is room and it is its turn. Otherwise it waits
    /// for its turn.
    #[cold]
    fn queue(&mut self, endpoint: EndpointId, room: bool) -> bool {
        if room && self.waiting.front() == Some(&endpoint) {
            self.waiting.pop_front();
            self.misses = 0;
            return true;
        }
        if !self.waiting.contains(&endpoint) {
            self.waiting.push_back(endpoint);
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
    fn take(&mut self, again: bool, what: What) -> Option<Repost> {
        let record = self.records.pop_front().filter(|_| again)?;
        let payload = match record.sge {
            Some(sge) => Kept::Registered(sge),
            None => {
                let at = record.slot as usize * self.each;
                Kept::Inline(self.ring[at..at + record.len as usize].into())
            }
        };
        Some(Repost { op: record.op, payload, what })
    }
}

#[cfg(test)]
#[path = "send_qp_tests.rs"]
mod tests;
