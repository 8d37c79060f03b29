//! Model check of the bias: all interleavings of its owner and other threads, by loom. The value is
//! a `loom::cell::UnsafeCell`, so that two that have it at once are reported as a race.
//!
//! A light barrier of one thread and a heavy one of the other order as two full fences do, which is
//! all that the bias relies on; so here both are one. Each weakening ([`Weak`]) must be found.

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::Mutex;

/// The promise of memory that a mutant leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weak {
    Nothing,
    /// The owner has no barrier.
    Light,
    /// The end of the bias has no barrier.
    Heavy,
    /// Words are stored relaxed.
    Release,
    /// Words are read relaxed.
    Acquire,
    /// A thread that finds the bias ended does not look at the owner.
    Left,
}

mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, Ordering, fence};

    use super::Weak;

    pub(super) struct Barriers(pub(super) Weak);

    impl Barriers {
        pub(super) fn light(&self) {
            if self.0 != Weak::Light {
                fence(Ordering::SeqCst);
            }
        }

        pub(super) fn heavy(&self) {
            if self.0 != Weak::Heavy {
                fence(Ordering::SeqCst);
            }
        }

        pub(super) fn acquire(&self) -> Ordering {
            if self.0 == Weak::Acquire { Ordering::Relaxed } else { Ordering::Acquire }
        }

        pub(super) fn release(&self) -> Ordering {
            if self.0 == Weak::Release { Ordering::Relaxed } else { Ordering::Release }
        }
    }
}

#[allow(clippy::duplicate_mod)]
#[path = "bias.rs"]
mod bias;

use bias::Bias;

struct Shared {
    weak: Weak,
    bias: Bias,
    mutex: Mutex<()>,
    value: UnsafeCell<u32>,
}

// SAFETY: loom reports whoever touches the value beside another.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    fn add(&self) {
        // SAFETY: within the lock; loom checks that.
        self.value.with_mut(|p| unsafe { *p += 1 });
    }

    /// A call of the owner.
    fn owner(&self) {
        if self.bias.enter() {
            self.add();
            return self.bias.leave();
        }
        let held = self.mutex.lock().expect("the mutex");
        self.add();
        drop(held);
    }

    /// A call of another thread, which gives up `patience` times that it finds the owner inside.
    fn other(&self, mut patience: u32) {
        loop {
            let held = self.mutex.lock().expect("the mutex");
            let looks = self.weak != Weak::Left || !self.bias.has_ended();
            self.bias.end();
            while looks && patience > 0 && !self.bias.is_left() {
                loom::thread::yield_now();
            }
            if looks && !self.bias.is_left() {
                patience += 1;
                drop(held);
                loom::thread::yield_now();
                continue;
            }
            self.add();
            return drop(held);
        }
    }
}

/// An owner with so many calls, and other threads with one each, of this patience.
fn calls(weak: Weak, owner: u32, others: &'static [u32]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    if weak != Weak::Nothing {
        netmod_models::mutant(module_path!(), format_args!("{weak:?}"));
    }
    let name = format!("{owner} calls of the owner, others with patience {others:?}");
    model.check(netmod_models::interleavings(module_path!(), name, move || {
        let shared = Arc::new(Shared {
            weak,
            bias: Bias::new(sync::Barriers(weak)),
            mutex: Mutex::new(()),
            value: UnsafeCell::new(0),
        });
        let threads: Vec<_> = others
            .iter()
            .map(|patience| {
                let theirs = Arc::clone(&shared);
                loom::thread::spawn(move || theirs.other(*patience))
            })
            .collect();
        (0..owner).for_each(|_| shared.owner());
        threads.into_iter().for_each(|thread| thread.join().expect("a thread"));
        // SAFETY: the others have ended.
        let value = shared.value.with(|p| unsafe { *p });
        assert_eq!(value, owner + others.len() as u32);
    }));
}

#[test]
fn the_owner_and_another_thread() {
    calls(Weak::Nothing, 1, &[1]);
    calls(Weak::Nothing, 2, &[1]);
}

#[test]
fn two_other_threads() {
    calls(Weak::Nothing, 1, &[1, 1]);
}

#[test]
fn one_that_gives_up_and_comes_again() {
    calls(Weak::Nothing, 2, &[0]);
}

macro_rules! found {
    ($($name:ident: $weak:ident, $owner:literal, $others:expr;)*) => { $(
        #[test]
        #[should_panic]
        fn $name() {
            calls(Weak::$weak, $owner, $others);
        }
    )* };
}

found! {
    the_model_finds_an_owner_without_a_barrier: Light, 1, &[1];
    the_model_finds_an_end_without_a_barrier: Heavy, 1, &[1];
    the_model_finds_relaxed_stores: Release, 1, &[1];
    the_model_finds_relaxed_looks: Acquire, 1, &[1];
    the_model_finds_one_that_does_not_look_again: Left, 1, &[0];
}
