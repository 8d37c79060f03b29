//! Completions.

/// How a work request ended (`ibv_poll_cq(3)`, `enum ibv_wc_status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// Done.
    Success = 0,
    /// The message is longer than local memory, or than the port permits.
    LocLenErr = 1,
    /// The queue pair is in no state to do this.
    LocQpOpErr = 2,
    /// An end-to-end context (reliable datagrams) is in no state to do this.
    LocEecOpErr = 3,
    /// Local memory is not registered, or not for this.
    LocProtErr = 4,
    /// Not tried: the queue pair was in error already.
    WrFlushErr = 5,
    /// A memory window could not be bound.
    MwBindErr = 6,
    /// The peer's answer made no sense.
    BadRespErr = 7,
    /// What the peer wrote with immediate data does not fit in local memory's protection.
    LocAccessErr = 8,
    /// The peer's device took the message for invalid: too long for its receive, or an operation that is not permitted there.
    RemInvReqErr = 9,
    /// The peer's memory is not registered, not with that key, or not for this.
    RemAccessErr = 10,
    /// The peer's device could not do it; its own completion says why.
    RemOpErr = 11,
    /// The peer did not answer, `retry_cnt` times over.
    RetryExcErr = 12,
    /// The peer had no receive posted, `rnr_retry` times over.
    RnrRetryExcErr = 13,
    /// Reliable datagrams: the domains do not match.
    LocRddViolErr = 14,
    /// Reliable datagrams: invalid request at the peer.
    RemInvRdReqErr = 15,
    /// The peer gave the operation up.
    RemAbortErr = 16,
    /// Invalid number of an end-to-end context.
    InvEecnErr = 17,
    /// Invalid state of an end-to-end context.
    InvEecStateErr = 18,
    /// The device or its driver has failed.
    FatalErr = 19,
    /// The peer's answer took too long.
    RespTimeoutErr = 20,
    /// Something else.
    GeneralErr = 21,
    /// Tag matching.
    TmErr = 22,
    /// Tag matching: the rendezvous is left to software.
    TmRndvIncomplete = 23,
}

impl Status {
    /// By its number in libibverbs; what is newer than this list is a [`Status::GeneralErr`].
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

    /// Whether the request was done.
    #[inline]
    pub fn is_success(self) -> bool {
        self == Status::Success
    }
}

/// What was completed (`enum ibv_wc_opcode`).
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
    /// A receive, by a send.
    Recv,
    /// A receive, by a write with immediate data; the data is not in the receive's memory.
    RecvRdmaWithImm,
}

/// A completion (`ibv_poll_cq(3)`). With a status other than success only `wr_id`, `status`, `vendor_err` and `qp_num` mean anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// What the request's maker called it.
    pub wr_id: u64,
    /// How it ended.
    pub status: Status,
    /// What was completed.
    pub op: Completed,
    /// Whether a datagram came with a global header; its 40 bytes are in front of the data, with or without one. Of connections it means
    /// nothing: some devices set it, others do not.
    pub grh: bool,
    /// More of an error, for the device's maker.
    pub vendor_err: u32,
    /// Bytes received, read or exchanged; a datagram's with 40 for the global header.
    pub byte_len: u32,
    /// Immediate data.
    pub imm: Option<u32>,
    /// The queue pair on this side.
    pub qp_num: u32,
    /// The queue pair that sent a datagram.
    pub src_qp: u32,
}

impl Completion {
    /// Room for a completion.
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
