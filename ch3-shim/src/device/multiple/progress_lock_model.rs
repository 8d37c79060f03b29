//! Model check of the hand-over: all interleavings of a few threads, by loom, which reports a lost
//! wake-up as a deadlock. The file under test is compiled once more, against loom's threads.

use loom::sync::{Arc, Condvar, Mutex};
use netmod_core::Time;

/// The parent module's type of this name.
#[derive(Clone, Debug)]
struct Nap {
    until: Time,
}

mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, Ordering};
    pub(super) use loom::sync::{Arc, Mutex, MutexGuard};
    pub(super) use loom::thread::{Thread, current, park};

    /// Every further turn is one more state, and no new one.
    pub(super) const SPIN: u32 = 1;

    pub(super) use loom::hint::spin_loop;

    pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().expect("no thread of the model panics")
    }

    pub(super) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        mutex.try_lock().ok()
    }

    pub(super) fn yield_core<'a, T>(mutex: &'a Mutex<T>, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        drop(guard);
        loom::thread::yield_now();
        lock(mutex)
    }

    pub(super) fn let_others<'a, T>(mutex: &'a Mutex<T>, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        drop(guard);
        lock(mutex)
    }
}

#[allow(dead_code)]
#[allow(clippy::duplicate_mod)]
#[path = "progress_lock.rs"]
mod progress_lock;

use progress_lock::{ProgressLock, Sleeper, Work};

/// The state that the network and the descriptor share.
#[derive(Default)]
struct Wire {
    /// Goals, as bits, whose message has arrived and was not read.
    arrived: u32,
    woken: bool,
}

/// A descriptor that is readable while something has arrived.
#[derive(Clone)]
struct Fd(Arc<(Mutex<Wire>, Condvar)>);

impl Fd {
    fn new() -> Fd {
        Fd(Arc::new((Mutex::new(Wire::default()), Condvar::new())))
    }

    fn change<R>(&self, f: impl FnOnce(&mut Wire) -> R) -> R {
        let mut wire = self.0.0.lock().expect("no thread of the model panics");
        let result = f(&mut wire);
        drop(wire);
        self.0.1.notify_all();
        result
    }

    fn deliver(&self, goals: u32) {
        self.change(|w| w.arrived |= goals);
    }
}

impl Sleeper for Fd {
    type Error = ();

    fn sleep(&self, nap: &Nap) -> Result<(), ()> {
        // Nothing wakes by time, so that nothing that was lost is found by time.
        assert_eq!(nap.until, Time::NEVER);
        let mut wire = self.0.0.lock().expect("no thread of the model panics");
        while wire.arrived == 0 && !wire.woken {
            wire = self.0.1.wait(wire).expect("no thread of the model panics");
        }
        Ok(())
    }

    fn wake(&self) {
        self.change(|w| w.woken = true);
    }

    fn calm(&self) {
        self.change(|w| w.woken = false);
    }

    fn offer(&self) {}
}

/// An engine: goals become met by what arrives, by an operation, or by a poll after one.
struct Engine {
    fd: Fd,
    met: u32,
    /// Begun by an operation, finished by the next poll: a connection that is wanted.
    wanted: u32,
    /// Begun by an operation, finished by the next `arm`: a send that is staged.
    staged: u32,
    /// Yields in a row before the leader sleeps.
    yields: u32,
    /// True if polls fail.
    broken: bool,
}

impl Engine {
    fn new(fd: &Fd) -> Engine {
        Engine { fd: fd.clone(), met: 0, wanted: 0, staged: 0, yields: 0, broken: false }
    }
}

impl Work for Engine {
    type Goal = u32;
    type Error = ();

    fn met(&self, goal: &u32) -> bool {
        self.met & goal == *goal
    }

    fn poll(&mut self) -> Result<bool, ()> {
        if self.broken {
            return Err(());
        }
        let arrived = self.fd.change(|w| std::mem::take(&mut w.arrived)) | std::mem::take(&mut self.wanted);
        self.met |= arrived;
        Ok(arrived != 0)
    }

    fn may_yield(&mut self, n: u32) -> bool {
        n < self.yields
    }

    fn yields_brought(&mut self, _: u32) {}

    fn arm(&mut self) -> Option<Nap> {
        self.met |= std::mem::take(&mut self.staged);
        (self.wanted == 0).then_some(Nap { until: Time::NEVER })
    }

    /// The model's threads come back for what they have staged.
    fn is_staged(&self) -> bool {
        false
    }
}

type Model = Arc<ProgressLock<Engine, Fd>>;

/// All interleavings with at most three forced switches; more make no difference to what is found,
/// but to the time.
fn check(name: &str, model: impl Fn(&Model, &Fd) + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(netmod_models::interleavings(module_path!(), name, move || {
        let fd = Fd::new();
        let lock = Arc::new(ProgressLock::new(Engine::new(&fd), fd.clone()));
        model(&lock, &fd);
    }));
}

