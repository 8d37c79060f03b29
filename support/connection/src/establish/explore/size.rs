//! The events of a world, and how often each happens at most.

/// The kind of network, with the owner that goes with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Network {
    /// Each connection is a stream whose end is seen. A lost connection is given up.
    Stream,
    /// The same; a lost connection is resumed.
    Resumed,
    /// Frames, of which those of handshakes may be lost; nobody sees the end of a connection but by
    /// a frame.
    Frames,
}

/// The size of an exploration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) network: Network,
    /// Messages that each side sends.
    pub(super) wishes: [u8; 2],
    /// Times that a side wants its messages no more, before they are sent.
    pub(super) cancels: [u8; 2],
    /// Made connections that a side ends.
    pub(super) ends: [u8; 2],
    /// Times that a side gives everything up.
    pub(super) aborts: [u8; 2],
    /// Deaths, after which another process takes the name.
    pub(super) restarts: [u8; 2],
    /// Checkpoints, during which a side is held.
    pub(super) sleeps: [u8; 2],
    /// Connections that break, and handshakes that time out while something is on its way.
    pub(super) faults: u8,
    /// Frames of handshakes that are lost.
    pub(super) drops: u8,
    /// Retransmissions while something is on its way.
    pub(super) repeats: u8,
    /// The most dials of both sides.
    pub(super) dials: usize,
    /// Both sides have failed before.
    pub(super) tried: bool,
    /// The connect timeout may end at any moment.
    pub(super) impatient: bool,
    /// Pauses are longer than anything that is on its way, and a dial more than `dials` is wrong.
    pub(super) long_pauses: bool,
}

impl Size {
    pub(super) const SMALL: Size = Size {
        network: Network::Stream,
        wishes: [1, 1],
        cancels: [0, 0],
        ends: [0, 0],
        aborts: [0, 0],
        restarts: [0, 0],
        sleeps: [0, 0],
        faults: 0,
        drops: 0,
        repeats: 0,
        dials: 4,
        tried: false,
        impatient: false,
        long_pauses: false,
    };
}
