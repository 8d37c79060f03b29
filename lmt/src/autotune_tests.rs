//! Messages in simulated time, with strategies whose speeds are known and change.

use std::collections::VecDeque;

use super::*;

const MIB: u64 = 1 << 20;

/// A receiver with a window of messages in progress, which arrive one after another.
struct World {
    tuner: Autotuner,
    model: Strategy,
    now: u64,
    window: usize,
    flying: VecDeque<Strategy>,
}

impl World {
    fn new(model: Strategy, window: usize) -> World {
        World { tuner: Autotuner::default(), model, now: 0, window, flying: VecDeque::new() }
    }

    /// Runs messages of 1 MiB; returns how many went through a ring and by the kernel.
    ///
    /// `takes` returns the time of a message.
    fn run(&mut self, messages: usize, mut takes: impl FnMut(Strategy) -> u64) -> (usize, usize) {
        let (mut ring, mut kernel) = (0, 0);
        for _ in 0..messages {
            if self.flying.len() == self.window {
                self.come(&mut takes);
            }
            let strategy = self.tuner.choose(MIB, self.model);
            match strategy {
                Strategy::Ring => ring += 1,
                Strategy::Kernel => kernel += 1,
            }
            self.tuner.begin(strategy, self.now);
            self.flying.push_back(strategy);
        }
        while !self.flying.is_empty() {
            self.come(&mut takes);
        }
        assert_eq!((self.tuner.ring, self.tuner.kernel), (0, 0));
        (ring, kernel)
    }

    fn come(&mut self, takes: &mut impl FnMut(Strategy) -> u64) {
        if let Some(strategy) = self.flying.pop_front() {
            self.now += takes(strategy);
            self.tuner.end(strategy, Some(MIB), self.now);
        }
    }
}

fn of(ring: u64, kernel: u64) -> impl FnMut(Strategy) -> u64 {
    move |strategy| if strategy == Strategy::Ring { ring } else { kernel }
}

#[test]
fn the_model_decides_until_both_strategies_were_tried() {
    for (model, slow) in [(Strategy::Ring, (9_000, 1_000)), (Strategy::Kernel, (1_000, 9_000))] {
        for window in [1, 2, 64] {
            let mut world = World::new(model, window);
            let first = world.run(FIRST as usize, of(slow.0, slow.1));
            assert_eq!(if model == Strategy::Ring { first.1 } else { first.0 }, 0);
            // The trial, which the other strategy wins.
            world.run(2 * window + 16, of(slow.0, slow.1));
            let then = world.run(500, of(slow.0, slow.1));
            assert_eq!(
                then,
                if model == Strategy::Ring { (0, 500) } else { (500, 0) },
                "{model:?}, {window}"
            );
        }
    }
}

#[test]
fn what_is_no_faster_is_not_taken() {
    let mut world = World::new(Strategy::Ring, 1);
    // The kernel is faster by less than the required advantage.
    let (ring, kernel) = world.run(1_000, of(1_000, 950));
    assert_eq!(ring + kernel, 1_000);
    assert!(kernel <= 60, "{kernel} messages for trials");
}

#[test]
fn trials_cost_little() {
    for window in [1, 16, 64] {
        for slow in [1_100, 1_500, 3_000, 8_000, 100_000] {
            let mut world = World::new(Strategy::Ring, window);
            // The messages that follow pay for the first trial.
            let messages = 200_000;
            world.run(messages, of(1_000, slow));
            let ideal = messages as u64 * 1_000;
            let lost = (world.now - ideal) as f64 / ideal as f64;
            let most = if slow < 50_000 { 0.03 } else { 0.3 };
            assert!(lost < most, "{lost:.3} with a window of {window} and a strategy that takes {slow}");
        }
    }
}

#[test]
fn a_strategy_that_becomes_slow_is_left_soon_and_taken_again_when_fast() {
    for window in [1, 64] {
        let mut world = World::new(Strategy::Ring, window);
        world.run(1_000, of(1_000, 1_500));
        // The ring is four times as slow from now on.
        world.run(2 * window + 48, of(4_000, 1_500));
        let (ring, _) = world.run(1_000, of(4_000, 1_500));
        assert!(ring <= 2 * window + 20, "{ring} of 1,000 through a slow ring, window {window}");
        // And fast again: a trial finds out.
        let pause = (8 * window + 16) * MOST_PAUSE as usize;
        world.run(pause, of(1_000, 1_500));
        let (ring, kernel) = world.run(1_000, of(1_000, 1_500));
        assert!(ring > 800, "{ring} and {kernel} with a window of {window}");
    }
}

#[test]
fn one_late_message_changes_nothing() {
    let [usual, late] = [1_000, 1_000_000_000].map(|first| {
        let mut world = World::new(Strategy::Ring, 1);
        world.run(2_000, of(1_000, 1_200));
        // The receiver was away for a second, or not.
        let mut took = first;
        world.run(100, move |strategy| match strategy {
            Strategy::Ring => std::mem::replace(&mut took, 1_000),
            Strategy::Kernel => 1_200,
        })
    });
    assert_eq!(usual, late);
}

