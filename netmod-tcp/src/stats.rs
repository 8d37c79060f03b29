//! The counts of a netmod.

/// Counts of the netmod, beside those of each VC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpStats {
    /// Connections accepted.
    pub accepted: u64,
    /// Dials begun.
    pub dialled: u64,
    /// Incoming connections that were refused because they could not prove to be of the job.
    pub unauthenticated: u64,
    /// Incoming connections that said nothing useful in time; `unauthenticated` counts them too.
    pub silent: u64,
    /// Incoming connections of this job that were refused (crossing dials and the like).
    pub refused: u64,
    /// Times that no descriptor was left for an incoming connection.
    pub no_descriptor: u64,
    /// System calls that sent messages.
    pub tx_calls: u64,
    /// System calls that received something.
    pub rx_calls: u64,
    /// Receives that found nothing.
    pub rx_empty: u64,
    /// Calls of epoll.
    pub epoll_calls: u64,
    /// Lost connections that were resumed by another one.
    pub resumes: u64,
    /// Bytes that were sent again then.
    pub resent_bytes: u64,
    /// Acknowledgements sent.
    pub acks: u64,
    /// Records that were altered on the way.
    pub altered: u64,
    /// Incoming connections that came by another interface than the one they were meant for.
    pub strayed: u64,
    /// Dials that could not be pinned to the interface they were meant for, and left by another.
    pub astray: u64,
    /// Connections that have gone over to a better pair of interfaces, whichever side began it.
    pub moved: u64,
    /// Offers of a better pair of interfaces that the peer has not answered in time; the
    /// connections stayed.
    pub lapsed: u64,
    /// Rails made, by this side and by peers.
    pub rails: u64,
    /// Bytes that were put by rails and acknowledged.
    pub rail_tx_bytes: u64,
    /// Bytes that came by rails.
    pub rail_rx_bytes: u64,
    /// Chunks that were under way on a rail that was lost, and went by another one.
    pub rail_resent: u64,
    /// Rails that were given up because the peer talked nonsense, or data came altered.
    pub rail_faults: u64,
}

/// The figures of the netmod, for [`Diagnose::report`](netmod_core::Diagnose::report).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpReport {
    /// Counts.
    pub stats: TcpStats,
    /// Open connections, in any stage.
    pub connections: usize,
}
