//! The status of a finished message.

/// The envelope and the length of a finished message (`MPI_Status`).
///
/// Of a finished send only `cancelled` means something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Rank of the sender.
    pub source: i32,
    /// Tag of the message.
    pub tag: i32,
    /// Bytes received.
    pub len: usize,
    /// True if the request was cancelled before it matched.
    pub cancelled: bool,
}
