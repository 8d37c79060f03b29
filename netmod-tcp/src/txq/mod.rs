//! The send window of a VC: what waits to be sent, and what was sent and not acknowledged.
//!
//! A message is a run of staged bytes (its header, and its data if that is small) followed by data
//! that stays in the sender's memory. Staged runs of neighbouring messages are adjacent in one
//! buffer, so that any number of small messages is a single piece for the kernel.
//!
//! A cursor separates what was sent from what was not. In a session that can be resumed, everything
//! behind the last acknowledgement is kept, so that the cursor can go back: staged bytes in the
//! stage, other data where it is. Its request is finished when it is acknowledged, or was copied
//! (`window`). Without a session, what the kernel has taken counts as acknowledged.

mod window;

pub(crate) use window::{KEEP_BOUND, WindowError};

use std::collections::VecDeque;

use netmod_core::{Core, Header, IoVec, ReqId, Request, Segment, SendBuf, VcError, VcId};

/// Data of at most this many bytes is copied into the queue rather than sent from where it is: a
/// copy of this size costs less than a further piece in the system call.
pub(crate) const COPY_MAX: usize = 2048;

/// Data of at most this many bytes is copied when it has been sent, so that its request is over at
/// once.
pub(crate) const LOG_MAX: usize = 16 << 10;

/// Staged bytes above which data is no longer copied but left where it is, so that a receiver that
/// does not read costs its senders a header a message and no more.
const STAGE_BOUND: usize = 1 << 18;

/// Copied bytes that may be unacknowledged; the next ones wait.
const WINDOW: usize = 1 << 20;

/// Bytes that one request may stand for: copied messages that follow each other share a request, so
/// that a small message costs a copy and a count.
const BATCH_BYTES: usize = 8 << 10;

/// The part of a message that is not in the stage.
#[derive(Debug)]
enum Rest {
    None,
    /// In the sender's memory.
    Contig(SendBuf),
    /// The request's segment, from a position on.
    Segment {
        from: usize,
    },
    /// A copy of it, from an index on.
    Kept {
        buf: Vec<u8>,
        from: usize,
    },
}

impl Rest {
    fn is_lent(&self) -> bool {
        matches!(self, Rest::Contig(_) | Rest::Segment { .. })
    }
}

/// Lengths are of what is not acknowledged.
#[derive(Debug)]
struct Message {
    /// Bytes in the stage.
    staged: usize,
    /// Bytes behind them.
    rest_len: usize,
    rest: Rest,
    req: Option<ReqId>,
    /// A byte of it has gone, on whatever connection.
    started: bool,
    /// It was taken back; its bytes are skipped. Only for messages not started.
    dead: bool,
    /// Further copied messages may join it.
    batch: bool,
    /// Its place in the order of the queue.
    place: u64,
}

impl Message {
    /// Makes a message of staged bytes that nobody waits for.
    fn run(staged: usize, started: bool) -> Message {
        Message {
            staged,
            rest_len: 0,
            rest: Rest::None,
            req: None,
            started,
            dead: false,
            batch: false,
            place: 0,
        }
    }

    /// Returns its bytes in the stream.
    #[inline]
    fn len(&self) -> usize {
        if self.dead { 0 } else { self.staged + self.rest_len }
    }

    /// Returns true if it is staged bytes that nobody waits for.
    #[inline]
    fn is_run(&self) -> bool {
        matches!(self.rest, Rest::None) && self.req.is_none() && !self.dead
    }
}

