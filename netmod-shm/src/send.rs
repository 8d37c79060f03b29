//! Sending: at once if possible, else through the VC's queue.

use netmod_core::{Core, Event, Header, Message, ReplyBackoff, ReqId, Time, VcError, VcErrorKind, VcId};

use crate::channel::CLASSES;
use crate::netmod::{CHECK, Ending, NoSegment, ShmNetmod};
use crate::ring::{Broken, Kind, Producer, TokenLine};
use crate::segment::RingError;
use crate::vc;

impl ShmNetmod {
    #[cold]
    #[inline(never)]
    pub(crate) fn check(&self, vc: VcId) -> Result<(), VcError> {
        let text = match self.vcs.get(vc) {
            None => "the VC is not in the charge of netmod shm",
            Some(_) if self.ending != Ending::No => "the netmod has been finalized",
            Some(l) => return l.down.clone().map_or(Ok(()), Err),
        };
        Err(VcError::new(VcErrorKind::Aborted, None, text))
    }

    /// Writes as much of a message as there is room for, if nothing is queued before it. Returns
    /// the number of bytes written.
    #[inline]
    pub(crate) fn send(
        &mut self,
        core: &mut Core,
        vc: VcId,
        hdr: &Header,
        data: &[u8],
    ) -> Result<usize, VcError> {
        let ready = self.vcs.get(vc).and_then(|l| if l.ready { l.slot } else { None });
        let Some(slot) = ready else {
            self.check(vc)?;
            core.count_send(vc, data.len());
            return Ok(0);
        };
        let sent = self.channels[slot].send(hdr, data, self.clock.epoch);
        // The message goes first: somebody waits for it.
        core.count_send(vc, data.len());
        let gone = match sent {
            Ok(gone) => gone,
            Err(broken) => return Err(self.broken(core, slot, broken)),
        };
        self.touch(slot);
        Ok(gone)
    }

    /// Rings without waiting for the next poll.
    #[cold]
    #[inline(never)]
    fn ring_early(&mut self, slot: usize) {
        if self.channels[slot].tx.as_mut().is_some_and(Producer::needs_bell) {
            self.ring_bell(slot);
        }
    }

    /// Writes the segment of a request at once, or nothing of it; see [`ShmNetmod::send`].
    pub(crate) fn send_segment(
        &mut self,
        core: &mut Core,
        vc: VcId,
        hdr: &Header,
        req: ReqId,
        len: usize,
    ) -> Result<bool, VcError> {
        let Some(slot) = self.vcs.get(vc).and_then(|l| if l.ready { l.slot } else { None }) else {
            return Ok(false);
        };
        let channel = &mut self.channels[slot];
        let Some(tx) = &mut channel.tx else { return Ok(false) };
        let Some(r) = core.req_mut(req) else { return Ok(false) };
        // Without data, there is nothing that could lie in more than one piece.
        if len > tx.piece() || len == 0 {
            return Ok(false);
        }
        let reserved = tx.reserve_bulk(len);
        if let Ok(Some(place @ crate::ring::Reserved::Bulk(at))) = reserved {
            tx.mem.write_head(tx.next_cell(), hdr);
            tx.mem.pack_piece(at, len, r, &mut channel.stores);
            tx.commit(place, Kind::Headed, len);
            self.touch(slot);
            return Ok(true);
        }
        reserved.map(|_| false).map_err(|broken| self.broken(core, slot, broken))
    }

    /// Fails the VC of a peer that has violated the protocol of a ring, and returns the error.
    #[cold]
    pub(crate) fn broken(&mut self, core: &mut Core, slot: usize, broken: Broken) -> VcError {
        let peer = self.channels[slot].vc.and_then(|vc| self.vcs.get(vc)).map(|l| l.peer);
        let text =
            format!("protocol violation in shared memory: {}; do both run the same version?", broken.0);
        let error = VcError::new(VcErrorKind::Protocol, peer, text);
        if let Some(vc) = self.channels[slot].vc {
            self.fail(core, vc, error.clone());
        }
        error
    }

