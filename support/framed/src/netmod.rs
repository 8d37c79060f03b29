//! The netmod as a whole: its state, and the `Netmod` trait.

use std::collections::BTreeMap;
use std::os::fd::RawFd;
use std::time::Duration;

use netmod_connection::{Identity, JobKey, Purpose};
use netmod_core::slab::VcKind;
use netmod_core::{
    Arm, Break, Card, CardError, CardWriter, Checkpoint, Core, Data, DeviceError, Diagnose, DynamicProcesses,
    Events, Finalize, GroupId, Header, Message, Module, Netmod, PacketFault, PeerName, PollOrder, Pollers,
    RemoteGroup, Report, ReqId, Request, Rma, RxBuf, Segment, SendBuf, Sent, SideTable, Time, VcError,
    VcErrorKind, VcId, port_group,
};

use crate::addresses::Addresses;
use crate::clock::Clock;
use crate::conn::{Manager, Params};
use crate::connections::Connections;
use crate::device::{Device, Opened, Port, Route, Settings};
use crate::link::FrameVc;
use crate::liveness::Liveness;
use crate::outbox::Outbox;
use crate::shutdown::{Ending, Shutdown};
use crate::sys::{self, Waiter};
use crate::transfers::Transfers;
use crate::wire::UNIT;
use crate::work::Work;

/// Longest time between two polls of an idle process: devices work only when they are called.
const LOOK: Duration = Duration::from_millis(100);
/// The same while something is under way.
const LOOK_BUSY: Duration = Duration::from_millis(1);
/// Divisor of the descriptor limit: handshakes of unauthenticated peers may take that part.
const UNAUTHENTICATED_SHARE: usize = 4;
/// First pause before a handshake frame that may be lost is retransmitted. A peer that computes
/// answers late, and shorter pauses would only repeat what it has not read yet.
const RETRANSMIT: Duration = Duration::from_millis(100);

/// Counters of the netmod beside those of each VC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameStats {
    /// Frames sent by injection.
    pub injected: u64,
    /// Frames sent out of buffers.
    pub sent: u64,
    /// Times that the device would not take a frame.
    pub refused: u64,
    /// Times that a peer's window had no room.
    pub full: u64,
    /// Frames for no connection that is open.
    pub astray: u64,
    /// Completions of no operation, failed receives, messages that are no frame.
    pub oddities: u64,
}

/// The netmod of one process.
#[derive(Debug)]
pub struct FrameNetmod<D: Device> {
    pub(crate) settings: Settings,
    /// The device that this process has opened, or the reason why it has none.
    pub(crate) own: Result<D, DeviceError>,
    pub(crate) ports: Vec<D::Port>,
    pub(crate) connections: Connections,
    pub(crate) links: SideTable<FrameVc, VcKind>,
    pub(crate) by_peer: BTreeMap<PeerName, VcId>,
    pub(crate) addresses: Addresses,
    pub(crate) outbox: Outbox,
    pub(crate) work: Work,
    /// The receive window that each peer may use, in units.
    pub(crate) window: u32,
    pub(crate) transfers: Transfers<<D::Port as Port>::Registration>,
    pub(crate) waiter: Option<Waiter>,
    pub(crate) liveness: Liveness,
    pub(crate) clock: Clock,
    pub(crate) shutdown: Shutdown,
    pub(crate) stats: FrameStats,
}

/// Returns the most handshakes of unauthenticated peers at once, at most `configured`. To answer a
/// peer may take a descriptor of the provider; most of the process's limit is left to the program.
fn unauthenticated_max(configured: usize, descriptors: Option<usize>) -> usize {
    descriptors.map_or(configured, |limit| configured.min(limit / UNAUTHENTICATED_SHARE)).max(1)
}

