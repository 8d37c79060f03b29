//! Cookies, which follow their packets and may arrive in pieces.

use netmod_core::{Netmod, OnDone, PacketFault, ReqId, RxBytes, VcError, VcErrorKind, VcId, VcLife};
use netmod_lmt::Event;
use netmod_lmt::cookie::Cookie;

use crate::ch3::pool::segment_of;
use crate::ch3::{Ch3, DevIo, MpiReq, Owned, Role};
use crate::pkt::{CookieLen, Packet};
use crate::tagmatch::Envelope;

/// Length that few cookies exceed, in bytes.
const COOKIE: usize = 256;

impl Ch3 {
    /// Sends a packet with a cookie behind it. The cookie is kept until it has left.
    pub(super) fn send_cookie(
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

    /// Handles a packet with a cookie, of which `rest` begins with what is here. Returns the bytes
    /// of `rest` that it took.
    #[inline(never)]
    pub(in crate::ch3) fn with_cookie(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        pkt: Packet,
        rest: RxBytes<'_>,
    ) -> Result<usize, PacketFault> {
        let len = usize::try_from(pkt.payload_len()).unwrap_or(usize::MAX);
        let here = rest.take(len);
        let mut buf = self.reqs.pool.take(len);
        let n = here.copy_to(&mut buf);
        if n == len {
            let result = self.cookie_came(io, vc, pkt, &buf);
            self.reqs.pool.give(buf);
            return result.map(|()| n);
        }
        let seg = segment_of(&mut buf[n..]);
        let mut mpi = MpiReq::new(Role::Cookie, Envelope::new(0, 0, 0));
        mpi.owned = Owned::Recv(buf);
        let req = self.reqs.make(io.core, Some(vc), seg, mpi);
        if let Some(r) = io.core.req_mut(req) {
            r.on_done = OnDone::Upper;
        }
        self.lmt.arriving.push((req, pkt));
        io.core.set_recv_active(vc, req);
        Ok(n)
    }

    /// Handles a cookie whose rest has arrived.
    pub(in crate::ch3) fn cookie_arrived(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId) {
        let buf = self.reqs.take_buffer(io.core, req);
        let at = self.lmt.arriving.iter().position(|(r, _)| *r == req);
        let (Some(buf), Some(at)) = (buf, at) else { return };
        let (_, pkt) = self.lmt.arriving.swap_remove(at);
        let result = self.cookie_came(io, vc, pkt, &buf);
        self.reqs.pool.give(buf);
        match result {
            Ok(()) => {}
            Err(PacketFault::Drop { what, .. }) => io.core.count_fault(vc, &what),
            Err(PacketFault::Violation { what }) => {
                io.core.count_fault(vc, &what);
                let peer = io.core.vc(vc).map(|v| v.peer);
                let text =
                    format!("protocol violation by the peer: {what}; do both sides run the same version?");
                io.netmod.vc_abort(io.core, vc, VcError::new(VcErrorKind::Protocol, peer, text));
            }
        }
    }

    /// Drops a cookie that is arriving on a lost VC.
    pub(in crate::ch3) fn cookie_lost(&mut self, core: &mut netmod_core::Core, req: ReqId) {
        self.lmt.arriving.retain(|(r, _)| *r != req);
        self.reqs.free_arriving(core, req);
    }

    fn cookie_came(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        pkt: Packet,
        bytes: &[u8],
    ) -> Result<(), PacketFault> {
        let cookie = Cookie::parse(bytes).map_err(|e| PacketFault::Violation { what: e.to_string() })?;
        let misplaced = || PacketFault::Violation { what: "a cookie with a packet of another kind".into() };
        match (pkt, cookie) {
            (Packet::Rts { env, sreq, data_sz, .. }, Cookie::Offer(offer)) => {
                let announced = self.lmt_announced(io, vc, offer);
                self.rts(io, vc, env, sreq, data_sz, announced)
            }
            (Packet::Cts { sreq, rreq, data_sz, .. }, cookie) => {
                self.cts(io, vc, (sreq, rreq), data_sz, Some(cookie))
            }
            (Packet::Cookie { from_sender, sreq, rreq, .. }, cookie) => {
                let (event, keyed) = match cookie {
                    // Its arrival has woken this process.
                    Cookie::Wake => return Ok(()),
                    Cookie::Rest(accepted) => {
                        self.peer_rests(io, vc, accepted);
                        return Ok(());
                    }
                    Cookie::Rested => return self.peer_rested(vc),
                    Cookie::Window(keyed) => (Event::Window(keyed.window), Some(keyed)),
                    Cookie::WindowAck(index) => (Event::WindowAck(index), None),
                    Cookie::Refuse => (Event::Refused, None),
                    Cookie::Abort => (Event::Abort, None),
                    Cookie::Offer(_) | Cookie::GrantPut(_) | Cookie::GrantCoop(_) => return Err(misplaced()),
                };
                self.lmt_packet(io, vc, from_sender, (sreq, rreq), event, keyed)
            }
            _ => Err(misplaced()),
        }
    }
}
