//! Process groups: whom this process can talk to, by rank, and the context ids that belong to each group.
//!
//! Group 0 is the job. A group met later (dynamic processes) holds the processes at the other end of an
//! intercommunicator.
//!
//! Each group has a space of context ids of its own. The wire carries a context relative to its group; the
//! VC that a packet comes by says which group that is. So two jobs need not agree on numbers, and a packet
//! can name no context but those of its own group.

use netmod_core::{GroupId, PeerName, RankTable};

/// Bit of a context that keeps the device's own messages (barriers and the like) apart from the program's.
pub(crate) const INTERNAL: u32 = 1 << 31;
/// Bit of the contexts of groups met later.
const MET: u32 = 1 << 30;
/// Contexts of a group met later: 2^16, the internal ones apart.
const MET_BITS: u32 = 16;
/// Groups met later that there can be at once: 2^14.
const SPACES: u32 = MET >> MET_BITS;

/// The context ids of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    base: u32,
    mask: u32,
}

impl Space {
    /// The job's.
    pub(crate) const WORLD: Space = Space { base: 0, mask: MET };

    fn met(number: u32) -> Space {
        Space { base: MET | number << MET_BITS, mask: INTERNAL - (1 << MET_BITS) }
    }

    /// Whether a context of this process is of this group.
    #[inline]
    pub(crate) fn owns(self, context: u32) -> bool {
        context & self.mask == self.base
    }

    /// A context of this group as packets carry it.
    #[inline]
    pub(crate) fn to_wire(self, context: u32) -> u32 {
        context & !self.mask
    }

    /// The context that a packet from this group names; `None` if the number is none of this group's.
    #[inline]
    pub(crate) fn of_wire(self, context: u32) -> Option<u32> {
        (context & self.mask == 0).then_some(context | self.base)
    }

    /// The `n`-th context of the group.
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
    /// The rank by which its processes know this one: its rank in the group if it is a member, otherwise its
    /// rank in the group at this end.
    pub me: u32,
    /// The group of that rank.
    own: GroupId,
    /// Its contexts.
    pub space: Space,
    /// The VC of each rank, made on first use.
    pub vcs: RankTable,
    /// Where the business cards of its processes are.
    pub cards: Cards,
    /// Contexts given out.
    contexts: u32,
    /// Collective calls on the group that have begun; they are told apart by it.
    pub calls: u32,
}

/// Where the business cards of a group are.
#[derive(Debug)]
pub(crate) enum Cards {
    /// With this job's process manager.
    Launcher,
    /// Here, by rank.
    Given(Vec<Box<[u8]>>),
    /// Nowhere: only its processes connect.
    Unknown,
}

impl Group {
    /// The job, of which this process is rank `me`.
    pub(crate) fn world(id: GroupId, me: u32, size: u32) -> Group {
        Group::new(id, PeerName { group: id, rank: me }, size, Space::WORLD, Cards::Launcher)
    }

    fn new(id: GroupId, me: PeerName, size: u32, space: Space, cards: Cards) -> Group {
        let PeerName { group: own, rank: me } = me;
        Group { id, size, me, own, space, vcs: RankTable::new(size), cards, contexts: 1, calls: 0 }
    }

    /// The name by which its processes know this one.
    pub(crate) fn own_name(&self) -> PeerName {
        PeerName { group: self.own, rank: self.me }
    }

    /// The first context of the group.
    pub(crate) fn first_context(&self) -> u32 {
        self.space.base
    }

    /// A context that was never given out; `None` if there is none left.
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
    met: Vec<Option<Group>>,
    /// The space of contexts that is tried first for the next group: one that was freed rests long.
    next_space: u32,
}

/// The number of the job among the groups.
pub(crate) const WORLD: u32 = 0;

impl Groups {
    pub(crate) fn new(world: Group) -> Groups {
        Groups { world, met: Vec::new(), next_space: 0 }
    }

    /// Adds a group that is met, whose processes know this one as `me`. The group's number, or `None` if there are
    /// too many.
    pub(crate) fn meet(&mut self, id: GroupId, me: PeerName, size: u32, cards: Cards) -> Option<u32> {
        let taken = |n: u32| self.met.iter().flatten().any(|g| g.space == Space::met(n));
        let space = (0..SPACES).map(|i| (self.next_space + i) % SPACES).find(|n| !taken(*n))?;
        self.next_space = (space + 1) % SPACES;
        let group = Some(Group::new(id, me, size, Space::met(space), cards));
        match self.met.iter().position(Option::is_none) {
            Some(i) => {
                self.met[i] = group;
                Some(i as u32 + 1)
            }
            None => {
                self.met.push(group);
                Some(self.met.len() as u32)
            }
        }
    }

    /// Forgets a group that was met. Its VCs are the caller's to destroy.
    pub(crate) fn part(&mut self, number: u32) -> Option<Group> {
        self.met.get_mut((number as usize).checked_sub(1)?)?.take()
    }

    /// A group by its number.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<&Group> {
        if number == WORLD { Some(&self.world) } else { self.met.get(number as usize - 1)?.as_ref() }
    }

    /// A group by its number.
    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut Group> {
        if number == WORLD { Some(&mut self.world) } else { self.met.get_mut(number as usize - 1)?.as_mut() }
    }

    /// All groups with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Group)> {
        let met = self.met.iter().enumerate().filter_map(|(i, g)| Some((i as u32 + 1, g.as_ref()?)));
        std::iter::once((WORLD, &self.world)).chain(met)
    }

    /// The number of the group with this id.
    pub(crate) fn find(&self, id: &GroupId) -> Option<u32> {
        self.iter().find(|(_, g)| g.id == *id).map(|(n, _)| n)
    }

    /// The number of the group with these contexts.
    pub(crate) fn of_space(&self, space: Space) -> Option<u32> {
        self.iter().find(|(_, g)| g.space == space).map(|(n, _)| n)
    }

    /// The group that a context of this process is of.
    pub(crate) fn of_context(&self, context: u32) -> Option<&Group> {
        self.iter().map(|(_, g)| g).find(|g| g.space.owns(context))
    }
}

#[cfg(test)]
mod tests;
