//! Sending: at once if there is room, else through the VC's queue.

use std::collections::VecDeque;

use netmod_core::{Core, Data, Event, HDR_LEN, Header, Message, ReqId, VcError, VcErrorKind, VcId};

use super::fabric::{End, Stream};
use super::{Ending, LoopbackNetmod};

/// Appends to `to` as much of the request's segment as fits into `room`; whether that was all.
fn append_segment(core: &mut Core, req: ReqId, to: &mut VecDeque<u8>, mut room: usize) -> bool {
    let Some(r) = core.req_mut(req) else { return true };
    let mut piece = [0; 4096];
    loop {
        let n = room.min(piece.len());
        let n = r.seg.pack(&mut piece[..n]);
        to.extend(&piece[..n]);
        room -= n;
        if n == 0 || r.seg.is_done() {
            return r.seg.is_done();
        }
    }
}

impl LoopbackNetmod {
    fn check(&self, vc: VcId) -> Result<(), VcError> {
        let text = match self.links.get(vc) {
            None => "the VC is not in the charge of netmod loopback",
            Some(_) if self.ending != Ending::No => "the netmod has been finalized",
            Some(l) => return l.down.clone().map_or(Ok(()), Err),
        };
        Err(VcError::new(VcErrorKind::Aborted, None, text))
    }

    /// Room for a message that nothing precedes; zero if it must wait.
    fn room_at_once(&mut self, core: &mut Core, vc: VcId, need: usize) -> bool {
        if !self.fabric.options.eager || self.links.get(vc).is_none_or(|l| !l.queue.is_empty()) {
            return false;
        }
        if need > self.fabric.capacity() || !self.open(core, vc) {
            return false;
        }
        let Some(to) = self.links.get(vc).map(|l| l.peer.rank) else { return false };
        let mut lane = self.fabric.lane(self.me.rank, to);
        lane.writing().is_some_and(|s| s.bytes.len() + need <= self.fabric.capacity())
    }

    /// Sends a message whole, or nothing of it.
    pub(super) fn send_at_once(
        &mut self,
        core: &mut Core,
        vc: VcId,
        hdr: &Header,
        data: &[u8],
    ) -> Result<bool, VcError> {
        self.check(vc)?;
        core.count_send(vc, data.len());
        if !self.room_at_once(core, vc, HDR_LEN + data.len()) {
            return Ok(false);
        }
        let Some(to) = self.links.get(vc).map(|l| l.peer.rank) else { return Ok(false) };
        if let Some(s) = self.fabric.lane(self.me.rank, to).writing() {
            s.bytes.extend(hdr);
            s.bytes.extend(data);
        }
        Ok(true)
    }

    /// Sends the segment of a request; see [`LoopbackNetmod::send_at_once`].
    pub(super) fn send_segment_at_once(
        &mut self,
        core: &mut Core,
        vc: VcId,
        hdr: &Header,
        req: ReqId,
    ) -> Result<bool, VcError> {
        self.check(vc)?;
        let len = core.req(req).map_or(0, |r| r.seg.remaining());
        core.count_send(vc, len);
        if !self.room_at_once(core, vc, HDR_LEN + len) {
            return Ok(false);
        }
        let Some(to) = self.links.get(vc).map(|l| l.peer.rank) else { return Ok(false) };
        if let Some(s) = self.fabric.lane(self.me.rank, to).writing() {
            s.bytes.extend(hdr);
            append_segment(core, req, &mut s.bytes, len);
        }
        Ok(true)
    }

    pub(super) fn enqueue(&mut self, core: &mut Core, vc: VcId, message: Message) {
        core.count_queued(vc);
        let Some(l) = self.links.get_mut(vc) else { return };
        l.queue.push(core, message);
        if self.fabric.options.eager {
            self.pump(core, vc);
        }
    }

    /// Sees to it that our stream to the peer is open. False if it cannot be yet, or never will.
    fn open(&mut self, core: &mut Core, vc: VcId) -> bool {
        let Some(l) = self.links.get_mut(vc) else { return false };
        if l.down.is_some() {
            return false;
        }
        if l.writing {
            return true;
        }
        let peer = l.peer;
        if self.fabric.is_gone(peer.rank) {
            let why = VcError::new(
                VcErrorKind::Unreachable,
                Some(peer),
                "the process has ended; was it still wanted?",
            );
            self.fail(core, vc, why);
            return false;
        }
        // A peer that is connected to us can be answered without its card.
        if !l.carded && !l.reading {
            if !std::mem::replace(&mut l.asked, true) {
                self.pending.push_back(Event::NeedCard { vc });
            }
            return false;
        }
        let stream = Stream { bytes: VecDeque::with_capacity(self.fabric.capacity()), end: End::Open };
        self.fabric.lane(self.me.rank, peer.rank).streams.push_back(stream);
        l.writing = true;
        self.came_up(core, vc);
        true
    }

    /// Reports a connection, unless it is known.
    pub(super) fn came_up(&mut self, core: &mut Core, vc: VcId) {
        if let Some(l) = self.links.get_mut(vc)
            && !std::mem::replace(&mut l.up, true)
        {
            if let Some(v) = core.vc_mut(vc) {
                v.stats.connects += 1;
            }
            self.pending.push_back(Event::Up { vc });
        }
    }

    /// Sends as much of a VC's queue as there is room for.
    pub(super) fn pump(&mut self, core: &mut Core, vc: VcId) {
        loop {
            let Some(l) = self.links.get(vc) else { return };
            if l.queue.is_empty() {
                if l.terminating {
                    self.terminated(vc);
                }
                return;
            }
            if !self.open(core, vc) {
                return;
            }
            let Some(l) = self.links.get_mut(vc) else { return };
            let Some(m) = l.queue.front() else { continue };
            let (peer, capacity) = (l.peer, self.fabric.capacity());
            let mut lane = self.fabric.lane(self.me.rank, peer.rank);
            let unread = lane.unread;
            let whole = match lane.writing() {
                Some(s) if !unread => {
                    let n = m.head().len().min(capacity - s.bytes.len());
                    s.bytes.extend(&m.head()[..n]);
                    m.head_sent(n);
                    let room = capacity - s.bytes.len();
                    m.head().is_empty()
                        && match &mut m.data {
                            Data::None => true,
                            Data::Contig(buf) => {
                                let n = room.min(buf.len());
                                s.bytes.extend(&buf.bytes()[..n]);
                                buf.advance(n);
                                buf.is_empty()
                            }
                            Data::Segment => append_segment(core, m.req(), &mut s.bytes, room),
                        }
                }
                _ => {
                    drop(lane);
                    let why =
                        VcError::new(VcErrorKind::Lost, Some(peer), "the process has ended; has it failed?");
                    return self.fail(core, vc, why);
                }
            };
            drop(lane);
            if !whole {
                return;
            }
            l.queue.front_sent(core, vc);
        }
    }
}
