//! Model check of the alarm: all interleavings of threads that use an engine and of the helper, by
//! loom. What is staged and never sent is a deadlock. The file under test is compiled once more,
//! against loom's threads.

use std::sync::Arc;

use loom::sync::Mutex;

mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, Ordering, fence};
}

#[allow(dead_code)]
#[allow(clippy::duplicate_mod)]
#[path = "alarm.rs"]
mod alarm;

use alarm::Alarm;

/// The step that a mutant leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    Nothing,
    /// A thread that finds the helper asleep does not tell it.
    Silent,
    /// The helper goes to sleep without another look.
    Hasty,
    /// The helper takes the alarm back after it has looked.
    Late,
    /// The helper forgets an engine that was in use.
    Forgetful,
}

#[derive(Default)]
struct Engine {
    staged: u32,
    sent: u32,
}

struct Shared {
    mutant: Mutant,
    alarm: Alarm,
    engine: Mutex<Engine>,
}

impl Shared {
    /// A call that stages a message. Returns true if the helper must be told.
    fn stage(&self) -> bool {
        let mut engine = self.engine.lock().expect("no thread of the model panics");
        engine.staged += 1;
        self.alarm.raise() && self.mutant != Mutant::Silent
    }

    fn help(&self, total: u32) {
        let mut sent = 0;
        while sent < total {
            let raised = self.mutant == Mutant::Late || self.alarm.take();
            if raised {
                match self.engine.try_lock() {
                    Ok(mut engine) => {
                        engine.sent += std::mem::take(&mut engine.staged);
                        sent = engine.sent;
                    }
                    Err(_) if self.mutant == Mutant::Forgetful => {}
                    Err(_) => self.alarm.keep(),
                }
                if self.mutant == Mutant::Late {
                    self.alarm.take();
                }
            }
            let sleeps = self.alarm.try_sleep();
            if sleeps || self.mutant == Mutant::Hasty {
                while sent < total && !self.alarm.is_woken() {
                    loom::thread::park();
                }
            } else {
                loom::thread::yield_now();
            }
        }
    }
}

/// Two threads stage one message each, and one of them a second one.
fn check(mutant: Mutant) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    if mutant != Mutant::Nothing {
        netmod_models::mutant(module_path!(), format_args!("{mutant:?}"));
    }
    let name = "two threads, three messages";
    model.check(netmod_models::interleavings(module_path!(), name, move || {
        let shared = Arc::new(Shared { mutant, alarm: Alarm::new(), engine: Mutex::new(Engine::default()) });
        let theirs = Arc::clone(&shared);
        let helper = loom::thread::spawn(move || theirs.help(3));
        let told = helper.thread().clone();
        let theirs = Arc::clone(&shared);
        let other = loom::thread::spawn(move || {
            if theirs.stage() {
                told.unpark();
            }
        });
        for _ in 0..2 {
            if shared.stage() {
                helper.thread().unpark();
            }
        }
        other.join().expect("the other thread");
        helper.join().expect("the helper");
        assert_eq!(shared.engine.lock().expect("no thread of the model panics").sent, 3);
    }));
}

#[test]
fn what_any_thread_leaves_staged_is_sent() {
    check(Mutant::Nothing);
}

macro_rules! found {
    ($($name:ident: $mutant:ident;)*) => { $(
        #[test]
        #[should_panic]
        fn $name() {
            check(Mutant::$mutant);
        }
    )* };
}

found! {
    the_model_finds_a_thread_that_tells_nobody: Silent;
    the_model_finds_a_helper_that_sleeps_without_a_look: Hasty;
    the_model_finds_an_alarm_that_is_taken_back_too_late: Late;
    the_model_finds_an_engine_that_is_forgotten: Forgetful;
}
