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

/// Where the next payload bytes of a VC go ([`Core::recv_target`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecvTarget {
    /// Entries of the list that were filled.
    pub pieces: usize,
    /// Bytes they hold; zero if there is no target.
    pub bytes: usize,
    /// Whether that is all that is left of the receive, so that later bytes may follow behind it.
    pub whole: bool,
}

/// The state that netmods and the layer above share: VCs and requests.
#[derive(Debug, Default)]
pub struct Core {
    /// Virtual connections.
    pub vcs: Slab<Vc, VcKind>,
    /// Requests.
    pub reqs: Slab<Request, ReqKind>,
    /// Sends with [`OnDone::Upper`] whose data has left, in order.
    sent: VecDeque<(VcId, ReqId)>,
    /// Where other threads see which requests are finished, if there are any.
    completions: Option<Arc<CompletionTable>>,
    /// See [`Core::is_staged`].
    staged: bool,
    /// See [`Core::next_released`].
    released: Vec<ReqId>,
}

impl Core {
    /// Nothing yet, with room for `requests` of them without allocating.
    pub fn new(requests: usize) -> Core {
        let mut core = Core { sent: VecDeque::with_capacity(64), ..Core::default() };
        core.reqs.reserve(requests);
        core
    }

    /// For netmods: something that was taken has not left, and waits for the next poll or flush.
    #[inline]
    pub fn note_staged(&mut self) {
        self.staged = true;
    }

    /// Returns true if something that a netmod has taken may wait for the next poll or flush. Who makes no further
    /// call for a while must see to it that there is one.
    #[inline]
    pub fn is_staged(&self) -> bool {
        self.staged
    }

    /// Everything is about to be flushed. A netmod that keeps something back all the same notes it again.
    #[inline]
    pub fn clear_staged(&mut self) {
        self.staged = false;
    }

    /// Whether the request is finished; one that is not in the slab is.
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

    /// Keeps completion words from now on, for threads that do not hold the engine.
    pub fn keep_completions(&mut self, completions: Arc<CompletionTable>) {
        self.completions = Some(completions);
    }

    /// Sets the completion word of a request whose outcome was set other than by [`Core::finish`].
    #[inline]
    pub fn announce(&self, req: ReqId) {
        if let Some(completions) = &self.completions {
            completions.set(req);
        }
    }

    /// Uses a finished request up: its outcome, as far as this share of it goes. `None` if the handle is of
    /// nothing.
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

    /// Nobody will use this share of a request up: the request leaves the slab when it is finished and
    /// no share is left.
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

    /// Detaches a request of which the upper layer holds something, such as its memory.
    ///
    /// As [`Core::detach`]; if it is finished later, [`Core::next_released`] tells of it.
    pub fn detach_reported(&mut self, req: ReqId) {
        if let Some(r) = self.reqs.get_mut(req) {
            r.reported = true;
        }
        self.detach(req);
    }

    /// Returns true if [`Core::next_released`] has something to tell.
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

    /// For netmods: counts a message that is to be sent, with that many bytes of data.
    #[inline]
    pub fn count_send(&mut self, vc: VcId, data_len: usize) {
        if let Some(v) = self.vcs.get_mut(vc) {
            v.stats.tx_msgs += 1;
            v.stats.tx_bytes += (HDR_LEN + data_len) as u64;
        }
    }

    /// For netmods: counts a message that could not be sent at once.
    #[inline]
    pub fn count_queued(&mut self, vc: VcId) {
        if let Some(v) = self.vcs.get_mut(vc) {
            v.stats.tx_queued += 1;
        }
        self.staged = true;
    }

    /// For netmods: the last byte of a queued send has left, and its memory is needed no more.
    #[inline]
    pub fn send_finished(&mut self, vc: VcId, req: ReqId) {
        match self.reqs.get_mut(req) {
            Some(r) if r.on_done == OnDone::Upper && !r.is_finished() => self.sent.push_back((vc, req)),
            Some(_) => self.finish(req, Outcome::Done),
            None => {}
        }
    }

