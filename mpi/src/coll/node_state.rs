//! A communicator's knowledge of its processes: the memory that they share, where they are, and
//! what is set.
//!
//! Operations that begin while it is not decided whether there is some wait, and begin in their
//! order, so that all processes choose alike for each of them.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use ch3_shim::Vci;
use parking_lot::Mutex;

use super::choice::Setting;
use super::node_memory::{LANES, Lane, NodeMemory};
use crate::error::{MpiError, Result};

/// The agreement of processes on memory that they share.
pub(super) trait Agreement: Debug + Send {
    /// Goes as far as it can; the decision once all have agreed.
    ///
    /// # Errors
    /// A peer that is lost.
    fn advance(&mut self, vci: &mut Vci) -> Result<Option<Decision>>;

    /// Returns the facts as this process alone knows them, if a peer is lost meanwhile: those that
    /// have agreed before have the same unless processes differ.
    fn assumed(&self, vci: &mut Vci) -> Setting;
}

/// The decision of a communicator's processes.
#[derive(Debug)]
pub(super) struct Decision {
    /// The memory that they share, if they do.
    pub memory: Option<Arc<NodeMemory>>,
    /// The facts on which choices depend.
    pub setting: Setting,
    /// The fault that ends all operations: settings that differ.
    pub fault: Option<Box<MpiError>>,
}

/// The order of the operations of a lane that have not begun.
#[derive(Debug, Default)]
struct Queue {
    entered: AtomicU32,
    begun: AtomicU32,
}

/// The memory of a communicator, or what is known of it.
#[derive(Debug, Default)]
pub(crate) struct NodeState {
    decided: OnceLock<Decision>,
    setup: Mutex<Option<Box<dyn Agreement>>>,
    queues: [Queue; LANES],
    /// Persistent operations that were made.
    persistent: AtomicU32,
}

impl Decision {
    /// Returns the facts for the operations of a lane; those without one go by messages.
    pub(super) fn setting(&self, lane: Option<Lane>) -> Cow<'_, Setting> {
        match lane {
            Some(_) => Cow::Borrowed(&self.setting),
            None => Cow::Owned(Setting { shared: false, ..self.setting.clone() }),
        }
    }
}

impl NodeState {
    /// Returns what is decided. `None` if nothing is yet.
    #[inline]
    pub(super) fn decided(&self) -> Option<&Decision> {
        self.decided.get()
    }

    /// Returns true if it is decided whether the processes share memory.
    pub(crate) fn is_decided(&self) -> bool {
        self.decided.get().is_some()
    }

    /// Returns the memory that the processes share, if it is decided that they do.
    #[inline]
    pub(super) fn memory(&self) -> Option<&Arc<NodeMemory>> {
        self.decided.get()?.memory.as_ref()
    }

    /// Returns the memory of a communicator that has no operation any more.
    pub(super) fn into_memory(self) -> Option<NodeMemory> {
        self.decided.into_inner()?.memory.and_then(Arc::into_inner)
    }

    /// Returns the lane of the next persistent operation; `None` if that goes by messages. All
    /// processes make them in the same order.
    pub(super) fn persistent_lane(&self) -> Option<Lane> {
        let made = self.persistent.load(Ordering::Relaxed);
        self.persistent.store(made.saturating_add(1), Ordering::Relaxed);
        Lane::persistent(made)
    }

    /// Gives an operation its place among those that wait to begin.
    #[inline]
    pub(super) fn enter(&self, lane: Lane) -> u32 {
        let queue = &self.queues[lane.index()];
        let turn = queue.entered.load(Ordering::Relaxed);
        queue.entered.store(turn.wrapping_add(1), Ordering::Relaxed);
        turn
    }

    /// Returns true if those before it have begun.
    #[inline]
    pub(super) fn is_next(&self, lane: Lane, turn: u32) -> bool {
        self.queues[lane.index()].begun.load(Ordering::Relaxed) == turn
    }

    /// Notes that the next one has begun.
    #[inline]
    pub(super) fn has_begun(&self, lane: Lane) {
        let begun = &self.queues[lane.index()].begun;
        begun.store(begun.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Goes on with the decision, which `begin` begins. True once there is one. If a peer is lost
    /// meanwhile there is no memory, and the operation finds that out by its messages.
    #[cold]
    #[inline(never)]
    pub(super) fn decide(&self, vci: &mut Vci, begin: impl FnOnce(&mut Vci) -> Box<dyn Agreement>) -> bool {
        let mut setup = self.setup.lock();
        if self.decided.get().is_some() {
            return true;
        }
        let agreement = setup.get_or_insert_with(|| begin(vci));
        let decision = match agreement.advance(vci) {
            Ok(None) => return false,
            Ok(Some(decision)) => decision,
            Err(e) => {
                tracing::warn!("no memory that the processes of a communicator share: {}", e.text);
                Decision { memory: None, setting: agreement.assumed(vci), fault: None }
            }
        };
        *setup = None;
        // Nobody else decides while the lock is held.
        let _ = self.decided.set(decision);
        true
    }
}
