//! MPI tag matching on (context id, source rank, tag): posted receives and unexpected messages.
//!
//! [`PostedQueue`] holds the receives that wait for a message, [`UnexpectedQueue`] the messages
//! that wait for a receive. Of all posted receives that match a message, the one posted first
//! takes it; of all waiting messages that match a receive, it takes the one that arrived first
//! (MPI, "Semantics of Point-to-Point Communication"). The queues know nothing of requests, VCs
//! or packets: an entry carries a payload `T`, and the device decides what that is.
//!
//! # Cost
//!
//! Neither queue is ever searched. A pattern is of one of four classes: exact, any tag, any
//! source, any of both. Its class and its words that are not wild make a hash key.
//!
//! *Posted side.* Receives are in a slab; one index for each class leads from a key to the last of
//! the receives posted with that very pattern. They form a ring, so that the last leads to the
//! first, and one is taken from the FIFO without a change of the index. A message looks into one
//! index if no receive with a wildcard is posted, and else into at most four (an empty one costs a
//! comparison) and takes the least of the sequence numbers found. So that a cancellation needs no
//! walk, each of several receives also knows the one before it; that is apart from the receives, so
//! that patterns that are unique, the common case, never touch it. One pattern without wildcards is
//! kept apart from the index, so that a row of receives with it, or one that is posted again
//! whenever it was taken, costs no hash: that which was posted when nothing else was, or, if it
//! waits long, the next that is posted twice.
//!
//! *Unexpected side.* Messages are in a slab as well, and in one list per class: the messages of
//! an exact envelope, of a (context, source), of a (context, tag), of a context. All lists are
//! doubly linked since a message leaves all of them when it is taken by way of any. The exact
//! lists are always kept. Those of another class are built when the first receive or probe of
//! that class is made while messages wait (which sorts them by arrival, once), and kept from then
//! on; they are given up when the queue runs empty without their having been used since it was
//! last empty. So a program without wildcards never pays for them, one that stops to use them
//! stops to pay, and no message enters a list more than once. Links are apart from the messages,
//! in one array for each class.
//!
//! *Memory accesses.* An index has entries of four bytes, and a receive or message with an 8-byte
//! payload has 32, never in two cache lines: an exact match costs two dependent cache misses at
//! worst, one of them in a table that is small for the number of receives. The slab slot that was
//! freed last is used next, so that what is posted again is written where the cache is warm.
//!
//! *Hashing.* Peers choose tags. Each queue has a random seed, so that a peer cannot construct
//! colliding tags without knowing it; the function is in `hash`.
//!
//! *Memory.* Indices double when they are too full, slabs grow like a `Vec`; both amortised.
//! Nothing is given back, and a queue whose length stays below its former maximum does not
//! allocate, but for the diagnostics (`iter`, `drain_matching`).

pub mod bench;
mod envelope;
mod hash;
mod index;
mod posted;
mod unexpected;

pub use envelope::{Envelope, Pattern};
pub use posted::{PostedKey, PostedQueue};
pub use unexpected::{UnexpectedKey, UnexpectedQueue};

use hash::Key;

/// The source of a [`Pattern`] that matches messages from every rank (the value of
/// `MPI_ANY_SOURCE` in the MPICH ABI).
pub const ANY_SOURCE: i32 = -2;

/// The tag of a [`Pattern`] that matches every tag (the value of `MPI_ANY_TAG` in the MPICH ABI).
pub const ANY_TAG: i32 = -1;

/// The words of a pattern that are wild.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
enum Class {
    Exact = 0,
    AnyTag = 1,
    AnySource = 2,
    AnyBoth = 3,
}

impl Class {
    const ALL: [Class; 4] = [Class::Exact, Class::AnyTag, Class::AnySource, Class::AnyBoth];
    const WILD: [Class; 3] = [Class::AnyTag, Class::AnySource, Class::AnyBoth];

    /// The key that an envelope's receives of this class have in the class's table: wild words
    /// are zero.
    #[inline]
    fn key_of(self, envelope: &Envelope) -> Key {
        const SOURCE: u64 = u32::MAX as u64;
        let kept = match self {
            Class::Exact => u64::MAX,
            Class::AnyTag => SOURCE,
            Class::AnySource => !SOURCE,
            Class::AnyBoth => 0,
        };
        Key { source_tag: envelope.source_tag() & kept, context: envelope.context() }
    }

    /// The pattern that has `key` in this class.
    fn pattern(self, key: Key) -> Pattern {
        let (source, tag) = match self {
            Class::Exact => (key.source(), key.tag()),
            Class::AnyTag => (key.source(), ANY_TAG),
            Class::AnySource => (ANY_SOURCE, key.tag()),
            Class::AnyBoth => (ANY_SOURCE, ANY_TAG),
        };
        Pattern::new(key.context, source, tag)
    }
}

#[cfg(test)]
mod tests;
