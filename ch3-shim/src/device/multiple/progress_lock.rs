//! The progress lock: the hand-over of progress among the threads that wait on one engine.
//!
//! At most one of the waiting threads, the leader, polls the engine; the others sleep, each on a
//! slot of its own. The lock is held while the engine is used and let go between polls, and while
//! the leader is blocked in the system, so that other threads can start operations meanwhile.
//!
//! What keeps wake-ups from being lost, all of it under the lock:
//! - after each use of the engine, those whose goal is met are called;
//! - a leader that goes calls another one, and so does everybody who was called and has no further
//!   need: while threads sleep, there is a leader or one that was called;
//! - who uses the engine while the leader is blocked arms it again, and wakes the leader if
//!   something is there, if its goal is met, or if it must not sleep so long any more.

use super::Nap;
use super::sync::{self, Arc, AtomicBool, Mutex, MutexGuard, Ordering, Thread};

/// The work that the lock guards: an engine.
pub(super) trait Work {
    /// The goal of a waiting thread.
    type Goal: Clone;
    /// The error of work that makes no progress.
    type Error;

    /// Returns true if a goal is met.
    fn met(&self, goal: &Self::Goal) -> bool;

    /// One step of progress; whether anything happened.
    fn poll(&mut self) -> Result<bool, Self::Error>;

    /// Returns true if the leader is to yield its core before it polls again, after `n` yields in a
    /// row; false if it is to sleep.
    fn may_yield(&mut self, n: u32) -> bool;

    /// Something came after `n` yields in a row.
    fn yields_brought(&mut self, n: u32);

    /// Prepares for sleeping; `None` if there is something to be done at once.
    fn arm(&mut self) -> Option<Nap>;

    /// Returns true if something stays staged.
    fn is_staged(&self) -> bool;
}

/// The place in which a leader blocks.
pub(super) trait Sleeper {
    /// The error of a leader that cannot block.
    type Error;

    /// Blocks until an event has come for what was armed, [`Sleeper::wake`] was called, or the nap
    /// is over.
    fn sleep(&self, nap: &Nap) -> Result<(), Self::Error>;

    /// Ends the sleep, also one that is about to begin.
    fn wake(&self);

    /// Takes the effect of [`Sleeper::wake`] back.
    fn calm(&self);

    /// A use of the work ends that leaves something staged: somebody must see to it.
    fn offer(&self);
}

/// A slot on which a thread sleeps until it is called.
struct Slot {
    called: AtomicBool,
    thread: Thread,
}

impl Slot {
    fn of_this_thread() -> Arc<Slot> {
        Arc::new(Slot { called: AtomicBool::new(false), thread: sync::current() })
    }

    fn call(&self) {
        self.called.store(true, Ordering::Release);
        self.thread.unpark();
    }

    fn wait(&self) {
        for _ in 0..sync::SPIN {
            if self.called.load(Ordering::Acquire) {
                return;
            }
            sync::spin_loop();
        }
        while !self.called.load(Ordering::Acquire) {
            sync::park();
        }
    }
}

struct State<W: Work> {
    work: W,
    /// True if there is a leader.
    led: bool,
    /// The leader's goal and nap while it is blocked and was not woken.
    asleep: Option<(W::Goal, Nap)>,
    /// True if the leader was woken.
    woken: bool,
    waiting: Vec<(W::Goal, Arc<Slot>)>,
}

impl<W: Work> State<W> {
    /// Calls those whose goal is met.
    fn settle(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let work = &self.work;
        self.waiting.retain(|(goal, slot)| {
            let met = work.met(goal);
            if met {
                slot.call();
            }
            !met
        });
    }

    /// Calls one that will lead, unless somebody does.
    fn pass_on(&mut self) {
        if !self.led
            && let Some((_, slot)) = self.waiting.pop()
        {
            slot.call();
        }
    }
}

/// An engine with the threads that wait on it.
pub(super) struct ProgressLock<W: Work, S> {
    state: Mutex<State<W>>,
    sleeper: S,
}

impl<W: Work, S: Sleeper> ProgressLock<W, S> {
    pub(super) fn new(work: W, sleeper: S) -> ProgressLock<W, S> {
        let state = State { work, led: false, asleep: None, woken: false, waiting: Vec::new() };
        ProgressLock { state: Mutex::new(state), sleeper }
    }

