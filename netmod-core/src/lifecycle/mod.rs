//! The lifecycle of a VC: MPICH's close protocol as one table.
//!
//! [`step`] is a pure function from (state, event) to (state, [`Action`]). The caller stores the
//! new state *before* it does what the action says: the answer to a CLOSE may arrive while the
//! CLOSE is being sent. A CLOSE packet carries one bit, `ack`: whether its sender has seen the
//! peer's CLOSE.
//!
//! Everything that is not in the table is a [`Violation`]. Two correct peers never cause one, so a
//! violation by [`VcEvent::RecvClose`] is the peer's protocol error and brings that VC down; one by
//! another event is a mistake of the layer above.
//!
//! [`VcEvent::Terminated`] and [`VcEvent::Lost`] are accepted in every state: two layers may both
//! notice that a peer has gone, and the second report must not hurt.
//!
#![doc = "The whole table; `-` is a violation, `=` stays in the state and does nothing:\n"]
#![doc = include_str!("table.md")]
//!
//! The same as a graph, as [`dot`] prints it (without the entries that do nothing):
//!
//! ```dot
#![doc = include_str!("graph.dot")]
//! ```
//!
//! Source: MPICH, `ch3u_handle_connection.c` and `mpidimpl.h` (`MPIDI_VC_State_t`). Departures:
//! termination is accepted in every state; a clean end is told from a fault; closing what is closed
//! or closing already is not an error; `Revive` leads out of MORIBUND.

mod action;
#[cfg(test)]
mod explore;
mod table;
#[cfg(test)]
mod tests;

pub use action::Action;
pub use table::{dot, markdown, step};

use core::fmt;

/// The state of a VC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum VcState {
    /// Never used, or closed by agreement and free to be used again.
    #[default]
    Inactive,
    /// In use. The netmod may still be connecting.
    Active,
    /// This side has sent CLOSE and the peer has not.
    LocalClose,
    /// The peer has sent CLOSE and this side has not; sending is still allowed.
    RemoteClose,
    /// Both have sent CLOSE; the peer's acknowledgement is in transit.
    CloseAcked,
    /// Both know that both have closed; the netmod is terminating the connection.
    Closed,
    /// This process has finalized; this state is final.
    InactiveClosed,
    /// The peer or the connection was lost.
    Moribund,
}

impl VcState {
    /// Every state, in the table's order.
    pub const ALL: [VcState; 8] = [
        VcState::Inactive,
        VcState::Active,
        VcState::LocalClose,
        VcState::RemoteClose,
        VcState::CloseAcked,
        VcState::Closed,
        VcState::InactiveClosed,
        VcState::Moribund,
    ];

    /// Returns MPICH's name of the state.
    pub const fn name(self) -> &'static str {
        match self {
            VcState::Inactive => "INACTIVE",
            VcState::Active => "ACTIVE",
            VcState::LocalClose => "LOCAL_CLOSE",
            VcState::RemoteClose => "REMOTE_CLOSE",
            VcState::CloseAcked => "CLOSE_ACKED",
            VcState::Closed => "CLOSED",
            VcState::InactiveClosed => "INACTIVE_CLOSED",
            VcState::Moribund => "MORIBUND",
        }
    }

    /// Returns true if the upper layer may send now (after [`VcEvent::Use`] if it is inactive).
    #[inline]
    pub const fn can_send(self) -> bool {
        matches!(self, VcState::Inactive | VcState::Active | VcState::RemoteClose)
    }

    /// Returns true if messages of the peer may still arrive on the present connection.
    #[inline]
    pub const fn can_receive(self) -> bool {
        matches!(self, VcState::Active | VcState::LocalClose)
    }

    /// Returns true if this side has begun to close and has not finished: a close operation is
    /// outstanding.
    #[inline]
    pub const fn is_closing(self) -> bool {
        matches!(self, VcState::LocalClose | VcState::CloseAcked | VcState::Closed)
    }

    /// Returns true if [`VcEvent::LocalClose`] would start a close operation.
    #[inline]
    pub const fn needs_close(self) -> bool {
        matches!(self, VcState::Active | VcState::RemoteClose)
    }

    /// Returns true if the peer or the connection was lost.
    #[inline]
    pub const fn is_failed(self) -> bool {
        matches!(self, VcState::Moribund)
    }

    /// Returns true if nothing more will happen by itself: not in use, finalized or failed.
    #[inline]
    pub const fn is_at_rest(self) -> bool {
        matches!(self, VcState::Inactive | VcState::InactiveClosed | VcState::Moribund)
    }
}

impl fmt::Display for VcState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An event of a VC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum VcEvent {
    /// The first use by this side, or a connection from the peer.
    Use,
    /// The device closes the VC.
    LocalClose,
    /// The peer's CLOSE packet has arrived.
    RecvClose {
        /// True if the peer had seen this side's CLOSE.
        ack: bool,
    },
    /// The netmod reports that the connection has been terminated as requested.
    Terminated,
    /// The netmod reports that the VC is down.
    Lost,
    /// This process finalizes; every VC was closed before.
    Finalize,
    /// A failed VC is used again, perhaps with a new incarnation of the peer.
    Revive,
}

impl VcEvent {
    /// Every event, in the table's order.
    pub const ALL: [VcEvent; 8] = [
        VcEvent::Use,
        VcEvent::LocalClose,
        VcEvent::RecvClose { ack: false },
        VcEvent::RecvClose { ack: true },
        VcEvent::Terminated,
        VcEvent::Lost,
        VcEvent::Finalize,
        VcEvent::Revive,
    ];

    const fn index(self) -> usize {
        match self {
            VcEvent::Use => 0,
            VcEvent::LocalClose => 1,
            VcEvent::RecvClose { ack: false } => 2,
            VcEvent::RecvClose { ack: true } => 3,
            VcEvent::Terminated => 4,
            VcEvent::Lost => 5,
            VcEvent::Finalize => 6,
            VcEvent::Revive => 7,
        }
    }

    /// Returns a short name for messages and graphs.
    pub const fn name(self) -> &'static str {
        match self {
            VcEvent::Use => "use",
            VcEvent::LocalClose => "local close",
            VcEvent::RecvClose { ack: false } => "CLOSE(F)",
            VcEvent::RecvClose { ack: true } => "CLOSE(T)",
            VcEvent::Terminated => "terminated",
            VcEvent::Lost => "lost",
            VcEvent::Finalize => "finalize",
            VcEvent::Revive => "revive",
        }
    }
}

impl fmt::Display for VcEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An event without an entry in the table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[error(
    "VC event \"{event}\" is not allowed in state {state}; {}",
    match event {
        VcEvent::RecvClose { .. } => "the peer violates the close protocol",
        VcEvent::Use => "wait until it is closed, or revive it after a failure",
        VcEvent::Finalize => "close it first",
        _ => "only a failed VC can be revived",
    }
)]
pub struct Violation {
    /// The state, which is unchanged.
    pub state: VcState,
    /// The event.
    pub event: VcEvent,
}
