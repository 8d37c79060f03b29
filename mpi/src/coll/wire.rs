//! The carrier of messages, as the engine of collective operations sees it.

use netmod_core::Segment;

use super::node_memory::Lane;
use crate::error::{MpiError, Result};

/// The carrier of a collective operation's messages, each to the process of a rank.
pub trait Wire {
    /// A message under way.
    type Req: Copy;

    /// Starts to send.
    ///
    /// # Errors
    /// Nothing was started.
    fn send(&mut self, to: u32, data: Segment) -> Result<Self::Req>;

    /// Starts to receive.
    ///
    /// # Errors
    /// Nothing was started.
    fn recv(&mut self, from: u32, room: Segment) -> Result<Self::Req>;

    /// Uses a message up if it is over, and returns its bytes; `None` if it is not.
    fn take(&mut self, req: Self::Req) -> Option<Result<usize>>;

    /// Starts to receive the empty message by which a process wakes this one.
    ///
    /// # Errors
    /// Nothing was started.
    fn await_wake(&mut self, lane: Lane, from: u32) -> Result<Self::Req>;

    /// Starts to send that message.
    ///
    /// # Errors
    /// Nothing was started.
    fn wake(&mut self, lane: Lane, to: u32) -> Result<Self::Req>;

    /// Withdraws a receive for which no message comes; it is used up.
    fn withdraw(&mut self, req: Self::Req);

    /// Returns true if there are more processes than cores, so that one that is waited for may need
    /// the core of this one.
    fn shares_cores(&self) -> bool;

    /// Returns true if the process sleeps next, unless it is kept awake.
    fn is_going_to_sleep(&self) -> bool;

    /// Keeps the process awake.
    fn stay_awake(&mut self);

    /// Returns the error with which a wait ends for something that may never happen: the
    /// communicator was revoked.
    fn given_up(&self) -> Option<Box<MpiError>>;
}
