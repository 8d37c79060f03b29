//! How long a rank that has sent something leaves the lines alone to which the answer will be written, where ranks take turns.
//!
//! A line that one core writes and another one reads and writes then, and so on, goes from the one to the other as a whole: one
//! transfer a turn. If the rank that waits looks at it meanwhile, both have it, and the answer has to wait until it
//! was taken away again: two more. Where looking takes a lock that writing the answer needs, too, it is worse. The first look should come just when the answer has. When that is depends on both ranks and on how far
//! their cores are apart, so it is tried out: each number of pauses in some batches of turns, and the one with which turns were
//! shortest is kept until the next trial. Pauses are counted, not timed, because a loop whose end can be foretold ends sooner.
//!
//! How long a turn takes is what both ranks do in it. So one of them tries while the other keeps what it has. Both count the same
//! messages: of every two *slots* of so many batches the first belongs to one rank, the second to the other, and either tries in its own
//! slots only. It does so rarely while it finds the same each time, and soon when turns take longer or shorter than they did, because
//! the other one has found something, or a processor was moved. What it has found is true of messages of one length, or nearly.

use std::time::Instant;

/// Numbers of pauses, from none on.
const NUMBERS: usize = 15;
/// Turns of a batch; a power of two.
const BATCH: u32 = 32;
/// Batches with each number in a trial, one in each pass over all of them. What lengthens one of them is no matter.
const PASSES: u32 = 4;
/// Batches of a trial.
const TRIAL: u32 = PASSES * NUMBERS as u32;
/// Batches of a slot, of which a trial leaves some; a power of two.
const SLOT: u32 = 64;
/// In a slot without a trial its rank measures one batch of so many.
const SAMPLED: u32 = 16;
/// Slots from one trial to the next of the same rank: at least, and at most.
const SOON: u32 = 8;
const LATE: u32 = 64;
/// Measured batches in a row that all took longer, or all shorter, by more than an eighth: something has changed.
const CHANGED: i32 = SLOT as i32 / SAMPLED as i32;
/// Longest messages of each class but the last one, for [`ReplyBackoff`].
pub type Classes = [usize; 4];

/// What the turns of two ranks so far have shown one of them.
#[derive(Debug)]
pub struct ReplyBackoff {
    classes: Classes,
    /// How many halves of what the processor calls a pause are one of the pauses here.
    stretch: usize,
    /// A message was sent in turn, and nobody has waited for its answer yet.
    awaited: bool,
    /// Whether the slots with odd numbers are this rank's, or those with even ones.
    odd: bool,
    /// Of which class the last message was, and the pauses before the first look: those of a trial, or those that are kept.
    class: usize,
    pauses: usize,
    /// This rank tries in the present slot, for this class.
    trying: Option<usize>,
    /// When the present batch began, if it is measured and was not broken.
    began: Option<Instant>,
    /// How long the two shortest batches of a trial took, by the number of pauses, in nanoseconds.
    took: [[u32; 2]; NUMBERS],
    found: [Found; 5],
}

/// What is known of messages of one class.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Pauses before the first look.
    kept: usize,
    /// The slot of the last trial, and how many pass until the next if nothing changes.
    tried: Option<u32>,
    patience: u32,
    /// How long a batch took after that, and how many in a row have taken longer (or, negative, shorter) since.
    usual: Option<u32>,
    changed: i32,
}

impl Default for ReplyBackoff {
    /// Of a rank that takes no turns yet.
    fn default() -> ReplyBackoff {
        ReplyBackoff::new(true, [0; 4], 1)
    }
}

