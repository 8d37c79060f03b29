//! The solver against brute force, against its mirror image, and against its own potentials.

use proptest::prelude::*;

use super::{Weights, assign};

/// A list of rows.
fn weights(rows: &[&[Option<u64>]]) -> Weights {
    let mut weights = Weights::new(rows.len(), rows.first().map_or(0, |r| r.len()));
    for (row, values) in rows.iter().enumerate() {
        for (col, value) in values.iter().enumerate() {
            weights.set(row, col, *value);
        }
    }
    weights
}

fn transposed(weights: &Weights) -> Weights {
    let mut mirror = Weights::new(weights.cols(), weights.rows());
    for row in 0..weights.rows() {
        for col in 0..weights.cols() {
            mirror.set(col, row, weights.get(row, col));
        }
    }
    mirror
}

/// How many pairs, and their sum.
fn value(weights: &Weights, pairs: &[(usize, usize)]) -> (usize, u128) {
    (pairs.len(), pairs.iter().map(|&(row, col)| u128::from(weights.get(row, col).expect("an edge"))).sum())
}

/// The best of all, by trying all; `weights` has no more rows than columns.
fn brute_force(weights: &Weights) -> Vec<(usize, usize)> {
    type Best = Option<((usize, u128), Vec<usize>)>;
    fn go(weights: &Weights, taken: &mut Vec<usize>, sum: (usize, u128), best: &mut Best) {
        let row = taken.len();
        if row == weights.rows() {
            // Ascending order of partners: the first of equals is the smallest.
            if best.as_ref().is_none_or(|(b, _)| sum > *b) {
                *best = Some((sum, taken.clone()));
            }
            return;
        }
        for col in 0..weights.cols() {
            if let Some(weight) = weights.get(row, col)
                && !taken.contains(&col)
            {
                taken.push(col);
                go(weights, taken, (sum.0 + 1, sum.1 + u128::from(weight)), best);
                taken.pop();
            }
        }
        taken.push(usize::MAX);
        go(weights, taken, sum, best);
        taken.pop();
    }
    let mut best = None;
    go(weights, &mut Vec::new(), (0, 0), &mut best);
    let (_, partners) = best.expect("at least the empty one");
    partners.into_iter().enumerate().filter(|&(_, col)| col != usize::MAX).collect()
}

/// The same for any shape.
fn expected(weights: &Weights) -> Vec<(usize, usize)> {
    if weights.rows() <= weights.cols() {
        return brute_force(weights);
    }
    let mut pairs: Vec<_> = brute_force(&transposed(weights)).into_iter().map(|(a, b)| (b, a)).collect();
    pairs.sort_unstable();
    pairs
}

/// Weights of any shape up to that many rows and columns.
fn any_weights(most: usize, value: BoxedStrategy<Option<u64>>) -> impl Strategy<Value = Weights> {
    (0..=most, 0..=most).prop_flat_map(move |(rows, cols)| {
        proptest::collection::vec(value.clone(), rows * cols).prop_map(move |values| {
            let mut weights = Weights::new(rows, cols);
            for (at, value) in values.into_iter().enumerate() {
                weights.set(at / cols, at % cols, value);
            }
            weights
        })
    })
}

/// Ties, few edges, full range.
fn any_value() -> BoxedStrategy<Option<u64>> {
    any::<u64>().prop_map(Some).boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn it_is_the_best_and_the_first(
        weights in prop_oneof![
            any_weights(6, prop_oneof![Just(None), (0u64..3).prop_map(Some)].boxed()),
            any_weights(6, prop_oneof![3 => Just(None), 1 => (0u64..2).prop_map(Some)].boxed()),
            any_weights(6, (0u64..2).prop_map(Some).boxed()),
            any_weights(5, prop_oneof![Just(None), any_value(), Just(Some(u64::MAX)), Just(Some(0))].boxed()),
        ]
    ) {
        prop_assert_eq!(assign(&weights), expected(&weights), "{:?}", weights);
    }

    #[test]
    fn the_order_of_rows_and_columns_does_not_change_how_good_it_is(
        (weights, rows, cols) in any_weights(12, prop_oneof![Just(None), (0u64..6).prop_map(Some), any_value()].boxed())
            .prop_flat_map(|weights| {
                let order = |n: usize| Just((0..n).collect::<Vec<_>>()).prop_shuffle();
                let (rows, cols) = (order(weights.rows()), order(weights.cols()));
                (Just(weights), rows, cols)
            })
    ) {
        let mut shuffled = Weights::new(weights.rows(), weights.cols());
        for (row, &from) in rows.iter().enumerate() {
            for (col, &at) in cols.iter().enumerate() {
                shuffled.set(row, col, weights.get(from, at));
            }
        }
        prop_assert_eq!(value(&weights, &assign(&weights)), value(&shuffled, &assign(&shuffled)));
    }
}

#[test]
fn more_pairs_come_before_heavier_ones() {
    let weights = weights(&[&[Some(10), Some(1)], &[Some(5), None]]);
    assert_eq!(assign(&weights), [(0, 1), (1, 0)]);
}
