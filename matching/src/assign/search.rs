//! Shortest augmenting paths with potentials, over the edges that exist.
//!
//! The rows are the smaller side here. A row that finds no free column may leave another row, or
//! itself, without a partner, whichever is cheapest. The columns of such a search are closed from
//! then on: no edge leads out of them, so no row can reach a free column through them. Later
//! searches visit them only after all others, and only to displace a row.
//!
//! The textbook way gives each row an extra column at a cost above all sums. Closing columns gives
//! the same result without that cost, so narrower integers suffice.

use core::array::from_fn;

use super::Weights;
use super::cost::{Cost, LANES};

/// The number of no row and no column.
pub(super) const NONE: u32 = u32::MAX;

/// Bids in a chain, where each bidder was displaced by the one before.
const BIDS: usize = 8;

/// Failed chains of bids beyond the successful ones after which bidding stops.
const MOST_FAILURES: u32 = 2;

/// Some columns side by side. A loop over them has no branches, so it compiles to vector
/// instructions.
struct Block<T> {
    /// Potentials: at most 0 for open columns, 0 for columns without an owner.
    ///
    /// The potential of a row is the rest of the cost of its pair, or 0.
    potential: [T; LANES],
    /// Distances from the row at which the search began, plus the potential.
    reach: [T; LANES],
    /// Summands that turn [`Block::reach`] into a key for choosing the next column.
    ///
    /// Each takes the potential off again and adds the column's number, half a [`Scale`] for a
    /// column with an owner, and [`Cost::FORBIDDEN`] for closed and taken columns. So the smallest
    /// key names its column; among equal distances free columns come first, then the lowest number.
    shift: [T; LANES],
    /// The row before each column on its shortest path.
    before: [u32; LANES],
    /// The row that each column is paired with.
    owner: [u32; LANES],
    closed: [bool; LANES],
    /// Columns of this block that the search has taken.
    taken: usize,
}

impl<T: Cost> Block<T> {
    /// Marks a column as taken.
    ///
    /// Writes all lanes: the next load reads them all, and would wait for a store of one lane.
    fn forbid(&mut self, lane: usize) {
        let (old, only) = (self.shift, T::ONLY[lane]);
        self.shift = from_fn(|i| old[i] + (T::FORBIDDEN & only[i]));
    }
}

/// The factor of all costs, which leaves room below them for a column's number and half the scale.
#[derive(Clone, Copy)]
struct Scale<T> {
    /// Half of the scale: a power of two above all column numbers.
    half: T,
}

impl<T: Cost> Scale<T> {
    /// Returns a difference of weights, multiplied by the scale and by `times`.
    fn of(self, difference: u64, times: usize) -> T {
        T::of(difference) * T::of(times as u64) * (self.half + self.half)
    }

    /// Returns the column's number that a sum carries.
    fn column(self, sum: T) -> u32 {
        (sum & (self.half - T::of(1))).index()
    }

    /// Returns the sum without the number and without the half.
    fn whole(self, sum: T) -> T {
        sum & (T::ZERO - self.half - self.half)
    }
}

/// A matching that grows by one row at a time and always is the cheapest for its rows.
pub(super) struct Search<T> {
    /// Number of rows.
    pub(super) n: usize,
    /// Number of columns, at least `n`. The last block may have more, which have no edges.
    pub(super) m: usize,
    /// Costs row by row, in blocks.
    costs: Vec<[T; LANES]>,
    columns: Vec<Block<T>>,
    /// The column of each row, or [`NONE`].
    pub(super) partner: Vec<u32>,
    /// Closed columns.
    closed: Vec<u32>,
    /// Columns that the search has taken.
    taken: Vec<u32>,
    /// Blocks with columns that the search has not taken.
    live: Vec<u32>,
    scale: Scale<T>,
    /// The lower bound of all potentials.
    lowest: T,
}

