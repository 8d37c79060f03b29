//! Large messages: what the machines of `netmod_lmt` ask for is done here, with packets, rings and requests.
//!
//! This file has the way from RTS to the end of a transfer; `arriving` has cookies that come in pieces, `copy` the
//! rings of the Cooperative mode.

mod arriving;
mod copy;

use netmod_core::slab::{ReqKind, VcKind};
use netmod_core::{Config, Netmod, Outcome, PacketFault, ReqId, SendBuf, Sent, SideTable, VcId};
use netmod_lmt::choice::{self, Side, Wish};
use netmod_lmt::cookie::{Cookie, Offer, Place, RingName};
use netmod_lmt::coop::{InLane, OutLane};
use netmod_lmt::{Action, Actions, Ending, Event, Fault, Mode, Modes, RecvLmt, SendLmt, SendPhase};

use super::pool::segment_of;
use super::{Ch3, DevIo, Owned, Role};
use crate::pkt::{CookieLen, Packet};

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
}

/// Rings of a VC, both ways.
#[derive(Debug, Default)]
struct Lanes {
    out: OutLane<ReqId>,
    inc: InLane<ReqId>,
}

/// What large messages need beside their requests.
#[derive(Debug)]
pub(crate) struct Lmt {
    wish: Wish,
    /// Shorter messages are not worth another mode, in bytes.
    min: u64,
    /// Where this process's shared memory is, if it has any and may use it.
    place: Option<Place>,
    transfers: SideTable<Transfer, ReqKind>,
    lanes: SideTable<Box<Lanes>, VcKind>,
    /// VCs that copy.
    copying: Vec<VcId>,
    /// Packets whose cookies are arriving, by the request of the cookie.
    arriving: Vec<(ReqId, Packet)>,
}

impl Lmt {
    /// As the configuration has it. `simulated`: the peers are not processes, and have no shared memory.
    pub(crate) fn new(cfg: &Config, simulated: bool) -> Lmt {
        let wish = Wish::of_name(cfg.lmt).unwrap_or(Wish::Only(Mode::Null));
        let place = match wish {
            Wish::Auto | Wish::Only(Mode::Coop) if !simulated => netmod_lmt::coop::place_here()
                .inspect_err(|error| tracing::warn!(%error, "no Cooperative mode"))
                .ok(),
            _ => None,
        };
        Lmt {
            wish,
            min: cfg.lmt_min as u64,
            place,
            transfers: SideTable::new(),
            lanes: SideTable::new(),
            copying: Vec::new(),
            arriving: Vec::new(),
        }
    }

    /// What this process can take part in.
    fn modes(&self) -> Modes {
        match self.place {
            Some(_) => Modes::NULL.with(Mode::Coop),
            None => Modes::NULL,
        }
    }

