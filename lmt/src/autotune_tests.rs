//! Messages in simulated time, with ways whose speeds are known, and change.

use std::collections::VecDeque;

use super::*;

const MIB: u64 = 1 << 20;

/// A receiver with a window of messages under way, which come one after another.
struct World {
    trials: Trials,
    model: Way,
    now: u64,
    window: usize,
    flying: VecDeque<Way>,
}

impl World {
    fn new(model: Way, window: usize) -> World {
        World { trials: Trials::default(), model, now: 0, window, flying: VecDeque::new() }
    }

    /// So many messages of a MiB; what each takes by its way. How many went through a ring, and by the kernel.
    fn run(&mut self, messages: usize, mut takes: impl FnMut(Way) -> u64) -> (usize, usize) {
        let (mut ring, mut kernel) = (0, 0);
        for _ in 0..messages {
            if self.flying.len() == self.window {
                self.come(&mut takes);
            }
            let way = self.trials.choose(MIB, self.model);
            match way {
                Way::Ring => ring += 1,
                Way::Kernel => kernel += 1,
            }
            self.trials.begin(way, self.now);
            self.flying.push_back(way);
        }
        while !self.flying.is_empty() {
            self.come(&mut takes);
        }
        assert_eq!((self.trials.ring, self.trials.kernel), (0, 0));
        (ring, kernel)
    }

    fn come(&mut self, takes: &mut impl FnMut(Way) -> u64) {
        if let Some(way) = self.flying.pop_front() {
            self.now += takes(way);
            self.trials.end(way, Some(MIB), self.now);
        }
    }
}

fn of(ring: u64, kernel: u64) -> impl FnMut(Way) -> u64 {
    move |way| if way == Way::Ring { ring } else { kernel }
}

#[test]
fn the_model_is_right_until_both_ways_were_tried() {
    for (model, slow) in [(Way::Ring, (9_000, 1_000)), (Way::Kernel, (1_000, 9_000))] {
        for window in [1, 2, 64] {
            let mut world = World::new(model, window);
            let first = world.run(FIRST as usize, of(slow.0, slow.1));
            assert_eq!(if model == Way::Ring { first.1 } else { first.0 }, 0);
            // The trial, which the other way wins.
            world.run(2 * window + 16, of(slow.0, slow.1));
            let then = world.run(500, of(slow.0, slow.1));
            assert_eq!(then, if model == Way::Ring { (0, 500) } else { (500, 0) }, "{model:?}, {window}");
        }
    }
}

#[test]
fn what_is_no_faster_is_not_taken() {
    let mut world = World::new(Way::Ring, 1);
    // By less than it must be.
    let (ring, kernel) = world.run(1_000, of(1_000, 950));
    assert_eq!(ring + kernel, 1_000);
    assert!(kernel <= 60, "{kernel} messages for trials");
}

#[test]
fn trials_cost_little() {
    for window in [1, 16, 64] {
        for slow in [1_100, 1_500, 3_000, 8_000, 100_000] {
            let mut world = World::new(Way::Ring, window);
            // The first of them is paid for by those that follow it.
            let messages = 200_000;
            world.run(messages, of(1_000, slow));
            let ideal = messages as u64 * 1_000;
            let lost = (world.now - ideal) as f64 / ideal as f64;
            let most = if slow < 50_000 { 0.03 } else { 0.3 };
            assert!(lost < most, "{lost:.3} with a window of {window} and a way that takes {slow}");
        }
    }
}

#[test]
fn a_way_that_becomes_slow_is_left_soon_and_taken_again_when_it_is_fast() {
    for window in [1, 64] {
        let mut world = World::new(Way::Ring, window);
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
        let mut world = World::new(Way::Ring, 1);
        world.run(2_000, of(1_000, 1_200));
        // The receiver was away for a second, or not.
        let mut took = first;
        world.run(100, move |way| match way {
            Way::Ring => std::mem::replace(&mut took, 1_000),
            Way::Kernel => 1_200,
        })
    });
    assert_eq!(usual, late);
}

