//! Sending: at once, or through the VC's queue.
//!
//! As in the TCP netmod, small messages that must wait are copied and share a request with their
//! neighbours; larger ones stay in their sender's memory.

use std::collections::VecDeque;

use ch3_shim::pkt::Packet;
use netmod_core::{Core, HDR_LEN, Header, ReqId, Request, Segment, SendBuf, VcError, VcErrorKind, VcId};
use netmod_tcp::link::{LinkEvent, Phase};

use super::{SimNetmod, connect};

/// Maximum length of copied data.
const COPY_MAX: usize = 2048;
/// Maximum number of bytes per shared request.
const BATCH_BYTES: usize = 8 << 10;
/// Maximum number of bytes written to a pipe at once.
const PIECE: usize = 8 << 10;

/// Data after a header.
#[derive(Debug)]
pub(super) enum Data {
    /// Contiguous bytes.
    Contig(SendBuf),
    /// The rest of the request's segment.
    Segment,
}

#[derive(Debug)]
enum Rest {
    None,
    Contig(SendBuf),
    Segment,
}

/// A waiting message, or several that share a request.
#[derive(Debug)]
struct Message {
    /// Headers and copied data.
    staged: VecDeque<u8>,
    rest: Rest,
    req: ReqId,
    /// True if part of it has been sent.
    started: bool,
    /// True if further messages may join it.
    batch: bool,
}

/// Waiting messages of a VC.
#[derive(Debug, Default)]
pub(super) struct Queue {
    messages: VecDeque<Message>,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn is_mid_message(&self) -> bool {
        self.messages.front().is_some_and(|m| m.started)
    }

    /// Adds a copied message, possibly to the request of the one before it.
    fn push_copied(&mut self, core: &mut Core, vc: VcId, hdr: &Header, data: &[u8]) -> ReqId {
        if let Some(m) = self.messages.back_mut()
            && m.batch
            && m.staged.len() < BATCH_BYTES
            && let Some(r) = core.req_mut(m.req)
            && !r.detached
        {
            m.staged.extend(hdr.iter().chain(data));
            r.shares += 1;
            return m.req;
        }
        let mut r = Request::new(Some(vc), Segment::empty());
        r.copied = true;
        let req = core.add_req(r);
        let staged = hdr.iter().chain(data).copied().collect();
        self.messages.push_back(Message { staged, rest: Rest::None, req, started: false, batch: true });
        req
    }

    fn push(&mut self, hdr: &Header, data: Data, req: ReqId) {
        let rest = match data {
            Data::Contig(buf) => Rest::Contig(buf),
            Data::Segment => Rest::Segment,
        };
        let staged = hdr.iter().copied().collect();
        self.messages.push_back(Message { staged, rest, req, started: false, batch: false });
    }

    /// Cancels a message if no byte of it has been sent. Messages that share a request cannot be
    /// distinguished.
    pub(super) fn cancel(&mut self, core: &Core, req: ReqId) -> bool {
        let Some(at) = self.messages.iter().position(|m| m.req == req) else { return false };
        let shared = core.req(req).is_some_and(Request::is_shared);
        let bound = self.messages[at].started || shared;
        if !bound {
            self.messages.remove(at);
        }
        !bound
    }

    pub(super) fn fail(&mut self, core: &mut Core, error: &VcError) {
        for m in self.messages.drain(..) {
            core.send_failed(m.req, error);
        }
    }

    /// Moves at most `room` bytes of the first message to `out`; returns true if that was all of
    /// it.
    fn take(&mut self, core: &mut Core, room: usize, out: &mut Vec<u8>) -> bool {
        let Some(m) = self.messages.front_mut() else { return false };
        let n = room.min(m.staged.len());
        out.extend(m.staged.drain(..n));
        let left = room - n;
        let all = m.staged.is_empty()
            && match &mut m.rest {
                Rest::None => true,
                Rest::Contig(buf) => {
                    let n = left.min(buf.len());
                    out.extend_from_slice(&buf.bytes()[..n]);
                    buf.advance(n);
                    buf.is_empty()
                }
                Rest::Segment => match core.req_mut(m.req) {
                    Some(r) => {
                        r.seg.pack_vec(left, out);
                        r.seg.is_done()
                    }
                    None => true,
                },
            };
        m.started |= !out.is_empty();
        all
    }

    /// Finishes the first message.
    fn finished(&mut self, core: &mut Core, vc: VcId) {
        if let Some(m) = self.messages.pop_front() {
            core.send_finished(vc, m.req);
        }
    }
}

