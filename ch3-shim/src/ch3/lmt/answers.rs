//! Packets of the other side: CTS, COOKIE, DONE and the data of the Null mode.

use netmod_core::{PacketFault, ReqId, VcId};
use netmod_lmt::cookie::{Cookie, Keyed};
use netmod_lmt::{Action, Event, Fault, Mode, RecvLmt, SendPhase};

use super::transfer::Machine;
use crate::ch3::{Ch3, DevIo};
use crate::pkt::Packet;

/// Returns the packet's fault for a fault of the machine.
fn fault(fault: Fault) -> Result<(), PacketFault> {
    match fault {
        Fault::Late => Ok(()),
        Fault::Violation(what) => Err(PacketFault::Violation { what: what.into() }),
    }
}

impl Ch3 {
    /// Handles CTS: the receiver has matched a message and chosen a mode.
    pub(in crate::ch3) fn cts(
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
            self.lmt.transfers.learn_key(req, keyed);
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

    /// Returns true if a request is a transfer under way on a VC.
    pub(super) fn is_transfer(&self, io: &DevIo<'_>, vc: VcId, req: ReqId) -> bool {
        let live = io.core.req(req).is_some_and(|r| r.vc == Some(vc) && !r.is_finished());
        live && self.lmt.transfers.get(req).is_some_and(|t| t.vc == vc)
    }

    /// Handles a COOKIE of a message.
    pub(in crate::ch3) fn lmt_packet(
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
                self.lmt.rings.leave(vc, req, false);
                let cookie = |cookie_len| Packet::Cookie { from_sender: false, sreq, rreq, cookie_len };
                self.send_cookie(io, vc, &Cookie::Abort, cookie);
            }
            // The cookie has crossed the end of the transfer.
            return Ok(());
        }
        let by_sender = self.lmt.transfers.get(req).is_some_and(|t| !t.is_send());
        if by_sender != from_sender {
            let what = "a large message's cookie that names the other side's request".into();
            return Err(PacketFault::Violation { what });
        }
        // Get has no CTS: the first cookie names the receive.
        if let Some(t) = self.lmt.transfers.get_mut(req).filter(|_| !from_sender) {
            t.theirs = rreq;
        }
        if let Some(keyed) = keyed {
            self.lmt.transfers.learn_key(req, keyed);
        }
        self.lmt_tell(io, req, event).or_else(fault)
    }

    /// Handles DONE, which names one request of this process.
    pub(in crate::ch3) fn lmt_done(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        req: u64,
    ) -> Result<(), PacketFault> {
        let req = ReqId::from_wire(req);
        if self.is_transfer(io, vc, req) {
            self.lmt_moved(req, vc);
            return self.lmt_tell(io, req, Event::Done).or_else(fault);
        }
        Err(PacketFault::Drop { what: format!("DONE for request {req}, which is not under way"), payload: 0 })
    }

    /// Handles the header of a rendezvous's data. Returns false if no receive expects it.
    pub(in crate::ch3) fn lmt_data(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId, len: u64) -> bool {
        let is_recv = self.lmt.transfers.get(req).is_some_and(|t| !t.is_send());
        is_recv && self.is_transfer(io, vc, req) && self.lmt_tell(io, req, Event::Data(len)).is_ok()
    }

    /// Ends a send whose message the receiver has taken out of its unexpected ones.
    pub(in crate::ch3) fn lmt_withdrawn(
        &mut self,
        io: &mut DevIo<'_>,
        req: ReqId,
    ) -> Result<(), PacketFault> {
        self.lmt_tell(io, req, Event::Withdrawn).or_else(fault)
    }
}
