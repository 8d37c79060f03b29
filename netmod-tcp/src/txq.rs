//! The queue of what waits to be sent on a VC.
//!
//! A message is a run of staged bytes (its header, and its data if that is small) followed by data that
//! stays in the sender's memory. Staged runs of neighbouring messages are adjacent in one buffer, so
//! that any number of small messages is a single piece for the kernel.

use std::collections::VecDeque;

use netmod_core::{Core, Header, IoVec, OnDone, ReqId, Request, Segment, SendBuf, VcError, VcId};

/// Data of at most this many bytes is copied into the queue rather than sent from where it is: a
/// copy of this size costs less than a further piece in the system call.
pub(crate) const COPY_MAX: usize = 2048;

/// Staged bytes above which data is no longer copied but left where it is, so that a receiver that
/// does not read costs its senders a header a message and no more.
const STAGE_BOUND: usize = 1 << 18;

/// Bytes that one request may stand for: copied messages that follow each other share a request, so
/// that a small message costs a copy and a count.
const BATCH_BYTES: usize = 8 << 10;

/// The part of a message that stays in the sender's memory.
#[derive(Debug)]
enum Rest {
    None,
    Contig(SendBuf),
    /// The request's segment.
    Segment,
}

#[derive(Debug)]
struct Message {
    /// Bytes of the stage that are still to go.
    staged: usize,
    rest: Rest,
    req: Option<ReqId>,
    /// Whether a byte of it has gone.
    started: bool,
    /// Whether it was taken back; its bytes are skipped. Only for messages not started.
    dead: bool,
    /// Whether further copied messages may join it.
    batch: bool,
    /// Whether its owner is asked for more at its end: nothing behind it may go before that.
    asks: bool,
}

/// Messages in order, with what they have staged.
#[derive(Debug, Default)]
pub(crate) struct TxQueue {
    stage: Vec<u8>,
    /// First byte of `stage` that is still to go.
    head: usize,
    messages: VecDeque<Message>,
    /// The first message's data has gone and its owner is being asked whether there is more.
    held: bool,
}

/// What a message of the queue is made of.
#[derive(Clone, Copy)]
pub(crate) enum Data {
    /// Bytes in one piece.
    Contig(SendBuf),
    /// What is left of the request's segment.
    Segment,
}

