//! A virtual connection: the core's state of one peer.

use crate::header::Header;
use crate::lifecycle::VcState;
use crate::peer::PeerName;
use crate::slab::ReqId;

/// Counters of a VC's traffic, always maintained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VcStats {
    /// Messages (frames) handed to the netmod.
    pub tx_msgs: u64,
    /// Their bytes, headers included.
    pub tx_bytes: u64,
    /// Messages among them that could not go at once.
    pub tx_queued: u64,
    /// Messages (frames) received.
    pub rx_msgs: u64,
    /// Their bytes, headers included.
    pub rx_bytes: u64,
    /// Bytes among them that went straight into a user's buffer.
    pub rx_direct: u64,
    /// Dropped packets.
    pub faults: u32,
    /// Connections established.
    pub connects: u32,
}

impl VcStats {
    /// Adds the counts of another VC.
    pub fn add(&mut self, other: &VcStats) {
        self.tx_msgs += other.tx_msgs;
        self.tx_bytes += other.tx_bytes;
        self.tx_queued += other.tx_queued;
        self.rx_msgs += other.rx_msgs;
        self.rx_bytes += other.rx_bytes;
        self.rx_direct += other.rx_direct;
        self.faults = self.faults.wrapping_add(other.faults);
        self.connects = self.connects.wrapping_add(other.connects);
    }
}

/// Flag of [`Vc::no_direct`].
const NO_DIRECT: u8 = 0x80;
/// The handle of no receive.
const NO_RECV: ReqId = ReqId::from_wire(0);

/// The core's state of one peer.
///
/// The netmod and the layers above keep their own parts in side tables by the same handle.
#[derive(Debug)]
pub struct Vc {
    /// Name of the peer.
    pub peer: PeerName,
    /// Number of the netmod of a set that carries it.
    pub netmod: u8,
    /// State of its life, changed by the layer above according to [`crate::lifecycle`]'s table.
    pub state: VcState,
    pub(crate) pending_len: u8,
    /// The receive that the arriving bytes belong to, or [`NO_RECV`].
    recv_active: ReqId,
    /// Payload bytes still to come that are discarded.
    pub(crate) discard: u64,
    /// Room for a header that arrives in parts, allocated with the first connection.
    pending_pkt: Option<Box<Header>>,
    /// [`NO_DIRECT`], and in the other bits the [`Vc::room`]: 0, or one more than its logarithm.
    means: u8,
    /// Counters.
    pub stats: VcStats,
}

impl Vc {
    /// Creates a VC that was never used.
    pub fn new(peer: PeerName, netmod: u8) -> Vc {
        Vc {
            peer,
            netmod,
            state: VcState::Inactive,
            pending_len: 0,
            recv_active: NO_RECV,
            discard: 0,
            pending_pkt: None,
            means: 0,
            stats: VcStats::default(),
        }
    }

    /// Returns true if all bytes go through events, none straight into a receive's memory.
    #[inline]
    pub fn no_direct(&self) -> bool {
        self.means & NO_DIRECT != 0
    }

    /// Lets all bytes go through events, because a wrapper needs to see them.
    pub fn forbid_direct(&mut self) {
        self.means |= NO_DIRECT;
    }

    /// Returns the bytes of a message that find room in memory shared with the peer, even while as
    /// many are under way there; 0 where the netmod has no such memory, or no connection.
    #[inline]
    pub fn room(&self) -> usize {
        match self.means & !NO_DIRECT {
            0 => 0,
            more => 1 << (more - 1),
        }
    }

    /// Sets that room, which counts up to the next lower power of two. For netmods.
    pub fn set_room(&mut self, bytes: u32) {
        let log = bytes.checked_ilog2().map_or(0, |log| log as u8 + 1);
        self.means = self.means & NO_DIRECT | log;
    }

    /// Returns the active receive, if there is one.
    #[inline]
    pub fn recv_active(&self) -> Option<ReqId> {
        (self.recv_active != NO_RECV).then_some(self.recv_active)
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

    /// Returns the number of header bytes that wait for the rest.
    pub fn pending_pkt_len(&self) -> usize {
        usize::from(self.pending_len)
    }

    /// Returns the room for a header that arrives in parts.
    #[inline]
    pub(crate) fn pending_pkt(&mut self) -> &mut Header {
        self.pending_pkt.get_or_insert_default()
    }

    /// Forgets the message in progress: the connection is gone, and another one begins with a
    /// header.
    pub(crate) fn reset_receive(&mut self) -> Option<ReqId> {
        self.pending_len = 0;
        self.discard = 0;
        // Allocated here, because it must not be while bytes arrive.
        self.pending_pkt();
        self.take_recv_active()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::GroupId;

    #[test]
    fn room_and_the_way_of_bytes_share_a_byte() {
        let mut vc = Vc::new(PeerName { group: GroupId([0; 16]), rank: 0 }, 0);
        assert_eq!((vc.room(), vc.no_direct()), (0, false));
        for (bytes, room) in [(1, 1), (512 << 10, 512 << 10), (u32::MAX, 1 << 31), (3000, 2048), (0, 0)] {
            vc.set_room(bytes);
            assert_eq!((vc.room(), vc.no_direct()), (room, false));
        }
        vc.set_room(4096);
        vc.forbid_direct();
        assert_eq!((vc.room(), vc.no_direct()), (4096, true));
    }

    #[test]
    fn an_unused_vc_is_small() {
        assert!(size_of::<Option<Vc>>() <= 104, "{}", size_of::<Option<Vc>>());
    }
}
