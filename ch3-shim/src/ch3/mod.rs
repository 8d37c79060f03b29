//! CH3: what the device does with packets. The upper side of the engine.
//!
//! One file a concern: `recv` the packets that carry or announce data, `send` the other direction,
//! `credit` and `flow` how much of it there may be, `close` the lifecycle of VCs, `failure` what fails with a
//! process, `cancel`, `lmt` what becomes of announced messages, `group` who there is, `meet` the groups of other jobs, `pool` the memory of unexpected messages.

mod cancel;
mod close;
mod credit;
mod failure;
mod flow;
mod group;
mod lmt;
mod meet;
mod names;
mod pool;
mod recv;
mod send;

use std::sync::Arc;

use bytes::Bytes;
use netmod_core::slab::{ReqKind, VcKind};
use netmod_core::{
    Card, Core, DataAvail, Event, Header, Io, Netmod, Outcome, PacketFault, PeerName, ReqId, Request, Run,
    RxBytes, Segment, SendBuf, SideTable, Time, Upper, VcError, VcErrorKind, VcId,
};

use crate::bootstrap::Bootstrap;
use crate::netset::NetSet;
use crate::pkt::{CookieLen, Mode, Packet, Plain, Short};
use crate::status::Status;
use crate::tagmatch::{PostedKey, PostedQueue, UnexpectedQueue};

pub(crate) use credit::{ENTRY, Terms};
pub use failure::Failure;
pub(crate) use failure::{Failures, Hope};
pub use flow::FlowReport;
pub(crate) use group::{Cards, Group, Groups, INTERNAL, Space, WORLD};
pub(crate) use lmt::{Announced, Lmt};
pub(crate) use meet::{Ports, ROOT};
pub(crate) use names::{Names, Route};
pub(crate) use pool::Pool;
pub(crate) use recv::{Body, Unexpected};
pub(crate) use send::DONE;

/// What handlers get.
pub(crate) type DevIo<'a> = Io<'a, NetSet>;

/// The memory of a message: a segment, or a run, which the common path keeps in registers.
pub(crate) trait Lent: Into<Segment> {
    /// Bytes of the message.
    fn len(&self) -> usize;
    /// All of it, if it lies in one piece.
    fn contig(&self) -> Option<SendBuf>;
}

impl Lent for Segment {
    #[inline]
    fn len(&self) -> usize {
        self.remaining()
    }
    #[inline]
    fn contig(&self) -> Option<SendBuf> {
        SendBuf::of_segment(self)
    }
}

impl Lent for Run {
    #[inline]
    fn len(&self) -> usize {
        Run::len(self)
    }
    #[inline]
    fn contig(&self) -> Option<SendBuf> {
        Some(SendBuf::of_run(self))
    }
}

/// Memory that the device owns on behalf of a request.
#[derive(Debug, Default)]
pub(crate) enum Owned {
    /// None: it was lent.
    #[default]
    Nothing,
    /// Data of a send, held so that it stays where it is.
    Send(#[allow(dead_code)] Bytes),
    /// Target of a receive, or an unexpected message.
    Recv(Vec<u8>),
}

/// What a request is to the device.
#[derive(Debug)]
pub(crate) enum Role {
    /// A send whose request is finished when its data has left.
    Send,
    /// An eager synchronous send: finished when its data has left and the receiver has matched it.
    SyncSend { sent: bool, acked: bool },
    /// A send that was announced: `lmt` knows how far it is.
    RndvSend,
    /// A send that waits for room at its receiver, which knows nothing of it yet.
    Waiting { mode: Mode },
    /// A send to this process that waits for its receive.
    SelfSend,
    /// A receive that is posted, or that gets its data eagerly.
    Recv,
    /// A receive that has matched an announced message: `lmt` knows how far it is.
    RndvRecv,
    /// The memory of a cookie that is still arriving.
    Cookie,
    /// A packet with a cookie, whose memory goes back to the pool when it has left.
    SentCookie,
    /// The memory of an unexpected message that is still arriving, and the receive that has matched it
    /// meanwhile.
    Arriving { then: Option<ReqId> },
}

/// What a receive has matched: its status, but for what its outcome says. In words as they are stored and read again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Matched {
    source_tag: u64,
    len: usize,
}

impl Matched {
    #[inline]
    pub(crate) fn new(env: crate::tagmatch::Envelope, len: usize) -> Matched {
        let (source, tag) = (env.source.cast_unsigned(), env.tag.cast_unsigned());
        Matched { source_tag: u64::from(source) | u64::from(tag) << 32, len }
    }

