//! Model check of the gate: all interleavings of an owner and a helper, by loom. The engine is a
//! `loom::cell::UnsafeCell`, so that a helper that is inside with its owner is reported as a race;
//! what is staged and never sent is a deadlock.
//!
//! A light barrier of one thread and a heavy one of the other order as two full fences do, which is
//! all that the gate relies on; so here both are one. Each weakening ([`Weak`]) must be found.

use std::sync::Arc;

use loom::cell::UnsafeCell;

use super::helper::Look;

/// The promise of memory that a mutant leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weak {
    Nothing,
    /// The owner has no barrier.
    Light,
    /// The helper has none.
    Heavy,
    /// Words are stored relaxed.
    Release,
    /// Words are read relaxed.
    Acquire,
}

mod sync {
    pub(super) use loom::sync::atomic::{AtomicU32, Ordering, fence};

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

        pub(super) fn pause(&self, _: &mut u32) -> bool {
            loom::thread::yield_now();
            true
        }
    }
}

#[allow(dead_code)]
#[allow(clippy::duplicate_mod)]
#[path = "gate.rs"]
mod gate;

use gate::Gate;

/// An engine: messages that are staged, and that were sent.
#[derive(Default)]
struct Engine {
    staged: u32,
    sent: u32,
}

impl Engine {
    fn push(&mut self) {
        self.sent += std::mem::take(&mut self.staged);
    }
}

struct Shared {
    gate: Gate,
    engine: UnsafeCell<Engine>,
}

// SAFETY: loom reports whoever touches the engine beside another.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl Shared {
    fn with<R>(&self, f: impl FnOnce(&mut Engine) -> R) -> R {
        // SAFETY: within the gate; loom checks that.
        self.engine.with_mut(|p| f(unsafe { &mut *p }))
    }

    /// A call of the owner: it `s`tages a message, or `f`lushes, or only `l`ooks. Returns true if
    /// the helper must be told.
    fn call(&self, what: u8) -> bool {
        if !self.gate.is_inside() {
            self.gate.enter();
        }
        let staged = self.with(|e| {
            match what {
                b's' => e.staged += 1,
                b'f' => e.push(),
                _ => {}
            }
            e.staged > 0
        });
        (staged || self.gate.says_staged()) && self.gate.end_call(staged) && self.gate.wake()
    }

    /// The helper, until so many messages were sent. `kept` of its first looks keep back what they
    /// find.
    fn help(&self, total: u32, mut kept: u32) {
        let (mut done, mut sent) = (None, 0);
        while sent < total {
            let look = self.gate.look(&mut done, || {
                self.with(|e| {
                    if kept > 0 {
                        kept -= 1;
                        return true;
                    }
                    e.push();
                    sent = e.sent;
                    false
                })
            });
            if matches!(look, Look::Nothing | Look::Pushed) && self.gate.try_sleep(&done) {
                while sent < total && !self.gate.is_woken() {
                    loom::thread::park();
                }
            } else {
                loom::thread::yield_now();
            }
        }
    }
}

/// The owner makes the calls; then it computes, and all that it has staged is sent all the same.
fn calls(weak: Weak, what: &'static str, kept: u32) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    if weak != Weak::Nothing {
        netmod_models::mutant(module_path!(), format_args!("{weak:?}"));
    }
    let name = format!("calls {what:?}, {kept} kept back");
    model.check(netmod_models::interleavings(module_path!(), name, move || {
        let shared = Arc::new(Shared {
            gate: Gate::new(sync::Barriers(weak)),
            engine: UnsafeCell::new(Engine::default()),
        });
        let theirs = Arc::clone(&shared);
        let total = what.bytes().filter(|b| *b == b's').count() as u32;
        let helper = loom::thread::spawn(move || theirs.help(total, kept));
        for what in what.bytes() {
            if shared.call(what) {
                helper.thread().unpark();
            }
        }
        helper.join().expect("the helper");
        shared.with(|e| assert_eq!((e.staged, e.sent), (0, total)));
    }));
}

#[test]
fn what_is_staged_leaves_without_a_further_call() {
    calls(Weak::Nothing, "s", 0);
    calls(Weak::Nothing, "ss", 0);
    calls(Weak::Nothing, "sls", 0);
}

#[test]
fn calls_that_flush_leave_nothing_behind() {
    calls(Weak::Nothing, "sfs", 0);
    calls(Weak::Nothing, "fsls", 0);
}

#[test]
fn what_is_kept_back_is_tried_again() {
    calls(Weak::Nothing, "s", 1);
    calls(Weak::Nothing, "ss", 1);
}

macro_rules! found {
    ($($name:ident: $weak:ident, $calls:literal;)*) => { $(
        #[test]
        #[should_panic]
        fn $name() {
            calls(Weak::$weak, $calls, 0);
        }
    )* };
}

found! {
    the_model_finds_an_owner_without_a_barrier: Light, "ss";
    the_model_finds_a_helper_without_a_barrier: Heavy, "ss";
    the_model_finds_relaxed_stores: Release, "ss";
    the_model_finds_relaxed_looks: Acquire, "ss";
}
