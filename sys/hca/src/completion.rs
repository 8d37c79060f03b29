//! Completions of work requests.

/// Status of a completed work request (`ibv_poll_cq(3)`, `enum ibv_wc_status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// Success.
    Success = 0,
    /// The message is longer than local memory, or than the port permits.
    LocLenErr = 1,
    /// The request is not valid for the queue pair or its state.
    LocQpOpErr = 2,
    /// The request is not valid for an end-to-end context (reliable datagrams).
    LocEecOpErr = 3,
    /// Local memory is not registered, or not with this access.
    LocProtErr = 4,
    /// Flushed: the queue pair was in the error state already.
    WrFlushErr = 5,
    /// A memory window could not be bound.
    MwBindErr = 6,
    /// The peer's response was malformed.
    BadRespErr = 7,
    /// The peer's write with immediate data violates the protection of local memory.
    LocAccessErr = 8,
    /// The peer's device rejects the request as invalid: too long for its receive, or an operation
    /// that it does not permit.
    RemInvReqErr = 9,
    /// The peer's memory is not registered, not with that key, or not with this access.
    RemAccessErr = 10,
    /// The peer's device could not complete the operation; its own completion says why.
    RemOpErr = 11,
    /// The peer did not answer; `retry_cnt` attempts were made.
    RetryExcErr = 12,
    /// The peer had no receive posted; `rnr_retry` attempts were made.
    RnrRetryExcErr = 13,
    /// Reliable datagrams: the domains do not match.
    LocRddViolErr = 14,
    /// Reliable datagrams: invalid request at the peer.
    RemInvRdReqErr = 15,
    /// The peer aborted the operation.
    RemAbortErr = 16,
    /// Invalid number of an end-to-end context.
    InvEecnErr = 17,
    /// Invalid state of an end-to-end context.
    InvEecStateErr = 18,
    /// The device or its driver has failed.
    FatalErr = 19,
    /// The peer's response timed out.
    RespTimeoutErr = 20,
    /// Another error.
    GeneralErr = 21,
    /// Tag matching failed.
    TmErr = 22,
    /// Tag matching: software must do the rendezvous.
    TmRndvIncomplete = 23,
}

impl Status {
    /// Returns the status with this number of libibverbs. Unknown numbers become
    /// [`Status::GeneralErr`].
    pub fn of_code(code: u32) -> Status {
        const ALL: [Status; 24] = [
            Status::Success,
            Status::LocLenErr,
            Status::LocQpOpErr,
            Status::LocEecOpErr,
            Status::LocProtErr,
            Status::WrFlushErr,
            Status::MwBindErr,
            Status::BadRespErr,
            Status::LocAccessErr,
            Status::RemInvReqErr,
            Status::RemAccessErr,
            Status::RemOpErr,
            Status::RetryExcErr,
            Status::RnrRetryExcErr,
            Status::LocRddViolErr,
            Status::RemInvRdReqErr,
            Status::RemAbortErr,
            Status::InvEecnErr,
            Status::InvEecStateErr,
            Status::FatalErr,
            Status::RespTimeoutErr,
            Status::GeneralErr,
            Status::TmErr,
            Status::TmRndvIncomplete,
        ];
        ALL.get(code as usize).copied().unwrap_or(Status::GeneralErr)
    }

    /// Returns true if the request succeeded.
    #[inline]
    pub fn is_success(self) -> bool {
        self == Status::Success
    }
}

/// Operation that was completed (`enum ibv_wc_opcode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Completed {
    /// A send.
    Send,
    /// A write.
    RdmaWrite,
    /// A read.
    RdmaRead,
    /// A compare-and-swap.
    CompareSwap,
    /// A fetch-and-add.
    FetchAdd,
    /// A receive that a send used.
    Recv,
    /// A receive that a write with immediate data used; its memory holds no data.
    RecvRdmaWithImm,
}

/// A completion (`ibv_poll_cq(3)`). Unless its status is success, only `wr_id`, `status`,
/// `vendor_err` and `qp_num` are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The identifier from the work request.
    pub wr_id: u64,
    /// The status.
    pub status: Status,
    /// The operation.
    pub op: Completed,
    /// True if a datagram came with a global header. Its 40 bytes precede the data in either case.
    /// Meaningless for connections: some devices set it, others do not.
    pub grh: bool,
    /// Vendor-specific error code.
    pub vendor_err: u32,
    /// Bytes received, read or exchanged; for a datagram this includes the 40 bytes of the global
    /// header.
    pub byte_len: u32,
    /// Immediate data.
    pub imm: Option<u32>,
    /// Number of the local queue pair.
    pub qp_num: u32,
    /// Number of the queue pair that sent the datagram.
    pub src_qp: u32,
}

impl Completion {
    /// An empty completion, to be filled by a poll.
    pub const EMPTY: Completion = Completion {
        wr_id: 0,
        status: Status::GeneralErr,
        op: Completed::Send,
        grh: false,
        vendor_err: 0,
        byte_len: 0,
        imm: None,
        qp_num: 0,
        src_qp: 0,
    };
}
