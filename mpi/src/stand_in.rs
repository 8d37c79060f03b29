//! Handles that name another object in each thread: those of communicators of threads.
//!
//! A handle with the bit [`BIT`] in its index is in no table. In a thread that has started it, it
//! stands for that thread's own communicator. So functions on communicators know nothing of it.

use std::cell::RefCell;

/// The bit of an index that no table reaches.
pub(crate) const BIT: u32 = 1 << 19;

thread_local! {
    /// The handles that this thread has started, and those of its own communicators.
    static STARTED: RefCell<Vec<(u32, u32)>> = const { RefCell::new(Vec::new()) };
}

/// Returns the handle of this thread for another one; `None` if it has not started that.
#[cold]
pub(crate) fn own(handle: u32) -> Option<u32> {
    let found = |started: &RefCell<Vec<(u32, u32)>>| {
        started.borrow().iter().find(|(public, _)| *public == handle).map(|(_, own)| *own)
    };
    if handle & BIT == 0 { None } else { STARTED.try_with(found).ok().flatten() }
}

/// Notes the handle of this thread for another one.
pub(crate) fn start(handle: u32, own: u32) {
    STARTED.with_borrow_mut(|started| started.push((handle, own)));
}

/// Forgets the handle of this thread for another one.
pub(crate) fn finish(handle: u32) {
    STARTED.with_borrow_mut(|started| started.retain(|(public, _)| *public != handle));
}
