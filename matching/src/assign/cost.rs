//! Integers that costs are computed with: the narrowest that holds all sums.

use core::fmt::Debug;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// A signed integer.
pub(super) trait Cost:
    Copy + Ord + Debug + Add<Output = Self> + Sub<Output = Self> + AddAssign + SubAssign
{
    /// 0.
    const ZERO: Self;
    /// Smaller than any distance.
    const LEAST: Self;
    /// Larger than any distance.
    const MOST: Self;
    /// The cost of an edge that does not exist. Half of the type, so that potentials can be added and subtracted.
    const FORBIDDEN: Self;
    /// Distances from here on are over edges that do not exist.
    const UNREACHABLE: Self;

    /// A cost that [`Cost::holds`].
    fn of(cost: u64) -> Self;

    /// Whether all sums fit where costs are at most `range` and the smaller side has `smaller` vertices.
    ///
    /// A potential is an alternating sum of at most 2 x smaller costs, because a path of tight edges
    /// leads from its vertex to one whose potential is 0, or a sum of as many differences of two costs
    /// ([`super::search`] counts them); a distance differs from such a sum by two potentials. With
    /// what a relaxation adds, none is larger than 14 x smaller + 2 costs, and must stay below
    /// [`Cost::UNREACHABLE`], a quarter of the type.
    fn holds(range: u64, smaller: usize) -> bool;
}

macro_rules! cost {
    ($($type:ty),*) => {$(
        impl Cost for $type {
            const ZERO: $type = 0;
            const LEAST: $type = <$type>::MIN;
            const MOST: $type = <$type>::MAX;
            const FORBIDDEN: $type = <$type>::MAX / 2;
            const UNREACHABLE: $type = <$type>::MAX / 4;

            #[inline]
            fn of(cost: u64) -> $type {
                cost as $type
            }

            fn holds(range: u64, smaller: usize) -> bool {
                let costs = (smaller as u128).saturating_add(1).saturating_mul(64);
                costs.saturating_mul(u128::from(range)) <= <$type>::MAX as u128
            }
        }
    )*};
}

cost!(i32, i64, i128);
