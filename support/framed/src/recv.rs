//! Receiving: frames are matched with their connections, and lent to the engine in place.

use std::collections::VecDeque;

use netmod_core::{Core, Events, VcError, VcErrorKind, VcId};

use crate::device::{Device, Done, Port, Words};
use crate::link::Wrong;
use crate::netmod::FrameNetmod;
use crate::token::token;
use crate::wire::{FRAME_HEADER, FrameHeader, Kind, Slot};

impl<D: Device> FrameNetmod<D> {
    /// Handles completions as far as the batch of events has room.
    #[inline]
    pub(crate) fn receive(&mut self, core: &mut Core, events: &mut Events) {
        if !self.work.backlog.is_empty() && !self.work_off(core, events) {
            return;
        }
        for port in 0..self.ports.len() {
            let room = events.room();
            if room == 0 {
                return;
            }
            for i in 0..self.ports[port].poll(room) {
                // Frames are the most frequent completions: they take the shortest path, and are
                // read in place.
                match self.ports[port].completion(i) {
                    Some(Done::Frame { buffer, at, len })
                        if !self.work.backlog.is_empty()
                            || !self.frame(core, port, buffer, at, len, events) =>
                    {
                        self.keep(port, Done::Frame { buffer, at, len });
                    }
                    Some(Done::Frame { .. }) | None => {}
                    Some(other) => self.take(core, port, other, events),
                }
            }
            while let Some(done) = self.ports[port].next_other() {
                self.take(core, port, done, events);
            }
            if !self.work.backlog.is_empty() {
                return;
            }
        }
    }

    /// Keeps a completion for later, behind those kept before.
    #[cold]
    #[inline(never)]
    fn keep(&mut self, port: usize, done: Done) {
        self.work.backlog.push_back((port, done));
    }

    /// Handles a completion, unless it must wait behind earlier ones, or for the engine.
    #[inline]
    fn take(&mut self, core: &mut Core, port: usize, done: Done, events: &mut Events) {
        if !self.work.backlog.is_empty() {
            self.keep(port, done);
        } else if let Err(done) = self.handle(core, port, done, events) {
            self.keep(port, done);
        }
    }

    /// Lets a port make progress, and handles only the ends of transfers among its completions. The
    /// rest is kept.
    pub(crate) fn progress_transfers(&mut self, port: usize) {
        let Some(p) = self.ports.get_mut(port) else { return };
        for i in 0..p.poll(usize::MAX) {
            self.work.backlog.extend(p.completion(i).map(|done| (port, done)));
        }
        while let Some(done) = p.next_other() {
            self.work.backlog.push_back((port, done));
        }
        let (ended, kept) = std::mem::take(&mut self.work.backlog)
            .into_iter()
            .partition(|(_, done)| matches!(done, Done::Transfer { .. } | Done::TransferFailed { .. }));
        self.work.backlog = kept;
        let ended: VecDeque<(usize, Done)> = ended;
        for (_, done) in ended {
            match done {
                Done::Transfer { number } => self.transfer_ended(number, None),
                Done::TransferFailed { number, why } => self.transfer_ended(number, Some(&why)),
                _ => {}
            }
        }
    }

    /// Handles the backlog in order. False if the rest must wait for the engine.
    #[inline(never)]
    fn work_off(&mut self, core: &mut Core, events: &mut Events) -> bool {
        while let Some((port, done)) = self.work.backlog.pop_front() {
            if let Err(done) = self.handle(core, port, done, events) {
                self.work.backlog.push_front((port, done));
                return false;
            }
        }
        true
    }

    /// Handles a completion; returns it if it must wait for the engine.
    #[inline]
    fn handle(&mut self, core: &mut Core, port: usize, done: Done, events: &mut Events) -> Result<(), Done> {
        match done {
            Done::Frame { buffer, at, len } => {
                if !self.later_frame(core, port, (buffer, at, len), events) {
                    return Err(done);
                }
            }
            Done::Sent { vc } => self.sent(core, vc, events),
            Done::SendFailed { vc, why } => {
                self.sent(core, vc, events);
                self.send_failed(core, vc, &why);
            }
            Done::Lost { vc, why } => self.send_failed(core, vc, &why),
            Done::Transfer { number } => {
                events.note_progress();
                self.transfer_ended(number, None);
            }
            Done::TransferFailed { number, why } => {
                events.note_progress();
                self.transfer_ended(number, Some(&why));
            }
            Done::ResetFailed { vc, reset } => {
                self.sent(core, vc, events);
                self.retry_reset(vc, port, &reset);
            }
            Done::MaybeLost { transfers } => self.suspect(port, transfers),
        }
        Ok(())
    }

    /// Handles a frame of the VC that has left its buffer.
    #[inline]
    fn sent(&mut self, core: &mut Core, vc: VcId, events: &mut Events) {
        let Some(l) = self.links.get_mut(vc) else { return };
        l.traffic.in_flight = l.traffic.in_flight.saturating_sub(1);
        if !l.ready {
            events.note_progress();
            self.pump(core, vc);
        }
    }

    #[cold]
    fn send_failed(&mut self, core: &mut Core, vc: VcId, why: &str) {
        let Some(l) = self.links.get(vc) else { return };
        if l.down.is_some() {
            return;
        }
        // The frame may have been FIN_ACK, whose count shows the peer that frames are missing.
        if l.open.is_some() || l.life.unread {
            self.broken(core, vc, why);
        } else {
            self.manage(core, |m, env| m.dial_failed(vc, why, env));
        }
    }

    /// Handles the rarer frames; see [`FrameNetmod::frame`].
    #[inline(never)]
    fn later_frame(
        &mut self,
        core: &mut Core,
        port: usize,
        (buffer, at, len): (u32, u32, u32),
        events: &mut Events,
    ) -> bool {
        events.room() > 0 && self.frame(core, port, buffer, at, len, events)
    }

