//! Large messages: what the machines of `netmod_lmt` ask for is done here, with packets, rings and requests.
//!
//! This file has the way from RTS to the end of a transfer; `arriving` has cookies that come in
//! pieces, `choosing` what the choice of a mode goes by, `copy` the rings of the Cooperative mode,
//! `rest` how these go for a checkpoint, `onesided` the registrations and moves of Put and Get,
//! `unmet` what is said where `NETMOD_LMT` cannot be honoured.

mod announced;
mod arriving;
mod choosing;
mod copy;
mod onesided;
mod rest;
mod unmet;

use netmod_core::slab::{ReqKind, VcKind};
use netmod_core::{Netmod, OnDone, Outcome, PacketFault, ReqId, Sent, SideTable, VcError, VcErrorKind, VcId};
use netmod_lmt::autotune::{Autotuner, Strategy};
use netmod_lmt::choice::{self, Policy};
use netmod_lmt::cookie::{Cookie, Keyed, Offer, RingName, ShmDomain};
use netmod_lmt::coop::{InQueue, OutQueue, Rest};
use netmod_lmt::rates::Measured;
use netmod_lmt::{Action, Actions, Ending, Event, Fault, Mode, Modes, RecvLmt, SendLmt, SendPhase, Window};

use super::lent::send_with;
use super::pool::segment_of;
use super::{Ch3, DevIo, MpiReq, Owned, Role};
use crate::Config;
use crate::clock::Clock;
use crate::pkt::{CookieLen, Packet};
use crate::status::Status;
use crate::tagmatch::Envelope;
pub(crate) use announced::{Announced, Kept};
use choosing::Part;
use onesided::{Bounces, OneSided};
use unmet::Unmet;

/// Bytes that a cookie seldom exceeds.
const COOKIE: usize = 256;

/// One side of a transfer.
#[derive(Clone, Copy, Debug)]
enum Machine {
    Send(SendLmt),
    Recv(RecvLmt),
}

/// The transfer of a request. Small, and without memory of its own: that of a finished request is overwritten.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    machine: Machine,
    vc: VcId,
    /// The peer's request, once it is known.
    theirs: u64,
    /// Senders: what was offered.
    offered: Modes,
    /// Senders: the ring that CTS named.
    ring: Option<RingName>,
    /// Senders: whether the send is synchronous.
    sync: bool,
    /// Receivers: the way that is timed.
    timed: Option<Strategy>,
}

/// Rings of a VC, both ways.
#[derive(Debug, Default)]
struct Lanes {
    out: OutQueue<ReqId>,
    inc: InQueue<ReqId>,
    /// State of checkpoints of either side.
    rest: Rest,
    /// A ring of the peer's could not be mapped: it is not offered rings any more.
    barred: bool,
}

/// What large messages need beside their requests.
#[derive(Debug)]
pub(crate) struct Lmt {
    policy: Policy,
    unmet: Unmet,
    /// Shorter messages are not worth another mode, in bytes.
    min: u64,
    /// Whether the node has more ranks than cores.
    crowded: bool,
    /// From how many bytes on a message within the node is got rather than sent eagerly, where that is faster.
    pub(super) got_from: usize,
    /// What copies cost here, as far as that has mattered.
    rates: Measured,
    /// What messages of peers have taken.
    autotuners: SideTable<Box<Autotuner>, VcKind>,
    clock: Clock,
    /// Where this process's shared memory is, if it has any and may use it.
    domain: Option<ShmDomain>,
    transfers: SideTable<Transfer, ReqKind>,
    /// What transfers by Put or Get have registered and move.
    onesided: SideTable<Box<OneSided>, ReqKind>,
    /// How many those are.
    one_sided: usize,
    /// Records for transfers to come; what is kept are the boxes, which go back and forth.
    #[allow(clippy::vec_box)]
    spare: Vec<Box<OneSided>>,
    bounces: Bounces,
    /// Transfers whose next piece waits for room to be registered in.
    stalled: Vec<ReqId>,
    lanes: SideTable<Box<Lanes>, VcKind>,
    /// No message is granted a ring, and none is accepted, for a checkpoint.
    resting: bool,
    /// VCs that copy.
    copying: Vec<VcId>,
    /// Packets whose cookies are arriving, by the request of the cookie.
    arriving: Vec<(ReqId, Packet)>,
}

