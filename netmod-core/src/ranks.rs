//! The VC of each rank of a group, at eight bytes per rank with a VC.

use crate::slab::VcId;

const PAGE_BITS: u32 = 6;
const PAGE: usize = 1 << PAGE_BITS;
/// The handle of no VC.
const NO_VC: VcId = VcId::from_wire(0);

/// A map from rank to VC, in pages that are allocated on first use.
#[derive(Debug, Default)]
pub struct RankTable {
    pages: Vec<Option<Box<[VcId; PAGE]>>>,
}

impl RankTable {
    /// Creates an empty table with room for the pages of so many ranks: an eighth of a byte for
    /// each.
    pub fn new(ranks: u32) -> RankTable {
        RankTable { pages: (0..(ranks as usize).div_ceil(PAGE)).map(|_| None).collect() }
    }

    /// Returns the VC of a rank, if it has one.
    #[inline]
    pub fn get(&self, rank: u32) -> Option<VcId> {
        let page = self.pages.get((rank >> PAGE_BITS) as usize)?.as_ref()?;
        let vc = page[rank as usize % PAGE];
        (vc != NO_VC).then_some(vc)
    }

    /// Sets the VC of a rank.
    ///
    /// The table grows with the greatest rank ever set; the caller makes sure that it is a rank of
    /// the group.
    pub fn set(&mut self, rank: u32, vc: Option<VcId>) {
        let page = (rank >> PAGE_BITS) as usize;
        if page >= self.pages.len() {
            if vc.is_none() {
                return;
            }
            self.pages.resize_with(page + 1, || None);
        }
        self.pages[page].get_or_insert_with(|| Box::new([NO_VC; PAGE]))[rank as usize % PAGE] =
            vc.unwrap_or(NO_VC);
    }

    /// Iterates over the ranks that have a VC.
    pub fn iter(&self) -> impl Iterator<Item = (u32, VcId)> + '_ {
        let pages = self.pages.iter().enumerate().filter_map(|(i, p)| Some((i, p.as_ref()?)));
        pages.flat_map(|(i, p)| {
            let vcs = p.iter().enumerate().filter(|(_, vc)| **vc != NO_VC);
            vcs.map(move |(j, vc)| ((i * PAGE + j) as u32, *vc))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vc(n: u64) -> VcId {
        VcId::from_wire(n | 1 << 32)
    }

    #[test]
    fn a_table_holds_what_was_set_and_costs_what_is_used() {
        let mut t = RankTable::new(10_000);
        let ranks = [0, 1, 63, 64, 4097, 9_983, 9_984, 9_999];
        for r in ranks {
            assert_eq!(t.get(r), None);
            t.set(r, Some(vc(r.into())));
        }
        for r in 0..10_000 {
            assert_eq!(t.get(r), ranks.contains(&r).then(|| vc(r.into())), "{r}");
        }
        assert_eq!(t.iter().collect::<Vec<_>>(), ranks.map(|r| (r, vc(r.into()))));
        assert_eq!(t.pages.iter().flatten().count(), 5, "pages of ranks that were not used");
        assert!(size_of_val(&t.pages[..]) <= 2048);
        t.set(64, None);
        assert_eq!(t.get(64), None);
    }

    #[test]
    fn a_table_grows_for_ranks_that_get_a_vc_and_for_no_others() {
        let mut t = RankTable::default();
        for r in [0, 20_000, u32::MAX] {
            assert_eq!(t.get(r), None);
            t.set(r, None);
            assert_eq!((t.get(r), t.pages.len()), (None, 0));
        }
        t.set(20_000, Some(vc(1)));
        t.set(3, Some(vc(2)));
        assert_eq!(t.iter().collect::<Vec<_>>(), [(3, vc(2)), (20_000, vc(1))]);
        assert_eq!((t.get(20_001), t.get(1 << 20)), (None, None));
    }
}