    /// The modes of an offer that both sides can take part in.
    fn common(&self, offer: &Offer) -> Modes {
        let mine = self.modes();
        let near = self.place == Some(offer.place);
        if near && mine.has(Mode::Coop) && offer.modes.has(Mode::Coop) {
            Modes::NULL.with(Mode::Coop)
        } else {
            Modes::NULL
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
    /// Sends the RTS of a message.
    pub(super) fn lmt_initiate(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId, total: u64, sync: bool) {
        let (machine, acts) = SendLmt::start(total, None);
        let side = Side { modes: self.lmt.modes(), wish: self.lmt.wish, min: self.lmt.min };
        let offered = choice::offer(side, total);
        let t = Transfer { machine: Machine::Send(machine), vc, theirs: 0, offered, ring: None };
        self.lmt.transfers.set(req, t);
        for act in acts {
            match act {
                Action::SendRts(_) => self.send_rts(io, vc, req, total, sync, offered),
                other => self.lmt_act(io, req, other),
            }
        }
    }

    fn send_rts(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        req: ReqId,
        data_sz: u64,
        sync: bool,
        offered: Modes,
    ) {
        let Some(env) = self.side.get(req).map(|m| m.env) else { return };
        let peer = self.vcs.get(vc).map(|s| s.rank);
        tracing::trace!(target: "netmod::message", %req, peer, tag = env.tag, bytes = data_sz, "RTS sent");
        let rts = |cookie_len| Packet::Rts { env, sreq: req.to_wire(), data_sz, cookie_len, sync };
        match self.lmt.place.filter(|_| offered != Modes::NULL) {
            Some(place) => {
                let offer = Cookie::Offer(Offer { modes: offered, place, first: None });
                self.send_cookie(io, vc, &offer, rts);
            }
            None => self.send_control(io, vc, rts(CookieLen::NONE)),
        }
    }

    /// Sends a packet with a cookie behind it, which is kept until it has left.
    fn send_cookie(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        cookie: &Cookie,
        packet: impl Fn(CookieLen) -> Packet,
    ) {
        let mut bytes = cookie.emit();
        let Some(len) = CookieLen::new(bytes.len()) else {
            tracing::error!(?cookie, "a cookie is longer than a packet takes");
            return;
        };
        let seg = segment_of(&mut bytes);
        let Some(data) = SendBuf::of_segment(&seg) else { return };
        match io.netmod.i_start_contig_msg(io.core, vc, &packet(len).emit(), data) {
            Ok(None) => {}
            Ok(Some(req)) => {
                self.own(io.core, req, Owned::Recv(bytes));
                self.forget(io.core, req);
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
        modes: Modes,
    ) {
        if let Some(r) = io.core.reqs.get_mut(req) {
            r.vc = Some(vc);
        }
        let side = Side { modes, wish: self.lmt.wish, min: self.lmt.min };
        let mut mode = choice::grant(side, room);
        if mode == Mode::Coop && !self.has_ring(vc) {
            mode = Mode::Null;
        }
        if let Some(m) = self.side.get(req) {
            let (peer, tag) = (m.status.source, m.status.tag);
            tracing::trace!(target: "netmod::message", %req, peer, tag, bytes = room, %mode, "CTS sent");
        }
        let (machine, acts) = RecvLmt::start(room, mode, 0, None);
        let machine = Machine::Recv(machine);
        self.lmt.transfers.set(req, Transfer { machine, vc, theirs: sreq, offered: modes, ring: None });
        self.lmt_do(io, req, acts);
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
        if !matches!(send.phase(), SendPhase::Offered(_)) {
            return Err(drop());
        }
        let (mode, first) = match cookie {
            None => (Mode::Null, None),
            Some(Cookie::GrantCoop(name)) => {
                t.ring = Some(name);
                (Mode::Coop, None)
            }
            Some(Cookie::GrantPut(keyed)) => (Mode::Put, Some(keyed.window)),
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
        let acts = match send.on(Event::Cts { mode, total, first }) {
            Ok(acts) => acts,
            Err(e) => return fault(e),
        };
        t.theirs = rreq;
        // The receiver's decision. A refusal of the mode does not change it.
        if let Some(r) = io.core.reqs.get_mut(req) {
            r.seg.truncate(usize::try_from(total).unwrap_or(usize::MAX));
        }
        let tag = self.side.get(req).map(|m| m.env.tag);
        tracing::trace!(target: "netmod::message", %req, tag, bytes = total, %mode, "CTS came");
        self.lmt_do(io, req, acts);
        Ok(())
    }

    /// Whether a request is under way on a VC.
    fn is_transfer(&self, io: &DevIo<'_>, vc: VcId, req: ReqId) -> bool {
        let live = io.core.reqs.get(req).is_some_and(|r| r.vc == Some(vc) && !r.is_finished());
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
        self.lmt_tell(io, req, event).or_else(fault)
    }

    /// DONE, which names one request of this process.
    pub(super) fn lmt_done(&mut self, io: &mut DevIo<'_>, vc: VcId, req: u64) -> Result<(), PacketFault> {
        let req = ReqId::from_wire(req);
        if self.is_transfer(io, vc, req) {
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

    /// A transfer is given up by its owner: its memory is used no more. What must happen to the VC is the caller's
    /// affair.
    pub(super) fn lmt_abandon(&mut self, io: &mut DevIo<'_>, req: ReqId) {
        let Some(vc) = self.lmt.transfers.get(req).map(|t| t.vc) else { return };
        if self.is_transfer(io, vc, req)
            && let Some(t) = self.lmt.transfers.get_mut(req)
        {
            let acts = match &mut t.machine {
                Machine::Send(m) => m.on(Event::Abandon),
                Machine::Recv(m) => m.on(Event::Abandon),
            };
            // The caller finishes the request, and gives up the VC of a send.
            let rest = |act: &Action| !matches!(act, Action::Finish(_) | Action::Sever);
            for act in acts.into_iter().flatten().filter(rest) {
                self.lmt_act(io, req, act);
            }
        }
        self.lmt.transfers.clear(req);
    }

    /// The VC is lost or at its end: its rings go. Its requests are finished by the caller.
    pub(super) fn lmt_lost(&mut self, io: &mut DevIo<'_>, vc: VcId) {
        // What was put into the ring before the end is here.
        if self.lmt.lanes.get(vc).is_some() {
            self.copy_in_rest(io, vc);
        }
        self.lmt.copying.retain(|v| *v != vc);
        self.lmt.lanes.remove(vc);
    }

    /// Tells a machine and does what it asks for.
    fn lmt_tell(&mut self, io: &mut DevIo<'_>, req: ReqId, event: Event) -> Result<(), Fault> {
        let Some(t) = self.lmt.transfers.get_mut(req) else { return Err(Fault::Late) };
        let acts = match &mut t.machine {
            Machine::Send(m) => m.on(event)?,
            Machine::Recv(m) => m.on(event)?,
        };
        self.lmt_do(io, req, acts);
        Ok(())
    }

    fn lmt_do(&mut self, io: &mut DevIo<'_>, req: ReqId, acts: Actions) {
        for act in acts {
            self.lmt_act(io, req, act);
        }
    }

    fn lmt_act(&mut self, io: &mut DevIo<'_>, req: ReqId, act: Action) {
        let Some(&Transfer { machine, vc, theirs, ring, .. }) = self.lmt.transfers.get(req) else { return };
        let from_sender = matches!(machine, Machine::Send(_));
        let ours = req.to_wire();
        let (sreq, rreq) = if from_sender { (ours, theirs) } else { (theirs, ours) };
        let cookie = |cookie_len| Packet::Cookie { from_sender, sreq, rreq, cookie_len };
        let answer = match act {
            Action::SendCts(mode, _) => {
                let Machine::Recv(m) = machine else { return };
                let cts = |cookie_len| Packet::Cts { sreq, rreq, data_sz: m.total(), cookie_len };
                match self.ring_name(vc).filter(|_| mode == Mode::Coop) {
                    Some(name) => self.send_cookie(io, vc, &Cookie::GrantCoop(name), cts),
                    None => self.send_control(io, vc, cts(CookieLen::NONE)),
                }
                return;
            }
            Action::SendAt(i) => return self.send_cookie(io, vc, &Cookie::At(i), cookie),
            Action::SendRefuse => return self.send_cookie(io, vc, &Cookie::Refuse, cookie),
            Action::SendAbort => return self.send_cookie(io, vc, &Cookie::Abort, cookie),
            Action::SendDone => return self.send_control(io, vc, Packet::Done { req: theirs }),
            Action::Copy(len) => return self.join_ring(vc, req, from_sender, len),
            Action::LeaveRing => return self.leave_ring(vc, req, from_sender),
            // Of data that comes as a message, the caller knows what is to be dropped.
            Action::Discard => return self.forget_in_ring(vc, req),
            Action::Finish(ending) => return self.lmt_finish(io, req, ending),
            Action::SendData(len) => {
                let hdr = Packet::RndvData { rreq, len }.emit();
                match io.netmod.send_noncontig(io.core, vc, req, &hdr) {
                    // The core finishes it.
                    Ok(Sent::Queued) => return,
                    Ok(Sent::Done) => Event::Moved,
                    Err(e) => return self.finish(io.core, req, Outcome::Failed(e)),
                }
            }
            Action::Attach => Event::Attached(self.attach_ring(vc, ring)),
            // No netmod here has one-sided transfers, so that neither Put nor Get is offered: without
            // registrations the machines take the Null mode.
            Action::Register(..) => Event::Registered(false),
            Action::Move(_) => Event::Ended(false),
            Action::SendRts(_) | Action::SendWindow(_) | Action::Deregister(_) | Action::Sever => return,
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
                let peer = io.core.reqs.get(req).and_then(|r| r.vc).and_then(|vc| io.core.vcs.get(vc));
                Outcome::Failed(netmod_core::VcError::new(
                    netmod_core::VcErrorKind::Aborted,
                    peer.map(|v| v.peer),
                    "the other side gave a large message up in the middle; did its scope end by a panic?",
                ))
            }
        };
        if outcome == Outcome::Done && self.side.get(req).is_some_and(|m| matches!(m.role, Role::RndvRecv)) {
            self.trace_received(req);
        }
        self.lmt.transfers.clear(req);
        self.finish(io.core, req, outcome);
    }
}
