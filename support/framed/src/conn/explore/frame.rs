//! Frames of the model.

use netmod_connection::RejectReason;

use crate::conn::{LocalTerms, PeerTerms};
use crate::wire::{Kind, Slot};

/// A frame in flight.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Frame {
    Dial {
        slot: Slot,
        dial: u64,
        incarnation: u64,
    },
    Accept {
        slot: Slot,
        own: Slot,
        incarnation: u64,
        dials: u64,
    },
    Reject {
        slot: Slot,
        reason: RejectReason,
    },
    Ready {
        slot: Slot,
    },
    Goodbye {
        slot: Slot,
    },
    /// A message's frame, with its `number`. `of` is the sender's own slot, which no real frame
    /// carries.
    Data {
        slot: Slot,
        of: Slot,
        number: u8,
    },
    Control {
        slot: Slot,
        kind: Kind,
        of: Slot,
    },
}

impl Frame {
    /// Returns true if the frame goes where frames may be lost.
    pub(super) fn may_be_lost(&self) -> bool {
        matches!(
            self,
            Frame::Dial { .. } | Frame::Accept { .. } | Frame::Reject { .. } | Frame::Goodbye { .. }
        )
    }
}

pub(super) fn terms(port: u8) -> LocalTerms {
    LocalTerms {
        port,
        peer_port: 0,
        window: 1,
        frame: 99,
        context: 0,
        endpoint: [].into(),
        address: Box::new([1]),
    }
}

pub(super) fn theirs(slot: Slot) -> PeerTerms {
    PeerTerms { slot, port: 0, window: 1, frame: 99, context: 0, endpoint: [].into(), address: Box::new([1]) }
}