    /// Handles a frame, for which the batch has room. Returns false if it must wait until the
    /// engine has handled the batch.
    #[inline(always)]
    fn frame(
        &mut self,
        core: &mut Core,
        port: usize,
        buffer: u32,
        at: u32,
        len: u32,
        events: &mut Events,
    ) -> bool {
        let p = &mut self.ports[port];
        let bytes = p.frame(buffer, at, len);
        let header = bytes.first::<FRAME_HEADER>().and_then(|b| FrameHeader::parse(&b));
        let Some(header) = header else {
            self.stats.astray += 1;
            p.release(buffer);
            return true;
        };
        if header.kind != Kind::Data {
            return self.other_frame(core, port, (buffer, at, len), header, events);
        }
        let now = self.clock.now;
        let open = self.connections.manager.lookup(header.slot).and_then(|vc| {
            let l = self.links.get_mut(vc)?;
            l.life.heard = now;
            Some((vc, l.open.as_mut()?, !l.ready))
        });
        let Some((vc, open, waits)) = open else {
            p.release(buffer);
            self.stray(core, header.slot);
            return true;
        };
        let right = open
            .on_data(header.seq, len as usize, self.window)
            .and_then(|()| open.on_returned(header.returned));
        let made_room = match right {
            Ok(made_room) => made_room,
            Err(wrong) => {
                p.release(buffer);
                self.wrong(core, vc, wrong);
                return true;
            }
        };
        let body = len - FRAME_HEADER as u32;
        if body > 0 {
            events.push_rx(vc, p.lend(buffer, at + FRAME_HEADER as u32, body, token(port, buffer)));
        } else {
            p.release(buffer);
        }
        if open.owes_credit(self.window) {
            self.send_credit(core, vc);
        }
        if made_room && waits {
            self.pump(core, vc);
        }
        true
    }

    /// Handles a frame of no open connection.
    #[cold]
    fn stray(&mut self, core: &mut Core, slot: Slot) {
        self.stats.astray += 1;
        self.manage(core, |m, env| m.on_stray(slot, env));
    }

    /// Fails a VC whose peer breaks the protocol, or whose network has lost frames.
    #[cold]
    fn wrong(&mut self, core: &mut Core, vc: VcId, wrong: Wrong) {
        let peer = self.links.get(vc).map(|l| l.peer);
        let (kind, text) = match wrong {
            Wrong::Gap => {
                let Words { what, lost, .. } = D::WORDS;
                (VcErrorKind::Lost, format!("{what} has lost frames: its connection with the process broke; {lost}"))
            }
            Wrong::Returned => (
                VcErrorKind::Protocol,
                "protocol violation: it has given back more of this side's window than it has got; do both run the same version?".into(),
            ),
            Wrong::Window => (
                VcErrorKind::Protocol,
                "protocol violation: it has sent more than its window allows; do both run the same version?".into(),
            ),
        };
        self.fail(core, vc, VcError::new(kind, peer, text));
    }

    /// Handles a frame that is no part of a VC's stream. Returns false if it must wait.
    #[inline(never)]
    fn other_frame(
        &mut self,
        core: &mut Core,
        port: usize,
        (buffer, at, len): (u32, u32, u32),
        header: FrameHeader,
        events: &mut Events,
    ) -> bool {
        // A control frame takes effect behind the data before it.
        if header.kind != Kind::Credit && !events.is_empty() {
            return false;
        }
        events.note_progress();
        let mut body = Vec::new();
        if matches!(header.kind, Kind::Dial | Kind::Answer | Kind::Credit) {
            self.ports[port].frame(buffer, at, len).skip(FRAME_HEADER).append_to(&mut body);
        }
        self.ports[port].release(buffer);
        if matches!(header.kind, Kind::Dial | Kind::Answer) {
            let port = u8::try_from(port).unwrap_or(u8::MAX);
            self.manage(core, |m, env| m.on_shake(header.kind, header.slot, port, &body, env));
            self.report_pending(events);
            return true;
        }
        let Some(vc) = self.connections.manager.lookup(header.slot) else {
            self.stray(core, header.slot);
            if header.ask {
                self.disown(core, port, &body);
            }
            return true;
        };
        if let Some(l) = self.links.get_mut(vc)
            && let Some(open) = &mut l.open
        {
            l.life.heard = self.clock.now;
            open.asked |= header.ask;
            let counts = matches!(header.kind, Kind::Credit | Kind::Fin | Kind::FinAck);
            let right = if counts { open.on_count(header.seq) } else { Ok(()) };
            match right.and_then(|()| open.on_returned(header.returned)) {
                Ok(made_room) => {
                    if made_room || header.ask {
                        self.pump(core, vc);
                    }
                }
                Err(wrong) => {
                    self.wrong(core, vc, wrong);
                    return true;
                }
            }
        }
        match header.kind {
            Kind::Fin => {
                // Frames that are filled already go before the answer.
                if self.links.get(vc).is_some_and(|l| l.stalled.is_some()) {
                    self.pump(core, vc);
                }
                self.manage(core, |m, env| m.on_fin(vc, env));
            }
            Kind::FinAck => self.manage(core, |m, env| m.on_fin_ack(vc, env)),
            Kind::Reset => self.manage(core, |m, env| m.on_reset(vc, env)),
            Kind::Data | Kind::Credit | Kind::Dial | Kind::Answer => {}
        }
        self.report_pending(events);
        true
    }

    /// Reports events that carry no data.
    #[inline(never)]
    pub(crate) fn report_pending(&mut self, events: &mut Events) {
        while let Some(ev) = self.work.events.pop_front() {
            events.push(ev);
        }
    }
}
