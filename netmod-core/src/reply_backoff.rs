//! Adaptive delay before polling for a reply, for ping-pong traffic.
//!
//! A cache line that two cores write and read alternately moves as a whole: one transfer per
//! message. If the waiting rank polls it too early, both cores share it, and writing the reply
//! needs two more transfers. The first poll should come just after the reply.
//!
//! When that is depends on both ranks and on the distance of their cores, so it is tried out. A
//! trial measures each number of pauses in some batches of ping-pongs; the fastest number is kept
//! until the next trial. Pauses are counted, not timed, because a loop with a predictable end ends
//! sooner.
//!
//! The time of a ping-pong depends on both ranks, so one of them tries while the other keeps its
//! delay. Both count the same messages: of every two *slots* of a fixed number of batches, the
//! first belongs to one rank and the second to the other, and each tries in its own slots only. It
//! tries rarely while results stay the same, and soon when ping-pongs become slower or faster,
//! because the other rank has changed its delay or a process has moved. Results hold for messages
//! of about one length.

use std::time::Instant;

/// Numbers of pauses that are tried, from 0 on.
const NUMBERS: usize = 15;
/// Ping-pongs of a batch; a power of two.
const BATCH: u32 = 32;
/// Batches per number in a trial, one in each pass over all numbers, so that one disturbance
/// affects few.
const PASSES: u32 = 4;
/// Batches of a trial.
const TRIAL: u32 = PASSES * NUMBERS as u32;
/// Batches of a slot, more than those of a trial; a power of two.
const SLOT: u32 = 64;
/// Interval of measured batches in a slot without a trial.
const SAMPLED: u32 = 16;
/// Least and most slots between two trials of the same rank.
const SOON: u32 = 8;
const LATE: u32 = 64;
/// Consecutive measured batches, all slower or all faster by more than an eighth, that mean a
/// change.
const CHANGED: i32 = SLOT as i32 / SAMPLED as i32;
/// Longest message of each length class but the last one, in bytes, for [`ReplyBackoff`].
pub type Classes = [usize; 4];

/// The reply back-off of one rank of a pair.
#[derive(Debug)]
pub struct ReplyBackoff {
    classes: Classes,
    /// True if a ping-pong message was sent and its reply has not been waited for.
    awaited: bool,
    /// True if slots with odd numbers are this rank's, else those with even ones.
    odd: bool,
    /// Class of the last message, and its pauses before the first poll: those of a trial, or those
    /// kept.
    class: usize,
    pauses: usize,
    /// Class of this rank's trial in the present slot.
    trying: Option<usize>,
    /// Begin of the present batch, if it is measured and was not interrupted.
    began: Option<Instant>,
    /// Times of the two fastest batches of a trial, per number of pauses, in nanoseconds.
    took: [[u32; 2]; NUMBERS],
    found: [Found; 5],
}

/// The results for messages of one class.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Pauses before the first poll.
    kept: usize,
    /// Slot of the last trial, and the slots until the next one without a change.
    tried: Option<u32>,
    patience: u32,
    /// Time of a batch after the trial, and the consecutive slower (or, negative, faster) batches
    /// since.
    usual: Option<u32>,
    changed: i32,
}

impl Default for ReplyBackoff {
    /// Creates the back-off of a rank without ping-pong traffic.
    fn default() -> ReplyBackoff {
        ReplyBackoff::new(true, [0; 4])
    }
}

impl ReplyBackoff {
    /// Creates the back-off of the rank that tries first, or of the other one.
    ///
    /// `classes` are lengths of messages with similar reply times, in bytes; both ranks must have
    /// the same. Up to 14 pauses are tried, each a half of the processor's pause instruction, which
    /// takes 10 to 70 ns.
    pub fn new(first: bool, classes: Classes) -> ReplyBackoff {
        let found = Found { kept: 0, tried: None, patience: SOON, usual: None, changed: 0 };
        ReplyBackoff {
            classes,
            awaited: false,
            odd: !first,
            class: 0,
            pauses: 0,
            trying: None,
            began: None,
            took: [UNKNOWN; NUMBERS],
            found: [found; 5],
        }
    }

