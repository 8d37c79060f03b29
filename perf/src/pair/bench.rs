//! `pair --bench`: cost of the assignment, compared with a textbook algorithm.

use std::hint::black_box;
use std::time::Instant;

use netmod_matching::{Weights, assign};

use super::reference;
use crate::cli::{PairingArgs, WeightFamily};
use crate::error::{Failure, Result};
use crate::progress::Progress;
use crate::report::{Row, median, rounded};
use crate::sys;

/// Approximate duration of a round in microseconds; one solution may take longer.
const ROUND_US: f64 = 1000.0;

/// A reproducible random number generator.
struct Mix(u64);

impl Mix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

/// Makes the weights for `n` interfaces per side.
fn weights(family: WeightFamily, n: usize) -> Weights {
    let mut mix = Mix(n as u64);
    let mut weights = Weights::new(n, n);
    for row in 0..n {
        for col in 0..n {
            let random = mix.next();
            let weight = match family {
                WeightFamily::Uniform => Some(1),
                WeightFamily::Random => Some(random & 0xffff_ffff),
                WeightFamily::Sparse => (random >> 62 == 0).then_some(random & 0xffff_ffff),
                WeightFamily::Product => Some((row as u64 + 1) * (col as u64 + 1)),
            };
            weights.set(row, col, weight);
        }
    }
    weights
}

/// Returns the microseconds per call of `times` calls.
fn time<T>(times: u32, mut what: impl FnMut() -> T) -> f64 {
    let start = Instant::now();
    for _ in 0..times {
        black_box(what());
    }
    start.elapsed().as_secs_f64() * 1e6 / f64::from(times)
}

/// Returns the number of calls that fit into a round.
fn times_in_a_round<T>(mut what: impl FnMut() -> T) -> u32 {
    // The first call has cold caches.
    what();
    (ROUND_US / time(1, what).max(0.01)).clamp(1.0, 1e5) as u32
}

/// Measures each family with each number of interfaces; solver and textbook algorithm alternate.
///
/// # Errors
/// If their results differ.
pub(super) fn measure(args: &PairingArgs) -> Result<Vec<Row>> {
    if let Ok(cores) = sys::allowed_cores()
        && let Some(core) = cores.first()
    {
        // Staying on one core keeps the caches warm; a failure only makes the figures vary more.
        let _ = sys::pin(*core);
    }
    // Estimated duration of both, in seconds.
    let work = |n: usize| (n as f64).powi(3).max(1.0) * 1e-9;
    let all: f64 = args.bench.iter().map(|&n| work(n)).sum::<f64>() * args.weights.len() as f64;
    let progress = Progress::bar(all * f64::from(args.rounds));
    let mut rows = Vec::new();
    for &family in &args.weights {
        let first = rows.len();
        for &n in &args.bench {
            progress.show(format!("{} {n} x {n}", family.name()));
            rows.push(one(family, n, args.rounds, || progress.advance(work(n)))?);
        }
        add_growth(&mut rows[first..]);
    }
    Ok(rows)
}

/// Measures one family with one number of interfaces.
fn one(family: WeightFamily, n: usize, rounds: u32, mut after_round: impl FnMut()) -> Result<Row> {
    let weights = weights(family, n);
    let pairs = assign(&weights);
    let here = (pairs.len(), pairs.iter().filter_map(|&(row, col)| weights.get(row, col)).sum::<u64>());
    let there = reference::assign(&weights);
    if here != there {
        return Err(Failure::new(format!(
            "the assignment of {n} x {n} {} weights has {} pairs with total weight {}, that of the textbook algorithm {} with total weight {}: \
             please report this",
            family.name(),
            here.0,
            here.1,
            there.0,
            there.1
        )));
    }
    let often = times_in_a_round(|| assign(&weights));
    let floor_often = times_in_a_round(|| reference::assign(&weights));
    let (mut times, mut floors) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        times.push(time(often, || assign(black_box(&weights))));
        floors.push(time(floor_often, || reference::assign(black_box(&weights))));
        after_round();
    }
    let ratios: Vec<f64> = times.iter().zip(&floors).map(|(here, floor)| here / floor).collect();
    Ok(Row {
        test: "pair".into(),
        kind: Some(family.name().into()),
        nics: Some(n),
        value: rounded(median(&times)),
        unit: "us".into(),
        floor: Some(rounded(median(&floors))),
        floor_kind: Some("the textbook Hungarian algorithm, without a rule for ties".into()),
        ratio: Some(rounded(median(&ratios))),
        rounds: Some(rounds as usize),
        best: times.iter().copied().reduce(f64::min).map(rounded),
        ..Row::default()
    })
}

/// Adds to the largest row the exponent by which the time grows from the second largest.
fn add_growth(rows: &mut [Row]) {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|&i| rows[i].nics);
    let [.., second, largest] = order[..] else { return };
    let size = |i: usize| rows[i].nics.unwrap_or(0) as f64;
    let exponent = (rows[largest].value / rows[second].value).ln() / (size(largest) / size(second)).ln();
    if exponent.is_finite() {
        rows[largest].growth = Some(rounded(exponent));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_what_they_are_called() {
        let edges = |family| {
            let weights = weights(family, 60);
            let cells = (0..60).flat_map(|row| (0..60).map(move |col| (row, col)));
            cells.filter_map(|(row, col)| weights.get(row, col)).collect::<Vec<u64>>()
        };
        assert_eq!(edges(WeightFamily::Uniform), [1; 3600]);
        assert_eq!(edges(WeightFamily::Product)[61], 4);
        let random = edges(WeightFamily::Random);
        assert!(random.len() == 3600 && random.iter().any(|w| *w > 1 << 31), "{random:?}");
        assert!(random.iter().all(|w| *w < 1 << 32));
        let sparse = edges(WeightFamily::Sparse).len();
        assert!((800..1000).contains(&sparse), "{sparse}");
    }

    #[test]
    fn the_textbook_finds_an_optimum() {
        let mut weights = Weights::new(2, 3);
        weights.set(0, 1, Some(10));
        weights.set(0, 2, Some(4));
        weights.set(1, 1, Some(5));
        assert_eq!(reference::assign(&weights), (2, 9));
        assert_eq!(reference::assign(&Weights::new(3, 3)), (0, 0));
        assert_eq!(reference::assign(&Weights::new(0, 0)), (0, 0));
    }

    #[test]
    fn growth_is_between_the_two_largest() {
        let row = |n, value| Row { nics: Some(n), value, ..Row::default() };
        let mut rows = [row(300, 800.0), row(4, 0.1), row(150, 100.0)];
        add_growth(&mut rows);
        assert_eq!(rows.map(|r| r.growth), [Some(3.0), None, None]);
        let mut alone = [row(30, 1.0)];
        add_growth(&mut alone);
        assert_eq!(alone[0].growth, None);
    }
}
