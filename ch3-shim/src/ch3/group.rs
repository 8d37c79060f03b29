//! Process groups: processes by rank, and the context ids of each group.
//!
//! Group 0 is the job. A remote group (dynamic processes) holds the processes at the other end
//! of an intercommunicator.
//!
//! Each group has a space of context ids of its own. The wire carries a context relative to its
//! group; the VC that a packet comes by says which group that is. So two jobs need not agree on
//! numbers, and a packet can name no context but those of its own group.

use netmod_core::{GroupId, PeerName, RankTable};

/// Bit of the contexts of the device's own messages, such as barriers.
pub(crate) const INTERNAL: u32 = 1 << 31;
/// Bit of the contexts of remote groups.
const REMOTE: u32 = 1 << 30;
/// Contexts of a remote group: 2^16, the internal ones apart.
const REMOTE_BITS: u32 = 16;
/// Most remote groups at once: 2^14.
const SPACES: u32 = REMOTE >> REMOTE_BITS;

/// The context ids of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    base: u32,
    mask: u32,
}

impl Space {
    /// The context ids of the job.
    pub(crate) const WORLD: Space = Space { base: 0, mask: REMOTE };

    fn remote(number: u32) -> Space {
        Space { base: REMOTE | number << REMOTE_BITS, mask: INTERNAL - (1 << REMOTE_BITS) }
    }

    /// Returns true if a context of this process belongs to this group.
    #[inline]
    pub(crate) fn owns(self, context: u32) -> bool {
        context & self.mask == self.base
    }

    /// Returns a context of this group as packets carry it.
    #[inline]
    pub(crate) fn to_wire(self, context: u32) -> u32 {
        context & !self.mask
    }

    /// Returns the context that a packet from this group names; `None` if it is not one of the
    /// group's.
    #[inline]
    pub(crate) fn of_wire(self, context: u32) -> Option<u32> {
        (context & self.mask == 0).then_some(context | self.base)
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
}

/// The number of the job among the groups.
pub(crate) const WORLD: u32 = 0;

impl Groups {
    pub(crate) fn new(world: Group) -> Groups {
        Groups { world, remote: Vec::new(), next_space: 0 }
    }

    /// Adds a remote group, whose processes know this one as `me`. Returns its number, or `None` if
    /// there are too many.
    pub(crate) fn add(&mut self, id: GroupId, me: PeerName, size: u32, cards: Cards) -> Option<u32> {
        let taken = |n: u32| self.remote.iter().flatten().any(|g| g.space == Space::remote(n));
        let space = (0..SPACES).map(|i| (self.next_space + i) % SPACES).find(|n| !taken(*n))?;
        self.next_space = (space + 1) % SPACES;
        let group = Some(Group::new(id, me, size, Space::remote(space), cards));
        match self.remote.iter().position(Option::is_none) {
            Some(i) => {
                self.remote[i] = group;
                Some(i as u32 + 1)
            }
            None => {
                self.remote.push(group);
                Some(self.remote.len() as u32)
            }
        }
    }

    /// Removes a remote group. The caller destroys its VCs.
    pub(crate) fn remove(&mut self, number: u32) -> Option<Group> {
        self.remote.get_mut((number as usize).checked_sub(1)?)?.take()
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

    /// Returns the group of a context of this process.
    pub(crate) fn of_context(&self, context: u32) -> Option<&Group> {
        self.iter().map(|(_, g)| g).find(|g| g.space.owns(context))
    }
}

#[cfg(test)]
mod tests;
