//! What a test says to the loaded library, and what it hears: JSON, since the two share no Rust types.

use serde::{Deserialize, Serialize};

use crate::settings::Settings;

/// Which endpoint is meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Node {
    /// The endpoints of a world in the order in which they were made, from 0.
    Number(usize),
    /// By what `fi_getname` says.
    Address(Vec<u8>),
}

/// What can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Operation {
    Send,
    Recv,
    Read,
    Write,
}

/// An endpoint of a world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeState {
    /// Its address.
    pub address: Vec<u8>,
    /// [`World::kill`](crate::World::kill) was called for it.
    pub dead: bool,
    /// The application has closed it.
    pub closed: bool,
}

/// What has happened in a world.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Calls of `fi_cq_read`.
    pub polls: u64,
    /// Sends that were accepted, injected ones too.
    pub sends: u64,
    /// Of these, injected.
    pub injects: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Receives that were accepted.
    pub receives: u64,
    /// Reads that were accepted.
    pub reads: u64,
    /// Writes that were accepted.
    pub writes: u64,
    /// Messages that arrived.
    pub delivered: u64,
    /// Messages that were thrown away, because an end of theirs is gone.
    pub lost: u64,
    /// Calls that were answered by `-FI_EAGAIN`, other than reads of queues.
    pub again: u64,
    /// Receives for several messages that were refused, since too many messages wait.
    pub no_room: u64,
    /// Operations that failed by chance or by order.
    pub failed: u64,
    /// Entries without error that were read.
    pub completions: u64,
    /// Entries with error that were read.
    pub errors: u64,
    /// Entries that only said that a receive buffer is free again.
    pub releases: u64,
    /// Completions with a length that was too short.
    pub short: u64,
    /// Completions of nothing.
    pub spurious: u64,
    /// Sends and writes that completed before their data had arrived.
    pub early: u64,
    /// A number that is the same if, and most likely only if, the same things happened in the same order.
    pub trace: u64,
}

/// What a world's users have left behind. Objects of nodes that were killed do not count.
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
    /// Operations under way, posted receives too.
    pub operations: usize,
    /// Sends, reads and writes that were under way when their endpoint was closed. No leak, but seldom meant.
    pub abandoned: usize,
}

impl Leaks {
    /// Whether nothing was left, not even operations that were abandoned.
    pub fn is_none(&self) -> bool {
        *self == Leaks::default()
    }
}

/// What is asked of the library.
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

/// What it answers.
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
