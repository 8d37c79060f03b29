//! The layout of a segment: a pure function of the number of ranks.

use crate::ring::{MAX_RING, MIN_RING};

/// Most ranks of one segment: the doorbells of a rank are one cache line, and every pair can have a
/// ring.
pub(crate) const MAX_RANKS: u32 = 448;
/// Bytes of a segment for each rank, at most.
pub(crate) const RANK_BYTES: usize = 2 << 20;
/// Bytes of the header; the slots follow.
pub(crate) const HEADER: usize = 4096;
/// Regions of a rank that peers may read or write at once.
pub(crate) const REGIONS: usize = 64;
/// Bytes of a slot.
pub(crate) const SLOT: usize = 256;
/// Bytes of a line of joint gets.
pub(crate) const JOINT: usize = 64;
/// Lines of joint gets of a rank: which there are, and one for each region.
pub(crate) const JOINTS: usize = 1 + REGIONS;
const PAGE: usize = 4096;
/// A ring that does well with messages of any length.
const GOOD_RING: usize = 64 << 10;

/// Offsets and lengths, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) ranks: u32,
    /// A word for each ordered pair of ranks: where its ring is.
    pub(crate) pairs_at: usize,
    /// A table of [`REGIONS`] words for each rank.
    pub(crate) regions_at: usize,
    /// [`JOINTS`] lines for each rank.
    pub(crate) joints_at: usize,
    /// Memory for rings.
    pub(crate) pool_at: usize,
    pub(crate) pool_len: usize,
}

impl Layout {
    /// Returns the layout for so many ranks: at least 2, at most [`MAX_RANKS`].
    pub(crate) fn of(ranks: u32) -> Layout {
        debug_assert!((2..=MAX_RANKS).contains(&ranks));
        let n = ranks as usize;
        let pairs_at = HEADER + n * SLOT;
        let regions_at = pairs_at + n * n * 8;
        let joints_at = (regions_at + n * REGIONS * 8).next_multiple_of(JOINT);
        let pool_at = (joints_at + n * JOINTS * JOINT).next_multiple_of(PAGE);
        let most = n * (n - 1) * MAX_RING;
        let pool_len = most.min(n * RANK_BYTES - pool_at);
        Layout { ranks, pairs_at, regions_at, joints_at, pool_at, pool_len }
    }

    /// Bytes of the whole segment.
    pub(crate) fn total(&self) -> usize {
        self.pool_at + self.pool_len
    }

    /// Bytes of the ring that the `nth` pair to need one gets, when `used` bytes of the pool are
    /// taken: an even share of the pool, or 64 KiB if that is more, as long as it leaves enough
    /// for the smallest ring for every other pair.
    pub(crate) fn ring_bytes(&self, nth: u32, used: usize) -> Option<usize> {
        let pairs = self.ranks as usize * (self.ranks as usize - 1);
        let others = pairs.checked_sub(nth as usize + 1)?;
        let room = self.pool_len.checked_sub(used)?.checked_sub(others * MIN_RING)?;
        let share = (self.pool_len / pairs).clamp(GOOD_RING, MAX_RING);
        let size = room.min(share).max(MIN_RING);
        (room >= MIN_RING).then(|| size / MIN_RING * MIN_RING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_takes_at_most_two_mebibytes_a_rank() {
        for ranks in 2..=MAX_RANKS {
            let l = Layout::of(ranks);
            assert!(l.total() <= ranks as usize * RANK_BYTES, "{ranks} ranks: {}", l.total());
        }
        assert!(Layout::of(2).pool_len > 2 * MAX_RING * 9 / 10);
    }

    /// Every pair gets a ring for any number of ranks, and the first ones get large ones.
    #[test]
    fn every_pair_gets_a_ring() {
        for ranks in [2, 3, 4, 8, 9, 31, 32, 33, 64, 128, 256, 447, MAX_RANKS] {
            let l = Layout::of(ranks);
            let mut used = 0;
            for nth in 0..ranks * (ranks - 1) {
                let bytes = l.ring_bytes(nth, used).unwrap_or_else(|| panic!("pair {nth} of {ranks} ranks"));
                assert!(bytes.is_multiple_of(MIN_RING) && (MIN_RING..=MAX_RING).contains(&bytes));
                if nth < 2 * ranks && ranks <= 128 {
                    assert!(bytes >= 64 << 10, "{bytes} for pair {nth} of {ranks}");
                }
                used += bytes;
            }
            assert!(used <= l.pool_len);
            assert_eq!(l.ring_bytes(ranks * (ranks - 1), used), None);
        }
    }
}