/// Returns a power of two above all column numbers, including those that fill the last block.
pub(super) fn room(cols: usize) -> u64 {
    cols.next_multiple_of(LANES).next_power_of_two() as u64
}

/// The end of a search, with the distance to which the potentials of the taken columns are lowered.
enum End<T> {
    /// A free column, the last one taken.
    Column(u32, T),
    /// A row that is left without a partner.
    Row(u32, T),
}

/// Returns the block and the lane of a column.
fn position(col: u32) -> (usize, usize) {
    (col as usize / LANES, col as usize % LANES)
}

/// Folds all lanes into one value, halves first.
#[inline]
fn fold<U: Copy>(lanes: [U; LANES], both: impl Fn(U, U) -> U) -> U {
    let half: [U; LANES / 2] = from_fn(|i| both(lanes[i], lanes[i + LANES / 2]));
    both(half[0], half[1])
}

impl<T: Cost> Search<T> {
    /// Builds the search; costs are the distances to the highest weight.
    pub(super) fn new(weights: &Weights, low: u64, high: u64) -> Search<T> {
        let (rows, cols) = (weights.rows, weights.cols);
        let (n, m) = (rows.min(cols), rows.max(cols));
        let blocks = m.div_ceil(LANES);
        let scale = Scale { half: T::of(room(m)) };
        let mut costs = Vec::with_capacity(n * blocks);
        for row in 0..n {
            for first in (0..m).step_by(LANES) {
                let mut block = [T::FORBIDDEN; LANES];
                for (col, cost) in (first..m).zip(&mut block) {
                    let at = if rows <= cols { row * cols + col } else { col * cols + row };
                    if weights.edges[at] {
                        *cost = scale.of(high - weights.values[at], 1);
                    }
                }
                costs.push(block);
            }
        }
        let columns = |first: usize| Block {
            potential: [T::ZERO; LANES],
            reach: [T::ZERO; LANES],
            shift: from_fn(|lane| T::of((first + lane) as u64)),
            before: [NONE; LANES],
            owner: [NONE; LANES],
            closed: [false; LANES],
            taken: 0,
        };
        Search {
            n,
            m,
            costs,
            columns: (0..blocks).map(|block| columns(block * LANES)).collect(),
            partner: vec![NONE; n],
            closed: Vec::new(),
            taken: Vec::new(),
            live: Vec::new(),
            scale,
            lowest: T::ZERO - scale.of(high - low, n),
        }
    }

    /// Finds a cheapest matching of the largest size.
    pub(super) fn run(&mut self) {
        let mut rows = self.begin();
        while let Some(row) = rows.pop() {
            self.augment(row);
        }
    }

    /// Runs [`Search::run`] and returns how many columns its searches have taken.
    #[cfg(test)]
    pub(super) fn run_counting(&mut self) -> usize {
        let (mut rows, mut taken) = (self.begin(), 0);
        while let Some(row) = rows.pop() {
            self.augment(row);
            taken += self.taken.len();
        }
        taken
    }

    /// Pairs the rows that need no search, and returns the others, to be searched from the last one
    /// on.
    fn begin(&mut self) -> Vec<u32> {
        let mut rows = self.greedy();
        self.outbid(&mut rows);
        rows
    }

    /// Returns the column of each row.
    pub(super) fn partners(&self) -> impl Iterator<Item = Option<usize>> {
        self.partner.iter().map(|&col| (col != NONE).then_some(col as usize))
    }

    /// Returns the row of each column.
    pub(super) fn owners(&self) -> impl Iterator<Item = Option<usize>> {
        let owners = self.columns.iter().flat_map(|block| block.owner).take(self.m);
        owners.map(|row| (row != NONE).then_some(row as usize))
    }

    /// Returns the row of a column, or [`NONE`].
    pub(super) fn owner(&self, col: u32) -> u32 {
        let (block, lane) = position(col);
        self.columns[block].owner[lane]
    }

