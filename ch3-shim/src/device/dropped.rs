//! Requests whose handles were dropped: the device frees them when they are finished.

use std::sync::atomic::{AtomicBool, Ordering};

use forks::Origin;
use parking_lot::Mutex;

use super::{RawReq, Vci};

/// The requests whose handles were dropped, on any thread, since the device last looked.
#[derive(Debug)]
pub(super) struct Dropped {
    any: AtomicBool,
    list: Mutex<Vec<RawReq>>,
    /// A forked child adds nothing: another thread of its parent may have held the lock.
    origin: Origin,
}

impl Dropped {
    pub(super) fn new() -> Dropped {
        Dropped { any: AtomicBool::new(false), list: Mutex::default(), origin: Origin::here() }
    }

    /// Adds a request whose handle is gone.
    pub(super) fn leave(&self, req: RawReq) {
        if self.origin.is_here() {
            self.list.lock().push(req);
            self.any.store(true, Ordering::Release);
        }
    }

    #[inline]
    fn has_any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    fn take(&self) -> Vec<RawReq> {
        let mut list = self.list.lock();
        self.any.store(false, Ordering::Relaxed);
        std::mem::take(&mut list)
    }
}

impl Vci {
    /// Frees requests whose handles were dropped, and their memory, as far as they are finished.
    #[inline]
    pub(super) fn free_dropped(&mut self) {
        if self.dropped.has_any() || self.engine.core.has_released() {
            self.free_those_dropped();
        }
    }

    #[cold]
    #[inline(never)]
    fn free_those_dropped(&mut self) {
        for req in self.dropped.take() {
            self.free_raw(req);
        }
        while let Some(req) = self.engine.core.next_released() {
            self.ch3.reqs.clear_side(req);
        }
    }
}
