//! What the network is made of: hosts, connections with their two ends and two lanes, and what travels on these.

use std::collections::VecDeque;

use netmod_connection::RejectReason;
use netmod_core::slab::Handle;
use netmod_core::{Time, VcId};

/// What a [`ConnId`] is a handle of.
#[derive(Debug)]
pub(crate) enum ConnKind {}
/// A connection between two hosts.
pub(crate) type ConnId = Handle<ConnKind>;

/// A word of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Accept,
    Reject(RejectReason),
    Ready,
    Goodbye,
}

/// What arrives on a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Bytes(usize),
    Word(Word),
    /// The end of what the other end writes.
    Fin,
    /// The connection is broken, with this error of the system.
    Reset(i32),
}

/// How far one end of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It dials.
    Dial,
    /// It was dialled, and its process has not looked yet.
    Knocking,
    /// Its process knows who has dialled.
    Proved,
    /// Messages flow.
    Open,
    /// Last words are on their way; what comes is thrown away.
    Lingering,
    Closed,
}

/// One end of a connection.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) rank: u32,
    pub(crate) stage: Stage,
    pub(crate) vc: Option<VcId>,
    /// The peer has said GOODBYE: the end of its stream is no fault.
    pub(crate) peer_left: bool,
    /// In its host's inbox.
    pub(super) queued: bool,
    /// The attempt to connect is in its host's queue.
    pub(super) knocked: bool,
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Written and not read.
    pub(super) data: VecDeque<u8>,
    /// Arrived and not read.
    pub(super) items: VecDeque<Item>,
    /// When the last thing that was written arrives.
    pub(super) last: Time,
    /// Its end has been written.
    pub(super) ended: bool,
    /// The writer waits for room.
    pub(super) blocked: bool,
}

#[derive(Debug)]
pub(super) struct Conn {
    /// The first dialled the second.
    pub(super) ends: [End; 2],
    /// The first is written by the first end.
    pub(super) lanes: [Lane; 2],
    /// The network between the ends is gone: nothing more arrives but the news of it.
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
    /// Ends with something new, by side.
    pub(super) inbox: VecDeque<(ConnId, u8)>,
    /// Attempts to connect in the inbox.
    pub(super) knocking: usize,
    pub(super) ready: bool,
}
