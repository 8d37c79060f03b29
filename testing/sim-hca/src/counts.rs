//! Counts of a fabric's objects and messages.

/// Number of objects that a process has open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Completion channels.
    pub channels: usize,
    /// Completion queues.
    pub cqs: usize,
    /// Shared receive queues.
    pub srqs: usize,
    /// Queue pairs, except receivers of XRC.
    pub qps: usize,
    /// Handles of XRC receiving queue pairs, made or opened.
    pub tgt_qps: usize,
    /// Registrations.
    pub mrs: usize,
    /// Total length of the registrations in bytes.
    pub bytes: u64,
    /// Address handles.
    pub ahs: usize,
    /// Memberships in XRC domains.
    pub xrcds: usize,
}

/// Number of objects open in a whole fabric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaks {
    /// Opened devices.
    pub contexts: usize,
    /// Completion channels.
    pub channels: usize,
    /// Completion queues.
    pub cqs: usize,
    /// Shared receive queues.
    pub srqs: usize,
    /// Queue pairs; a receiver of XRC counts once.
    pub qps: usize,
    /// Registrations.
    pub mrs: usize,
    /// Address handles.
    pub ahs: usize,
    /// Memberships of processes in XRC domains.
    pub xrcds: usize,
    /// XRC domains.
    pub domains: usize,
}

/// Statistics of messages that need a receive, on connected queue pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Messages that found a receive.
    pub received: u64,
    /// Messages that found no receive and are retried.
    pub not_ready: u64,
}
