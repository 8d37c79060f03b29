//! The events in a world and their limits.

/// The length of waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Timeouts {
    Never,
    /// Longer than anything that is on its way.
    Long,
    /// They end at any moment.
    Any,
}

/// The size of an exploration.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// Messages that each side sends.
    pub(super) wishes: [u8; 2],
    pub(super) terminates: [u8; 2],
    pub(super) aborts: [u8; 2],
    pub(super) removals: [u8; 2],
    /// Deaths, after which another process takes the name.
    pub(super) restarts: [u8; 2],
    /// VCs that have failed and are revived.
    pub(super) revivals: [u8; 2],
    /// Times that all frames in flight are lost.
    pub(super) losses: u8,
    /// Frames of handshakes that are lost, and retransmitted when nothing else is in flight.
    pub(super) drops: u8,
    /// Most retransmissions while other frames are in flight.
    pub(super) repeats: u8,
    /// Both sides have dialled in vain before.
    pub(super) tried: bool,
    /// The most dials of one process.
    pub(super) dials: u64,
    /// Waits of handshakes and for FIN_ACK.
    pub(super) timeouts: Timeouts,
    /// True if a program may stop waiting for its connection.
    pub(super) impatient: bool,
    /// Another process has the address of the one that has died.
    pub(super) same_address: bool,
    /// A VC whose peer has left is not idle.
    pub(super) busy: bool,
    /// Pauses are longer than anything that is on its way, and one dial more than `dials` is wrong.
    pub(super) long_pauses: bool,
    /// Frames of connections that different sides have dialled do not overtake each other.
    pub(super) in_order: bool,
}

impl Size {
    pub(super) const SMALL: Size = Size {
        wishes: [1, 1],
        terminates: [0, 0],
        aborts: [0, 0],
        removals: [0, 0],
        restarts: [0, 0],
        revivals: [0, 0],
        losses: 0,
        drops: 0,
        repeats: 0,
        tried: false,
        dials: 4,
        timeouts: Timeouts::Never,
        impatient: false,
        same_address: false,
        busy: false,
        long_pauses: false,
        in_order: false,
    };
}
