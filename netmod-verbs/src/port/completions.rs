//! Handles completions.

use hca::{Completion, Cq as _, Hca, Status};
use netmod_framed::device::Done;
use netmod_framed::wire::FRAME_HEADER;

use super::datagrams::GRH;
use super::endpoint::Results;
use super::{BATCH, EVENTS_EVERY, Of, Port};

impl<H: Hca> Port<H> {
    /// Takes completions into `entries`, and returns their number.
    #[inline]
    pub(super) fn take(&mut self, most: usize) -> usize {
        if self.ahead > 0 {
            return core::mem::take(&mut self.ahead);
        }
        let most = most.clamp(1, BATCH);
        let draining = self.endpoints.is_draining();
        match self.site.cq.poll(&mut self.entries[..most]) {
            Ok(n) => {
                if draining && n == 0 {
                    self.endpoints.drained();
                }
                n
            }
            Err(e) => {
                self.died(&e.to_string());
                0
            }
        }
    }

    /// Does the periodic work beside completions.
    #[inline]
    pub(super) fn maintain(&mut self) {
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(EVENTS_EVERY) && self.dead.is_none() {
            self.events();
        }
        if self.endpoints.is_pending() {
            self.settle_endpoints();
        }
        let mut posted = self.receives.refill();
        if let Some(plain) = &mut self.plain {
            posted = posted.and(plain.refill());
        }
        if self.datagrams.needs_maintenance() {
            posted = posted.and_then(|()| self.maintain_datagrams());
        }
        if let Err(why) = posted {
            self.died(&why.to_string());
        }
    }

    /// Converts a completion to what is reported.
    #[inline]
    pub(super) fn translate(&mut self, c: &Completion) -> Option<Done> {
        match Of::parse(c.wr_id) {
            Some(Of::Receive(buffer)) => self.received(buffer, c),
            Some(Of::SendQp(at, number)) => self.qp_completed(at, number, c),
            Some(Of::Plain(buffer)) => self.received(self.first_plain() + buffer, c),
            Some(Of::Datagram(buffer)) => self.datagram(buffer, c),
            Some(Of::Sent(buffer)) => self.datagram_sent(buffer, c.status),
            None => {
                self.oddities.unknown += 1;
                None
            }
        }
    }

    #[inline]
    fn received(&mut self, buffer: u32, c: &Completion) -> Option<Done> {
        let Some(each) = self.queue_of(buffer).map(|(queue, _)| queue.each()) else {
            self.oddities.unknown += 1;
            return None;
        };
        let len = c.byte_len as usize;
        if c.status.is_success() && (FRAME_HEADER..=each).contains(&len) {
            return Some(Done::Frame { buffer, at: 0, len: c.byte_len });
        }
        if c.status.is_success() {
            self.oddities.no_frames += 1;
        } else {
            self.oddities.receives += 1;
        }
        self.give_receive_back(buffer);
        None
    }

    fn datagram(&mut self, buffer: u32, c: &Completion) -> Option<Done> {
        let len = (c.byte_len as usize).saturating_sub(GRH);
        let whole = c.status.is_success() && (FRAME_HEADER..=self.datagrams.longest()).contains(&len);
        if whole && self.take_control(buffer, len) {
            self.datagrams.give_back(buffer);
            return None;
        }
        if whole {
            let buffer = self.receives.count() + buffer;
            return Some(Done::Frame { buffer, at: GRH as u32, len: len as u32 });
        }
        match c.status {
            Status::Success => self.oddities.no_frames += 1,
            // Returned because the whole queue was flushed.
            Status::WrFlushErr => self.datagrams.failed(),
            _ => {
                self.oddities.receives += 1;
                self.datagrams.failed();
            }
        }
        self.datagrams.give_back(buffer);
        None
    }

    /// Handles the end of a sent datagram. Its arrival is unknown: a dial has a deadline for its
    /// answer. The last frame of a connection has none, so its failure is reported.
    fn datagram_sent(&mut self, buffer: u32, status: Status) -> Option<Done> {
        self.tx.free.push(buffer);
        if !status.is_success() {
            self.datagrams.failed();
        }
        if self.datagrams.sent(buffer) {
            return None;
        }
        let owner = self.tx.owners.get_mut(buffer as usize)?;
        let (vc, reset) = (owner.vc, owner.reset.take());
        if let Some(reset) = reset.filter(|_| !status.is_success()) {
            return Some(Done::ResetFailed { vc, reset });
        }
        Some(Done::Sent { vc })
    }

    #[inline]
    fn qp_completed(&mut self, at: u32, number: u32, c: &Completion) -> Option<Done> {
        let why = if c.status.is_success() { None } else { Some(self.reason(c.status)) };
        let result = (c.status, why.as_deref().unwrap_or_default());
        let results = &mut Results { found: &mut self.found, free: &mut self.tx.free };
        if !self.endpoints.completed(at, number, c.qp_num, result, results) {
            self.oddities.unknown += 1;
        }
        None
    }
}
