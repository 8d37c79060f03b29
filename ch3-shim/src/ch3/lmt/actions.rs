//! The actions of the machines, carried out, and the ends of transfers.

use netmod_core::{Outcome, ReqId, Sent, VcId};
use netmod_lmt::cookie::Cookie;
use netmod_lmt::{Action, Actions, Ending, Event, Fault, Mode};

use super::transfer::Machine;
use crate::ch3::lent::send_with;
use crate::ch3::{Ch3, DevIo, Role};
use crate::pkt::{CookieLen, Packet};

impl Ch3 {
    /// Gives a transfer up for its owner; its memory is accessed no more. The caller finishes the
    /// request. Returns true if the VC must be given up with it; `None` if there is no transfer.
    pub(in crate::ch3) fn lmt_abandon(&mut self, io: &mut DevIo<'_>, req: ReqId) -> Option<bool> {
        self.lmt_end(io, req, Event::Abandon)
    }

    /// Ends the transfer of a request whose VC is lost. The caller finishes the request.
    pub(in crate::ch3) fn lmt_fail(&mut self, io: &mut DevIo<'_>, req: ReqId) {
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
                acts.extend(t.on(event).into_iter().flatten());
                if moved {
                    acts.extend(t.on(Event::Ended(false)).into_iter().flatten());
                }
            }
            sever = Some(acts.contains(&Action::Sever));
            for act in acts.into_iter().filter(|act| !matches!(act, Action::Finish(_) | Action::Sever)) {
                self.lmt_act(io, req, act, false);
            }
        }
        self.lmt.end(req, false);
        sever
    }

    /// Drops the rings of a VC that is lost or at its end. The caller finishes its requests.
    pub(in crate::ch3) fn lmt_lost(&mut self, io: &mut DevIo<'_>, vc: VcId) {
        // Bytes that were put into the ring before the end are here.
        if self.lmt.rings.get(vc).is_some() {
            self.copy_in_rest(io, vc);
        }
        self.lmt.rings.drop_vc(vc);
        self.lmt.choosing.drop_vc(vc);
    }

    /// Gives a transfer an event and carries its actions out.
    pub(super) fn lmt_tell(&mut self, io: &mut DevIo<'_>, req: ReqId, event: Event) -> Result<(), Fault> {
        let Some(t) = self.lmt.transfers.get_mut(req) else { return Err(Fault::Late) };
        let acts = t.on(event)?;
        let moved = matches!(event, Event::WindowAck(_) | Event::Done);
        self.lmt_do(io, req, acts, moved);
        Ok(())
    }

    pub(super) fn lmt_do(&mut self, io: &mut DevIo<'_>, req: ReqId, acts: Actions, moved: bool) {
        for act in acts {
            self.lmt_act(io, req, act, moved);
        }
    }

    /// Carries an action out. `moved`: the data of a window that it deregisters has moved.
    fn lmt_act(&mut self, io: &mut DevIo<'_>, req: ReqId, act: Action, moved: bool) {
        let Some(t) = self.lmt.transfers.get(req) else { return };
        let (vc, theirs, from_sender, (sreq, rreq)) = (t.vc, t.theirs, t.is_send(), t.requests(req));
        let cookie = |cookie_len| Packet::Cookie { from_sender, sreq, rreq, cookie_len };
        let answer = match act {
            Action::SendRts(first) => return self.send_rts(io, req, first),
            Action::SendCts(mode, first) => {
                let Machine::Recv(m) = t.machine else { return };
                let (total, offered) = (m.total(), t.offered);
                let first = first.and_then(|w| t.keyed(w));
                self.lmt.received.count(mode, total);
                if mode == Mode::Null {
                    self.lmt.transfers.drop_windows(req);
                    self.lmt.end_timing(req, false);
                    self.lmt_fell_back(io, vc, offered, total);
                }
                let cts = |cookie_len| Packet::Cts { sreq, rreq, data_sz: total, cookie_len };
                let grant = match mode {
                    Mode::Coop => self.lmt.rings.name(vc).map(Cookie::GrantCoop),
                    Mode::Put => first.map(Cookie::GrantPut),
                    Mode::Null | Mode::Get => None,
                };
                match grant {
                    Some(cookie) => self.send_cookie(io, vc, &cookie, cts),
                    None => self.send_control(io, vc, cts(CookieLen::NONE)),
                }
                return;
            }
            Action::SendWindow(w) => {
                if let Some(keyed) = t.keyed(w) {
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
            Action::Copy(len) => {
                self.stats.through_rings += u64::from(self.lmt.rings.join(vc, req, from_sender, len));
                return;
            }
            Action::LeaveRing => return self.lmt.rings.leave(vc, req, from_sender),
            // The engine drops data that comes as a message.
            Action::Discard => return self.lmt.rings.discard(vc, req),
            Action::Finish(ending) => return self.lmt_finish(io, req, ending),
            Action::SendData(len) => {
                self.lmt.transfers.drop_windows(req);
                let hdr = Packet::RndvData { rreq, len }.emit();
                match send_with(io, vc, req, &hdr) {
                    // The core finishes it.
                    Ok(Sent::Queued) => return,
                    Ok(Sent::Done) => Event::Moved,
                    Err(e) => return self.reqs.finish(io.core, req, Outcome::Failed(e)),
                }
            }
            Action::Attach => {
                let ring = t.ring;
                Event::Attached(self.lmt.rings.attach(vc, ring))
            }
            Action::Register(w, access) => Event::Registered(self.expose(io, vc, req, w, access)),
            // `lmt_abandon` tells its caller.
            Action::Sever => return,
        };
        if let Err(e) = self.lmt_tell(io, req, answer) {
            tracing::error!(%req, %e, ?answer, "a transfer does not take an answer");
        }
    }

    fn lmt_finish(&mut self, io: &mut DevIo<'_>, req: ReqId, ending: Ending) {
        let peer = io.core.req(req).and_then(|r| r.vc).and_then(|vc| io.core.vc(vc));
        let peer = peer.map(|v| v.peer);
        let Some(outcome) = self.lmt.transfers.get_mut(req).map(|t| t.outcome(ending, peer)) else { return };
        if outcome == Outcome::Done
            && self.reqs.side.get(req).is_some_and(|m| matches!(m.role, Role::RndvRecv))
        {
            self.trace_received(req);
        }
        self.lmt.end(req, outcome == Outcome::Done);
        self.reqs.finish(io.core, req, outcome);
    }
}
