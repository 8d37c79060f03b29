//! The assignment: as many pairs as possible, of those the heaviest, of those the first.
//!
//! Exact, for any weights: two processes that compute it from the same weights get the same pairs, whatever
//! the order in which the search happens to find them.

mod canonical;
mod cost;
mod search;

#[cfg(test)]
mod search_tests;
#[cfg(test)]
mod tests;

use cost::Cost;
use search::Search;

/// What each pair of a row and a column is worth, and which pairs there are.
#[derive(Clone, Debug, Default)]
pub struct Weights {
    rows: usize,
    cols: usize,
    /// Row by row; 0 where there is no edge.
    values: Vec<u64>,
    /// Whether there is an edge: every number is a weight, so none can say that there is none.
    edges: Vec<bool>,
}

impl Weights {
    /// So many rows and columns, and no edge between them.
    pub fn new(rows: usize, cols: usize) -> Weights {
        let cells = rows.saturating_mul(cols);
        Weights { rows, cols, values: vec![0; cells], edges: vec![false; cells] }
    }

    /// The edge of a row and a column weighs so much, or there is none.
    ///
    /// # Panics
    ///
    /// If there is no such row or column.
    pub fn set(&mut self, row: usize, col: usize, weight: Option<u64>) {
        assert!(row < self.rows && col < self.cols, "edge ({row}, {col}) of {} x {}", self.rows, self.cols);
        let at = row * self.cols + col;
        self.values[at] = weight.unwrap_or(0);
        self.edges[at] = weight.is_some();
    }

    /// What the edge of a row and a column weighs. None if there is no such edge, row or column.
    pub fn get(&self, row: usize, col: usize) -> Option<u64> {
        if row >= self.rows || col >= self.cols {
            return None;
        }
        let at = row * self.cols + col;
        self.edges[at].then(|| self.values[at])
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The smallest and the largest weight, if there is an edge at all.
    fn range(&self) -> Option<(u64, u64)> {
        let (mut low, mut high) = (u64::MAX, 0);
        for (&value, &edge) in self.values.iter().zip(&self.edges) {
            low = low.min(if edge { value } else { u64::MAX });
            high = high.max(value);
        }
        (low <= high).then_some((low, high))
    }
}

/// The pairs (row, column), sorted by row.
///
/// As many as there can be; of all such choices one with the largest sum of weights; of those the one whose
/// partners, listed for the smaller side (the rows if there are as many), are lexicographically smallest, where
/// a row or column without a partner comes after any with one. So the assignment of the transposed weights
/// is the mirror image, unless there are as many rows as columns; then the caller says, by what
/// it makes the rows, whose order decides.
pub fn assign(weights: &Weights) -> Vec<(usize, usize)> {
    let Some((low, high)) = weights.range() else { return Vec::new() };
    // All largest sets of pairs have as many, so that only differences of weights count.
    let range = high - low;
    let smaller = weights.rows.min(weights.cols);
    let scale = 2 * search::room(weights.rows.max(weights.cols));
    if i32::holds(range, smaller, scale) {
        solve::<i32>(weights, low, high)
    } else if i64::holds(range, smaller, scale) {
        solve::<i64>(weights, low, high)
    } else {
        solve::<i128>(weights, low, high)
    }
}

/// [`assign`] with costs (the distance to the highest weight) of one type.
fn solve<T: Cost>(weights: &Weights, low: u64, high: u64) -> Vec<(usize, usize)> {
    let mut search = Search::<T>::new(weights, low, high);
    search.run();
    canonical::refine(&mut search);
    if weights.rows <= weights.cols { pairs(search.partners()) } else { pairs(search.owners()) }
}

/// The pairs of those that have a partner.
fn pairs(partners: impl Iterator<Item = Option<usize>>) -> Vec<(usize, usize)> {
    partners.enumerate().filter_map(|(i, partner)| Some((i, partner?))).collect()
}
