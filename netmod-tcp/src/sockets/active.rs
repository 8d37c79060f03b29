//! The connections that were active last: read directly, without asking epoll.
//!
//! A connection that keeps bringing something is taken out of epoll altogether: as long as it is
//! in, the kernel runs epoll's callback for every segment that arrives, within the sender's system
//! call. It is put back when it is demoted, or when the process is about to block.

use crate::conn::ConnId;

/// Connections that are read without asking epoll.
pub(crate) const ACTIVE: usize = 4;
/// Empty polls after which the active set is emptied; empty reads after which a connection leaves
/// it.
const COOL_AFTER: u32 = 4096;
/// Polls between two calls of epoll, in a poll that has found nothing: then nobody waits for what
/// was found.
const EPOLL_EVERY: u32 = 64;
/// The same when all connections are active, so that epoll could only tell of new ones; and when
/// every poll finds something.
const EPOLL_SELDOM: u32 = 256;
/// Empty polls after which epoll is asked more often, and how often then.
const IMPATIENT_AFTER: u32 = 16;
const IMPATIENT_EVERY: u32 = 4;
/// Successful reads after which a connection is taken out of epoll.
const SOLO_AFTER: u32 = 32;

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: ConnId,
    /// Successful reads since it became active.
    hits: u32,
    /// Empty reads since the last successful one.
    misses: u32,
}

/// The list.
#[derive(Debug)]
pub(crate) struct ActiveSet {
    /// Most recent first, without gaps.
    list: [Option<Entry>; ACTIVE],
    /// Empty polls since a connection brought something.
    idle: u32,
    /// Polls since epoll was asked.
    since_epoll: u32,
    /// Polls between two calls of epoll at most.
    most: u32,
}

impl Default for ActiveSet {
    fn default() -> ActiveSet {
        ActiveSet { list: [None; ACTIVE], idle: 0, since_epoll: 0, most: 2 * EPOLL_SELDOM }
    }
}

impl ActiveSet {
    /// Returns the connection at an index of the list.
    #[inline]
    pub(crate) fn at(&self, i: usize) -> Option<ConnId> {
        self.list[i].map(|e| e.id)
    }

    /// Takes note that a connection has brought something. Returns true if it should leave epoll
    /// now.
    #[inline]
    pub(crate) fn hit(&mut self, i: usize) -> bool {
        match &mut self.list[i] {
            Some(e) => {
                e.hits = e.hits.wrapping_add(1);
                e.misses = 0;
                // Again and again, because a write that waits for room puts it back.
                e.hits.is_multiple_of(SOLO_AFTER)
            }
            None => false,
        }
    }

    /// Takes note that a connection has brought nothing. Returns true if that has been so for long:
    /// it should leave the list, as each empty read delays what another one brings.
    #[inline]
    pub(crate) fn miss(&mut self, i: usize) -> bool {
        match &mut self.list[i] {
            Some(e) => {
                e.misses += 1;
                e.misses > COOL_AFTER
            }
            None => false,
        }
    }

    /// Puts a connection first; returns the one that has thereby left the list.
    pub(super) fn insert(&mut self, id: ConnId) -> Option<ConnId> {
        self.idle = 0;
        let known = self.list.iter().position(|h| h.is_some_and(|e| e.id == id));
        let at = known.unwrap_or(ACTIVE - 1);
        let out = if known.is_none() { self.list[at] } else { None };
        let entry = known.and_then(|i| self.list[i]).unwrap_or(Entry { id, hits: 0, misses: 0 });
        self.list[..=at].rotate_right(1);
        self.list[0] = Some(entry);
        out.map(|e| e.id)
    }

    /// Takes a connection out of the list.
    pub(crate) fn forget(&mut self, id: ConnId) {
        if let Some(at) = self.list.iter().position(|h| h.is_some_and(|e| e.id == id)) {
            self.list[at] = None;
            self.list[at..].rotate_left(1);
        }
    }

    /// Removes and returns all connections.
    pub(super) fn take(&mut self) -> impl Iterator<Item = ConnId> + use<> {
        std::mem::take(&mut self.list).into_iter().flatten().map(|e| e.id)
    }

