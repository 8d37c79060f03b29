//! Shortest augmenting paths with potentials, over the edges that exist.
//!
//! The smaller side are the rows here. A row that finds no free column may leave another row, or itself, without a
//! partner: whichever is cheapest. The columns of such a search are closed from then on: as no
//! edge leads out of them, no row ever finds a free column by one of them, so that a search goes through
//! them only after all the others, and only to displace. That is what a column of its own for each row would
//! give, at a cost above all sums; but this way there is no such cost, and narrower integers do.

use super::Weights;
use super::cost::Cost;

/// No row, no column.
pub(super) const NONE: u32 = u32::MAX;

/// A matching that grows by a row at a time, always the cheapest of its rows.
pub(super) struct Search<T> {
    /// Rows.
    pub(super) n: usize,
    /// Columns, at least as many.
    pub(super) m: usize,
    /// Row by row.
    pub(super) cost: Vec<T>,
    /// Potentials of the columns: at most 0 for those that are not closed, 0 for those without an owner.
    /// That of a row is the rest of the cost of its pair, or 0.
    pub(super) potential: Vec<T>,
    /// The column of each row.
    pub(super) partner: Vec<u32>,
    /// The row of each column.
    pub(super) owner: Vec<u32>,
    /// The columns that are closed, in the order in which they were.
    closed: Vec<u32>,
    /// Whether each is.
    pub(super) is_closed: Vec<bool>,
    /// Distances of the columns from the row that the search began with.
    distance: Vec<T>,
    /// Lifts those columns above all others that are not to be taken: the closed and the taken.
    gate: Vec<T>,
    /// The row before each column.
    before: Vec<u32>,
    /// Columns that the search has taken.
    taken: Vec<u32>,
}

/// Where a search ended.
enum End<T> {
    /// At a free column.
    Column(u32, T),
    /// At a row which is left without a partner.
    Row(u32, T),
}

impl<T: Cost> Search<T> {
    /// The costs are the distances to the highest weight.
    pub(super) fn new(weights: &Weights, high: u64) -> Search<T> {
        let (rows, cols) = (weights.rows, weights.cols);
        let cost_of = |at: usize| {
            if weights.edges[at] { T::of(high - weights.values[at]) } else { T::FORBIDDEN }
        };
        let cost: Vec<T> = if rows <= cols {
            (0..rows * cols).map(cost_of).collect()
        } else {
            (0..cols).flat_map(|col| (0..rows).map(move |row| row * cols + col)).map(cost_of).collect()
        };
        let (n, m) = (rows.min(cols), rows.max(cols));
        Search {
            n,
            m,
            cost,
            potential: vec![T::ZERO; m],
            partner: vec![NONE; n],
            owner: vec![NONE; m],
            closed: Vec::new(),
            is_closed: vec![false; m],
            distance: vec![T::ZERO; m],
            gate: vec![T::LEAST; m],
            before: vec![NONE; m],
            taken: Vec::new(),
        }
    }

    /// Finds a cheapest largest matching.
    pub(super) fn run(&mut self) {
        let mut rows = self.greedy();
        self.reduce(&mut rows);
        for row in rows {
            self.augment(row);
        }
    }

    /// The column of each row.
    pub(super) fn partners(&self) -> impl Iterator<Item = Option<usize>> {
        self.partner.iter().map(|&col| (col != NONE).then_some(col as usize))
    }

    /// The row of each column.
    pub(super) fn owners(&self) -> impl Iterator<Item = Option<usize>> {
        self.owner.iter().map(|&row| (row != NONE).then_some(row as usize))
    }

    /// The costs of a row.
    pub(super) fn costs(&self, row: usize) -> &[T] {
        &self.cost[row * self.m..][..self.m]
    }

    /// The potential of a row.
    pub(super) fn row_potential(&self, row: usize) -> T {
        match self.partner[row] {
            NONE => T::ZERO,
            col => self.cost[row * self.m + col as usize] - self.potential[col as usize],
        }
    }

    /// Pairs a row with a column, whoever owned it.
    pub(super) fn join(&mut self, row: u32, col: u32) {
        self.partner[row as usize] = col;
        self.owner[col as usize] = row;
    }

    /// Gives each row, in order, the first free one of its cheapest columns. The rows that got none and have
    /// an edge.
    fn greedy(&mut self) -> Vec<u32> {
        let mut left = Vec::new();
        for row in 0..self.n {
            let costs = &self.cost[row * self.m..][..self.m];
            let Some(&least) = costs.iter().min().filter(|c| **c < T::FORBIDDEN) else { continue };
            let free = costs.iter().zip(&self.owner).position(|(c, owner)| *c == least && *owner == NONE);
            match free {
                Some(col) => self.join(row as u32, col as u32),
                None => left.push(row as u32),
            }
        }
        left
    }

