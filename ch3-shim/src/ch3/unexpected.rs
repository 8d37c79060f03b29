//! Messages that have no receive yet.

use netmod_core::{ReqId, Time, VcId};

use super::Kept;
use super::credit::{self, ENTRY};
use crate::pkt::ShortData;

/// A message without a receive.
#[derive(Debug)]
pub(crate) struct Unexpected {
    /// The VC that it arrived by; `None` for messages of this process.
    pub vc: Option<VcId>,
    /// The sender's request, for synchronous, rendezvous and cancelled sends.
    pub sreq: Option<u64>,
    /// Its length.
    pub len: u64,
    /// Time of its arrival.
    pub since: Time,
    pub body: Body,
    /// The VC's epoch of flow control at its arrival.
    pub epoch: u32,
}

/// The state of an unexpected message's data.
#[derive(Debug)]
pub(crate) enum Body {
    /// All of it, in the entry itself.
    Inline(ShortData),
    /// All of it.
    Whole(Vec<u8>),
    /// It is arriving into the memory of this request.
    Arriving(ReqId),
    /// A rendezvous: the sender has the data, and offers to move it so.
    Rts(Kept),
    /// A send of this process, by its request.
    Local(ReqId),
}

impl Unexpected {
    /// Returns true if the loss of this VC makes the message unreceivable.
    pub(crate) fn depends_on(&self, vc: VcId) -> bool {
        self.vc == Some(vc) && (matches!(self.body, Body::Arriving(_) | Body::Rts(_)) || self.sreq.is_some())
    }

    /// Returns the memory that it holds, in bytes.
    pub(crate) fn held(&self) -> u64 {
        match self.body {
            Body::Whole(_) | Body::Arriving(_) => self.len,
            _ => 0,
        }
    }

    /// Returns the charge of an eager message, or of a copy of this process's own, in bytes.
    pub(crate) fn charge(&self) -> u32 {
        match self.body {
            Body::Inline(_) => ENTRY,
            _ => credit::charge(u32::try_from(self.len).unwrap_or(u32::MAX)),
        }
    }

    /// Returns the request that its data arrives for.
    pub(crate) fn arriving(&self) -> Option<ReqId> {
        match self.body {
            Body::Arriving(req) => Some(req),
            _ => None,
        }
    }
}
