//! Messages that have no receive yet.

use netmod_core::{ReqId, Time, VcId};

use super::Kept;
use super::credit::{self, ENTRY};
use crate::pkt::ShortData;

/// A message without a receive.
#[derive(Debug)]
pub(crate) struct Unexpected {
    /// Where it came by; `None` for messages of this process.
    pub vc: Option<VcId>,
    /// The sender's request, for synchronous, rendezvous and cancelled sends.
    pub sreq: Option<u64>,
    /// Its length.
    pub len: u64,
    /// When it came.
    pub since: Time,
    pub body: Body,
    /// The VC's when it came, see `flow`.
    pub epoch: u32,
}

/// What there is of an unexpected message.
#[derive(Debug)]
pub(crate) enum Body {
    /// All of it, in the entry itself.
    Inline(ShortData),
    /// All of it.
    Whole(Vec<u8>),
    /// It is arriving into the memory of this request.
    Arriving(ReqId),
    /// A rendezvous: its data is still with the sender. How it may move.
    Rts(Kept),
    /// A send of this process, by its request.
    Local(ReqId),
}

impl Unexpected {
    /// Whether the message can no longer be received when this VC is lost.
    pub(crate) fn depends_on(&self, vc: VcId) -> bool {
        self.vc == Some(vc) && (matches!(self.body, Body::Arriving(_) | Body::Rts(_)) || self.sreq.is_some())
    }

    /// Bytes of memory it holds.
    pub(crate) fn held(&self) -> u64 {
        match self.body {
            Body::Whole(_) | Body::Arriving(_) => self.len,
            _ => 0,
        }
    }

    /// What its sender was charged for an eager message, or this process for a copy of its own.
    pub(crate) fn charge(&self) -> u32 {
        match self.body {
            Body::Inline(_) => ENTRY,
            _ => credit::charge(u32::try_from(self.len).unwrap_or(u32::MAX)),
        }
    }

    pub(crate) fn arriving(&self) -> Option<ReqId> {
        match self.body {
            Body::Arriving(req) => Some(req),
            _ => None,
        }
    }
}