    /// Notes that a message of `len` bytes was sent.
    ///
    /// `in_turn`: it is a part of ping-pong traffic. `messages` is the number of messages either
    /// way, this one included.
    #[inline]
    pub fn sent(&mut self, in_turn: bool, len: usize, messages: u32, clock: impl FnOnce() -> Instant) {
        self.awaited = in_turn;
        let class = self.classes.iter().filter(|longest| len > **longest).count();
        if !in_turn || class != self.class {
            // A batch consists of consecutive ping-pongs, all of one class.
            (self.class, self.pauses, self.began) = (class, self.found[class].kept, None);
        }
        if in_turn && messages % (2 * BATCH) < 2 {
            self.begin(messages / (2 * BATCH), clock);
        }
    }

    /// Waits until the reply may be there; returns false if there is no ping-pong traffic.
    #[inline]
    pub fn wait(&mut self) -> bool {
        let awaited = std::mem::take(&mut self.awaited);
        if awaited {
            idle(self.pauses);
        }
        awaited
    }

    /// Begins batch number `n`.
    #[cold]
    #[inline(never)]
    fn begin(&mut self, n: u32, clock: impl FnOnce() -> Instant) {
        let (slot, n) = (n / SLOT, n % SLOT);
        let ours = (slot % 2 == 1) == self.odd;
        if n == 0 && ours {
            self.trying = self.found[self.class].is_due(slot).then_some(self.class);
            (self.began, self.took) = (None, [UNKNOWN; NUMBERS]);
        }
        if !ours {
            // The end of a trial may have been missed.
            (self.trying, self.pauses) = (None, self.found[self.class].kept);
        } else if self.trying == Some(self.class) {
            self.try_next(slot, n, clock());
        } else if let Some(began) = self.began.take() {
            self.found[self.class].compare(nanos(began, clock()));
        } else if n.is_multiple_of(SAMPLED) {
            self.began = Some(clock());
        }
    }

    /// Begins batch number `n` of a trial; after the last one, keeps the result.
    ///
    /// A trial with too few measurements changes nothing.
    fn try_next(&mut self, slot: u32, n: u32, now: Instant) {
        if let Some(began) = self.began.replace(now) {
            let took = nanos(began, now);
            let [least, second] = &mut self.took[self.pauses];
            (*least, *second) = if took < *least { (took, *least) } else { (*least, took.min(*second)) };
        }
        self.pauses = n as usize % NUMBERS;
        if n >= TRIAL {
            let best = self.best();
            self.found[self.class].keep(slot, best);
            (self.trying, self.began, self.pauses) = (None, None, self.found[self.class].kept);
        }
    }

    /// Returns the number of pauses with the fastest ping-pongs, together with its neighbours:
    /// reply times vary.
    fn best(&self) -> Option<usize> {
        if self.took.iter().any(|t| t[1] == u32::MAX) {
            return None;
        }
        let at = |n: usize| u64::from(self.took[n.min(NUMBERS - 1)][1]);
        (0..NUMBERS).min_by_key(|n| at(n.saturating_sub(1)) + at(*n) + at(n + 1))
    }
}

impl Found {
    /// Returns true if a trial is due in this slot.
    fn is_due(&self, slot: u32) -> bool {
        let changed = self.changed.abs() >= CHANGED;
        self.tried.is_none_or(|tried| slot.wrapping_sub(tried) >= if changed { SOON } else { self.patience })
    }

    /// Ends a trial.
    fn keep(&mut self, slot: u32, best: Option<usize>) {
        let best = best.unwrap_or(self.kept);
        let same = self.tried.is_some() && best.abs_diff(self.kept) <= 1;
        self.patience = if same { LATE.min(2 * self.patience) } else { SOON };
        (self.kept, self.tried, self.usual, self.changed) = (best, Some(slot), None, 0);
    }

    /// Compares the time of a batch with the usual one.
    fn compare(&mut self, took: u32) {
        let usual = *self.usual.get_or_insert(took);
        let longer = i32::from(took > usual.saturating_add(usual / 8)) - i32::from(took < usual - usual / 8);
        self.changed =
            if longer * self.changed < 0 { longer } else { (self.changed + longer) * longer.abs() };
    }
}

/// Returns the nanoseconds between two times; saturates after some seconds.
fn nanos(from: Instant, to: Instant) -> u32 {
    u32::try_from(to.saturating_duration_since(from).as_nanos()).unwrap_or(u32::MAX / 2)
}

