//! Constants of the header that are used.

/// InfiniBand.
pub const IBV_GID_TYPE_IB: u32 = 0;
/// RoCE in Ethernet frames, not routable.
pub const IBV_GID_TYPE_ROCE_V1: u32 = 1;
/// RoCE in UDP.
pub const IBV_GID_TYPE_ROCE_V2: u32 = 2;

/// Unknown.
pub const IBV_TRANSPORT_UNKNOWN: i32 = -1;
/// InfiniBand and RoCE.
pub const IBV_TRANSPORT_IB: i32 = 0;
/// iWARP.
pub const IBV_TRANSPORT_IWARP: i32 = 1;

/// Queue pairs can have alternate paths.
pub const IBV_DEVICE_AUTO_PATH_MIG: u32 = 1 << 4;
/// Shared receive queues can be resized.
pub const IBV_DEVICE_SRQ_RESIZE: u32 = 1 << 13;
/// XRC; unreliable, see `ibv_open_xrcd`.
pub const IBV_DEVICE_XRC: u32 = 1 << 20;
/// The device reports when a port becomes active.
pub const IBV_DEVICE_PORT_ACTIVE_EVENT: u32 = 1 << 10;

/// No atomic operations.
pub const IBV_ATOMIC_NONE: u32 = 0;
/// Atomic with respect to operations of the same device.
pub const IBV_ATOMIC_HCA: u32 = 1;
/// Atomic with respect to all accesses to the memory.
pub const IBV_ATOMIC_GLOB: u32 = 2;

/// 256 bytes per packet.
pub const IBV_MTU_256: u32 = 1;
/// 512 bytes per packet.
pub const IBV_MTU_512: u32 = 2;
/// 1024 bytes per packet.
pub const IBV_MTU_1024: u32 = 3;
/// 2048 bytes per packet.
pub const IBV_MTU_2048: u32 = 4;
/// 4096 bytes per packet.
pub const IBV_MTU_4096: u32 = 5;

/// The port reports no state.
pub const IBV_PORT_NOP: u32 = 0;
/// The port is down.
pub const IBV_PORT_DOWN: u32 = 1;
/// The port has a link, but no subnet manager has configured it.
pub const IBV_PORT_INIT: u32 = 2;
/// The port is configured, but not active yet.
pub const IBV_PORT_ARMED: u32 = 3;
/// The port is up.
pub const IBV_PORT_ACTIVE: u32 = 4;
/// The port is active, and its link was just lost.
pub const IBV_PORT_ACTIVE_DEFER: u32 = 5;

/// Not specified; means InfiniBand.
pub const IBV_LINK_LAYER_UNSPECIFIED: u8 = 0;
/// InfiniBand.
pub const IBV_LINK_LAYER_INFINIBAND: u8 = 1;
/// Ethernet: RoCE or iWARP.
pub const IBV_LINK_LAYER_ETHERNET: u8 = 2;

/// A completion queue overran.
pub const IBV_EVENT_CQ_ERR: u32 = 0;
/// A queue pair failed.
pub const IBV_EVENT_QP_FATAL: u32 = 1;
/// A queue pair received an invalid request.
pub const IBV_EVENT_QP_REQ_ERR: u32 = 2;
/// A queue pair received a request that violates memory protection.
pub const IBV_EVENT_QP_ACCESS_ERR: u32 = 3;
/// A queue pair in RTR received a message.
pub const IBV_EVENT_COMM_EST: u32 = 4;
/// A send queue is drained.
pub const IBV_EVENT_SQ_DRAINED: u32 = 5;
/// A queue pair changed to its alternate path.
pub const IBV_EVENT_PATH_MIG: u32 = 6;
/// A queue pair failed to change to its alternate path.
pub const IBV_EVENT_PATH_MIG_ERR: u32 = 7;
/// The device failed or was removed.
pub const IBV_EVENT_DEVICE_FATAL: u32 = 8;
/// A port became active.
pub const IBV_EVENT_PORT_ACTIVE: u32 = 9;
/// A port went down.
pub const IBV_EVENT_PORT_ERR: u32 = 10;
/// A port's LID changed.
pub const IBV_EVENT_LID_CHANGE: u32 = 11;
/// A port's partition keys changed.
pub const IBV_EVENT_PKEY_CHANGE: u32 = 12;
/// A port's subnet manager changed.
pub const IBV_EVENT_SM_CHANGE: u32 = 13;
/// A shared receive queue failed.
pub const IBV_EVENT_SRQ_ERR: u32 = 14;
/// A shared receive queue has fewer receives than its limit.
pub const IBV_EVENT_SRQ_LIMIT_REACHED: u32 = 15;
/// A failed queue pair will take no more from its shared receive queue.
pub const IBV_EVENT_QP_LAST_WQE_REACHED: u32 = 16;
/// The subnet manager has lost a port's registrations.
pub const IBV_EVENT_CLIENT_REREGISTER: u32 = 17;
/// A port's GIDs changed.
pub const IBV_EVENT_GID_CHANGE: u32 = 18;

