//! The progress engine: drives a netmod, reassembles packets, finishes requests.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::buf::{IoVec, RxBytes};
use crate::completion::CompletionTable;
use crate::error::{DeviceError, PacketFault, VcError, VcErrorKind};
use crate::event::{Event, Events};
use crate::netmod::{HDR_LEN, Header, NETMOD_FRAME, Netmod, PeerName, PollOrder};
use crate::request::{OnDone, Outcome, Request};
use crate::slab::{ReqId, ReqKind, Slab, VcId, VcKind};
use crate::time::Time;
use crate::vc::Vc;

/// The memory for the next payload bytes of a VC ([`Core::recv_target`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecvTarget {
    /// Number of list entries that were filled.
    pub pieces: usize,
    /// Their size in bytes; zero if there is no target.
    pub bytes: usize,
    /// True if they cover the rest of the receive, so that later bytes may follow them.
    pub whole: bool,
}

/// The state that netmods and the layer above share: VCs and requests.
#[derive(Debug, Default)]
pub struct Core {
    /// Virtual connections.
    pub vcs: Slab<Vc, VcKind>,
    /// Requests.
    pub reqs: Slab<Request, ReqKind>,
    /// Sends with [`OnDone::Upper`] whose data was sent, in order.
    sent: VecDeque<(VcId, ReqId)>,
    /// Table in which other threads see finished requests, if there are any.
    completions: Option<Arc<CompletionTable>>,
    /// Flag of [`Core::is_staged`].
    staged: bool,
    /// Requests for [`Core::next_released`].
    released: Vec<ReqId>,
}

impl Core {
    /// Creates an empty core, with room for `requests` requests without allocation.
    pub fn new(requests: usize) -> Core {
        let mut core = Core { sent: VecDeque::with_capacity(64), ..Core::default() };
        core.reqs.reserve(requests);
        core
    }

    /// Notes that staged data waits for the next poll or flush. For netmods.
    #[inline]
    pub fn note_staged(&mut self) {
        self.staged = true;
    }

    /// Returns true if a netmod may have staged data for the next poll or flush.
    ///
    /// A caller that makes no call for a while must make sure that one follows.
    #[inline]
    pub fn is_staged(&self) -> bool {
        self.staged
    }

    /// Clears the flag before a flush. A netmod that still keeps data back sets it again.
    #[inline]
    pub fn clear_staged(&mut self) {
        self.staged = false;
    }

    /// Returns true if the request is finished, or not in the slab.
    #[inline]
    pub fn is_finished(&self, req: ReqId) -> bool {
        self.reqs.get(req).is_none_or(Request::is_finished)
    }

    /// Finishes a request. A finished one keeps its outcome; a detached one leaves the slab.
    #[inline]
    pub fn finish(&mut self, req: ReqId, outcome: Outcome) {
        if let Some(r) = self.reqs.get_mut(req)
            && !r.is_finished()
        {
            r.outcome = outcome;
            if r.detached {
                if r.reported {
                    self.released.push(req);
                }
                self.reqs.remove(req);
            }
            self.announce(req);
        }
    }

    /// Maintains a completion table from now on, for threads that do not hold the engine.
    pub fn keep_completions(&mut self, completions: Arc<CompletionTable>) {
        self.completions = Some(completions);
    }

    /// Publishes a request whose outcome was set other than by [`Core::finish`].
    #[inline]
    pub fn announce(&self, req: ReqId) {
        if let Some(completions) = &self.completions {
            completions.set(req);
        }
    }

    /// Retires one share of a finished request; returns its outcome. `None` if there is no such
    /// request.
    #[inline]
    pub fn take(&mut self, req: ReqId) -> Option<Outcome> {
        let r = self.reqs.get_mut(req)?;
        if r.shares > 1 {
            r.shares -= 1;
            r.parted = true;
            return Some(r.outcome.clone());
        }
        self.reqs.remove(req).map(|r| r.outcome)
    }

    /// Detaches one share of a request: the request leaves the slab when it is finished and has no
    /// more shares.
    pub fn detach(&mut self, req: ReqId) {
        let Some(r) = self.reqs.get_mut(req) else { return };
        if r.shares > 1 {
            r.shares -= 1;
            r.parted = true;
        } else if r.is_finished() {
            self.reqs.remove(req);
        } else {
            r.detached = true;
        }
    }