impl Lmt {
    /// As the configuration has it. `near`: a netmod shares memory with peers; `crowded`: the node has more ranks than
    /// cores. With a simulation's clock the peers are not processes, and have no shared memory.
    pub(crate) fn new(cfg: &Config, near: bool, crowded: bool, clock: Clock) -> Lmt {
        let policy = Policy::of_name(cfg.lmt).unwrap_or(Policy::Only(Mode::Null));
        let rings = match policy {
            Policy::Auto => near,
            Policy::Only(mode) => mode == Mode::Coop,
        };
        let domain = (rings && matches!(clock, Clock::Machine(_))).then(|| {
            let domain = netmod_lmt::coop::shm_domain();
            domain.inspect_err(|error| tracing::warn!(%error, "no Cooperative mode")).ok()
        });
        let domain = domain.flatten();
        // What a user says of NETMOD_EAGER_MAX holds.
        let by_rates = cfg.leaves_eager_open() && policy == Policy::Auto && domain.is_some() && !crowded;
        Lmt {
            policy,
            unmet: Unmet::default(),
            min: cfg.lmt_min as u64,
            crowded,
            got_from: if by_rates { cfg.lmt_min } else { usize::MAX },
            rates: Measured::default(),
            autotuners: SideTable::new(),
            clock,
            domain,
            transfers: SideTable::new(),
            onesided: SideTable::new(),
            one_sided: 0,
            spare: Vec::with_capacity(onesided::MAX_SPARE),
            bounces: Bounces::default(),
            stalled: Vec::new(),
            lanes: SideTable::new(),
            resting: false,
            copying: Vec::new(),
            arriving: Vec::new(),
        }
    }

    /// Whether a send can still be taken back, as far as this side knows.
    pub(crate) fn is_offered(&self, req: ReqId) -> bool {
        match self.transfers.get(req).map(|t| t.machine) {
            Some(Machine::Send(m)) => matches!(m.phase(), SendPhase::Offered(_)),
            _ => false,
        }
    }
}

/// What a machine says of an event.
fn fault(fault: Fault) -> Result<(), PacketFault> {
    match fault {
        Fault::Late => Ok(()),
        Fault::Violation(what) => Err(PacketFault::Violation { what: what.into() }),
    }
}

impl Ch3 {
    /// What an offer says to this side.
    fn lmt_announced(&mut self, io: &mut DevIo<'_>, vc: VcId, offer: Offer) -> Announced {
        if offer.modes.has(Mode::Coop)
            && let Some(lanes) = self.lmt.lanes.get_mut(vc)
        {
            lanes.rest.offered();
        }
        let mut modes = offer.modes.and(self.lmt_modes(io, vc, Part::Receiver));
        if self.lmt.domain != Some(offer.domain) {
            modes = modes.without(Mode::Coop);
            self.lmt_elsewhere(io, vc, offer.modes);
        }
        Announced { modes, first: offer.first }
    }

    /// Sends the RTS of a message.
    pub(super) fn lmt_initiate(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId, total: u64, sync: bool) {
        let modes = self.lmt_modes(io, vc, Part::Sender(total));
        let side = self.lmt_side_of(io, vc, req, modes, total);
        let offered = choice::offer(side, total);
        self.lmt_chosen(io, vc, Part::Sender(total), offered, total);
        let get = offered.has(Mode::Get).then(|| self.first_window(io, vc, req));
        let (machine, acts) = SendLmt::start(total, get);
        let t = Transfer {
            machine: Machine::Send(machine),
            vc,
            theirs: 0,
            offered,
            ring: None,
            sync,
            timed: None,
        };
        self.lmt.transfers.set(req, t);
        self.lmt_do(io, req, acts, false);
    }

