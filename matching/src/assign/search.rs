//! Shortest augmenting paths with potentials, over the edges that exist.
//!
//! The smaller side are the rows here. A row that finds no free column may leave another row, or itself, without a
//! partner: whichever is cheapest. The columns of such a search are closed from then on: as no
//! edge leads out of them, no row ever finds a free column by one of them, so that a search goes through
//! them only after all the others, and only to displace. That is what a column of its own for each row would
//! give, at a cost above all sums; but this way there is no such cost, and narrower integers do.

use core::array::from_fn;

use super::Weights;
use super::cost::{Cost, LANES};

/// No row, no column.
pub(super) const NONE: u32 = u32::MAX;

/// How many rows, one after another, bid because one that bids has displaced the other.
const BIDS: usize = 8;

/// How many more rows may bid without success than with.
const MOST_FAILURES: u32 = 2;

/// Some columns side by side: a loop over them has no branches, so that it is made of vector instructions.
struct Block<T> {
    /// At most 0 for those that are not closed, 0 for those without an owner. The potential of a row is the rest of
    /// the cost of its pair, or 0.
    potential: [T; LANES],
    /// Distance from the row that the search began with, and the potential on top.
    reach: [T; LANES],
    /// To be added to [`Block::reach`] where one is chosen: the potential is taken off again, the column's number is
    /// added, half a [`Scale`] for one with an owner, and [`Cost::FORBIDDEN`] for those that are not to
    /// be taken, which are the closed and the taken. So the smallest sum says which column it is, the first among
    /// equals, and those without an owner before the others.
    shift: [T; LANES],
    /// The row before each on the way from there.
    before: [u32; LANES],
    /// The row that each is paired with.
    owner: [u32; LANES],
    closed: [bool; LANES],
    /// How many the search has taken.
    taken: usize,
}

impl<T: Cost> Block<T> {
    /// A column is not to be taken any more. The next load is of all lanes, and would wait for a store of one.
    fn forbid(&mut self, lane: usize) {
        let (old, only) = (self.shift, T::ONLY[lane]);
        self.shift = from_fn(|i| old[i] + (T::FORBIDDEN & only[i]));
    }
}

/// What costs are multiplied by, to leave room below them for the number of a column, and for half of the scale.
#[derive(Clone, Copy)]
struct Scale<T> {
    /// Half of it: a power of two above all columns.
    half: T,
}

impl<T: Cost> Scale<T> {
    /// A multiple of the scale.
    fn of(self, difference: u64, times: usize) -> T {
        T::of(difference) * T::of(times as u64) * (self.half + self.half)
    }

    /// The number of the column.
    fn column(self, sum: T) -> u32 {
        (sum & (self.half - T::of(1))).index()
    }

    /// Without the number and without the half.
    fn whole(self, sum: T) -> T {
        sum & (T::ZERO - self.half - self.half)
    }
}

/// A matching that grows by a row at a time, always the cheapest of its rows.
pub(super) struct Search<T> {
    /// Rows.
    pub(super) n: usize,
    /// Columns, at least as many. The last block has room for more, which have no edges.
    pub(super) m: usize,
    /// Row by row, in blocks.
    costs: Vec<[T; LANES]>,
    columns: Vec<Block<T>>,
    /// The column of each row.
    pub(super) partner: Vec<u32>,
    /// The columns that are closed.
    closed: Vec<u32>,
    /// Columns that the search has taken.
    taken: Vec<u32>,
    /// Blocks with columns that it has not.
    live: Vec<u32>,
    scale: Scale<T>,
    /// No potential is below.
    lowest: T,
}

/// A power of two above the numbers of so many columns, those included that fill the last block.
pub(super) fn room(cols: usize) -> u64 {
    cols.next_multiple_of(LANES).next_power_of_two() as u64
}

/// Where a search ended, and the distance up to which the potentials of the taken are to be lowered.
enum End<T> {
    /// At a free column, which is the last one taken.
    Column(u32, T),
    /// At a row which is left without a partner.
    Row(u32, T),
}

