//! Receiving: streams are taken up, lent to the engine where they lie, and seen to their end.

use netmod_core::lifecycle::VcState;
use netmod_core::{Core, Event, Events, Refusal, VcError, VcErrorKind, VcId};

use crate::channel::{AWAITED_PIECE, Incoming, Offer, Peer};
use crate::netmod::{NoSegment, ShmNetmod};
use crate::ring::{Broken, Cell, Consumer, Kind, TOKEN_LINE};
use crate::segment::raw::RawRing;
use crate::watched::PATIENCE;

/// Checks per poll of the only watched ring, if something came there in the last two.
const LOOKS: u32 = 16;
/// Most bytes of a message's data that are fetched before its header is looked at.
const FETCHED: usize = 1 << 10;
/// Longest payload that came whole with the token line whose lines are taken before they are read,
/// because the reply will be written there.
const FETCHED_PAYLOAD: usize = 16 << 10;

impl ShmNetmod {
    /// Looks at the watched rings, after those of peers that have rung.
    #[inline]
    pub(crate) fn receive(&mut self, core: &mut Core, events: &mut Events) {
        self.answer_bells(core);
        match self.watch.active[..] {
            [] => {}
            [only] => {
                let channel = &mut self.channels[only];
                if channel.quiet.wait()
                    && let Some(rx) = &channel.rx
                {
                    rx.mem.fetch_token_line();
                }
                let looks = if channel.idle <= 1 { LOOKS } else { 1 };
                self.look(core, only, looks, events);
            }
            _ => self.look_at_all(core, events),
        }
    }

    #[inline(never)]
    fn look_at_all(&mut self, core: &mut Core, events: &mut Events) {
        let n = self.watch.active.len();
        for i in 0..n {
            // Another one first each time; the list may shrink meanwhile.
            if let Some(slot) = self.watch.active.get((i + self.clock.epoch as usize) % n).copied() {
                self.look(core, slot, 1, events);
            }
        }
    }

    /// Checks a watched ring; stops watching it if it has been empty for long.
    #[inline(always)]
    fn look(&mut self, core: &mut Core, slot: usize, looks: u32, events: &mut Events) {
        let before = events.len();
        self.receive_channel(core, slot, looks, events);
        let channel = &mut self.channels[slot];
        if events.len() > before {
            channel.idle = 0;
        } else {
            channel.idle += 1;
            if channel.idle > PATIENCE {
                self.forget(slot);
            }
        }
    }

    /// Checks the ring up to `looks` times before it is taken for empty. That is cheaper than
    /// returning and polling again, and sees a reply as soon as it arrives.
    #[inline(always)]
    fn receive_channel(&mut self, core: &mut Core, slot: usize, mut looks: u32, events: &mut Events) {
        let mut quota = u32::MAX;
        let (mut wanted, before) = (core.wanted(), events.len());
        loop {
            let channel = &mut self.channels[slot];
            let Some(rx) = &mut channel.rx else { return self.lost_without_a_ring(core, slot, events) };
            let cell = match rx.peek(&channel.token_line) {
                Ok(Some(cell)) => cell,
                Ok(None) => {
                    looks -= 1;
                    if looks > 0 {
                        std::hint::spin_loop();
                        continue;
                    }
                    if self.receive_open(core, slot, events) {
                        return;
                    }
                    if self.channels[slot].peer.is_gone() {
                        self.emptied(core, slot, events);
                    }
                    return;
                }
                Err(broken) => return self.protocol_violated(core, slot, broken),
            };
            if events.room() == 0 {
                return;
            }
            looks = 1;
            match (cell.kind, channel.vc) {
                (Kind::Inline, Some(vc)) if channel.streams.is_reading() => {
                    events.push_rx(vc, rx.mem.lend_inline(cell.number, cell.len as usize, slot as u64));
                    rx.advance(cell, &mut channel.token_line);
                    channel.lent += 1;
                    wanted = wanted.saturating_sub(1);
                    if rx.is_alternating() || wanted == 0 {
                        // Somebody waits for it, and hardly anything is behind it, or nothing that
                        // is wanted.
                        return;
                    }
                }
                (Kind::Headed | Kind::Bulk, Some(vc)) if channel.streams.is_reading() => {
                    let len = cell.len as usize;
                    if cell.kind == Kind::Headed && wanted == 0 && events.len() > before {
                        // All cells of what is wanted are behind us, perhaps since the last poll.
                        return;
                    }
                    if len == 0 && cell.kind == Kind::Bulk {
                        // All of it was taken while the piece was open.
                        rx.advance(cell, &mut channel.token_line);
                        continue;
                    }
                    let content = if cell.number == TOKEN_LINE {
                        if cell.at == 0 && cell.missing == 0 && len <= FETCHED_PAYLOAD {
                            rx.mem.fetch_payload(len);
                        }
                        rx.mem.lend_payload(cell.at, len, slot as u64)
                    } else {
                        rx.mem.prefetch_bulk(cell.at, len.min(FETCHED));
                        rx.mem.lend_bulk(cell.at, len, slot as u64)
                    };
                    if cell.kind == Kind::Headed {
                        events.push_rx(vc, rx.mem.lend_head(cell.number, slot as u64));
                        channel.lent += 1;
                        wanted = wanted.saturating_sub(1);
                    }
                    events.push_rx(vc, content);
                    rx.advance(cell, &mut channel.token_line);
                    channel.lent += 1;
                    let is_last = wanted == 0 && len < AWAITED_PIECE.min(rx.geometry().piece as usize);
                    if (rx.is_alternating() || is_last) && cell.missing == 0 {
                        return;
                    }
                    if quota == u32::MAX {
                        quota = rx.mem.geometry().window / 4;
                    }
                    quota = quota.saturating_sub(cell.len);
                    if quota == 0 {
                        return;
                    }
                }
                _ => {
                    if !self.step(core, slot, cell, events) {
                        return;
                    }
                    self.report_pending(events);
                }
            }
        }
    }

