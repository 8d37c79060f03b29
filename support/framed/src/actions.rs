//! Carrying out what the connections' manager asks for.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use netmod_core::lifecycle::VcState;
use netmod_core::{Core, Event, Events, Time, VcError, VcErrorKind, VcId};

use netmod_connection::RejectReason;

use crate::book::Dest;
use crate::conn::{Action, Env, Manager, Offer, PeerTerms, To};
use crate::device::{Device, Port, Refused, Words};
use crate::life::Verdict;
use crate::link::{FrameVc, Open, cost};
use crate::netmod::FrameNetmod;
use crate::outbox::Out;
use crate::shutdown::Ending;
use crate::wire::{FRAME_HEADER, FrameHeader, Kind, Slot};

impl<D: Device> FrameNetmod<D> {
    /// Calls the manager, and carries out its actions.
    pub(crate) fn manage(&mut self, core: &mut Core, f: impl FnOnce(&mut Manager, &mut Env<'_>)) {
        self.manage_later(f);
        self.act(core);
    }

    /// Calls the manager; the next poll carries out its actions.
    pub(crate) fn manage_later(&mut self, f: impl FnOnce(&mut Manager, &mut Env<'_>)) {
        let (own, ports, links) = (&self.own, &mut self.ports, &mut self.links);
        let leaving = &mut self.addresses.leaving;
        let mut random = |bytes: &mut [u8]| getrandom::fill(bytes).map_err(io::Error::other);
        let mut terms = |vc: VcId, offer: &Offer<'_>| {
            let terms = own.as_ref().ok().and_then(|o| o.terms(offer.port, offer.terms.port));
            let mut terms = terms.ok_or(RejectReason::NoWayBack)?;
            let endpoints = links.get_mut(vc).map(|l| &mut l.endpoints).ok_or(RejectReason::NoWayBack)?;
            endpoints.promise(vc, ports, leaving, offer, &mut terms).map_err(|why| {
                tracing::warn!(%why, rank = offer.peer.rank, "no end for a connection");
                RejectReason::Busy
            })?;
            Ok(terms)
        };
        let mut env = Env {
            now: self.clock.now,
            random: &mut random,
            terms: &mut terms,
            out: &mut self.connections.actions,
        };
        f(&mut self.connections.manager, &mut env);
    }

    /// Carries out the manager's actions in order, with those that they lead to.
    pub(crate) fn act(&mut self, core: &mut Core) {
        while !self.connections.actions.is_empty() {
            // One at a time: an action that another leads to comes behind those before it.
            let action = self.connections.actions.remove(0);
            self.carry_out(core, action);
        }
    }

    fn carry_out(&mut self, core: &mut Core, action: Action) {
        match action {
            Action::Meet { inbound, port, context, address } => {
                match self.addresses.book.insert(&mut self.ports, usize::from(port), context, &address) {
                    Ok(dest) => self.addresses.keep_inbound(inbound, dest),
                    Err(why) => {
                        tracing::debug!(%why, "somebody has dialled whose address is of no use");
                    }
                }
            }
            Action::Forget { inbound } => {
                if let Some(dest) = self.addresses.release_inbound(inbound) {
                    self.outbox.age(dest, self.clock.now);
                }
            }
            Action::Shake { to, kind, slot, bytes } => {
                // The last frame of a handshake is the first one of the connection.
                let Some(dest) = self.open_dest(to).or_else(|| self.dest(to)) else { return };
                let header = FrameHeader { kind, ask: false, returned: 0, slot, seq: 0 };
                let mut frame = Vec::with_capacity(FRAME_HEADER + bytes.len());
                frame.extend_from_slice(&header.to_bytes());
                frame.extend_from_slice(&bytes);
                // The manager tries again by itself, or gives up.
                self.post(core, Out { dest, bytes: frame, vc: vc_of(to), since: Time::NEVER });
            }
            Action::Control { to, kind, slot } => self.control(core, to, kind, slot),
            Action::Opened { vc, to, port, peer } => self.opened_one(core, vc, to, port, &peer),
            Action::PeerLeft { vc, error } => {
                // Frames that the peer had not acknowledged when it left may be lost.
                let unread = self.links.get(vc).and_then(|l| l.open.as_ref()).is_some_and(|o| !o.is_idle());
                let unsaid = unread && error.kind() != VcErrorKind::Closed;
                let error = (unsaid || self.matters(core, vc)).then_some(error);
                self.manage(core, |m, env| m.settle(vc, error, env));
                if self.links.get(vc).is_some_and(|l| l.down.is_none()) {
                    self.close_one(core, vc);
                    self.pump(core, vc);
                }
            }
            Action::Terminated { vc } => {
                if let Some(error) = self.links.get(vc).and_then(FrameVc::loss_error) {
                    return self.down(core, vc, error);
                }
                self.close_one(core, vc);
                if let Some(l) = self.links.get_mut(vc) {
                    l.terminating = false;
                }
                self.work.events.push_back(Event::Terminated { vc });
                self.pump(core, vc);
            }
            Action::Down { vc, error } => self.down(core, vc, error),
            Action::NewPeer { peer } => self.work.events.push_back(Event::NewPeer { peer, netmod: 0 }),
            Action::PortPeer { peer, port } => {
                self.work.events.push_back(Event::PortPeer { peer, port, netmod: 0 });
            }
        }
    }

    fn dest(&self, to: To) -> Option<Dest> {
        match to {
            To::Vc(vc) => self.links.get(vc)?.dial,
            To::Inbound(id) => self.addresses.of_inbound(id),
        }
    }

    /// Returns the destination of frames of the open connection, if this dial has made it.
    fn open_dest(&self, to: To) -> Option<Dest> {
        let of = |l: &FrameVc| l.open.filter(|_| l.via == to).map(|o| o.dest);
        match to {
            To::Vc(vc) => of(self.links.get(vc)?),
            To::Inbound(_) => self.links.iter().find_map(|(_, l)| of(l)),
        }
    }

    fn control(&mut self, core: &mut Core, to: To, kind: Kind, slot: Slot) {
        let ours = self.links.iter().find_map(|(vc, l)| {
            let open = l.open.filter(|o| o.header().slot == slot && l.via == to)?;
            Some((vc, open, l.life.gone))
        });
        let promised = || self.links.iter().find_map(|(_, l)| l.endpoints.promised_to(slot));
        let dest = ours.map(|(_, open, _)| open.dest).or_else(promised).or_else(|| self.dest(to));
        let Some(dest) = dest else { return };
        let header = match ours {
            // A send to an address without a listener crashes some providers of libfabric (ofi_rxm
            // 1.17).
            Some((_, _, true)) => return,
            Some((_, open, false)) => {
                let counts = matches!(kind, Kind::Fin | Kind::FinAck);
                let seq = if counts { open.data_frames() } else { 0 };
                open.other(kind, seq)
            }
            None => FrameHeader { kind, ask: false, returned: 0, slot, seq: 0 },
        };
        let bytes = header.to_bytes().to_vec();
        let since = self.clock.now;
        let vc = ours.map(|(vc, _, _)| vc);
        // RESET goes by the connection's endpoint and by the address of its dials: the one may
        // fail, the other may lose it, and a second RESET does no harm. By address it may overtake
        // data. A process that is ending has sent data before, so it uses the endpoint only; a peer
        // that misses it finds the process gone.
        let twice = kind == Kind::Reset && self.shutdown.ending != Ending::Abandoned;
        let other = self.dest(to).filter(|other| twice && *other != dest);
        if let Some(dest) = other {
            self.post(core, Out { dest, bytes: bytes.clone(), vc, since });
        }
        self.post(core, Out { dest, bytes, vc, since });
    }

    /// Sends a frame of the manager, behind those that wait for the same peer.
    pub(crate) fn post(&mut self, core: &mut Core, out: Out) {
        self.outbox.queue.push_back(out);
        self.push_outbox(core);
    }

    /// Sends the manager's frames as far as the device takes them. A frame refused for one peer
    /// holds up no other peer.
    pub(crate) fn push_outbox(&mut self, core: &mut Core) {
        let mut kept: VecDeque<Out> = VecDeque::new();
        let mut failed = Vec::new();
        while let Some(out) = self.outbox.queue.pop_front() {
            if kept.iter().any(|o| o.dest == out.dest) {
                kept.push_back(out);
                continue;
            }
            match self.send_out(&out) {
                Ok(()) => {}
                Err(Refused::Again) => {
                    self.stats.refused += 1;
                    if self.clock.now.since(out.since) < self.patience(&out) {
                        core.note_staged();
                        kept.push_back(out);
                    }
                }
                Err(Refused::Failed(why)) => failed.extend(out.vc.map(|vc| (vc, why.to_string()))),
            }
        }
        self.outbox.queue = kept;
        for (vc, why) in failed {
            self.handshake_failed(core, vc, &why);
        }
    }

    /// Returns the time for which a frame is tried. A handshake has deadlines of its own. A RESET
    /// may be all that the peer hears of the end of its connection, so it gets as long as
    /// connecting.
    fn patience(&self, out: &Out) -> Duration {
        let shakes = [Kind::Dial as u8, Kind::Answer as u8].contains(&out.bytes[0]);
        if shakes { STALE } else { self.settings.connect_timeout }
    }

    /// Sends a frame out of a buffer. Injection would not do: it reports no completion, and an
    /// endpoint may be closed too early.
    fn send_out(&mut self, out: &Out) -> Result<(), Refused<<D::Port as Port>::Error>> {
        let Some(port) = self.ports.get_mut(out.dest.port) else { return Ok(()) };
        if !port.has_room_for(out.dest.addr) {
            return Err(Refused::Again);
        }
        let buffer = port.take_buffer().ok_or(Refused::Again)?;
        let len = out.bytes.len();
        port.buffer(buffer)[..len].copy_from_slice(&out.bytes);
        let sent = port.send(buffer, len, out.dest.addr, out.vc.unwrap_or(NOBODY));
        match sent {
            Ok(()) => {
                if let Some(l) = out.vc.and_then(|vc| self.links.get_mut(vc)) {
                    l.traffic.in_flight += 1;
                }
            }
            Err(_) => port.give_back(buffer),
        }
        sent
    }

    #[cold]
    fn handshake_failed(&mut self, core: &mut Core, vc: VcId, why: &str) {
        let Some(l) = self.links.get(vc) else { return };
        if l.open.is_some() {
            self.broken(core, vc, why);
        } else {
            self.manage(core, |m, env| m.dial_failed(vc, why, env));
        }
    }

    fn opened_one(&mut self, core: &mut Core, vc: VcId, to: To, port: u8, peer: &PeerTerms) {
        let Some(dest) = self.dest(to).filter(|d| d.port == usize::from(port)) else {
            let who = self.links.get(vc).map(|l| l.peer);
            let text = format!("its address, as it has given it itself, is of no use to {}", D::WORDS.what);
            return self.fail(core, vc, VcError::new(VcErrorKind::Unreachable, who, text));
        };
        let dest = match self.use_end(vc, to, dest, &peer.endpoint) {
            Ok(dest) => dest,
            Err(why) => {
                let who = self.links.get(vc).map(|l| l.peer);
                let text = format!("{} cannot connect with it: {why}", D::WORDS.what);
                return self.fail(core, vc, VcError::new(VcErrorKind::Unreachable, who, text));
            }
        };
        let frame = (peer.frame as usize).min(self.settings.frame).min(self.ports[dest.port].frame_max());
        let Some(l) = self.links.get_mut(vc) else { return };
        // The VC may have been down: the peer is another process of that name, or had ended the
        // connection.
        (l.down, l.life.gone) = (None, false);
        let window = u32::from(peer.window);
        let open = Open::new(dest, peer.slot, frame, window);
        l.open = Some(if D::WHOLE_BUFFERS {
            open.costing(cost(peer.frame as usize, window), cost(self.settings.frame, self.window))
        } else {
            open
        });
        (l.via, l.probe, l.life.unread) = (to, None, false);
        core.reset_receive(vc);
        if let Some(v) = core.vc_mut(vc) {
            v.stats.connects += 1;
        }
        l.life.heard = self.clock.now;
        self.work.events.push_back(Event::Up { vc });
        self.watch(vc);
        self.work.wanting.add(vc);
        core.note_staged();
    }

    /// Closes the connection of a VC that goes on.
    fn close_one(&mut self, core: &mut Core, vc: VcId) {
        self.liveness.unwatch(vc);
        let Some(l) = self.links.get_mut(vc) else { return };
        l.ready = false;
        let open = l.open.take();
        l.life.unread = open.is_some_and(|open| !open.is_idle());
        if let (Some(stalled), Some(open)) = (l.stalled.take(), open)
            && let Some(port) = self.ports.get_mut(open.dest.port)
        {
            port.give_back(stalled.buffer);
        }
        l.endpoints.close_used(&mut self.addresses.leaving);
        core.reset_receive(vc);
    }

    /// Returns true if the upper layer, or a message in flight, is hurt by the peer's departure.
    fn matters(&self, core: &Core, vc: VcId) -> bool {
        let Some(l) = self.links.get(vc) else { return false };
        let open = core.vc(vc).is_some_and(|v| {
            let in_use = v.state.can_receive() || v.state.needs_close() || v.state == VcState::CloseAcked;
            // The rest of a message that is being received never comes.
            in_use || v.recv_active().is_some() || v.pending_pkt_len() > 0
        });
        open || l.queue.is_within() || l.traffic.transfers > 0 || l.stalled.is_some()
    }

    /// Fails a VC because of an error on this side, and tells the peer.
    pub(crate) fn fail(&mut self, core: &mut Core, vc: VcId, error: VcError) {
        if self.links.get(vc).is_none_or(|l| l.down.is_some()) {
            return;
        }
        self.manage(core, |m, env| m.abort(vc, error, env));
    }

    /// Fails a VC whose peer is dead: nothing is sent to it any more.
    pub(crate) fn declare_dead(&mut self, core: &mut Core, vc: VcId, error: VcError) {
        if let Some(l) = self.links.get_mut(vc) {
            l.life.gone = true;
        }
        self.outbox.drop_all(vc);
        self.fail(core, vc, error);
    }

    /// Reports a VC that the manager has failed.
    fn down(&mut self, core: &mut Core, vc: VcId, error: VcError) {
        let Some(l) = self.links.get_mut(vc) else { return };
        l.terminating = false;
        let first = l.down.replace(error.clone()).is_none();
        self.drop_link(core, vc, &error);
        if first {
            self.work.events.push_back(Event::Down { vc, error });
        }
    }

    /// Fails what is under way on a VC, and closes its connection.
    pub(crate) fn drop_link(&mut self, core: &mut Core, vc: VcId, error: &VcError) {
        self.liveness.unwatch(vc);
        self.outbox.drop_handshake(vc);
        if let Some(l) = self.links.get_mut(vc) {
            l.queue.fail(core, error);
            l.ready = false;
            let open = l.open.take();
            let stalled = l.stalled.take();
            if let Some(open) = open
                && let Some(port) = self.ports.get_mut(open.dest.port)
            {
                stalled.into_iter().for_each(|stalled| port.give_back(stalled.buffer));
                if l.life.gone {
                    port.fail_end(open.dest.addr);
                }
            }
        }
        self.fail_transfers(vc, error);
        if let Some(l) = self.links.get_mut(vc) {
            l.endpoints.fail(&mut self.addresses.leaving);
        }
    }

    #[inline(never)]
    fn look_at_clock(&mut self, core: &mut Core, events: &Events) {
        self.ports.iter_mut().for_each(|port| port.tick(self.clock.now));
        // Frames that the manager gives up must not have bytes in the batch; it is asked again.
        let due = self.connections.manager.deadline().is_some_and(|t| self.clock.now >= t);
        if due && events.is_empty() {
            self.manage(core, Manager::timer);
        }
        if !due || events.is_empty() {
            self.clock.looked_at = self.clock.now;
        }
        if self.clock.is_check_due() {
            self.check_refused(core);
            self.probe_losses(core);
            self.tell_life();
        }
        if self.liveness.deadline().is_some_and(|t| self.clock.now >= t) {
            self.ask_life(core, events);
        }
    }

    /// Does what is due by the clock, and deferred work.
    #[inline]
    pub(crate) fn look_after(&mut self, core: &mut Core, events: &Events) {
        // Many polls have the same time.
        if self.clock.now != self.clock.looked_at {
            self.look_at_clock(core, events);
        }
        if !self.connections.actions.is_empty() {
            self.act(core);
        }
        if self.addresses.is_unsettled() {
            // The end of a connection may still wait for a device that would not take it.
            self.addresses.settle(&mut self.ports, |dest| self.outbox.needs(dest));
        }
    }
}

impl<D: Device> FrameNetmod<D> {
    /// Fails VCs whose frames the device has refused for longer than the connect timeout.
    #[cold]
    fn check_refused(&mut self, core: &mut Core) {
        self.clock.checked();
        let limit = self.settings.connect_timeout;
        // Liveness checks decide about peers that the device waits for.
        let waits = |l: &FrameVc| {
            l.open.is_some_and(|o| self.ports.get(o.dest.port).is_some_and(|p| p.waits_for_peer(o.dest.addr)))
        };
        let refused =
            |o: Open| o.refused_since != Time::NEVER && self.clock.now.since(o.refused_since) > limit;
        let late = |l: &FrameVc| l.open.is_some_and(refused) && !waits(l);
        let found: Vec<_> = self.links.iter().filter(|(_, l)| late(l)).map(|(vc, l)| (vc, l.peer)).collect();
        for (vc, peer) in found {
            let Words { what, again, .. } = D::WORDS;
            let text = format!(
                "{what} takes nothing for it ({again}) any more; has the process ended, or its host?"
            );
            self.fail(core, vc, VcError::new(VcErrorKind::Lost, Some(peer), text).after(limit));
        }
    }
}

/// Liveness of peers.
impl<D: Device> FrameNetmod<D> {
    /// Begins liveness checks of the peer of an open connection, as soon as its card is known.
    pub(crate) fn watch(&mut self, vc: VcId) {
        let (Some(life), Some(l)) = (&mut self.liveness.life, self.links.get_mut(vc)) else { return };
        match &l.route {
            Some(route) => {
                if !life.watch(vc, &route.lifeline, route.near, self.clock.now) {
                    tracing::info!(peer = l.peer.rank, "nobody can be asked whether it lives");
                }
            }
            None => {
                if !std::mem::replace(&mut l.asked, true) {
                    self.work.events.push_back(Event::NeedCard { vc });
                }
            }
        }
    }

