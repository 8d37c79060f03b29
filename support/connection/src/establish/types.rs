//! Events, actions, verdicts and times of the machine.

use core::time::Duration;

use netmod_core::PeerName;

use crate::RejectReason;

/// The stages of establishment. The table is in the module's description.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Phase {
    /// No connection, and none wanted.
    #[default]
    Idle,
    /// This side's dial is under way, up to the peer's ACCEPT.
    Dialing,
    /// The last dial failed. The next one, or the peer's, is awaited.
    Backoff,
    /// This side has accepted the peer's dial. READY is awaited.
    Promised,
    /// The connection is made and belongs to the owner.
    Made,
}

/// Failures that the machine finds by itself. The owner's type of failures is made from them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Setback {
    /// The peer did not answer in time.
    TimedOut,
    /// The peer gave up its own dial, which had been accepted.
    Goodbye,
    /// The peer refused.
    Rejected(RejectReason),
}

/// The owner's view of an incoming dial.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Claim {
    /// The dial may be accepted: it begins a session, or resumes the one that this side has.
    Acceptable,
    /// The dial is refused for this reason.
    Refused(RejectReason),
}

/// A dial of the peer that has proved itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Incoming<K> {
    /// The new connection.
    pub conn: K,
    /// The incarnation of the process that dials; never 0.
    pub incarnation: u64,
    /// The number of the dial among those of that process.
    pub number: u64,
    /// The owner's view.
    pub claim: Claim,
}

/// The arbiter's decision about an incoming dial.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// Accept it.
    Accept,
    /// Accept it in place of the own dial, or of an earlier dial of the peer.
    AcceptInstead,
    /// Refuse it.
    Reject(RejectReason),
    /// A connection is made that the peer has lost or ended. The owner decides.
    Contested,
}

/// An event for the machine. `K` is the owner's key of a connection, `F` its type of failures.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Event<K, F> {
    /// A message waits for a connection.
    Want,
    /// The answer to [`Action::Dial`]: the dial's key. Or [`Event::Failed`].
    Dialing {
        /// The new connection.
        conn: K,
    },
    /// A dial of the peer has proved itself.
    Incoming(Incoming<K>),
    /// The peer's ACCEPT of a dial.
    Accepted {
        /// The dial.
        conn: K,
        /// The peer's incarnation.
        incarnation: u64,
        /// The number of the peer's last dial: it has given up all its dials up to that one.
        dials: u64,
    },
    /// The peer's REJECT of a dial.
    Rejected {
        /// The dial.
        conn: K,
        /// The peer's reason.
        reason: RejectReason,
        /// True if another dial would be refused, too.
        permanent: bool,
    },
    /// A dial, or an accepted connection, was lost. The owner has closed it already.
    Failed {
        /// The connection; `None` if the dial has no key yet.
        conn: Option<K>,
        /// The cause.
        failure: F,
        /// True if another dial would fail in the same way.
        permanent: bool,
    },
    /// The peer's READY on an accepted connection.
    Ready {
        /// The connection.
        conn: K,
    },
    /// The peer has given its dial up.
    Goodbye {
        /// The connection.
        conn: K,
    },
    /// The time that [`super::Machine::deadline`] named has come.
    Timer,
    /// No message waits any more. A promise is kept, since the peer may have sent messages already.
    Cancel,
    /// The owner gives up whatever there is. The peer is told of a dial or a promise; the end of a
    /// made connection is announced by the owner.
    Abort,
    /// The owner gives up whatever there is, and has closed it.
    Forget,
    /// The made connection has ended.
    Ended,
    /// The peer is to dial: this side waits, for at most the connect timeout.
    Wait,
    /// The connect timeout begins anew.
    Extend,
    /// The process goes on after a checkpoint: dials begin after a pause, and time passes again.
    Wake,
}

/// A task of the owner.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action<K> {
    /// Begin a dial, and answer with [`Event::Dialing`] or [`Event::Failed`] at once.
    Dial,
    /// Send HELLO (of an own dial) or ACCEPT (of the peer's) once more.
    Retransmit(K),
    /// Send ACCEPT.
    Accept(K),
    /// Send REJECT and forget the key.
    Reject(K, RejectReason),
    /// The connection is made.
    Made {
        /// The connection.
        conn: K,
        /// True if this side has dialled: READY is sent in front of everything else.
        dialed: bool,
    },
    /// Give a dial up: send GOODBYE and forget the key.
    Abandon(K),
    /// Take a promise back: tell the peer and forget the key.
    Withdraw(K),
    /// Close without a word and forget the key.
    Close(K),
    /// No connection could be made. The machine is idle.
    Unreachable {
        /// True if another dial would fail, too; false if the deadline has passed.
        permanent: bool,
        /// Dials that failed.
        attempts: u16,
        /// Time since a connection was wanted.
        elapsed: Duration,
    },
}

/// The most actions that one event causes.
const MAX_ACTIONS: usize = 2;

/// At most two actions, in place.
#[derive(Clone, Copy, Debug)]
#[must_use = "a machine's actions have to be carried out"]
pub struct Actions<K>([Option<Action<K>>; MAX_ACTIONS]);

impl<K: Copy> Actions<K> {
    pub(super) const fn none() -> Actions<K> {
        Actions([None; MAX_ACTIONS])
    }

    pub(super) fn push(&mut self, action: Action<K>) {
        let free = self.0.iter_mut().find(|slot| slot.is_none());
        debug_assert!(free.is_some(), "more actions than an event can cause");
        if let Some(slot) = free {
            *slot = Some(action);
        }
    }
}

impl<K: Copy> IntoIterator for Actions<K> {
    type Item = Action<K>;
    type IntoIter = core::iter::Flatten<core::array::IntoIter<Option<Action<K>>, MAX_ACTIONS>>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().flatten()
    }
}

/// Times and conditions of one event. An owner may pass other times while it resumes a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// From the first wish to send until the peer is reported unreachable.
    pub connect_timeout: Duration,
    /// From a dial to the peer's answer.
    pub handshake_timeout: Duration,
    /// From ACCEPT to READY.
    pub promise_timeout: Duration,
    /// Pause after the first failed dial; doubled after each.
    pub backoff_min: Duration,
    /// Longest pause between dials.
    pub backoff_max: Duration,
    /// Least pause after a REJECT that announces the peer's own dial.
    pub crossing_wait: Duration,
    /// From HELLO or ACCEPT to its retransmission, doubled after each; `Duration::MAX` if the
    /// network loses no frame.
    pub retransmit: Duration,
    /// True while the process is being checkpointed: no dial begins and no time passes.
    pub held: bool,
}

/// Returns true if a dial of `me` survives a crossing one of `peer`: the greater name's does.
pub fn dial_survives(me: &PeerName, peer: &PeerName) -> bool {
    me > peer
}