impl<D: Device> FrameNetmod<D> {
    /// Creates the netmod of `me`, one of `size` ranks. If the device cannot be opened, the netmod
    /// reaches nobody, and its errors say why.
    pub fn new(cfg: &D::Config, me: PeerName, size: u32) -> FrameNetmod<D> {
        let mut nonce = [0; 8];
        let not_opened = |why: String| DeviceError::new(D::NAME, why);
        let random = getrandom::fill(&mut nonce).map_err(|e| not_opened(format!("no random numbers: {e}")));
        let incarnation = u64::from_le_bytes(nonce);
        let opened = random.and_then(|()| D::open(cfg, me).map_err(|e| not_opened(e.to_string())));
        let (own, ports, life) = match opened {
            Ok(Opened { device, ports, life }) => (Ok(device), ports, life),
            Err(why) => (Err(why), Vec::new(), None),
        };
        let waiter = Waiter::of(&ports);
        let settings = D::settings(cfg);
        let inbound = unauthenticated_max(settings.hello_max, sys::descriptor_limit());
        let mut params = Params::new(settings.connect_timeout, settings.dials, inbound, D::WORDS);
        if D::LOSES_HANDSHAKES {
            params.retransmit = RETRANSMIT;
        }
        FrameNetmod {
            own,
            ports,
            connections: Connections::new(Manager::new(Identity::new(me, size, incarnation), params)),
            links: SideTable::new(),
            by_peer: BTreeMap::new(),
            addresses: Addresses::default(),
            outbox: Outbox::default(),
            work: Work::new(),
            window: (settings.window / UNIT) as u32,
            transfers: Transfers::new(settings.register_max, D::WORDS.settings),
            waiter,
            liveness: Liveness::new(life),
            clock: Clock::new(),
            shutdown: Shutdown::new(),
            stats: FrameStats::default(),
            settings,
        }
    }

    /// Returns the counters.
    pub fn stats(&self) -> FrameStats {
        let odd = self.ports.iter().map(|p| {
            let o = p.oddities();
            o.unknown + o.receives + o.no_frames
        });
        FrameStats { oddities: odd.sum(), ..self.stats }
    }

    /// Returns what `f` says of the device, or the reason why there is none.
    pub(crate) fn device_text(&self, f: impl FnOnce(&D) -> String) -> String {
        self.own.as_ref().map_or_else(|e| e.text().to_owned(), f)
    }

    /// Returns the route to the process with this card.
    fn route_to(&self, card: &Card, peer: Option<PeerName>) -> Result<Route, VcError> {
        let wrong = |text: String| VcError::new(VcErrorKind::Card, peer, text);
        let own = self.own.as_ref().map_err(|e| wrong(e.text().to_owned()))?;
        own.route_to(card).map_err(|e| wrong(e.to_string()))
    }

    pub(crate) fn take_card(&mut self, vc: VcId, peer: PeerName, card: &Card) -> Result<(), VcError> {
        let route = self.route_to(card, Some(peer))?;
        if let Some(l) = self.links.get_mut(vc) {
            if l.route.as_ref() != Some(&route)
                && let Some(dest) = l.dial.take()
            {
                self.addresses.book.release(dest);
            }
            l.route = Some(route);
            l.asked = false;
            if l.open.is_some() {
                self.watch(vc);
            }
        }
        Ok(())
    }

    pub(crate) fn init(
        &mut self,
        core: &mut Core,
        vc: VcId,
        peer: PeerName,
        card: Option<&Card>,
        purpose: Purpose,
    ) -> Result<(), VcError> {
        if self.by_peer.contains_key(&peer) {
            return Err(VcError::new(VcErrorKind::Aborted, Some(peer), "it has a VC already"));
        }
        self.links.insert(vc, FrameVc::new(vc, peer));
        if let Some(card) = card
            && let Err(e) = self.take_card(vc, peer, card)
        {
            self.links.remove(vc);
            return Err(e);
        }
        self.by_peer.insert(peer, vc);
        self.manage(core, |m, env| m.add(vc, peer, purpose, env));
        Ok(())
    }
}

/// Polls with events until deferred work runs: every eighth does all. Events or actions that wait
/// bring it forward.
const PUT_OFF: u32 = 8;

impl<D: Device> DynamicProcesses for FrameNetmod<D> {
    fn connect_to_root(
        &mut self,
        core: &mut Core,
        vc: VcId,
        card: &Card,
        port_tag: u64,
    ) -> Result<(), VcError> {
        let peer = PeerName { group: port_group(port_tag), rank: 0 };
        self.init(core, vc, peer, Some(card), Purpose::Root { port: port_tag })?;
        self.dial(core, vc);
        Ok(())
    }

    fn open_port(&mut self, port: u64, key: [u8; 32]) -> Result<(), DeviceError> {
        self.own.as_ref().map_err(Clone::clone)?;
        self.connections.manager.identity_mut().open_port(port, JobKey(key));
        Ok(())
    }

    fn close_port(&mut self, port: u64) {
        self.connections.manager.identity_mut().close_port(port);
    }

    fn join_group(&mut self, met: &RemoteGroup) -> Result<(), DeviceError> {
        self.own.as_ref().map_err(Clone::clone)?;
        self.connections.manager.identity_mut().meet(*met);
        Ok(())
    }

    fn leave_group(&mut self, id: &GroupId) {
        self.connections.manager.identity_mut().part(id);
    }
}