    /// Checks the peer of a VC without a connection for some time; the caller repeats the call
    /// while it waits.
    #[cold]
    pub(crate) fn ask_after(&mut self, vc: VcId) {
        let Some(l) = self.links.get_mut(vc).filter(|l| l.open.is_none() && l.down.is_none()) else { return };
        l.life.wanted_until = self.clock.now + WANTED;
        if self.liveness.life.as_ref().is_some_and(|life| !life.is_watching(vc)) {
            self.watch(vc);
        }
        if let Some(life) = &mut self.liveness.life {
            life.owes(vc, true);
        }
    }

    /// Updates the liveness checks with what connections show.
    #[cold]
    fn tell_life(&mut self) {
        let Some(life) = &mut self.liveness.life else { return };
        for (vc, l) in self.links.iter().filter(|(_, l)| l.open.is_some()) {
            life.heard(vc, l.life.heard);
            life.owes(vc, l.is_owed());
        }
    }

    /// Runs the liveness checks. Dead peers are given up once nothing of them is left to be
    /// handled.
    #[cold]
    fn ask_life(&mut self, core: &mut Core, events: &Events) {
        for (vc, verdict) in self.liveness.poll(self.clock.now) {
            let Some(l) = self.links.get(vc) else { continue };
            let peer = l.peer;
            let expected = self.clock.now <= l.life.wanted_until || self.outbox.has_retries(vc);
            if l.open.is_none() && !expected {
                // No caller and no RESET waits for it any more.
                self.liveness.unwatch(vc);
                continue;
            }
            self.retransmit_resets(core, vc, verdict);
            if verdict == Verdict::Dead && !events.concern(vc) && self.work.backlog.is_empty() {
                let text = "the process has ended, as its host says; has it failed?";
                self.declare_dead(core, vc, VcError::new(VcErrorKind::Lost, Some(peer), text));
            }
        }
    }
}

/// Returns the VC to which a frame of the manager belongs.
fn vc_of(to: To) -> Option<VcId> {
    match to {
        To::Vc(vc) => Some(vc),
        To::Inbound(_) => None,
    }
}

/// Time for which a peer without a connection is probed after the last call that waited for it:
/// callers wait for many peers in turn.
const WANTED: Duration = Duration::from_secs(120);
/// Time after which a handshake frame to a forgotten peer is given up if the device does not take
/// it.
const STALE: Duration = Duration::from_secs(2);
/// The VC named for frames that belong to none.
const NOBODY: VcId = VcId::from_wire(0);