#[test]
fn what_came_beside_another_way_or_not_at_all_says_nothing() {
    let mut trials = Trials::default();
    let taken = |trials: &Trials| {
        let l = trials.lengths[nearest(MIB)];
        [l.ring.batch, l.kernel.batch].map(|(_, time, messages)| (time, messages))
    };
    trials.begin(Way::Ring, 0);
    trials.end(Way::Ring, None, 70);
    assert_eq!(taken(&trials), [(0, 0), (0, 0)]);
    trials.begin(Way::Ring, 100);
    trials.begin(Way::Kernel, 150);
    trials.begin(Way::Kernel, 160);
    trials.end(Way::Ring, Some(MIB), 1_000);
    // The first that ends alone has moved beside it; the time since then counts.
    trials.end(Way::Kernel, Some(MIB), 1_300);
    assert_eq!(taken(&trials), [(0, 0), (300, 1)]);
    trials.end(Way::Kernel, None, 1_400);
    // Nothing is under way: the time until the next one begins is nobody's.
    trials.begin(Way::Ring, 9_000);
    trials.end(Way::Ring, Some(MIB), 9_500);
    assert_eq!(taken(&trials), [(500, 1), (300, 1)]);
}

/// So many messages of a length by a way, in pairs that end at the same time.
fn pairs(trials: &mut Trials, way: Way, len: usize, pair: u64) {
    let mut now = 0;
    for _ in 0..BATCH / 2 {
        trials.begin(way, now);
        trials.begin(way, now);
        now += pair;
        trials.end(way, Some(len as u64), now);
        trials.end(way, Some(len as u64), now);
    }
}

#[test]
fn lengths_are_apart_and_shown_when_both_ways_were_taken() {
    let mut trials = Trials::default();
    pairs(&mut trials, Way::Ring, LENGTHS[1], 100_000);
    pairs(&mut trials, Way::Kernel, LENGTHS[2], 100_000);
    assert_eq!(trials.rates().count(), 0);
    for _ in 0..10 {
        pairs(&mut trials, Way::Kernel, LENGTHS[1], 200_000);
    }
    let (len, ring, kernel) = trials.rates().next().expect("one length");
    assert_eq!((len, ring, kernel), (LENGTHS[1], 20_971, 10_485));
}

/// The first messages by a way that was not used for long find its memory in no cache.
#[test]
fn what_is_cold_does_not_count() {
    let mut world = World::new(Way::Kernel, 1);
    world.run(FIRST as usize, of(1_000, 2_000));
    let mut cold = WARM / MIB;
    world.run(BATCH as usize + 2, |way| match way {
        Way::Ring if cold > 0 => {
            cold -= 1;
            50_000
        }
        Way::Ring => 1_000,
        Way::Kernel => 2_000,
    });
    let [ring, kernel] =
        [Way::Ring, Way::Kernel].map(|way| world.trials.lengths[nearest(MIB)].of(way).time_of(MIB));
    assert_eq!((ring, kernel), (Some(1_000), Some(2_000)));
}

/// Whatever the times are, nothing overflows, and no way is lost for ever.
#[test]
fn any_times_will_do() {
    let mut seed = 1u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        seed >> 11
    };
    for window in [1, 3, 64] {
        let mut trials = Trials::default();
        let mut flying = VecDeque::new();
        let mut now = 0u64;
        for _ in 0..100_000 {
            let bytes = [1, MIB, u64::MAX, 1 << 40][random() as usize % 4];
            if flying.len() >= window {
                let at = random() as usize % flying.len();
                let (way, bytes) = flying.remove(at).expect("within");
                let moved = (!random().is_multiple_of(4)).then_some(bytes);
                trials.end(way, moved, now);
            }
            let model = if random().is_multiple_of(2) { Way::Ring } else { Way::Kernel };
            let way = trials.choose(bytes, model);
            trials.begin(way, now);
            flying.push_back((way, bytes));
            // A clock may stand still, jump, or go back.
            now = match random() % 4 {
                0 => now,
                1 => now.saturating_add(random()),
                2 => u64::MAX,
                _ => random(),
            };
        }
        assert_eq!(trials.ring as usize + trials.kernel as usize, flying.len());
        assert!(trials.rates().all(|(_, ring, kernel)| ring < u64::MAX && kernel < u64::MAX));
    }
}
