//! Attributes of devices and their ports.

/// Limits of a device (`ibv_query_device(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceAttr {
    /// The node's identifier.
    pub node_guid: u64,
    /// Number of ports; they are numbered from 1 on.
    pub ports: u8,
    /// Maximum number of queue pairs.
    pub max_qp: u32,
    /// Maximum number of outstanding requests in a queue of a queue pair.
    pub max_qp_wr: u32,
    /// Maximum number of scatter-gather elements of a request.
    pub max_sge: u32,
    /// Maximum number of scatter-gather elements of a read.
    pub max_sge_rd: u32,
    /// Maximum number of completion queues.
    pub max_cq: u32,
    /// Maximum number of entries of a completion queue.
    pub max_cqe: u32,
    /// Maximum number of registrations.
    pub max_mr: u32,
    /// Maximum length of a registration, in bytes.
    pub max_mr_size: u64,
    /// Maximum number of address handles.
    pub max_ah: u32,
    /// Maximum number of shared receive queues.
    pub max_srq: u32,
    /// Maximum number of requests in a shared receive queue.
    pub max_srq_wr: u32,
    /// Maximum number of scatter-gather elements of a request of a shared receive queue.
    pub max_srq_sge: u32,
    /// Maximum number of outstanding reads and atomics with a queue pair as their target.
    pub max_qp_rd_atom: u8,
    /// Maximum number of outstanding reads and atomics with a queue pair as their initiator.
    pub max_qp_init_rd_atom: u8,
    /// The atomic operations of the device.
    pub atomics: AtomicCap,
    /// True if queue pairs can have alternate paths (`IBV_DEVICE_AUTO_PATH_MIG`).
    pub path_migration: bool,
    /// True if the device's capability bits claim XRC. Unreliable: only [`crate::Hca::open_xrcd`]
    /// tells.
    pub xrc_claimed: bool,
}

/// The accesses that a device's atomic operations are atomic with (`enum ibv_atomic_cap`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicCap {
    /// There are no atomic operations.
    None,
    /// Those of the same device.
    Device,
    /// All accesses to the memory, also those of processors.
    Global,
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

/// Link layer of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum LinkLayer {
    Unspecified,
    InfiniBand,
    Ethernet,
}

/// Maximum transmission unit: bytes of payload in a packet.
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
    /// All values, in ascending order.
    pub const ALL: [Mtu; 5] = [Mtu::B256, Mtu::B512, Mtu::B1024, Mtu::B2048, Mtu::B4096];

    /// Returns the number of bytes.
    pub const fn bytes(self) -> u32 {
        128 << self as u32
    }

    /// Returns the MTU with this code of verbs.
    pub fn of_code(code: u32) -> Option<Mtu> {
        Mtu::ALL.into_iter().find(|mtu| *mtu as u32 == code)
    }
}

/// Attributes of a port (`ibv_query_port(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortAttr {
    /// The port's state; only an active port passes packets.
    pub state: PortState,
    /// The largest MTU that the port supports.
    pub max_mtu: Mtu,
    /// The MTU that its link is configured for.
    pub active_mtu: Mtu,
    /// Local identifier; 0 with RoCE.
    pub lid: u16,
    /// Kind of link.
    pub link_layer: LinkLayer,
    /// Number of entries in the table of GIDs.
    pub gid_table_len: u32,
    /// Number of entries in the table of partition keys.
    pub pkey_table_len: u16,
    /// Maximum length of a message, in bytes.
    pub max_msg_size: u32,
    /// Link speed in Mb/s: width times lane speed; 0 if unknown.
    pub speed: u32,
}
