//! How long a rank that has sent the shuttle off leaves its line alone, where ranks take turns.
//!
//! A line that one core writes and another one reads and writes then, and so on, goes from the one to the other as a whole: one
//! transfer a turn. If the rank that waits looks at it meanwhile, both have it, and the answer has to wait until it
//! was taken away again: two more. The first look should come just when the answer has. When that is depends on both ranks and on how far
//! their cores are apart, so it is tried out: each number of pauses in some batches of turns, and the one with which turns were
//! shortest is kept until the next trial. Pauses are counted, not timed, because a loop whose end can be foretold ends sooner.
//!
//! How long a turn takes is what both ranks do in it. So one of them tries while the other keeps what it has; both know whose
//! trial it is, since both count the same messages.

use std::time::Instant;

/// Numbers of pauses, from none on.
const NUMBERS: usize = 15;
/// Turns of a batch; a power of two.
const BATCH: u32 = 32;
/// Batches with each number in a trial, one in each pass over all of them. What lengthens one of them is no matter.
const PASSES: u32 = 4;
/// Batches from one trial to the next of the same rank; a power of two.
const PERIOD: u32 = 4096;
/// Batches of a trial.
const TRIAL: u32 = PASSES * NUMBERS as u32;

/// What the turns so far have shown.
#[derive(Debug)]
pub(crate) struct Quiet {
    /// A message was sent in turn, and nobody has waited for its answer yet.
    awaited: bool,
    /// Pauses before the first look: those of a trial, and otherwise those that are kept.
    pauses: usize,
    kept: usize,
    /// Batches of a period before this rank's trial.
    before: u32,
    /// When the present batch of a trial began, unless it was broken.
    began: Option<Instant>,
    /// How long the two shortest batches of a trial took, by the number of pauses, in nanoseconds.
    took: [[u32; 2]; NUMBERS],
}

impl Default for Quiet {
    fn default() -> Quiet {
        Quiet::new(true)
    }
}

impl Quiet {
    /// Of the rank that tries first, or of the other one.
    pub(crate) fn new(first: bool) -> Quiet {
        let before = if first { 0 } else { TRIAL };
        Quiet { awaited: false, pauses: 0, kept: 0, before, began: None, took: [UNKNOWN; NUMBERS] }
    }

    /// A message has gone with the shuttle: one of many in `turn`, or not. `messages` is how many have gone either way.
    #[inline]
    pub(crate) fn sent(&mut self, in_turn: bool, messages: u32, clock: impl FnOnce() -> Instant) {
        self.awaited = in_turn;
        if !in_turn {
            // What is between its turns is no part of a batch.
            (self.began, self.pauses) = (None, self.kept);
        } else if messages % (2 * BATCH) < 2 {
            let batch = (messages / (2 * BATCH)).wrapping_sub(self.before) % PERIOD;
            if batch <= TRIAL || self.began.is_some() {
                self.next(batch, clock());
            }
        }
    }

    /// Waits until the answer to what was sent may be there, if ranks take turns.
    #[inline]
    pub(crate) fn wait(&mut self) {
        if std::mem::take(&mut self.awaited) {
            idle(self.pauses);
        }
    }

    /// Batch number `batch` of a trial begins, or, behind the last one, what was found is kept. A trial of which too little is known
    /// changes nothing.
    #[cold]
    #[inline(never)]
    fn next(&mut self, batch: u32, now: Instant) {
        if let Some(began) = self.began.replace(now) {
            let took = u32::try_from(now.saturating_duration_since(began).as_nanos()).unwrap_or(u32::MAX);
            let [least, second] = &mut self.took[self.pauses];
            (*least, *second) = if took < *least { (took, *least) } else { (*least, took.min(*second)) };
        }
        self.pauses = batch as usize % NUMBERS;
        if batch >= TRIAL {
            self.kept = self.best().unwrap_or(self.kept);
            (self.pauses, self.began, self.took) = (self.kept, None, [UNKNOWN; NUMBERS]);
        }
    }

    /// The number with which turns were shortest, together with its neighbours: an answer does not always take as long.
    fn best(&self) -> Option<usize> {
        if self.took.iter().any(|t| t[1] == u32::MAX) {
            return None;
        }
        let at = |n: usize| u64::from(self.took[n.min(NUMBERS - 1)][1]);
        (0..NUMBERS).min_by_key(|n| at(n.saturating_sub(1)) + at(*n) + at(n + 1))
    }
}

/// Fewer than two batches were whole.
const UNKNOWN: [u32; 2] = [u32::MAX; 2];

