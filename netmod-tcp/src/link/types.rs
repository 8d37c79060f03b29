//! Events, actions, causes and settings of a link.

use core::fmt;
use core::time::Duration;

use netmod_connection::RejectReason;
use netmod_connection::establish::Setback;

/// A connection, by a key that the netmod chooses; the link only compares it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnKey(pub u64);

impl ConnKey {
    /// No connection. Never the key of one.
    pub const NONE: ConnKey = ConnKey(u64::MAX);
}

/// The phase of a link. The table is in the module's description.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Phase {
    /// No connection, and none wanted.
    #[default]
    Idle,
    /// This side's dial is under way, up to the peer's ACCEPT.
    Dialing,
    /// The last dial came to nothing; the next one, or the peer's, is waited for.
    Backoff,
    /// This side has sent ACCEPT on the peer's dial; READY is waited for.
    Promised,
    /// A connection has been adopted. Messages flow.
    Up,
    /// GOODBYE was said; the peer's is waited for.
    Parting,
    /// The VC was reported down.
    Failed,
    /// Shut down for good.
    Shut,
}

/// The messages that wait to be sent when the peer says GOODBYE.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Pending {
    /// There are none.
    Nothing,
    /// No byte of any of them has left.
    Whole,
    /// A part of the first one has left.
    Partial,
}

/// The handshake parameters that the peer has sent in its HELLO, and proved.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HandshakeParams {
    /// The session that it wants resumed; 0 for a fresh one.
    pub session: u64,
    /// Name of a fresh session; 0 if the two sides have not agreed to resume sessions.
    pub fresh: u64,
    /// Its incarnation.
    pub incarnation: u64,
    /// The number of the dial, from 1: its process has given up those with lesser numbers.
    pub dial: u64,
}

/// The cause for which a dial failed or a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Failure {
    /// No attempt has failed.
    #[default]
    None,
    /// A system call failed with this `errno`.
    Errno(i32),
    /// The peer closed the connection without GOODBYE.
    Eof,
    /// Bytes were altered on the way.
    Altered,
    /// The peer did not answer in time.
    TimedOut,
    /// The peer's host has acknowledged nothing for the detection time.
    Silent,
    /// The peer gave the connection up with GOODBYE.
    Goodbye,
    /// The peer took its promise back.
    Withdrawn,
    /// The peer refused.
    Rejected(RejectReason),
    /// The process that answered does not know the key.
    WrongKey,
    /// The peer has lost the connection, and made another one.
    Replaced,
    /// There is a better way to the peer, and a connection by it.
    Moved,
    /// The peer has closed the connection just after an offer of a better way had lapsed.
    Lapsed,
    /// This process, or the peer, is being checkpointed.
    Checkpoint,
    /// The peer's hello was wrong, or it broke the protocol; the netmod has logged how.
    Protocol,
}

impl From<Setback> for Failure {
    fn from(setback: Setback) -> Failure {
        match setback {
            Setback::TimedOut => Failure::TimedOut,
            Setback::Goodbye => Failure::Goodbye,
            Setback::Rejected(reason) => Failure::Rejected(reason),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::None => f.write_str("no attempt was made"),
            Failure::Errno(e) => fmt::Display::fmt(&std::io::Error::from_raw_os_error(*e), f),
            Failure::Eof => f.write_str("the peer closed the connection without a goodbye"),
            Failure::Altered => f.write_str("bytes were altered on the way (NETMOD_CHECKSUM)"),
            Failure::TimedOut => f.write_str("no answer in time"),
            Failure::Silent => {
                f.write_str("its host has acknowledged nothing for as long as NETMOD_TCP_DETECT allows")
            }
            Failure::Goodbye => f.write_str("the peer gave the connection up"),
            Failure::Withdrawn => f.write_str("the peer took its acceptance back"),
            Failure::Rejected(reason) => write!(f, "refused by the peer: {reason}"),
            Failure::WrongKey => f.write_str("the process that answered does not know the key"),
            Failure::Replaced => f.write_str("the peer had lost it, and has connected again"),
            Failure::Moved => f.write_str("there is a better way to the peer"),
            Failure::Lapsed => f.write_str(
                "the peer has closed it, probably for the offer of a better way, which had lapsed",
            ),
            Failure::Checkpoint => f.write_str("closed for a checkpoint"),
            Failure::Protocol => f.write_str("the peer violated the protocol"),
        }
    }
}