/// Messages in order, with what they have staged.
#[derive(Debug, Default)]
pub(crate) struct TxQueue {
    stage: Vec<u8>,
    /// First byte of `stage` that is not acknowledged.
    head: usize,
    /// First byte of `stage` that is still to go.
    next: usize,
    messages: VecDeque<Message>,
    /// The first message that has not wholly gone, and the bytes of it that have.
    cursor: usize,
    part: usize,
    /// Messages behind the cursor that were taken back; the place of the next message.
    dead: usize,
    places: u64,
    /// Positions in the session's stream: what is acknowledged, what has gone.
    acked: u64,
    sent: u64,
    /// Behind the last byte of a message that has gone whole: control frames need no
    /// acknowledgement.
    needs: u64,
    /// Sent bytes are kept until they are acknowledged.
    retain: bool,
    /// Bytes that have gone, are not acknowledged, and are in the senders' memory; in copies.
    lent: usize,
    kept: usize,
    /// Memory for copies.
    spare: Vec<Vec<u8>>,
}

/// Messages that were taken back and are still in the queue: fewer than this, or than those that
/// were not.
const DEAD: usize = 32;

/// The data of a message.
pub(crate) enum Data {
    /// Bytes in one piece.
    Contig(SendBuf),
    /// The rest of the request's segment.
    Segment,
}

impl TxQueue {
    /// Returns true if nothing waits to be sent.
    #[inline]
    pub(crate) fn is_drained(&self) -> bool {
        self.cursor == self.messages.len()
    }

    /// Returns true if something could be written now.
    pub(crate) fn is_sendable(&self) -> bool {
        self.cursor < self.messages.len()
    }

    /// Returns the number of messages that wait.
    pub(crate) fn len(&self) -> usize {
        self.messages.len() - self.cursor
    }

    /// Returns the bytes that are staged and still to go.
    #[inline]
    pub(crate) fn staged(&self) -> usize {
        self.stage.len() - self.next
    }

    /// Returns true if a message with that much data would be copied whole.
    #[inline]
    pub(crate) fn copies(&self, data_len: usize) -> bool {
        data_len <= COPY_MAX && self.staged() <= STAGE_BOUND
    }

    /// Adds a message whole, by copying it. Returns its request, which it may share with its
    /// neighbours.
    #[inline]
    pub(crate) fn push_copied(&mut self, core: &mut Core, vc: VcId, hdr: &Header, data: &[u8]) -> ReqId {
        let staged = hdr.len() + data.len();
        self.make_room(staged);
        self.stage.extend_from_slice(hdr);
        self.stage.extend_from_slice(data);
        if let Some(m) = self.messages.back_mut()
            && m.batch
            && m.staged < BATCH_BYTES
            && let Some(req) = m.req
            && let Some(r) = core.req_mut(req)
            && !r.detached
        {
            m.staged += staged;
            r.shares += 1;
            return req;
        }
        let mut r = Request::new(Some(vc), Segment::empty());
        r.copied = true;
        r.queue_seq = self.places;
        let req = core.add_req(r);
        self.append(Message { req: Some(req), batch: true, ..Message::run(staged, false) });
        req
    }

    /// Adds a message at the end.
    #[inline]
    fn append(&mut self, mut m: Message) {
        m.place = self.places;
        self.places += 1;
        self.messages.push_back(m);
    }

    /// Adds a control frame.
    pub(crate) fn push_control(&mut self, frame: &Header) {
        self.make_room(frame.len());
        self.stage.extend_from_slice(frame);
        self.append(Message::run(frame.len(), false));
    }

    /// Starts the stage over when all of it is acknowledged, or moves it when that makes room and
    /// pays.
    #[inline]
    fn make_room(&mut self, more: usize) {
        if self.head == 0 {
            return;
        }
        if self.head == self.stage.len() {
            self.stage.clear();
            (self.head, self.next) = (0, 0);
        } else if self.stage.len() + more > self.stage.capacity() && self.head >= self.stage.len() / 2 {
            self.compact();
        }
    }