    /// The consumer of a slot's ring may have to be told of something: at once if it is seen not to
    /// look, else behind the fence of the next poll. If none comes, the consumer looks a second
    /// time by itself.
    #[inline]
    pub(crate) fn touch(&mut self, slot: usize) {
        let channel = &mut self.channels[slot];
        if !channel.dirty {
            channel.dirty = true;
            self.out.dirty.push(slot);
        }
        if channel.tx.as_ref().is_some_and(Producer::seems_unwatched) {
            self.ring_early(slot);
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn enqueue(&mut self, core: &mut Core, vc: VcId, message: Message) {
        core.count_queued(vc);
        core.note_staged();
        let Some(l) = self.vcs.get_mut(vc) else { return };
        l.ready = false;
        l.queue.push(core, message);
        self.out.queued.add(vc);
    }

    /// Sends what waits, and tells consumers. Returns true if some of what had waited for room went
    /// on.
    #[inline]
    pub(crate) fn push_out(&mut self, core: &mut Core) -> bool {
        let moved = !self.out.queued.is_empty() && self.pump_all(core);
        if !self.out.dirty.is_empty() {
            self.settle();
        }
        moved
    }

    #[inline(never)]
    fn pump_all(&mut self, core: &mut Core) -> bool {
        let mut moved = false;
        for _ in 0..self.out.queued.len() {
            // It comes back if something is left.
            let Some(vc) = self.out.queued.take() else { break };
            let before = self.written(vc);
            self.pump(core, vc);
            moved |= self.written(vc) != before;
        }
        moved
    }

    /// Cells written to a peer, if our stream to it is open.
    fn written(&self, vc: VcId) -> Option<u32> {
        let slot = self.vcs.get(vc)?.slot?;
        self.channels[slot].tx.as_ref().map(Producer::written)
    }

    /// Publishes what is withheld, and rings where nobody looks.
    #[inline(never)]
    pub(crate) fn settle(&mut self) {
        while let Some(slot) = self.out.dirty.pop() {
            let channel = &mut self.channels[slot];
            channel.dirty = false;
            if channel.tx.as_mut().is_some_and(Producer::needs_bell) {
                self.ring_bell(slot);
            }
        }
    }

    /// Opens our stream to the peer unless it is open. Returns false if that is not possible yet,
    /// or never.
    fn open(&mut self, core: &mut Core, vc: VcId) -> bool {
        let Some(l) = self.vcs.get_mut(vc) else { return false };
        if l.down.is_some() {
            return false;
        }
        let (peer, slot) = (l.peer, l.slot);
        let Some(slot) = slot else {
            if !std::mem::replace(&mut l.asked, true) {
                self.pending.push_back(Event::NeedCard { vc });
            }
            return false;
        };
        if self.channels[slot].streams.writing {
            return true;
        }
        let left = self.segment.as_ref().is_ok_and(|s| s.has_left(slot));
        if self.channels[slot].peer.is_gone() || left {
            let text = "the process has ended; was it still wanted?";
            self.fail(core, vc, VcError::new(VcErrorKind::Unreachable, Some(peer), text));
            return false;
        }
        if let Err(why) = self.make_ring(slot) {
            self.fail(core, vc, VcError::new(VcErrorKind::Resource, Some(peer), why.to_string()));
            return false;
        }
        if let Ok(segment) = &self.segment
            && segment.is_surely_away(slot)
        {
            let back = segment.back(slot);
            self.channels[slot].absence.pause.found_away(back);
            self.note_absence(slot);
            return false;
        }
        if let Err(broken) = self.channels[slot].event(Kind::Open) {
            self.broken(core, slot, broken);
            return false;
        }
        self.channels[slot].streams.writing = true;
        if let (Some(tx), Some(v)) = (&self.channels[slot].tx, core.vc_mut(vc)) {
            v.set_room(tx.geometry().room());
        }
        self.touch(slot);
        self.came_up(core, vc);
        true
    }

    /// Makes the ring to a slot, unless it was made.
    pub(crate) fn make_ring(&mut self, slot: usize) -> Result<(), RingError> {
        let channel = &mut self.channels[slot];
        if channel.tx.is_none() {
            let ring = self.segment.as_ref().map_err(NoSegment::ring_error)?.make_ring(slot)?;
            let geometry = ring.geometry();
            channel.tx = Some(Producer::new(ring, geometry));
            self.link_token_line(slot);
        }
        Ok(())
    }

    /// Gives the two ranks a token line as soon as both rings are there.
    pub(crate) fn link_token_line(&mut self, slot: usize) {
        let lower = self.segment.as_ref().is_ok_and(|s| s.me() < slot);
        let channel = &mut self.channels[slot];
        if channel.share_token_line(lower) {
            (channel.token_line, channel.quiet) = (TokenLine::new(lower), ReplyBackoff::new(lower, CLASSES));
        }
    }

    /// Reports a connection, unless it is known.
    pub(crate) fn came_up(&mut self, core: &mut Core, vc: VcId) {
        if let Some(l) = self.vcs.get_mut(vc)
            && !std::mem::replace(&mut l.up, true)
        {
            if let Some(v) = core.vc_mut(vc) {
                v.stats.connects += 1;
            }
            self.pending.push_back(Event::Up { vc });
            if self.clock.next_check == Time::NEVER {
                self.clock.next_check = self.clock.now + CHECK;
            }
        }
    }

    /// Sends as much of a VC's queue as there is room for.
    pub(crate) fn pump(&mut self, core: &mut Core, vc: VcId) {
        loop {
            let Some(l) = self.vcs.get_mut(vc) else { return };
            if let Some(slot) = l.slot {
                if self.holds(slot) {
                    // All of it goes on when both are there.
                    if !self.say_notes(core, slot) {
                        self.out.queued.add(vc);
                    }
                    return;
                }
                match self.channels[slot].settle_owed() {
                    Ok(true) => {}
                    Ok(false) => return self.out.queued.add(vc),
                    Err(broken) => return drop(self.broken(core, slot, broken)),
                }
            }
            let Some(l) = self.vcs.get(vc) else { return };
            if l.queue.is_empty() {
                if l.terminating {
                    return self.terminated(vc);
                }
                let writing =
                    l.slot.is_some_and(|s| self.channels[s].streams.writing && !self.channels[s].owes());
                let open = writing && l.down.is_none() && self.ending == Ending::No;
                if let Some(l) = self.vcs.get_mut(vc) {
                    l.ready = open;
                }
                return;
            }
            if !self.open(core, vc) {
                return;
            }
            let Some((l, slot)) = self.vcs.get_mut(vc).and_then(|l| l.slot.map(|s| (l, s))) else { return };
            let channel = &mut self.channels[slot];
            if channel.owes() {
                return self.out.queued.add(vc);
            }
            let Some(m) = l.queue.front() else { return };
            match vc::write(m, core, channel) {
                Ok(true) => {
                    l.queue.front_sent(core, vc);
                    self.touch(slot);
                }
                Ok(false) => {
                    self.stats.full += 1;
                    self.touch(slot);
                    return self.out.queued.add(vc);
                }
                Err(broken) => return drop(self.broken(core, slot, broken)),
            }
        }
    }
}
