//! Process groups: processes by rank, and the context ids of each group.
//!
//! Group 0 is the job. A remote group (dynamic processes) holds the processes at the other end
//! of an intercommunicator.
//!
//! Each group has a space of context ids of its own. The wire carries a context relative to its
//! group; the VC that a packet comes by says which group that is. So two jobs need not agree on
//! numbers, and a packet can name no context but those of its own group.
//!
//! A job that the layer above has met ([`JobName`]) shares the job's space, since a communicator
//! may have processes of several jobs. Its processes have numbers behind those of the job: places.
//! A message's source, as receives name it, is the place of the process whose VC it comes by.

use std::collections::BTreeMap;

use netmod_core::{GroupId, PeerName, RankTable, Time};

use super::job_name::JobName;
use super::threads::{REMOTE, process_of_source};

/// Bit of the contexts of the device's own messages, such as barriers.
pub(crate) const INTERNAL: u32 = 1 << 31;
/// Contexts of a remote group: 2^16, the internal ones apart.
const REMOTE_BITS: u32 = 16;
/// Most remote groups at once: 2^14.
const SPACES: u32 = REMOTE >> REMOTE_BITS;

/// The context ids of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    /// Bits of all its contexts; zero for those of the job.
    base: u32,
}

impl Space {
    /// The context ids of the job.
    pub(crate) const WORLD: Space = Space { base: 0 };

    fn remote(number: u32) -> Space {
        Space { base: REMOTE | number << REMOTE_BITS }
    }

    /// Returns the bits that tell the spaces apart.
    #[inline]
    fn mask(self) -> u32 {
        if self.base == 0 { REMOTE } else { INTERNAL - (1 << REMOTE_BITS) }
    }

    /// Returns true if a context of this process belongs to this group.
    #[inline]
    pub(crate) fn owns(self, context: u32) -> bool {
        context & self.mask() == self.base
    }

    /// Returns a context of this group as packets carry it.
    #[inline]
    pub(crate) fn to_wire(self, context: u32) -> u32 {
        context & !self.mask()
    }

    /// Returns the context that a packet from this group names; `None` if it is not one of the
    /// group's.
    #[inline]
    pub(crate) fn of_wire(self, context: u32) -> Option<u32> {
        (context & self.mask() == 0).then_some(context | self.base)
    }

    /// Returns the `n`-th context of the group.
    fn nth(self, n: u32) -> Option<u32> {
        self.of_wire(n).filter(|c| c & INTERNAL == 0)
    }
}

/// A process group: processes that can be named by rank.
#[derive(Debug)]
pub(crate) struct Group {
    pub id: GroupId,
    /// Number of processes.
    pub size: u32,
    /// Source, in receives, of the messages of its rank 0.
    pub first: u32,
    /// The job that it is, if the layer above has met that.
    pub job: Option<JobName>,
    /// It is being left: its VCs are destroyed once they are closed, or at this time.
    pub leaving: Option<Time>,
    /// This process's rank in the group if it is a member, otherwise in the group at this end.
    pub me: u32,
    /// The group of that rank.
    own: GroupId,
    /// Its contexts.
    pub space: Space,
    /// The VC of each rank, made on first use.
    pub vcs: RankTable,
    /// The source of its processes' business cards.
    pub cards: Cards,
    /// Contexts given out.
    contexts: u32,
    /// True if the layer above agrees on contexts, so that none is given out here.
    named: bool,
    /// Collective calls on the group that have begun; the number identifies a call.
    pub calls: u32,
}

/// The source of a group's business cards.
#[derive(Debug)]
pub(crate) enum Cards {
    /// This job's process manager.
    Launcher,
    /// This table, by rank.
    Given(Vec<Box<[u8]>>),
    /// No source: only its processes connect.
    Unknown,
}

impl Group {
    /// Makes the job's group, in which this process is rank `me`.
    pub(crate) fn world(id: GroupId, me: u32, size: u32) -> Group {
        Group::new(id, PeerName { group: id, rank: me }, size, Space::WORLD, Cards::Launcher)
    }

