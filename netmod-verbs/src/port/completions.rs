//! What completions say.

use hca::{Completion, Cq as _, Hca, Status};
use netmod_framed::device::Done;
use netmod_framed::wire::FRAME_HEADER;

use super::datagrams::GRH;
use super::end::Told;
use super::{BATCH, EVENTS_EVERY, Of, Port};

impl<H: Hca> Port<H> {
    /// Takes completions into `entries`; how many.
    #[inline]
    pub(super) fn take(&mut self, most: usize) -> usize {
        if self.ahead > 0 {
            return core::mem::take(&mut self.ahead);
        }
        let most = most.clamp(1, BATCH);
        let draining = self.ends.is_draining();
        match self.site.cq.poll(&mut self.entries[..most]) {
            Ok(n) => {
                if draining && n == 0 {
                    self.ends.drained();
                }
                n
            }
            Err(e) => {
                self.died(&e.to_string());
                0
            }
        }
    }

    /// What is to be done beside completions.
    #[inline]
    pub(super) fn look_after(&mut self) {
        self.polls = self.polls.wrapping_add(1);
        if self.polls.is_multiple_of(EVENTS_EVERY) && self.dead.is_none() {
            self.events();
        }
        if self.ends.is_restless() {
            self.settle_ends();
        }
        let mut posted = self.receives.refill();
        if let Some(plain) = &mut self.plain {
            posted = posted.and(plain.refill());
        }
        if self.datagrams.wants_care() {
            posted = posted.and_then(|()| self.look_after_datagrams());
        }
        if let Err(why) = posted {
            self.died(&why);
        }
    }

    /// What one completion says.
    #[inline]
    pub(super) fn translate(&mut self, c: &Completion) -> Option<Done> {
        match Of::parse(c.wr_id) {
            Some(Of::Receive(buffer)) => self.received(buffer, c),
            Some(Of::Lane(at, number)) => self.lane_completed(at, number, c),
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
        if whole && self.note(buffer, len) {
            self.datagrams.give_back(buffer);
            return None;
        }
        if whole {
            let buffer = self.receives.count() + buffer;
            return Some(Done::Frame { buffer, at: GRH as u32, len: len as u32 });
        }
        match c.status {
            Status::Success => self.oddities.no_frames += 1,
            // It comes back with all that is in the queues.
            Status::WrFlushErr => self.datagrams.failed(),
            _ => {
                self.oddities.receives += 1;
                self.datagrams.failed();
            }
        }
        self.datagrams.give_back(buffer);
        None
    }

    /// A datagram has left, or cannot. Whether it arrives nobody says: who has dialled waits for an answer, with a deadline. For the last
    /// word on a connection there is none, so of that it is told.
    fn datagram_sent(&mut self, buffer: u32, status: Status) -> Option<Done> {
        self.tx_free.push(buffer);
        if !status.is_success() {
            self.datagrams.failed();
        }
        if self.datagrams.sent(buffer) {
            return None;
        }
        let owner = self.owners.get_mut(buffer as usize)?;
        let (vc, word) = (owner.vc, owner.word.take());
        if let Some(word) = word.filter(|_| !status.is_success()) {
            return Some(Done::WordFailed { vc, word });
        }
        Some(Done::Sent { vc })
    }

    #[inline]
    fn lane_completed(&mut self, at: u32, number: u32, c: &Completion) -> Option<Done> {
        let why = if c.status.is_success() { None } else { Some(self.reason(c.status)) };
        let result = (c.status, why.as_deref().unwrap_or_default());
        let told = &mut Told { found: &mut self.found, free: &mut self.tx_free };
        if !self.ends.completed(at, number, c.qp_num, result, told) {
            self.oddities.unknown += 1;
        }
        None
    }
}