    /// Adds a message, of which the first `gone` bytes have been written already; then nothing
    /// waits before it.
    pub(crate) fn push(
        &mut self,
        core: &mut Core,
        vc: VcId,
        hdr: &Header,
        data: Data,
        gone: usize,
        req: ReqId,
    ) {
        debug_assert!(gone == 0 || self.is_drained());
        self.make_room(hdr.len() + COPY_MAX);
        let mut m = Message { req: Some(req), ..Message::run(hdr.len(), false) };
        self.stage.extend_from_slice(hdr);
        match data {
            Data::Contig(buf) if self.copies(buf.len()) => {
                self.stage.extend_from_slice(buf.bytes());
                m.staged += buf.len();
            }
            Data::Contig(buf) => {
                m.rest_len = buf.len();
                m.rest = Rest::Contig(buf);
            }
            Data::Segment => {
                if let Some(r) = core.req_mut(req) {
                    let len = r.seg.remaining();
                    if self.copies(len) {
                        m.staged += r.seg.pack_vec(len, &mut self.stage);
                    } else {
                        m.rest_len = len;
                        m.rest = Rest::Segment { from: r.seg.pos() };
                    }
                }
            }
        }
        if let Some(r) = core.req_mut(req) {
            r.queue_seq = self.places;
        }
        self.append(m);
        if gone > 0 {
            self.written(core, vc, gone);
        }
    }

