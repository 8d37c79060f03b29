//! The beginning of a transfer: RTS at the sender, the choice of the mode at the receiver.

use netmod_core::{ReqId, VcId};
use netmod_lmt::autotune::Strategy;
use netmod_lmt::cookie::{Cookie, Offer};
use netmod_lmt::{Mode, Modes, RecvLmt, SendLmt, Window, choice};

use super::announced::Announced;
use super::part::Part;
use super::transfer::{Machine, Transfer};
use crate::ch3::{Ch3, DevIo};
use crate::pkt::{CookieLen, Packet};
use crate::status::Status;

impl Ch3 {
    /// Returns what this side can take of an offer.
    pub(super) fn lmt_announced(&mut self, io: &mut DevIo<'_>, vc: VcId, offer: Offer) -> Announced {
        if offer.modes.has(Mode::Coop)
            && let Some(pair) = self.lmt.rings.get_mut(vc)
        {
            pair.rest.offered();
        }
        let mut modes = offer.modes.and(self.lmt_modes(io, vc, Part::Receiver));
        if self.lmt.rings.domain != Some(offer.domain) {
            modes = modes.without(Mode::Coop);
            self.lmt_elsewhere(io, vc, offer.modes);
        }
        Announced { modes, first: offer.first }
    }

    /// Sends the RTS of a message.
    pub(in crate::ch3) fn lmt_initiate(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        req: ReqId,
        total: u64,
        sync: bool,
    ) {
        let modes = self.lmt_modes(io, vc, Part::Sender(total));
        let side = self.lmt_side_of(io, vc, req, modes, total);
        let offered = choice::offer(side, total);
        self.lmt_chosen(io, vc, Part::Sender(total), offered, total);
        let get = offered.has(Mode::Get).then(|| self.first_window(io, vc, req));
        let (machine, acts) = SendLmt::start(total, get);
        let mut t = Transfer::new(Machine::Send(machine), vc, offered);
        t.sync = sync;
        self.lmt.transfers.begin(req, t);
        self.lmt_do(io, req, acts, false);
    }

    /// Sends RTS, with the first window of Get if there is one.
    pub(super) fn send_rts(&mut self, io: &mut DevIo<'_>, req: ReqId, first: Option<Window>) {
        let Some(env) = self.reqs.side.get(req).map(|m| m.env) else { return };
        let Some(t) = self.lmt.transfers.get_mut(req) else { return };
        let first = first.and_then(|w| t.keyed(w));
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
        // The default domain is no process's.
        let domain = self.lmt.rings.domain.unwrap_or_default();
        self.send_cookie(io, vc, &Cookie::Offer(Offer { modes: offered, domain, first }), rts);
    }

    /// Starts the transfer of an announced message of which its receive takes `room` bytes. The
    /// receiver chooses the mode among those that both sides can take part in.
    pub(in crate::ch3) fn lmt_start_recv(
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
            mode = self.lmt.choosing.tried_mode(vc, mode, room);
        }
        self.lmt_chosen(io, vc, Part::Receiver, modes, room);
        if mode == Mode::Coop && !self.lmt.rings.open(vc) {
            mode = Mode::Null;
        }
        let timed = Strategy::of(mode).filter(|_| tried);
        if let Some(m) = self.reqs.side.get(req) {
            let Status { source: peer, tag, .. } = m.matched.status();
            tracing::trace!(target: "netmod::message", %req, peer, tag, bytes = room, %mode, "CTS sent");
        }
        let window = if mode == Mode::Put { self.first_window(io, vc, req) } else { 0 };
        let first = first.filter(|_| mode == Mode::Get);
        let (machine, acts) = RecvLmt::start(room, mode, window, first.map(|keyed| keyed.window));
        let mut t = Transfer::new(Machine::Recv(machine), vc, modes);
        (t.theirs, t.timed) = (sreq, timed);
        self.lmt.transfers.begin(req, t);
        if let Some(keyed) = first {
            self.lmt.transfers.learn_key(req, keyed);
        }
        self.lmt.choosing.begin_timing(vc, timed);
        self.lmt_do(io, req, acts, false);
    }
}