    /// Sends RTS, with the first window of Get if there is one.
    fn send_rts(&mut self, io: &mut DevIo<'_>, req: ReqId, first: Option<Window>) {
        let Some(env) = self.reqs.side.get(req).map(|m| m.env) else { return };
        let first = first.and_then(|w| self.keyed(req, w));
        let Some(t) = self.lmt.transfers.get_mut(req) else { return };
        let refused = first.is_none() && t.offered.has(Mode::Get);
        if refused {
            t.offered = t.offered.without(Mode::Get);
        }
        let (vc, offered, sync) = (t.vc, t.offered, t.sync);
        if refused {
            self.lmt_unmet(io, vc, "no memory could be registered", true);
        }
        let data_sz = io.core.req(req).map_or(0, |r| r.seg.total()) as u64;
        let peer = self.vcs.get(vc).map(|s| s.rank);
        tracing::trace!(target: "netmod::message", %req, peer, tag = env.tag(), bytes = data_sz, "RTS sent");
        let rts = |cookie_len| Packet::Rts { env, sreq: req.to_wire(), data_sz, cookie_len, sync };
        if offered == Modes::NULL {
            return self.send_control(io, vc, rts(CookieLen::NONE));
        }
        // Without shared memory the place is none that a peer could be in.
        let domain = self.lmt.domain.unwrap_or_default();
        self.send_cookie(io, vc, &Cookie::Offer(Offer { modes: offered, domain, first }), rts);
    }

    /// Sends a packet with a cookie behind it, which is kept until it has left.
    fn send_cookie(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        cookie: &Cookie,
        packet: impl Fn(CookieLen) -> Packet,
    ) {
        let mut bytes = self.reqs.pool.take(COOKIE);
        bytes.clear();
        cookie.emit_to(&mut bytes);
        let Some(len) = CookieLen::new(bytes.len()) else {
            tracing::error!(?cookie, "a cookie is longer than a packet takes");
            return;
        };
        let seg = segment_of(&mut bytes);
        let Some(data) = seg.send_buf() else { return };
        match io.netmod.i_start_contig_msg(io.core, vc, &packet(len).emit(), data) {
            Ok(None) => self.reqs.pool.give(bytes),
            Ok(Some(req)) => {
                match io.core.req_mut(req).filter(|r| !r.copied) {
                    None => self.reqs.pool.give(bytes),
                    Some(r) => {
                        r.on_done = OnDone::Upper;
                        let mut mpi = MpiReq::new(Role::SentCookie, Envelope::new(0, 0, 0));
                        mpi.owned = Owned::Recv(bytes);
                        self.reqs.side.set(req, mpi);
                    }
                }
                self.reqs.forget(io.core, req);
            }
            // The VC is going down; Event::Down follows and fails what depended on the packet.
            Err(e) => tracing::debug!(%e, "packet with a cookie not sent"),
        }
    }

    /// A receive has matched an announced message and has room for `room` bytes of it: the receiver's
    /// decision, as is the mode among those that both can take part in.
    pub(super) fn lmt_start_recv(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        req: ReqId,
        sreq: u64,
        room: u64,
        announced: Announced,
    ) {
        if let Some(r) = io.core.req_mut(req) {
            r.vc = Some(vc);
        }
        let Announced { modes, first } = announced;
        let side = self.lmt_side_of(io, vc, req, modes, room);
        let tried = choice::is_tried(side, room);
        let mut mode = choice::grant(side, room);
        if tried {
            mode = self.tried_mode(vc, mode, room);
        }
        self.lmt_chosen(io, vc, Part::Receiver, modes, room);
        if mode == Mode::Coop && !self.has_ring(vc) {
            mode = Mode::Null;
        }
        let timed = Strategy::of(mode).filter(|_| tried);
        if let Some(m) = self.reqs.side.get(req) {
            let Status { source: peer, tag, .. } = m.matched.status();
            tracing::trace!(target: "netmod::message", %req, peer, tag, bytes = room, %mode, "CTS sent");
        }
        let window = if mode == Mode::Put { self.first_window(io, vc, req) } else { 0 };
        let first = first.filter(|_| mode == Mode::Get).map(|keyed| self.learn_key(req, keyed));
        let (machine, acts) = RecvLmt::start(room, mode, window, first);
        let machine = Machine::Recv(machine);
        let t = Transfer { machine, vc, theirs: sreq, offered: modes, ring: None, sync: false, timed };
        self.lmt.transfers.set(req, t);
        self.lmt_timed(vc, timed);
        self.lmt_do(io, req, acts, false);
    }

