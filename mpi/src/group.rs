//! Groups: ordered sets of processes.
//!
//! A member is the number of a process in the job. A group does not change, so communicators and
//! groups share the lists.

use std::collections::HashMap;
use std::sync::Arc;

use crate::consts::{IDENT, PROC_NULL, SIMILAR, UNDEFINED, UNEQUAL};
use crate::error::{Class, MpiError, Result};
use crate::handle::{Group, Session, Table};

/// A range of ranks: first, last (part of it), and stride.
pub type Range = [i32; 3];

/// A group.
#[derive(Debug)]
struct Entry {
    members: Arc<[u32]>,
    /// The session that it was made of, or null.
    session: Session,
}

/// All groups of a process.
#[derive(Debug)]
pub struct Groups {
    table: Table<Group, Entry>,
    /// Number of this process in the job.
    me: u32,
}

impl Groups {
    /// Creates the empty group alone, for the process of this number.
    pub fn new(me: u32) -> Groups {
        let empty = Entry { members: Arc::from([]), session: Session::NULL };
        Groups { table: Table::with_predefined([Some(empty)]), me }
    }

    /// Adds a group with these members, made of a session unless that is null; the empty group if
    /// there are none.
    ///
    /// # Errors
    /// If no more can exist.
    pub fn insert(&mut self, members: impl Into<Arc<[u32]>>, session: Session) -> Result<Group> {
        let members = members.into();
        if members.is_empty() { Ok(Group::EMPTY) } else { self.table.insert(Entry { members, session }) }
    }

    /// Returns the session that a group was made of; null for none.
    ///
    /// # Errors
    /// If the group does not exist.
    pub fn session(&self, group: Group) -> Result<Session> {
        self.table.get(group).map(|entry| entry.session)
    }

    /// Returns the members of a group, in the order of their ranks.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn members(&self, group: Group) -> Result<&Arc<[u32]>> {
        self.table.get(group).map(|entry| &entry.members)
    }

    /// Frees a group, and makes its handle null. The empty group stays.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn free(&mut self, group: &mut Group) -> Result<()> {
        if *group != Group::EMPTY {
            self.table.remove(*group)?;
        }
        *group = Group::NULL;
        Ok(())
    }

    /// Returns the number of members.
    ///
    /// # Errors
    /// If the group does not exist.
    pub fn size(&self, group: Group) -> Result<i32> {
        self.members(group).map(|members| members.len() as i32)
    }

    /// Returns the rank of this process, or [`UNDEFINED`] if it is no member.
    ///
    /// # Errors
    /// If the group does not exist.
    pub fn rank(&self, group: Group) -> Result<i32> {
        let members = self.members(group)?;
        Ok(members.iter().position(|m| *m == self.me).map_or(UNDEFINED, |at| at as i32))
    }

    /// Compares two groups: [`IDENT`], [`SIMILAR`] for another order, or [`UNEQUAL`].
    ///
    /// # Errors
    /// If one does not exist.
    pub fn compare(&self, a: Group, b: Group) -> Result<i32> {
        Ok(compare(self.members(a)?, self.members(b)?))
    }

    /// Returns for each rank of one group that of the same process in another; [`UNDEFINED`] if it
    /// is no member.
    ///
    /// # Errors
    /// If a group does not exist, or if a rank is not one of the first group.
    pub fn translate_ranks(&self, from: Group, ranks: &[i32], to: Group) -> Result<Vec<i32>> {
        let (from, to) = (self.members(from)?, self.members(to)?);
        let places = places(to);
        let translated = |rank: &i32| {
            if *rank == PROC_NULL {
                return Ok(PROC_NULL);
            }
            let member = from[checked(*rank, from.len())?];
            Ok(places.get(&member).map_or(UNDEFINED, |at| *at as i32))
        };
        ranks.iter().map(translated).collect()
    }

    /// Creates a group of the members of the first, and then those of the second that are not in
    /// it.
    ///
    /// # Errors
    /// If one does not exist, or if no more can.
    pub fn union(&mut self, a: Group, b: Group) -> Result<Group> {
        let session = self.session_of_both(a, b)?;
        let (a, b) = (self.members(a)?, self.members(b)?);
        let first = places(a);
        let more = b.iter().filter(|m| !first.contains_key(m));
        let members: Vec<u32> = a.iter().chain(more).copied().collect();
        self.insert(members, session)
    }

    /// Creates a group of the members of the first that are in the second.
    ///
    /// # Errors
    /// As [`Groups::union`].
    pub fn intersection(&mut self, a: Group, b: Group) -> Result<Group> {
        self.selected(a, b, true)
    }

    /// Creates a group of the members of the first that are not in the second.
    ///
    /// # Errors
    /// As [`Groups::union`].
    pub fn difference(&mut self, a: Group, b: Group) -> Result<Group> {
        self.selected(a, b, false)
    }

    /// Returns the session of the first group, or else that of the second.
    fn session_of_both(&self, a: Group, b: Group) -> Result<Session> {
        let (a, b) = (self.session(a)?, self.session(b)?);
        Ok(if a.is_null() { b } else { a })
    }

    fn selected(&mut self, a: Group, b: Group, in_second: bool) -> Result<Group> {
        let session = self.session_of_both(a, b)?;
        let (a, b) = (self.members(a)?, self.members(b)?);
        let second = places(b);
        let members: Vec<u32> = a.iter().filter(|m| second.contains_key(m) == in_second).copied().collect();
        self.insert(members, session)
    }

    /// Creates a group of some members, in the order of these ranks.
    ///
    /// # Errors
    /// If the group does not exist, if a rank is not one of it or is named twice, or if no more
    /// groups can exist.
    pub fn incl(&mut self, group: Group, ranks: &[i32]) -> Result<Group> {
        let members = self.members(group)?;
        let chosen = distinct(ranks, members.len())?;
        let chosen: Vec<u32> = chosen.into_iter().map(|at| members[at]).collect();
        self.insert(chosen, self.session(group)?)
    }

    /// Creates a group of all other members than these, in their order.
    ///
    /// # Errors
    /// As [`Groups::incl`].
    pub fn excl(&mut self, group: Group, ranks: &[i32]) -> Result<Group> {
        let members = self.members(group)?;
        let mut stays = vec![true; members.len()];
        for at in distinct(ranks, members.len())? {
            stays[at] = false;
        }
        let left: Vec<u32> = members.iter().zip(stays).filter(|(_, stays)| *stays).map(|(m, _)| *m).collect();
        self.insert(left, self.session(group)?)
    }

    /// Creates a group of the members in ranges of ranks.
    ///
    /// # Errors
    /// As [`Groups::incl`], and if a stride is 0.
    pub fn range_incl(&mut self, group: Group, ranges: &[Range]) -> Result<Group> {
        let ranks = ranks(ranges, self.members(group)?.len())?;
        self.incl(group, &ranks)
    }

    /// Creates a group of the members outside of ranges of ranks.
    ///
    /// # Errors
    /// As [`Groups::range_incl`].
    pub fn range_excl(&mut self, group: Group, ranges: &[Range]) -> Result<Group> {
        let ranks = ranks(ranges, self.members(group)?.len())?;
        self.excl(group, &ranks)
    }

    /// Returns the number of groups that were not freed.
    pub fn live(&self) -> usize {
        self.table.len()
    }
}

