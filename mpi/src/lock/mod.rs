//! The lock around the state of a process: of the thread that makes it, until another one comes.
//!
//! Most programs call from one thread, whatever level they have asked for. Its calls cost two
//! stores and a load here. The first call of another thread ends that (`bias`), and a mutex serves
//! all from then on.

#![allow(unsafe_code)]

mod bias;
#[cfg(test)]
mod model;

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use bias::Bias;
use ch3_shim::Barriers;
use parking_lot::{Mutex, MutexGuard};

/// The words and barriers of [`bias`]. The model check puts its own in this module's place.
mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, Ordering};

    pub(super) use ch3_shim::Barriers;
}

/// Looks at the owner before the thread lets others run, and before it sleeps in between.
const SPIN: u32 = 64;
const YIELDS: u32 = 1024;
const NAP: Duration = Duration::from_micros(100);

/// A value that one thread at a time has.
pub(crate) struct Lock<T> {
    bias: Bias,
    /// The owner of the bias.
    owner: usize,
    mutex: Mutex<()>,
    value: UnsafeCell<T>,
}

// SAFETY: a guard is the only way to the value, and one exists at a time: that of the owner while
// it is inside its bias, or of a thread that has the mutex and has seen the owner outside after the
// end of the bias, so that it does not come in again without the mutex. What one did happens before
// what the next one does: by the mutex, or by the words of the bias, which are stored with release
// and read with acquire.
unsafe impl<T: Send> Sync for Lock<T> {}

/// Returns a number that no other running thread has: the address of its control block. In a shared
/// library a thread-local variable costs a call.
#[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
#[inline(always)]
fn here() -> usize {
    let here;
    // SAFETY: the first word of the control block, at which `fs` points, is its address ("ELF
    // Handling For Thread-Local Storage", 3.4.2). It is there, and the same, as long as the thread.
    unsafe {
        std::arch::asm!("mov {}, fs:0", out(reg) here, options(pure, readonly, nostack, preserves_flags));
    }
    here
}

/// Returns a number that no other running thread has.
#[cfg(not(all(target_arch = "x86_64", target_os = "linux", not(miri))))]
#[inline]
fn here() -> usize {
    thread_local! {
        // Without a destructor, so that it is there to the very end of the thread.
        static HERE: u8 = const { 0 };
    }
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

impl<T> Lock<T> {
    /// Creates the lock with the bias of the calling thread.
    pub(crate) fn new(value: T) -> Lock<T> {
        Lock {
            bias: Bias::new(Barriers::here()),
            owner: here(),
            mutex: Mutex::new(()),
            value: UnsafeCell::new(value),
        }
    }

    /// Returns the value if that is possible at once. It is not for the first call of another
    /// thread than the owner.
    ///
    /// # Panics
    /// If this thread has it.
    #[inline(always)]
    pub(crate) fn try_lock(&self) -> Option<Guard<'_, T>> {
        let is_owner = here() == self.owner;
        if is_owner && self.bias.enter() {
            return Some(Guard::new(self, None));
        }
        self.try_mutex(is_owner)
    }

    #[inline(never)]
    fn try_mutex(&self, is_owner: bool) -> Option<Guard<'_, T>> {
        if !self.bias.has_ended() {
            return None;
        }
        let held = self.mutex.try_lock()?;
        (is_owner || self.bias.is_left()).then(|| Guard::new(self, Some(held)))
    }

    /// Ends the bias: the mutex serves the owner, too, which calls this while it has no guard.
    pub(crate) fn end_bias(&self) {
        let _held = self.mutex.lock();
        self.bias.end();
    }

    /// Returns true if no other thread than the owner has asked for the value so far.
    #[inline]
    pub(crate) fn is_biased(&self) -> bool {
        !self.bias.has_ended()
    }

    /// Waits for the value.
    ///
    /// # Panics
    /// If this thread has it by its bias.
    pub(crate) fn lock(&self) -> Guard<'_, T> {
        let is_owner = here() == self.owner;
        if is_owner && self.bias.enter() {
            return Guard::new(self, None);
        }
        let held = self.mutex.lock();
        if !is_owner {
            self.wait_for_owner(|| true);
        }
        Guard::new(self, Some(held))
    }

    /// Waits for the value for at most so long; not at all if this thread has it by its bias, such
    /// as for an abort in a signal handler.
    pub(crate) fn try_lock_for(&self, most: Duration) -> Option<Guard<'_, T>> {
        let end = Instant::now() + most;
        let is_owner = here() == self.owner;
        if is_owner && !self.bias.is_left() {
            return None;
        }
        if is_owner && self.bias.enter() {
            return Some(Guard::new(self, None));
        }
        let held = self.mutex.try_lock_for(most)?;
        let is_free = is_owner || self.wait_for_owner(|| Instant::now() < end);
        is_free.then(|| Guard::new(self, Some(held)))
    }

    /// Ends the bias, and waits until its owner is outside, as long as `more` says so. Returns true
    /// if it is. The caller has the mutex.
    fn wait_for_owner(&self, more: impl Fn() -> bool) -> bool {
        self.bias.end();
        let mut tries = 0u32;
        while !self.bias.is_left() {
            if !more() {
                return false;
            }
            tries = tries.saturating_add(1);
            match tries {
                ..SPIN => std::hint::spin_loop(),
                SPIN..YIELDS => std::thread::yield_now(),
                _ => std::thread::sleep(NAP),
            }
        }
        true
    }
}

