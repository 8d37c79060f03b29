//! What waits to be sent: a VC's messages in order, and the VCs whose turn it is.
//!
//! For netmods that send a message at once if they can, and else let it wait (in Nemesis the send queue of a VC). How bytes leave is the
//! netmod's affair; which message is next and what of it has gone is the same for all.

use std::collections::VecDeque;

use crate::buf::SendBuf;
use crate::engine::Core;
use crate::error::VcError;
use crate::netmod::{HDR_LEN, Header};
use crate::slab::{ReqId, SideTable, VcId, VcKind};

/// The data of a message, behind its header.
#[derive(Debug)]
pub enum Data {
    /// Nothing, or nothing more.
    None,
    /// Bytes in one piece.
    Contig(SendBuf),
    /// What is left of the request's segment.
    Segment,
}

/// A message that waits.
#[derive(Debug)]
pub struct Message {
    hdr: Header,
    head_gone: usize,
    /// What of its data has not gone.
    pub data: Data,
    req: ReqId,
    /// Its place in the order of its queue.
    seq: u64,
    /// It was taken back.
    dead: bool,
}

impl Message {
    /// A message of which nothing has gone.
    pub fn new(hdr: Header, data: Data, req: ReqId) -> Message {
        Message { hdr, head_gone: 0, data, req, seq: 0, dead: false }
    }

    /// This message, without its first `n` bytes, which have gone; header and contiguous data.
    #[must_use]
    pub fn without(mut self, n: usize) -> Message {
        self.head_gone = n.min(HDR_LEN);
        if let Data::Contig(buf) = self.data {
            self.data = Data::Contig(buf.skip(n - self.head_gone));
        }
        self
    }

    /// The request that ends with it.
    pub fn req(&self) -> ReqId {
        self.req
    }

    /// Its header.
    pub fn header(&self) -> &Header {
        &self.hdr
    }

    /// What of its header has not gone.
    pub fn head(&self) -> &[u8] {
        &self.hdr[self.head_gone..]
    }

    /// `n` bytes more of its header have gone.
    pub fn head_sent(&mut self, n: usize) {
        self.head_gone = (self.head_gone + n).min(HDR_LEN);
    }

    /// Whether a byte of it has gone.
    pub fn started(&self) -> bool {
        self.head_gone > 0
    }

    /// Bytes of its data that have not gone.
    pub fn left(&self, core: &Core) -> usize {
        match &self.data {
            Data::None => 0,
            Data::Contig(buf) => buf.len(),
            Data::Segment => core.reqs.get(self.req).map_or(0, |r| r.seg.remaining()),
        }
    }

    /// Copies as much of its data as there is room for; how much, and whether that was the rest.
    pub fn copy(&mut self, core: &mut Core, room: &mut [u8]) -> (usize, bool) {
        match &mut self.data {
            Data::None => (0, true),
            Data::Contig(buf) => {
                let n = room.len().min(buf.len());
                room[..n].copy_from_slice(&buf.bytes()[..n]);
                *buf = buf.skip(n);
                (n, buf.is_empty())
            }
            Data::Segment => match core.reqs.get_mut(self.req) {
                None => (0, true),
                Some(r) => (r.seg.pack(room), r.seg.is_done()),
            },
        }
    }
}

/// Messages that were taken back and are still in a queue: fewer than this, or than those that were not.
const DEAD: usize = 32;

/// A VC's messages that wait, the next one first.
///
/// A message is found by its place, which its request knows. One that is taken back stays where it is until it is at an end of the queue,
/// or such messages are more than the others: so taking back takes logarithmic time and the memory stays bounded.
#[derive(Debug, Default)]
pub struct SendQueue {
    /// Neither the first nor the last one was taken back.
    messages: VecDeque<Message>,
    /// How many were taken back.
    dead: usize,
    /// The place of the next message.
    next: u64,
}

impl SendQueue {
    /// Adds a message.
    pub fn push(&mut self, core: &mut Core, mut message: Message) {
        message.seq = self.next;
        if let Some(r) = core.reqs.get_mut(message.req) {
            r.queue_seq = self.next;
        }
        self.next += 1;
        self.messages.push_back(message);
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.messages.len() - self.dead
    }

    /// Messages that it has memory for.
    pub fn capacity(&self) -> usize {
        self.messages.capacity()
    }

    /// Removes the first message, and those behind it that were taken back.
    fn pop(&mut self) {
        self.messages.pop_front();
        while self.messages.front().is_some_and(|m| m.dead) {
            self.messages.pop_front();
            self.dead -= 1;
        }
    }

    /// Whether none waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether a part of the first message has gone, and another may follow.
    pub fn is_within(&self) -> bool {
        self.messages.front().is_some_and(Message::started)
    }

    /// The next message.
    pub fn front(&mut self) -> Option<&mut Message> {
        self.messages.front_mut()
    }

    /// The next message has gone.
    pub fn front_sent(&mut self, core: &mut Core, vc: VcId) {
        if let Some(m) = self.messages.front() {
            core.send_finished(vc, m.req);
            self.pop();
        }
    }

    /// Takes a message out of which nothing has gone ([`crate::Netmod::cancel_send`]); whether that was possible.
    pub fn cancel(&mut self, core: &Core, req: ReqId) -> bool {
        let Some(seq) = core.reqs.get(req).map(|r| r.queue_seq) else { return false };
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

    /// Removes what was taken back from the ends, or all of it if that is much.
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

    /// None of them will ever go.
    pub fn fail(&mut self, core: &mut Core, error: &VcError) {
        self.dead = 0;
        for m in self.messages.drain(..).filter(|m| !m.dead) {
            core.send_failed(m.req, error);
        }
    }
}

/// VCs that a netmod's poll has to see to, in order; each is in it once.
#[derive(Debug, Default)]
pub struct WorkList {
    order: VecDeque<VcId>,
    waits: SideTable<(), VcKind>,
}

impl WorkList {
    /// Adds a VC at the end, unless it is there.
    pub fn add(&mut self, vc: VcId) {
        if self.waits.get(vc).is_none() {
            self.waits.set(vc, ());
            self.order.push_back(vc);
        }
    }

    /// The VC whose turn it is; it is not in it any more.
    pub fn take(&mut self) -> Option<VcId> {
        let vc = self.order.pop_front()?;
        self.waits.clear(vc);
        Some(vc)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
#[path = "sendq_tests.rs"]
mod tests;