/// Compares two lists of processes: [`IDENT`], [`SIMILAR`] for another order, or [`UNEQUAL`].
pub fn compare(a: &[u32], b: &[u32]) -> i32 {
    if a == b {
        return IDENT;
    }
    let first = places(a);
    let similar = a.len() == b.len() && b.iter().all(|m| first.contains_key(m));
    if similar { SIMILAR } else { UNEQUAL }
}

/// Returns the rank of each member.
fn places(members: &[u32]) -> HashMap<u32, usize> {
    members.iter().enumerate().map(|(at, m)| (*m, at)).collect()
}

/// Returns a rank as an index.
fn checked(rank: i32, size: usize) -> Result<usize> {
    usize::try_from(rank).ok().filter(|at| *at < size).ok_or_else(|| {
        let text = match size {
            0 => format!("rank {rank} is not in the group, which is empty"),
            _ => format!("rank {rank} is not in the group, which has the ranks 0 to {}", size - 1),
        };
        MpiError::new(Class::RANK, text)
    })
}

/// Returns ranks as indices, each of which is there once.
fn distinct(ranks: &[i32], size: usize) -> Result<Vec<usize>> {
    let mut seen = vec![false; size];
    ranks
        .iter()
        .map(|rank| {
            let at = checked(*rank, size)?;
            if std::mem::replace(&mut seen[at], true) {
                return Err(MpiError::new(Class::RANK, format!("rank {rank} is named twice")));
            }
            Ok(at)
        })
        .collect()
}

