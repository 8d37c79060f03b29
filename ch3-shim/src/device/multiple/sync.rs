//! Threads and locks, as the progress lock needs them. The model check puts its own in this
//! module's place.

pub(super) use parking_lot::MutexGuard;
pub(super) use std::sync::Arc;
pub(super) use std::sync::atomic::{AtomicBool, Ordering, fence};
pub(super) use std::thread::{Thread, current, park};

use std::sync::atomic::AtomicU32;

/// Looks at a lock or a word before a thread goes to sleep over it: some microseconds.
pub(super) const SPIN: u32 = 100;

pub(super) use std::hint::spin_loop;

/// A lock that knows how many threads wait for it.
pub(super) struct Mutex<T> {
    lock: parking_lot::Mutex<T>,
    waiting: AtomicU32,
}

impl<T> Mutex<T> {
    pub(super) fn new(value: T) -> Mutex<T> {
        Mutex { lock: parking_lot::Mutex::new(value), waiting: AtomicU32::new(0) }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock.try_lock().unwrap_or_else(|| queue(mutex))
}

#[cold]
fn queue<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.waiting.fetch_add(1, Ordering::Relaxed);
    let guard = mutex.lock.lock();
    mutex.waiting.fetch_sub(1, Ordering::Relaxed);
    guard
}

pub(super) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    mutex.lock.try_lock()
}

/// Yields the core, with the lock let go.
pub(super) fn yield_core<'a, T>(_: &'a Mutex<T>, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    MutexGuard::unlocked(&mut guard, std::thread::yield_now);
    guard
}

/// Lets those in who wait for the lock; costs a load if there are none.
///
/// The lock is let go and not handed over: its new owner would have to be woken first, with nobody
/// at work until then, and so on at each poll. The lock itself sees to it that nobody waits for
/// much longer than that.
pub(super) fn let_others<'a, T>(mutex: &'a Mutex<T>, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    if mutex.waiting.load(Ordering::Relaxed) > 0 {
        MutexGuard::unlocked(&mut guard, std::thread::yield_now);
    }
    guard
}