    /// Takes the sends of which the upper layer is to know, in order. The engine does this; so
    /// does a netmod's test that has no engine.
    pub fn drain_sent(&mut self) -> impl Iterator<Item = (VcId, ReqId)> + '_ {
        self.sent.drain(..)
    }

    /// For netmods: a queued send will never leave.
    pub fn send_failed(&mut self, req: ReqId, error: &VcError) {
        self.finish(req, Outcome::Failed(error.clone()));
    }

    /// For netmods: where the next payload bytes of the VC go, if a receive is active and has room.
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

    /// For netmods: `n` bytes were read into the iovecs of [`Core::recv_target`]. True if that was the
    /// last of the receive: push [`Event::RecvDone`] before anything else of this VC.
    #[inline]
    pub fn recv_advance(&mut self, vc: VcId, n: usize) -> bool {
        let Some(v) = self.vcs.get_mut(vc) else { return false };
        v.stats.rx_bytes += n as u64;
        v.stats.rx_direct += n as u64;
        let Some(r) = v.recv_active().and_then(|req| self.reqs.get_mut(req)) else { return false };
        r.seg.advance(n);
        r.seg.is_done() && r.excess == 0
    }

    /// Makes `req` the receive that the VC's next payload bytes belong to. The packet handler calls
    /// this after it has consumed all that was there.
    #[inline]
    pub fn set_recv_active(&mut self, vc: VcId, req: ReqId) {
        if let Some(v) = self.vcs.get_mut(vc) {
            debug_assert!(v.pending_len == 0, "a receive became active within a header");
            v.set_recv_active(req);
        }
    }

    /// Stops giving bytes to the active receive; what is still to come of it is discarded.
    pub fn abandon_recv(&mut self, vc: VcId) -> Option<ReqId> {
        let v = self.vcs.get_mut(vc)?;
        let req = v.take_recv_active()?;
        if let Some(r) = self.reqs.get(req) {
            v.discard += r.seg.remaining() as u64 + r.excess;
        }
        Some(req)
    }

    /// Counts a packet that was dropped.
    #[cold]
    pub fn count_fault(&mut self, vc: VcId, what: &str) {
        if let Some(v) = self.vcs.get_mut(vc) {
            v.stats.faults = v.stats.faults.saturating_add(1);
            tracing::warn!(peer = v.peer.rank, "{what}");
        }
    }

    /// For upper layers: `n` messages came in what a handler has used beside the one it was called for.
    #[inline]
    pub fn count_received(&mut self, vc: VcId, n: u64) {
        if let Some(v) = self.vcs.get_mut(vc) {
            v.stats.rx_msgs += n;
        }
    }

    /// For netmods: a new connection begins on the VC (`false`), or it has ended (`true`): returns the
    /// receive that was cut off, which the upper layer fails when it learns of it.
    pub fn reset_receive(&mut self, vc: VcId) -> Option<ReqId> {
        self.vcs.get_mut(vc)?.reset_receive()
    }

    #[inline]
    fn peer(&self, vc: VcId) -> Option<PeerName> {
        self.vcs.get(vc).map(|v| v.peer)
    }
}

/// What a handler of the upper layer may use: the core and the netmod, but no progress.
#[derive(Debug)]
pub struct Io<'a, N> {
    /// VCs and requests.
    pub core: &'a mut Core,
    /// The netmod.
    pub netmod: &'a mut N,
    /// The caller's time.
    pub now: Time,
}

impl<N> Io<'_, N> {
    /// The same for a shorter time.
    #[inline]
    pub fn reborrow(&mut self) -> Io<'_, N> {
        Io { core: self.core, netmod: self.netmod, now: self.now }
    }
}

/// The upper layer's answer when the data of a request has all moved. There is no answer "more follows", as Nemesis's OnDataAvail has it: a
/// segment describes all of a message from the start, whatever its datatype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataAvail {
    /// The request is finished.
    Complete,
    /// Something else must happen first; the upper layer will finish it.
    Later,
}

/// The layer above the engine.
pub trait Upper<N> {
    /// A header arrived on a VC, with what had arrived of its payload (and of later messages).
    ///
    /// Returns how many bytes of `rest` it used. If the payload is longer than `rest`, the handler
    /// uses all of `rest` and makes a receive active for what is to come. It may also use later messages that are there as
    /// a whole, none of them a control frame of a netmod ([`NETMOD_FRAME`]), and says so by [`Core::count_received`].
    ///
    /// # Errors
    /// By severity, see [`PacketFault`].
    fn packet(
        &mut self,
        io: &mut Io<'_, N>,
        vc: VcId,
        hdr: &Header,
        rest: RxBytes<'_>,
    ) -> Result<usize, PacketFault>;

    /// The data of a request with [`OnDone::Upper`] has all moved.
    fn on_data_avail(&mut self, io: &mut Io<'_, N>, vc: VcId, req: ReqId) -> DataAvail;

    /// Something else happened: `Up`, `Terminated`, `Down`, `NeedCard`, `NewPeer` or `RmaDone`.
    fn on_event(&mut self, io: &mut Io<'_, N>, event: Event);
}

/// What a call of [`Engine::progress`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Number of events handled and sends finished, and one more for progress that is no event; zero means
    /// that nothing happened.
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
    /// An engine over a netmod.
    pub fn new(netmod: N, core: Core) -> Engine<N> {
        Engine { core, netmod, events: Events::default() }
    }

    /// What handlers get.
    #[inline]
    pub fn io(&mut self, now: Time) -> Io<'_, N> {
        Io { core: &mut self.core, netmod: &mut self.netmod, now }
    }

    /// Polls the netmod once and handles what it found.
    ///
    /// # Errors
    /// If the netmod as a whole cannot go on.
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

    /// Events other than bytes. Out of line, as are the other rare turns of the engine: each system call
    /// leaves little of this code in the instruction cache.
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

    /// Sends whose data has left and whose owner wants to know; their number.
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

    /// Handles as many bytes as a header has, as [`Engine::handle_pkt`] does, with one look at the VC if they are a message.
    // Out of line, so that what is lent, as over shared memory, is handled in line.
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

    /// A frame of the netmod's own, which is no message; whether the VC goes on.
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

    /// What is wrong with a packet; whether the VC goes on.
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

    /// Handles bytes that arrived on a VC: any number of packets, cut anywhere. Bytes of a VC that
    /// is gone are ignored; a VC whose peer breaks the protocol is aborted.
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

    /// Gives bytes to the active receive, or to nobody; returns the rest.
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
            // Nobody may take an active request out of the slab; without it the length of what
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

    /// The active receive of a VC has all its bytes.
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