    #[inline]
    pub(crate) fn status(self) -> Status {
        let (source, tag) = (self.source_tag as u32, (self.source_tag >> 32) as u32);
        Status { source: source.cast_signed(), tag: tag.cast_signed(), len: self.len, cancelled: false }
    }
}

/// The device's part of a request.
#[derive(Debug)]
pub(crate) struct MpiReq {
    pub role: Role,
    pub matched: Matched,
    /// Length of the message as it was sent, if that is more than was received; 0 if it is not.
    pub truncated_from: u64,
    pub posted: Option<PostedKey>,
    pub owned: Owned,
    /// Whether its handle was dropped: nobody will ask for the result.
    pub forgotten: bool,
    /// Sends: the envelope, for a cancel request.
    pub env: crate::tagmatch::Envelope,
    /// Whether a cancel request is under way to the receiver.
    pub cancelling: bool,
    /// When the request was made.
    pub since: Time,
}

impl Default for MpiReq {
    fn default() -> MpiReq {
        MpiReq::new(Role::Recv, crate::tagmatch::Envelope::new(0, 0, 0))
    }
}

impl MpiReq {
    /// Makes this the part of a receive that is posted, piece by piece where they lie.
    #[inline]
    pub(crate) fn renew_recv(&mut self, env: crate::tagmatch::Envelope, posted: PostedKey, since: Time) {
        self.role = Role::Recv;
        self.matched = Matched::default();
        self.truncated_from = 0;
        self.posted = Some(posted);
        self.owned = Owned::Nothing;
        self.forgotten = false;
        self.env = env;
        self.cancelling = false;
        self.since = since;
    }

    /// Whether it holds nothing that must be dropped, and has nothing to say but its status.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.truncated_from == 0 && matches!(self.owned, Owned::Nothing)
    }

    pub(crate) fn new(role: Role, env: crate::tagmatch::Envelope) -> MpiReq {
        MpiReq {
            role,
            matched: Matched::default(),
            truncated_from: 0,
            posted: None,
            owned: Owned::Nothing,
            forgotten: false,
            env,
            cancelling: false,
            since: Time::ZERO,
        }
    }
}

/// The device's part of a VC.
#[derive(Debug)]
pub(crate) struct VcSide {
    /// The peer's rank in its group.
    pub rank: u32,
    /// The contexts of that group, by which it is known.
    pub space: Space,
    /// Longest message that is sent eagerly.
    pub eager_max: u32,
    /// How much may be sent either way.
    pub flow: flow::Flow,
    /// How often its connection was lost with messages under way.
    pub losses: u32,
    /// How many times a close of this side has come to its end.
    pub closes: u32,
    /// Why it has the netmod it has, and the peer's host.
    pub route: Arc<Route>,
}

impl VcSide {
    /// The envelope of a packet of this VC, with the context of this process that it means. Its source is what
    /// the connection says, whatever the packet says, and its context is one of the group at the other end:
    /// `None` if the packet says otherwise.
    #[inline]
    fn own_envelope(&self, env: crate::tagmatch::Envelope) -> Option<crate::tagmatch::Envelope> {
        if self.rank as i32 != env.source || env.tag < 0 {
            return None;
        }
        let context = self.space.of_wire(env.context)?;
        Some(crate::tagmatch::Envelope { context, ..env })
    }
}

/// Counts of the device, always on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// Messages that had arrived before their receive was posted.
    pub unexpected: u64,
    /// Most messages that were waiting for a receive at once.
    pub unexpected_high: u64,
    /// Bytes of unexpected messages held now.
    pub unexpected_bytes: u64,
    /// What unexpected messages are charged now, in bytes: those that are held, and 256 for each message.
    pub unexpected_memory: u64,
    /// The most that it has been.
    pub unexpected_memory_high: u64,
    /// Short messages that were sent by rendezvous because the peer's window had no room.
    pub eager_declined: u64,
    /// Sends that had to wait before they could even be announced.
    pub sends_waited: u64,
    /// Packets sent that do nothing but give room back, or ask for it.
    pub credits_sent: u64,
    /// Such packets received.
    pub credits_received: u64,
    /// Announcements beyond their due that peers were allowed, because this process waited for a message
    /// behind them.
    pub slots_lent: u64,
    /// Ready sends that found no receive; they were delivered as ordinary ones.
    pub ready_unmatched: u64,
    /// Messages longer than their receive's buffer.
    pub truncated: u64,
    /// Messages, sent and received, that were copied through memory shared with the peer.
    pub through_rings: u64,
    /// Messages, sent and received, of which this process has put or got a part.
    pub one_sided: u64,
    /// Windows of large messages, beyond the first of each, that were registered for the peer.
    pub rekeys: u64,
    /// Of them, those that were registered while another window of the same message was.
    pub rekeys_ahead: u64,
}