/// The block and the lane of a column.
fn place(col: u32) -> (usize, usize) {
    (col as usize / LANES, col as usize % LANES)
}

/// All lanes, halves first.
#[inline]
fn fold<U: Copy>(lanes: [U; LANES], both: impl Fn(U, U) -> U) -> U {
    let half: [U; LANES / 2] = from_fn(|i| both(lanes[i], lanes[i + LANES / 2]));
    both(half[0], half[1])
}

impl<T: Cost> Search<T> {
    /// The costs are the distances to the highest weight.
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

    /// Finds a cheapest largest matching.
    pub(super) fn run(&mut self) {
        let mut rows = self.begin();
        while let Some(row) = rows.pop() {
            self.augment(row);
        }
    }

    /// [`Search::run`]. How many columns the searches have taken.
    #[cfg(test)]
    pub(super) fn run_counting(&mut self) -> usize {
        let (mut rows, mut taken) = (self.begin(), 0);
        while let Some(row) = rows.pop() {
            self.augment(row);
            taken += self.taken.len();
        }
        taken
    }

    /// What needs no searches. The rows that do, the last one first.
    fn begin(&mut self) -> Vec<u32> {
        let mut rows = self.greedy();
        self.outbid(&mut rows);
        rows
    }

    /// The column of each row.
    pub(super) fn partners(&self) -> impl Iterator<Item = Option<usize>> {
        self.partner.iter().map(|&col| (col != NONE).then_some(col as usize))
    }

    /// The row of each column.
    pub(super) fn owners(&self) -> impl Iterator<Item = Option<usize>> {
        let owners = self.columns.iter().flat_map(|block| block.owner).take(self.m);
        owners.map(|row| (row != NONE).then_some(row as usize))
    }

    /// The row of a column, or [`NONE`].
    pub(super) fn owner(&self, col: u32) -> u32 {
        let (block, lane) = place(col);
        self.columns[block].owner[lane]
    }

    /// Pairs a row with a column, whoever owned it.
    pub(super) fn join(&mut self, row: u32, col: u32) {
        self.partner[row as usize] = col;
        let (block, lane) = place(col);
        self.columns[block].owner[lane] = row;
    }

    /// A column has no owner any more.
    pub(super) fn abandon(&mut self, col: u32) {
        let (block, lane) = place(col);
        self.columns[block].owner[lane] = NONE;
    }

    /// A column with an owner has that potential, and is to be taken or not.
    fn set_potential(&mut self, col: u32, potential: T, bias: T) {
        let number = self.scale.half + T::of(u64::from(col));
        let (block, lane) = place(col);
        self.columns[block].potential[lane] = potential;
        self.columns[block].shift[lane] = number + bias - potential;
    }

    /// Whether a column is closed.
    pub(super) fn is_closed(&self, col: u32) -> bool {
        let (block, lane) = place(col);
        self.columns[block].closed[lane]
    }

    /// The potential of a column.
    pub(super) fn potential(&self, col: u32) -> T {
        let (block, lane) = place(col);
        self.columns[block].potential[lane]
    }

    /// The potential of a row.
    pub(super) fn row_potential(&self, row: u32) -> T {
        match self.partner[row as usize] {
            NONE => T::ZERO,
            col => {
                let (block, lane) = place(col);
                self.costs(row)[block][lane] - self.columns[block].potential[lane]
            }
        }
    }

    /// What an edge costs, if there is one.
    #[cfg(test)]
    pub(super) fn cost(&self, row: u32, col: u32) -> Option<T> {
        let (block, lane) = place(col);
        Some(self.costs(row)[block][lane]).filter(|cost| *cost < T::FORBIDDEN)
    }

    /// A bit for each of 64 columns, from a multiple of 64 on: whether its edge to a row costs just the potentials.
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

    /// The costs of a row.
    fn costs(&self, row: u32) -> &[[T; LANES]] {
        let blocks = self.columns.len();
        &self.costs[row as usize * blocks..][..blocks]
    }

    /// Gives each row, in order, the first free one of its cheapest columns. Where there is none, whoever would lose more
    /// by taking another column gets it. The rows that got none and have an edge, those that would lose most last.
    ///
    /// Searches are from the last one on, too: a row that would lose little, once it has a column, lets the prices of those
    /// that it is after rise in small steps only.
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