impl ReplyBackoff {
    /// Of the rank that tries first, or of the other one. `classes` are lengths of messages that are answered about as soon as each other, in
    /// bytes; both ranks must have the same. Up to 14 pauses are tried, each as long as `stretch` halves of what the processor calls a pause, which is 10
    /// to 70 ns.
    pub fn new(first: bool, classes: Classes, stretch: usize) -> ReplyBackoff {
        let found = Found { kept: 0, tried: None, patience: SOON, usual: None, changed: 0 };
        ReplyBackoff {
            classes,
            stretch,
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

    /// A message of `len` bytes has gone: one of many in turn, or not. `messages` is how many have gone either way, this one among them.
    #[inline]
    pub fn sent(&mut self, in_turn: bool, len: usize, messages: u32, clock: impl FnOnce() -> Instant) {
        self.awaited = in_turn;
        let class = self.classes.iter().filter(|longest| len > **longest).count();
        if !in_turn || class != self.class {
            // A batch is of turns in a row, all of one class.
            (self.class, self.pauses, self.began) = (class, self.found[class].kept, None);
        }
        if in_turn && messages % (2 * BATCH) < 2 {
            self.begin(messages / (2 * BATCH), clock);
        }
    }

    /// Waits until the answer to what was sent may be there, if ranks take turns; whether they do.
    #[inline]
    pub fn wait(&mut self) -> bool {
        let awaited = std::mem::take(&mut self.awaited);
        if awaited {
            idle(self.pauses * self.stretch);
        }
        awaited
    }

    /// Batch number `n` begins.
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

    /// Batch number `n` of a trial begins, or, behind the last one, what was found is kept. A trial of which too little is known
    /// changes nothing.
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

    /// The number with which turns were shortest, together with its neighbours: an answer does not always take as long.
    fn best(&self) -> Option<usize> {
        if self.took.iter().any(|t| t[1] == u32::MAX) {
            return None;
        }
        let at = |n: usize| u64::from(self.took[n.min(NUMBERS - 1)][1]);
        (0..NUMBERS).min_by_key(|n| at(n.saturating_sub(1)) + at(*n) + at(n + 1))
    }
}

impl Found {
    /// Whether there should be a trial in this slot.
    fn is_due(&self, slot: u32) -> bool {
        let changed = self.changed.abs() >= CHANGED;
        self.tried.is_none_or(|tried| slot.wrapping_sub(tried) >= if changed { SOON } else { self.patience })
    }

    /// A trial has ended.
    fn keep(&mut self, slot: u32, best: Option<usize>) {
        let best = best.unwrap_or(self.kept);
        let same = self.tried.is_some() && best.abs_diff(self.kept) <= 1;
        self.patience = if same { LATE.min(2 * self.patience) } else { SOON };
        (self.kept, self.tried, self.usual, self.changed) = (best, Some(slot), None, 0);
    }

    /// A batch with what is kept has taken so long.
    fn compare(&mut self, took: u32) {
        let usual = *self.usual.get_or_insert(took);
        let longer = i32::from(took > usual + usual / 8) - i32::from(took < usual - usual / 8);
        self.changed =
            if longer * self.changed < 0 { longer } else { (self.changed + longer) * longer.abs() };
    }
}

/// Nanoseconds between two times; of more than some seconds, some.
fn nanos(from: Instant, to: Instant) -> u32 {
    u32::try_from(to.saturating_duration_since(from).as_nanos()).unwrap_or(u32::MAX / 2)
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

    const CLASSES: Classes = [56, 512, 2 << 10, 8 << 10];

    /// Two ranks that take turns.
    struct Pair {
        ranks: [ReplyBackoff; 2],
        messages: u32,
        now: Instant,
    }

    /// Turns of a slot.
    const TURNS: u32 = SLOT * BATCH;

    impl Pair {
        fn new() -> Pair {
            Pair {
                ranks: [true, false].map(|first| ReplyBackoff::new(first, CLASSES, 1)),
                messages: 0,
                now: Instant::now(),
            }
        }

        /// So many turns with messages of `len` bytes, of which each rank's half takes what `took` says of it and its pauses, in nanoseconds.
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

        /// Slots in which a rank tries, of so many.
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

    /// A look before the answer lengthens a turn, and a later one by as much as it is late.
    fn early_or_late(answer: u64, pauses: u64) -> u64 {
        100 + if pauses < answer { 120 } else { 10 * (pauses - answer) }
    }

    #[test]
    fn each_finds_its_best_and_keeps_it() {
        for answers in [[0, 0], [5, 5], [3, 9], [12, 1], [0, 13]] {
            let took = |i: usize, pauses| early_or_late(answers[i], pauses);
            let mut pair = Pair::new();
            pair.turns(2 * TURNS, 8, took);
            // One later than the answer, since that is far better than one earlier.
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
        // What each has found lengthens the other's turns, too: whoever comes first does not see yet how short they can be.
        pair.turns((SOON + 4) * TURNS, 8, |_, n| 100 + n);
        assert_eq!(pair.kept(0), [0; 2]);
    }

    /// What lasts as long as ever but for some noise is not tried more often.
    #[test]
    fn single_batches_that_take_longer_are_no_change() {
        let mut pair = Pair::new();
        let took = |_, n| early_or_late(5, n);
        pair.turns(200 * TURNS, 8, took);
        let mut trials = 0;
        for _ in 0..4 * LATE {
            // The last batch that is measured in each slot.
            let before = (SLOT - SAMPLED) * BATCH + BATCH / 2;
            pair.turns(before, 8, took);
            pair.now += Duration::from_micros(50);
            trials += pair.ranks.iter().filter(|r| r.trying.is_some()).count();
            pair.turns(TURNS - before, 8, took);
        }
        assert_eq!(trials, 8);
    }

    /// What happens beside it lengthens some batches, but hardly three with one number.
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

    /// Turns with something else between them say nothing: a batch is of turns in a row.
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

    /// Longer messages are answered later; each class has its own number, from its first message in a row on.
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

    /// Lengths by turns: no batch is of one, so nothing is found, and nothing is taken for a trial.
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
        let mut quiet = ReplyBackoff::new(true, CLASSES, 1);
        quiet.sent(true, 8, 1, Instant::now);
        assert!(quiet.awaited);
        assert!(quiet.wait());
        assert!(!quiet.wait());
        quiet.sent(true, 8, 3, Instant::now);
        quiet.sent(false, 8, 5, Instant::now);
        assert!(!quiet.awaited, "ranks that do not take turns are not waited for");
    }
}