#[test]
fn messages_beside_the_other_strategy_do_not_count() {
    let mut tuner = Autotuner::default();
    let taken = |tuner: &Autotuner| {
        let l = tuner.lengths[nearest(MIB)];
        [l.ring.batch, l.kernel.batch].map(|(_, time, messages)| (time, messages))
    };
    tuner.begin(Strategy::Ring, 0);
    tuner.end(Strategy::Ring, None, 70);
    assert_eq!(taken(&tuner), [(0, 0), (0, 0)]);
    tuner.begin(Strategy::Ring, 100);
    tuner.begin(Strategy::Kernel, 150);
    tuner.begin(Strategy::Kernel, 160);
    tuner.end(Strategy::Ring, Some(MIB), 1_000);
    // The first that ends alone has moved beside it; the time since then counts.
    tuner.end(Strategy::Kernel, Some(MIB), 1_300);
    assert_eq!(taken(&tuner), [(0, 0), (300, 1)]);
    tuner.end(Strategy::Kernel, None, 1_400);
    // No message is in progress: the time until the next one does not count.
    tuner.begin(Strategy::Ring, 9_000);
    tuner.end(Strategy::Ring, Some(MIB), 9_500);
    assert_eq!(taken(&tuner), [(500, 1), (300, 1)]);
}

/// Runs messages of a length by one strategy, in pairs that end at the same time.
fn pairs(tuner: &mut Autotuner, strategy: Strategy, len: usize, pair: u64) {
    let mut now = 0;
    for _ in 0..BATCH / 2 {
        tuner.begin(strategy, now);
        tuner.begin(strategy, now);
        now += pair;
        tuner.end(strategy, Some(len as u64), now);
        tuner.end(strategy, Some(len as u64), now);
    }
}

#[test]
fn lengths_are_apart_and_shown_when_both_strategies_were_used() {
    let mut tuner = Autotuner::default();
    pairs(&mut tuner, Strategy::Ring, LENGTHS[1], 100_000);
    pairs(&mut tuner, Strategy::Kernel, LENGTHS[2], 100_000);
    assert_eq!(tuner.rates().count(), 0);
    for _ in 0..10 {
        pairs(&mut tuner, Strategy::Kernel, LENGTHS[1], 200_000);
    }
    let (len, ring, kernel) = tuner.rates().next().expect("one length");
    assert_eq!((len, ring, kernel), (LENGTHS[1], 20_971, 10_485));
}

/// The first messages by a strategy that was not used for long find its memory in no cache.
#[test]
fn what_is_cold_does_not_count() {
    let mut world = World::new(Strategy::Kernel, 1);
    world.run(FIRST as usize, of(1_000, 2_000));
    let mut cold = WARM / MIB;
    world.run(BATCH as usize + 2, |strategy| match strategy {
        Strategy::Ring if cold > 0 => {
            cold -= 1;
            50_000
        }
        Strategy::Ring => 1_000,
        Strategy::Kernel => 2_000,
    });
    let [ring, kernel] = [Strategy::Ring, Strategy::Kernel]
        .map(|strategy| world.tuner.lengths[nearest(MIB)].of(strategy).time_of(MIB));
    assert_eq!((ring, kernel), (Some(1_000), Some(2_000)));
}

/// Arbitrary times cause no overflow, and exclude no strategy for ever.
#[test]
fn any_times_will_do() {
    let mut seed = 1u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        seed >> 11
    };
    for window in [1, 3, 64] {
        let mut tuner = Autotuner::default();
        let mut flying = VecDeque::new();
        let mut now = 0u64;
        for _ in 0..100_000 {
            let bytes = [1, MIB, u64::MAX, 1 << 40][random() as usize % 4];
            if flying.len() >= window {
                let at = random() as usize % flying.len();
                let (strategy, bytes) = flying.remove(at).expect("within");
                let moved = (!random().is_multiple_of(4)).then_some(bytes);
                tuner.end(strategy, moved, now);
            }
            let model = if random().is_multiple_of(2) { Strategy::Ring } else { Strategy::Kernel };
            let strategy = tuner.choose(bytes, model);
            tuner.begin(strategy, now);
            flying.push_back((strategy, bytes));
            // A clock may stand still, jump, or go back.
            now = match random() % 4 {
                0 => now,
                1 => now.saturating_add(random()),
                2 => u64::MAX,
                _ => random(),
            };
        }
        assert_eq!(tuner.ring as usize + tuner.kernel as usize, flying.len());
        assert!(tuner.rates().all(|(_, ring, kernel)| ring < u64::MAX && kernel < u64::MAX));
    }
}