impl<D: Device> Checkpoint for FrameNetmod<D> {
    /// A device's state is in no image of this process.
    fn can_ckpt(&self) -> Result<(), DeviceError> {
        let text = format!(
            "processes that use {} cannot be checkpointed; set NETMOD=tcp for jobs with checkpoints",
            D::WORDS.what
        );
        if self.own.is_ok() { Err(DeviceError::new(D::NAME, text)) } else { Ok(()) }
    }

    fn ckpt_shutdown(&mut self, _core: &mut Core, _now: Time) -> Result<Finalize, DeviceError> {
        self.can_ckpt()?;
        self.shutdown.suspended = true;
        Ok(Finalize::Done)
    }

    fn ckpt_restart(&mut self, _core: &mut Core, _now: Time) -> Result<(), DeviceError> {
        if !self.shutdown.suspended {
            return Err(DeviceError::new(D::NAME, "ckpt_restart without ckpt_shutdown"));
        }
        self.shutdown.suspended = false;
        Ok(())
    }

    fn ckpt_peer(&mut self, core: &mut Core, vc: VcId, _: &Card) -> Result<(), VcError> {
        let peer = core.vc(vc).map(|v| v.peer);
        let why = self.can_ckpt().map_or_else(|e| e.to_string(), |()| "the VC is not in its charge".into());
        Err(VcError::new(VcErrorKind::Unsupported, peer, why))
    }
}

// SAFETY: a message leaves the queue before its request is handed back; lent buffers are not
// posted.
#[allow(unsafe_code)]
unsafe impl<D: Device> Netmod for FrameNetmod<D> {
    #[inline]
    fn i_send_contig(
        &mut self,
        core: &mut Core,
        vc: VcId,
        req: ReqId,
        hdr: &Header,
        data: SendBuf,
    ) -> Result<Sent, VcError> {
        if self.send(core, vc, hdr, data.bytes())? {
            return Ok(Sent::Done);
        }
        self.enqueue(core, vc, Message::new(*hdr, Data::Contig(data), req));
        Ok(Sent::Queued)
    }

    #[inline(always)]
    fn i_start_contig_msg(
        &mut self,
        core: &mut Core,
        vc: VcId,
        hdr: &Header,
        data: SendBuf,
    ) -> Result<Option<ReqId>, VcError> {
        if self.send(core, vc, hdr, data.bytes())? {
            return Ok(None);
        }
        let req = core.add_req(Request::new(Some(vc), Segment::empty()));
        self.enqueue(core, vc, Message::new(*hdr, Data::Contig(data), req));
        Ok(Some(req))
    }

    fn send_noncontig(
        &mut self,
        core: &mut Core,
        vc: VcId,
        req: ReqId,
        hdr: &Header,
    ) -> Result<Sent, VcError> {
        self.check(vc)?;
        let len = core.req(req).map_or(0, |r| r.seg.remaining());
        core.count_send(vc, len);
        self.enqueue(core, vc, Message::new(*hdr, Data::Segment, req));
        Ok(Sent::Queued)
    }

    fn cancel_send(&mut self, core: &mut Core, vc: VcId, req: ReqId) -> bool {
        self.links.get_mut(vc).is_some_and(|l| l.queue.cancel(core, req))
    }

    fn control_frame(&mut self, _core: &mut Core, _vc: VcId, hdr: &Header) -> Result<(), PacketFault> {
        Err(PacketFault::violation(format!("netmod {} has no control frame {:#04x}", D::NAME, hdr[1])))
    }

    #[inline]
    fn flush(&mut self, core: &mut Core) {
        self.push_staged(core);
        if !self.work.wanting.is_empty() || self.outbox.is_waiting() {
            self.try_again(core);
        }
    }

    #[inline]
    fn poll(
        &mut self,
        core: &mut Core,
        order: PollOrder,
        now: Time,
        events: &mut Events,
    ) -> Result<(), DeviceError> {
        self.clock.poll(now);
        if order == PollOrder::OutFirst {
            self.push_out(core);
        }
        self.receive(core, events);
        let no_word = self.work.events.is_empty() && self.connections.actions.is_empty();
        let later = !events.is_empty() && no_word && !self.clock.polls.is_multiple_of(PUT_OFF);
        if later {
            // Staged frames go before those sent after this poll.
            self.push_staged(core);
            return Ok(());
        }
        if order == PollOrder::InFirst {
            self.push_out(core);
        }
        self.look_after(core, events);
        if !self.work.events.is_empty() {
            self.report_pending(events);
        }
        Ok(())
    }