/// Everything of the device but the engine.
pub(crate) struct Ch3 {
    pub boot: Box<dyn Bootstrap>,
    pub groups: Groups,
    pub ports: Ports,
    /// This process's business card.
    pub own_card: Box<[u8]>,
    pub posted: PostedQueue<ReqId>,
    pub unexpected: UnexpectedQueue<Unexpected>,
    pub side: SideTable<MpiReq, ReqKind>,
    pub vcs: SideTable<VcSide, VcKind>,
    pub lmt: Lmt,
    pub names: Names,
    pub close_ops: i32,
    pub pool: Pool,
    pub stats: DeviceStats,
    /// Longest message that is sent eagerly on a new VC.
    pub eager_max: usize,
    /// What the processes of the job grant each other.
    pub terms: Terms,
    /// Slots that can be lent beyond the terms.
    pub loans: u32,
    /// Whether it was said that there are none left.
    pub loans_warned: bool,
    /// VCs whose peers wait for slots, and how often one has asked.
    pub wanting: Vec<VcId>,
    pub wants: u64,
    /// What copies of messages of this process to itself are charged, and may be.
    pub own_held: u64,
    pub own_max: u64,
    pub finalizing: bool,
    /// The device's time, for the ages that a status report tells.
    pub now: Time,
    /// Processes that failed.
    pub failures: Failures,
    /// VCs that a peer has connected since this process began to close its own.
    pub latecomers: Vec<VcId>,
}

impl std::fmt::Debug for Ch3 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ch3")
            .field("rank", &self.groups.world.me)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

/// Name under which a rank's card is published.
pub(crate) fn card_key(rank: u32) -> String {
    format!("netmod-card-{rank}")
}

impl Ch3 {
    /// The VC of a rank of a group, made if this is its first use.
    #[inline]
    pub(crate) fn vc_of(&mut self, io: &mut DevIo<'_>, group: u32, rank: u32) -> Result<VcId, VcError> {
        match self.groups.get(group).and_then(|g| g.vcs.get(rank)) {
            Some(vc) => Ok(vc),
            None => self.make_vc(io, group, rank, None),
        }
    }

    /// Makes the VC of a rank: by a netmod chosen from its card, or by the one it has come by.
    #[cold]
    fn make_vc(
        &mut self,
        io: &mut DevIo<'_>,
        group: u32,
        rank: u32,
        by: Option<u8>,
    ) -> Result<VcId, VcError> {
        let Some((id, space)) = self.groups.get(group).map(|g| (g.id, g.space)) else {
            return Err(VcError::new(VcErrorKind::Closed, None, "its group was disconnected"));
        };
        let peer = PeerName { group: id, rank };
        let (netmod, choice, card) = match by {
            None if let Some(cause) = self.failures.cause(&peer) => return Err(cause.clone()),
            Some(n) => (n, "the peer connected by it".to_string(), None),
            None => {
                let card = self.fetch_card(peer)?;
                let (n, why) = io.netmod.choose(&card).map_err(|r| NetSet::no_netmod(peer, &r))?;
                (n, why, Some(card))
            }
        };
        let vc = io.core.vcs.insert(netmod_core::Vc::new(peer, netmod));
        if let Err(e) = io.netmod.vc_init(io.core, vc, peer, card.as_ref()) {
            io.core.vcs.remove(vc);
            return Err(e);
        }
        tracing::debug!(target: "netmod::vc", group, peer = rank, %choice, "new VC");
        let host = card.as_ref().and_then(failure::host_of);
        self.add_vc(vc, (group, rank), space, choice, host);
        Ok(vc)
    }

    /// The device's part of a new VC.
    fn add_vc(
        &mut self,
        vc: VcId,
        (group, rank): (u32, u32),
        space: Space,
        choice: String,
        host: Option<String>,
    ) {
        // Processes of other jobs may have been started with other settings.
        let terms = if group == WORLD { self.terms } else { Terms::STRANGERS };
        let eager_max = self.eager_max.min(terms.eager_max()) as u32;
        let flow = flow::Flow::new(terms);
        let route = self.names.shared(&choice, host);
        let side = VcSide { rank, space, eager_max, flow, losses: 0, closes: 0, route };
        self.vcs.set(vc, side);
        if let Some(g) = self.groups.get_mut(group) {
            g.vcs.set(rank, Some(vc));
        }
    }

