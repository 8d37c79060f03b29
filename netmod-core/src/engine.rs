//! The progress engine: drives a netmod, reassembles packets, finishes requests.

use crate::buf::RxBytes;
use crate::error::{DeviceError, PacketFault, VcError, VcErrorKind};
use crate::event::{Event, Events};
use crate::header::{HDR_LEN, Header, NETMOD_FRAME};
use crate::netmod::{Netmod, PollOrder};
use crate::request::{OnDone, Outcome};
use crate::slab::{ReqId, VcId};
use crate::state::Core;
use crate::time::Time;

/// The engine as a handler of the upper layer may use it: core and netmod, but no progress.
#[derive(Debug)]
pub struct Io<'a, N> {
    /// VCs and requests.
    pub core: &'a mut Core,
    /// The netmod.
    pub netmod: &'a mut N,
    /// Time of the caller.
    pub now: Time,
}

impl<N> Io<'_, N> {
    /// Returns the same for a shorter lifetime.
    #[inline]
    pub fn reborrow(&mut self) -> Io<'_, N> {
        Io { core: self.core, netmod: self.netmod, now: self.now }
    }
}

/// The upper layer's answer when all data of a request has moved.
///
/// There is no answer "more follows", unlike in Nemesis's OnDataAvail: a segment describes all of a
/// message from the start, whatever its datatype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataAvail {
    /// The request is finished.
    Complete,
    /// The upper layer will finish it later.
    Later,
}

/// The layer above the engine.
///
/// # Safety
///
/// An implementation finishes or removes a request, and frees its memory, only when no netmod can
/// access that memory any more: the netmod has handed the request back or cancelled it, or never
/// had it.
#[allow(unsafe_code)]
pub unsafe trait Upper<N> {
    /// Handles a header that arrived on a VC, with the bytes after it (its payload, and later
    /// messages).
    ///
    /// Returns how many bytes of `rest` it used. If the payload is longer than `rest`, the handler
    /// uses all of `rest` and makes a receive active for the remaining bytes. It may also use later
    /// complete messages, except for a netmod's control frames ([`NETMOD_FRAME`]), and reports them
    /// by [`Core::count_received`].
    ///
    /// # Errors
    ///
    /// By severity, see [`PacketFault`].
    fn packet(
        &mut self,
        io: &mut Io<'_, N>,
        vc: VcId,
        hdr: &Header,
        rest: RxBytes<'_>,
    ) -> Result<usize, PacketFault>;

    /// Handles the end of a request with [`OnDone::Upper`]: all its data has moved.
    fn on_data_avail(&mut self, io: &mut Io<'_, N>, vc: VcId, req: ReqId) -> DataAvail;

    /// Handles another event: `Up`, `Resumed`, `Terminated`, `Down`, `NeedCard`, `NewPeer` or
    /// `RmaDone`.
    fn on_event(&mut self, io: &mut Io<'_, N>, event: Event);
}

/// The result of [`Engine::progress`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Number of events handled and sends finished, plus one for progress without an event; zero
    /// for none.
    pub events: usize,
}

/// A netmod, the core, and the loop between them.
#[derive(Debug)]
pub struct Engine<N> {
    /// VCs and requests.
    pub core: Core,
    /// The netmod.
    pub netmod: N,
    events: Events,
}

impl<N: Netmod> Engine<N> {
    /// Creates an engine over a netmod.
    pub fn new(netmod: N, core: Core) -> Engine<N> {
        Engine { core, netmod, events: Events::default() }
    }

    /// Returns what handlers get.
    #[inline]
    pub fn io(&mut self, now: Time) -> Io<'_, N> {
        Io { core: &mut self.core, netmod: &mut self.netmod, now }
    }

    /// Polls the netmod once and handles the events.
    ///
    /// # Errors
    ///
    /// Fails if the netmod as a whole cannot continue.
    #[inline]
    pub fn progress<U: Upper<N>>(
        &mut self,
        upper: &mut U,
        order: PollOrder,
        now: Time,
    ) -> Result<Progress, DeviceError> {
        self.netmod.poll(&mut self.core, order, now, &mut self.events)?;
        let mut n = usize::from(self.events.take_progress());
        loop {
            while let Some((vc, buf)) = self.events.pop_rx() {
                n += 1;
                self.handle_pkt(upper, vc, buf.bytes(), now);
                self.netmod.release(buf);
            }
            let Some(other) = self.events.pop() else { break };
            n += 1;
            self.handle_event(upper, other, now);
        }
        if !self.core.sent.is_empty() {
            n += self.handle_sent(upper, now);
        }
        Ok(Progress { events: n })
    }

    /// Handles events other than bytes.
    ///
    /// Out of line, like other rare paths of the engine: each system call leaves little of this
    /// code in the instruction cache.
    #[inline(never)]
    fn handle_event<U: Upper<N>>(&mut self, upper: &mut U, event: Event, now: Time) {
        match event {
            Event::RecvDone { vc } => self.recv_done(upper, vc, now),
            Event::Down { vc, error } => {
                let cut = self.core.reset_receive(vc);
                if let Some(req) = cut {
                    self.core.finish(req, Outcome::Failed(error.clone()));
                }
                upper.on_event(&mut self.io(now), Event::Down { vc, error });
            }
            other => upper.on_event(&mut self.io(now), other),
        }
    }