    /// Pairs a row with a column, whoever owned it.
    pub(super) fn join(&mut self, row: u32, col: u32) {
        self.partner[row as usize] = col;
        let (block, lane) = position(col);
        self.columns[block].owner[lane] = row;
    }

    /// Leaves a column without an owner.
    pub(super) fn abandon(&mut self, col: u32) {
        let (block, lane) = position(col);
        self.columns[block].owner[lane] = NONE;
    }

    /// Sets the potential of a column that has an owner; `bias` forbids or allows taking it.
    fn set_potential(&mut self, col: u32, potential: T, bias: T) {
        let number = self.scale.half + T::of(u64::from(col));
        let (block, lane) = position(col);
        self.columns[block].potential[lane] = potential;
        self.columns[block].shift[lane] = number + bias - potential;
    }

    /// Returns true if the column is closed.
    pub(super) fn is_closed(&self, col: u32) -> bool {
        let (block, lane) = position(col);
        self.columns[block].closed[lane]
    }

    /// Returns the potential of a column.
    pub(super) fn potential(&self, col: u32) -> T {
        let (block, lane) = position(col);
        self.columns[block].potential[lane]
    }

    /// Returns the potential of a row.
    pub(super) fn row_potential(&self, row: u32) -> T {
        match self.partner[row as usize] {
            NONE => T::ZERO,
            col => {
                let (block, lane) = position(col);
                self.costs(row)[block][lane] - self.columns[block].potential[lane]
            }
        }
    }

    /// Returns the cost of an edge, or `None` if there is no such edge.
    #[cfg(test)]
    pub(super) fn cost(&self, row: u32, col: u32) -> Option<T> {
        let (block, lane) = position(col);
        Some(self.costs(row)[block][lane]).filter(|cost| *cost < T::FORBIDDEN)
    }

    /// Returns a bit for each of 64 columns from `from` (a multiple of 64) on: set if its edge to
    /// the row is tight.
    pub(super) fn tight(&self, row: u32, from: usize) -> u64 {
        let own = self.partner[row as usize];
        let (potential, closed) = (self.row_potential(row), own == NONE || self.is_closed(own));
        let (first, mut bits) = (from / LANES, 0);
        let blocks = self.costs(row)[first..].iter().zip(&self.columns[first..]);
        for (i, (costs, columns)) in blocks.take(64 / LANES).enumerate() {
            for (lane, &cost) in costs.iter().enumerate() {
                // Potentials never add up to the cost of an edge that does not exist.
                let tight = cost - columns.potential[lane] == potential && columns.closed[lane] == closed;
                bits |= u64::from(tight) << (i * LANES + lane);
            }
        }
        bits
    }

    /// Returns the costs of a row.
    fn costs(&self, row: u32) -> &[[T; LANES]] {
        let blocks = self.columns.len();
        &self.costs[row as usize * blocks..][..blocks]
    }

    /// Gives each row the first free one of its cheapest columns; returns the rows that got none
    /// and have an edge.
    ///
    /// Among rows that compete for a column, the one that would lose most by taking another column
    /// gets it. The rows returned are sorted by that loss, the largest last, and searches begin
    /// with the last one: a row with a small loss, once it has a column, lets the prices of its
    /// competitors rise in small steps only.
    fn greedy(&mut self) -> Vec<u32> {
        let (mut left, mut losses) = (Vec::new(), vec![T::ZERO; self.n]);
        for row in 0..self.n as u32 {
            let (cheapest, col, second) = self.two_cheapest(row);
            if cheapest >= T::UNREACHABLE {
                continue;
            }
            let loss = self.scale.whole(second) - self.scale.whole(cheapest);
            losses[row as usize] = loss;
            let owner = self.owner(col);
            if owner == NONE {
                self.set_potential(col, T::ZERO, T::ZERO);
            } else if losses[owner as usize] < loss {
                self.partner[owner as usize] = NONE;
                left.push(owner);
            } else {
                left.push(row);
                continue;
            }
            self.join(row, col);
        }
        left.sort_unstable_by_key(|&row| losses[row as usize]);
        left
    }

