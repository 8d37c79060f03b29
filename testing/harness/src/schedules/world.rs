//! What schedules run on, and what they do.

use netmod_core::{PeerName, Time};
use netmod_framed::FrameNetmod;
use netmod_framed::device::Device;

/// What a schedule does beside messages, and what it must put up with.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub ranks: usize,
    /// Steps in which something new may begin.
    pub steps: usize,
    /// Longest message, and longest transfer.
    pub longest: usize,
    pub terminates: bool,
    pub aborts: bool,
    pub kills: bool,
    /// Operations fail at times.
    pub fails: bool,
    /// One-sided transfers.
    pub transfers: bool,
    /// Regions are deregistered while transfers use them.
    pub early: bool,
}

/// A simulated network, and the devices on it.
pub trait World {
    /// The netmods' device.
    type Device: Device;
    /// Whether a transfer whose memory is taken back before its end takes the connection down, too.
    const EARLY_HURTS: bool;

    /// The netmod of a process, one of so many.
    fn netmod(&mut self, rank: usize, me: PeerName, ranks: u32) -> FrameNetmod<Self::Device>;

    /// A process dies.
    fn kill(&mut self, rank: usize);

    /// Has happen what is due by now.
    fn advance(&mut self, now: Time);

    /// Whether a process gets memory of its own transfers back while the peer is not called.
    fn gives_back_alone(&self) -> bool;

    /// Rules that were broken, when memory was taken back from so many transfers before their end.
    fn violations(&self, early: usize) -> Vec<String>;

    /// The end, when all netmods are gone: what is left open, if anything is.
    fn close(self) -> Option<String>;
}
