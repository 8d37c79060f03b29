//! CH3: the upper side of the engine, which sends and handles packets.
//!
//! State: `req` and `reqs` (requests), `vc` (the device's part of a VC), `queues` and `unexpected`
//! (matching), `credit` and `budget` (flow control), `failures`, `group`, `routes`, `pool` (memory
//! of unexpected messages).
//!
//! Behaviour: `send`, `recv`, `cancel`, `flow` (messages), `threads` (names of threads), `lmt`
//! (large messages), `connect`, `onesided` (operations on memory of peers), `lookup`, `close`,
//! `failure` (VCs from first use to last), `remote` (groups of other jobs).

mod budget;
mod cancel;
mod close;
mod connect;
mod contexts;
mod credit;
mod failure;
mod failures;
mod flow;
mod group;
mod job_name;
mod jobs;
mod lent;
mod lmt;
mod lookup;
mod onesided;
mod pool;
mod queues;
mod recv;
mod remote;
mod req;
mod reqs;
mod routes;
mod send;
mod threads;
mod unexpected;
mod vc;

use netmod_core::slab::VcKind;
use netmod_core::{
    DataAvail, Event, Header, Io, Netmod, Outcome, PacketFault, ReqId, RxBytes, SendBuf, SideTable, Upper,
    VcId,
};

use crate::bootstrap::Bootstrap;
use crate::incident::{IncidentKind, Incidents};
use crate::netset::NetSet;
use crate::pkt::{CookieLen, Packet, Plain, Short};

pub(crate) use budget::Budget;
pub(crate) use close::Closing;
pub(crate) use connect::{card_key, rank_of_key};
pub(crate) use contexts::Contexts;
pub(crate) use credit::Terms;
pub(crate) use failure::WaitOutlook;
pub use failures::Failure;
pub(crate) use failures::Failures;
pub use flow::FlowReport;
pub(crate) use group::{Cards, Group, Groups, INTERNAL, Space, WORLD};
pub use job_name::JobName;
pub(crate) use lent::Lent;
pub use lmt::LargeStats;
pub(crate) use lmt::{Announced, Kept, Lmt};
pub(crate) use lookup::{Found, Lookups};
pub use onesided::{Exposure, RemotePlace, RmaAccess};
pub(crate) use onesided::{OneSided, OneSidedOp};
use pool::Pool;
pub(crate) use queues::Queues;
pub(crate) use remote::{Ports, ROOT};
pub(crate) use req::{Answer, Matched, MpiReq, Owned, Role};
pub(crate) use reqs::Requests;
pub(crate) use routes::{Route, Routes};
pub(crate) use send::DONE;
pub use threads::{MOST_THREADS, process_of, thread_of, thread_place};
pub(crate) use threads::{context_of, process_of_source, to_wire};
pub(crate) use unexpected::{Body, Unexpected};
pub(crate) use vc::VcSide;

/// The core and the netmods, as packet handlers get them.
pub(crate) type DevIo<'a> = Io<'a, NetSet>;

/// Counts of the device, always on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// Messages that arrived before their receive was posted.
    pub unexpected: u64,
    /// Most messages that waited for a receive at once.
    pub unexpected_high: u64,
    /// Bytes of unexpected messages held now.
    pub unexpected_bytes: u64,
    /// Charge of unexpected messages now, in bytes: those that are held, and 256 for each message.
    pub unexpected_memory: u64,
    /// Highest charge of unexpected messages, in bytes.
    pub unexpected_memory_high: u64,
    /// Short messages that were sent by rendezvous because the peer's window had no room.
    pub eager_declined: u64,
    /// Sends that had to wait before they could even be announced.
    pub sends_waited: u64,
    /// Packets sent that only return room or ask for it.
    pub credits_sent: u64,
    /// Packets received that only return room or ask for it.
    pub credits_received: u64,
    /// Announcements that peers were allowed beyond their terms, since this process waited for a
    /// message behind them.
    pub slots_lent: u64,
    /// Ready sends that found no receive, and were delivered as standard ones.
    pub ready_unmatched: u64,
    /// Messages longer than their receive's buffer.
    pub truncated: u64,
    /// Messages, sent and received, that were copied through memory shared with the peer.
    pub through_rings: u64,
    /// Messages, sent and received, of which this process put or got a part.
    pub one_sided: u64,
    /// Windows of large messages, beyond the first of each, that were registered for the peer.
    pub rekeys: u64,
    /// Windows of `rekeys` that were registered while another of the same message was.
    pub rekeys_ahead: u64,
}

