//! The state of an endpoint of XRC.

use core::time::Duration;

use netmod_core::Time;

use super::join::Hold;
use super::repost::RepostQueue;
use super::send_qp::Repost;
use crate::wire::XrcEndpoint;

/// State of an XRC endpoint.
#[derive(Debug)]
pub(super) struct XrcState {
    /// Token by which the peer names it.
    pub(super) token: u64,
    /// The peer's endpoint, once it is known.
    pub(super) peer: Option<XrcEndpoint>,
    /// True if the peer holds the receiving QP, which therefore lives as long as the peer's
    /// endpoint.
    pub(super) joined: bool,
    /// True while its requests are being flushed from the QP before.
    pub(super) flushing: bool,
    /// Flushed requests, to be posted before others.
    pub(super) carried: RepostQueue<Repost>,
    /// Time of the next JOIN.
    pub(super) ask_at: Time,
    /// Delay before the JOIN after that.
    pub(super) pause: Duration,
    /// Deadline for its last frames.
    pub(super) until: Time,
    /// The receiving QP that it holds for the peer.
    pub(super) hold: Option<Hold>,
}

impl XrcState {
    /// Returns true if the peer holds the receiving QP.
    pub(super) fn has_joined(&self) -> bool {
        self.joined
    }
}