    /// Lends what is written of the piece that the producer is still filling. Returns true if there
    /// was something, or a protocol violation.
    #[inline]
    fn receive_open(&mut self, core: &mut Core, slot: usize, events: &mut Events) -> bool {
        let channel = &mut self.channels[slot];
        let (Some(rx), Some(vc), true) = (&mut channel.rx, channel.vc, channel.streams.is_reading()) else {
            return false;
        };
        match rx.peek_open() {
            Ok(None) => return false,
            Ok(Some(_)) if events.room() == 0 => {}
            Ok(Some(part)) => {
                events.push_rx(vc, rx.mem.lend_bulk(part.at, part.len as usize, slot as u64));
                rx.take_open(part);
                channel.lent += 1;
            }
            Err(broken) => self.protocol_violated(core, slot, broken),
        }
        true
    }

    /// Fails the VC after a protocol violation; nothing of the peer's ring is read any more.
    #[cold]
    fn protocol_violated(&mut self, core: &mut Core, slot: usize, broken: Broken) {
        self.broken(core, slot, broken);
        self.abandon(slot);
    }

    /// Reports events that arose outside the data path.
    #[inline(never)]
    pub(crate) fn report_pending(&mut self, events: &mut Events) {
        while let Some(ev) = self.pending.pop_front() {
            events.push(ev);
        }
    }

    /// Handles a cell that carries no bytes of a VC's stream. Returns false if it must wait.
    #[inline(never)]
    fn step(&mut self, core: &mut Core, slot: usize, cell: Cell, events: &mut Events) -> bool {
        let vc = self.channels[slot].vc;
        // The engine may still have to handle bytes of the stream before.
        let busy = vc.is_some_and(|vc| events.concern(vc));
        match cell.kind {
            Kind::Inline | Kind::Headed | Kind::Bulk => {
                if self.channels[slot].streams.incoming == Incoming::Refused {
                    self.refuse(slot, Refusal::NotWanted);
                }
            }
            Kind::Open => {
                let Some(vc) = vc else { return self.unauthenticated(slot, cell, events) };
                let Some(l) = self.vcs.get(vc) else { return false };
                if l.down.is_some() {
                    self.channels[slot].streams.incoming = Incoming::Refused;
                } else if l.terminating || busy {
                    // A new stream is taken up when all of the one before it is over.
                    return false;
                } else if self.channels[slot].streams.is_reading() {
                    let broken = crate::ring::Broken("a stream begins within another");
                    self.broken(core, slot, broken);
                } else {
                    self.channels[slot].streams.incoming = Incoming::Open;
                    core.reset_receive(vc);
                    self.consume(slot, cell);
                    self.came_up(core, vc);
                    return true;
                }
            }
            Kind::Suspend | Kind::Suspended => {
                self.consume(slot, cell);
                self.heard(core, slot, cell);
                return true;
            }
            Kind::Fin | Kind::Reset | Kind::Elsewhere => {
                if busy {
                    return false;
                }
                let ours = std::mem::take(&mut self.channels[slot].streams.incoming) == Incoming::Open;
                self.consume(slot, cell);
                match vc {
                    Some(vc) if ours && cell.kind == Kind::Fin => self.peer_left(core, vc, slot),
                    Some(vc) if ours && cell.kind == Kind::Elsewhere => {
                        let peer = self.vcs.get(vc).map(|l| l.peer);
                        let text = "it has its end of the connection with another netmod; have all ranks the same NETMOD?";
                        self.fail(core, vc, VcError::new(VcErrorKind::Mismatch, peer, text));
                    }
                    Some(vc) if ours => {
                        self.lost(core, vc, "the peer has given up the connection; has it failed?")
                    }
                    _ => {}
                }
                return true;
            }
        }
        self.consume(slot, cell);
        true
    }

    fn consume(&mut self, slot: usize, cell: Cell) {
        let channel = &mut self.channels[slot];
        let Some(rx) = &mut channel.rx else { return };
        rx.advance(cell, &mut channel.token_line);
        if channel.lent == 0 && rx.is_due() {
            self.give_back(slot);
        }
    }

