//! Queue pairs and shared receive queues: attributes and states.

use core::time::Duration;

use crate::address::AhAttr;
use crate::attr::Mtu;
use crate::path::{AltPath, PathMigState};

/// Number of a queue pair, 24 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QpNum(pub u32);

/// Number of a shared receive queue, 24 bits, by which XRC messages find it (`ibv_get_srq_num(3)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SrqNum(pub u32);

/// Kind of a queue pair, without references to its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QpKindOf {
    /// Reliable connection.
    Rc,
    /// Unreliable datagrams: messages may be lost, duplicated or reordered, but are never
    /// truncated.
    Ud,
    /// Sending half of an extended reliable connection.
    XrcIni,
    /// Receiving half of an extended reliable connection.
    XrcTgt,
}

/// Capacity of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpCap {
    /// Outstanding requests in the send queue.
    pub max_send_wr: u32,
    /// Outstanding requests in the receive queue, if the pair has its own.
    pub max_recv_wr: u32,
    /// Scatter-gather elements of a send.
    pub max_send_sge: u32,
    /// Scatter-gather elements of a receive.
    pub max_recv_sge: u32,
    /// Maximum length of inline data, in bytes.
    pub max_inline: u32,
}

/// Capacity of a shared receive queue (`ibv_create_srq(3)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SrqAttr {
    /// Outstanding requests.
    pub max_wr: u32,
    /// Scatter-gather elements of a request.
    pub max_sge: u32,
}

/// Access rights to memory, or through a queue pair (`ibv_reg_mr(3)`). Local reading is always
/// permitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Access {
    /// The local device may write: receives, results of reads and atomics. Required for remote
    /// writes and atomics, too.
    pub local_write: bool,
    /// Peers may write.
    pub remote_write: bool,
    /// Peers may read.
    pub remote_read: bool,
    /// Peers may do atomic operations.
    pub remote_atomic: bool,
}

impl Access {
    /// Access for sends only.
    pub const READ: Access =
        Access { local_write: false, remote_write: false, remote_read: false, remote_atomic: false };
    /// Access for sends and receives.
    pub const LOCAL: Access =
        Access { local_write: true, remote_write: false, remote_read: false, remote_atomic: false };
    /// All access rights.
    pub const ALL: Access =
        Access { local_write: true, remote_write: true, remote_read: true, remote_atomic: true };
}

/// State of a queue pair (`ibv_query_qp(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum QpState {
    Reset,
    Init,
    Rtr,
    Rts,
    Sqd,
    Sqe,
    Err,
}

/// Attributes that take a connected queue pair to ready to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToRtr {
    /// Path MTU, the same on both sides and at most the port's active MTU.
    pub path_mtu: Mtu,
    /// Number of the peer's queue pair.
    pub dest_qp: QpNum,
    /// Packet sequence number of the first packet to arrive, 24 bits.
    pub rq_psn: u32,
    /// Maximum number of outstanding reads and atomics from the peer. Unused with
    /// [`QpKindOf::XrcIni`].
    pub max_dest_rd_atomic: u8,
    /// Delay asked of a peer whose message found no receive, as a code (see [`rnr_wait`]). Unused
    /// with [`QpKindOf::XrcIni`].
    pub min_rnr_timer: u8,
    /// The route to the peer.
    pub ah: AhAttr,
    /// The alternate path to the same peer.
    pub alt: Option<AltPath>,
}

/// Attributes that take a connected queue pair to ready to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToRts {
    /// Packet sequence number of the first packet to send, 24 bits.
    pub sq_psn: u32,
    /// Acknowledgement timeout, as a code (see [`timeout_wait`]).
    pub timeout: u8,
    /// Number of retries of a request without answer, 0 to 7. Unused with [`QpKindOf::XrcTgt`].
    pub retry_cnt: u8,
    /// Number of retries of a request that found no receive, 0 to 6; 7 for no limit. Unused with
    /// [`QpKindOf::XrcTgt`].
    pub rnr_retry: u8,
    /// Maximum number of outstanding reads and atomics of this side. Unused with
    /// [`QpKindOf::XrcTgt`].
    pub max_rd_atomic: u8,
    /// The alternate path to the same peer.
    pub alt: Option<AltPath>,
    /// State of path migration; [`PathMigState::Migrated`] if none is given.
    pub path_mig_state: Option<PathMigState>,
}

/// A state transition of a queue pair (`ibv_modify_qp(3)`), with its required attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModifyQp {
    /// From any state to reset, as after creation.
    Reset,
    /// From reset to init, for connected pairs: receives may be posted.
    Init {
        /// The port, from 1 on.
        port: u8,
        /// Index of the partition key in the port's table.
        pkey_index: u16,
        /// Access of the peer; `local_write` has no meaning here.
        access: Access,
    },
    /// From reset to init, for datagrams: receives may be posted.
    InitUd {
        /// The port, from 1 on.
        port: u8,
        /// Index of the partition key in the port's table.
        pkey_index: u16,
        /// Queue key, which messages must carry.
        qkey: u32,
    },
    /// From init to ready to receive, for connected pairs.
    Rtr(ToRtr),
    /// From init to ready to receive, for datagrams.
    RtrUd,
    /// From ready to receive to ready to send, for connected pairs.
    Rts(ToRts),
    /// From ready to receive to ready to send, for datagrams.
    RtsUd {
        /// Packet sequence number of the first packet.
        sq_psn: u32,
    },
    /// Changes only the paths of a connected pair that is ready to send.
    Paths {
        /// The alternate path to the same peer.
        alt: Option<AltPath>,
        /// State of path migration.
        path_mig_state: Option<PathMigState>,
    },
    /// From any state but reset to error: all requests are flushed.
    Err,
}

/// Returns the acknowledgement timeout for a code of `timeout` in `ibv_modify_qp(3)`: 4.096 us
/// times 2 to the power of the code. Code 0 means no timeout. Devices may wait up to four times as
/// long (InfiniBand Architecture Specification, 9.7.6.1.3).
pub const fn timeout_wait(code: u8) -> Option<Duration> {
    match code & 31 {
        0 => None,
        code => Some(Duration::from_nanos(4096 << code)),
    }
}

/// Returns the delay before a sender retries that found no receive, for a code of `min_rnr_timer`
/// (InfiniBand Architecture Specification, table 45).
pub const fn rnr_wait(code: u8) -> Duration {
    const HUNDREDTHS_OF_MS: [u64; 32] = [
        65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
        3072, 4096, 6144, 8192, 12_288, 16_384, 24_576, 32_768, 49_152,
    ];
    Duration::from_micros(HUNDREDTHS_OF_MS[(code & 31) as usize] * 10)
}
