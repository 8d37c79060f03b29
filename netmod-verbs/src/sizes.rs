//! Sizes of a port's queues and buffers.

/// Number of buffers for outgoing frames.
pub(crate) const TX_BUFFERS: usize = 128;
/// Capacity of a connection's send queue.
pub(crate) const DEPTH: u32 = 64;
/// Maximum length of inline data in bytes, if the device supports it.
pub(crate) const INLINE: u32 = 256;
/// Maximum number of requests in flight on all connections, if the completion queue can have so
/// many entries.
pub(crate) const UNDER_WAY: u32 = 4096;