    /// Returns the place in which its leader blocks.
    pub(super) fn sleeper(&self) -> &S {
        &self.sleeper
    }

    /// Uses the engine.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut W) -> R) -> R {
        let mut g = sync::lock(&self.state);
        let result = f(&mut g.work);
        self.used(&mut g);
        result
    }

    /// Works like [`ProgressLock::with`], unless another thread uses it now.
    pub(super) fn try_with<R>(&self, f: impl FnOnce(&mut W) -> R) -> Option<R> {
        let mut g = sync::try_lock(&self.state)?;
        let result = f(&mut g.work);
        self.used(&mut g);
        Some(result)
    }

    /// Waits for a goal, then uses the engine. `seen` may tell without the lock that the goal is
    /// met; `spin` is how many polls in vain a leader makes before it yields its core, or blocks.
    pub(super) fn wait<R>(
        &self,
        goal: &W::Goal,
        seen: impl Fn() -> bool,
        spin: u32,
        then: impl FnOnce(&mut W) -> R,
    ) -> Result<R, W::Error>
    where
        W::Error: From<S::Error>,
    {
        let mut g = self.enter(seen);
        while !g.work.met(goal) {
            if !g.led {
                g.led = true;
                let (back, led) = self.lead(g, goal, spin);
                g = back;
                g.led = false;
                if let Err(e) = led {
                    g.pass_on();
                    return Err(e);
                }
                break;
            }
            let slot = Slot::of_this_thread();
            g.waiting.push((goal.clone(), Arc::clone(&slot)));
            drop(g);
            slot.wait();
            g = sync::lock(&self.state);
        }
        let result = then(&mut g.work);
        self.used(&mut g);
        g.pass_on();
        Ok(result)
    }

    /// Gets the lock. Who only wants to see a word change need not queue for it.
    fn enter(&self, seen: impl Fn() -> bool) -> MutexGuard<'_, State<W>> {
        for _ in 0..sync::SPIN {
            if seen() {
                break;
            }
            if let Some(g) = sync::try_lock(&self.state) {
                return g;
            }
            sync::spin_loop();
        }
        sync::lock(&self.state)
    }

    /// Makes progress until the goal is met.
    fn lead<'a>(
        &'a self,
        mut g: MutexGuard<'a, State<W>>,
        goal: &W::Goal,
        spin: u32,
    ) -> (MutexGuard<'a, State<W>>, Result<(), W::Error>)
    where
        W::Error: From<S::Error>,
    {
        let mut idle = 0;
        loop {
            match g.work.poll() {
                Ok(true) => {
                    if idle >= spin {
                        g.work.yields_brought(idle - spin);
                    }
                    idle = 0;
                }
                Ok(false) => idle = idle.saturating_add(1),
                Err(e) => return (g, Err(e)),
            }
            // A poll in which nothing arrived may have finished sends all the same; so may `arm`.
            g.settle();
            if g.work.met(goal) {
                return (g, Ok(()));
            }
            if idle < spin {
                g = sync::let_others(&self.state, g);
                continue;
            }
            if g.work.may_yield(idle - spin) {
                g = sync::yield_core(&self.state, g);
                continue;
            }
            let Some(nap) = g.work.arm() else { continue };
            g.settle();
            if g.work.met(goal) {
                return (g, Ok(()));
            }
            g.asleep = Some((goal.clone(), nap.clone()));
            drop(g);
            let slept = self.sleeper.sleep(&nap);
            g = sync::lock(&self.state);
            g.asleep = None;
            if std::mem::take(&mut g.woken) {
                self.sleeper.calm();
            }
            if let Err(e) = slept {
                return (g, Err(e.into()));
            }
            if g.work.met(goal) {
                return (g, Ok(()));
            }
        }
    }

    /// After each use of the engine by a thread that is not the leader.
    fn used(&self, g: &mut State<W>) {
        if let Some((goal, nap)) = &g.asleep {
            let sooner = g.work.arm().is_none_or(|n| n.until < nap.until);
            if sooner || g.work.met(goal) {
                g.asleep = None;
                g.woken = true;
                self.sleeper.wake();
            }
        }
        g.settle();
        if g.work.is_staged() {
            self.sleeper.offer();
        }
    }
}
