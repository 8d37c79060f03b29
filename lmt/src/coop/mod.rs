//! The Cooperative mode's ring: a file in shared memory that the sender copies into while the receiver copies out.
//!
//! One ring serves one direction of a VC. It is a stream of bytes, in which messages follow each other in the order in
//! which the receiver granted them, so that a sender goes from one to the next without asking. `gate` has
//! the positions and who is to be woken, `ring` the copying, `sys` the mapping, `lane` the messages of a VC.

mod gate;
mod lane;
mod ring;
mod sys;

/// What `gate` is made of; loom's in its model.
mod sync {
    pub(super) use core::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

pub use gate::Corrupt;
pub use lane::{InLane, OutLane};
pub use ring::{CHUNK, Consumer, LONG, Producer, RING, Sizes};
pub use sys::place_here;

/// Why there is no ring, or no longer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// A system call failed.
    #[error("{what} {path}: {source}; {hint}")]
    System {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: String,
        /// The system's error.
        source: std::io::Error,
        /// What can be done.
        hint: &'static str,
    },
    /// The file is not what a peer makes.
    #[error("{path} is not a ring of this user: {why}; is another program using names like this one?")]
    Foreign {
        /// The file.
        path: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The peer has written positions that cannot be.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
}
