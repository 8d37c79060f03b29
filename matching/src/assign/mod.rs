//! The assignment: most pairs first, then the largest sum of weights, then the lexicographic order.
//!
//! The result is exact for any weights. Two processes that compute it from the same weights get the
//! same pairs, independent of the order of the search.

mod canonical;
mod cost;
mod search;

#[cfg(test)]
mod search_tests;
#[cfg(test)]
mod tests;

use cost::Cost;
use search::Search;

/// The weights of a bipartite graph: one for each pair of a row and a column that has an edge.
#[derive(Clone, Debug, Default)]
pub struct Weights {
    rows: usize,
    cols: usize,
    /// Weights row by row; 0 where there is no edge.
    values: Vec<u64>,
    /// True where there is an edge; no weight is free to mean "none".
    edges: Vec<bool>,
}

impl Weights {
    /// Creates a graph with so many rows and columns and no edges.
    pub fn new(rows: usize, cols: usize) -> Weights {
        let cells = rows.saturating_mul(cols);
        Weights { rows, cols, values: vec![0; cells], edges: vec![false; cells] }
    }

    /// Sets the weight of an edge, or removes the edge.
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

    /// Returns the weight of an edge; `None` if there is no such edge, row or column.
    pub fn get(&self, row: usize, col: usize) -> Option<u64> {
        if row >= self.rows || col >= self.cols {
            return None;
        }
        let at = row * self.cols + col;
        self.edges[at].then(|| self.values[at])
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns the smallest and the largest weight, or `None` without edges.
    fn range(&self) -> Option<(u64, u64)> {
        let (mut low, mut high) = (u64::MAX, 0);
        for (&value, &edge) in self.values.iter().zip(&self.edges) {
            low = low.min(if edge { value } else { u64::MAX });
            high = high.max(value);
        }
        (low <= high).then_some((low, high))
    }
}

/// Returns the pairs (row, column) of the optimal assignment, sorted by row.
///
/// It has as many pairs as possible; of those choices, one with the largest sum of weights; of
/// those, the one whose list of partners is lexicographically smallest. The list is that of the
/// smaller side (the rows if both have the same size), and being without a partner comes after
/// every partner.
///
/// The assignment of the transposed weights is therefore the mirror image, unless there are as many
/// rows as columns. Then the caller decides whose order counts, by what it makes the rows.
pub fn assign(weights: &Weights) -> Vec<(usize, usize)> {
    let Some((low, high)) = weights.range() else { return Vec::new() };
    // All largest matchings have the same number of pairs, so only differences of weights count.
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

/// Solves [`assign`] with costs of one type; a cost is the distance to the highest weight.
fn solve<T: Cost>(weights: &Weights, low: u64, high: u64) -> Vec<(usize, usize)> {
    let mut search = Search::<T>::new(weights, low, high);
    search.run();
    canonical::refine(&mut search);
    if weights.rows <= weights.cols { pairs(search.partners()) } else { pairs(search.owners()) }
}

/// Returns the pairs of the vertices that have a partner.
fn pairs(partners: impl Iterator<Item = Option<usize>>) -> Vec<(usize, usize)> {
    partners.enumerate().filter_map(|(i, partner)| Some((i, partner?))).collect()
}