    fn new(id: GroupId, me: PeerName, size: u32, space: Space, cards: Cards) -> Group {
        let PeerName { group: own, rank: me } = me;
        Group {
            id,
            size,
            first: 0,
            job: None,
            leaving: None,
            me,
            own,
            space,
            vcs: RankTable::new(size),
            cards,
            contexts: 1,
            named: false,
            calls: 0,
        }
    }

    /// Returns the name by which its processes know this one.
    pub(crate) fn own_name(&self) -> PeerName {
        PeerName { group: self.own, rank: self.me }
    }

    /// Returns true if a message of this context and source can come from the group.
    pub(crate) fn owns(&self, context: u32, source: i32) -> bool {
        let source = process_of_source(context, source).cast_unsigned();
        self.space.owns(context) && source.checked_sub(self.first).is_some_and(|rank| rank < self.size)
    }

    /// Returns the rank of the process of which messages with this source are. The group owns them.
    pub(crate) fn rank_of(&self, context: u32, source: i32) -> u32 {
        process_of_source(context, source).cast_unsigned() - self.first
    }

    /// Returns the first context of the group.
    pub(crate) fn first_context(&self) -> u32 {
        self.space.base
    }

    /// Leaves the contexts to the layer above. Returns false if some were given out before.
    pub(crate) fn name_contexts(&mut self) -> bool {
        self.named |= self.contexts == 1;
        self.named
    }

    /// Returns true if the layer above agrees on contexts.
    pub(crate) fn are_contexts_named(&self) -> bool {
        self.named
    }

    /// Returns a context that was never given out; `None` if none is left.
    pub(crate) fn new_context(&mut self) -> Option<u32> {
        let context = self.space.nth(self.contexts)?;
        self.contexts += 1;
        Some(context)
    }
}

/// All groups that this process knows.
#[derive(Debug)]
pub(crate) struct Groups {
    /// The job: group 0.
    pub world: Group,
    /// Group 1 and on.
    remote: Vec<Option<Group>>,
    /// The space of contexts that is tried first for the next group, so that a freed one is reused
    /// late.
    next_space: u32,
    /// The groups that have places, by their first one.
    placed: BTreeMap<u32, u32>,
    /// The next free place. None is given out twice.
    next_place: u32,
    /// The groups that have places and whose processes send in a context, by contexts.
    mixed: BTreeMap<u32, Vec<u32>>,
}

/// The number of the job among the groups.
pub(crate) const WORLD: u32 = 0;

impl Groups {
    pub(crate) fn new(world: Group) -> Groups {
        let next_place = world.size;
        let (placed, mixed) = (BTreeMap::new(), BTreeMap::new());
        Groups { world, remote: Vec::new(), next_space: 0, placed, next_place, mixed }
    }

    /// Notes which processes of other jobs send in a context, by their places.
    pub(crate) fn set_mixed(&mut self, context: u32, places: &[u32]) {
        let mut groups: Vec<u32> =
            places.iter().filter_map(|p| self.at_place(*p)).map(|(group, _)| group).collect();
        groups.retain(|group| *group != WORLD);
        groups.sort_unstable();
        groups.dedup();
        if groups.is_empty() {
            self.mixed.remove(&context);
        } else {
            self.mixed.insert(context, groups);
        }
    }

    /// Iterates over the groups whose processes may send in a context, with their numbers.
    pub(crate) fn senders(&self, context: u32) -> impl Iterator<Item = (u32, &Group)> {
        let mixed = self.mixed.get(&context);
        self.iter().filter(move |(n, g)| {
            g.space.owns(context)
                && (*n == WORLD || g.job.is_none() || mixed.is_some_and(|groups| groups.contains(n)))
        })
    }