    /// The threshold between eager and rendezvous towards one rank of the job.
    pub(crate) fn set_eager_max(
        &mut self,
        io: &mut DevIo<'_>,
        rank: u32,
        bytes: usize,
    ) -> Result<(), VcError> {
        let vc = self.vc_of(io, WORLD, rank)?;
        if let Some(s) = self.vcs.get_mut(vc) {
            s.eager_max = bytes.min(self.terms.eager_max()) as u32;
        }
        Ok(())
    }

    /// The business card of a process: the job's are with the process manager, those of a group that was
    /// met have come with it.
    fn fetch_card(&mut self, peer: PeerName) -> Result<Card, VcError> {
        let err = |text: String| VcError::new(VcErrorKind::Card, Some(peer), text);
        let group = self.groups.find(&peer.group).and_then(|n| self.groups.get(n));
        match group.map(|g| &g.cards) {
            Some(Cards::Launcher) => {}
            Some(Cards::Given(cards)) if (peer.rank as usize) < cards.len() => {
                return Card::parse(&cards[peer.rank as usize])
                    .map_err(|e| err(format!("its business card is broken: {e}")));
            }
            _ => return Err(err("it can only connect by itself: its business card is not known".into())),
        }
        let key = card_key(peer.rank);
        let bytes = self
            .boot
            .get(&key)
            .map_err(|e| err(format!("its business card could not be fetched: {e}")))?
            .ok_or_else(|| {
                err(format!(
                    "it has published no business card (no key {key}); did it start with this library?"
                ))
            })?;
        Card::parse(&bytes).map_err(|e| err(format!("its business card is broken: {e}")))
    }

    /// Sends a packet without data and without anybody who waits for it.
    #[inline]
    pub(crate) fn send_control(&mut self, io: &mut DevIo<'_>, vc: VcId, pkt: Packet) {
        match io.netmod.i_start_contig_msg(io.core, vc, &pkt.emit(), SendBuf::EMPTY) {
            Ok(None) => {}
            Ok(Some(req)) => io.core.detach(req),
            // The VC is going down; Event::Down follows and fails what depended on the packet.
            Err(e) => tracing::debug!(%e, "control packet not sent"),
        }
    }

    /// A packet without data. Out of line: what is rare keeps away from what is hot, because each system
    /// call leaves little of this code in the instruction cache.
    #[inline(never)]
    fn control(&mut self, io: &mut DevIo<'_>, vc: VcId, pkt: Packet) -> Result<(), PacketFault> {
        match pkt {
            Packet::Rts { env, sreq, data_sz, .. } => self.rts(io, vc, env, sreq, data_sz, Announced::NULL),
            Packet::Cts { sreq, rreq, data_sz, .. } => self.cts(io, vc, (sreq, rreq), data_sz, None),
            Packet::EagerSyncAck { sreq } => self.sync_ack(io, vc, sreq),
            Packet::CancelReq { sreq, env } => self.cancel_req(io, vc, sreq, env),
            Packet::CancelResp { sreq, ack } => self.cancel_resp(io, vc, sreq, ack),
            Packet::Close { ack } => self.recv_close(io, vc, ack),
            Packet::Credit { want, bytes, slots } => {
                self.recv_credit(io, vc, want, bytes, slots);
                Ok(())
            }
            Packet::Done { req } => self.lmt_done(io, vc, req),
            Packet::Cookie { .. } => {
                Err(PacketFault::Violation { what: "a Cookie packet without a cookie".into() })
            }
            Packet::EagerShort { .. } | Packet::Eager { .. } | Packet::RndvData { .. } => Ok(()),
        }
    }

    /// Makes a request of the core with the device's part.
    #[inline]
    pub(crate) fn new_req(
        &mut self,
        core: &mut Core,
        vc: Option<VcId>,
        seg: Segment,
        mut mpi: MpiReq,
    ) -> ReqId {
        mpi.since = self.now;
        let req = core.reqs.insert(Request::new(vc, seg));
        self.side.set(req, mpi);
        req
    }

    /// Finishes a request; one that nobody will ask for is freed.
    pub(crate) fn finish(&mut self, core: &mut Core, req: ReqId, outcome: Outcome) {
        core.finish(req, outcome);
        if self.side.get(req).is_some_and(|m| m.forgotten) {
            core.reqs.remove(req);
            self.side.clear(req);
        }
    }

    /// The memory of an unexpected message goes back to the pool.
    pub(super) fn free_arriving(&mut self, core: &mut Core, req: ReqId) {
        core.reqs.remove(req);
        if let Some(MpiReq { owned: Owned::Recv(buf), .. }) = self.side.remove(req) {
            self.pool.give(buf);
        }
    }
}