impl<T> fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("biased", &self.is_biased()).finish_non_exhaustive()
    }
}

/// The value of a [`Lock`], which other threads wait for. Two words, so that it is returned in
/// registers.
pub(crate) struct Guard<'a, T> {
    lock: &'a Lock<T>,
    /// `None`: by the bias, which is that of a thread.
    held: Option<MutexGuard<'a, ()>>,
    _here: PhantomData<*const ()>,
}

impl<'a, T> Guard<'a, T> {
    #[inline]
    fn new(lock: &'a Lock<T>, held: Option<MutexGuard<'a, ()>>) -> Guard<'a, T> {
        Guard { lock, held, _here: PhantomData }
    }

    /// Gives the value to the thread that has waited longest, if one waits.
    pub(crate) fn unlock_fair(self) {
        // Instead of `drop`.
        let mut guard = ManuallyDrop::new(self);
        match guard.held.take() {
            Some(held) => MutexGuard::unlock_fair(held),
            None => guard.lock.bias.leave(),
        }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.held.is_none() {
            self.lock.bias.leave();
        }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this is the only guard (see `Sync`).
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.lock.value.get() }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn the_bias_ends_with_the_first_call_of_another_thread() {
        let lock = Arc::new(Lock::new(1));
        *lock.try_lock().expect("a free lock") += 1;
        assert!(!lock.bias.has_ended());
        let theirs = Arc::clone(&lock);
        let other = thread::spawn(move || {
            assert!(theirs.try_lock().is_none(), "the owner may be inside");
            *theirs.lock() += 1;
        });
        other.join().expect("the other thread");
        assert!(lock.bias.has_ended());
        assert_eq!(*lock.try_lock().expect("a free lock"), 3);
        let guard = lock.lock();
        assert!(lock.try_lock().is_none());
        guard.unlock_fair();
        assert!(lock.try_lock_for(NAP).is_some());
    }

    #[test]
    fn another_thread_tries_once_the_owner_has_ended_its_bias() {
        let lock = Arc::new(Lock::new(1));
        lock.end_bias();
        let guard = lock.try_lock().expect("a free lock");
        let try_as_another = || {
            let theirs = Arc::clone(&lock);
            thread::spawn(move || theirs.try_lock().is_some()).join().expect("the other thread")
        };
        assert!(!try_as_another());
        drop(guard);
        assert!(try_as_another());
    }

    #[test]
    fn who_waits_for_an_owner_inside_gives_up_in_time() {
        let lock = Arc::new(Lock::new(()));
        let inside = lock.lock();
        for _ in 0..2 {
            let theirs = Arc::clone(&lock);
            let other = thread::spawn(move || theirs.try_lock_for(2 * NAP).is_none());
            assert!(other.join().expect("the other thread"));
        }
        drop(inside);
        assert!(lock.try_lock().is_some());
    }

    #[test]
    #[should_panic(expected = "by this very thread")]
    fn a_second_guard_of_the_owner_is_refused() {
        let lock = Lock::new(());
        let _first = lock.lock();
        let _second = lock.try_lock();
    }

    #[test]
    fn the_owner_inside_does_not_wait_for_itself() {
        let lock = Lock::new(());
        let inside = lock.lock();
        assert!(lock.try_lock_for(Duration::from_secs(3600)).is_none());
        drop(inside);
        assert!(lock.try_lock_for(NAP).is_some());
    }

    /// Many threads, and an owner that begins before them.
    #[test]
    fn nothing_is_lost_between_threads() {
        const EACH: usize = 10_000;
        let lock = Arc::new(Lock::new(0usize));
        let others: Vec<_> = (0..3)
            .map(|_| {
                let lock = Arc::clone(&lock);
                thread::spawn(move || (0..EACH).for_each(|_| *lock.lock() += 1))
            })
            .collect();
        (0..EACH).for_each(|_| *lock.lock() += 1);
        others.into_iter().for_each(|other| other.join().expect("a thread"));
        assert_eq!(*lock.lock(), 4 * EACH);
    }
}