/// Success.
pub const IBV_WC_SUCCESS: u32 = 0;
/// A message was longer than its buffer, or than the device sends.
pub const IBV_WC_LOC_LEN_ERR: u32 = 1;
/// The work request is not valid for its queue pair.
pub const IBV_WC_LOC_QP_OP_ERR: u32 = 2;
/// Local memory is not registered for that.
pub const IBV_WC_LOC_PROT_ERR: u32 = 4;
/// The queue pair had failed before; the request is flushed.
pub const IBV_WC_WR_FLUSH_ERR: u32 = 5;
/// The peer's response is malformed.
pub const IBV_WC_BAD_RESP_ERR: u32 = 7;
/// A peer's write violates the protection of local memory.
pub const IBV_WC_LOC_ACCESS_ERR: u32 = 8;
/// The peer rejects the request as invalid.
pub const IBV_WC_REM_INV_REQ_ERR: u32 = 9;
/// The peer's memory is not registered for that.
pub const IBV_WC_REM_ACCESS_ERR: u32 = 10;
/// The peer could not complete the operation.
pub const IBV_WC_REM_OP_ERR: u32 = 11;
/// The peer did not answer within the retries.
pub const IBV_WC_RETRY_EXC_ERR: u32 = 12;
/// The peer had no receive within the retries.
pub const IBV_WC_RNR_RETRY_EXC_ERR: u32 = 13;
/// The peer aborted the operation.
pub const IBV_WC_REM_ABORT_ERR: u32 = 16;
/// The device has failed.
pub const IBV_WC_FATAL_ERR: u32 = 19;
/// No response came.
pub const IBV_WC_RESP_TIMEOUT_ERR: u32 = 20;
/// Another error.
pub const IBV_WC_GENERAL_ERR: u32 = 21;

/// A send.
pub const IBV_WC_SEND: u32 = 0;
/// A write.
pub const IBV_WC_RDMA_WRITE: u32 = 1;
/// A read.
pub const IBV_WC_RDMA_READ: u32 = 2;
/// A compare-and-swap.
pub const IBV_WC_COMP_SWAP: u32 = 3;
/// A fetch-and-add.
pub const IBV_WC_FETCH_ADD: u32 = 4;
/// A receive; only receives have this bit.
pub const IBV_WC_RECV: u32 = 1 << 7;
/// A receive used by a write with immediate data.
pub const IBV_WC_RECV_RDMA_WITH_IMM: u32 = (1 << 7) + 1;

/// The buffer begins with a global header.
pub const IBV_WC_GRH: u32 = 1 << 0;
/// There is immediate data.
pub const IBV_WC_WITH_IMM: u32 = 1 << 1;

/// The device may write.
pub const IBV_ACCESS_LOCAL_WRITE: u32 = 1;
/// Peers may write.
pub const IBV_ACCESS_REMOTE_WRITE: u32 = 1 << 1;
/// Peers may read.
pub const IBV_ACCESS_REMOTE_READ: u32 = 1 << 2;
/// Peers may use atomic operations.
pub const IBV_ACCESS_REMOTE_ATOMIC: u32 = 1 << 3;
/// Writes may overtake each other. Omitted for libraries that do not know it.
pub const IBV_ACCESS_RELAXED_ORDERING: u32 = 1 << 20;
/// Access flags that a library may ignore.
pub const IBV_ACCESS_OPTIONAL_RANGE: u32 = 0x3ff0_0000;

/// `fd` is given.
pub const IBV_XRCD_INIT_ATTR_FD: u32 = 1 << 0;
/// `oflags` are given.
pub const IBV_XRCD_INIT_ATTR_OFLAGS: u32 = 1 << 1;

/// `max_wr` is set.
pub const IBV_SRQ_MAX_WR: i32 = 1 << 0;
/// `srq_limit` is set.
pub const IBV_SRQ_LIMIT: i32 = 1 << 1;

/// Belongs to no XRC domain.
pub const IBV_SRQT_BASIC: u32 = 0;
/// Belongs to an XRC domain.
pub const IBV_SRQT_XRC: u32 = 1;

/// `srq_type` is given.
pub const IBV_SRQ_INIT_ATTR_TYPE: u32 = 1 << 0;
/// `pd` is given.
pub const IBV_SRQ_INIT_ATTR_PD: u32 = 1 << 1;
/// `xrcd` is given.
pub const IBV_SRQ_INIT_ATTR_XRCD: u32 = 1 << 2;
/// `cq` is given.
pub const IBV_SRQ_INIT_ATTR_CQ: u32 = 1 << 3;

/// Reliable connection.
pub const IBV_QPT_RC: u32 = 2;
/// Unreliable connection.
pub const IBV_QPT_UC: u32 = 3;
/// Datagrams.
pub const IBV_QPT_UD: u32 = 4;
/// XRC, the side that sends (INI).
pub const IBV_QPT_XRC_SEND: u32 = 9;
/// XRC, the side that receives (TGT).
pub const IBV_QPT_XRC_RECV: u32 = 10;