impl SimNetmod {
    pub(super) fn check_sendable(&self, vc: VcId) -> Result<(), VcError> {
        let Some(v) = self.vcs.get(vc) else {
            return Err(VcError::new(
                VcErrorKind::Aborted,
                None,
                "the VC is not in the charge of netmod sim",
            ));
        };
        match v.link.phase() {
            Phase::Failed | Phase::Shut => Err(v.cause.clone().unwrap_or_else(|| {
                VcError::new(VcErrorKind::Aborted, Some(v.peer), "the netmod has been finalized")
            })),
            _ => Ok(()),
        }
    }

    pub(super) fn count_send(&self, core: &mut Core, vc: VcId, hdr: &Header, data_len: usize) {
        if self.traced {
            let to = self.vcs.get(vc).map_or(0, |v| v.peer.rank);
            self.trace(|| match Packet::parse(hdr) {
                Ok(pkt) => format!("sends to {to}: {pkt:?}, {data_len} bytes"),
                Err(e) => format!("sends to {to}: {e}"),
            });
        }
        core.count_send(vc, data_len);
    }

    /// Sends a whole message, or nothing of it.
    pub(super) fn send_at_once(
        &mut self,
        core: &mut Core,
        vc: VcId,
        hdr: &Header,
        data: &[u8],
    ) -> Result<bool, VcError> {
        self.check_sendable(vc)?;
        self.count_send(core, vc, hdr, data.len());
        let Some(v) = self.vcs.get(vc) else { return Ok(false) };
        let Some(conn) = v.link.up().filter(|_| v.is_drained()).map(connect::id) else { return Ok(false) };
        let mut net = self.net();
        let lazy = net.profile.lazy;
        let side = net.side_of(conn, self.me.rank);
        if net.room(conn, side) < HDR_LEN + data.len() || (lazy > 0 && net.rng.one_in(lazy)) {
            return Ok(false);
        }
        net.write(conn, side, &[&hdr[..], data].concat());
        Ok(true)
    }

    /// Queues a message that has no request yet.
    pub(super) fn start(&mut self, core: &mut Core, vc: VcId, hdr: &Header, data: SendBuf) -> ReqId {
        if data.len() > COPY_MAX {
            let req = core.add_req(Request::new(Some(vc), Segment::empty()));
            self.enqueue(core, vc, hdr, Data::Contig(data), req);
            return req;
        }
        let Some(v) = self.vcs.get_mut(vc) else { return ReqId::from_wire(0) };
        let req = v.queue.get_or_insert_default().push_copied(core, vc, hdr, data.bytes());
        self.queued(core, vc);
        req
    }

    pub(super) fn enqueue(&mut self, core: &mut Core, vc: VcId, hdr: &Header, data: Data, req: ReqId) {
        if let Some(v) = self.vcs.get_mut(vc) {
            v.queue.get_or_insert_default().push(hdr, data, req);
            self.queued(core, vc);
        }
    }

    fn queued(&mut self, core: &mut Core, vc: VcId) {
        core.count_queued(vc);
        if self.vcs.get(vc).is_some_and(|v| v.link.up().is_none()) {
            self.want(vc);
        } else {
            self.soil(vc);
        }
    }

    /// Writes as much of a VC's queue as its pipe accepts.
    pub(super) fn pump(&mut self, core: &mut Core, vc: VcId) {
        loop {
            let Some(v) = self.vcs.get_mut(vc) else { return };
            let Some(c) = v.link.up().filter(|_| !v.blocked) else { return };
            let conn = connect::id(c);
            let Some(q) = v.queue.as_mut().filter(|q| !q.is_empty()) else { break };
            let (side, room) = {
                let net = self.net.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                let side = net.side_of(conn, self.me.rank);
                (side, net.room(conn, side))
            };
            if room == 0 {
                v.blocked = true;
                return self.net().wants_room(conn, side);
            }
            let mut piece = Vec::new();
            let all = q.take(core, room.min(PIECE), &mut piece);
            if all {
                q.finished(core, vc);
            }
            self.net().write(conn, side, &piece);
        }
        let Some(v) = self.vcs.get_mut(vc) else { return };
        // An empty queue would waste memory in a job of many ranks.
        v.queue = None;
        if v.link.is_terminating() {
            self.link_event(core, vc, LinkEvent::Drained);
        }
    }
}
