//! Windows: memory of a process that others read, write and combine with theirs.
//!
//! See docs/windows.md for the design. `reach` has the ways to a process's memory, `directory` the
//! ways to memory that is attached; `memory` and `apply` touch what is loaded and stored. `control`
//! has the words by which processes of a node synchronize: locks (`tickets`) and the exclusion of
//! accumulations (`elements`). `origin` executes operations on memory that this process can access,
//! and sends requests (`wire`) for other memory, unless the network itself reaches it (`network`);
//! `server` executes those that come, in the order of `queue`. `epoch` knows what is allowed.
//! `make`, `attach`, `moves`, `lock`, `sync` and `settings` are MPI's functions.
//!
//! All state of a window is under the library's lock, and so is the execution of its operations.

mod apply;
mod attach;
mod control;
#[cfg(test)]
mod control_model;
mod directory;
mod elements;
mod epoch;
mod exclusion;
mod hints;
mod lock;
mod make;
mod memory;
mod moves;
mod network;
mod object;
mod origin;
mod queue;
mod reach;
mod server;
mod settings;
mod sync;
mod tickets;
mod wire;

/// The atomics of `tickets` and `elements`; loom's in their model.
mod words {
    pub(super) use core::sync::atomic::{AtomicU64, Ordering, fence};

    /// Sets a word. What this thread reads afterwards is at least as new as what a thread has
    /// written that does not see the word.
    #[inline]
    pub(super) fn announce(word: &AtomicU64, value: u64) {
        // Faster than a store and a fence, and the same to a thread that has a fence of its own.
        word.swap(value, Ordering::SeqCst);
    }
}

pub(crate) use object::Wins;