    /// Detaches a request for which the upper layer holds something, such as its memory.
    ///
    /// Does the same as [`Core::detach`]; if it is finished later, [`Core::next_released`] returns
    /// it.
    pub fn detach_reported(&mut self, req: ReqId) {
        if let Some(r) = self.reqs.get_mut(req) {
            r.reported = true;
        }
        self.detach(req);
    }

    /// Returns true if [`Core::next_released`] has a request.
    #[inline]
    pub fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// Returns a request of [`Core::detach_reported`] that has finished and left the slab, in no
    /// order.
    ///
    /// The upper layer frees what it holds for it.
    pub fn next_released(&mut self) -> Option<ReqId> {
        self.released.pop()
    }

    /// Counts a message to send, with so many bytes of data. For netmods.
    #[inline]
    pub fn count_send(&mut self, vc: VcId, data_len: usize) {
        if let Some(v) = self.vcs.get_mut(vc) {
            v.stats.tx_msgs += 1;
            v.stats.tx_bytes += (HDR_LEN + data_len) as u64;
        }
    }

    /// Counts a message that could not be sent at once. For netmods.
    #[inline]
    pub fn count_queued(&mut self, vc: VcId) {
        if let Some(v) = self.vcs.get_mut(vc) {
            v.stats.tx_queued += 1;
        }
        self.staged = true;
    }

    /// Notes that the last byte of a queued send was sent, and its memory is no longer needed. For
    /// netmods.
    #[inline]
    pub fn send_finished(&mut self, vc: VcId, req: ReqId) {
        match self.reqs.get_mut(req) {
            Some(r) if r.on_done == OnDone::Upper && !r.is_finished() => self.sent.push_back((vc, req)),
            Some(_) => self.finish(req, Outcome::Done),
            None => {}
        }
    }

    /// Takes the sends to report to the upper layer, in order.
    ///
    /// The engine calls this, and so does a netmod's test without an engine.
    pub fn drain_sent(&mut self) -> impl Iterator<Item = (VcId, ReqId)> + '_ {
        self.sent.drain(..)
    }

    /// Fails a queued send that will never be sent. For netmods.
    pub fn send_failed(&mut self, req: ReqId, error: &VcError) {
        self.finish(req, Outcome::Failed(error.clone()));
    }

    /// Returns the memory for the VC's next payload bytes, if a receive is active and has room. For
    /// netmods.
    #[inline]
    pub fn recv_target(&self, vc: VcId, out: &mut [IoVec]) -> RecvTarget {
        let Some(v) = self.vcs.get(vc) else { return RecvTarget::default() };
        debug_assert!(v.pending_len == 0 || v.recv_active().is_none());
        if v.no_direct {
            return RecvTarget::default();
        }
        let Some(r) = v.recv_active().and_then(|req| self.reqs.get(req)) else {
            return RecvTarget::default();
        };
        let (pieces, bytes) = r.seg.next_iovecs(usize::MAX, out);
        RecvTarget { pieces, bytes, whole: bytes == r.seg.remaining() }
    }

    /// Notes that `n` bytes were read into the iovecs of [`Core::recv_target`]. For netmods.
    ///
    /// Returns true if that was the rest of the receive: push [`Event::RecvDone`] before any other
    /// event of this VC.
    #[inline]
    pub fn recv_advance(&mut self, vc: VcId, n: usize) -> bool {
        let Some(v) = self.vcs.get_mut(vc) else { return false };
        v.stats.rx_bytes += n as u64;
        v.stats.rx_direct += n as u64;
        let Some(r) = v.recv_active().and_then(|req| self.reqs.get_mut(req)) else { return false };
        r.seg.advance(n);
        r.seg.is_done() && r.excess == 0
    }

    /// Makes `req` the receive that the VC's next payload bytes belong to.
    ///
    /// The packet handler calls this after it has consumed all bytes that were there.
    #[inline]
    pub fn set_recv_active(&mut self, vc: VcId, req: ReqId) {
        if let Some(v) = self.vcs.get_mut(vc) {
            debug_assert!(v.pending_len == 0, "a receive became active within a header");
            v.set_recv_active(req);
        }
    }

    /// Detaches the active receive; the rest of its payload is discarded.
    pub fn abandon_recv(&mut self, vc: VcId) -> Option<ReqId> {
        let v = self.vcs.get_mut(vc)?;
        let req = v.take_recv_active()?;
        if let Some(r) = self.reqs.get(req) {
            v.discard += r.seg.remaining() as u64 + r.excess;
        }
        Some(req)
    }

    /// Counts a dropped packet.
    #[cold]
    pub fn count_fault(&mut self, vc: VcId, what: &str) {
        if let Some(v) = self.vcs.get_mut(vc) {
            v.stats.faults = v.stats.faults.saturating_add(1);
            tracing::warn!(peer = v.peer.rank, "{what}");
        }
    }

    /// Counts `n` messages that a handler has used in addition to the one it was called for. For
    /// upper layers.
    #[inline]
    pub fn count_received(&mut self, vc: VcId, n: u64) {
        if let Some(v) = self.vcs.get_mut(vc) {
            v.stats.rx_msgs += n;
        }
    }

    /// Resets reception when a connection begins or ends. For netmods.
    ///
    /// Returns the receive that was cut off, which the upper layer fails when it learns of it.
    pub fn reset_receive(&mut self, vc: VcId) -> Option<ReqId> {
        self.vcs.get_mut(vc)?.reset_receive()
    }

    #[inline]
    fn peer(&self, vc: VcId) -> Option<PeerName> {
        self.vcs.get(vc).map(|v| v.peer)
    }
}

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
pub trait Upper<N> {
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

