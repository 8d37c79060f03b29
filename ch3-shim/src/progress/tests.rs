//! The helper thread with an engine that counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Guarded, Staging};

/// Staged and sent messages, with the sender.
#[derive(Default)]
struct Counter {
    staged: u64,
    sent: Arc<AtomicU64>,
    /// Pushes that keep back what they find.
    full: Arc<AtomicBool>,
    /// Set while somebody is inside.
    busy: bool,
}

impl Staging for Counter {
    fn is_staged(&self) -> bool {
        self.staged > 0
    }

    fn push(&mut self) -> bool {
        assert!(!std::mem::replace(&mut self.busy, true), "two are inside");
        let kept = self.full.load(Ordering::Relaxed);
        if !kept {
            self.sent.fetch_add(std::mem::take(&mut self.staged), Ordering::Relaxed);
        }
        self.busy = false;
        kept
    }
}

fn stage(engine: &mut Guarded<Counter>) {
    engine.staged += 1;
    engine.end_call();
}

fn wait_for(what: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !what() {
        assert!(Instant::now() < limit, "it does not come");
        std::thread::sleep(Duration::from_micros(100));
    }
}

#[test]
fn what_is_staged_is_sent_without_a_further_call_and_an_idle_helper_sleeps() {
    let counter = Counter::default();
    let sent = Arc::clone(&counter.sent);
    let mut engine = Guarded::new(counter, false);
    engine.end_call();
    assert_eq!(engine.counts(), Default::default(), "nothing was staged: no thread");
    for n in 1..=3 {
        stage(&mut engine);
        wait_for(|| sent.load(Ordering::Relaxed) == n);
        wait_for(|| !engine.shared.gate.is_woken());
        let counts = engine.counts();
        assert_eq!((counts.wakes, counts.pushes), (n, n), "woken once for each");
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(engine.counts(), counts, "nothing is staged: no rounds");
    }
}

#[test]
fn a_burst_wakes_it_once() {
    let counter = Counter::default();
    let (sent, full) = (Arc::clone(&counter.sent), Arc::clone(&counter.full));
    full.store(true, Ordering::Relaxed);
    let mut engine = Guarded::new(counter, false);
    for _ in 0..1000 {
        stage(&mut engine);
    }
    wait_for(|| engine.counts().rounds > 0);
    full.store(false, Ordering::Relaxed);
    wait_for(|| sent.load(Ordering::Relaxed) == 1000);
    assert_eq!(engine.counts().wakes, 1);
}

#[test]
fn what_is_kept_back_is_tried_again_at_most_once_a_millisecond() {
    let counter = Counter::default();
    let (sent, full) = (Arc::clone(&counter.sent), Arc::clone(&counter.full));
    full.store(true, Ordering::Relaxed);
    let mut engine = Guarded::new(counter, false);
    let begin = Instant::now();
    stage(&mut engine);
    wait_for(|| engine.counts().rounds >= 10);
    let rounds = u128::from(engine.counts().rounds);
    assert!(rounds <= begin.elapsed().as_millis() + 1, "{rounds} rounds in {:?}", begin.elapsed());
    full.store(false, Ordering::Relaxed);
    wait_for(|| sent.load(Ordering::Relaxed) == 1);
}

#[test]
fn an_owner_that_stays_inside_is_left_alone() {
    let counter = Counter::default();
    let (sent, full) = (Arc::clone(&counter.sent), Arc::clone(&counter.full));
    full.store(true, Ordering::Relaxed);
    let mut engine = Guarded::new(counter, false);
    stage(&mut engine);
    engine.stay();
    engine.staged += 1;
    full.store(false, Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!((engine.staged, sent.load(Ordering::Relaxed)), (2, 0));
    engine.end_call();
    wait_for(|| sent.load(Ordering::Relaxed) == 2);
}

/// Looking takes nothing away from the helper.
#[test]
fn who_only_looks_leaves_it_to_the_helper() {
    let counter = Counter::default();
    let sent = Arc::clone(&counter.sent);
    let mut engine = Guarded::new(counter, false);
    stage(&mut engine);
    let staged = engine.look(|e| e.staged);
    assert!(staged <= 1);
    wait_for(|| sent.load(Ordering::Relaxed) == 1);
    assert_eq!(engine.look(|e| e.staged), 0);
}

#[test]
fn without_a_helper_nothing_leaves_before_the_next_call() {
    let counter = Counter::default();
    let sent = Arc::clone(&counter.sent);
    let mut engine = Guarded::new(counter, true);
    stage(&mut engine);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!((engine.staged, sent.load(Ordering::Relaxed)), (1, 0));
    assert_eq!(engine.counts(), Default::default());
    engine.push();
    assert_eq!(sent.load(Ordering::Relaxed), 1);
}

/// Two threads hammer the gate; the engine notices if both are inside, and nothing is lost.
#[test]
fn owner_and_helper_are_never_inside_together() {
    let counter = Counter::default();
    let sent = Arc::clone(&counter.sent);
    let mut engine = Guarded::new(counter, false);
    let end = Instant::now() + Duration::from_millis(300);
    let (mut staged, mut calls) = (0, 0u32);
    while Instant::now() < end {
        for _ in 0..100 {
            calls += 1;
            assert!(!std::mem::replace(&mut engine.busy, true), "two are inside");
            engine.staged += 1;
            staged += 1;
            engine.busy = false;
            if calls.is_multiple_of(64) {
                engine.push();
            }
            engine.end_call();
        }
        std::thread::sleep(Duration::from_micros(u64::from(calls % 7) * 50));
    }
    wait_for(|| sent.load(Ordering::Relaxed) == staged);
    assert!(engine.counts().pushes > 0);
}
