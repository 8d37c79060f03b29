//! The interface of simulated worlds for schedules, and the parameters of a schedule.

use netmod_core::{PeerName, Time};
use netmod_framed::FrameNetmod;
use netmod_framed::device::Device;

/// Events of a schedule beside messages.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub ranks: usize,
    /// Number of steps in which operations may begin.
    pub steps: usize,
    /// Maximum length of a message or transfer.
    pub longest: usize,
    pub terminates: bool,
    pub aborts: bool,
    pub kills: bool,
    /// True if operations may fail.
    pub fails: bool,
    /// True if there are one-sided transfers.
    pub transfers: bool,
    /// True if regions are deregistered while transfers use them.
    pub early: bool,
}

/// A simulated network, and the devices on it.
pub trait World {
    /// The netmods' device.
    type Device: Device;
    /// True if taking memory of an unfinished transfer back also ends the connection.
    const EARLY_HURTS: bool;

    /// Makes the netmod of a process, one of `ranks`.
    fn netmod(&mut self, rank: usize, me: PeerName, ranks: u32) -> FrameNetmod<Self::Device>;

    /// Kills a process.
    fn kill(&mut self, rank: usize);

    /// Lets everything due happen.
    fn advance(&mut self, now: Time);

    /// Returns true if a process gets the memory of its own transfers back while the peer is not
    /// polled.
    fn gives_back_alone(&self) -> bool;

    /// Returns the broken rules. `early`: number of transfers whose memory was taken back early.
    fn violations(&self, early: usize) -> Vec<String>;

    /// Ends the world after all netmods are gone; returns a description of what is left open.
    fn close(self) -> Option<String>;
}
