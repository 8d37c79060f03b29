//! Tests of the generator: the sequence is the published one, and derived values have the right
//! bounds and frequencies.

use super::*;

#[test]
fn the_sequence_is_that_of_splitmix64() {
    // The first numbers of the reference implementation (Vigna, splitmix64.c) for the seed 1234567.
    let mut rng = Rng::new(1_234_567);
    let first = [0; 5].map(|_: u64| rng.word());
    let reference = [
        6_457_827_717_110_365_317,
        3_203_168_211_198_807_973,
        9_817_491_932_198_370_423,
        4_593_380_528_125_082_431,
        16_408_922_859_458_223_821,
    ];
    assert_eq!(first, reference);
}

#[test]
fn numbers_stay_below_and_all_of_them_come() {
    let mut rng = Rng::new(5);
    let mut seen = [0; 7];
    (0..7000).for_each(|_| seen[rng.below(7) as usize] += 1);
    assert!(seen.iter().all(|n| (900..1100).contains(n)), "{seen:?}");
    assert_eq!(rng.below(0), 0);
    let hits = (0..8000).filter(|_| rng.one_in(8)).count();
    assert!((900..1100).contains(&hits), "{hits}");
    assert!((0..100).map(|_| rng.pick(&[3, 4])).all(|n| n == 3 || n == 4));
}

#[test]
fn probabilities_are_met_and_certainties_cost_nothing() {
    let mut rng = Rng::new(1);
    let hits = (0..100_000).filter(|_| rng.chance(0.2)).count();
    assert!((19_000..21_000).contains(&hits), "{hits}");
    let next = rng.clone().word();
    assert!(!rng.chance(0.0) && rng.chance(1.0));
    assert_eq!(rng.word(), next);
}

#[test]
fn what_is_shuffled_is_all_there_in_every_order() {
    let mut rng = Rng::new(2);
    let mut orders = std::collections::BTreeMap::new();
    for _ in 0..6000 {
        let mut items = [0, 1, 2];
        rng.shuffle(&mut items);
        *orders.entry(items).or_insert(0) += 1;
    }
    assert_eq!(orders.len(), 6);
    assert!(
        orders.iter().all(|(items, n)| items.iter().sum::<i32>() == 3 && (850..1150).contains(n)),
        "{orders:?}"
    );
}

#[test]
fn numbers_stay_in_bounds_and_repeat() {
    let (mut a, mut b) = (Rng::new(5), Rng::new(5));
    let mut seen = [0; 7];
    for _ in 0..1000 {
        let n = a.range(3, 9);
        assert_eq!(n, b.range(3, 9));
        seen[(n - 3) as usize] += 1;
    }
    assert!(seen.iter().all(|n| *n > 90), "{seen:?}");
    assert_eq!((a.below(0), a.index(0)), (0, 0));
}

#[test]
fn purposes_of_a_seed_differ() {
    let draw = |seed, purpose: [u64; 3]| {
        let mut rng = Rng::for_purpose(seed, &purpose);
        [rng.word(), rng.word(), rng.word()]
    };
    assert_eq!(draw(7, [1, 2, 3]), draw(7, [1, 2, 3]));
    for other in [(8, [1, 2, 3]), (7, [2, 1, 3]), (7, [1, 2, 4])] {
        assert_ne!(draw(7, [1, 2, 3]), draw(other.0, other.1));
    }
}

#[test]
fn failures_are_as_many_as_their_probability_says() {
    let mut rng = Rng::new(1);
    let mean = (0..10_000).map(|_| rng.failures(0.01)).sum::<u64>() / 10_000;
    assert!((90..110).contains(&mean), "{mean}");
    assert_eq!((rng.failures(0.0), rng.failures(1.0)), (u64::MAX, 0));
}
