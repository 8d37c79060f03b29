//! Integers that costs are computed with: the narrowest that holds all sums.

use core::fmt::Debug;
use core::ops::{Add, BitAnd, Mul, Sub};

/// Columns of a block.
pub(super) const LANES: usize = 4;

/// A signed integer.
pub(super) trait Cost:
    Copy
    + Ord
    + Debug
    + Add<Output = Self>
    + Mul<Output = Self>
    + Sub<Output = Self>
    + BitAnd<Output = Self>
    + 'static
{
    /// 0.
    const ZERO: Self;
    /// Larger than any sum.
    const MOST: Self;
    /// The cost of an edge that does not exist. A third of the type, so that it can be added to itself and to any sum
    /// that [`Cost::holds`].
    const FORBIDDEN: Self;
    /// Distances from here on are over edges that do not exist.
    const UNREACHABLE: Self;
    /// For each lane all bits in that lane, and none in the others.
    const ONLY: [[Self; LANES]; LANES];

    /// A number that is known to fit.
    fn of(number: u64) -> Self;

    /// The number, of which it is known that it is one of a column.
    fn index(self) -> u32;

    /// Whether all sums fit where weights differ by at most `range` and the smaller side has `smaller` vertices.
    ///
    /// Let n be the smaller side and one cost the unit. A potential that a search has set is an alternating sum of the
    /// costs of a path, at most n added and n subtracted, because tight edges lead from its vertex to one whose potential
    /// is 0; so it is within -n and n. Others are 0, or not below -n, because bids that would lower them further are
    /// refused, and no search goes further beyond its end; those of rows differ from such by a cost. A distance is such a sum less two potentials, one of which is 0:
    /// within 2n. What relaxation adds up is a cost, a distance and two potentials: within 4n + 2. All are multiplied
    /// by `scale`, less than which is added, and must be below [`Cost::UNREACHABLE`], a sixth of the type.
    fn holds(range: u64, smaller: usize, scale: u64) -> bool;
}

macro_rules! cost {
    ($($type:ty),*) => {$(
        impl Cost for $type {
            const ZERO: $type = 0;
            const MOST: $type = <$type>::MAX;
            const FORBIDDEN: $type = <$type>::MAX / 3;
            const UNREACHABLE: $type = <$type>::MAX / 6;
            const ONLY: [[$type; LANES]; LANES] = [[-1, 0, 0, 0], [0, -1, 0, 0], [0, 0, -1, 0], [0, 0, 0, -1]];

            #[inline]
            fn of(number: u64) -> $type {
                number as $type
            }

            #[inline]
            fn index(self) -> u32 {
                self as u32
            }

            fn holds(range: u64, smaller: usize, scale: u64) -> bool {
                let sums = (smaller as u128 + 1).saturating_mul(6 * 4).saturating_mul(u128::from(scale));
                sums.saturating_mul(u128::from(range).max(1)) <= <$type>::MAX as u128
            }
        }
    )*};
}

cost!(i32, i64, i128);