    /// Adds a job whose processes get places. Returns its number, or `None` if no places are left.
    pub(crate) fn add_job(&mut self, id: GroupId, me: PeerName, job: JobName, cards: Cards) -> Option<u32> {
        let first = self.next_place;
        self.next_place = first.checked_add(job.size).filter(|next| *next <= i32::MAX as u32)?;
        let group = Group { first, job: Some(job), ..Group::new(id, me, job.size, Space::WORLD, cards) };
        let number = self.insert(group);
        self.placed.insert(first, number);
        Some(number)
    }

    /// Returns the group and rank of a place.
    #[inline]
    pub(crate) fn at_place(&self, place: u32) -> Option<(u32, u32)> {
        if place < self.world.size {
            return Some((WORLD, place));
        }
        let (first, number) = self.placed.range(..=place).next_back()?;
        let rank = place - first;
        (rank < self.get(*number)?.size).then_some((*number, rank))
    }

    /// Returns the place of a process by its name; `None` for one of a group without places.
    pub(crate) fn place_of(&self, peer: &PeerName) -> Option<u32> {
        let number = self.find(&peer.group)?;
        let group = self.get(number).filter(|g| number == WORLD || g.job.is_some())?;
        (peer.rank < group.size).then_some(group.first + peer.rank)
    }

    /// Returns the name of the process whose messages have this source in a context.
    pub(crate) fn name_of(&self, context: u32, source: i32) -> Option<PeerName> {
        let group = self.iter().map(|(_, g)| g).find(|g| g.owns(context, source))?;
        Some(PeerName { group: group.id, rank: group.rank_of(context, source) })
    }

    fn insert(&mut self, group: Group) -> u32 {
        let at = self.remote.iter().position(Option::is_none).unwrap_or(self.remote.len());
        if at == self.remote.len() {
            self.remote.push(None);
        }
        self.remote[at] = Some(group);
        at as u32 + 1
    }

    /// Adds a remote group, whose processes know this one as `me`. Returns its number, or `None` if
    /// there are too many.
    pub(crate) fn add(&mut self, id: GroupId, me: PeerName, size: u32, cards: Cards) -> Option<u32> {
        let taken = |n: u32| self.remote.iter().flatten().any(|g| g.space == Space::remote(n));
        let space = (0..SPACES).map(|i| (self.next_space + i) % SPACES).find(|n| !taken(*n))?;
        self.next_space = (space + 1) % SPACES;
        Some(self.insert(Group::new(id, me, size, Space::remote(space), cards)))
    }

    /// Removes a remote group. The caller destroys its VCs.
    pub(crate) fn remove(&mut self, number: u32) -> Option<Group> {
        let group = self.remote.get_mut((number as usize).checked_sub(1)?)?.take()?;
        if group.job.is_some() {
            self.placed.remove(&group.first);
            self.mixed.retain(|_, groups| {
                groups.retain(|n| *n != number);
                !groups.is_empty()
            });
        }
        Some(group)
    }

    /// Returns a group by its number.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&Group> {
        if number == WORLD { Some(&self.world) } else { self.remote.get(number as usize - 1)?.as_ref() }
    }

    /// Returns a group by its number.
    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Group> {
        if number == WORLD {
            Some(&mut self.world)
        } else {
            self.remote.get_mut(number as usize - 1)?.as_mut()
        }
    }

    /// Iterates over all groups with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Group)> {
        let remote = self.remote.iter().enumerate().filter_map(|(i, g)| Some((i as u32 + 1, g.as_ref()?)));
        std::iter::once((WORLD, &self.world)).chain(remote)
    }

    /// Returns the number of the group with this id.
    pub(crate) fn find(&self, id: &GroupId) -> Option<u32> {
        self.iter().find(|(_, g)| g.id == *id).map(|(n, _)| n)
    }

    /// Returns the number of the group with these contexts.
    pub(crate) fn of_space(&self, space: Space) -> Option<u32> {
        self.iter().find(|(_, g)| g.space == space).map(|(n, _)| n)
    }
}

#[cfg(test)]
mod tests;