    /// CTS: the receiver has matched a message and chosen a mode.
    pub(super) fn cts(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        (sreq, rreq): (u64, u64),
        total: u64,
        cookie: Option<Cookie>,
    ) -> Result<(), PacketFault> {
        let req = ReqId::from_wire(sreq);
        let drop = || PacketFault::Drop {
            what: format!("CTS for request {req}, which is not waiting for one"),
            payload: 0,
        };
        if !self.is_transfer(io, vc, req) {
            return Err(drop());
        }
        let Some(t) = self.lmt.transfers.get_mut(req) else { return Err(drop()) };
        let Machine::Send(send) = &mut t.machine else { return Err(drop()) };
        if !matches!(send.phase(), SendPhase::Offered(_) | SendPhase::Getting(_)) {
            return Err(drop());
        }
        let (mode, first) = match cookie {
            None => (Mode::Null, None),
            Some(Cookie::GrantCoop(name)) => {
                t.ring = Some(name);
                (Mode::Coop, None)
            }
            Some(Cookie::GrantPut(keyed)) => (Mode::Put, Some(keyed)),
            Some(_) => {
                return Err(PacketFault::Violation {
                    what: "CTS with a cookie that belongs to no CTS".into(),
                });
            }
        };
        if !t.offered.has(mode) {
            return Err(PacketFault::Violation {
                what: format!("CTS for mode {mode}, which was not offered"),
            });
        }
        let window = first.as_ref().map(|keyed| keyed.window);
        let acts = match send.on(Event::Cts { mode, total, first: window }) {
            Ok(acts) => acts,
            Err(e) => return fault(e),
        };
        t.theirs = rreq;
        let offered = t.offered;
        self.lmt_answered(io, vc, offered, mode, total);
        if let Some(keyed) = first {
            self.learn_key(req, keyed);
        }
        // The receiver's decision. A refusal of the mode does not change it.
        if let Some(r) = io.core.req_mut(req) {
            r.seg.truncate(usize::try_from(total).unwrap_or(usize::MAX));
        }
        let tag = self.reqs.side.get(req).map(|m| m.env.tag());
        tracing::trace!(target: "netmod::message", %req, tag, bytes = total, %mode, "CTS came");
        self.lmt_do(io, req, acts, false);
        Ok(())
    }

    /// Whether a request is under way on a VC.
    fn is_transfer(&self, io: &DevIo<'_>, vc: VcId, req: ReqId) -> bool {
        let live = io.core.req(req).is_some_and(|r| r.vc == Some(vc) && !r.is_finished());
        live && self.lmt.transfers.get(req).is_some_and(|t| t.vc == vc)
    }

    /// COOKIE and DONE.
    pub(super) fn lmt_packet(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        from_sender: bool,
        (sreq, rreq): (u64, u64),
        event: Event,
        keyed: Option<Keyed>,
    ) -> Result<(), PacketFault> {
        let req = ReqId::from_wire(if from_sender { rreq } else { sreq });
        if !self.is_transfer(io, vc, req) {
            if from_sender && RecvLmt::answer_when_gone(event) == Some(Action::SendAbort) {
                if let Some(lanes) = self.lmt.lanes.get_mut(vc) {
                    lanes.inc.remove(req);
                }
                let cookie = |cookie_len| Packet::Cookie { from_sender: false, sreq, rreq, cookie_len };
                self.send_cookie(io, vc, &Cookie::Abort, cookie);
            }
            // It has crossed the end of the transfer.
            return Ok(());
        }
        let by_sender = match self.lmt.transfers.get(req).map(|t| t.machine) {
            Some(Machine::Recv(_)) => true,
            Some(Machine::Send(_)) | None => false,
        };
        if by_sender != from_sender {
            let what = "a large message's cookie that names the other side's request".into();
            return Err(PacketFault::Violation { what });
        }
        // Get has no CTS: the first cookie says who receives.
        if let Some(t) = self.lmt.transfers.get_mut(req).filter(|_| !from_sender) {
            t.theirs = rreq;
        }
        if let Some(keyed) = keyed {
            self.learn_key(req, keyed);
        }
        self.lmt_tell(io, req, event).or_else(fault)
    }

    /// DONE, which names one request of this process.
    pub(super) fn lmt_done(&mut self, io: &mut DevIo<'_>, vc: VcId, req: u64) -> Result<(), PacketFault> {
        let req = ReqId::from_wire(req);
        if self.is_transfer(io, vc, req) {
            self.lmt_moved(req, vc);
            return self.lmt_tell(io, req, Event::Done).or_else(fault);
        }
        Err(PacketFault::Drop { what: format!("DONE for request {req}, which is not under way"), payload: 0 })
    }

