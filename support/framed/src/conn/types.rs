//! The vocabulary of the manager and its driver: parameters, terms, addresses, actions.

use core::fmt;
use core::time::Duration;
use std::io;

use netmod_connection::RejectReason;
use netmod_connection::establish::Rules;
use netmod_core::{PeerName, Time, VcError, VcId};

use super::terms::{LocalTerms, PeerTerms};
use crate::device::Words;
use crate::wire::{Kind, Slot};

/// Parameters of every connection of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// From the first wish to send until the VC is reported down.
    pub connect_timeout: Duration,
    /// From a dial to its answer; an unauthenticated peer has as long to prove itself.
    pub handshake_timeout: Duration,
    /// From a promise to READY. Whoever it was given to may compute meanwhile, and takes the
    /// connection for made when it looks again.
    pub promise_timeout: Duration,
    /// Pause after the first dial that failed; doubled after each.
    pub backoff_min: Duration,
    /// Longest pause between dials.
    pub backoff_max: Duration,
    /// From a frame of a handshake to its retransmission, doubled after each; `Duration::MAX` where
    /// none is lost.
    pub retransmit: Duration,
    /// From FIN to FIN_ACK; and how long a peer that dials anew waits for the end of its old
    /// connection.
    pub parting_timeout: Duration,
    /// Most handshakes of unauthenticated peers that have not proved themselves; at least 1.
    pub unauthenticated_max: usize,
    /// The device's words for error texts.
    pub words: Words,
}

impl Params {
    /// The usual times for a connect timeout into which so many handshakes fit, where no frame is
    /// lost.
    pub fn new(connect_timeout: Duration, dials: u32, unauthenticated_max: usize, words: Words) -> Params {
        Params {
            connect_timeout,
            handshake_timeout: connect_timeout / dials.max(1),
            promise_timeout: connect_timeout,
            backoff_min: Duration::from_millis(1),
            backoff_max: Duration::from_secs(1),
            retransmit: Duration::MAX,
            parting_timeout: Duration::from_secs(2),
            unauthenticated_max: unauthenticated_max.max(1),
            words,
        }
    }
    /// The same for the machine by which a connection comes about.
    pub(super) fn rules(&self) -> Rules {
        Rules {
            connect_timeout: self.connect_timeout,
            handshake_timeout: self.handshake_timeout,
            promise_timeout: self.promise_timeout,
            backoff_min: self.backoff_min,
            backoff_max: self.backoff_max,
            crossing_wait: CROSSING_WAIT.min(self.backoff_max),
            retransmit: self.retransmit,
            held: false,
        }
    }
}

/// Pause after a REJECT that announces the peer's own dial.
const CROSSING_WAIT: Duration = Duration::from_millis(50);

/// A connection that a peer which has dialled and proved itself wants.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// The name of the peer.
    pub peer: PeerName,
    /// Its part of the connection.
    pub terms: &'a PeerTerms,
    /// The endpoint of this process that it has chosen, and dialled.
    pub port: u8,
}

/// A peer that is known by its HELLO alone. The number is free for another after
/// [`Action::Forget`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct InboundId(pub u32);

/// The destination of all frames of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum To {
    /// To the VC's peer, by the address in its card of the endpoint [`LocalTerms::peer_port`], from
    /// [`LocalTerms::port`]: this side has dialled.
    Vc(VcId),
    /// To the address of [`Action::Meet`], from that port: the other side has dialled.
    Inbound(InboundId),
}

/// A task for the driver; tasks are done in order.
#[derive(Clone, Debug)]
pub enum Action {
    /// Keep the address of somebody who has dialled, until [`Action::Forget`]. It is a claim:
    /// nothing is proved.
    Meet {
        /// The number of the peer.
        inbound: InboundId,
        /// The endpoint that was dialled, and answers.
        port: u8,
        /// The receive context at the address.
        context: u8,
        /// The address.
        address: Box<[u8]>,
    },
    /// Nothing goes to the peer any more; its address is free when what was sent before has
    /// completed.
    Forget {
        /// The number of the peer.
        inbound: InboundId,
    },
    /// Send a frame of the handshake.
    Shake {
        /// The destination.
        to: To,
        /// [`Kind::Dial`] or [`Kind::Answer`].
        kind: Kind,
        /// For the header.
        slot: Slot,
        /// The body.
        bytes: Box<[u8]>,
    },
    /// Send a frame without a body.
    Control {
        /// The destination.
        to: To,
        /// [`Kind::Fin`] or [`Kind::FinAck`] (the driver adds the number of DATA frames), or
        /// [`Kind::Reset`].
        kind: Kind,
        /// For the header.
        slot: Slot,
    },
    /// The connection is made: DATA may be sent, and is received.
    Opened {
        /// The VC of the connection.
        vc: VcId,
        /// The destination of its frames.
        to: To,
        /// The endpoint of this process that carries it.
        port: u8,
        /// The peer's part of it.
        peer: PeerTerms,
    },
    /// The peer has ended the connection, orderly or by taking its place. Whether that matters is
    /// the driver's to say, by [`super::Manager::settle`], before it reads on.
    PeerLeft {
        /// The VC of the connection.
        vc: VcId,
        /// The error to settle it with unless the VC is idle.
        error: VcError,
    },
    /// `vc_terminate` has run its course.
    Terminated {
        /// The VC that has terminated.
        vc: VcId,
    },
    /// The VC has failed. If it was terminating this is the answer.
    Down {
        /// The VC that has failed.
        vc: VcId,
        /// The reason.
        error: VcError,
    },
    /// A peer that has no VC has proved itself: [`super::Manager::add`] or
    /// [`super::Manager::refuse`] it.
    NewPeer {
        /// Its name.
        peer: PeerName,
    },
    /// The same of a process that has come to a port.
    PortPeer {
        /// The name that it has chosen.
        peer: PeerName,
        /// The port's tag.
        port: u64,
    },
}

/// The driver's part in every call of the manager.
pub struct Env<'a> {
    /// The present.
    pub now: Time,
    /// Fills in random bytes that nobody can guess.
    pub random: &'a mut dyn FnMut(&mut [u8]) -> io::Result<()>,
    /// This side's terms for a connection that the peer of a VC has dialled, or why there is none.
    pub terms: &'a mut dyn FnMut(VcId, &Offer<'_>) -> Result<LocalTerms, RejectReason>,
    /// Actions for the driver to carry out.
    pub out: &'a mut Vec<Action>,
}

impl fmt::Debug for Env<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Env(at {:?}, {} actions)", self.now, self.out.len())
    }
}