    /// Lets the rows outbid one another, which is cheap and settles many; leaves those that it does not.
    ///
    /// A row takes its cheapest column and lowers the potential until the second one is as cheap. Rows of whom there
    /// are too many would go on for ever.
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

    /// A row takes its cheapest column, and displaces who had it, or [`NONE`]. Nothing happens if that is not what it
    /// wants more than another, or if potentials would leave the bounds of [`Cost::holds`].
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

    /// What the cheapest column of a row costs less its potential, that column, and what the second one costs; shifted.
    fn two_cheapest(&self, row: u32) -> (T, u32, T) {
        let (mut cheapest, mut second) = ([T::MOST; LANES], [T::MOST; LANES]);
        for (costs, columns) in self.costs(row).iter().zip(&self.columns) {
            let rest: [T; LANES] = from_fn(|i| costs[i] + columns.shift[i]);
            second = from_fn(|i| second[i].min(rest[i].max(cheapest[i])));
            cheapest = from_fn(|i| cheapest[i].min(rest[i]));
        }
        let least = fold(cheapest, T::min);
        // No two are equal.
        let others = from_fn(|i| if cheapest[i] == least { second[i] } else { cheapest[i] });
        (least, self.scale.column(least), fold(others, T::min))
    }

    /// Adds a row to the matching, unless it costs less to leave it out.
    fn augment(&mut self, row: u32) {
        let end = self.search(row);
        let (mut col, reached) = match end {
            End::Column(col, reached) => (col, reached),
            End::Row(left, reached) => (std::mem::replace(&mut self.partner[left as usize], NONE), reached),
        };
        let closing = matches!(end, End::Row(..));
        let taken = std::mem::take(&mut self.taken);
        for &col in &taken {
            let (block, lane) = place(col);
            let potential = self.columns[block].reach[lane] - reached;
            self.set_potential(col, potential, T::ZERO);
            if closing && !std::mem::replace(&mut self.columns[block].closed[lane], true) {
                self.closed.push(col);
            }
        }
        self.taken = taken;
        self.gate(T::FORBIDDEN);
        while col != NONE {
            let (block, lane) = place(col);
            let owner = self.columns[block].before[lane];
            let previous = self.partner[owner as usize];
            self.join(owner, col);
            col = previous;
        }
    }

    /// Whether closed columns are to be taken: adds so much to their distances.
    fn gate(&mut self, bias: T) {
        for i in 0..self.closed.len() {
            self.set_potential(self.closed[i], self.potential(self.closed[i]), bias);
        }
    }

    /// The nearest end from a row which has no partner.
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
                    let (block, lane) = place(closed);
                    let block = &self.columns[block];
                    nearest = nearest.min(block.reach[lane] + block.shift[lane]);
                }
            }
            if displacing && leave < nearest {
                return End::Row(left, leave);
            }
            let (col, distance) = (self.scale.column(nearest), self.scale.whole(nearest));
            let (block, lane) = place(col);
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

    /// How far potentials can be lowered after a search that has taken all columns up to `distance`, the free one too:
    /// until the next column, as in a bid by all rows that have the taken together. None gets below the lowest.
    ///
    /// The next rows then more often find a free column at once, where they would otherwise go through the same columns
    /// again.
    fn beyond(&self, distance: T, least_reach: T) -> T {
        let mut nearest = [T::MOST; LANES];
        for &block in &self.live {
            let columns = &self.columns[block as usize];
            nearest = from_fn(|i| nearest[i].min(columns.reach[i] + columns.shift[i]));
        }
        let next = self.scale.whole(fold(nearest, T::min));
        if next < T::UNREACHABLE { next.min(least_reach - self.lowest).max(distance) } else { distance }
    }

    /// Shortens distances by the edges of a row whose costs less its potential and the distance of its partner are
    /// `offset` more. Returns what is to be taken next, and its distance, shifted. Distances of the taken are not
    /// shortened: they are at most as large.
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