    #[inline]
    fn release(&mut self, buf: RxBuf) {
        let (port, buffer) = crate::token::untoken(buf.token());
        if let Some(port) = self.ports.get_mut(port) {
            port.release(buffer);
        }
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.waiter.as_ref().map(Waiter::fd)
    }

    fn arm(&mut self, core: &mut Core) -> Arm {
        self.push_staged(core);
        let idle = self.work.events.is_empty()
            && self.work.backlog.is_empty()
            && !self.outbox.is_waiting()
            && self.work.wanting.is_empty()
            && self.ports.iter_mut().all(Port::may_wait);
        if idle { Arm::Armed } else { Arm::Busy }
    }

    fn deadline(&self) -> Option<Time> {
        if self.ports.is_empty() {
            return None;
        }
        let busy = |p: &D::Port| p.sends_under_way() + p.transfers_under_way() > 0 || p.is_unsettled();
        let busy = self.transfers.has_waiting() || self.ports.iter().any(busy);
        let mut at = self.clock.now + if busy { LOOK_BUSY } else { LOOK };
        at = at.min(self.connections.manager.deadline().unwrap_or(Time::NEVER));
        at = at.min(self.liveness.deadline().unwrap_or(Time::NEVER));
        if let Ending::Until(end) = self.shutdown.ending {
            at = at.min(end);
        }
        Some(at)
    }
}

impl<D: Device> Module for FrameNetmod<D> {
    fn name(&self) -> &'static str {
        D::NAME
    }

    fn threads(&self) -> usize {
        self.own.as_ref().map_or(0, D::threads)
    }

    fn shares_memory(&self) -> bool {
        false
    }

    fn join_job(&mut self, job_key: [u8; 32], _: Pollers) -> Result<(), DeviceError> {
        self.connections.manager.identity_mut().set_job_key(JobKey(job_key));
        Ok(())
    }

    fn business_card(&self, card: &mut CardWriter) -> Result<(), CardError> {
        match &self.own {
            Ok(own) => own.emit(card),
            // A process without a section cannot be reached by this netmod.
            Err(_) => Ok(()),
        }
    }

    fn reachable(&mut self, card: &Card) -> Result<(), VcError> {
        self.route_to(card, None).map(|_| ())
    }

    fn rma(&mut self, _core: &Core, _vc: VcId) -> Option<&mut dyn Rma> {
        let any = self.ports.iter().any(Port::has_rma);
        any.then_some(self as &mut dyn Rma)
    }

    fn finalize(&mut self, core: &mut Core, now: Time) -> Finalize {
        self.end(core, now)
    }
}

impl<D: Device> Diagnose for FrameNetmod<D> {
    fn failure(&self) -> Option<&str> {
        self.own.as_ref().err().map(DeviceError::text)
    }

    fn opened(&self) -> String {
        self.device_text(D::describe)
    }

    fn describe(&self, _core: &Core, vc: VcId) -> String {
        let Some(l) = self.links.get(vc) else { return "not in charge".into() };
        let state = match (&l.down, &l.open) {
            (Some(e), _) => format!("down: {e}"),
            (None, Some(open)) => {
                let own = self.device_text(|own| own.name_of(open.dest.port));
                format!("connected by {own}, frames of up to {} bytes, room for {}", open.frame, open.room())
            }
            (None, None) => "no connection".into(),
        };
        let ending = if l.terminating { ", terminating" } else { "" };
        let refused = match l.open.map(|o| o.refused_since).filter(|since| *since != Time::NEVER) {
            Some(since) => {
                format!(", refused by the device for {:.1} s", self.clock.now.since(since).as_secs_f64())
            }
            None => String::new(),
        };
        format!(
            "{state}{ending}, {} messages queued, {} frames and {} transfers under way{refused}",
            l.queue.len(),
            l.traffic.in_flight,
            l.traffic.transfers
        )
    }

    fn report(&self) -> Option<Report> {
        Some(Box::new(self.stats()))
    }

    fn break_connection(&mut self, _core: &mut Core, _vc: VcId, how: Break) -> Result<bool, VcError> {
        how.unsupported(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::unauthenticated_max;

    #[test]
    fn unauthenticated_peers_leave_most_descriptors_to_the_program() {
        let cases =
            [((256, None), 256), ((256, Some(1 << 20)), 256), ((256, Some(64)), 16), ((256, Some(3)), 1)];
        for ((configured, descriptors), most) in cases {
            assert_eq!(unauthenticated_max(configured, descriptors), most, "{configured} of {descriptors:?}");
        }
    }
}
