//! The device's part of a VC.

use std::sync::Arc;

use super::credit::Flow;
use super::{Route, Space, threads};
use crate::tagmatch::Envelope;

/// The device's part of a VC.
#[derive(Debug)]
pub(crate) struct VcSide {
    /// The peer's rank in its group.
    pub rank: u32,
    /// Source of its messages, as receives name it, less the rank.
    pub first: u32,
    /// The contexts of that group.
    pub space: Space,
    /// Longest message that is always sent eagerly, in bytes.
    pub eager_max: u32,
    /// The limit may still rise, as `is_eager` decides.
    pub eager_open: bool,
    /// The log has told that sends wait for credit.
    pub starved: bool,
    /// Flow control of both directions.
    pub flow: Flow,
    /// Connections that its netmod had counted when a send last made it active, modulo 255;
    /// [`VcSide::CONNECTED`] if one has been reported since.
    pub connects_before: u8,
    /// Connections lost with messages under way.
    pub losses: u32,
    /// Closes of this side that have come to their end, modulo 256.
    pub closes: u8,
    /// The reason for its netmod, and the peer's host.
    pub route: Arc<Route>,
}

impl VcSide {
    /// [`VcSide::connects_before`] of a VC that has had a connection since it became active.
    pub const CONNECTED: u8 = u8::MAX;

    /// Returns the value of [`VcSide::connects_before`] for a netmod's count of connections.
    pub fn counted(connects: u32) -> u8 {
        (connects % u32::from(VcSide::CONNECTED)) as u8
    }

    /// Returns the envelope of a packet of this VC, with this process's context. `None` if its
    /// source is not the peer, or its context is not one of the peer's group.
    #[inline]
    pub(super) fn own_envelope(&self, env: Envelope) -> Option<Envelope> {
        if self.rank as i32 != env.source() || env.tag() < 0 {
            return None;
        }
        let Some(context) = self.space.of_wire(env.context()) else { return self.of_thread(env) };
        Some(Envelope::of_words(context, env.source_tag() + u64::from(self.first)))
    }

    /// Returns the envelope of a packet between threads.
    #[cold]
    #[inline(never)]
    fn of_thread(&self, env: Envelope) -> Option<Envelope> {
        if self.space == Space::WORLD { threads::of_wire(env, self.first + self.rank) } else { None }
    }

    /// Returns the source of its messages, as receives name it.
    pub(super) fn source(&self) -> i32 {
        (self.first + self.rank).cast_signed()
    }

    /// Traces that sends begin to wait for credit, or that none waits any more.
    pub(super) fn trace(&mut self) {
        let (peer, starved) = (self.rank, self.flow.out.waiting() > 0);
        if std::mem::replace(&mut self.starved, starved) == starved {
            return;
        }
        if starved {
            tracing::debug!(target: "netmod::message", peer, "no credit left: sends wait");
        } else {
            tracing::debug!(target: "netmod::message", peer, "credit again: no send waits any more");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each VC has one, used or not, and there may be a million.
    #[test]
    fn the_device_s_part_of_a_vc_is_small() {
        assert!(size_of::<Option<VcSide>>() <= 88, "{}", size_of::<Option<VcSide>>());
    }
}