/// The cause for which a link is down.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum DownCause {
    /// The adopted connection was lost.
    #[error("connection lost: {0}")]
    Lost(Failure),
    /// The peer said GOODBYE while a message was half sent.
    #[error("the peer closed the connection in the middle of a message to it")]
    CutOff,
    /// No connection could be made until the deadline.
    #[error("no connection after {attempts} attempts in {elapsed:.1?}; the last one: {last}")]
    Connect {
        /// Dials that failed.
        attempts: u16,
        /// Time since the connection was wanted.
        elapsed: Duration,
        /// Failure of the last dial.
        last: Failure,
    },
    /// The connection was lost, and no other could be made until the deadline.
    #[error("not resumed after {attempts} attempts in {elapsed:.1?}; the last one: {last}")]
    NotResumed {
        /// Dials that failed.
        attempts: u16,
        /// Time since the loss.
        elapsed: Duration,
        /// Failure of the last dial.
        last: Failure,
    },
    /// The connection was lost, and nobody listens any more at the peer's address.
    #[error(
        "the process is gone: nobody listens at its address, as {refused} attempts in {elapsed:.1?} have shown"
    )]
    Gone {
        /// Dials that were refused, one after the other.
        refused: u8,
        /// Time since the loss.
        elapsed: Duration,
    },
    /// Another process has taken the peer's name.
    #[error("the process is dead: a new incarnation of it has connected")]
    Replaced,
    /// A dial failed in a way that another one would fail too.
    #[error("cannot connect: {0}")]
    Refused(Failure),
}

/// An event that a link is told.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LinkEvent {
    /// There is a message to send.
    WantSend,
    /// The answer to [`LinkAction::StartDial`]: the dial's key. Or [`LinkEvent::DialFailed`].
    Dialing {
        /// The new connection.
        conn: ConnKey,
    },
    /// The dial failed before ACCEPT or REJECT came. The connection is closed already.
    DialFailed {
        /// The dial, or [`ConnKey::NONE`] if it had not got a key yet.
        conn: ConnKey,
        /// Its cause.
        failure: Failure,
        /// True if another dial would fail in the same way.
        permanent: bool,
    },
    /// An incoming connection has proved to be this peer's.
    Incoming {
        /// The new connection.
        conn: ConnKey,
        /// Its claims.
        params: HandshakeParams,
    },
    /// The peer's ACCEPT on a dial.
    Accepted {
        /// The dial.
        conn: ConnKey,
        /// The session that it carries; 0 if the two sides have not agreed to resume sessions.
        session: u64,
        /// The peer's incarnation.
        incarnation: u64,
        /// The number of its last dial: up to that one it has given all of them up.
        dials: u64,
    },
    /// A further connection by a better way has been made, up to the hello: the adopted one may be
    /// given up for it.
    Moving {
        /// The new connection.
        conn: ConnKey,
    },
    /// Something of the peer's was read on the adopted connection: the peer has adopted it, too.
    Heard,
    /// The peer's REJECT on a dial.
    Rejected {
        /// The dial.
        conn: ConnKey,
        /// The peer's reason.
        reason: RejectReason,
    },
    /// The peer's READY on a promised connection.
    Ready {
        /// The connection.
        conn: ConnKey,
    },
    /// The peer's GOODBYE, in a handshake or behind its last message.
    Goodbye {
        /// The connection.
        conn: ConnKey,
        /// The messages that wait to be sent.
        pending: Pending,
    },
    /// End of file without GOODBYE, a reset or another error. The connection is closed already.
    Lost {
        /// The connection.
        conn: ConnKey,
        /// The cause.
        failure: Failure,
    },
    /// `vc_terminate`: send what is pending, then part. Answered by exactly one
    /// [`LinkAction::Terminated`] or [`LinkAction::Down`].
    Terminate {
        /// True if messages wait to be sent.
        pending: bool,
    },
    /// Nothing is pending any more: the last message has been handed to the kernel, and
    /// acknowledged if there is a session.
    Drained,
    /// The time that [`super::Link::deadline`] named has come.
    Timer,
    /// Like `Terminate`, and refuse the peer from now on.
    Shutdown {
        /// True if messages wait to be sent.
        pending: bool,
    },
    /// This process is about to be checkpointed. What is under way goes on until the peer can be
    /// told; nothing new is dialled until `Wake`, and a session that loses its connection waits.
    Sleep,
    /// It is to be checkpointed now, whether the peer knows or not.
    SleepNow,
    /// The adopted connection, which has no session, begins one: this side or the peer is about to
    /// be checkpointed.
    BeginSession {
        /// Its name, which both sides know from the handshake.
        session: u64,
    },
    /// The peer has said, on the adopted connection, that it knows.
    PeerKnows,
    /// This process goes on.
    Wake,
    /// The peer is about to be checkpointed, and has said so on the adopted connection, or on the
    /// one before.
    PeerSleeps,
    /// A failed link is to be used again.
    Revive,
    /// The netmod gives the link up. It has closed the connection, and reports the VC down itself.
    Abort,
}