    /// Lets the rows outbid one another, which is cheap and mostly settles them; leaves those that it does not.
    ///
    /// A row takes its cheapest column and lowers the potential until the second one is as cheap. Rows of whom there
    /// are too many would go on for ever, therefore the steps are counted, and the bounds
    /// of [`Cost::holds`] count with them: 4 for each row.
    fn reduce(&mut self, rows: &mut Vec<u32>) {
        let mut steps = 4 * self.n;
        let mut left = Vec::new();
        while let Some(mut row) = rows.pop() {
            loop {
                if steps == 0 {
                    left.push(row);
                    break;
                }
                steps -= 1;
                let (first, least, second, next) = self.two_cheapest(row as usize);
                let gap = next - least;
                let col = if self.owner[first as usize] != NONE && gap == T::ZERO { second } else { first };
                let displaced = self.owner[col as usize];
                if displaced != NONE && (gap == T::ZERO || next >= T::UNREACHABLE) {
                    left.push(row);
                    break;
                }
                if col == first && next < T::UNREACHABLE {
                    self.potential[col as usize] -= gap;
                }
                self.join(row, col);
                if displaced == NONE {
                    break;
                }
                self.partner[displaced as usize] = NONE;
                row = displaced;
            }
        }
        *rows = left;
    }

    /// The two cheapest columns of a row, and what they cost beyond their potentials.
    fn two_cheapest(&self, row: usize) -> (u32, T, u32, T) {
        let (mut first, mut least, mut second, mut next) = (NONE, T::MOST, NONE, T::MOST);
        for (col, (&cost, &potential)) in self.costs(row).iter().zip(&self.potential).enumerate() {
            let rest = cost - potential;
            if rest < next {
                if rest < least {
                    (second, next) = (first, least);
                    (first, least) = (col as u32, rest);
                } else {
                    (second, next) = (col as u32, rest);
                }
            }
        }
        (first, least, second, next)
    }

    /// Adds a row to the matching, unless it costs less to leave it out.
    fn augment(&mut self, row: u32) {
        let end = self.search(row);
        let (mut col, reached) = match end {
            End::Column(col, reached) => (col, reached),
            End::Row(left, reached) => (std::mem::replace(&mut self.partner[left as usize], NONE), reached),
        };
        for &col in &self.taken {
            let col = col as usize;
            self.potential[col] += self.distance[col] - reached;
            self.gate[col] = T::LEAST;
        }
        if let End::Row(..) = end {
            for &col in &self.taken {
                if !std::mem::replace(&mut self.is_closed[col as usize], true) {
                    self.closed.push(col);
                }
            }
        }
        for &col in &self.closed {
            self.gate[col as usize] = T::MOST;
        }
        while col != NONE {
            let owner = self.before[col as usize];
            let previous = self.partner[owner as usize];
            self.join(owner, col);
            col = if owner == row { NONE } else { previous };
        }
    }

    /// The nearest end from a row which has no partner. Taken columns are at most as far.
    fn search(&mut self, row: u32) -> End<T> {
        self.taken.clear();
        let costs = &self.cost[row as usize * self.m..][..self.m];
        let mut nearest = T::MOST;
        for (col, &cost) in costs.iter().enumerate() {
            let distance = cost - self.potential[col];
            self.distance[col] = distance;
            self.before[col] = row;
            nearest = nearest.min(distance.max(self.gate[col]));
        }
        let (mut leave, mut left) = (T::ZERO, row);
        let mut displacing = false;
        loop {
            if nearest >= T::UNREACHABLE && !displacing {
                displacing = true;
                for &col in &self.closed {
                    self.gate[col as usize] = T::LEAST;
                    nearest = nearest.min(self.distance[col as usize]);
                }
            }
            if displacing && leave <= nearest {
                return End::Row(left, leave);
            }
            let col = self.nearest(nearest);
            let owner = self.owner[col as usize];
            if owner == NONE {
                return End::Column(col, nearest);
            }
            self.gate[col as usize] = T::MOST;
            self.taken.push(col);
            let offset = nearest - self.row_potential(owner as usize);
            if offset < leave {
                (leave, left) = (offset, owner);
            }
            nearest = self.relax(owner, offset);
        }
    }

    /// A column at that distance, a free one if there is one.
    fn nearest(&self, distance: T) -> u32 {
        let mut found = NONE;
        for col in 0..self.m {
            if self.distance[col].max(self.gate[col]) == distance {
                if self.owner[col] == NONE {
                    return col as u32;
                }
                found = col as u32;
            }
        }
        found
    }

    /// Shortens distances by the edges of a row, and returns the smallest. Those of taken columns are at most as large already.
    fn relax(&mut self, row: u32, offset: T) -> T {
        let m = self.m;
        let costs = &self.cost[row as usize * m..][..m];
        let (potential, gate) = (&self.potential[..m], &self.gate[..m]);
        let (distance, before) = (&mut self.distance[..m], &mut self.before[..m]);
        let mut nearest = T::MOST;
        for col in 0..m {
            let by_row = costs[col] - potential[col] + offset;
            let shorter = by_row < distance[col];
            let shortest = if shorter { by_row } else { distance[col] };
            distance[col] = shortest;
            before[col] = if shorter { row } else { before[col] };
            nearest = nearest.min(shortest.max(gate[col]));
        }
        nearest
    }
}
