//! Collective operations.
//!
//! Each is a [`Schedule`] that a pure function makes of rank, size, counts and types (one file for
//! each operation, over [`Builder`]); `engine` runs it over anything that carries messages, against
//! the memory of one call. Blocking, nonblocking and persistent forms run the same schedules.
//!
//! [`choice`] chooses the algorithm, by what is the same at all processes; `shape` is where it
//! asks.

pub mod allgather;
pub mod alltoall;
pub mod barrier;
pub mod bcast;
pub mod blocks;
mod call;
mod calls;
pub mod choice;
pub mod circulant;
mod engine;
mod facts;
mod flags;
#[cfg(test)]
mod flags_model;
pub mod gather;
mod inter;
mod intra;
mod ints;
mod memory;
mod neighbours;
pub mod node;
pub mod node_blocks;
mod node_memory;
mod node_pool;
mod node_run;
mod node_setup;
mod node_state;
mod operation;
mod plan;
pub mod reduce;
pub mod scan;
mod schedule;
pub mod shape;
mod signature;
mod spare;
mod start;
mod task;
#[cfg(test)]
mod tests;
mod wire;

/// The atomics and barriers of `flags`; loom's in its model.
mod sync {
    pub(super) use core::sync::atomic::{AtomicU64, Ordering};
    use core::sync::atomic::{compiler_fence, fence};

    use ch3_shim::shared_memory::fence_all;

    /// The barriers between a store of one process and its look at what another one has stored.
    #[derive(Clone, Copy, Debug)]
    pub(super) enum Barriers {
        /// A sleeper puts fences into all processes.
        OfAll,
        /// Each has its own.
        Own,
    }

    impl Barriers {
        /// The barrier of one who sets flags.
        #[inline]
        pub(super) fn light(self) {
            match self {
                Barriers::OfAll => compiler_fence(Ordering::SeqCst),
                Barriers::Own => fence(Ordering::SeqCst),
            }
        }

        /// The barrier of a sleeper. False if the kernel refuses it.
        pub(super) fn heavy(self) -> bool {
            match self {
                Barriers::OfAll => fence_all(),
                Barriers::Own => {
                    fence(Ordering::SeqCst);
                    true
                }
            }
        }
    }
}

pub use call::{Call, Neighbours, Peers};
pub(crate) use calls::forms;
pub use engine::{Active, Advance, Reducer};
pub use memory::{Memory, Work};
pub use node_memory::{LANES, Lane, NodeMemory};
pub(crate) use node_pool::NodePool;
pub(crate) use node_state::NodeState;
pub use schedule::{Base, Builder, Data, Elem, Entry, Room, Schedule, Step, TypeId};
pub(crate) use spare::Spares;
pub use start::reduce_local;
pub(crate) use task::{Form, Running};
pub use wire::Wire;