    /// The header of a rendezvous's data: whether its receive expects it.
    pub(super) fn lmt_data(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId, len: u64) -> bool {
        let is_recv = matches!(self.lmt.transfers.get(req), Some(Transfer { machine: Machine::Recv(_), .. }));
        is_recv && self.is_transfer(io, vc, req) && self.lmt_tell(io, req, Event::Data(len)).is_ok()
    }

    /// The receiver has taken a message out of its unexpected ones.
    pub(super) fn lmt_withdrawn(&mut self, io: &mut DevIo<'_>, req: ReqId) -> Result<(), PacketFault> {
        self.lmt_tell(io, req, Event::Withdrawn).or_else(fault)
    }

    /// A transfer is given up by its owner: its memory is used no more. The caller finishes the request. Whether the VC
    /// is to be given up with it; `None` if there is no transfer.
    pub(super) fn lmt_abandon(&mut self, io: &mut DevIo<'_>, req: ReqId) -> Option<bool> {
        self.lmt_end(io, req, Event::Abandon)
    }

    /// The VC of a request is lost: what a transfer has registered and moves comes to its end. The caller finishes the
    /// request.
    pub(super) fn lmt_fail(&mut self, io: &mut DevIo<'_>, req: ReqId) {
        self.lmt_end(io, req, Event::Lost);
    }

    fn lmt_end(&mut self, io: &mut DevIo<'_>, req: ReqId, event: Event) -> Option<bool> {
        let vc = self.lmt.transfers.get(req)?.vc;
        let mut sever = None;
        if self.is_transfer(io, vc, req) {
            // Nothing moves any more before the other side hears of it.
            let moved = self.stop_move(io, vc, req);
            let mut acts: Vec<Action> = Vec::new();
            if let Some(t) = self.lmt.transfers.get_mut(req) {
                let mut tell = |event| match &mut t.machine {
                    Machine::Send(m) => m.on(event),
                    Machine::Recv(m) => m.on(event),
                };
                acts.extend(tell(event).into_iter().flatten());
                if moved {
                    acts.extend(tell(Event::Ended(false)).into_iter().flatten());
                }
            }
            sever = Some(acts.contains(&Action::Sever));
            for act in acts.into_iter().filter(|act| !matches!(act, Action::Finish(_) | Action::Sever)) {
                self.lmt_act(io, req, act, false);
            }
        }
        self.lmt_took(req, false);
        self.lmt.transfers.clear(req);
        self.forget_onesided(req);
        sever
    }

    /// The VC is lost or at its end: its rings go. Its requests are finished by the caller.
    pub(super) fn lmt_lost(&mut self, io: &mut DevIo<'_>, vc: VcId) {
        // What was put into the ring before the end is here.
        if self.lmt.lanes.get(vc).is_some() {
            self.copy_in_rest(io, vc);
        }
        self.lmt.copying.retain(|v| *v != vc);
        self.lmt.lanes.remove(vc);
        self.lmt.autotuners.remove(vc);
        self.lmt_met(vc);
    }

    /// Tells a machine and does what it asks for.
    fn lmt_tell(&mut self, io: &mut DevIo<'_>, req: ReqId, event: Event) -> Result<(), Fault> {
        let Some(t) = self.lmt.transfers.get_mut(req) else { return Err(Fault::Late) };
        let acts = match &mut t.machine {
            Machine::Send(m) => m.on(event)?,
            Machine::Recv(m) => m.on(event)?,
        };
        let moved = matches!(event, Event::WindowAck(_) | Event::Done);
        self.lmt_do(io, req, acts, moved);
        Ok(())
    }

    fn lmt_do(&mut self, io: &mut DevIo<'_>, req: ReqId, acts: Actions, moved: bool) {
        for act in acts {
            self.lmt_act(io, req, act, moved);
        }
    }

