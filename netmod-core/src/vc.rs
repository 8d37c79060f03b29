//! A virtual connection: what the core knows of one peer.

use crate::lifecycle::VcState;
use crate::netmod::{HDR_LEN, Header, PeerName};
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
    /// The receive that the bytes in flight belong to.
    pub(crate) recv_active: Option<ReqId>,
    /// Payload bytes to come that nobody wants.
    pub(crate) discard: u64,
    pub(crate) pending_len: u8,
    pub(crate) pending_pkt: Header,
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
            recv_active: None,
            discard: 0,
            pending_len: 0,
            pending_pkt: [0; HDR_LEN],
            no_direct: false,
            stats: VcStats::default(),
        }
    }

    /// The receive that is under way, if one is.
    pub fn recv_active(&self) -> Option<ReqId> {
        self.recv_active
    }

    /// Header bytes that wait for the rest of their header.
    pub fn pending_pkt_len(&self) -> usize {
        usize::from(self.pending_len)
    }

    /// Forgets what was under way: the connection is gone, another begins with a header.
    pub(crate) fn reset_receive(&mut self) -> Option<ReqId> {
        self.pending_len = 0;
        self.discard = 0;
        self.recv_active.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unused_vc_is_small() {
        assert!(size_of::<Vc>() <= 192, "{}", size_of::<Vc>());
    }
}
