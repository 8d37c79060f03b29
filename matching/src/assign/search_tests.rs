//! Optimality proofs: the potentials of a search bound all other assignments.

use super::cost::Cost;
use super::search::{NONE, Search, room};
use super::{Weights, solve};

/// A reproducible generator of random numbers.
struct Mix(u64);

impl Mix {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Returns weights of one family; the `range` families spread over all of it.
fn family(kind: usize, rows: usize, cols: usize, range: u64, mix: &mut Mix) -> Weights {
    let mut weights = Weights::new(rows, cols);
    let spread = |x: u64, most: u64| (u128::from(x) * u128::from(range) / u128::from(most.max(1))) as u64;
    for row in 0..rows {
        for col in 0..cols {
            let product = ((row + 1) * (col + 1)) as u64;
            let random = spread(mix.below(1 << 20), (1 << 20) - 1);
            let weight = match kind {
                0 => Some(random),
                1 => (mix.below(8) == 0).then_some(random),
                2 => Some(spread(product, (rows * cols) as u64)),
                3 => Some(range - spread(product, (rows * cols) as u64)),
                // Half of the columns have no edge: many rows stay alone and displace one another.
                4 => (col % 2 == 0).then(|| spread(product, (rows * cols) as u64)),
                5 => (col % 3 == 0 && mix.below(2) == 0).then(|| spread(mix.below(3), 2)),
                6 => (row.abs_diff(col) <= 2).then_some(random),
                _ => Some(spread(mix.below(2), 1)),
            };
            weights.set(row, col, weight);
        }
    }
    weights
}
const FAMILIES: usize = 8;

/// Runs the search and checks the proof that it leaves; returns the number of pairs.
///
/// The proof is a price for each column and row: no edge is cheaper than the prices of its ends,
/// the edges in use cost exactly that, and a vertex without a partner has price 0.
///
/// Prices have two parts. The large part, the cost of being alone, is 1 for closed rows and -1 for
/// closed columns.
fn proven<T: Cost>(weights: &Weights) -> usize {
    let (low, high) = weights.range().expect("an edge");
    let mut search = Search::<T>::new(weights, low, high);
    search.run();
    for col in 0..search.m as u32 {
        let (owner, price) = (search.owner(col), search.potential(col));
        if search.is_closed(col) {
            assert_ne!(owner, NONE, "column {col} is closed and alone");
        } else {
            assert!(price <= T::ZERO, "column {col} is open at {price:?}");
            assert!(owner != NONE || price == T::ZERO, "column {col} is alone at {price:?}");
        }
        assert!(owner == NONE || search.partner[owner as usize] == col, "column {col} is not its owner's");
    }
    let mut pairs = 0;
    for row in 0..search.n as u32 {
        let own = search.partner[row as usize];
        let price = search.row_potential(row);
        let closed = own == NONE || search.is_closed(own);
        pairs += usize::from(own != NONE);
        assert!(!closed || price <= T::ZERO, "row {row} would rather be alone than pay {price:?}");
        assert!(own == NONE || search.owner(own) == row, "row {row} is not its partner's");
        for col in 0..search.m as u32 {
            let Some(cost) = search.cost(row, col) else {
                assert_ne!(own, col, "row {row} has no edge to its partner");
                continue;
            };
            match (closed, search.is_closed(col)) {
                (true, false) => panic!("row {row} is closed and has an edge to column {col}, which is open"),
                // Costs the price of being alone: never tight.
                (false, true) => {}
                _ => assert!(cost >= price + search.potential(col), "edge ({row}, {col}) is too cheap"),
            }
        }
    }
    pairs
}

#[test]
fn potentials_prove_that_it_is_the_best() {
    let mut mix = Mix(1);
    let mut alone = 0;
    for kind in 0..FAMILIES {
        for (rows, cols) in [(1, 1), (3, 9), (9, 3), (17, 17), (40, 25), (25, 40), (64, 64), (100, 100)] {
            let weights = family(kind, rows, cols, 1_000_000, &mut mix);
            if weights.range().is_some() {
                alone += rows.min(cols) - proven::<i64>(&weights);
            }
        }
    }
    assert!(alone > 100, "rows without a partner are proven too: {alone}");
}

/// All rows want the same columns, so each search could take all paired ones: half of the square.
#[test]
fn searches_seldom_take_columns_that_others_have_taken() {
    let n = 60;
    let back = |i: usize, turned: bool| (if turned { n - i } else { i + 1 }) as u64;
    for turned in 0..4 {
        let mut weights = Weights::new(n, n);
        for row in 0..n {
            for col in 0..n {
                weights.set(row, col, Some(back(row, turned & 1 != 0) * back(col, turned & 2 != 0)));
            }
        }
        let (low, high) = weights.range().expect("an edge");
        let taken = Search::<i64>::new(&weights, low, high).run_counting();
        assert!(taken < n * n / 3, "{taken} columns, order {turned}");
    }
}

/// Returns the largest range of weights for which a type holds all sums.
fn largest_range<T: Cost>(n: usize, m: usize) -> u64 {
    let (mut low, mut high) = (0, u64::MAX);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if T::holds(middle, n, 2 * room(m)) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

/// Test builds check additions for overflow, so a sum that does not fit panics.
#[test]
fn no_sum_is_too_large_at_the_limit_of_a_type() {
    let mut mix = Mix(2);
    for (rows, cols) in [(1, 1), (2, 7), (8, 8), (33, 20), (60, 60)] {
        let (n, m) = (rows.min(cols), rows.max(cols));
        for kind in 0..FAMILIES {
            let narrow = family(kind, rows, cols, largest_range::<i32>(n, m), &mut mix);
            let wide = family(kind, rows, cols, largest_range::<i64>(n, m), &mut mix);
            let widest = family(kind, rows, cols, largest_range::<i128>(n, m), &mut mix);
            for (weights, prove) in [
                (narrow, proven::<i32> as fn(&Weights) -> usize),
                (wide, proven::<i64>),
                (widest, proven::<i128>),
            ] {
                if weights.range().is_some() {
                    prove(&weights);
                }
            }
        }
    }
}

#[test]
fn all_types_give_the_same_pairs() {
    let mut mix = Mix(3);
    for kind in 0..FAMILIES {
        for (rows, cols) in [(5, 5), (12, 30), (30, 12), (40, 40)] {
            let weights = family(kind, rows, cols, 4000, &mut mix);
            let Some((low, high)) = weights.range() else { continue };
            assert!(i32::holds(high - low, rows.min(cols), 2 * room(rows.max(cols))));
            let pairs = solve::<i32>(&weights, low, high);
            assert_eq!(pairs, solve::<i64>(&weights, low, high), "{weights:?}");
            assert_eq!(pairs, solve::<i128>(&weights, low, high), "{weights:?}");
        }
    }
}
