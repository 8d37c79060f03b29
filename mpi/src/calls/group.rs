//! Groups.

use crate::error::Result;
use crate::group::Range;
use crate::handle::Group;
use crate::instance::Mpi;

impl Mpi {
    /// Returns the number of processes.
    ///
    /// # Errors
    /// A bad handle.
    pub fn group_size(&self, group: Group) -> Result<i32> {
        self.with(|s| s.objects.groups.size(group))
    }

    /// Returns this process's rank.
    ///
    /// # Errors
    /// A bad handle.
    pub fn group_rank(&self, group: Group) -> Result<i32> {
        self.with(|s| s.objects.groups.rank(group))
    }

    /// Compares two groups.
    ///
    /// # Errors
    /// A bad handle.
    pub fn group_compare(&self, a: Group, b: Group) -> Result<i32> {
        self.with(|s| s.objects.groups.compare(a, b))
    }

    /// Returns the ranks in one group of ranks in another.
    ///
    /// # Errors
    /// A bad handle or rank.
    pub fn group_translate_ranks(&self, from: Group, ranks: &[i32], to: Group) -> Result<Vec<i32>> {
        self.with(|s| s.objects.groups.translate_ranks(from, ranks, to))
    }

    /// Makes the union of two groups.
    ///
    /// # Errors
    /// A bad handle.
    pub fn group_union(&self, a: Group, b: Group) -> Result<Group> {
        self.with(|s| s.objects.groups.union(a, b))
    }

    /// Makes the intersection of two groups.
    ///
    /// # Errors
    /// A bad handle.
    pub fn group_intersection(&self, a: Group, b: Group) -> Result<Group> {
        self.with(|s| s.objects.groups.intersection(a, b))
    }

    /// Makes the group of those processes of `a` that are not in `b`.
    ///
    /// # Errors
    /// A bad handle.
    pub fn group_difference(&self, a: Group, b: Group) -> Result<Group> {
        self.with(|s| s.objects.groups.difference(a, b))
    }

    /// Makes the group of these ranks, in this order.
    ///
    /// # Errors
    /// A bad handle or rank.
    pub fn group_incl(&self, group: Group, ranks: &[i32]) -> Result<Group> {
        self.with(|s| s.objects.groups.incl(group, ranks))
    }

    /// Makes the group of all other ranks.
    ///
    /// # Errors
    /// A bad handle or rank.
    pub fn group_excl(&self, group: Group, ranks: &[i32]) -> Result<Group> {
        self.with(|s| s.objects.groups.excl(group, ranks))
    }

    /// Makes the group of ranges of ranks.
    ///
    /// # Errors
    /// A bad handle or range.
    pub fn group_range_incl(&self, group: Group, ranges: &[Range]) -> Result<Group> {
        self.with(|s| s.objects.groups.range_incl(group, ranges))
    }

    /// Makes the group without ranges of ranks.
    ///
    /// # Errors
    /// A bad handle or range.
    pub fn group_range_excl(&self, group: Group, ranges: &[Range]) -> Result<Group> {
        self.with(|s| s.objects.groups.range_excl(group, ranges))
    }

    /// Frees a group and sets the handle to null.
    ///
    /// # Errors
    /// A bad handle.
    pub fn group_free(&self, group: &mut Group) -> Result<()> {
        self.with(|s| s.objects.groups.free(group))
    }
}
