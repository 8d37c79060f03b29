//! The ring of the Cooperative mode: shared memory that the sender fills while the receiver drains
//! it.
//!
//! One ring serves one direction of a VC. It is a stream of bytes in which messages follow each
//! other in the order of the receiver's grants, so a sender goes from one to the next without
//! asking. `gate` has the positions and wake-up flags, `ring` the copying, `sys` the mapping,
//! `queue` the messages of a VC, and `rest` how both sides drop their rings for a checkpoint.

mod gate;
mod queue;
mod rest;
mod ring;
mod sys;

/// The primitives of `gate`; loom's in its model.
mod sync {
    pub(super) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod rest_model;
#[cfg(test)]
mod tests;

pub use gate::Corrupt;
pub use queue::{InQueue, OutQueue};
pub use rest::Rest;
pub use ring::{CHUNK, Consumer, LONG, Producer, RING, Sizes};
pub use sys::shm_domain;

/// The reason why there is no ring, or no longer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// A system call failed.
    #[error("{what} {path}: {source}; {hint}")]
    System {
        /// The operation.
        what: &'static str,
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
        /// The remedy or consequence.
        hint: &'static str,
    },
    /// The file is not one that a peer creates.
    #[error("{path} is not a ring of this user: {why}; is another program using names like this one?")]
    Foreign {
        /// The file.
        path: String,
        /// The defect.
        why: &'static str,
    },
    /// The peer has written impossible positions.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
}