    /// Handles a new stream of a peer without a VC. Returns false if the stream waits for one.
    fn unauthenticated(&mut self, slot: usize, cell: Cell, events: &mut Events) -> bool {
        let offer = &mut self.channels[slot].streams.offer;
        let mut why = Refusal::NotWanted;
        if let Offer::Refused(refusal) = *offer {
            *offer = Offer::None;
            why = refusal;
        } else {
            match self.proven(slot) {
                Some(peer) => {
                    // A VC that was made without a card.
                    if let Some(vc) = self.by_peer.get(&peer).copied()
                        && self.bind(vc, slot).is_ok()
                    {
                        return true;
                    }
                    let before = std::mem::replace(&mut self.channels[slot].streams.offer, Offer::Reported);
                    if before != Offer::Reported {
                        events.push(Event::NewPeer { peer, netmod: 0 });
                    }
                    return false;
                }
                None => {
                    self.stats.unauthenticated += 1;
                    tracing::warn!(slot, "a process in the node's memory cannot prove to be of this job");
                }
            }
        }
        self.refuse(slot, why);
        self.consume(slot, cell);
        true
    }

    /// Refuses the peer's stream, and tells it so.
    fn refuse(&mut self, slot: usize, why: Refusal) {
        self.channels[slot].streams.incoming = Incoming::Discarded;
        let end = match why {
            Refusal::NotWanted => Kind::Reset,
            Refusal::OtherNetmod => Kind::Elsewhere,
        };
        self.tell_end(slot, end);
    }

    /// Tells a peer by a stream without bytes that it is not served, unless a stream of ours is
    /// open, whose end tells it.
    pub(crate) fn tell_end(&mut self, slot: usize, end: Kind) {
        if self.channels[slot].streams.writing || self.make_ring(slot).is_err() {
            return;
        }
        let channel = &mut self.channels[slot];
        // A peer that has broken its ring learns nothing.
        let _ = channel.event(Kind::Open).and_then(|()| channel.event(end));
        self.touch(slot);
    }

    /// Gives cells back, and tells a producer that waits for them.
    #[inline(never)]
    pub(crate) fn give_back(&mut self, slot: usize) {
        if self.channels[slot].rx.as_mut().is_some_and(Consumer::give_back) {
            self.ring_bell(slot);
        }
    }

    /// Fails the VC of a dead peer whose ring is empty: its stream has no end.
    #[cold]
    fn emptied(&mut self, core: &mut Core, slot: usize, events: &mut Events) {
        let channel = &self.channels[slot];
        let Some(vc) = channel.vc.filter(|_| !channel.is_quiet()) else { return };
        if !events.concern(vc) {
            self.lost(core, vc, "the process has ended; has it failed?");
        }
    }

    #[cold]
    fn lost_without_a_ring(&mut self, core: &mut Core, slot: usize, events: &mut Events) {
        if self.channels[slot].peer.is_gone() {
            self.emptied(core, slot, events);
        }
    }

    fn lost(&mut self, core: &mut Core, vc: VcId, text: &str) {
        let peer = self.vcs.get(vc).map(|l| l.peer);
        self.fail(core, vc, VcError::new(VcErrorKind::Lost, peer, text));
    }

    /// Handles the end of the peer's stream. Our own ends with it, unless it is ending already:
    /// queued messages go by a new one.
    fn peer_left(&mut self, core: &mut Core, vc: VcId, slot: usize) {
        let Some(l) = self.vcs.get_mut(vc) else { return };
        let open = core.vc(vc).is_some_and(|v| {
            v.state.can_receive() || v.state.needs_close() || v.state == VcState::CloseAcked
        });
        if open {
            let text = "it has left without closing its connection with this process by agreement; did it finalize \
                        early, or run into its NETMOD_CLOSE_TIMEOUT?";
            let error = VcError::new(VcErrorKind::Closed, Some(l.peer), text);
            return self.fail(core, vc, error);
        }
        if l.terminating || !self.channels[slot].streams.writing {
            return;
        }
        if l.queue.is_within() {
            let text = "it ended the connection in the middle of a message";
            let error = VcError::new(VcErrorKind::Closed, Some(l.peer), text);
            return self.fail(core, vc, error);
        }
        l.ready = false;
        l.up = false;
        self.end_stream(slot, Kind::Fin);
        self.pump(core, vc);
    }

    /// Finds the ring of a peer.
    pub(crate) fn find_ring(&mut self, core: &mut Core, slot: usize) {
        if self.channels[slot].rx.is_some() || self.channels[slot].peer == Peer::Condemned {
            return;
        }
        let found = self.segment.as_ref().map_err(NoSegment::ring_error).and_then(|s| s.find_ring(slot));
        match found {
            Ok(Some(ring)) => {
                let geometry = ring.geometry();
                self.channels[slot].rx = Some(Consumer::<RawRing>::new(ring, geometry));
                self.link_token_line(slot);
            }
            Ok(None) => {}
            Err(why) => {
                tracing::warn!(slot, %why, "a peer's ring is not used");
                let broken = crate::ring::Broken("a ring does not lie in the pool");
                self.broken(core, slot, broken);
            }
        }
    }
}
