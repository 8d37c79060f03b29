//! Send queues: a VC's queued messages in order, and the VCs to serve.
//!
//! They are for netmods that send a message at once if they can, and otherwise queue it (in Nemesis
//! the send queue of a VC). How bytes leave is up to the netmod; which message is next and how much
//! of it was sent is the same for all.

use std::collections::VecDeque;

use crate::buf::SendBuf;
use crate::error::VcError;
use crate::header::{HDR_LEN, Header};
use crate::slab::{ReqId, SideTable, VcId, VcKind};
use crate::state::Core;

/// The data of a message, after its header.
#[derive(Debug)]
pub enum Data {
    /// No data, or no more.
    None,
    /// Contiguous bytes.
    Contig(SendBuf),
    /// The rest of the request's segment.
    Segment,
}

/// A queued message.
#[derive(Debug)]
pub struct Message {
    hdr: Header,
    head_gone: usize,
    /// Data that was not sent.
    pub data: Data,
    req: ReqId,
    /// Number in the order of its queue.
    seq: u64,
    /// True if it was cancelled.
    dead: bool,
}

impl Message {
    /// Creates a message of which nothing was sent.
    pub fn new(hdr: Header, data: Data, req: ReqId) -> Message {
        Message { hdr, head_gone: 0, data, req, seq: 0, dead: false }
    }

    /// Returns this message without its first `n` bytes, which were sent; covers header and
    /// contiguous data.
    #[must_use]
    pub fn without(mut self, n: usize) -> Message {
        self.head_gone = n.min(HDR_LEN);
        if let Data::Contig(buf) = &mut self.data {
            buf.advance(n - self.head_gone);
        }
        self
    }

    /// Returns the request that ends with it.
    pub fn req(&self) -> ReqId {
        self.req
    }

    /// Returns its header.
    pub fn header(&self) -> &Header {
        &self.hdr
    }

    /// Returns the part of its header that was not sent.
    pub fn head(&self) -> &[u8] {
        &self.hdr[self.head_gone..]
    }

    /// Notes that `n` more bytes of its header were sent.
    pub fn head_sent(&mut self, n: usize) {
        self.head_gone = (self.head_gone + n).min(HDR_LEN);
    }

    /// Returns true if any byte of it was sent.
    pub fn started(&self) -> bool {
        self.head_gone > 0
    }

    /// Returns the number of bytes of its data that were not sent.
    pub fn left(&self, core: &Core) -> usize {
        match &self.data {
            Data::None => 0,
            Data::Contig(buf) => buf.len(),
            Data::Segment => core.req(self.req).map_or(0, |r| r.seg.remaining()),
        }
    }

    /// Copies as much of its data as there is room for; returns the number of bytes, and true if
    /// that was the rest.
    pub fn copy(&mut self, core: &mut Core, room: &mut [u8]) -> (usize, bool) {
        match &mut self.data {
            Data::None => (0, true),
            Data::Contig(buf) => {
                let n = room.len().min(buf.len());
                room[..n].copy_from_slice(&buf.bytes()[..n]);
                buf.advance(n);
                (n, buf.is_empty())
            }
            Data::Segment => match core.req_mut(self.req) {
                None => (0, true),
                Some(r) => (r.seg.pack(room), r.seg.is_done()),
            },
        }
    }
}

/// Most cancelled messages that stay in a queue, unless there are more others.
const DEAD: usize = 32;

/// The queued messages of a VC, the next one first.
///
/// A message is found by its number, which its request knows. A cancelled one stays until it is at
/// an end of the queue, or until cancelled ones outnumber the others. So cancelling takes
/// logarithmic time, and the memory stays bounded.
#[derive(Debug, Default)]
pub struct SendQueue {
    /// Messages; neither the first nor the last one is cancelled.
    messages: VecDeque<Message>,
    /// Number of cancelled messages.
    dead: usize,
    /// Number of the next message.
    next: u64,
}

impl SendQueue {
    /// Appends a message.
    pub fn push(&mut self, core: &mut Core, mut message: Message) {
        message.seq = self.next;
        if let Some(r) = core.req_mut(message.req) {
            r.queue_seq = self.next;
        }
        self.next += 1;
        self.messages.push_back(message);
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.messages.len() - self.dead
    }

    /// Returns the number of messages that it has memory for.
    pub fn capacity(&self) -> usize {
        self.messages.capacity()
    }

    /// Removes the first message, and the cancelled ones after it.
    fn pop(&mut self) {
        self.messages.pop_front();
        while self.messages.front().is_some_and(|m| m.dead) {
            self.messages.pop_front();
            self.dead -= 1;
        }
    }

    /// Returns true if there are no messages.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns true if a part of the first message was sent, and more may follow.
    pub fn is_within(&self) -> bool {
        self.messages.front().is_some_and(Message::started)
    }

    /// Returns the next message.
    pub fn front(&mut self) -> Option<&mut Message> {
        self.messages.front_mut()
    }

    /// Removes the next message, which was sent.
    pub fn front_sent(&mut self, core: &mut Core, vc: VcId) {
        if let Some(m) = self.messages.front() {
            core.send_finished(vc, m.req);
            self.pop();
        }
    }

    /// Cancels a message of which nothing was sent ([`crate::Netmod::cancel_send`]); returns true
    /// if that was possible.
    pub fn cancel(&mut self, core: &Core, req: ReqId) -> bool {
        let Some(seq) = core.req(req).map(|r| r.queue_seq) else { return false };
        let Ok(at) = self.messages.binary_search_by_key(&seq, |m| m.seq) else { return false };
        let m = &mut self.messages[at];
        if m.req != req || m.dead || m.started() {
            return false;
        }
        m.dead = true;
        m.data = Data::None;
        self.dead += 1;
        self.tidy();
        true
    }

    /// Removes cancelled messages at the ends, or all of them if they are many.
    fn tidy(&mut self) {
        while self.messages.front().is_some_and(|m| m.dead) {
            self.messages.pop_front();
            self.dead -= 1;
        }
        while self.messages.back().is_some_and(|m| m.dead) {
            self.messages.pop_back();
            self.dead -= 1;
        }
        if self.dead >= DEAD && self.dead > self.messages.len() / 2 {
            self.messages.retain(|m| !m.dead);
            self.dead = 0;
        }
    }

    /// Fails all messages.
    pub fn fail(&mut self, core: &mut Core, error: &VcError) {
        self.dead = 0;
        for m in self.messages.drain(..).filter(|m| !m.dead) {
            core.send_failed(m.req, error);
        }
    }
}

/// The VCs that a netmod's poll has to serve, in order; each is in it once.
#[derive(Debug, Default)]
pub struct WorkList {
    order: VecDeque<VcId>,
    waits: SideTable<(), VcKind>,
}

impl WorkList {
    /// Appends a VC, unless it is there.
    pub fn add(&mut self, vc: VcId) {
        if self.waits.get(vc).is_none() {
            self.waits.set(vc, ());
            self.order.push_back(vc);
        }
    }

    /// Removes and returns the first VC.
    pub fn take(&mut self) -> Option<VcId> {
        let vc = self.order.pop_front()?;
        self.waits.clear(vc);
        Some(vc)
    }

    /// Returns the number of VCs.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns true if there are no VCs.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
#[path = "sendq_tests.rs"]
mod tests;
