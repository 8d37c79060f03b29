//! The sent part of the window: acknowledgements, copies, going back.

use netmod_core::{Core, VcId};

use super::{Message, Rest, TxQueue};

/// Bytes of senders' memory that are copied in a VC to let go of that memory: more than a peer ever
/// owes when it goes about other things (`sessions::OWED_BULK`), so that no sender waits for a peer
/// that has received all.
pub(crate) const KEEP_BOUND: usize = 768 << 10;
/// Sizes of buffers for such copies are multiples of this.
const KEEP_STEP: usize = 64 << 10;
/// Acknowledged bytes in the stage from which on it pays to start over.
const COMPACT_FROM: usize = 16 << 10;
/// Memory that is left to an idle VC.
const IDLE_BYTES: usize = 4 << 10;

/// A position of the peer's that is not in the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum WindowError {
    #[error("an acknowledgement of byte {position}, and {sent} were sent")]
    NotSent { position: u64, sent: u64 },
    #[error("it resumes at byte {position}, and what is kept are bytes {acked} to {sent}")]
    NotKept { position: u64, acked: u64, sent: u64 },
}

impl TxQueue {
    /// Begins a session, which can be resumed if `retain` is set. What an earlier one had sent
    /// counts as received.
    pub(crate) fn begin(&mut self, core: &mut Core, vc: VcId, retain: bool) {
        self.settle(core, vc);
        debug_assert!(self.part == 0, "a message was cut by the end of a session");
        (self.acked, self.sent, self.needs) = (0, 0, 0);
        self.retain = retain;
    }

    /// Begins a session in the middle of a connection, on which `unqueued` bytes went past the
    /// queue. What was sent counts as received; what is sent from the returned position on is kept.
    pub(crate) fn begin_to_retain(&mut self, unqueued: u64) -> u64 {
        debug_assert!(!self.retain && self.cursor == 0 && self.part == 0, "what was sent is still queued");
        self.sent += unqueued;
        (self.acked, self.needs) = (self.sent, self.sent);
        self.retain = true;
        self.sent
    }

    /// Ends a session: no acknowledgement will come any more, and what was sent counts as received.
    pub(crate) fn settle(&mut self, core: &mut Core, vc: VcId) {
        self.release(core, vc, self.sent);
        self.retain = false;
    }

