//! Inbound dials: their state from HELLO to READY.

use netmod_connection::Purpose;
use netmod_core::{PeerName, Time, VcId};

use super::PeerTerms;
use crate::wire::Slot;

/// The state of an inbound dial.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Stage {
    /// It has said HELLO, and nothing of it is proved.
    Claimed,
    /// It has proved itself, and waits for a VC, or for the end of the VC's old connection.
    Proved,
    /// It was accepted: the present connection of a VC is with it.
    Accepted(VcId),
}

/// A dial of somebody else.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Inbound {
    /// Its name for the connection.
    pub(super) slot: Slot,
    /// The endpoint that it has dialled.
    pub(super) port: u8,
    pub(super) stage: Stage,
    /// The time until which it may stay in its stage.
    pub(super) until: Time,
    pub(super) peer: PeerName,
    pub(super) purpose: Purpose,
    pub(super) incarnation: u64,
    pub(super) dial: u64,
    pub(super) terms: PeerTerms,
}
