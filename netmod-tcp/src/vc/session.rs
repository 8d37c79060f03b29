//! The session of a VC: positions in its stream, which outlives connections.

use netmod_core::Time;

use crate::link::Failure;

/// A connection that was lost, until its session is resumed.
#[derive(Debug)]
pub(crate) struct Loss {
    pub(crate) failure: Failure,
    pub(crate) since: Time,
}

/// Altered records of a VC.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Altered {
    /// Position of the last one in the stream.
    pub(crate) at: u64,
    /// Times that the record at this position was altered.
    pub(crate) times: u32,
    /// Number of all altered records.
    pub(crate) records: u32,
}

/// The session that messages are sent and received in.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// Its name; 0 if there is none, or none that can be resumed.
    pub(crate) id: u64,
    /// Position from which on what is sent is kept: not 0 if it began in the middle of a
    /// connection.
    pub(crate) kept_from: u64,
    /// Bytes that were read, as long as there is no connection.
    pub(crate) rx: u64,
    /// Bytes of messages that were acknowledged.
    pub(crate) told: u64,
    /// Bytes of control frames read since the last acknowledgement.
    pub(crate) told_control: u64,
    /// The core's count of bytes received when the session began.
    pub(crate) rx_base: u64,
    /// Altered records.
    pub(crate) altered: Altered,
    /// Times that a lost connection was resumed.
    pub(crate) resumes: u32,
    /// The restart of this process after which the peer was last told where it listens.
    pub(crate) restarts: u32,
    /// The peer's name for the last adopted connection in `Control::Suspend`; 0 if there was none.
    pub(crate) connection: u64,
    /// The connection that was lost, while it is not resumed.
    pub(crate) loss: Option<Box<Loss>>,
    /// Position of what was sent when the VC was last seen to hold much memory.
    pub(crate) tidy_mark: u64,
}

impl Session {
    /// Returns the position up to which bytes of a session were read, while there is no connection.
    pub(crate) fn position(&self, session: u64) -> u64 {
        if session != 0 && session == self.id { self.rx } else { 0 }
    }
}
