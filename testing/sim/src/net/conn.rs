//! Parts of the network: hosts, connections with two ends and two pipes, and the items in transit.

use std::collections::VecDeque;

use netmod_connection::RejectReason;
use netmod_core::slab::Handle;
use netmod_core::{Time, VcId};

/// Type of object that a [`ConnId`] refers to.
#[derive(Debug)]
pub(crate) enum ConnKind {}
/// A connection between two hosts.
pub(crate) type ConnId = Handle<ConnKind>;

/// A message of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeMessage {
    Accept {
        /// The number of its sender's last dial.
        dials: u64,
    },
    Reject(RejectReason),
    Ready,
    Goodbye,
}

/// An item that arrives through a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Bytes(usize),
    HandshakeMessage(HandshakeMessage),
    /// End of the stream from the other end.
    Fin,
    /// Broken connection, with this system error.
    Reset(i32),
}

/// State of one end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Dialling.
    Dial,
    /// Dialled, and not noticed by its process yet.
    Knocking,
    /// Its process knows the dialling peer.
    Proved,
    /// Messages flow.
    Open,
    /// The last data is in transit; arriving data is discarded.
    Lingering,
    Closed,
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) rank: u32,
    pub(crate) stage: Stage,
    pub(crate) vc: Option<VcId>,
    /// True if the peer has sent GOODBYE: the end of its stream is then no failure.
    pub(crate) peer_left: bool,
    /// True if it is in its host's inbox.
    pub(super) queued: bool,
    /// True if the connection attempt is in its host's queue.
    pub(super) knocked: bool,
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    /// Written and unread bytes.
    pub(super) data: VecDeque<u8>,
    /// Arrived and unread items.
    pub(super) items: VecDeque<Item>,
    /// Arrival time of the last item.
    pub(super) last: Time,
    /// True if its end has been written.
    pub(super) ended: bool,
    /// True if the writer waits for space.
    pub(super) blocked: bool,
}

#[derive(Debug)]
pub(super) struct Conn {
    /// The two ends; the first has dialled.
    pub(super) ends: [End; 2],
    /// The number that the dialling process gave this dial, from 1.
    pub(super) number: u64,
    /// The two pipes; the first end writes to the first.
    pub(super) pipes: [Pipe; 2],
    /// True if the network between the ends is gone: only the news of that still arrives.
    pub(super) severed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Up,
    Finalized,
    Crashed,
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) life: Life,
    /// Ends with new data, and their sides.
    pub(super) inbox: VecDeque<(ConnId, u8)>,
    /// Number of connection attempts in the inbox.
    pub(super) knocking: usize,
    pub(super) ready: bool,
}

impl super::Net {
    /// Returns the number of the dial that began a connection; 0 if it is gone.
    pub(crate) fn dial_number(&self, conn: ConnId) -> u64 {
        self.conns.get(conn).map_or(0, |c| c.number)
    }
}
