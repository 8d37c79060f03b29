//! Requests of a test to the loaded library, and its replies: JSON, since the two share no Rust
//! types.

use serde::{Deserialize, Serialize};

use crate::settings::Settings;

/// Selects an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Node {
    /// Its number in order of creation, from 0 on.
    Number(usize),
    /// Its address from `fi_getname`.
    Address(Vec<u8>),
}

/// Operations that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Operation {
    Send,
    Recv,
    Read,
    Write,
    Atomic,
}

/// An endpoint of a world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeState {
    /// Its address.
    pub address: Vec<u8>,
    /// True if [`World::kill`](crate::World::kill) was called for it.
    pub dead: bool,
    /// True if the application has closed it.
    pub closed: bool,
}

/// Statistics of a world.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Calls of `fi_cq_read`.
    pub polls: u64,
    /// Accepted sends, including injected ones.
    pub sends: u64,
    /// Accepted injected sends.
    pub injects: u64,
    /// Bytes of accepted sends.
    pub bytes: u64,
    /// Accepted receives.
    pub receives: u64,
    /// Accepted reads.
    pub reads: u64,
    /// Accepted writes.
    pub writes: u64,
    /// Accepted atomic operations.
    pub atomics: u64,
    /// Delivered messages.
    pub delivered: u64,
    /// Messages discarded because an endpoint is gone.
    pub lost: u64,
    /// Calls that returned `-FI_EAGAIN`, except reads of queues.
    pub again: u64,
    /// Multi-receives refused because too many messages wait.
    pub no_room: u64,
    /// Operations that failed, at random or on request.
    pub failed: u64,
    /// Completions read.
    pub completions: u64,
    /// Error entries read.
    pub errors: u64,
    /// Entries that only release a receive buffer.
    pub releases: u64,
    /// Completions with a length that is too short.
    pub short: u64,
    /// Completions without an operation.
    pub spurious: u64,
    /// Sends and writes that completed before their data arrived.
    pub early: u64,
    /// Hash of the sequence of events: equal for equal sequences, and almost certainly different
    /// otherwise.
    pub trace: u64,
}

/// Objects and operations that a world's users have left behind. Objects of killed nodes are not
/// counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Leaks {
    pub fabrics: usize,
    pub domains: usize,
    pub endpoints: usize,
    /// Transmit and receive contexts of scalable endpoints.
    pub contexts: usize,
    pub vectors: usize,
    pub queues: usize,
    pub regions: usize,
    /// Operations in flight, including posted receives.
    pub operations: usize,
    /// Sends, reads and writes in flight when their endpoint was closed. Not a leak, but rarely
    /// intended.
    pub abandoned: usize,
}

impl Leaks {
    /// Returns true if nothing was left, nor any operation abandoned.
    pub fn is_none(&self) -> bool {
        *self == Leaks::default()
    }
}

/// A request to the library.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    New(Box<Settings>),
    Violations(u64),
    Nodes(u64),
    Stats(u64),
    Kill(u64, Node),
    Stall(u64, Node, bool),
    FailNext(u64, Operation, u64),
    Close(u64),
}

/// A reply of the library.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    World(u64, String),
    Texts(Vec<String>),
    Nodes(Vec<NodeState>),
    Stats(Stats),
    Leaks(Leaks),
    Done,
    Refused(String),
}