/// The device but for its engine.
pub(crate) struct Ch3 {
    pub boot: Box<dyn Bootstrap>,
    pub groups: Groups,
    pub ports: Ports,
    pub queues: Queues,
    pub reqs: Requests,
    /// The device's part of each VC.
    pub vcs: SideTable<VcSide, VcKind>,
    pub routes: Routes,
    pub lmt: Lmt,
    pub onesided: OneSided,
    pub budget: Budget,
    pub closing: Closing,
    pub failures: Failures,
    pub contexts: Contexts,
    pub lookups: Lookups,
    pub stats: DeviceStats,
    pub incidents: Incidents,
}

impl std::fmt::Debug for Ch3 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ch3")
            .field("rank", &self.groups.world.me)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl Ch3 {
    /// Sends a packet without data, for which nobody waits.
    #[inline]
    pub(crate) fn send_control(&mut self, io: &mut DevIo<'_>, vc: VcId, pkt: Packet) {
        match io.netmod.i_start_contig_msg(io.core, vc, &pkt.emit(), SendBuf::EMPTY) {
            Ok(None) => {}
            Ok(Some(req)) => io.core.detach(req),
            // The VC is going down; Event::Down follows and fails what depended on the packet.
            Err(e) => tracing::debug!(%e, "control packet not sent"),
        }
    }

    /// Handles a packet without data. Out of line, to keep the hot path small: each system call
    /// leaves little of it in the instruction cache.
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
}

impl Ch3 {
    /// Handles the packets that are rare. Out of line, since the common path needs no parsed
    /// packet.
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

// SAFETY: requests are finished when their data has moved, or the netmod has handed them back.
#[allow(unsafe_code)]
unsafe impl Upper<NetSet> for Ch3 {
    #[inline(always)]
    fn packet(
        &mut self,
        io: &mut DevIo<'_>,
        vc: VcId,
        hdr: &Header,
        rest: RxBytes<'_>,
    ) -> Result<usize, PacketFault> {
        if let Some(short) = Short::of(hdr) {
            return self.eager_short(io, vc, short, hdr, rest);
        }
        if let Some(plain) = Plain::of(hdr) {
            return self.eager_plain(io, vc, plain, rest);
        }
        self.other_packet(io, vc, hdr, rest)
    }

    #[inline(never)]
    fn on_data_avail(&mut self, io: &mut DevIo<'_>, vc: VcId, req: ReqId) -> DataAvail {
        match self.reqs.side.get_mut(req) {
            Some(MpiReq { role: Role::SyncSend { sent, answer }, .. }) => {
                *sent = true;
                match answer {
                    None => DataAvail::Later,
                    Some(Answer::Matched) => DataAvail::Complete,
                    Some(Answer::TakenBack) => {
                        self.reqs.finish(io.core, req, Outcome::Cancelled);
                        DataAvail::Later
                    }
                }
            }
            Some(MpiReq { role: Role::Arriving { .. }, .. }) => {
                self.arrived(io.core, req);
                DataAvail::Later
            }
            Some(MpiReq { role: Role::SentCookie, owned, .. }) => {
                if let Owned::Recv(buf) = std::mem::take(owned) {
                    self.reqs.pool.give(buf);
                }
                DataAvail::Complete
            }
            Some(MpiReq { role: Role::Cookie, .. }) => {
                self.cookie_arrived(io, vc, req);
                DataAvail::Later
            }
            // Set for a rendezvous that is traced.
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
            Event::Resumed { vc } => self.note_incident(io, vc, IncidentKind::Resumed),
            Event::Terminated { vc } => self.vc_terminated(io, vc),
            Event::Down { vc, error } => self.vc_down(io, vc, error),
            Event::NeedCard { vc } => self.card_for_netmod(io, vc),
            Event::NewPeer { peer, netmod } => self.new_peer(io, peer, netmod),
            Event::PortPeer { peer, port, netmod } => self.port_peer(io, peer, port, netmod),
            // Handled by the engine.
            Event::Rx { .. } | Event::RecvDone { .. } => {}
            Event::RmaDone { vc, op, result } => {
                let req = ReqId::from_wire(op);
                if !self.onesided_done(io, req, &result) {
                    self.rma_done(io, vc, req, result);
                }
            }
        }
    }
}
