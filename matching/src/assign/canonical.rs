//! The lexicographically smallest of all optimal assignments.
//!
//! An assignment is optimal if it uses tight edges only and leaves out no row or column whose
//! potential forbids it. Two optimal assignments differ by cycles: in a cycle each member takes the
//! column that the next one had. One more member, the pool, stands for the columns without an owner
//! and for being without a partner.
//!
//! Rows are settled in their order. A search handles sets of 64 columns at once. Nothing is
//! searched if no row has a tight edge to a column before its own.

use super::cost::Cost;
use super::search::{NONE, Search};

/// The tight edges, and what may still change.
struct Tight {
    /// 64-bit words per row.
    words: usize,
    /// One bit per edge, set if it is tight.
    bits: Vec<u64>,
    /// Columns that may be left without an owner.
    spare_cols: Vec<u64>,
    /// Rows that may be left without a partner.
    spare_rows: Vec<bool>,
    /// Columns that no settled row owns and that the search has not seen.
    unseen: Vec<u64>,
    /// Columns of the rows that are not settled, and of the pool.
    unsettled: Vec<u64>,
    /// The column by which each row, and the pool after them, was reached.
    by_col: Vec<u32>,
    /// The member that takes that column, for each row and the pool.
    by: Vec<u32>,
    /// Members to continue from, in the order in which they were reached; the pool has the number
    /// of rows as its number.
    queue: Vec<u32>,
    /// True if the search has reached the pool.
    pool_seen: bool,
}

/// Turns an optimal assignment into the lexicographically smallest one.
pub(super) fn refine<T: Cost>(search: &mut Search<T>) {
    let Some(mut tight) = Tight::new(search) else { return };
    for row in 0..search.n {
        tight.settle(search, row);
    }
}

/// Returns the positions of the bits that are set.
fn ones(mut word: u64, index: usize) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        (word != 0).then(|| {
            word &= word - 1;
            index * 64 + bit as usize
        })
    })
}

impl Tight {
    /// Returns `None` if no row has a tight edge to a column before its own.
    fn new<T: Cost>(search: &Search<T>) -> Option<Tight> {
        let (n, m) = (search.n, search.m);
        let words = m.div_ceil(64);
        let mut bits = vec![0u64; n * words];
        let mut better = false;
        for row in 0..n {
            let own = search.partner[row] as usize;
            for word in 0..words {
                let tight = search.tight(row as u32, word * 64);
                bits[row * words + word] = tight;
                let before = own.saturating_sub(word * 64);
                better |= tight & if before < 64 { (1 << before) - 1 } else { u64::MAX } != 0;
            }
        }
        if !better {
            return None;
        }
        let mut spare_cols = vec![0u64; words];
        for col in 0..m {
            let spare = !search.is_closed(col as u32) && search.potential(col as u32) == T::ZERO;
            spare_cols[col / 64] |= u64::from(spare) << (col % 64);
        }
        let spare_rows = (0..n).map(|row| match search.partner[row] {
            NONE => true,
            col => search.is_closed(col) && search.row_potential(row as u32) == T::ZERO,
        });
        Some(Tight {
            words,
            bits,
            spare_cols,
            spare_rows: spare_rows.collect(),
            unseen: vec![0; words],
            unsettled: vec![u64::MAX; words],
            by_col: vec![NONE; n + 1],
            by: vec![NONE; n + 1],
            queue: Vec::with_capacity(n + 1),
            pool_seen: false,
        })
    }

    /// Gives a row the first column that keeps the assignment optimal and the earlier rows as they
    /// are.
    fn settle<T: Cost>(&mut self, search: &mut Search<T>, row: usize) {
        let own = search.partner[row];
        self.unseen.copy_from_slice(&self.unsettled);
        self.pool_seen = false;
        'columns: for word in 0..self.words {
            let tight = self.bits[row * self.words + word];
            for col in ones(tight & self.unsettled[word], word) {
                if col as u32 >= own {
                    break 'columns;
                }
                // A member that was seen does not lead back to the row.
                if self.unseen[word] >> (col % 64) & 1 == 0 {
                    continue;
                }
                if self.leads_back(search, row, col) {
                    self.rotate(search, row);
                    break 'columns;
                }
            }
        }
        let own = search.partner[row];
        if own != NONE {
            self.unsettled[own as usize / 64] &= !(1 << (own % 64));
        }
    }

    /// Returns true if the row can have this column: a cycle leads from its owner back to the row.
    fn leads_back<T: Cost>(&mut self, search: &Search<T>, row: usize, col: usize) -> bool {
        let pool = search.n;
        self.queue.clear();
        self.take(search, row, Some(col));
        let mut next = 0;
        while let Some(&member) = self.queue.get(next) {
            next += 1;
            let member = member as usize;
            if member == row {
                return true;
            }
            for word in 0..self.words {
                let takes = if member == pool {
                    self.spare_cols[word]
                } else {
                    self.bits[member * self.words + word]
                };
                for col in ones(takes & self.unseen[word], word) {
                    self.take(search, member, Some(col));
                }
            }
            if member == pool {
                for other in row..search.n {
                    if search.partner[other] == NONE {
                        self.reach(other, pool, NONE);
                    }
                }
            } else if self.spare_rows[member] {
                self.take(search, member, None);
            }
        }
        false
    }

    /// Lets a member take a column from its owner, or gives it up for none.
    fn take<T: Cost>(&mut self, search: &Search<T>, member: usize, col: Option<usize>) {
        let owner = match col {
            Some(col) => {
                self.unseen[col / 64] &= !(1 << (col % 64));
                search.owner(col as u32)
            }
            None => NONE,
        };
        let col = col.map_or(NONE, |col| col as u32);
        if owner != NONE {
            self.reach(owner as usize, member, col);
        } else if !std::mem::replace(&mut self.pool_seen, true) {
            self.reach(search.n, member, col);
        }
    }

    /// Notes that a member was reached, by the member that takes what it has.
    fn reach(&mut self, member: usize, by: usize, by_col: u32) {
        self.by[member] = by as u32;
        self.by_col[member] = by_col;
        self.queue.push(member as u32);
    }

    /// Lets each member of the cycle found take the column that it was to take.
    fn rotate<T: Cost>(&self, search: &mut Search<T>, row: usize) {
        let mut member = row;
        loop {
            let (by, col) = (self.by[member], self.by_col[member]);
            match (by as usize == search.n, col) {
                (true, NONE) => {}
                (true, col) => search.abandon(col),
                (false, NONE) => search.partner[by as usize] = NONE,
                (false, col) => search.join(by, col),
            }
            member = by as usize;
            if member == row {
                return;
            }
        }
    }
}
