//! A virtual connection: what the core knows of one peer.

use crate::lifecycle::VcState;
use crate::netmod::{Header, PeerName};
use crate::slab::ReqId;

/// What a VC has carried, counted always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VcStats {
    /// Messages (frames) handed to the netmod.
    pub tx_msgs: u64,
    /// Their bytes, headers included.
    pub tx_bytes: u64,
    /// Of them, messages that could not go at once.
    pub tx_queued: u64,
    /// Messages (frames) received.
    pub rx_msgs: u64,
    /// Their bytes, headers included.
    pub rx_bytes: u64,
    /// Of them, bytes that went straight into a user's buffer.
    pub rx_direct: u64,
    /// Packets dropped because they were of no use.
    pub faults: u32,
    /// Connections that were made.
    pub connects: u32,
}

/// No receive: the handle of nothing.
const NO_RECV: ReqId = ReqId::from_wire(0);

/// One peer, as the core sees it.
///
/// The netmod and the layers above keep their own parts in side tables by the same handle.
#[derive(Debug)]
pub struct Vc {
    /// Who is at the other end.
    pub peer: PeerName,
    /// Which netmod of a set carries it.
    pub netmod: u8,
    /// Where it is in its life; changed by the layer above by [`crate::lifecycle`]'s table.
    pub state: VcState,
    pub(crate) pending_len: u8,
    /// The receive that the bytes in flight belong to, or [`NO_RECV`].
    recv_active: ReqId,
    /// Payload bytes to come that nobody wants.
    pub(crate) discard: u64,
    /// Room for a header that comes in parts, made with the first connection.
    pending_pkt: Option<Box<Header>>,
    /// All bytes go through events, none straight into a receive's memory: a wrapper wants to see them.
    pub no_direct: bool,
    /// Counters.
    pub stats: VcStats,
}

impl Vc {
    /// A VC that was never used.
    pub fn new(peer: PeerName, netmod: u8) -> Vc {
        Vc {
            peer,
            netmod,
            state: VcState::Inactive,
            pending_len: 0,
            recv_active: NO_RECV,
            discard: 0,
            pending_pkt: None,
            no_direct: false,
            stats: VcStats::default(),
        }
    }

    /// The receive that is under way, if one is.
    #[inline]
    pub fn recv_active(&self) -> Option<ReqId> {
        (self.recv_active != NO_RECV).then_some(self.recv_active)
    }

    /// Whether what comes next begins with a header.
    #[inline]
    pub(crate) fn is_between(&self) -> bool {
        self.recv_active == NO_RECV && self.discard == 0 && self.pending_len == 0
    }

    #[inline]
    pub(crate) fn set_recv_active(&mut self, req: ReqId) {
        self.recv_active = req;
    }

    #[inline]
    pub(crate) fn take_recv_active(&mut self) -> Option<ReqId> {
        let req = self.recv_active();
        self.recv_active = NO_RECV;
        req
    }

    /// Header bytes that wait for the rest of their header.
    pub fn pending_pkt_len(&self) -> usize {
        usize::from(self.pending_len)
    }

    /// The room for a header that comes in parts.
    #[inline]
    pub(crate) fn pending_pkt(&mut self) -> &mut Header {
        self.pending_pkt.get_or_insert_default()
    }

    /// Forgets what was under way: the connection is gone, another begins with a header.
    pub(crate) fn reset_receive(&mut self) -> Option<ReqId> {
        self.pending_len = 0;
        self.discard = 0;
        // Here, because it may not be allocated while bytes come in.
        self.pending_pkt();
        self.take_recv_active()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unused_vc_is_small() {
        assert!(size_of::<Option<Vc>>() <= 104, "{}", size_of::<Option<Vc>>());
    }
}