/// A thread that waits for a goal.
fn waiter(lock: &Model, goal: u32) -> loom::thread::JoinHandle<()> {
    spinning_waiter(lock, goal, 0)
}

fn spinning_waiter(lock: &Model, goal: u32, spin: u32) -> loom::thread::JoinHandle<()> {
    let lock = lock.clone();
    loom::thread::spawn(move || lock.wait(&goal, || false, spin, |_| ()).expect("an engine that works"))
}

#[test]
fn the_duty_is_handed_over() {
    check("the duty is handed over", |lock, fd| {
        let waiters = [waiter(lock, 1), waiter(lock, 2)];
        fd.deliver(1);
        fd.deliver(2);
        waiters.into_iter().for_each(|w| w.join().expect("a waiter"));
    });
}

/// A leader that yields leaves the engine to others meanwhile, and misses nothing of what they do.
#[test]
fn the_leader_yields() {
    check("the leader yields", |lock, fd| {
        lock.with(|e| e.yields = 1);
        let waiters = [waiter(lock, 1), waiter(lock, 2)];
        lock.with(|e| e.wanted |= 1);
        fd.deliver(2);
        waiters.into_iter().for_each(|w| w.join().expect("a waiter"));
    });
}

/// One message for both: the one that was called with its goal met need not lead, but must pass on.
#[test]
fn three_waiters() {
    check("three waiters", |lock, fd| {
        let waiters = [waiter(lock, 1), waiter(lock, 1)];
        fd.deliver(1);
        fd.deliver(2);
        lock.wait(&2, || false, 0, |_| ()).expect("an engine that works");
        waiters.into_iter().for_each(|w| w.join().expect("a waiter"));
    });
}

#[test]
fn an_operation_meets_the_goal_of_others() {
    check("an operation meets the goal of others", |lock, fd| {
        let waiters = [waiter(lock, 1), waiter(lock, 2)];
        lock.with(|e| e.met |= 1);
        fd.deliver(2);
        waiters.into_iter().for_each(|w| w.join().expect("a waiter"));
    });
}

/// An operation whose first step only a poll does: the blocked leader must be woken for it.
#[test]
fn an_operation_needs_a_poll() {
    check("an operation needs a poll", |lock, _| {
        let waiter = waiter(lock, 1);
        lock.with(|e| e.wanted |= 1);
        waiter.join().expect("a waiter");
    });
}

#[test]
fn an_operation_needs_a_flush() {
    check("an operation needs a flush", |lock, fd| {
        let waiters = [waiter(lock, 1), waiter(lock, 2)];
        lock.with(|e| e.staged |= 1);
        fd.deliver(2);
        waiters.into_iter().for_each(|w| w.join().expect("a waiter"));
    });
}

/// A test that polls takes the event that the blocked leader waits for.
#[test]
fn a_test_takes_the_event() {
    check("a test takes the event", |lock, fd| {
        let waiter = waiter(lock, 1);
        fd.deliver(1);
        lock.try_with(|e| e.poll());
        waiter.join().expect("a waiter");
    });
}

/// A failing engine tells all who wait on it, one after another.
#[test]
fn a_failure_reaches_all() {
    check("a failure reaches all", |lock, fd| {
        let waiters = [1, 2].map(|goal| {
            let lock = lock.clone();
            loom::thread::spawn(move || lock.wait(&goal, || false, 0, |_| ()))
        });
        lock.with(|e| e.broken = true);
        fd.deliver(4);
        for w in waiters {
            assert_eq!(w.join().expect("a waiter"), Err(()));
        }
    });
}

/// The leader's goal is met only after that of a sleeping thread, which must be called at once.
fn depends(name: &str, event: impl Fn(&Model, &Fd) + Send + Sync + 'static) {
    check(name, move |lock, fd| {
        let follower = {
            let (lock, fd) = (lock.clone(), fd.clone());
            loom::thread::spawn(move || {
                lock.wait(&1, || false, 0, |_| ()).expect("an engine that works");
                fd.deliver(2);
            })
        };
        // It lets others in once before it blocks.
        let leader = spinning_waiter(lock, 2, 2);
        event(lock, fd);
        follower.join().expect("a waiter");
        leader.join().expect("a waiter");
    });
}

#[test]
fn the_leader_calls_others_after_a_poll() {
    depends("the leader calls others after a poll", |_, fd| fd.deliver(1));
}

#[test]
fn the_leader_calls_others_after_a_flush() {
    depends("the leader calls others after a flush", |lock, _| lock.with(|e| e.staged |= 1));
}

#[test]
fn an_operation_calls_others() {
    depends("an operation calls others", |lock, _| lock.with(|e| e.met |= 1));
}
