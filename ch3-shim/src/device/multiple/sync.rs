//! What the hand-over of progress needs of threads. The model check puts its own in this module's place.

pub(super) use parking_lot::{Mutex, MutexGuard};
pub(super) use std::sync::Arc;
pub(super) use std::sync::atomic::{AtomicBool, Ordering};
pub(super) use std::thread::{Thread, current, park};

/// Looks at a lock or a word before a thread goes to sleep over it: some microseconds.
pub(super) const SPIN: u32 = 100;

pub(super) use std::hint::spin_loop;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

pub(super) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    mutex.try_lock()
}

/// Lets those in who wait for the lock; costs a load if there are none.
pub(super) fn let_others<'a, T>(_mutex: &'a Mutex<T>, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    MutexGuard::bump(&mut guard);
    guard
}
