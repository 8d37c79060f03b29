//! Frames of the connections' manager that wait for the device.

use std::collections::VecDeque;

use netmod_core::{Time, VcId};

use crate::book::Dest;

/// A frame of the connections' manager.
#[derive(Debug)]
pub(crate) struct Out {
    pub(crate) dest: Dest,
    pub(crate) bytes: Vec<u8>,
    /// The VC of the frame's connection, if it has one.
    pub(crate) vc: Option<VcId>,
    /// Time of the first attempt; `Time::NEVER` if the frame may not be given up.
    pub(crate) since: Time,
}

/// The frames that wait.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Frames that the device has not taken yet.
    pub(crate) queue: VecDeque<Out>,
    /// RESET frames that the device took and could not send. They wait for news of their peers.
    pub(crate) retries: Vec<Out>,
}

impl Outbox {
    /// Returns true if a frame waits for the device.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Returns true if a frame for this peer waits for the device: nothing overtakes it.
    pub(crate) fn is_behind(&self, dest: Dest) -> bool {
        self.queue.iter().any(|out| out.dest == dest)
    }

    /// Returns true if a frame for this address has yet to be sent.
    pub(crate) fn needs(&self, dest: Dest) -> bool {
        self.is_behind(dest) || self.retries.iter().any(|out| out.dest == dest)
    }

    /// Lets the frames of no VC for this address be given up from now on, if the device does not
    /// take them.
    pub(crate) fn age(&mut self, dest: Dest, now: Time) {
        for out in self.queue.iter_mut().filter(|out| out.dest == dest && out.vc.is_none()) {
            out.since = out.since.min(now);
        }
    }

    /// Drops the frames of a VC whose peer is dead.
    pub(crate) fn drop_all(&mut self, vc: VcId) {
        self.queue.retain(|out| out.vc != Some(vc));
    }

    /// Drops the handshake frames of a VC.
    pub(crate) fn drop_handshake(&mut self, vc: VcId) {
        self.queue.retain(|out| out.vc != Some(vc) || out.since != Time::NEVER);
    }

    /// Returns true if RESET frames of a VC wait for news of its peer.
    pub(crate) fn has_retries(&self, vc: VcId) -> bool {
        self.retries.iter().any(|out| out.vc == Some(vc))
    }

    /// Takes the RESET frames of a VC that could not be sent.
    pub(crate) fn take_retries(&mut self, vc: VcId) -> Vec<Out> {
        self.retries.extract_if(.., |out| out.vc == Some(vc)).collect()
    }
}
