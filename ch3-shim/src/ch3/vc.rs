//! The device's part of a VC.

use std::sync::Arc;

use super::credit::Flow;
use super::{Route, Space};
use crate::tagmatch::Envelope;

/// The device's part of a VC.
#[derive(Debug)]
pub(crate) struct VcSide {
    /// The peer's rank in its group.
    pub rank: u32,
    /// The contexts of that group, by which it is known.
    pub space: Space,
    /// Longest message that is sent eagerly.
    pub eager_max: u32,
    /// Whether longer ones may be, as `is_eager` says.
    pub eager_open: bool,
    /// The trace has told that sends wait for credit.
    pub starved: bool,
    /// How much may be sent either way.
    pub flow: Flow,
    /// Connections that its netmod had counted when a send last made it active, modulo 255;
    /// [`VcSide::CONNECTED`] if one has been reported since.
    pub connects_before: u8,
    /// How often its connection was lost with messages under way.
    pub losses: u32,
    /// Closes of this side that have come to their end, modulo 256.
    pub closes: u8,
    /// Why it has the netmod it has, and the peer's host.
    pub route: Arc<Route>,
}

impl VcSide {
    /// [`VcSide::connects_before`] of a VC that has had a connection since it became active.
    pub const CONNECTED: u8 = u8::MAX;

    /// Returns the value of [`VcSide::connects_before`] for a netmod's count of connections.
    pub fn counted(connects: u32) -> u8 {
        (connects % u32::from(VcSide::CONNECTED)) as u8
    }

    /// The envelope of a packet of this VC, with the context of this process that it means. Its source is what
    /// the connection says, whatever the packet says, and its context is one of the group at the other end:
    /// `None` if the packet says otherwise.
    #[inline]
    pub(super) fn own_envelope(&self, env: Envelope) -> Option<Envelope> {
        if self.rank as i32 != env.source() || env.tag() < 0 {
            return None;
        }
        let context = self.space.of_wire(env.context())?;
        Some(Envelope::of_words(context, env.source_tag()))
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

    /// Each VC has one, used or not; a million of them are to be had.
    #[test]
    fn the_device_s_part_of_a_vc_is_small() {
        assert!(size_of::<Option<VcSide>>() <= 88, "{}", size_of::<Option<VcSide>>());
    }
}
