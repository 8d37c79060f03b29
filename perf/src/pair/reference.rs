//! The floor of `pair --bench`: a textbook assignment algorithm.
//!
//! The Hungarian algorithm on a dense matrix of 64-bit integers, row by row, in O(n^3). A missing
//! edge costs more than all others together. It finds any optimum.

use netmod_matching::Weights;

/// Finds a maximum matching with the largest sum of weights. Returns the number of pairs and the
/// sum. Requires at least as many columns as rows, and sums that fit.
pub(super) fn assign(weights: &Weights) -> (usize, u64) {
    let (rows, cols) = (weights.rows(), weights.cols());
    let cells = || (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col)));
    let high = cells().filter_map(|(row, col)| weights.get(row, col)).max().unwrap_or(0) as i64;
    let forbidden = (high + 1) * (rows as i64 + 1);
    let cost: Vec<i64> = cells()
        .map(|(row, col)| weights.get(row, col).map_or(forbidden, |weight| high - weight as i64))
        .collect();

    // Column 0 stands for the row being added; rows count from 1, and 0 means none.
    let (mut of_row, mut of_col) = (vec![0; rows + 1], vec![0; cols + 1]);
    let (mut owner, mut before) = (vec![0; cols + 1], vec![0; cols + 1]);
    for row in 1..=rows {
        owner[0] = row;
        let mut col = 0;
        let mut least = vec![i64::MAX; cols + 1];
        let mut used = vec![false; cols + 1];
        while owner[col] != 0 {
            used[col] = true;
            let (from, mut delta, mut next) = (owner[col], i64::MAX, 0);
            for to in 1..=cols {
                if used[to] {
                    continue;
                }
                let reduced = cost[(from - 1) * cols + to - 1] - of_row[from] - of_col[to];
                if reduced < least[to] {
                    (least[to], before[to]) = (reduced, col);
                }
                if least[to] < delta {
                    (delta, next) = (least[to], to);
                }
            }
            for to in 0..=cols {
                if used[to] {
                    of_row[owner[to]] += delta;
                    of_col[to] -= delta;
                } else {
                    least[to] -= delta;
                }
            }
            col = next;
        }
        while col != 0 {
            owner[col] = owner[before[col]];
            col = before[col];
        }
    }
    let pairs = (1..=cols).filter(|&col| owner[col] != 0);
    let found: Vec<u64> = pairs.filter_map(|col| weights.get(owner[col] - 1, col - 1)).collect();
    (found.len(), found.iter().sum())
}
