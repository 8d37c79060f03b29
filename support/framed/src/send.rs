//! Sending: at once if possible, else through the VC's queue.

use netmod_core::{Core, Event, Header, Message, Time, VcError, VcErrorKind, VcId};

use crate::device::{Device, Port, Refused, Route};
use crate::link::{FrameVc, OVERHEAD, Stalled, copy_message};
use crate::netmod::{FrameNetmod, FrameStats};
use crate::probes::CREDIT_MAX;
use crate::shutdown::Ending;
use crate::wire::{FRAME_HEADER, put_header};

impl<D: Device> FrameNetmod<D> {
    #[cold]
    #[inline(never)]
    pub(crate) fn check(&self, vc: VcId) -> Result<(), VcError> {
        let text = match self.links.get(vc) {
            None => format!("the VC is not in the charge of netmod {}", D::NAME),
            Some(_) if self.shutdown.ending != Ending::No => "the netmod has been finalized".into(),
            Some(l) => return l.down.clone().map_or(Ok(()), Err),
        };
        Err(VcError::new(VcErrorKind::Aborted, None, text))
    }

    /// Sends a message of one frame at once if nothing waits before it and the device takes it.
    /// Behind another message since the last poll it is staged. Returns false if it must be queued.
    #[inline(always)]
    pub(crate) fn send(
        &mut self,
        core: &mut Core,
        vc: VcId,
        hdr: &Header,
        data: &[u8],
    ) -> Result<bool, VcError> {
        let Some(l) = self.links.get_mut(vc).filter(|l| l.ready) else {
            self.check(vc)?;
            core.count_send(vc, data.len());
            return Ok(false);
        };
        if l.traffic.sent_in == self.clock.polls {
            return self.send_more(core, vc, hdr, data);
        }
        l.traffic.sent_in = self.clock.polls;
        let sent = Self::send_alone(l, &mut self.ports, &mut self.stats, vc, hdr, data);
        self.counted(core, vc, data.len(), sent)
    }

    /// Counts a message given to the device. Returns true if the device took it.
    #[inline]
    pub(crate) fn counted(
        &mut self,
        core: &mut Core,
        vc: VcId,
        len: usize,
        sent: Result<(), Refused<<D::Port as Port>::Error>>,
    ) -> Result<bool, VcError> {
        core.count_send(vc, len);
        match sent {
            Ok(()) => Ok(true),
            Err(Refused::Again) => Ok(false),
            Err(Refused::Failed(why)) => Err(self.broken(core, vc, &why.to_string())),
        }
    }

    /// Sends a message in a frame of its own.
    #[inline(always)]
    pub(crate) fn send_alone(
        l: &mut FrameVc,
        ports: &mut [D::Port],
        stats: &mut FrameStats,
        vc: VcId,
        hdr: &Header,
        data: &[u8],
    ) -> Result<(), Refused<<D::Port as Port>::Error>> {
        let Some(open) = &mut l.open else { return Err(Refused::Again) };
        let port = &mut ports[open.dest.port];
        let len = OVERHEAD + data.len();
        if len > open.room() || l.traffic.in_flight >= port.share() {
            return Err(Refused::Again);
        }
        let Some(buffer) = port.take_buffer() else { return Err(Refused::Again) };
        let frame = port.buffer(buffer);
        frame[..FRAME_HEADER].copy_from_slice(&open.header().to_bytes());
        put_header(hdr, &mut frame[FRAME_HEADER..OVERHEAD]);
        frame[OVERHEAD..len].copy_from_slice(data);
        let injected = match give(port, buffer, len, open.dest.addr, vc) {
            Ok(injected) => injected,
            Err(refused) => {
                port.give_back(buffer);
                return Err(refused);
            }
        };
        open.data_sent(len);
        l.traffic.in_flight += u32::from(!injected);
        *(if injected { &mut stats.injected } else { &mut stats.sent }) += 1;
        Ok(())
    }

