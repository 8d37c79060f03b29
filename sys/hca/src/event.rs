//! Asynchronous events of a device.

use crate::qp::QpNum;

/// An asynchronous event (`ibv_get_async_event(3)`). Completion queues and shared receive queues
/// are identified by the tokens they were made with, queue pairs by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AsyncEvent {
    /// A completion queue has overrun and is unusable.
    CqError(u64),
    /// A queue pair went to the error state, for a reason that no completion reports.
    QpFatal(QpNum),
    /// A queue pair went to the error state because an invalid request arrived.
    QpRequestError(QpNum),
    /// A queue pair went to the error state because a request violated memory protection.
    QpAccessError(QpNum),
    /// The first message arrived at a queue pair that is ready to receive and not yet ready to
    /// send.
    CommEstablished(QpNum),
    /// A queue pair changed to its alternate path, now its only one.
    PathMigrated(QpNum),
    /// A peer tried to change to a path that is not this queue pair's alternate path.
    PathMigrationFailed(QpNum),
    /// A send queue that was being drained is empty.
    SqDrained(QpNum),
    /// A queue pair in the error state will take no more from its shared receive queue.
    LastWqeReached(QpNum),
    /// A shared receive queue is unusable.
    SrqError(u64),
    /// A shared receive queue has fewer receives than its limit. The limit is now off.
    SrqLimitReached(u64),
    /// A port became active.
    PortActive(u8),
    /// A port lost its link.
    PortError(u8),
    /// A port's local identifier changed.
    LidChange(u8),
    /// A port's partition keys changed.
    PkeyChange(u8),
    /// A port's GIDs changed.
    GidChange(u8),
    /// A port's subnet manager changed.
    SmChange(u8),
    /// A port's subnet manager asks for all registrations with it to be repeated.
    ClientReregister(u8),
    /// The device is unusable.
    DeviceFatal,
    /// Another event, by its number.
    Other(u32),
}