/// The times of a number with fewer than two complete batches.
const UNKNOWN: [u32; 2] = [u32::MAX; 2];

/// Pauses for so many halves of the processor's pause instruction, each 10 to 70 ns.
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

    const CLASSES: Classes = [56, 512, 2 << 10, 8 << 10];

    /// Two ranks with ping-pong traffic.
    struct Pair {
        ranks: [ReplyBackoff; 2],
        messages: u32,
        now: Instant,
    }

    /// Ping-pongs of a slot.
    const TURNS: u32 = SLOT * BATCH;

    impl Pair {
        fn new() -> Pair {
            Pair {
                ranks: [true, false].map(|first| ReplyBackoff::new(first, CLASSES)),
                messages: 0,
                now: Instant::now(),
            }
        }

        /// Runs ping-pongs with messages of `len` bytes; `took` returns the nanoseconds of a rank's
        /// half, by its pauses.
        fn turns(&mut self, n: u32, len: usize, took: impl Fn(usize, u64) -> u64) {
            for _ in 0..n {
                for (i, rank) in self.ranks.iter_mut().enumerate() {
                    self.messages += 1;
                    self.now += Duration::from_nanos(took(i, rank.pauses as u64));
                    rank.sent(true, len, self.messages, || self.now);
                }
            }
        }

        fn kept(&self, class: usize) -> [usize; 2] {
            self.ranks.each_ref().map(|r| r.found[class].kept)
        }

        fn pauses(&self) -> [usize; 2] {
            self.ranks.each_ref().map(|r| r.pauses)
        }

        /// Returns the number of slots, of so many, in which a rank tries.
        fn trials(&mut self, slots: u32, took: impl Fn(usize, u64) -> u64 + Copy) -> u32 {
            let mut trials = 0;
            for _ in 0..slots {
                self.turns(TURNS / 2, 8, took);
                trials += self.ranks.iter().filter(|r| r.trying.is_some()).count() as u32;
                self.turns(TURNS / 2, 8, took);
            }
            trials
        }
    }

    /// Returns the time of a half: polling too early lengthens it, and polling late does by the
    /// delay.
    fn early_or_late(answer: u64, pauses: u64) -> u64 {
        100 + if pauses < answer { 120 } else { 10 * (pauses - answer) }
    }

    #[test]
    fn each_finds_its_best_and_keeps_it() {
        for answers in [[0, 0], [5, 5], [3, 9], [12, 1], [0, 13]] {
            let took = |i: usize, pauses| early_or_late(answers[i], pauses);
            let mut pair = Pair::new();
            pair.turns(2 * TURNS, 8, took);
            // One pause later than the reply, since that is far better than one earlier.
            let safe = answers.map(|a| if a == 0 { 0 } else { a as usize + 1 });
            for turn in 2 * TURNS..20 * TURNS {
                assert_eq!(pair.kept(0), safe, "{answers:?}");
                if turn < SOON * TURNS {
                    assert_eq!(pair.pauses(), safe, "no trial yet");
                }
                pair.turns(1, 8, took);
            }
        }
    }

    #[test]
    fn trials_become_rare_while_nothing_changes() {
        let mut pair = Pair::new();
        let took = |_, n| early_or_late(5, n);
        pair.turns(100 * TURNS, 8, took);
        let trials = pair.trials(10 * LATE, took);
        assert_eq!(trials, 20, "each rank once in {LATE} slots");
    }

    #[test]
    fn what_changes_is_found_out_soon() {
        let mut pair = Pair::new();
        pair.turns(200 * TURNS, 8, |_, n| 2000 - n);
        assert_eq!(pair.kept(0), [NUMBERS - 1; 2]);
        // Each rank's result lengthens the other's ping-pongs, too: the first one does not see yet
        // how short they can be.
        pair.turns((SOON + 4) * TURNS, 8, |_, n| 100 + n);
        assert_eq!(pair.kept(0), [0; 2]);
    }

    /// Noise alone does not cause more trials.
    #[test]
    fn single_batches_that_take_longer_are_no_change() {
        let mut pair = Pair::new();
        let took = |_, n| early_or_late(5, n);
        pair.turns(200 * TURNS, 8, took);
        let mut trials = 0;
        for _ in 0..4 * LATE {
            // The last measured batch of each slot.
            let before = (SLOT - SAMPLED) * BATCH + BATCH / 2;
            pair.turns(before, 8, took);
            pair.now += Duration::from_micros(50);
            trials += pair.ranks.iter().filter(|r| r.trying.is_some()).count();
            pair.turns(TURNS - before, 8, took);
        }
        assert_eq!(trials, 8);
    }

    /// Disturbances lengthen some batches, but hardly three with one number.
    #[test]
    fn two_undisturbed_batches_will_do() {
        let mut pair = Pair::new();
        for batch in 0..2 * SLOT {
            // Two of the four with each number, of which there are an odd number.
            let disturbed = batch % 4 < 2;
            pair.now += Duration::from_micros(if disturbed { 50 } else { 0 });
            pair.turns(BATCH, 8, |_, n| if n == 8 { 90 } else { 100 });
        }
        assert_eq!(pair.kept(0), [7; 2], "the first of the three around 8");
    }

    /// Ping-pongs with other messages between them are not measured: a batch is of consecutive
    /// ones.
    #[test]
    fn a_trial_of_broken_batches_changes_nothing() {
        let mut pair = Pair::new();
        pair.turns(2 * TURNS, 8, |_, n| early_or_late(5, n));
        for _ in 0..100 * SLOT {
            pair.turns(BATCH - 1, 8, |_, n| early_or_late(0, n));
            for rank in &mut pair.ranks {
                pair.messages += 1;
                rank.sent(false, 8, pair.messages, || unreachable!("no time is needed"));
                assert_eq!((rank.pauses, rank.found[0].kept), (6, 6));
            }
        }
        pair.turns(3 * SOON * TURNS, 8, |_, n| early_or_late(0, n));
        assert_eq!(pair.kept(0), [0; 2]);
    }

    /// Longer messages have later replies; each class has its own number, from its first
    /// consecutive message on.
    #[test]
    fn lengths_are_told_apart() {
        let lens = [(8, 0, 2), (500, 1, 5), (1024, 2, 8), (8 << 10, 3, 11), (16 << 10, 4, 12)];
        let mut pair = Pair::new();
        for _ in 0..2 {
            for (len, _, answer) in lens {
                pair.turns((SOON + 2) * TURNS, len, |_, n| early_or_late(answer, n));
            }
        }
        for (len, class, answer) in lens {
            assert_eq!(pair.kept(class), [answer as usize + 1; 2], "{len} bytes");
            for rank in &mut pair.ranks {
                rank.sent(true, len, 2, || unreachable!("no time is needed"));
            }
            assert_eq!(pair.pauses(), [answer as usize + 1; 2], "{len} bytes");
        }
    }

    /// Alternating lengths: no batch is of one class, so nothing is tried or found.
    #[test]
    fn lengths_that_change_with_each_turn_are_not_tried() {
        let mut pair = Pair::new();
        for turn in 0..10 * TURNS {
            pair.turns(1, if turn % 2 == 0 { 8 } else { 1024 }, |_, n| 200 - n);
            assert!(pair.kept(0) == [0; 2] && pair.kept(2) == [0; 2]);
            assert_eq!(pair.ranks.each_ref().map(|r| r.took), [[UNKNOWN; NUMBERS]; 2]);
        }
    }

    #[test]
    fn an_answer_is_waited_for_once() {
        let mut quiet = ReplyBackoff::new(true, CLASSES);
        quiet.sent(true, 8, 1, Instant::now);
        assert!(quiet.awaited);
        assert!(quiet.wait());
        assert!(!quiet.wait());
        quiet.sent(true, 8, 3, Instant::now);
        quiet.sent(false, 8, 5, Instant::now);
        assert!(!quiet.awaited, "ranks that do not take turns are not waited for");
    }

    #[test]
    fn a_batch_that_took_many_seconds_is_an_ordinary_one() {
        let mut pair = Pair::new();
        pair.turns(20 * TURNS, 8, |_, _| 10_000_000_000);
        assert!(pair.messages > 0);
        let (kept, tried, patience, usual, changed) = (0, None, 0, None, 0);
        let mut found = Found { kept, tried, patience, usual, changed };
        [u32::MAX, u32::MAX, 0, u32::MAX / 2].into_iter().for_each(|took| found.compare(took));
        assert_eq!(found.changed, -2);
    }
}