/// `pd` is given.
pub const IBV_QP_INIT_ATTR_PD: u32 = 1 << 0;
/// `xrcd` is given.
pub const IBV_QP_INIT_ATTR_XRCD: u32 = 1 << 1;

/// `qp_num` is given.
pub const IBV_QP_OPEN_ATTR_NUM: u32 = 1 << 0;
/// `xrcd` is given.
pub const IBV_QP_OPEN_ATTR_XRCD: u32 = 1 << 1;
/// `qp_context` is given.
pub const IBV_QP_OPEN_ATTR_CONTEXT: u32 = 1 << 2;
/// `qp_type` is given.
pub const IBV_QP_OPEN_ATTR_TYPE: u32 = 1 << 3;

/// `qp_state`.
pub const IBV_QP_STATE: i32 = 1 << 0;
/// `cur_qp_state`.
pub const IBV_QP_CUR_STATE: i32 = 1 << 1;
/// `qp_access_flags`.
pub const IBV_QP_ACCESS_FLAGS: i32 = 1 << 3;
/// `pkey_index`.
pub const IBV_QP_PKEY_INDEX: i32 = 1 << 4;
/// `port_num`.
pub const IBV_QP_PORT: i32 = 1 << 5;
/// `qkey`.
pub const IBV_QP_QKEY: i32 = 1 << 6;
/// `ah_attr`.
pub const IBV_QP_AV: i32 = 1 << 7;
/// `path_mtu`.
pub const IBV_QP_PATH_MTU: i32 = 1 << 8;
/// `timeout`.
pub const IBV_QP_TIMEOUT: i32 = 1 << 9;
/// `retry_cnt`.
pub const IBV_QP_RETRY_CNT: i32 = 1 << 10;
/// `rnr_retry`.
pub const IBV_QP_RNR_RETRY: i32 = 1 << 11;
/// `rq_psn`.
pub const IBV_QP_RQ_PSN: i32 = 1 << 12;
/// `max_rd_atomic`.
pub const IBV_QP_MAX_QP_RD_ATOMIC: i32 = 1 << 13;
/// `alt_ah_attr`, `alt_pkey_index`, `alt_port_num` and `alt_timeout`.
pub const IBV_QP_ALT_PATH: i32 = 1 << 14;
/// `min_rnr_timer`.
pub const IBV_QP_MIN_RNR_TIMER: i32 = 1 << 15;
/// `sq_psn`.
pub const IBV_QP_SQ_PSN: i32 = 1 << 16;
/// `max_dest_rd_atomic`.
pub const IBV_QP_MAX_DEST_RD_ATOMIC: i32 = 1 << 17;
/// `path_mig_state`.
pub const IBV_QP_PATH_MIG_STATE: i32 = 1 << 18;
/// `cap`.
pub const IBV_QP_CAP: i32 = 1 << 19;
/// `dest_qp_num`.
pub const IBV_QP_DEST_QPN: i32 = 1 << 20;

/// No path change is armed, or one has happened.
pub const IBV_MIG_MIGRATED: u32 = 0;
/// An alternate path is loaded here; the peer's is not loaded yet.
pub const IBV_MIG_REARM: u32 = 1;
/// Both sides have loaded alternate paths.
pub const IBV_MIG_ARMED: u32 = 2;

/// Newly made.
pub const IBV_QPS_RESET: u32 = 0;
/// Receives may be posted.
pub const IBV_QPS_INIT: u32 = 1;
/// Ready to receive.
pub const IBV_QPS_RTR: u32 = 2;
/// Ready to send.
pub const IBV_QPS_RTS: u32 = 3;
/// The send queue is draining.
pub const IBV_QPS_SQD: u32 = 4;
/// The send queue has failed.
pub const IBV_QPS_SQE: u32 = 5;
/// Failed: all work requests are flushed.
pub const IBV_QPS_ERR: u32 = 6;

/// Write.
pub const IBV_WR_RDMA_WRITE: u32 = 0;
/// Write with immediate data, which uses a receive of the peer.
pub const IBV_WR_RDMA_WRITE_WITH_IMM: u32 = 1;
/// Send.
pub const IBV_WR_SEND: u32 = 2;
/// Send with immediate data.
pub const IBV_WR_SEND_WITH_IMM: u32 = 3;
/// Read.
pub const IBV_WR_RDMA_READ: u32 = 4;
/// Compare-and-swap of 8 bytes.
pub const IBV_WR_ATOMIC_CMP_AND_SWP: u32 = 5;
/// Fetch-and-add of 8 bytes.
pub const IBV_WR_ATOMIC_FETCH_AND_ADD: u32 = 6;

/// Waits for earlier reads and atomics.
pub const IBV_SEND_FENCE: u32 = 1 << 0;
/// Requests a completion.
pub const IBV_SEND_SIGNALED: u32 = 1 << 1;
/// Causes an event at the peer.
pub const IBV_SEND_SOLICITED: u32 = 1 << 2;
/// The memory is reusable when the call returns.
pub const IBV_SEND_INLINE: u32 = 1 << 3;