    /// Describes what is to go next. Returns the number of pieces and of bytes; no bytes may mean
    /// that the window is closed.
    pub(crate) fn gather(&mut self, core: &mut Core, iov: &mut [IoVec]) -> (usize, usize) {
        let (mut n, mut bytes) = (0, 0);
        let mut room = if self.retain { WINDOW.saturating_sub(self.copied()) } else { usize::MAX };
        // The run of staged bytes that is being collected.
        let (mut at, mut run) = (self.next, 0);
        let base = self.stage.as_mut_ptr();
        let piece = |at: usize, len: usize| IoVec { base: base.wrapping_add(at), len };
        let mut skip = self.part;
        for m in self.messages.range(self.cursor..) {
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
            let staged = m.staged.saturating_sub(skip);
            let skipped = skip.saturating_sub(m.staged);
            skip = 0;
            if staged > room {
                break;
            }
            room -= staged;
            run += staged;
            if m.rest_len == skipped {
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
            match (&m.rest, m.req.and_then(|r| core.req_mut(r))) {
                (Rest::Contig(buf), _) => {
                    iov[n] = buf.iov_from(skipped);
                    (n, bytes) = (n + 1, bytes + m.rest_len - skipped);
                }
                (Rest::Kept { buf, from }, _) => {
                    let len = m.rest_len - skipped;
                    let base = buf.as_ptr().wrapping_add(from + skipped).cast_mut();
                    iov[n] = IoVec { base, len };
                    (n, bytes) = (n + 1, bytes + len);
                }
                (Rest::Segment { from }, Some(r)) => {
                    r.seg.seek(from + skipped);
                    let (k, b) = r.seg.next_iovecs(usize::MAX, &mut iov[n..]);
                    (n, bytes) = (n + k, bytes + b);
                    if b < m.rest_len - skipped {
                        return (n, bytes);
                    }
                }
                _ => {}
            }
        }
        if run > 0 && n < iov.len() {
            iov[n] = piece(at, run);
            (n, bytes) = (n + 1, bytes + run);
        }
        (n, bytes)
    }

    /// Takes note that `n` gathered bytes have been written, and finishes the messages that are
    /// through.
    pub(crate) fn written(&mut self, core: &mut Core, vc: VcId, mut n: usize) {
        let mut end = self.sent;
        self.sent += n as u64;
        while self.cursor < self.messages.len() {
            let m = &mut self.messages[self.cursor];
            if m.dead {
                self.next += m.staged;
                self.cursor += 1;
                self.dead = self.dead.saturating_sub(1);
                continue;
            }
            let left = m.len() - self.part;
            let k = n.min(left);
            m.started |= k > 0;
            self.next += m.staged.saturating_sub(self.part).min(k);
            self.part += k;
            n -= k;
            end += k as u64;
            if k < left {
                break;
            }
            self.part = 0;
            self.cursor += 1;
            self.message_sent(core, vc, self.cursor - 1, end);
        }
        debug_assert_eq!(n, 0, "more bytes were sent than there were");
        if !self.retain {
            self.release(core, vc, self.sent);
        }
    }

    /// Takes note that the last byte of a message has been written, up to a position of the stream.
    fn message_sent(&mut self, core: &mut Core, vc: VcId, i: usize, end: u64) {
        let m = &mut self.messages[i];
        if m.req.is_some() {
            self.needs = self.needs.max(end);
        }
        let lent = self.retain && m.rest.is_lent() && m.rest_len > 0;
        if lent {
            self.lent += m.rest_len;
        }
        if lent || (!self.retain && m.rest.is_lent()) {
            return;
        }
        if let Some(req) = m.req.take() {
            core.send_finished(vc, req);
        }
        self.join(i);
    }

    /// Makes one run of a message that was sent and the one before it, if both are runs.
    fn join(&mut self, i: usize) {
        if i == 0 || i >= self.cursor || !self.messages[i].is_run() || !self.messages[i - 1].is_run() {
            return;
        }
        let Some(m) = self.messages.remove(i) else { return };
        self.messages[i - 1].staged += m.staged;
        self.cursor -= 1;
    }

    /// Takes a message back if no byte of it has gone.
    pub(crate) fn cancel(&mut self, core: &Core, req: ReqId) -> bool {
        // Messages that share a request cannot be told apart.
        let Some(place) = core.req(req).filter(|r| !r.is_shared()).map(|r| r.queue_seq) else {
            return false;
        };
        let at = self.messages.partition_point(|m| m.place < place).max(self.cursor);
        let Some(m) = self.messages.get_mut(at).filter(|m| m.req == Some(req) && !m.started && !m.dead)
        else {
            return false;
        };
        m.dead = true;
        m.rest = Rest::None;
        m.rest_len = 0;
        m.req = None;
        self.dead += 1;
        while self.messages.len() > self.cursor
            && let Some(m) = self.messages.pop_back_if(|m| m.dead)
        {
            self.stage.truncate(self.stage.len() - m.staged);
            self.dead = self.dead.saturating_sub(1);
        }
        if self.dead >= DEAD && self.dead > self.len() / 2 {
            self.prune();
        }
        true
    }

    /// Removes what was taken back, from the stage too.
    fn prune(&mut self) {
        let (mut from, mut to, mut part) = (self.next, self.next, self.part);
        for m in self.messages.range(self.cursor..) {
            let staged = m.staged.saturating_sub(std::mem::take(&mut part));
            if !m.dead {
                self.stage.copy_within(from..from + staged, to);
                to += staged;
            }
            from += staged;
        }
        self.stage.truncate(to);
        let (mut i, cursor) = (0, self.cursor);
        self.messages.retain(|m| {
            i += 1;
            i <= cursor || !m.dead
        });
        self.dead = 0;
    }

    /// Returns true if part of a message has gone and part has not: the stream cannot be continued
    /// on another connection without a session.
    pub(crate) fn is_mid_message(&self) -> bool {
        self.part > 0 || self.messages.get(self.cursor).is_some_and(|m| m.started)
    }

    /// Fails everything, and forgets the session.
    pub(crate) fn fail(&mut self, core: &mut Core, error: &VcError) {
        for req in self.messages.iter().filter_map(|m| m.req) {
            core.send_failed(req, error);
        }
        *self = TxQueue::default();
    }

    /// Returns the messages and bytes that wait, as readable text.
    pub(crate) fn describe(&self) -> String {
        let waiting = if self.is_drained() {
            "nothing queued".to_string()
        } else {
            format!("{} messages queued, {} bytes staged", self.len(), self.staged())
        };
        match self.unacknowledged() {
            0 => waiting,
            n => format!("{waiting}, {n} bytes unacknowledged"),
        }
    }
}

#[cfg(test)]
mod tests;
