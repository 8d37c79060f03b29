//! The helper thread: woken when something stays staged, it looks once a millisecond until nothing
//! is.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::thread::OwnThread;

/// Shortest time between two looks.
const ROUND: Duration = Duration::from_millis(1);
/// Time from waking to the first look: with the waking itself less than [`ROUND`].
const FIRST: Duration = Duration::from_micros(800);

/// The result of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Nothing was staged.
    Nothing,
    /// The owner is inside.
    Busy,
    /// All that was staged has been sent.
    Pushed,
    /// Something is kept back.
    Kept,
}

/// The errand of a helper.
pub(crate) trait Errand: Send + 'static {
    /// One look.
    fn look(&mut self) -> Look;

    /// Says that the helper sleeps, unless something is staged. Returns true if it sleeps.
    fn may_sleep(&mut self) -> bool;

    /// Returns true if the helper was woken.
    fn is_woken(&self) -> bool;
}

/// Counts of a helper thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HelperStats {
    /// Times that it was woken.
    pub wakes: u64,
    /// Looks whether something is staged, at most one in a millisecond.
    pub rounds: u64,
    /// Looks after which it has sent what was staged.
    pub pushes: u64,
}

/// [`HelperStats`] as the thread counts them.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    wakes: AtomicU64,
    rounds: AtomicU64,
    pushes: AtomicU64,
}

impl Counts {
    pub(crate) fn stats(&self) -> HelperStats {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        HelperStats { wakes: read(&self.wakes), rounds: read(&self.rounds), pushes: read(&self.pushes) }
    }
}

/// The thread. Dropping this ends it, and waits for that.
#[derive(Debug)]
pub(crate) struct Helper(OwnThread);

impl Helper {
    /// Starts a helper, which is awake.
    ///
    /// # Errors
    /// If the system has no thread left.
    pub(crate) fn start(errand: impl Errand, counts: Arc<Counts>) -> io::Result<Helper> {
        OwnThread::start("netmod-progress", move |quit| run(errand, &counts, quit)).map(Helper)
    }

    /// Wakes the thread, whose errand says that it is woken.
    pub(crate) fn wake(&self) {
        self.0.wake();
    }
}

/// Runs the thread.
fn run(mut errand: impl Errand, counts: &Counts, quit: &AtomicBool) {
    let mut last = None;
    loop {
        counts.wakes.fetch_add(1, Ordering::Relaxed);
        let woken = Instant::now();
        let mut at = last.map_or(woken, |last: Instant| last + ROUND).max(woken + FIRST);
        loop {
            if !sleep_until(at, quit) {
                return;
            }
            let now = Instant::now();
            (last, at) = (Some(now), now + ROUND);
            counts.rounds.fetch_add(1, Ordering::Relaxed);
            let look = errand.look();
            if look == Look::Pushed {
                counts.pushes.fetch_add(1, Ordering::Relaxed);
            }
            if matches!(look, Look::Nothing | Look::Pushed) && errand.may_sleep() {
                break;
            }
        }
        while !errand.is_woken() {
            if quit.load(Ordering::Acquire) {
                return;
            }
            std::thread::park();
        }
    }
}

/// Sleeps; false if the thread is to end.
fn sleep_until(at: Instant, quit: &AtomicBool) -> bool {
    loop {
        if quit.load(Ordering::Acquire) {
            return false;
        }
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::park_timeout(left);
    }
}