/// A step that the netmod carries out for a link, in the order given.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LinkAction {
    /// Begin a dial, and answer with [`LinkEvent::Dialing`] or [`LinkEvent::DialFailed`] at once.
    StartDial,
    /// Send the hello on a connection that is to take the adopted one's place, which is not read
    /// until [`super::Link::moving`] is none again: the hello says how far it was read.
    Offer(ConnKey),
    /// Send ACCEPT.
    SendAccept(ConnKey),
    /// Send REJECT and close, without losing the REJECT.
    SendReject(ConnKey, RejectReason),
    /// Send READY.
    SendReady(ConnKey),
    /// The connection is the VC's: send what is pending on it, deliver what it brings.
    Adopt(ConnKey),
    /// Send GOODBYE behind what is staged and close. Forget the key.
    Abandon(ConnKey),
    /// Take a promise back: send WITHDRAWN and close. Forget the key. The peer's link gets `Lost`.
    Withdraw(ConnKey),
    /// Send GOODBYE behind the last message and shut the sending half down; go on reading, and
    /// delivering, until the peer's GOODBYE or end of file.
    SayGoodbye(ConnKey),
    /// Close without a word. Forget the key.
    Close(ConnKey),
    /// The adopted connection is lost, and closed; its session is not. What was sent and not
    /// acknowledged is kept, as is the state of receiving, until another connection resumes it, or
    /// `Down` follows.
    Suspend(Failure),
    /// Report the VC as terminated.
    Terminated,
    /// Report the VC as down; fail what is pending.
    Down(DownCause),
}

/// At most [`Actions::MAX`] actions, in place.
#[derive(Clone, Copy, Debug)]
#[must_use = "a link's actions have to be carried out"]
pub struct Actions {
    list: [Option<LinkAction>; Actions::MAX],
    len: u8,
}

impl Actions {
    /// The most actions that one event causes.
    pub const MAX: usize = 4;

    pub(super) const fn none() -> Actions {
        Actions { list: [None; Actions::MAX], len: 0 }
    }

    pub(super) fn push(&mut self, action: LinkAction) {
        debug_assert!((self.len as usize) < Actions::MAX, "more actions than an event can cause");
        if let Some(slot) = self.list.get_mut(self.len as usize) {
            *slot = Some(action);
            self.len += 1;
        }
    }

    /// Returns true if there is nothing to do.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl IntoIterator for Actions {
    type Item = LinkAction;
    type IntoIter = core::iter::Flatten<core::array::IntoIter<Option<LinkAction>, 4>>;
    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter().flatten()
    }
}

/// Times that govern every link of a netmod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkConfig {
    /// From the first wish to send until the VC is reported down.
    pub connect_timeout: Duration,
    /// From a dial to the peer's answer, and from a promise to READY.
    pub handshake_timeout: Duration,
    /// Pause after the first failed dial; doubled after each.
    pub backoff_min: Duration,
    /// Longest pause between dials.
    pub backoff_max: Duration,
    /// Least pause after a REJECT that announces the peer's own dial.
    pub crossing_wait: Duration,
    /// From the hello on a connection that is to take the adopted one's place until it is given up.
    pub move_timeout: Duration,
    /// From GOODBYE to the peer's.
    pub parting_timeout: Duration,
    /// From the loss of a connection until its VC is reported down.
    pub resume_timeout: Duration,
    /// The same if the connection was given up for a checkpoint.
    pub ckpt_timeout: Duration,
}

impl Default for LinkConfig {
    fn default() -> Self {
        LinkConfig {
            connect_timeout: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(10),
            backoff_min: Duration::from_millis(5),
            backoff_max: Duration::from_secs(1),
            crossing_wait: Duration::from_millis(50),
            // Nothing is received meanwhile, and a peer that makes calls answers at once.
            move_timeout: Duration::from_millis(250),
            parting_timeout: Duration::from_secs(5),
            resume_timeout: Duration::from_secs(10),
            ckpt_timeout: Duration::from_secs(3600),
        }
    }
}
