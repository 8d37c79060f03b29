//! The thread that makes progress while the program computes, as the library keeps it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ch3_shim::{Config, OwnThread};
use parking_lot::Mutex;

use crate::handle::Stream;

/// The thread, and the streams for which it is wanted.
#[derive(Debug, Default)]
pub(crate) struct Runner {
    /// The streams; null stands for the whole library. The thread serves all in any case.
    pub streams: BTreeSet<Stream>,
    pub thread: Option<OwnThread>,
}

/// The thread, if it is wanted.
#[derive(Debug)]
pub(crate) struct Background {
    /// True if `NETMOD_PROGRESS` asks for it.
    is_wanted: bool,
    /// True if calls are counted, for the thread.
    counts: AtomicBool,
    /// Parts of calls of the program, modulo 2^64, while they are counted. The holder of the lock
    /// changes it.
    calls: AtomicU64,
    runner: Arc<Mutex<Runner>>,
}

impl Background {
    pub(crate) fn new(config: &Config) -> Background {
        Background {
            is_wanted: config.progress == "thread",
            counts: AtomicBool::new(false),
            calls: AtomicU64::new(0),
            runner: Arc::default(),
        }
    }

    /// Returns true if there is to be a thread for the whole run.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Notes a part of a call, within the lock.
    #[inline]
    pub(crate) fn note_call(&self) {
        if !self.counts.load(Ordering::Relaxed) {
            return;
        }
        self.calls.store(self.calls().wrapping_add(1), Ordering::Relaxed);
    }

    /// Begins to count calls, or ends it.
    pub(crate) fn count(&self, counts: bool) {
        self.counts.store(counts, Ordering::Relaxed);
    }

    /// Returns the number of parts of calls so far, modulo 2^64, for the thread.
    #[inline]
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Returns the thread and its streams.
    pub(crate) fn runner(&self) -> Arc<Mutex<Runner>> {
        Arc::clone(&self.runner)
    }
}