    /// Returns true if no message waits to be sent, or to be acknowledged.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_drained() && self.acked >= self.needs
    }

    /// Returns the position up to which bytes have been sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the bytes that have been sent and not acknowledged.
    pub(crate) fn unacknowledged(&self) -> u64 {
        self.sent - self.acked
    }

    /// Returns the copied bytes that have been sent and not acknowledged.
    #[inline]
    pub(super) fn copied(&self) -> usize {
        self.next - self.head + self.kept
    }

    /// Returns true if `more` bytes may be sent before the next acknowledgement.
    #[inline]
    pub(crate) fn is_open(&self, more: usize) -> bool {
        self.copied() + more <= super::WINDOW
    }

    /// Returns the bytes that have gone, are not acknowledged, and are in the senders' memory.
    pub(crate) fn lent(&self) -> usize {
        self.lent
    }

    /// Returns true if senders wait for acknowledgements of what is in their memory.
    pub(crate) fn is_lent(&self) -> bool {
        self.lent > 0
    }

    /// Keeps a message that has been written whole, by copying it. Nothing waits before it.
    #[inline]
    pub(crate) fn log(&mut self, pieces: [&[u8]; 2]) {
        let len = pieces[0].len() + pieces[1].len();
        self.make_room(len);
        self.stage.extend_from_slice(pieces[0]);
        self.stage.extend_from_slice(pieces[1]);
        self.next = self.stage.len();
        self.sent += len as u64;
        self.needs = self.sent;
        match self.messages.back_mut() {
            Some(m) if m.is_run() => m.staged += len,
            _ => {
                self.append(Message::run(len, true));
                self.cursor = self.messages.len();
            }
        }
    }

    /// Takes an acknowledgement of everything up to a position. An earlier position changes
    /// nothing.
    ///
    /// # Errors
    /// It cannot have read what was not sent.
    pub(crate) fn acknowledge(
        &mut self,
        core: &mut Core,
        vc: VcId,
        position: u64,
    ) -> Result<(), WindowError> {
        if position > self.sent {
            return Err(WindowError::NotSent { position, sent: self.sent });
        }
        self.release(core, vc, position);
        Ok(())
    }

    /// Lets go of everything up to a position.
    pub(super) fn release(&mut self, core: &mut Core, vc: VcId, position: u64) {
        let mut n = position.saturating_sub(self.acked) as usize;
        self.acked = self.acked.max(position);
        while let Some(m) = self.messages.front_mut() {
            let whole = self.cursor > 0;
            let k = n.min(m.len());
            let staged = k.min(m.staged);
            m.staged -= staged;
            self.head += staged;
            if k > staged {
                let rest = k - staged;
                m.rest_len -= rest;
                match &mut m.rest {
                    Rest::Contig(buf) => buf.advance(rest),
                    Rest::Segment { from } => *from += rest,
                    Rest::Kept { from, .. } => {
                        *from += rest;
                        self.kept -= rest;
                    }
                    Rest::None => {}
                }
                if whole && self.retain && m.rest.is_lent() {
                    self.lent -= rest;
                }
            }
            n -= k;
            if !whole {
                self.part -= k;
                break;
            }
            if m.len() > 0 {
                break;
            }
            if m.dead {
                self.head += m.staged;
            } else if let Some(req) = m.req.take() {
                core.send_finished(vc, req);
            }
            if let Some(Message { rest: Rest::Kept { buf, .. }, .. }) = self.messages.pop_front() {
                self.spare(buf);
            }
            self.cursor -= 1;
        }
        let kept = self.stage.len() - self.head;
        if kept == 0 {
            self.stage.clear();
            (self.head, self.next) = (0, 0);
        } else if self.head >= COMPACT_FROM && kept <= self.head / 4 {
            // Now there is little to be moved; when room is needed it may be much, between two
            // messages.
            self.compact();
        }
    }

    /// Moves what the stage keeps to its start.
    pub(super) fn compact(&mut self) {
        self.stage.copy_within(self.head.., 0);
        self.stage.truncate(self.stage.len() - self.head);
        self.next -= self.head;
        self.head = 0;
    }

    fn spare(&mut self, mut buf: Vec<u8>) {
        buf.clear();
        let held: usize = self.spare.iter().map(Vec::capacity).sum();
        if held + buf.capacity() <= KEEP_BOUND {
            self.spare.push(buf);
        }
    }

    /// Copies what a message that has gone has in its sender's memory, and finishes its request.
    /// False if that would be too much.
    pub(super) fn keep(&mut self, core: &mut Core, vc: VcId, i: usize) -> bool {
        let m = &mut self.messages[i];
        if self.kept + m.rest_len > KEEP_BOUND {
            return false;
        }
        // The largest, and in steps, so that the same memory serves again and again.
        let largest = (0..self.spare.len()).max_by_key(|i| self.spare[*i].capacity());
        let mut buf = largest.map(|i| self.spare.swap_remove(i)).unwrap_or_default();
        buf.reserve_exact(m.rest_len.next_multiple_of(KEEP_STEP));
        match &m.rest {
            Rest::Contig(lent) => buf.extend_from_slice(lent.bytes()),
            Rest::Segment { from } => {
                if let Some(r) = m.req.and_then(|req| core.req_mut(req)) {
                    r.seg.seek(*from);
                    r.seg.pack_vec(m.rest_len, &mut buf);
                }
            }
            Rest::Kept { .. } | Rest::None => return true,
        }
        debug_assert_eq!(buf.len(), m.rest_len);
        m.rest = Rest::Kept { buf, from: 0 };
        self.kept += m.rest_len;
        self.lent -= m.rest_len;
        if let Some(req) = m.req.take() {
            core.send_finished(vc, req);
        }
        true
    }

    /// Copies what is left in the senders' memory of what has gone, as far as the bound allows.
    /// True if nothing is left there.
    pub(crate) fn keep_all(&mut self, core: &mut Core, vc: VcId) -> bool {
        for i in 0..self.cursor {
            if self.lent == 0 {
                break;
            }
            let m = &self.messages[i];
            if !m.rest.is_lent() || m.rest_len == 0 {
                continue;
            }
            // In order: what does not fit keeps those behind it waiting too.
            if !self.keep(core, vc, i) {
                return false;
            }
        }
        true
    }

    /// Goes back to the position up to which the peer has read. Returns the number of bytes that
    /// are sent again.
    ///
    /// # Errors
    /// The position is not in the window.
    pub(crate) fn rewind(&mut self, core: &mut Core, vc: VcId, position: u64) -> Result<u64, WindowError> {
        if position < self.acked || position > self.sent {
            return Err(WindowError::NotKept { position, acked: self.acked, sent: self.sent });
        }
        self.release(core, vc, position);
        let again = self.sent - self.acked;
        self.sent = self.acked;
        self.cursor = 0;
        self.part = 0;
        self.next = self.head;
        self.lent = 0;
        Ok(again)
    }

    /// Gives memory back that an idle VC has no use for.
    pub(crate) fn shrink(&mut self) {
        let rest = self.stage.len() - self.head;
        if self.is_drained() && self.kept == 0 && self.lent == 0 && rest <= IDLE_BYTES / 2 && self.is_large()
        {
            // Only acknowledgements are left. They are not acknowledged themselves until they are
            // many.
            self.stage = self.stage[self.head..].to_vec();
            (self.head, self.next) = (0, rest);
            self.spare = Vec::new();
            self.messages.shrink_to(4);
        }
    }

    /// Returns true if it holds more memory than an idle VC should.
    pub(crate) fn is_large(&self) -> bool {
        self.footprint() > IDLE_BYTES
    }

    /// Returns the bytes of memory that it holds.
    fn footprint(&self) -> usize {
        let spare: usize = self.spare.iter().map(Vec::capacity).sum();
        self.stage.capacity() + spare + self.kept + self.messages.capacity() * size_of::<Message>()
    }
}