impl Ch3 {
    /// Packets other than eager short messages. Out of line: a large value of many forms, of which the common path wants
    /// none.
    #[inline(never)]
    fn other_packet(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        hdr: &Header,
        rest: RxBytes<'_>,
    ) -> Result<usize, PacketFault> {
        let pkt = Packet::parse(hdr).map_err(|e| PacketFault::Violation { what: e.to_string() })?;
        match pkt {
            Packet::Eager { env, mode, len, sreq, credit } => {
                self.credit_came(io, vc, credit);
                self.eager(io, vc, env, len, mode, sreq, rest)
            }
            Packet::RndvData { rreq, len } => self.rndv_data(io, vc, rreq, len, rest),
            Packet::Rts { cookie_len, .. }
            | Packet::Cts { cookie_len, .. }
            | Packet::Cookie { cookie_len, .. }
                if cookie_len != CookieLen::NONE =>
            {
                self.with_cookie(io, vc, pkt, rest)
            }
            other => self.control(io, vc, other).map(|()| 0),
        }
    }
}

impl Upper<NetSet> for Ch3 {
    #[inline]
    fn packet(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        hdr: &Header,
        rest: RxBytes<'_>,
    ) -> Result<usize, PacketFault> {
        if let Some(short) = Short::of(hdr) {
            return self.eager_short(io, vc, short, hdr).map(|()| 0);
        }
        if let Some(plain) = Plain::of(hdr) {
            return self.eager_plain(io, vc, plain, rest);
        }
        self.other_packet(io, vc, hdr, rest)
    }

    #[inline(never)]
    fn on_data_avail(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId) -> DataAvail {
        match self.side.get_mut(req) {
            Some(MpiReq { role: Role::SyncSend { sent, acked }, .. }) => {
                *sent = true;
                if *acked { DataAvail::Complete } else { DataAvail::Later }
            }
            Some(MpiReq { role: Role::Arriving { .. }, .. }) => {
                self.arrived(io.core, req);
                DataAvail::Later
            }
            Some(MpiReq { role: Role::SentCookie, owned, .. }) => {
                if let Owned::Recv(buf) = std::mem::take(owned) {
                    self.pool.give(buf);
                }
                DataAvail::Complete
            }
            Some(MpiReq { role: Role::Cookie, .. }) => {
                self.cookie_arrived(io, vc, req);
                DataAvail::Later
            }
            // Only a rendezvous that is traced asks.
            Some(MpiReq { role: Role::RndvRecv, .. }) => {
                self.trace_received(req);
                DataAvail::Complete
            }
            _ => DataAvail::Complete,
        }
    }

    #[inline(never)]
    fn on_event(&mut self, io: &mut DevIo<'_>, event: Event) {
        match event {
            Event::Up { vc } => self.connected(io, vc),
            Event::Terminated { vc } => self.vc_terminated(io, vc),
            Event::Down { vc, error } => self.vc_down(io, vc, error),
            Event::NeedCard { vc } => {
                let Some(peer) = io.core.vcs.get(vc).map(|v| v.peer) else { return };
                match self.fetch_card(peer) {
                    Ok(card) => io.netmod.set_card(io.core, vc, Ok(&card)),
                    Err(e) => io.netmod.set_card(io.core, vc, Err(e)),
                }
            }
            Event::NewPeer { peer, netmod } => {
                let group = self.groups.find(&peer.group).filter(|n| {
                    let new = |g: &Group| peer.rank < g.size && g.vcs.get(peer.rank).is_none();
                    !self.finalizing && self.groups.get(*n).is_some_and(new)
                });
                if group.is_none_or(|n| self.make_vc(io, n, peer.rank, Some(netmod)).is_err()) {
                    io.netmod.refuse_peer(peer);
                }
            }
            Event::PortPeer { peer, port, netmod } => self.port_peer(io, peer, port, netmod),
            // Handled by the engine.
            Event::Rx { .. } | Event::RecvDone { .. } => {}
            Event::RmaDone { vc, op, result } => self.rma_done(io, vc, ReqId::from_wire(op), result),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each receive makes one. What is larger is moved by a call, which is felt in the message rate.
    #[test]
    fn the_device_s_part_of_a_request_is_moved_in_registers() {
        assert!(size_of::<Option<MpiReq>>() <= 128, "{}", size_of::<Option<MpiReq>>());
    }

    /// Each VC has one, used or not; a million of them are to be had.
    #[test]
    fn the_device_s_part_of_a_vc_is_small() {
        assert!(size_of::<Option<VcSide>>() <= 88, "{}", size_of::<Option<VcSide>>());
    }
}
