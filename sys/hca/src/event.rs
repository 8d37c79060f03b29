//! Asynchronous events.

use crate::qp::QpNum;

/// What happened without being asked for (`ibv_get_async_event(3)`). Completion queues and shared receive queues are told apart by the
/// tokens that they were made with, queue pairs by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AsyncEvent {
    /// A completion queue is of no more use: it was full.
    CqError(u64),
    /// A queue pair has gone to the error state, for a reason that no completion can tell.
    QpFatal(QpNum),
    /// A queue pair has gone to the error state: an invalid request came.
    QpRequestError(QpNum),
    /// A queue pair has gone to the error state: a request came that the keys of memory do not permit.
    QpAccessError(QpNum),
    /// The first message came to a queue pair that is ready to receive and not yet to send.
    CommEstablished(QpNum),
    /// A queue pair has changed to its alternate path, which is its only one now.
    PathMigrated(QpNum),
    /// A peer wanted to change to a path that is not the alternate one of this queue pair.
    PathMigrationFailed(QpNum),
    /// A send queue that was to be drained is empty.
    SqDrained(QpNum),
    /// The queue pair in error takes no more from its shared receive queue.
    LastWqeReached(QpNum),
    /// A shared receive queue is of no more use.
    SrqError(u64),
    /// Fewer receives are left in a shared receive queue than its limit, which is now off.
    SrqLimitReached(u64),
    /// A port works.
    PortActive(u8),
    /// A port's link is gone.
    PortError(u8),
    /// A port has another local identifier.
    LidChange(u8),
    /// A port has other partition keys.
    PkeyChange(u8),
    /// A port has other GIDs.
    GidChange(u8),
    /// A port has another subnet manager.
    SmChange(u8),
    /// A port's subnet manager wants registrations with it to be made anew.
    ClientReregister(u8),
    /// The device is of no more use.
    DeviceFatal,
    /// Something else, by its number.
    Other(u32),
}
