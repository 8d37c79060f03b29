//! Ends the process if one input takes too long: a parser that never returns is a fault too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Time for one input.
const LIMIT: Duration = Duration::from_secs(60);
/// Interval of the looks at the run.
const INTERVAL: Duration = Duration::from_millis(50);

/// A thread that watches a run.
pub(super) struct Watch {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    /// Number of the input that runs.
    input: AtomicU64,
    over: AtomicBool,
}

impl Watch {
    /// Starts to watch.
    pub(super) fn start(target: &'static str, seed: u64) -> Watch {
        let state = Arc::new(State::default());
        let watched = state.clone();
        let thread = std::thread::spawn(move || watched.watch(target, seed));
        Watch { state, thread: Some(thread) }
    }

    /// Notes that the next input runs.
    pub(super) fn input(&self, number: u64) {
        self.state.input.store(number, Ordering::Relaxed);
    }
}

impl State {
    fn watch(&self, target: &str, seed: u64) {
        let (mut last, mut waited) = (0, Duration::ZERO);
        while !self.over.load(Ordering::Relaxed) {
            std::thread::sleep(INTERVAL);
            let now = self.input.load(Ordering::Relaxed);
            waited = if now == last { waited + INTERVAL } else { Duration::ZERO };
            last = now;
            if waited >= LIMIT {
                eprintln!(
                    "netmod-fuzz: {target}: input {now} has run for {} s; the same again: \
                     cargo run -p netmod-fuzz -- {target} --seed {seed} --inputs {now}",
                    LIMIT.as_secs()
                );
                std::process::exit(1);
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::Relaxed);
        // A thread that has panicked watches no more, and has said so itself.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