    /// Returns a connection that goes back into epoll, where it stays for a while.
    pub(super) fn settle(&mut self, i: usize) -> Option<ConnId> {
        let e = self.list[i].as_mut()?;
        e.hits = 0;
        Some(e.id)
    }

    fn len(&self) -> usize {
        self.list.iter().flatten().count()
    }

    /// Ends a poll of the active connections. Returns true if epoll is to be asked now.
    #[inline]
    pub(crate) fn wants_epoll(&mut self, found: bool, connections: usize) -> bool {
        self.since_epoll += 1;
        if found {
            self.idle = 0;
            return self.since_epoll >= self.most;
        }
        self.idle = self.idle.saturating_add(1);
        let every = match self.idle {
            _ if self.list[0].is_none() => 1,
            _ if self.len() == connections => EPOLL_SELDOM,
            ..IMPATIENT_AFTER => EPOLL_EVERY,
            _ => IMPATIENT_EVERY,
        };
        self.since_epoll >= every.min(self.most)
    }

    /// Has epoll asked in each poll, or as seldom as is best for the active connections.
    pub(crate) fn keep_asking(&mut self, always: bool) {
        self.most = if always { 1 } else { 2 * EPOLL_SELDOM };
    }

    /// Takes note that epoll is being asked. Returns true if the list has been of no use for long.
    #[inline]
    pub(crate) fn asked(&mut self) -> bool {
        self.since_epoll = 0;
        self.idle > COOL_AFTER && self.list[0].is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u64) -> ConnId {
        ConnId::from_wire(n | 1 << 32)
    }

    #[test]
    fn the_least_recent_one_leaves() {
        let mut active = ActiveSet::default();
        for n in 0..4 {
            assert_eq!(active.insert(id(n)), None);
        }
        assert_eq!(active.insert(id(1)), None);
        assert_eq!(active.insert(id(9)), Some(id(0)));
        let order: Vec<_> = (0..ACTIVE).map(|i| active.at(i)).collect();
        assert_eq!(order, [9, 1, 3, 2].map(|n| Some(id(n))));
        active.forget(id(1));
        let order: Vec<_> = (0..ACTIVE).map(|i| active.at(i)).collect();
        assert_eq!(order, [Some(id(9)), Some(id(3)), Some(id(2)), None]);
        active.forget(id(77));
        assert_eq!(active.len(), 3);
    }

    #[test]
    fn hits_are_kept_when_the_order_changes() {
        let mut active = ActiveSet::default();
        active.insert(id(1));
        for n in 1..SOLO_AFTER {
            assert!(!active.hit(0), "{n}");
        }
        active.insert(id(2));
        assert!(active.hit(1));
        assert!(!active.hit(1));
    }

    /// Each empty read would delay what the busy one brings.
    #[test]
    fn one_that_brings_nothing_beside_a_busy_one_leaves() {
        let mut active = ActiveSet::default();
        active.insert(id(1));
        active.insert(id(2));
        let mut left = None;
        for n in 0..=COOL_AFTER {
            active.hit(0);
            active.wants_epoll(true, 2);
            if active.miss(1) {
                left = Some(n);
            }
        }
        assert_eq!(left, Some(COOL_AFTER));
        for _ in 0..3 {
            for _ in 0..COOL_AFTER {
                assert!(!active.miss(0));
            }
            active.hit(0);
        }
    }

    #[test]
    fn epoll_is_never_forgotten() {
        let mut active = ActiveSet::default();
        assert!(active.wants_epoll(false, 0));
        active.insert(id(1));
        for found in [true, false] {
            for connections in [1, 1000] {
                active.asked();
                let polls = (1..=1000).find(|_| active.wants_epoll(found, connections));
                assert!(polls.is_some_and(|n| n <= 2 * EPOLL_SELDOM), "{found} {connections}");
            }
        }
        for _ in 0..COOL_AFTER + 2 {
            active.wants_epoll(false, 1);
        }
        assert!(active.asked());
    }
}
