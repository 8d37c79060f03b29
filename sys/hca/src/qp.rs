//! Queue pairs and shared receive queues: what they are made of, and their states.

use core::time::Duration;

use crate::address::AhAttr;
use crate::attr::Mtu;
use crate::hca::Hca;
use crate::path::{AltPath, PathMigState};

/// Number of a queue pair, 24 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QpNum(pub u32);

/// Number of a shared receive queue, 24 bits, by which XRC messages find it (`ibv_get_srq_num(3)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SrqNum(pub u32);

/// Kind of a queue pair, without its queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QpKindOf {
    /// Reliable connection.
    Rc,
    /// Datagrams, with which anything may happen to messages but that they are cut.
    Ud,
    /// Sending half of an extended reliable connection.
    XrcIni,
    /// Receiving half of an extended reliable connection.
    XrcTgt,
}

/// Kind of a queue pair, and where its completions and receives are (`ibv_create_qp(3)`, `ibv_create_qp_ex(3)`).
#[derive(Debug)]
pub enum QpKind<'a, H: Hca> {
    /// Reliable connection (`IBV_QPT_RC`).
    Rc {
        /// For what was sent.
        send_cq: &'a H::Cq,
        /// For what was received.
        recv_cq: &'a H::Cq,
        /// Where receives are taken from; without it, from a queue of the pair's own.
        srq: Option<&'a H::Srq>,
    },
    /// Datagrams (`IBV_QPT_UD`).
    Ud {
        /// For what was sent.
        send_cq: &'a H::Cq,
        /// For what was received.
        recv_cq: &'a H::Cq,
        /// Where receives are taken from; without it, from a queue of the pair's own.
        srq: Option<&'a H::Srq>,
    },
    /// Sender of XRC (`IBV_QPT_XRC_SEND`).
    XrcIni {
        /// For what was sent.
        send_cq: &'a H::Cq,
    },
    /// Receiver of XRC (`IBV_QPT_XRC_RECV`). Messages go to the shared receive queues of the domain that they name.
    XrcTgt {
        /// Its domain.
        xrcd: &'a H::Xrcd,
    },
}

// Not derived: it would ask the device to be Copy.
impl<H: Hca> Clone for QpKind<'_, H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H: Hca> Copy for QpKind<'_, H> {}

impl<H: Hca> QpKind<'_, H> {
    /// Without the queues.
    pub fn kind(&self) -> QpKindOf {
        match self {
            QpKind::Rc { .. } => QpKindOf::Rc,
            QpKind::Ud { .. } => QpKindOf::Ud,
            QpKind::XrcIni { .. } => QpKindOf::XrcIni,
            QpKind::XrcTgt { .. } => QpKindOf::XrcTgt,
        }
    }
}

/// Size of a queue pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpCap {
    /// Requests in the send queue.
    pub max_send_wr: u32,
    /// Requests in the receive queue, if there is one of its own.
    pub max_recv_wr: u32,
    /// Pieces of memory in a send.
    pub max_send_sge: u32,
    /// Pieces of memory in a receive.
    pub max_recv_sge: u32,
    /// Bytes that can be sent inline.
    pub max_inline: u32,
}

/// A queue pair that is to be made (`ibv_create_qp(3)`).
#[derive(Debug)]
pub struct QpInit<'a, H: Hca> {
    /// Kind and queues.
    pub kind: QpKind<'a, H>,
    /// Least size; the device may give more, see [`crate::Qp::cap`].
    pub cap: QpCap,
    /// Whether each request has a completion, or only those that ask for one.
    pub signal_all: bool,
}

/// Size and limit of a shared receive queue (`ibv_create_srq(3)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SrqAttr {
    /// Requests in it.
    pub max_wr: u32,
    /// Pieces of memory in a request.
    pub max_sge: u32,
}

/// Who may do what with memory, or with a queue pair's process (`ibv_reg_mr(3)`). Local reading is always permitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Access {
    /// The device may write for this process: receives, results of reads and atomics. Needed for remote writes and atomics too.
    pub local_write: bool,
    /// A peer may write.
    pub remote_write: bool,
    /// A peer may read.
    pub remote_read: bool,
    /// A peer may do atomic operations.
    pub remote_atomic: bool,
}

