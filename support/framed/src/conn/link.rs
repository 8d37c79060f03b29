//! The connection of one VC: how it comes about, and what becomes of it.

use netmod_connection::Purpose;
use netmod_connection::establish::{self, Setback};
use netmod_core::{PeerName, Time};

use super::failure::Failure;
use super::slots;
use super::{InboundId, LocalTerms, PeerTerms};
use crate::wire::Slot;

/// A connection that is under way or made, by who has dialled it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Conn {
    /// This side. The slot is its own name for the connection.
    Own(Slot),
    /// The peer.
    Inbound(InboundId),
}

/// The machine by which a connection comes about; see [`netmod_connection::establish`].
pub(super) type Establish = establish::Machine<Conn, Failure>;

/// An event for that machine.
pub(super) type Event = establish::Event<Conn, Failure>;

impl From<Setback> for Failure {
    fn from(setback: Setback) -> Failure {
        match setback {
            Setback::TimedOut => Failure::Silent,
            Setback::Goodbye => Failure::Goodbye,
            Setback::Rejected(reason) => Failure::Rejected(reason),
        }
    }
}

/// The life of a connection since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Life {
    /// It is not made.
    Making,
    /// Messages flow.
    Up,
    /// The peer has ended it, and the driver says what that means.
    Left,
    /// This side has said FIN.
    Parting,
    /// It has failed, and so has the VC.
    Failed,
}

/// The state of a VC's connection. The table is in the description of [`super`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Phase {
    Idle,
    Dialing,
    Backoff,
    Promised,
    Up,
    Left,
    Parting,
    Failed,
}

/// The connection of a VC.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Link {
    pub(super) peer: PeerName,
    pub(super) purpose: Purpose,
    pub(super) establish: Establish,
    pub(super) life: Life,
    /// True if `terminate` has not been answered.
    pub(super) terminating: bool,
    /// True if the peer's FIN has come.
    pub(super) fin: bool,
    /// This side's name for the present connection.
    pub(super) slot: Slot,
    /// The peer's dial that made it; `None` if this side has dialled.
    pub(super) from: Option<InboundId>,
    /// A dial of the peer that waits for the end of the present connection.
    pub(super) waiting: Option<InboundId>,
    /// The peer's part of it, from the promise on.
    pub(super) theirs: Option<Box<PeerTerms>>,
    /// This side's part of its own dials.
    pub(super) terms: Option<Box<LocalTerms>>,
    /// End of the wait for FIN_ACK, or of the one of the dial that waits.
    pub(super) timer: Time,
    /// The last own dial that was given up with GOODBYE.
    pub(super) void: Slot,
}

impl Link {
    pub(super) fn new(peer: PeerName, purpose: Purpose, survives: bool, seed: u32) -> Link {
        Link {
            peer,
            purpose,
            establish: Establish::new(survives, seed),
            life: Life::Making,
            terminating: false,
            fin: false,
            slot: slots::NONE,
            from: None,
            waiting: None,
            theirs: None,
            terms: None,
            timer: Time::NEVER,
            void: slots::NONE,
        }
    }

    pub(super) fn phase(&self) -> Phase {
        match (self.life, self.establish.phase()) {
            (Life::Making, establish::Phase::Dialing) => Phase::Dialing,
            (Life::Making, establish::Phase::Backoff) => Phase::Backoff,
            (Life::Making, establish::Phase::Promised) => Phase::Promised,
            (Life::Making, establish::Phase::Idle | establish::Phase::Made) => Phase::Idle,
            (Life::Up, _) => Phase::Up,
            (Life::Left, _) => Phase::Left,
            (Life::Parting, _) => Phase::Parting,
            (Life::Failed, _) => Phase::Failed,
        }
    }

    /// The time at which something is due.
    pub(super) fn due(&self) -> Time {
        self.timer.min(self.establish.deadline().unwrap_or(Time::NEVER))
    }
}
