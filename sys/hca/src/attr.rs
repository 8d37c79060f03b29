//! What a device and its ports say of themselves.

/// Limits of a device (`ibv_query_device(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceAttr {
    /// The node's identifier.
    pub node_guid: u64,
    /// Number of ports; they are numbered from 1 on.
    pub ports: u8,
    /// Queue pairs.
    pub max_qp: u32,
    /// Requests in a queue of a queue pair.
    pub max_qp_wr: u32,
    /// Pieces of local memory in a request.
    pub max_sge: u32,
    /// Pieces of local memory in a read.
    pub max_sge_rd: u32,
    /// Completion queues.
    pub max_cq: u32,
    /// Entries of a completion queue.
    pub max_cqe: u32,
    /// Registrations.
    pub max_mr: u32,
    /// Bytes of a registration.
    pub max_mr_size: u64,
    /// Address handles.
    pub max_ah: u32,
    /// Shared receive queues.
    pub max_srq: u32,
    /// Requests in a shared receive queue.
    pub max_srq_wr: u32,
    /// Pieces of local memory in a request of a shared receive queue.
    pub max_srq_sge: u32,
    /// Reads and atomics that a queue pair can have under way as their target.
    pub max_qp_rd_atom: u8,
    /// Reads and atomics that a queue pair can have under way as their initiator.
    pub max_qp_init_rd_atom: u8,
    /// Whether there are atomic operations.
    pub atomics: bool,
    /// Support for alternate paths of queue pairs (`IBV_DEVICE_AUTO_PATH_MIG`).
    pub path_migration: bool,
    /// What the device's capability bits say of XRC. Not to be relied on: [`crate::Hca::open_xrcd`] tells.
    pub xrc_claimed: bool,
}

/// State of a port (`ibv_query_port(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PortState {
    Nop,
    Down,
    Init,
    Armed,
    Active,
    ActiveDefer,
}

/// What a port's link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LinkLayer {
    Unspecified,
    InfiniBand,
    Ethernet,
}

/// Bytes of payload in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum Mtu {
    B256 = 1,
    B512 = 2,
    B1024 = 3,
    B2048 = 4,
    B4096 = 5,
}

impl Mtu {
    /// All of them, in ascending order.
    pub const ALL: [Mtu; 5] = [Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096];

    /// As a number of bytes.
    pub const fn bytes(self) -> u32 {
        128 << self as u32
    }

    /// By its code in verbs and on the wire.
    pub fn of_code(code: u32) -> Option<Mtu> {
        Mtu::ALL.into_iter().find(|mtu| *mtu as u32 == code)
    }
}

/// A port (`ibv_query_port(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortAttr {
    /// Whether packets can pass.
    pub state: PortState,
    /// The largest MTU that the port supports.
    pub max_mtu: Mtu,
    /// The largest that its link is configured for.
    pub active_mtu: Mtu,
    /// Local identifier; 0 with RoCE.
    pub lid: u16,
    /// Kind of link.
    pub link_layer: LinkLayer,
    /// Entries of the table of GIDs.
    pub gid_table_len: u32,
    /// Entries of the table of partition keys.
    pub pkey_table_len: u16,
    /// Bytes of the longest message.
    pub max_msg_size: u32,
    /// Link speed in Mb/s, as width and speed of a lane make it; 0 if unknown.
    pub speed: u32,
}
