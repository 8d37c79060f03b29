//! The events and actions of the machines.

use crate::mode::Mode;

/// A part of a message, in bytes of its packed stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Number of the window, from 0.
    pub index: u32,
    /// Offset of its first byte.
    pub at: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Window {
    /// Returns the offset after its last byte.
    pub const fn end(self) -> u64 {
        self.at.saturating_add(self.len)
    }
}

/// The purpose of a registration; see `netmod_core::rma::Access`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// The receiver reads it (Get).
    RemoteRead,
    /// The sender writes it (Put).
    RemoteWrite,
}

/// The end of a transfer. The request's memory is its owner's again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// All of it has moved.
    Done,
    /// It was withdrawn, or abandoned by its owner.
    Cancelled,
    /// The VC was lost.
    Lost,
    /// The other side has aborted it, or memory could not be registered or accessed. The VC lives.
    Aborted,
}

/// An event of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The result of [`Action::Register`].
    Registered(bool),
    /// CTS came, with the receiver's choice.
    Cts {
        /// Mode chosen by the receiver.
        mode: Mode,
        /// Bytes to move.
        total: u64,
        /// First window for Put.
        first: Option<Window>,
    },
    /// COOKIE came: the next window.
    Window(Window),
    /// COOKIE came: all windows before this one have moved.
    WindowAck(u32),
    /// COOKIE came: the sender cannot use the chosen mode.
    Refused,
    /// COOKIE came: the other side aborts.
    Abort,
    /// DONE came.
    Done,
    /// The result of [`Action::Attach`].
    Attached(bool),
    /// The header of the data came (Null), which has so many bytes.
    Data(u64),
    /// The last byte of the data was sent or received (Null).
    Moved,
    /// Bytes copied into, or out of, the ring (Cooperative).
    Copied(u64),
    /// The put or get of [`Action::Move`] has ended; the netmod no longer accesses its memory.
    Ended(bool),
    /// The receiver has withdrawn the message from the unexpected ones.
    Withdrawn,
    /// The owner abandons the transfer: its memory must be released.
    Abandon,
    /// The VC was lost.
    Lost,
}

/// An action, to be carried out in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send RTS. With a window, Get is offered and RTS carries the window's key.
    SendRts(Option<Window>),
    /// Send CTS for a mode; for Put with the key of the window.
    SendCts(Mode, Option<Window>),
    /// Send COOKIE with the key of a window.
    SendWindow(Window),
    /// Send COOKIE: all windows before this one have moved.
    SendWindowAck(u32),
    /// Send COOKIE: the mode is refused.
    SendRefuse,
    /// Send COOKIE: the transfer is aborted.
    SendAbort,
    /// Send DONE.
    SendDone,
    /// Register a window of the request's memory; report [`Event::Registered`] before anything
    /// else.
    Register(Window, Access),
    /// End the registration of the window of this number.
    Deregister(u32),
    /// Register a window's range for local use and start the put or get.
    ///
    /// When it has ended, deregister and report [`Event::Ended`].
    Move(Window),
    /// Map the ring that CTS names; report [`Event::Attached`] before anything else.
    Attach,
    /// Copy so many bytes into or out of the ring, after what is queued for it.
    Copy(u64),
    /// Stop copying; remove the transfer from the ring's queue.
    LeaveRing,
    /// Send the data (Null).
    SendData(u64),
    /// Discard the rest of the data.
    Discard,
    /// Disconnect the VC: a message is in the middle of its data and cannot end.
    Sever,
    /// The transfer has ended.
    Finish(Ending),
}

/// The reason why an event is refused. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The transfer had ended; events that cross its end are dropped.
    #[error("the transfer was over")]
    Late,
    /// The other side violates the protocol.
    #[error("{0}")]
    Violation(&'static str),
}

/// Most actions of one event.
const MOST: usize = 6;

/// The actions of one event, without allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actions {
    list: [Option<Action>; MOST],
    len: usize,
}

impl Actions {
    pub(crate) fn push(&mut self, action: Action) {
        // Exploration reaches every row of the tables; none has more actions.
        debug_assert!(self.len < MOST, "{self:?} and {action:?}");
        if let Some(slot) = self.list.get_mut(self.len) {
            *slot = Some(action);
            self.len += 1;
        }
    }

    /// Iterates in the order in which they are to be carried out.
    pub fn iter(&self) -> impl Iterator<Item = Action> + use<> {
        self.list.into_iter().flatten()
    }
}

impl IntoIterator for Actions {
    type Item = Action;
    type IntoIter = core::iter::Flatten<core::array::IntoIter<Option<Action>, MOST>>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter().flatten()
    }
}
