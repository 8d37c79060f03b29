//! Errors of joining a segment, and of coming back to one.

use std::io;
use std::path::PathBuf;

use super::PATIENCE;
use super::layout::MAX_RANKS;

/// The reason why a rank has no slot in a segment.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SegmentError {
    /// The node has more ranks than a segment has slots.
    #[error(
        "{ranks} ranks on this node, and a segment has room for {MAX_RANKS}; with NETMOD_SHM_RANKS={MAX_RANKS} so \
         many of them share one"
    )]
    TooManyRanks {
        /// Ranks of the node.
        ranks: u32,
    },
    /// The system refuses an action on the file.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// The action, with the preposition that precedes the file's name.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another process keeps the file locked.
    #[error("{} is locked by another process", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The file has another layout.
    #[error("{} is of another version of netmod; do all ranks run the same?", path.display())]
    Version {
        /// The file.
        path: PathBuf,
    },
    /// The number of slots in the header is impossible.
    #[error("{} says that it is for {ranks} ranks, which cannot be", path.display())]
    Ranks {
        /// The file.
        path: PathBuf,
        /// Number of slots according to the header.
        ranks: u32,
    },
    /// The file system lacks memory.
    #[error(
        "{kib} KiB of shared memory for {ranks} ranks cannot be had: {}: {source}; enlarge that file \
         system, or name another in NETMOD_SHM_DIR",
        path.display()
    )]
    NoMemory {
        /// Size of the segment in KiB.
        kib: usize,
        /// Number of slots.
        ranks: u32,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The rank that makes the segment does not finish.
    #[error("the rank that made {} has not finished it in {PATIENCE:?}", path.display())]
    Unfinished {
        /// The file.
        path: PathBuf,
    },
    /// All slots are taken.
    #[error(
        "{} has room for {ranks} ranks, as NETMOD_SHM_RANKS says, or else the launcher, and this is one more; \
         set NETMOD_SHM_RANKS higher",
        path.display()
    )]
    Full {
        /// The file.
        path: PathBuf,
        /// Number of slots.
        ranks: u32,
    },
    /// The system gives no random numbers.
    #[error("no random numbers: {0}")]
    Random(getrandom::Error),
}

/// The reason why a rank cannot come back from a checkpoint.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RejoinError {
    /// Some rank would not be found, since it numbers processes differently.
    #[error(
        "a rank of this node is in another PID namespace, where one that comes back from a checkpoint \
         does not find it; set NETMOD=tcp for jobs with checkpoints"
    )]
    OtherNamespace,
    /// The descriptors of a rank are hidden, and the segment is found by them.
    #[error(
        "the descriptors of process {pid} of this node cannot be looked at: {source}; a rank that comes back \
         from a checkpoint finds the node's memory by them; set NETMOD=tcp for jobs with checkpoints"
    )]
    Descriptors {
        /// The process.
        pid: u32,
        /// The system's error.
        source: io::Error,
    },
    /// The ranks that come back have no file in common.
    #[error("cannot come back by {}: {source}", path.display())]
    Meet {
        /// The file by which they meet.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The segment cannot be mapped.
    #[error("cannot map the node's memory: {0}")]
    Map(io::Error),
    /// The lock of the slot is taken.
    #[error("cannot lock a byte of {}: {source}; has this process been restored twice?", path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}