impl TxQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether there is something that could be written now.
    pub(crate) fn is_sendable(&self) -> bool {
        !self.messages.is_empty() && !self.held
    }

    /// Number of messages that wait.
    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Bytes that are staged.
    #[inline]
    pub(crate) fn staged(&self) -> usize {
        self.stage.len() - self.head
    }

    /// Whether a message with so much data would be copied whole.
    #[inline]
    pub(crate) fn copies(&self, data_len: usize) -> bool {
        data_len <= COPY_MAX && self.staged() <= STAGE_BOUND
    }

    /// Adds a message whole, by copying it. Returns its request, which it may share with its neighbours.
    #[inline]
    pub(crate) fn push_copied(&mut self, core: &mut Core, vc: VcId, hdr: &Header, data: &[u8]) -> ReqId {
        self.tidy();
        self.stage.extend_from_slice(hdr);
        self.stage.extend_from_slice(data);
        let staged = hdr.len() + data.len();
        if let Some(m) = self.messages.back_mut()
            && m.batch
            && m.staged < BATCH_BYTES
            && let Some(req) = m.req
            && let Some(r) = core.reqs.get_mut(req)
            && !r.detached
        {
            m.staged += staged;
            r.shares += 1;
            return req;
        }
        let mut r = Request::new(Some(vc), Segment::empty());
        r.copied = true;
        let req = core.reqs.insert(r);
        self.messages.push_back(Message {
            staged,
            rest: Rest::None,
            req: Some(req),
            started: false,
            dead: false,
            batch: true,
            asks: false,
        });
        req
    }

    /// Starts the stage over when all of it has gone.
    #[inline]
    fn tidy(&mut self) {
        if self.head > 0 && self.head == self.stage.len() {
            self.stage.clear();
            self.head = 0;
        }
    }

    /// Adds a message, of which the first `gone` bytes have been written already.
    #[inline]
    pub(crate) fn push(&mut self, core: &mut Core, hdr: &Header, data: Data, gone: usize, req: ReqId) {
        self.tidy();
        let from = gone.min(hdr.len());
        self.stage.extend_from_slice(&hdr[from..]);
        let mut staged = hdr.len() - from;
        let gone = gone - from;
        let rest = match data {
            Data::Contig(buf) => {
                let buf = buf.skip(gone);
                if self.copies(buf.len()) {
                    self.stage.extend_from_slice(buf.bytes());
                    staged += buf.len();
                    Rest::None
                } else {
                    Rest::Contig(buf)
                }
            }
            Data::Segment => match core.reqs.get_mut(req) {
                Some(r) => {
                    r.seg.advance(gone);
                    let left = r.seg.remaining();
                    if self.copies(left) {
                        staged += r.seg.pack_vec(left, &mut self.stage);
                        Rest::None
                    } else {
                        Rest::Segment
                    }
                }
                None => Rest::None,
            },
        };
        self.messages.push_back(Message {
            staged,
            rest,
            req: Some(req),
            started: from + gone > 0,
            dead: false,
            batch: false,
            asks: core.reqs.get(req).is_some_and(|r| r.on_done == OnDone::Upper),
        });
    }

    /// Describes what is to go next. Returns the number of pieces and of bytes.
    pub(crate) fn gather(&mut self, core: &Core, iov: &mut [IoVec]) -> (usize, usize) {
        let (mut n, mut bytes) = (0, 0);
        // The run of staged bytes that is being collected.
        let (mut at, mut run) = (self.head, 0);
        let base = self.stage.as_mut_ptr();
        let piece = |at: usize, len: usize| IoVec { base: base.wrapping_add(at), len };
        for m in &self.messages {
            if m.dead {
                if run > 0 {
                    if n == iov.len() {
                        return (n, bytes);
                    }
                    iov[n] = piece(at, run);
                    (n, bytes) = (n + 1, bytes + run);
                }
                at += run + m.staged;
                run = 0;
                continue;
            }
            run += m.staged;
            if matches!(m.rest, Rest::None) {
                if m.asks {
                    break;
                }
                continue;
            }
            // The run so far and at least one piece of the rest must find room.
            if n + 1 + usize::from(run > 0) > iov.len() {
                break;
            }
            if run > 0 {
                iov[n] = piece(at, run);
                (n, bytes) = (n + 1, bytes + run);
                (at, run) = (at + run, 0);
            }
            match (&m.rest, m.req.and_then(|r| core.reqs.get(r))) {
                (Rest::Contig(buf), _) => {
                    iov[n] = buf.iov();
                    (n, bytes) = (n + 1, bytes + buf.len());
                }
                (Rest::Segment, Some(r)) => {
                    let (k, b) = r.seg.next_iovecs(usize::MAX, &mut iov[n..]);
                    (n, bytes) = (n + k, bytes + b);
                    if b < r.seg.remaining() {
                        return (n, bytes);
                    }
                }
                _ => {}
            }
            if m.asks {
                break;
            }
        }
        if run > 0 && n < iov.len() {
            iov[n] = piece(at, run);
            (n, bytes) = (n + 1, bytes + run);
        }
        (n, bytes)
    }

    /// `n` bytes of what was gathered have been written: finishes the messages that are through.
    pub(crate) fn written(&mut self, core: &mut Core, vc: VcId, mut n: usize) {
        while let Some(m) = self.messages.front_mut() {
            if m.dead {
                self.head += m.staged;
                self.messages.pop_front();
                continue;
            }
            let k = n.min(m.staged);
            m.started |= k > 0;
            m.staged -= k;
            self.head += k;
            n -= k;
            if m.staged > 0 {
                return;
            }
            match &mut m.rest {
                Rest::None => {}
                Rest::Contig(buf) => {
                    let k = n.min(buf.len());
                    *buf = buf.skip(k);
                    m.started |= k > 0;
                    n -= k;
                    if !buf.is_empty() {
                        return;
                    }
                }
                Rest::Segment => {
                    if let Some(r) = m.req.and_then(|r| core.reqs.get_mut(r)) {
                        let k = n.min(r.seg.remaining());
                        r.seg.advance(k);
                        m.started |= k > 0;
                        n -= k;
                        if !r.seg.is_done() {
                            return;
                        }
                    }
                }
            }
            let Some(req) = m.req else {
                self.messages.pop_front();
                continue;
            };
            if !core.send_finished(vc, req) {
                // Nothing may follow before its owner has said whether there is more.
                debug_assert_eq!(n, 0, "bytes were sent behind a message whose owner is to be asked");
                m.rest = Rest::None;
                self.held = true;
                return;
            }
            self.messages.pop_front();
        }
    }

    /// The owner of the first message has spoken.
    pub(crate) fn resume(&mut self, req: ReqId, more: bool) {
        let Some(m) = self.messages.front_mut() else { return };
        if !self.held || m.req != Some(req) {
            return;
        }
        self.held = false;
        if more {
            m.rest = Rest::Segment;
        } else {
            self.messages.pop_front();
        }
    }

    /// Takes a message back if no byte of it has gone.
    pub(crate) fn cancel(&mut self, core: &Core, req: ReqId) -> bool {
        for m in &mut self.messages {
            if m.req == Some(req) {
                // Of messages that share a request none can be told from the others.
                let shared = core.reqs.get(req).is_some_and(netmod_core::Request::is_shared);
                if m.started || m.dead || shared {
                    return false;
                }
                m.dead = true;
                m.rest = Rest::None;
                m.req = None;
                return true;
            }
        }
        false
    }

    /// Whether part of a message has gone and part has not: the stream cannot be continued on another
    /// connection.
    pub(crate) fn is_mid_message(&self) -> bool {
        self.held || self.messages.front().is_some_and(|m| m.started)
    }

    /// Fails everything.
    pub(crate) fn fail(&mut self, core: &mut Core, error: &VcError) {
        for m in self.messages.drain(..) {
            if let Some(req) = m.req {
                core.send_failed(req, error);
            }
        }
        self.stage.clear();
        self.head = 0;
        self.held = false;
    }

    /// Messages and bytes that wait, for people.
    pub(crate) fn describe(&self) -> String {
        if self.messages.is_empty() {
            return "nothing queued".into();
        }
        format!(
            "{} messages queued, {} bytes staged{}",
            self.len(),
            self.staged(),
            if self.held { ", held" } else { "" }
        )
    }
}

#[cfg(test)]
#[path = "txq_tests.rs"]
mod tests;