impl Access {
    /// Sends only.
    pub const READ: Access =
        Access { local_write: false, remote_write: false, remote_read: false, remote_atomic: false };
    /// Sends and receives.
    pub const LOCAL: Access =
        Access { local_write: true, remote_write: false, remote_read: false, remote_atomic: false };
    /// Everything.
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

/// What a connected queue pair needs to be ready to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToRtr {
    /// Bytes in a packet; both sides must have the same, and it may be no more than the port's active MTU.
    pub path_mtu: Mtu,
    /// The peer.
    pub dest_qp: QpNum,
    /// Number of the first packet that will come, 24 bits.
    pub rq_psn: u32,
    /// Reads and atomics that the peer may have under way. Not of [`QpKindOf::XrcIni`].
    pub max_dest_rd_atomic: u8,
    /// How long the peer waits if no receive was posted, as a code (see [`rnr_wait`]). Not of [`QpKindOf::XrcIni`].
    pub min_rnr_timer: u8,
    /// The way to the peer.
    pub ah: AhAttr,
    /// Another way to the same peer.
    pub alt: Option<AltPath>,
}

/// What a connected queue pair needs to be ready to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToRts {
    /// Number of the first packet that will go, 24 bits.
    pub sq_psn: u32,
    /// How long an acknowledgement is waited for, as a code (see [`timeout_wait`]).
    pub timeout: u8,
    /// How often a request is repeated that was not answered, 0 to 7. Not of [`QpKindOf::XrcTgt`].
    pub retry_cnt: u8,
    /// How often a request is repeated that met no receive, 0 to 6, or 7: without end. Not of [`QpKindOf::XrcTgt`].
    pub rnr_retry: u8,
    /// Reads and atomics of this side under way. Not of [`QpKindOf::XrcTgt`].
    pub max_rd_atomic: u8,
    /// Another way to the same peer.
    pub alt: Option<AltPath>,
    /// State of path migration, [`PathMigState::Migrated`] if none is given.
    pub path_mig_state: Option<PathMigState>,
}

/// A step of a queue pair (`ibv_modify_qp(3)`), with the attributes that it must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModifyQp {
    /// From anywhere: as if it had just been made.
    Reset,
    /// From reset, of connected ones: receives may be posted.
    Init {
        /// The port, from 1 on.
        port: u8,
        /// Place of the partition key in the port's table.
        pkey_index: u16,
        /// What a peer may do; `local_write` has no meaning here.
        access: Access,
    },
    /// From reset, of datagrams: receives may be posted.
    InitUd {
        /// The port, from 1 on.
        port: u8,
        /// Place of the partition key in the port's table.
        pkey_index: u16,
        /// Messages must have the same.
        qkey: u32,
    },
    /// From init, of connected ones: messages can come.
    Rtr(ToRtr),
    /// From init, of datagrams.
    RtrUd,
    /// From ready to receive, of connected ones: sends may be posted.
    Rts(ToRts),
    /// From ready to receive, of datagrams.
    RtsUd {
        /// Number of the first packet.
        sq_psn: u32,
    },
    /// From ready to send, of connected ones: the queue pair stays as it is but for its paths.
    Paths {
        /// Another way to the same peer.
        alt: Option<AltPath>,
        /// State of path migration.
        path_mig_state: Option<PathMigState>,
    },
    /// From anywhere but reset: all requests are flushed.
    Err,
}

/// How long an acknowledgement is waited for, by the code of `timeout` in `ibv_modify_qp(3)`: 4.096 us times two to its power; 0:
/// without end. Devices may take up to four times as long (InfiniBand Architecture Specification, 9.7.6.1.3).
pub const fn timeout_wait(code: u8) -> Option<Duration> {
    match code & 31 {
        0 => None,
        code => Some(Duration::from_nanos(4096 << code)),
    }
}

/// How long a sender waits that met no receive, by the code of `min_rnr_timer` (InfiniBand Architecture Specification, table 45).
pub const fn rnr_wait(code: u8) -> Duration {
    const HUNDREDTHS_OF_MS: [u64; 32] = [
        65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
        3072, 4096, 6144, 8192, 12_288, 16_384, 24_576, 32_768, 49_152,
    ];
    Duration::from_micros(HUNDREDTHS_OF_MS[(code & 31) as usize] * 10)
}