    /// Fails a VC because the device cannot send to its peer.
    #[cold]
    pub(crate) fn broken(&mut self, core: &mut Core, vc: VcId, why: &str) -> VcError {
        let peer = self.links.get(vc).map(|l| l.peer);
        let text = D::WORDS.says(why);
        let error = VcError::new(VcErrorKind::Lost, peer, text);
        self.fail(core, vc, error.clone());
        error
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn enqueue(&mut self, core: &mut Core, vc: VcId, message: Message) {
        core.count_queued(vc);
        let Some(l) = self.links.get_mut(vc) else { return };
        l.ready = false;
        l.queue.push(core, message);
        self.pump(core, vc);
    }

    /// Sends frames that wait for the device.
    #[inline]
    pub(crate) fn push_out(&mut self, core: &mut Core) {
        self.push_staged(core);
        if self.outbox.is_waiting() {
            self.push_outbox(core);
        }
        if !self.work.wanting.is_empty() {
            self.pump_all(core);
        }
        if self.transfers.has_waiting() {
            self.start_waiting();
        }
    }

    /// Offers the device again what it has refused, without a poll. Frames that wait for a
    /// completion still wait.
    #[cold]
    #[inline(never)]
    pub(crate) fn try_again(&mut self, core: &mut Core) {
        self.ports.iter_mut().for_each(Port::progress);
        if self.outbox.is_waiting() {
            self.push_outbox(core);
        }
        self.pump_all(core);
        if !self.work.wanting.is_empty() || self.outbox.is_waiting() {
            core.note_staged();
        }
    }

    #[inline(never)]
    fn pump_all(&mut self, core: &mut Core) {
        for _ in 0..self.work.wanting.len() {
            // `pump` adds it again if something is left.
            if let Some(vc) = self.work.wanting.take() {
                self.pump(core, vc);
            }
        }
    }

    /// Notes that the device refused a frame of the VC: a later poll tries again.
    fn refused(&mut self, core: &mut Core, vc: VcId) {
        self.stats.refused += 1;
        core.note_staged();
        let now = self.clock.now;
        if let Some(open) = self.links.get_mut(vc).and_then(|l| l.open.as_mut()) {
            open.refused_since = open.refused_since.min(now);
        }
        self.work.wanting.add(vc);
    }

    /// Makes a connection, or waits for one that is under way.
    pub(crate) fn dial(&mut self, core: &mut Core, vc: VcId) {
        let Some(l) = self.links.get_mut(vc) else { return };
        if l.down.is_some() || l.open.is_some() {
            return;
        }
        let Some(Route { port, peer_port, context, address, .. }) = l.route.clone() else {
            if !std::mem::replace(&mut l.asked, true) {
                self.work.events.push_back(Event::NeedCard { vc });
            }
            return;
        };
        if l.dial.is_none() {
            let peer = l.peer;
            match self.addresses.book.insert(&mut self.ports, usize::from(port), context, &address) {
                Ok(dest) => {
                    if let Some(l) = self.links.get_mut(vc) {
                        l.dial = Some(dest);
                    }
                }
                Err(why) => {
                    let text = format!("its address is of no use: {why}");
                    return self.fail(core, vc, VcError::new(VcErrorKind::Unreachable, Some(peer), text));
                }
            }
        }
        let Ok(own) = &self.own else { return };
        let Some(mut terms) = own.terms(port, peer_port) else { return };
        let Some(l) = self.links.get_mut(vc) else { return };
        if let Err(why) =
            l.endpoints.offer(vc, &mut self.ports, &mut self.addresses.leaving, &address, &mut terms)
        {
            let text = format!("no end for a connection with it: {} says: {why}", D::WORDS.what);
            let error = VcError::new(VcErrorKind::Resource, Some(l.peer), text);
            return self.fail(core, vc, error);
        }
        self.manage(core, |m, env| m.connect(vc, terms, env));
    }

    /// Sends as much of a VC's queue as there is room for.
    pub(crate) fn pump(&mut self, core: &mut Core, vc: VcId) {
        loop {
            let Some(l) = self.links.get_mut(vc) else { return };
            // It is set again when nothing waits any more.
            l.ready = false;
            if l.down.is_some() {
                return;
            }
            let Some(open) = l.open else {
                if !l.queue.is_empty() {
                    return self.dial(core, vc);
                }
                if l.terminating {
                    self.manage(core, |m, env| m.terminate(vc, env));
                }
                return;
            };
            // Frames of the manager go first.
            if self.outbox.is_waiting() && self.outbox.is_behind(open.dest) {
                return self.work.wanting.add(vc);
            }
            if open.owes_credit(self.window) {
                self.send_credit(core, vc);
            }
            // Sending the credit may have shown that the connection is broken.
            let Some(l) = self.links.get_mut(vc).filter(|l| l.open.is_some()) else { return };
            if let Some(stalled) = l.stalled.take() {
                if !self.send_stalled(core, vc, stalled) {
                    return;
                }
                continue;
            }
            if l.queue.is_empty() {
                if l.terminating {
                    if l.traffic.in_flight == 0 {
                        self.manage(core, |m, env| m.terminate(vc, env));
                    }
                    return;
                }
                let owes = l.open.is_some_and(|o| o.owes_credit(self.window));
                l.ready = self.shutdown.ending == Ending::No && !owes;
                if let Some(open) = &mut l.open {
                    open.refused_since = Time::NEVER;
                }
                return;
            }
            if l.terminating && !self.connections.manager.is_up(vc) {
                // Nothing goes behind FIN: the next connection carries it.
                return;
            }
            let room = open.room();
            if room < open.frame {
                // A frame is at most a quarter of the window, so the peer must yet return room.
                self.stats.full += 1;
                return;
            }
            if l.traffic.in_flight >= self.ports[open.dest.port].share() {
                // The completion of one of them calls this again.
                return;
            }
            let Some(buffer) = self.ports[open.dest.port].take_buffer() else {
                return self.refused(core, vc);
            };
            let len = self.fill(core, vc, buffer, room);
            if len == FRAME_HEADER {
                // The last segment of the message was empty.
                self.give_buffer_back(vc, buffer);
                continue;
            }
            let stalled = Stalled { buffer, len };
            if !self.send_stalled(core, vc, stalled) {
                return;
            }
        }
    }

    #[cold]
    fn give_buffer_back(&mut self, vc: VcId, buffer: u32) {
        if let Some(open) = self.links.get(vc).and_then(|l| l.open) {
            self.ports[open.dest.port].give_back(buffer);
        }
    }

    /// Fills a frame with queued messages; returns its length.
    fn fill(&mut self, core: &mut Core, vc: VcId, buffer: u32, room: usize) -> usize {
        let Some(l) = self.links.get_mut(vc) else { return 0 };
        let Some(open) = l.open else { return 0 };
        let frame = self.ports[open.dest.port].buffer(buffer);
        let room = room.min(frame.len());
        let mut len = FRAME_HEADER;
        while let Some(m) = l.queue.front() {
            let (n, end) = copy_message(m, core, &mut frame[len..room]);
            len += n;
            if !end {
                break;
            }
            l.queue.front_sent(core, vc);
        }
        len
    }

    /// Sends a filled frame, or keeps it for the next attempt. Returns false if nothing more goes
    /// now.
    fn send_stalled(&mut self, core: &mut Core, vc: VcId, f: Stalled) -> bool {
        let Some(l) = self.links.get_mut(vc) else { return false };
        let Some(open) = &mut l.open else { return false };
        let port = &mut self.ports[open.dest.port];
        // The count of returned units may have grown since the frame was filled.
        let frame = port.buffer(f.buffer);
        frame[..FRAME_HEADER].copy_from_slice(&open.header().to_bytes());
        match give(port, f.buffer, f.len, open.dest.addr, vc) {
            Ok(injected) => {
                open.data_sent(f.len);
                l.traffic.in_flight += u32::from(!injected);
                open.refused_since = Time::NEVER;
                *(if injected { &mut self.stats.injected } else { &mut self.stats.sent }) += 1;
                true
            }
            Err(Refused::Again) => {
                l.stalled = Some(f);
                self.refused(core, vc);
                false
            }
            Err(Refused::Failed(why)) => {
                port.give_back(f.buffer);
                self.broken(core, vc, &why.to_string());
                false
            }
        }
    }

    /// Sends a CREDIT: the units returned, and the number of frames sent.
    pub(crate) fn send_credit(&mut self, core: &mut Core, vc: VcId) {
        let Some(open) = self.links.get(vc).and_then(|l| l.open) else { return };
        let mut frame = [0; CREDIT_MAX];
        frame[..FRAME_HEADER].copy_from_slice(&open.credit().to_bytes());
        let len = if open.probing { self.introduce(vc, open.dest.port, &mut frame) } else { FRAME_HEADER };
        let frame = &frame[..len];
        let Some(l) = self.links.get_mut(vc) else { return };
        let port = &mut self.ports[open.dest.port];
        let sent = if len <= port.inject_max() {
            port.inject(frame, open.dest.addr)
        } else if l.traffic.in_flight >= port.share() {
            // The completion of one of them calls this again, unless a frame with data says the
            // same first.
            l.ready = false;
            return;
        } else if let Some(buffer) = port.take_buffer() {
            port.buffer(buffer)[..len].copy_from_slice(frame);
            let sent = port.send(buffer, len, open.dest.addr, vc);
            match sent {
                Ok(()) => l.traffic.in_flight += 1,
                Err(_) => port.give_back(buffer),
            }
            sent
        } else {
            Err(Refused::Again)
        };
        match sent {
            Ok(()) => {
                if let Some(open) = &mut l.open {
                    open.credit_sent();
                }
            }
            Err(Refused::Again) => self.refused(core, vc),
            Err(Refused::Failed(why)) => drop(self.broken(core, vc, &why.to_string())),
        }
    }
}

/// Gives a frame to the device. Returns true if it was injected: then the buffer is free, and no
/// completion follows.
///
/// # Errors
/// If the device does not take it; the buffer stays the caller's.
#[inline(always)]
fn give<P: Port>(
    port: &mut P,
    buffer: u32,
    len: usize,
    to: u64,
    vc: VcId,
) -> Result<bool, Refused<P::Error>> {
    if len > port.inject_max() {
        return port.send(buffer, len, to, vc).map(|()| false);
    }
    port.inject_buffer(buffer, len, to)?;
    port.give_back(buffer);
    Ok(true)
}