/// Returns the ranks in ranges; no more than one beyond those that the group can have.
fn ranks(ranges: &[Range], size: usize) -> Result<Vec<i32>> {
    let mut all = Vec::new();
    for [first, last, stride] in ranges {
        if *stride == 0 {
            let text = format!("the stride of the range {first} to {last} is 0; it may not be");
            return Err(MpiError::new(Class::ARG, text));
        }
        let mut rank = i64::from(*first);
        let inside = |rank: i64| {
            if *stride > 0 { rank <= i64::from(*last) } else { rank >= i64::from(*last) }
        };
        while inside(rank) {
            // A rank between two 32-bit ones is one.
            all.push(rank as i32);
            if all.len() > size {
                let text = format!("the ranges name more than the {size} ranks of the group");
                return Err(MpiError::new(Class::RANK, text));
            }
            rank += i64::from(*stride);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consts::CONGRUENT;

    fn made(groups: &mut Groups, members: &[u32]) -> Group {
        groups.insert(members.to_vec(), Session::NULL).expect("room")
    }

    fn listed(groups: &Groups, group: Result<Group>) -> Vec<u32> {
        groups.members(group.expect("a group")).expect("its members").to_vec()
    }

    #[test]
    fn sets_keep_the_order_of_the_first() {
        let mut groups = Groups::new(5);
        let (a, b) = (made(&mut groups, &[7, 5, 3]), made(&mut groups, &[3, 9, 7]));
        let all = groups.union(a, b);
        assert_eq!(listed(&groups, all), [7, 5, 3, 9]);
        let both = groups.intersection(a, b);
        assert_eq!(listed(&groups, both), [7, 3]);
        let one = groups.difference(a, b);
        assert_eq!(listed(&groups, one), [5]);
        assert_eq!(groups.difference(a, a), Ok(Group::EMPTY));
        assert_eq!((groups.rank(a), groups.rank(b), groups.size(b)), (Ok(1), Ok(UNDEFINED), Ok(3)));
        let turned = made(&mut groups, &[3, 5, 7]);
        assert_eq!((groups.compare(a, a), groups.compare(a, turned)), (Ok(IDENT), Ok(SIMILAR)));
        assert_eq!(groups.compare(a, b), Ok(UNEQUAL));
        assert_ne!(IDENT, CONGRUENT);
        assert_eq!(groups.translate_ranks(a, &[0, PROC_NULL, 1, 2], b), Ok(vec![2, PROC_NULL, UNDEFINED, 0]));
    }

    #[test]
    fn ranks_and_ranges_choose_members() {
        let mut groups = Groups::new(0);
        let group = made(&mut groups, &[10, 11, 12, 13, 14, 15]);
        for (result, members) in [
            (groups.incl(group, &[5, 0, 2]), &[15, 10, 12][..]),
            (groups.incl(group, &[]), &[]),
            (groups.excl(group, &[5, 0, 2]), &[11, 13, 14]),
            (groups.excl(group, &[]), &[10, 11, 12, 13, 14, 15]),
            (groups.range_incl(group, &[[0, 5, 2], [5, 1, -2]]), &[10, 12, 14, 15, 13, 11]),
            (groups.range_incl(group, &[[3, 2, 1]]), &[]),
            (groups.range_excl(group, &[[1, 4, 1]]), &[10, 15]),
        ] {
            assert_eq!(listed(&groups, result), members);
        }
        let class = |result: Result<Group>| result.expect_err("an error").class;
        assert_eq!(class(groups.incl(group, &[6])), Class::RANK);
        assert_eq!(class(groups.incl(group, &[-1])), Class::RANK);
        assert_eq!(class(groups.excl(group, &[1, 1])), Class::RANK);
        assert_eq!(class(groups.range_incl(group, &[[0, 5, 0]])), Class::ARG);
        assert_eq!(class(groups.range_incl(group, &[[0, i32::MAX, 1]])), Class::RANK);
        assert_eq!(class(groups.incl(Group::NULL, &[])), Class::GROUP);
    }

    #[test]
    fn groups_know_their_session() {
        let mut groups = Groups::new(0);
        let session = Session(77);
        let of = groups.insert(vec![1, 2, 3], session).expect("room");
        let world = made(&mut groups, &[3, 4]);
        let part = groups.incl(of, &[0]).expect("a group");
        let rest = groups.excl(of, &[0]).expect("a group");
        let both = groups.union(world, part).expect("a group");
        let common = groups.intersection(of, world).expect("a group");
        for group in [of, part, rest, both, common] {
            assert_eq!(groups.session(group), Ok(session));
        }
        assert_eq!(groups.session(world), Ok(Session::NULL));
    }

    #[test]
    fn the_empty_group_stays() {
        let mut groups = Groups::new(0);
        let mut empty = Group::EMPTY;
        groups.free(&mut empty).expect("it is there");
        assert_eq!((empty, groups.size(Group::EMPTY)), (Group::NULL, Ok(0)));
        let mut group = made(&mut groups, &[1]);
        groups.free(&mut group).expect("it is there");
        assert_eq!((group, groups.live()), (Group::NULL, 0));
        assert_eq!(groups.free(&mut group).expect_err("null").class, Class::GROUP);
    }
}
