//! Memory of communicators that were freed, for the next ones of the same processes.
//!
//! To make such memory takes files, mappings and page faults, more time than all operations of a
//! communicator that does not live long. Each process keeps what it has by itself. The next
//! communicator's agreement finds out whether all have kept the same (`node_setup`).

use std::sync::Arc;

use super::node_memory::NodeMemory;
use crate::comm::CommCore;

/// Most that are kept: programs free what they have just made.
const MOST: usize = 4;

/// Memory for collective operations that no communicator uses.
#[derive(Debug, Default)]
pub(crate) struct NodePool {
    /// The processes, by their ranks in the job, and the memory; the oldest first.
    kept: Vec<(Arc<[u32]>, NodeMemory)>,
}

impl NodePool {
    /// Keeps the memory of a communicator, if it has some that others may use.
    pub(crate) fn keep(&mut self, core: CommCore) {
        let places = Arc::clone(core.group().places());
        let Some(memory) = core.node.into_memory().filter(NodeMemory::is_clean) else { return };
        if self.kept.len() == MOST {
            self.kept.remove(0);
        }
        self.kept.push((places, memory));
    }

    /// Takes memory of these processes. Of several it is that with the least number, so that the
    /// order in which a process has freed communicators does not matter.
    pub(super) fn take(&mut self, places: &[u32]) -> Option<NodeMemory> {
        let all = self.kept.iter().enumerate().filter(|(_, (of, _))| **of == *places);
        let (at, _) = all.min_by_key(|(_, (_, memory))| memory.identity())?;
        Some(self.kept.remove(at).1)
    }

    /// Gives all up, for the address space that it has.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
    }
}