    /// Lets rows outbid one another, which is cheap and settles many; keeps the rows that it does
    /// not settle.
    ///
    /// A row takes its cheapest column and lowers the potential until the second cheapest costs the
    /// same. The number of bids is bounded, because rows that compete for too few columns would
    /// never end.
    fn outbid(&mut self, rows: &mut Vec<u32>) {
        let (mut left, mut failures) = (Vec::new(), MOST_FAILURES);
        while failures > 0
            && let Some(row) = rows.pop()
        {
            let mut bidder = row;
            for _ in 0..BIDS {
                match self.bid(bidder) {
                    Some(displaced) => bidder = displaced,
                    None => break,
                }
                if bidder == NONE {
                    break;
                }
            }
            if bidder == NONE {
                failures += 1;
            } else {
                failures -= 1;
                left.push(bidder);
            }
        }
        rows.extend(left);
    }

    /// Lets a row take its cheapest column; returns the row that it displaces, or [`NONE`].
    ///
    /// Returns `None` and changes nothing if the row has no clear preference, or if the potential
    /// would leave the bounds of [`Cost::holds`].
    fn bid(&mut self, row: u32) -> Option<u32> {
        let (cheapest, col, second) = self.two_cheapest(row);
        let displaced = self.owner(col);
        let gap = self.scale.whole(second) - self.scale.whole(cheapest);
        let lowered = self.potential(col) - gap;
        if second >= T::UNREACHABLE || lowered < self.lowest || (gap == T::ZERO && displaced != NONE) {
            return None;
        }
        if displaced != NONE {
            self.partner[displaced as usize] = NONE;
        }
        self.set_potential(col, lowered, T::ZERO);
        self.join(row, col);
        Some(displaced)
    }

    /// Returns the cheapest column of a row, with its key and that of the second cheapest.
    ///
    /// A key is the cost less the column's potential, shifted as in [`Block::shift`].
    fn two_cheapest(&self, row: u32) -> (T, u32, T) {
        let (mut cheapest, mut second) = ([T::MOST; LANES], [T::MOST; LANES]);
        for (costs, columns) in self.costs(row).iter().zip(&self.columns) {
            let rest: [T; LANES] = from_fn(|i| costs[i] + columns.shift[i]);
            second = from_fn(|i| second[i].min(rest[i].max(cheapest[i])));
            cheapest = from_fn(|i| cheapest[i].min(rest[i]));
        }
        let least = fold(cheapest, T::min);
        // No two keys are equal.
        let others = from_fn(|i| if cheapest[i] == least { second[i] } else { cheapest[i] });
        (least, self.scale.column(least), fold(others, T::min))
    }

    /// Adds a row to the matching, unless leaving it out costs less.
    fn augment(&mut self, row: u32) {
        let end = self.search(row);
        let (mut col, reached) = match end {
            End::Column(col, reached) => (col, reached),
            End::Row(left, reached) => (std::mem::replace(&mut self.partner[left as usize], NONE), reached),
        };
        let closing = matches!(end, End::Row(..));
        let taken = std::mem::take(&mut self.taken);
        for &col in &taken {
            let (block, lane) = position(col);
            let potential = self.columns[block].reach[lane] - reached;
            self.set_potential(col, potential, T::ZERO);
            if closing && !std::mem::replace(&mut self.columns[block].closed[lane], true) {
                self.closed.push(col);
            }
        }
        self.taken = taken;
        self.gate(T::FORBIDDEN);
        while col != NONE {
            let (block, lane) = position(col);
            let owner = self.columns[block].before[lane];
            let previous = self.partner[owner as usize];
            self.join(owner, col);
            col = previous;
        }
    }