    /// Handles another event: `Up`, `Terminated`, `Down`, `NeedCard`, `NewPeer` or `RmaDone`.
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
            if let Some((vc, hdr)) = self.events.pop_header() {
                n += 1;
                self.handle_header(upper, vc, &hdr, now);
                continue;
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

    /// Handles exactly as many bytes as a header has, like [`Engine::handle_pkt`], with one lookup
    /// of the VC.
    // Out of line, so that lent bytes, as over shared memory, are handled inline.
    #[inline(never)]
    fn handle_header<U: Upper<N>>(&mut self, upper: &mut U, vc: VcId, hdr: &Header, now: Time) {
        let Some(v) = self.core.vcs.get_mut(vc).filter(|v| v.is_between() && hdr[0] != NETMOD_FRAME) else {
            return self.handle_pkt(upper, vc, RxBytes::from_slice(hdr), now);
        };
        v.stats.rx_bytes += HDR_LEN as u64;
        v.stats.rx_msgs += 1;
        if let Err(fault) = upper.packet(&mut self.io(now), vc, hdr, RxBytes::from_slice(&[])) {
            self.faulty(vc, fault);
        }
    }

    /// Handles a control frame of the netmod; returns true if the VC continues.
    #[inline(never)]
    fn handle_control(&mut self, vc: VcId, hdr: &Header) -> bool {
        match self.netmod.control_frame(&mut self.core, vc, hdr) {
            Ok(()) => true,
            Err(what) => {
                self.violation(vc, &what);
                false
            }
        }
    }

    /// Handles an error in a packet; returns true if the VC continues.
    #[cold]
    #[inline(never)]
    fn faulty(&mut self, vc: VcId, fault: PacketFault) -> bool {
        match fault {
            PacketFault::Drop { what, payload } => {
                self.core.count_fault(vc, &what);
                if let Some(v) = self.core.vcs.get_mut(vc) {
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
            let Some(v) = self.core.vcs.get_mut(vc) else { return };
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
        let Some(v) = self.core.vcs.get_mut(vc) else { return bytes.skip(bytes.len()) };
        debug_assert!(v.pending_len == 0, "pending header bytes beside an active receive");
        let Some(req) = v.recv_active() else {
            let n = v.discard.min(bytes.len() as u64);
            v.discard -= n;
            return bytes.skip(n as usize);
        };
        let Some(r) = self.core.reqs.get_mut(req) else {
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
        let Some(req) = self.core.vcs.get_mut(vc).and_then(|v| v.take_recv_active()) else { return };
        let Some(r) = self.core.reqs.get(req) else { return };
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
