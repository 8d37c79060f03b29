//! The processes of a group by rank, each with its rank in the job, and back.

use std::collections::HashMap;
use std::sync::Arc;

use ch3_shim::process_of;

/// A list of processes. Ranks of the job are called places here.
#[derive(Debug)]
pub(crate) struct Ranks {
    /// The place of each rank.
    places: Arc<[u32]>,
    inverse: Inverse,
    /// If the places are those of threads: the number of this process's threads that have the
    /// context id of what is made for this list.
    sharers: Option<u32>,
}

/// The rank of each place.
#[derive(Debug)]
enum Inverse {
    /// It is the place.
    Same,
    /// A table of the places from `first` on; [`NOBODY`] for those that are not in the group.
    Table { first: u32, ranks: Box<[u32]> },
    /// Places that are far apart.
    Map(HashMap<u32, u32>),
}

const NOBODY: u32 = u32::MAX;
/// Entries of a table for each process, at most.
const SPARSE: usize = 4;

impl Ranks {
    /// Creates a list from the place of each thread, of this process and others. `sharers` threads
    /// of this process have the context id of what is made for the list.
    pub(crate) fn of_threads(places: Arc<[u32]>, sharers: u32) -> Ranks {
        Ranks { sharers: Some(sharers), ..Ranks::new(places) }
    }

    /// Creates a list from the place of each rank. No place is in it twice.
    pub(crate) fn new(places: Arc<[u32]>) -> Ranks {
        let sharers = None;
        if places.iter().enumerate().all(|(rank, place)| rank as u32 == *place) {
            return Ranks { places, inverse: Inverse::Same, sharers };
        }
        let first = places.iter().copied().min().unwrap_or(0);
        let last = places.iter().copied().max().unwrap_or(0);
        let span = (last - first) as usize + 1;
        let pairs = places.iter().enumerate().map(|(rank, place)| (*place, rank as u32));
        let inverse = if span <= SPARSE * places.len() {
            let mut ranks = vec![NOBODY; span];
            pairs.for_each(|(place, rank)| ranks[(place - first) as usize] = rank);
            Inverse::Table { first, ranks: ranks.into() }
        } else {
            Inverse::Map(pairs.collect())
        };
        Ranks { places, inverse, sharers }
    }

    /// Returns the number of processes.
    #[inline]
    pub(crate) fn size(&self) -> u32 {
        self.places.len() as u32
    }

    /// Returns true if the ranks are threads.
    #[inline]
    pub(crate) fn are_threads(&self) -> bool {
        self.sharers.is_some()
    }

    /// Returns the list for another communicator of these ranks, in which this process or thread
    /// has the rank `me`.
    pub(crate) fn for_another(self: &Arc<Ranks>, me: u32) -> Arc<Ranks> {
        let own = self.siblings(me).count() as u32;
        if self.sharers() == own {
            return Arc::clone(self);
        }
        Arc::new(Ranks::of_threads(Arc::clone(&self.places), own))
    }

    /// Returns the number of communicators of this process that have one context id.
    pub(crate) fn sharers(&self) -> u32 {
        self.sharers.unwrap_or(1)
    }

    /// Returns those of its ranks that are threads of the process of rank `me`, or that rank alone.
    pub(crate) fn siblings(&self, me: u32) -> impl Iterator<Item = u32> {
        let own = self.place(me).map(process_of);
        let all = if self.are_threads() { 0..self.size() } else { me..me + 1 };
        all.filter(move |rank| !self.are_threads() || self.place(*rank).map(process_of) == own)
    }

    /// Returns true if rank `me` speaks for its process in agreements on context ids among its
    /// siblings that `take` part.
    pub(crate) fn leads(&self, me: u32, take: impl Fn(u32) -> bool) -> bool {
        self.siblings(me).find(|rank| take(*rank)) == Some(me)
    }

    /// Returns the place of a rank; `None` if there is no such rank.
    #[inline]
    pub(crate) fn place(&self, rank: u32) -> Option<u32> {
        match &self.inverse {
            Inverse::Same => (rank < self.size()).then_some(rank),
            _ => self.places.get(rank as usize).copied(),
        }
    }

    /// Returns the rank of a place; `None` if that process is not in the group.
    #[inline]
    pub(crate) fn rank(&self, place: u32) -> Option<u32> {
        match &self.inverse {
            Inverse::Same => (place < self.size()).then_some(place),
            Inverse::Table { first, ranks } => {
                let rank = *ranks.get(place.checked_sub(*first)? as usize)?;
                (rank != NOBODY).then_some(rank)
            }
            Inverse::Map(map) => map.get(&place).copied(),
        }
    }

    /// Returns the places in the order of ranks.
    #[inline]
    pub(crate) fn places(&self) -> &Arc<[u32]> {
        &self.places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_places_are_inverse() {
        let lists: [&[u32]; 5] = [&[0, 1, 2], &[2, 0, 1], &[5, 7, 6], &[1_000_000, 3, 0], &[]];
        for list in lists {
            let ranks = Ranks::new(list.into());
            assert_eq!(ranks.size() as usize, list.len());
            assert_eq!(&**ranks.places(), list);
            for place in [0, 1, 2, 3, 4, 5, 6, 7, 8, 999_999, 1_000_000, u32::MAX] {
                let rank = list.iter().position(|p| *p == place).map(|r| r as u32);
                assert_eq!(ranks.rank(place), rank, "{place} in {list:?}");
                assert_eq!(rank.and_then(|r| ranks.place(r)), rank.map(|_| place));
            }
            assert_eq!(ranks.place(list.len() as u32), None);
        }
    }
}