    /// Reports finished sends to the upper layer; returns their number.
    #[inline(never)]
    fn handle_sent<U: Upper<N>>(&mut self, upper: &mut U, now: Time) -> usize {
        let mut n = 0;
        while let Some((vc, req)) = self.core.sent.pop_front() {
            n += 1;
            if !self.core.is_finished(req)
                && upper.on_data_avail(&mut self.io(now), vc, req) == DataAvail::Complete
            {
                self.core.finish(req, Outcome::Done);
            }
        }
        n
    }

    /// Handles a control frame of the netmod; returns true if the VC continues.
    #[inline(never)]
    fn handle_control(&mut self, vc: VcId, hdr: &Header) -> bool {
        match self.netmod.control_frame(&mut self.core, vc, hdr) {
            Ok(()) => true,
            Err(fault) => self.faulty(vc, fault),
        }
    }

    /// Handles an error in a packet; returns true if the VC continues.
    #[cold]
    #[inline(never)]
    fn faulty(&mut self, vc: VcId, fault: PacketFault) -> bool {
        match fault {
            PacketFault::Drop { what, payload } => {
                self.core.count_fault(vc, &what);
                if let Some(v) = self.core.vc_mut(vc) {
                    v.discard += payload;
                }
                true
            }
            PacketFault::Violation { what } => {
                self.violation(vc, &what);
                false
            }
        }
    }

    /// Handles bytes that arrived on a VC: any number of packets, cut anywhere.
    ///
    /// Bytes of a VC that is gone are ignored; a VC whose peer violates the protocol is aborted.
    #[inline]
    pub fn handle_pkt<U: Upper<N>>(&mut self, upper: &mut U, vc: VcId, mut bytes: RxBytes<'_>, now: Time) {
        let mut uncounted = bytes.len() as u64;
        while !bytes.is_empty() {
            let Some(v) = self.core.vc_mut(vc) else { return };
            v.stats.rx_bytes += core::mem::take(&mut uncounted);
            if v.recv_active().is_some() || v.discard > 0 {
                bytes = self.feed_active(upper, vc, bytes, now);
                continue;
            }
            let hdr: Header;
            if v.pending_len == 0
                && let Some(whole) = bytes.first::<HDR_LEN>()
            {
                hdr = whole;
                bytes = bytes.skip(HDR_LEN);
            } else {
                let have = usize::from(v.pending_len);
                let n = bytes.copy_to(&mut v.pending_pkt()[have..]);
                bytes = bytes.skip(n);
                v.pending_len += n as u8;
                if usize::from(v.pending_len) < HDR_LEN {
                    return;
                }
                v.pending_len = 0;
                hdr = *v.pending_pkt();
            }
            if hdr[0] == NETMOD_FRAME {
                if !self.handle_control(vc, &hdr) {
                    return;
                }
                continue;
            }
            v.stats.rx_msgs += 1;
            let mut io = Io { core: &mut self.core, netmod: &mut self.netmod, now };
            match upper.packet(&mut io, vc, &hdr, bytes) {
                Ok(used) => bytes = bytes.skip(used),
                Err(fault) => {
                    if !self.faulty(vc, fault) {
                        return;
                    }
                }
            }
        }
    }

    /// Passes bytes to the active receive, or discards them; returns the rest.
    #[inline(never)]
    fn feed_active<'b, U: Upper<N>>(
        &mut self,
        upper: &mut U,
        vc: VcId,
        bytes: RxBytes<'b>,
        now: Time,
    ) -> RxBytes<'b> {
        let Some(v) = self.core.vc_mut(vc) else { return bytes.skip(bytes.len()) };
        debug_assert!(v.pending_len == 0, "pending header bytes beside an active receive");
        let Some(req) = v.recv_active() else {
            let n = v.discard.min(bytes.len() as u64);
            v.discard -= n;
            return bytes.skip(n as usize);
        };
        let Some(r) = self.core.req_mut(req) else {
            // Nobody may remove an active request from the slab; without it the length of what
            // follows is unknown.
            self.violation(vc, "the receive under way has vanished");
            return bytes.skip(bytes.len());
        };
        let n = r.seg.unpack(bytes);
        let mut rest = bytes.skip(n);
        if r.seg.is_done() {
            let drop = r.excess.min(rest.len() as u64);
            r.excess -= drop;
            rest = rest.skip(drop as usize);
            if r.excess == 0 {
                self.recv_done(upper, vc, now);
            }
        }
        rest
    }

    /// Handles the end of a VC's active receive.
    #[inline(never)]
    fn recv_done<U: Upper<N>>(&mut self, upper: &mut U, vc: VcId, now: Time) {
        let Some(req) = self.core.vc_mut(vc).and_then(|v| v.take_recv_active()) else { return };
        let Some(r) = self.core.req(req) else { return };
        if r.on_done == OnDone::Complete
            || upper.on_data_avail(&mut self.io(now), vc, req) == DataAvail::Complete
        {
            self.core.finish(req, Outcome::Done);
        }
    }

    #[cold]
    fn violation(&mut self, vc: VcId, what: &str) {
        self.core.count_fault(vc, what);
        let error = VcError::new(
            VcErrorKind::Protocol,
            self.core.peer(vc),
            format!("protocol violation by the peer: {what}; do both sides run the same version?"),
        );
        self.netmod.vc_abort(&mut self.core, vc, error);
    }
}
