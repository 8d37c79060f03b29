//! What completions say.

use netmod_frames::device::Done;
use netmod_frames::wire::FRAME_HEADER;
use netmod_hca::{Completion, Cq as _, Hca};

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
        let posted = if self.datagrams.wants_posts() { posted.and(self.datagrams.post()) } else { posted };
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
            Some(Of::Sent(buffer)) => {
                self.tx_free.push(buffer);
                if self.datagrams.sent(buffer) {
                    return None;
                }
                // Whether it arrives nobody says: who has dialled waits for an answer, with a deadline.
                Some(Done::Sent { vc: *self.owners.get(buffer as usize)? })
            }
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
        if c.status.is_success() {
            self.oddities.no_frames += 1;
        } else {
            self.oddities.receives += 1;
        }
        self.datagrams.give_back(buffer);
        None
    }

    #[inline]
    fn lane_completed(&mut self, at: u32, number: u32, c: &Completion) -> Option<Done> {
        let told = &mut Told { found: &mut self.found, free: &mut self.tx_free };
        if !self.ends.completed(at, number, c.qp_num, c.status, told) {
            self.oddities.unknown += 1;
        }
        None
    }
}
