//! Integers for costs: the narrowest type that holds all sums.

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
    /// Zero.
    const ZERO: Self;
    /// A value larger than any sum.
    const MOST: Self;
    /// The cost of an edge that does not exist.
    ///
    /// A third of the type's maximum, so that it can be added to itself and to any sum within
    /// [`Cost::holds`].
    const FORBIDDEN: Self;
    /// The least distance that uses an edge that does not exist.
    const UNREACHABLE: Self;
    /// Masks: row `i` has all bits of lane `i` and no others.
    const ONLY: [[Self; LANES]; LANES];

    /// Converts a number that is known to fit.
    fn of(number: u64) -> Self;

    /// Converts back a number that is known to be a column's.
    fn index(self) -> u32;

    /// Returns true if all sums fit, for weights that differ by at most `range` and `smaller`
    /// vertices on the smaller side.
    ///
    /// Let n be `smaller` and one cost the unit. A potential that a search has set is an
    /// alternating sum of the costs of a path, with at most n added and n subtracted, because tight
    /// edges lead from its vertex to one whose potential is 0; so it is within -n and n. Other
    /// potentials are 0, or not below -n: bids that would lower them further are refused, and no
    /// search extends them further. A row's potential differs from such a one by one cost. A
    /// distance is such a sum less two potentials, one of which is 0: within 2n. Relaxation adds a
    /// cost, a distance and two potentials: within 4n + 2. All of this is multiplied by `scale`,
    /// and less than `scale` is added. The result must stay below [`Cost::UNREACHABLE`], a sixth of
    /// the type's maximum.
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