    /// Does what a machine asks for; `moved`: what windows that it gives back expose has moved.
    fn lmt_act(&mut self, io: &mut DevIo<'_>, req: ReqId, act: Action, moved: bool) {
        let Some(&Transfer { machine, vc, theirs, ring, offered, .. }) = self.lmt.transfers.get(req) else {
            return;
        };
        let from_sender = matches!(machine, Machine::Send(_));
        let ours = req.to_wire();
        let (sreq, rreq) = if from_sender { (ours, theirs) } else { (theirs, ours) };
        let cookie = |cookie_len| Packet::Cookie { from_sender, sreq, rreq, cookie_len };
        let answer = match act {
            Action::SendRts(first) => return self.send_rts(io, req, first),
            Action::SendCts(mode, first) => {
                let Machine::Recv(m) = machine else { return };
                if mode == Mode::Null {
                    self.forget_onesided(req);
                    self.lmt_took(req, false);
                    self.lmt_fell_back(io, vc, offered, m.total());
                }
                let cts = |cookie_len| Packet::Cts { sreq, rreq, data_sz: m.total(), cookie_len };
                let grant = match mode {
                    Mode::Coop => self.ring_name(vc).map(Cookie::GrantCoop),
                    Mode::Put => first.and_then(|w| self.keyed(req, w)).map(Cookie::GrantPut),
                    Mode::Null | Mode::Get => None,
                };
                match grant {
                    Some(cookie) => self.send_cookie(io, vc, &cookie, cts),
                    None => self.send_control(io, vc, cts(CookieLen::NONE)),
                }
                return;
            }
            Action::SendWindow(w) => {
                if let Some(keyed) = self.keyed(req, w) {
                    self.send_cookie(io, vc, &Cookie::Window(keyed), cookie);
                }
                return;
            }
            Action::Deregister(i) => return self.unexpose(io, vc, req, i, moved),
            Action::Move(w) => return self.begin_move(io, vc, req, w),
            Action::SendWindowAck(i) => return self.send_cookie(io, vc, &Cookie::WindowAck(i), cookie),
            Action::SendRefuse => return self.send_cookie(io, vc, &Cookie::Refuse, cookie),
            Action::SendAbort => return self.send_cookie(io, vc, &Cookie::Abort, cookie),
            Action::SendDone => return self.send_control(io, vc, Packet::Done { req: theirs }),
            Action::Copy(len) => return self.join_ring(vc, req, from_sender, len),
            Action::LeaveRing => return self.leave_ring(vc, req, from_sender),
            // Of data that comes as a message, the caller knows what is to be dropped.
            Action::Discard => return self.forget_in_ring(vc, req),
            Action::Finish(ending) => return self.lmt_finish(io, req, ending),
            Action::SendData(len) => {
                self.forget_onesided(req);
                let hdr = Packet::RndvData { rreq, len }.emit();
                match send_with(io, vc, req, &hdr) {
                    // The core finishes it.
                    Ok(Sent::Queued) => return,
                    Ok(Sent::Done) => Event::Moved,
                    Err(e) => return self.reqs.finish(io.core, req, Outcome::Failed(e)),
                }
            }
            Action::Attach => Event::Attached(self.attach_ring(vc, ring)),
            Action::Register(w, access) => Event::Registered(self.expose(io, vc, req, w, access)),
            // Only an owner that gives a transfer up asks for it, see `lmt_abandon`.
            Action::Sever => return,
        };
        if let Err(e) = self.lmt_tell(io, req, answer) {
            tracing::error!(%req, %e, ?answer, "a transfer does not take an answer");
        }
    }

    fn lmt_finish(&mut self, io: &mut DevIo<'_>, req: ReqId, ending: Ending) {
        let outcome = match ending {
            Ending::Done => Outcome::Done,
            Ending::Cancelled => Outcome::Cancelled,
            Ending::Aborted | Ending::Lost => {
                let peer = io.core.req(req).and_then(|r| r.vc).and_then(|vc| io.core.vc(vc));
                let cause = self.lmt.onesided.get_mut(req).and_then(|one| one.failure.take());
                Outcome::Failed(cause.unwrap_or_else(|| {
                    let text =
                        "the other side gave a large message up in the middle; did its scope end by a panic?";
                    VcError::new(VcErrorKind::Aborted, peer.map(|v| v.peer), text)
                }))
            }
        };
        if outcome == Outcome::Done
            && self.reqs.side.get(req).is_some_and(|m| matches!(m.role, Role::RndvRecv))
        {
            self.trace_received(req);
        }
        self.lmt_took(req, outcome == Outcome::Done);
        self.lmt.transfers.clear(req);
        self.forget_onesided(req);
        self.reqs.finish(io.core, req, outcome);
    }
}