    /// Allows or forbids taking closed columns: adds `bias` to their distances.
    fn gate(&mut self, bias: T) {
        for i in 0..self.closed.len() {
            self.set_potential(self.closed[i], self.potential(self.closed[i]), bias);
        }
    }

    /// Returns the nearest end for a row that has no partner.
    fn search(&mut self, row: u32) -> End<T> {
        self.taken.clear();
        for columns in &mut self.columns {
            columns.reach = [T::FORBIDDEN; LANES];
            columns.taken = 0;
        }
        self.live.clear();
        self.live.extend(0..self.columns.len() as u32);
        let (mut leave, mut left) = (T::ZERO, row);
        let mut least_reach = T::MOST;
        let mut nearest = self.relax(row, T::ZERO);
        let mut displacing = false;
        loop {
            if nearest >= T::UNREACHABLE && !displacing {
                displacing = true;
                self.gate(T::ZERO);
                for &closed in &self.closed {
                    let (block, lane) = position(closed);
                    let block = &self.columns[block];
                    nearest = nearest.min(block.reach[lane] + block.shift[lane]);
                }
            }
            if displacing && leave < nearest {
                return End::Row(left, leave);
            }
            let (col, distance) = (self.scale.column(nearest), self.scale.whole(nearest));
            let (block, lane) = position(col);
            let columns = &mut self.columns[block];
            let owner = columns.owner[lane];
            let potential = columns.potential[lane];
            columns.forbid(lane);
            least_reach = least_reach.min(distance + potential);
            if owner == NONE {
                self.taken.push(col);
                return End::Column(col, self.beyond(distance, least_reach));
            }
            columns.taken += 1;
            if columns.taken == LANES {
                self.live.retain(|live| *live as usize != block);
            }
            self.taken.push(col);
            let offset = distance - (self.costs(owner)[block][lane] - potential);
            if offset < leave {
                (leave, left) = (offset, owner);
            }
            nearest = self.relax(owner, offset);
        }
    }

    /// Returns how far potentials can be lowered after a search that took all columns up to
    /// `distance`, its free one included.
    ///
    /// They can be lowered until the next column becomes as cheap, as if all rows of the taken
    /// columns bid together, but not below the lower bound. The next rows then find a free column
    /// at once more often, and do not search the same columns again.
    fn beyond(&self, distance: T, least_reach: T) -> T {
        let mut nearest = [T::MOST; LANES];
        for &block in &self.live {
            let columns = &self.columns[block as usize];
            nearest = from_fn(|i| nearest[i].min(columns.reach[i] + columns.shift[i]));
        }
        let next = self.scale.whole(fold(nearest, T::min));
        if next < T::UNREACHABLE { next.min(least_reach - self.lowest).max(distance) } else { distance }
    }

    /// Shortens distances by the edges of a row; returns the key of the column to take next.
    ///
    /// `offset` is the distance of the row's column less the cost of its pair and plus that
    /// column's potential. Distances of taken columns are not shortened, because they are at most
    /// as large.
    fn relax(&mut self, row: u32, offset: T) -> T {
        let blocks = self.columns.len();
        let costs = &self.costs[row as usize * blocks..][..blocks];
        let mut nearest = [T::MOST; LANES];
        for &block in &self.live {
            let (costs, columns) = (&costs[block as usize], &mut self.columns[block as usize]);
            let (old, before, shift) = (columns.reach, columns.before, columns.shift);
            let by_row: [T; LANES] = from_fn(|i| costs[i] + offset);
            let reach: [T; LANES] = from_fn(|i| if by_row[i] < old[i] { by_row[i] } else { old[i] });
            columns.before = from_fn(|i| if by_row[i] < old[i] { row } else { before[i] });
            columns.reach = reach;
            nearest = from_fn(|i| nearest[i].min(reach[i] + shift[i]));
        }
        fold(nearest, T::min)
    }
}
