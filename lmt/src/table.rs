//! What the machines are told and what they answer.

use crate::mode::Mode;
use crate::window::Window;

/// What a registration is for; see `netmod_core::rma::Access`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// The receiver reads it (Get).
    RemoteRead,
    /// The sender writes it (Put).
    RemoteWrite,
}

/// How a transfer ended. The request's memory is its owner's again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ending {
    /// All of it has moved.
    Done,
    /// It was taken back, or given up by its owner.
    Cancelled,
    /// The VC was lost.
    Lost,
    /// The other side has given it up, or memory could not be registered or reached. The VC lives.
    Aborted,
}

/// What happened to a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The answer to [`Action::Register`].
    Registered(bool),
    /// CTS came: the mode, the bytes that the receiver has room for, and for Put its first window.
    Cts {
        /// The receiver's choice.
        mode: Mode,
        /// Bytes to be moved.
        total: u64,
        /// For Put: where to.
        first: Option<Window>,
    },
    /// COOKIE came: the next window.
    Window(Window),
    /// COOKIE came: all windows before this one have moved.
    At(u32),
    /// COOKIE came: the sender cannot do what the receiver has chosen.
    Refused,
    /// COOKIE came: the other side gives up.
    Abort,
    /// DONE came.
    Done,
    /// The answer to [`Action::Attach`].
    Attached(bool),
    /// The header of the data came (Null), which has so many bytes.
    Data(u64),
    /// The last byte of the data has left, or has come (Null).
    Moved,
    /// So many bytes were copied into, or out of, the ring (Cooperative).
    Copied(u64),
    /// The put or get of [`Action::Move`] has ended; the netmod touches its memory no more.
    Ended(bool),
    /// The receiver has taken the message out of its unexpected ones.
    Withdrawn,
    /// The owner gives the transfer up: its memory must go.
    Abandon,
    /// The VC was lost.
    Lost,
}

/// What to do, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send RTS. With a window, Get is offered and the window's key goes with it.
    SendRts(Option<Window>),
    /// Send CTS for a mode, for Put with the key of the window.
    SendCts(Mode, Option<Window>),
    /// Send COOKIE: the key of a window.
    SendWindow(Window),
    /// Send COOKIE: all windows before this one have moved.
    SendAt(u32),
    /// Send COOKIE: the mode is refused.
    SendRefuse,
    /// Send COOKIE: given up.
    SendAbort,
    /// Send DONE.
    SendDone,
    /// Register a window of the request's memory; answer with [`Event::Registered`] before anything else.
    Register(Window, Access),
    /// End the registration of the window of this number.
    Deregister(u32),
    /// Register the range of a window for local use and start the put or get; deregister when it has ended, and answer
    /// with [`Event::Ended`].
    Move(Window),
    /// Map the ring that CTS names; answer with [`Event::Attached`] before anything else.
    Attach,
    /// Copy so many bytes into or out of the ring, behind what was queued for it.
    Copy(u64),
    /// Copy nothing any more; it has no place in the ring's queue.
    LeaveRing,
    /// Send the data (Null).
    SendData(u64),
    /// What comes of the data is of no use: let it fall.
    Discard,
    /// A message is in the middle of its data and cannot end: give the VC up.
    Sever,
    /// The transfer is over.
    Finish(Ending),
}

/// Why an event is not taken. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The transfer was over; what crossed its end is dropped.
    #[error("the transfer was over")]
    Late,
    /// The other side breaks the protocol.
    #[error("{0}")]
    Violation(&'static str),
}

/// Most actions of one event.
const MOST: usize = 6;

/// What an event asks for, without allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actions {
    list: [Option<Action>; MOST],
    len: usize,
}

impl Actions {
    pub(crate) fn push(&mut self, action: Action) {
        // Exploration reaches every row of the tables; none asks for more.
        debug_assert!(self.len < MOST, "{self:?} and {action:?}");
        if let Some(place) = self.list.get_mut(self.len) {
            *place = Some(action);
            self.len += 1;
        }
    }

    /// In the order in which they are to be carried out.
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
