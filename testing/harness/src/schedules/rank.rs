//! A process of a schedule.

use netmod_core::{Engine, VcId};
use netmod_framed::FrameNetmod;
use netmod_framed::device::Device;

use crate::schedules::layer::Layer;

/// A process.
pub struct Rank<D: Device> {
    pub engine: Engine<FrameNetmod<D>>,
    pub layer: Layer,
}

impl<D: Device> Rank<D> {
    /// Returns the VC with a peer.
    pub fn vc(&self, peer: usize) -> VcId {
        self.layer.peers[peer].vc.expect("a peer's VC")
    }

    /// Returns true if messages can be exchanged with a peer.
    pub fn is_free(&self, peer: usize) -> bool {
        !self.layer.peers[peer].down && !self.layer.peers[peer].terminating
    }
}
