//! The thread that makes progress while the program computes, as the library keeps it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ch3_shim::{Config, OwnThread};
use parking_lot::Mutex;

/// The thread, if it is wanted.
#[derive(Debug)]
pub(crate) struct Background {
    is_wanted: bool,
    /// Parts of calls of the program, modulo 2^64, if the thread is wanted. The holder of the lock
    /// changes it.
    calls: AtomicU64,
    thread: Arc<Mutex<Option<OwnThread>>>,
}

impl Background {
    pub(crate) fn new(config: &Config) -> Background {
        Background {
            is_wanted: config.progress == "thread",
            calls: AtomicU64::new(0),
            thread: Arc::default(),
        }
    }

    /// Returns true if there is to be a thread.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Notes a part of a call, within the lock.
    #[inline]
    pub(crate) fn note_call(&self) {
        if !self.is_wanted {
            return;
        }
        self.calls.store(self.calls().wrapping_add(1), Ordering::Relaxed);
    }

    /// Returns the number of parts of calls so far, modulo 2^64, for the thread.
    #[inline]
    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Returns the place of the thread, which has none yet.
    pub(crate) fn place(&self) -> Arc<Mutex<Option<OwnThread>>> {
        Arc::clone(&self.thread)
    }

    /// Ends the thread, which does not wait within the lock meanwhile.
    pub(crate) fn end(&self) {
        let thread = self.thread.lock().take();
        drop(thread);
    }
}