/// Does nothing for so many halves of what the processor calls a pause, each 10 to 70 ns.
#[inline]
fn idle(halves: usize) {
    (0..halves / 2).for_each(|_| std::hint::spin_loop());
    let mut x = 3u64;
    for _ in 0..6 * (halves % 2) {
        x = std::hint::black_box(x).wrapping_mul(5);
    }
    std::hint::black_box(x);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Two ranks that take turns.
    struct Pair {
        ranks: [Quiet; 2],
        messages: u32,
        now: Instant,
    }

    impl Pair {
        fn new() -> Pair {
            Pair { ranks: [Quiet::new(true), Quiet::new(false)], messages: 0, now: Instant::now() }
        }

        /// So many turns, of which each rank's half takes what `took` says of it and its pauses, in nanoseconds.
        fn turns(&mut self, n: u32, took: impl Fn(usize, u64) -> u64) {
            for _ in 0..n {
                for (i, rank) in self.ranks.iter_mut().enumerate() {
                    self.messages += 1;
                    self.now += Duration::from_nanos(took(i, rank.pauses as u64));
                    rank.sent(true, self.messages, || self.now);
                }
            }
        }

        fn kept(&self) -> [usize; 2] {
            self.ranks.each_ref().map(|r| r.kept)
        }
    }

    /// Turns until both trials are over.
    const BOTH: u32 = (2 * TRIAL + 1) * BATCH;

    /// A look before the answer lengthens a turn, and a later one by as much as it is late.
    fn early_or_late(answer: u64, pauses: u64) -> u64 {
        100 + if pauses < answer { 120 } else { 10 * (pauses - answer) }
    }

    #[test]
    fn each_finds_its_best_and_keeps_it() {
        for answers in [[0, 0], [5, 5], [3, 9], [12, 1], [0, 13]] {
            let took = |i: usize, pauses| early_or_late(answers[i], pauses);
            let mut pair = Pair::new();
            pair.turns(BOTH, took);
            // One later than the answer, since that is far better than one earlier.
            let safe = answers.map(|a| if a == 0 { 0 } else { a as usize + 1 });
            for _ in BOTH..PERIOD * BATCH {
                assert_eq!(pair.kept(), safe, "{answers:?}");
                assert_eq!(pair.ranks.each_ref().map(|r| r.pauses), safe);
                pair.turns(1, took);
            }
        }
    }

    #[test]
    fn what_changes_is_found_out() {
        let mut pair = Pair::new();
        pair.turns(BOTH, |_, n| 2000 - n);
        assert_eq!(pair.kept(), [NUMBERS - 1; 2]);
        pair.turns(PERIOD * BATCH, |_, n| 100 + n);
        assert_eq!(pair.kept(), [0; 2]);
    }

    /// What happens beside it lengthens some batches, but hardly three with one number.
    #[test]
    fn two_undisturbed_batches_will_do() {
        let mut pair = Pair::new();
        for batch in 0..=2 * TRIAL {
            // Two of the four with each number, of which there are an odd number.
            let disturbed = batch % 4 < 2;
            pair.now += Duration::from_micros(if disturbed { 50 } else { 0 });
            pair.turns(BATCH, |_, n| if n == 8 { 90 } else { 100 });
        }
        assert_eq!(pair.kept(), [7; 2], "the first of the three around 8");
    }

    /// Turns with something else between them say nothing: a batch is of turns in a row.
    #[test]
    fn a_trial_of_broken_batches_changes_nothing() {
        let mut pair = Pair::new();
        pair.turns(BOTH, |_, n| early_or_late(5, n));
        pair.turns(PERIOD * BATCH - BOTH, |_, _| 100);
        for _ in 0..2 * TRIAL + 2 {
            pair.turns(BATCH - 1, |_, n| early_or_late(0, n));
            for rank in &mut pair.ranks {
                pair.messages += 1;
                rank.sent(false, pair.messages, || unreachable!("no time is needed"));
                assert_eq!((rank.pauses, rank.kept), (6, 6));
            }
        }
        assert_eq!(pair.kept(), [6; 2]);
        pair.turns(PERIOD * BATCH, |_, n| early_or_late(0, n));
        assert_eq!(pair.kept(), [0; 2]);
    }

    #[test]
    fn an_answer_is_waited_for_once() {
        let mut quiet = Quiet::new(true);
        quiet.sent(true, 1, Instant::now);
        assert!(quiet.awaited);
        quiet.wait();
        assert!(!quiet.awaited);
        quiet.sent(true, 3, Instant::now);
        quiet.sent(false, 5, Instant::now);
        assert!(!quiet.awaited, "ranks that do not take turns are not waited for");
    }
}
