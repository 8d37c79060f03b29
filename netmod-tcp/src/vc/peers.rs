//! The VC of each peer that has one, by name. Most peers are of one's own job, so those are held by
//! rank alone: a name of 20 bytes for each would be more than all the rest.

use std::collections::HashMap;

use netmod_core::{GroupId, PeerName, RankTable, VcId};

/// VCs by the peers' names.
#[derive(Debug)]
pub(crate) struct Peers {
    own: GroupId,
    ranks: RankTable,
    others: HashMap<PeerName, VcId>,
}

impl Peers {
    /// Makes an empty table for a process of the group `own`.
    pub(crate) fn new(own: GroupId) -> Peers {
        Peers { own, ranks: RankTable::default(), others: HashMap::new() }
    }

    pub(crate) fn get(&self, peer: &PeerName) -> Option<VcId> {
        if peer.group == self.own { self.ranks.get(peer.rank) } else { self.others.get(peer).copied() }
    }

    pub(crate) fn insert(&mut self, peer: PeerName, vc: VcId) {
        if peer.group == self.own {
            self.ranks.set(peer.rank, Some(vc));
        } else {
            self.others.insert(peer, vc);
        }
    }

    pub(crate) fn remove(&mut self, peer: &PeerName) {
        if peer.group == self.own {
            self.ranks.set(peer.rank, None);
        } else {
            self.others.remove(peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_rank_of_two_groups_is_two_peers() {
        let name = |g, rank| PeerName { group: GroupId([g; 16]), rank };
        let (a, b) = (VcId::from_wire(1 << 32), VcId::from_wire(1 << 32 | 1));
        assert_ne!(a, b);
        let mut peers = Peers::new(GroupId([1; 16]));
        peers.insert(name(1, 7), a);
        assert_eq!(peers.get(&name(2, 7)), None);
        peers.insert(name(2, 7), b);
        assert_eq!((peers.get(&name(1, 7)), peers.get(&name(2, 7))), (Some(a), Some(b)));
        peers.remove(&name(1, 7));
        assert_eq!((peers.get(&name(1, 7)), peers.get(&name(2, 7))), (None, Some(b)));
        peers.remove(&name(2, 7));
        assert_eq!(peers.get(&name(2, 7)), None);
    }
}
