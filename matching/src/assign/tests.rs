//! The solver against brute force, against its mirror image, and against its own potentials.

use proptest::prelude::*;

use super::{Weights, assign};

/// Builds weights from a list of rows.
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

/// Returns the number of pairs and the sum of their weights.
fn value(weights: &Weights, pairs: &[(usize, usize)]) -> (usize, u128) {
    (pairs.len(), pairs.iter().map(|&(row, col)| u128::from(weights.get(row, col).expect("an edge"))).sum())
}

/// Returns the best assignment by trying all; `weights` has no more rows than columns.
fn brute_force(weights: &Weights) -> Vec<(usize, usize)> {
    type Best = Option<((usize, u128), Vec<usize>)>;
    fn go(weights: &Weights, taken: &mut Vec<usize>, sum: (usize, u128), best: &mut Best) {
        let row = taken.len();
        if row == weights.rows() {
            // Partners are tried in ascending order, so the first of equals is the smallest.
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

/// Returns the best assignment for any shape.
fn expected(weights: &Weights) -> Vec<(usize, usize)> {
    if weights.rows() <= weights.cols() {
        return brute_force(weights);
    }
    let mut pairs: Vec<_> = brute_force(&transposed(weights)).into_iter().map(|(a, b)| (b, a)).collect();
    pairs.sort_unstable();
    pairs
}

/// Weights of any shape, up to `most` rows and columns.
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

/// Any weight, over the full range.
fn any_value() -> BoxedStrategy<Option<u64>> {
    any::<u64>().prop_map(Some).boxed()
}

/// Returns the first optimum, found the slow way.
///
/// Each vertex of the smaller side gets the first partner that keeps the optimum. The value of the
/// optimum must be right already; `weights` has no more rows than columns.
fn first_by_trial(weights: &Weights) -> Vec<(usize, usize)> {
    let best = value(weights, &assign(weights));
    let (mut fixed, mut pairs) = (weights.clone(), Vec::new());
    for row in 0..weights.rows() {
        for col in 0..weights.cols() {
            let Some(weight) = fixed.get(row, col) else { continue };
            let mut only = fixed.clone();
            for other in 0..weights.cols() {
                only.set(row, other, (other == col).then_some(weight));
            }
            // Nobody else may have the column, so the row must take it where that keeps the
            // optimum.
            for below in row + 1..weights.rows() {
                only.set(below, col, None);
            }
            if value(&only, &assign(&only)) == best {
                fixed = only;
                pairs.push((row, col));
                break;
            }
        }
        if pairs.last().is_none_or(|&(paired, _)| paired != row) {
            (0..weights.cols()).for_each(|col| fixed.set(row, col, None));
        }
    }
    pairs
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn it_is_the_best_and_the_first(
        weights in prop_oneof![
            any_weights(6, prop_oneof![Just(None), (0u64..3).prop_map(Some)].boxed()),
            any_weights(6, prop_oneof![3 => Just(None), 1 => (0u64..2).prop_map(Some)].boxed()),
            any_weights(6, (0u64..2).prop_map(Some).boxed()),
            any_weights(6, prop_oneof![2 => Just(None), 1 => Just(Some(0))].boxed()),
            any_weights(5, prop_oneof![Just(None), any_value(), Just(Some(u64::MAX)), Just(Some(0))].boxed()),
        ]
    ) {
        prop_assert_eq!(assign(&weights), expected(&weights), "{:?}", weights);
    }

    #[test]
    fn the_mirror_image_has_mirrored_pairs(
        weights in prop_oneof![
            any_weights(16, prop_oneof![Just(None), (0u64..3).prop_map(Some)].boxed()),
            any_weights(16, prop_oneof![Just(None), any_value()].boxed()),
        ]
    ) {
        let pairs = assign(&weights);
        let mut mirrored: Vec<_> = assign(&transposed(&weights)).into_iter().map(|(col, row)| (row, col)).collect();
        mirrored.sort_unstable();
        if weights.rows() == weights.cols() {
            prop_assert_eq!(value(&weights, &pairs), value(&weights, &mirrored));
        } else {
            prop_assert_eq!(pairs, mirrored);
        }
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn it_is_the_first_where_brute_force_takes_too_long(
        weights in any_weights(13, prop_oneof![2 => Just(None), 3 => (0u64..2).prop_map(Some)].boxed())
    ) {
        let upright = if weights.rows() <= weights.cols() { weights } else { transposed(&weights) };
        let mut pairs = first_by_trial(&upright);
        prop_assert_eq!(&assign(&upright), &pairs, "{:?}", upright);
        if upright.rows() < upright.cols() {
            pairs.iter_mut().for_each(|(row, col)| core::mem::swap(row, col));
            pairs.sort_unstable();
            prop_assert_eq!(assign(&transposed(&upright)), pairs, "{:?}, transposed", upright);
        }
    }
}

/// Builds weights by a function.
fn filled(rows: usize, cols: usize, value: impl Fn(usize, usize) -> Option<u64>) -> Weights {
    let mut weights = Weights::new(rows, cols);
    for row in 0..rows {
        for col in 0..cols {
            weights.set(row, col, value(row, col));
        }
    }
    weights
}

#[test]
fn graphs_without_edges_have_no_pairs() {
    for (rows, cols) in [(0, 0), (0, 5), (5, 0), (5, 5), (2000, 2000)] {
        assert_eq!(assign(&Weights::new(rows, cols)), [], "{rows} x {cols}");
    }
}

#[test]
fn many_that_are_equal_stay_in_order() {
    let same: Vec<_> = (0..700).map(|i| (i, i)).collect();
    assert_eq!(assign(&filled(700, 700, |_, _| Some(u64::MAX))), same);
    assert_eq!(assign(&filled(700, 2000, |_, _| Some(0))), same);
    assert_eq!(assign(&filled(2000, 700, |_, _| Some(1))), same);
}

#[test]
fn large_ones_that_all_want_the_same_are_solved() {
    let all = (1u64 << 40) * 150 * 150;
    let weights = filled(150, 150, |row, col| Some(all - (1 << 40) * (row as u64 + 1) * (col as u64 + 1)));
    let back: Vec<_> = (0..150).map(|i| (i, 149 - i)).collect();
    assert_eq!(assign(&weights), back);
    // All rows compete for the few columns that have edges: the largest rows get them, whatever the
    // order.
    let crowded = filled(400, 400, |row, col| (col % 4 == 1).then_some((row as u64 + 1) * (col as u64 + 1)));
    let largest: Vec<_> = (0..100).map(|i| (300 + i, 4 * i + 1)).collect();
    assert_eq!(assign(&crowded), largest);
    assert_eq!(assign(&transposed(&crowded)), largest.iter().map(|&(a, b)| (b, a)).collect::<Vec<_>>());
    // A path: each row can have either of two columns, and the last row only one.
    let path =
        filled(1500, 1500, |row, col| (row == col || row == col + 1 || row + 1500 == col + 1).then_some(5));
    assert_eq!(assign(&path).len(), 1500);
}

#[test]
fn no_weight_is_too_large() {
    let weights = weights(&[
        &[Some(u64::MAX), Some(u64::MAX - 1), Some(0)],
        &[Some(u64::MAX), Some(0), None],
        &[Some(u64::MAX - 1), Some(1), None],
    ]);
    // 0 + 0 + (MAX - 1) and 0 + MAX + 1 are three pairs each: the second sum is larger by 2.
    assert_eq!(assign(&weights), [(0, 2), (1, 0), (2, 1)]);
}

/// The free column of the row with a choice costs as much as the contested one: the row must not
/// take that.
#[test]
fn a_row_with_a_choice_leaves_the_contested_column() {
    let scarce = weights(&[&[Some(5), Some(5), None], &[Some(5), None, None], &[Some(5), None, None]]);
    assert_eq!(assign(&scarce), [(0, 1), (1, 0)]);
    let twice = filled(5, 5, |row, col| (row == 0 && col < 3 || row > 0 && col < 2).then_some(1));
    assert_eq!(assign(&twice), [(0, 2), (1, 0), (2, 1)]);
}

#[test]
fn what_is_set_can_be_got() {
    let mut weights = Weights::new(2, 3);
    weights.set(1, 2, Some(0));
    weights.set(0, 0, Some(7));
    assert_eq!((weights.rows(), weights.cols()), (2, 3));
    assert_eq!((weights.get(1, 2), weights.get(0, 0), weights.get(0, 1)), (Some(0), Some(7), None));
    assert_eq!(
        (weights.get(2, 0), weights.get(0, 3), weights.get(usize::MAX, usize::MAX)),
        (None, None, None)
    );
    weights.set(0, 0, None);
    assert_eq!(assign(&weights), [(1, 2)]);
}

#[test]
#[should_panic(expected = "edge (1, 3) of 2 x 3")]
fn what_does_not_exist_cannot_be_set() {
    Weights::new(2, 3).set(1, 3, None);
}

#[test]
fn more_pairs_come_before_heavier_ones() {
    let weights = weights(&[&[Some(10), Some(1)], &[Some(5), None]]);
    assert_eq!(assign(&weights), [(0, 1), (1, 0)]);
}
