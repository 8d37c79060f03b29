//! Model check of flags and notes: all interleavings of a process that waits and one that sets the
//! flag, by loom. The data is a `loom::cell::UnsafeCell`, so that reading it too early is a race;
//! the sleep is one that only the message ends, so that a lost one is a wait for ever.
//!
//! A light barrier of one process and a heavy one of the other order as two full fences do, so here
//! both are one. Each weakening ([`Weak`]) must be found.

#![allow(unsafe_code)]

use loom::cell::UnsafeCell;
use loom::sync::Arc;

/// The promise of memory that a mutant leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weak {
    Nothing,
    /// The process that sets flags has no barrier.
    Light,
    /// The sleeper has no barrier.
    Heavy,
    /// The sleeper does not look again.
    Look,
    /// The sleeper that finds the flag set does not wait for a message that is under way.
    Message,
}

mod sync {
    pub(super) use loom::sync::atomic::{AtomicU64, Ordering, fence};

    use super::Weak;

    pub(super) struct Barriers(pub(super) Weak);

    impl Barriers {
        pub(super) fn light(&self) {
            if self.0 != Weak::Light {
                fence(Ordering::SeqCst);
            }
        }

        pub(super) fn heavy(&self) -> bool {
            if self.0 != Weak::Heavy {
                fence(Ordering::SeqCst);
            }
            true
        }
    }
}

#[allow(dead_code)]
#[allow(clippy::duplicate_mod)]
#[path = "flags.rs"]
mod flags;

use sync::{AtomicU64, Barriers};

/// A message, whose receiver does nothing until it has come.
struct Message(AtomicU64);

impl Message {
    fn send(&self) {
        self.0.store(1, sync::Ordering::Release);
    }

    fn receive(&self) {
        while self.0.load(sync::Ordering::Acquire) == 0 {
            loom::thread::yield_now();
        }
    }
}

struct Shared {
    flag: AtomicU64,
    sleepers: AtomicU64,
    note: AtomicU64,
    message: Message,
    data: UnsafeCell<u64>,
    barriers: Barriers,
}

/// Waits for the flag. Returns true if a message was used up.
fn wait(shared: &Shared, weak: Weak) -> bool {
    let mut woken = false;
    if flags::get(&shared.flag) < 1 {
        assert!(flags::go_to_sleep(&shared.sleepers, &shared.note, 1, &shared.barriers));
        if weak == Weak::Look || flags::get(&shared.flag) < 1 {
            shared.message.receive();
            woken = flags::wake_up(&shared.sleepers, &shared.note);
            assert!(woken, "who sends the message has taken the note");
        } else if flags::wake_up(&shared.sleepers, &shared.note) && weak != Weak::Message {
            shared.message.receive();
            woken = true;
        }
    }
    assert_eq!(flags::get(&shared.flag), 1);
    // SAFETY: loom checks that nobody writes meanwhile.
    shared.data.with(|p| assert_eq!(unsafe { *p }, 7));
    woken
}

fn set(shared: &Shared) -> bool {
    // SAFETY: loom checks that nobody reads meanwhile.
    shared.data.with_mut(|p| unsafe { *p = 7 });
    flags::set(&shared.flag, 1);
    let sent = flags::anybody_sleeps(&shared.sleepers, &shared.barriers)
        && flags::take(&shared.note, |note| note == 1);
    if sent {
        shared.message.send();
    }
    sent
}

fn run(weak: Weak) {
    if weak != Weak::Nothing {
        netmod_models::mutant(module_path!(), format!("{weak:?}"));
    }
    loom::model(netmod_models::interleavings(module_path!(), "sleeper and waker", move || {
        let shared = Arc::new(Shared {
            flag: AtomicU64::new(0),
            sleepers: AtomicU64::new(0),
            note: AtomicU64::new(0),
            message: Message(AtomicU64::new(0)),
            data: UnsafeCell::new(0),
            barriers: Barriers(weak),
        });
        let there = Arc::clone(&shared);
        let setter = loom::thread::spawn(move || set(&there));
        let woken = wait(&shared, weak);
        let sent = setter.join().expect("who sets the flag does not panic");
        // A message that nobody has waited for would wake the next sleep.
        assert_eq!(sent, woken, "a message was left");
    }));
}

#[test]
fn a_sleeper_is_woken_once() {
    run(Weak::Nothing);
}

macro_rules! found {
    ($($name:ident: $weak:ident),*) => {$(
        #[test]
        #[should_panic]
        fn $name() {
            run(Weak::$weak);
        }
    )*};
}

found! {
    without_the_light_barrier_a_wake_is_lost: Light,
    without_the_heavy_barrier_a_wake_is_lost: Heavy,
    without_the_second_look_a_wake_is_lost: Look,
    a_message_under_way_must_be_waited_for: Message
}
