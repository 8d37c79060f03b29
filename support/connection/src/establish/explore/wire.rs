//! The modelled connections: a queue of messages each way, and the state of the two ends.

use std::collections::VecDeque;

use crate::RejectReason;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Msg {
    /// HELLO, CHALLENGE and PROOF in one: nothing has an effect before PROOF.
    Hello,
    Accept {
        incarnation: u8,
        dials: u8,
    },
    Reject(RejectReason),
    Ready,
    Goodbye,
    /// The responder takes its promise back.
    Withdrawn,
    Data,
    /// The sender ends the made connection.
    Ended,
    /// The answer to it.
    EndedToo,
    /// End of a stream.
    Eof,
    Reset,
}

impl Msg {
    /// Returns true if the network may lose it.
    pub(super) fn may_be_lost(self) -> bool {
        matches!(self, Msg::Hello | Msg::Accept { .. } | Msg::Reject(_) | Msg::Goodbye)
    }
}

/// One end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum End {
    /// No HELLO has come.
    Unknown,
    Open,
    Closed,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Conn {
    pub(super) dialer: usize,
    /// The incarnation of the process that dialled, and the number of its dial.
    pub(super) incarnation: u8,
    pub(super) number: u8,
    /// The session that the dialer resumes, or 0.
    pub(super) session: u8,
    pub(super) ends: [End; 2],
    /// Messages on their way to each side.
    pub(super) to: [VecDeque<Msg>; 2],
    /// True if this side has announced the end of the connection.
    pub(super) told: [bool; 2],
    /// The ACCEPT that was sent, for retransmission.
    pub(super) accept: Option<Msg>,
    /// The responder has read READY.
    pub(super) ready: bool,
    pub(super) broken: bool,
}
