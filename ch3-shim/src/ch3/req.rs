//! The device's part of a request: what it is for, what it has matched, what memory it owns.

use bytes::Bytes;
use netmod_core::{ReqId, Time, apart};

use crate::pkt::Mode;
use crate::status::Status;
use crate::tagmatch::{Envelope, PostedKey};

/// Memory that the device owns on behalf of a request.
#[derive(Debug, Default)]
pub(crate) enum Owned {
    /// None: it was lent.
    #[default]
    Nothing,
    /// Data of a send, held so that it stays where it is.
    Send(Bytes),
    /// Target of a receive, or an unexpected message.
    Recv(Vec<u8>),
}

/// The answer of the receiver of a synchronous eager send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A receive has matched it.
    Matched,
    /// It has returned the message to the sender, which had cancelled it.
    TakenBack,
}

/// The role of a request in the device.
#[derive(Debug)]
pub(crate) enum Role {
    /// A send whose request is finished when its data has left.
    Send,
    /// An eager synchronous send: finished when the netmod lets go of its data and the receiver has
    /// answered.
    SyncSend { sent: bool, answer: Option<Answer> },
    /// A send that was announced; `lmt` has its state.
    RndvSend,
    /// A send that waits for room at its receiver, which was not told of it.
    Waiting { mode: Mode },
    /// A send to this process that waits for its receive.
    SelfSend,
    /// A receive that is posted, or that gets its data eagerly.
    Recv,
    /// A receive that has matched an announced message; `lmt` has its state.
    RndvRecv,
    /// The memory of a cookie that is still arriving.
    Cookie,
    /// A one-sided operation; `onesided` has its state.
    OneSided,
    /// A packet with a cookie, whose memory goes back to the pool when it has left.
    SentCookie,
    /// The memory of an unexpected message that is still arriving, and the receive that has matched
    /// it meanwhile.
    Arriving { then: Option<ReqId> },
}

/// The match of a receive: its status but for its outcome, in words that are stored and read alone.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Matched {
    source_tag: u64,
    len: usize,
}

impl Matched {
    #[inline]
    pub(crate) fn new(env: Envelope, len: usize) -> Matched {
        Matched { source_tag: env.source_tag(), len }
    }

    /// Returns a copy, read word by word where it was just written ([`apart`]).
    #[inline]
    pub(crate) fn by_words(self) -> Matched {
        Matched { source_tag: apart(self.source_tag), ..self }
    }

    #[inline]
    pub(crate) fn status(self) -> Status {
        let env = Envelope::of_words(0, self.source_tag);
        Status { source: env.source(), tag: env.tag(), len: self.len, cancelled: false }
    }
}

/// The device's part of a request.
#[derive(Debug)]
pub(crate) struct MpiReq {
    pub role: Role,
    pub matched: Matched,
    /// Length of the message as it was sent, if that is more than was received; 0 if it is not.
    pub truncated_from: u64,
    pub posted: Option<PostedKey>,
    pub owned: Owned,
    /// Its handle was dropped: nobody will ask for the result.
    pub forgotten: bool,
    /// Sends: the envelope, for a cancel request.
    pub env: Envelope,
    /// A cancel request is under way to the receiver.
    pub cancelling: bool,
    /// Time at which the request was made.
    pub since: Time,
}

impl Default for MpiReq {
    fn default() -> MpiReq {
        MpiReq::new(Role::Recv, Envelope::new(0, 0, 0))
    }
}

impl MpiReq {
    /// Makes this the part of a posted receive, field by field in place.
    #[inline]
    pub(crate) fn renew_recv(&mut self, env: Envelope, posted: PostedKey, since: Time) {
        self.role = Role::Recv;
        self.matched = Matched::default();
        self.truncated_from = 0;
        self.posted = Some(posted);
        self.owned = Owned::Nothing;
        self.forgotten = false;
        self.env = env;
        self.cancelling = false;
        self.since = since;
    }

    /// Returns true if it owns no memory and reports nothing but its status.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.truncated_from == 0 && matches!(self.owned, Owned::Nothing)
    }

    pub(crate) fn new(role: Role, env: Envelope) -> MpiReq {
        MpiReq {
            role,
            matched: Matched::default(),
            truncated_from: 0,
            posted: None,
            owned: Owned::Nothing,
            forgotten: false,
            env,
            cancelling: false,
            since: Time::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each receive makes one. A larger value is moved by a call, which lowers the message rate.
    #[test]
    fn the_device_s_part_of_a_request_is_moved_in_registers() {
        assert!(size_of::<Option<MpiReq>>() <= 128, "{}", size_of::<Option<MpiReq>>());
    }
}
