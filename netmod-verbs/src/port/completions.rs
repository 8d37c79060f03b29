//! What completions say.

use netmod_frames::device::Done;
use netmod_frames::wire::FRAME_HEADER;
use netmod_hca::{Completion, Cq as _, Hca};

use super::datagrams::GRH;
use super::{BATCH, EVENTS_EVERY, Of, Port, What};

impl<H: Hca> Port<H> {
    /// Takes completions into `entries`; how many.
    #[inline]
    pub(super) fn take(&mut self, most: usize) -> usize {
        if self.ahead > 0 {
            return core::mem::take(&mut self.ahead);
        }
        let most = most.clamp(1, BATCH);
        let draining = self.ends.is_draining();
        match self.cq.poll(&mut self.entries[..most]) {
            Ok(n) => {
                if draining && n == 0 {
                    self.room += self.ends.drained();
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
        let posted = self.receives.refill();
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
            Some(Of::End(at, number)) => self.end_completed(at, number, c),
            Some(Of::Datagram(buffer)) => self.datagram(buffer, c),
            Some(Of::Sent(buffer)) => {
                self.datagrams.sent();
                self.tx_free.push(buffer);
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
        if buffer >= self.receives.count() {
            self.oddities.unknown += 1;
            return None;
        }
        let len = c.byte_len as usize;
        if c.status.is_success() && (FRAME_HEADER..=self.receives.each()).contains(&len) {
            return Some(Done::Frame { buffer, at: 0, len: c.byte_len });
        }
        if c.status.is_success() {
            self.oddities.no_frames += 1;
        } else {
            self.oddities.receives += 1;
        }
        self.receives.give_back(buffer);
        None
    }

    fn datagram(&mut self, buffer: u32, c: &Completion) -> Option<Done> {
        let len = (c.byte_len as usize).saturating_sub(GRH);
        if c.status.is_success() && (FRAME_HEADER..=self.datagrams.longest()).contains(&len) {
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
    fn end_completed(&mut self, at: u32, number: u32, c: &Completion) -> Option<Done> {
        let tx_free = &mut self.tx_free;
        let free = |what: &What| {
            if let What::Send { buffer, .. } = what {
                tx_free.push(*buffer);
            }
        };
        let freed = self.ends.completed(at, number, c.qp_num, c.status, &mut self.found, free);
        match freed {
            Some(n) => self.room += n,
            None => self.oddities.unknown += 1,
        }
        None
    }
}
