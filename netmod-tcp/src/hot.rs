//! The connections that were active last: read directly, without asking epoll.
//!
//! A connection that keeps bringing something is taken out of epoll altogether: as long as it is in, the
//! kernel runs epoll's callback for every segment that arrives, within the sender's system call. It is
//! put back when it cools down, or when the process is about to block.

use crate::conn::ConnId;
use crate::netmod::TcpNetmod;
use crate::sys::Interest;

/// Connections that are read without asking epoll.
pub(crate) const HOT: usize = 4;
/// Polls in vain after which no connection is hot any more; reads in vain after which one is not.
const COOL_AFTER: u32 = 4096;
/// Polls between two calls of epoll, in a poll that has found nothing: then nobody waits for what was
/// found.
const EPOLL_EVERY: u32 = 64;
/// The same when all connections are hot, so that epoll could only tell of new ones; and when every
/// poll finds something.
const EPOLL_SELDOM: u32 = 256;
/// Polls in vain after which epoll is asked more often, and how often then.
const IMPATIENT_AFTER: u32 = 16;
const IMPATIENT_EVERY: u32 = 4;
/// Reads with success after which a connection is taken out of epoll.
const SOLO_AFTER: u32 = 32;

#[derive(Clone, Copy, Debug)]
struct Entry {
    id: ConnId,
    /// Reads with success since it became hot.
    hits: u32,
    /// Reads in vain since the last one with success.
    misses: u32,
}

/// The list.
#[derive(Debug)]
pub(crate) struct Hot {
    /// Most recent first, without gaps.
    list: [Option<Entry>; HOT],
    /// Polls since one of them brought something.
    idle: u32,
    /// Polls since epoll was asked.
    since_epoll: u32,
    /// Polls between two calls of epoll at most.
    most: u32,
}

impl Default for Hot {
    fn default() -> Hot {
        Hot { list: [None; HOT], idle: 0, since_epoll: 0, most: 2 * EPOLL_SELDOM }
    }
}

impl Hot {
    /// The connection at a place of the list.
    #[inline]
    pub(crate) fn at(&self, i: usize) -> Option<ConnId> {
        self.list[i].map(|e| e.id)
    }

    /// The connection at a place has brought something. True if it should leave epoll now.
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

    /// The connection at a place has brought nothing. True if that has been so for long: it should leave the list, as
    /// each read in vain delays what another one brings.
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
    fn insert(&mut self, id: ConnId) -> Option<ConnId> {
        self.idle = 0;
        let known = self.list.iter().position(|h| h.is_some_and(|e| e.id == id));
        let at = known.unwrap_or(HOT - 1);
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

    fn len(&self) -> usize {
        self.list.iter().flatten().count()
    }

    /// A poll of the hot connections is over: whether epoll is to be asked now.
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

    /// Epoll is to be asked in each poll, or as seldom as it is best for the hot connections.
    pub(crate) fn keep_asking(&mut self, always: bool) {
        self.most = if always { 1 } else { 2 * EPOLL_SELDOM };
    }

    /// Epoll is being asked. Whether the list has been of no use for long.
    #[inline]
    pub(crate) fn asked(&mut self) -> bool {
        self.since_epoll = 0;
        self.idle > COOL_AFTER && self.list[0].is_some()
    }
}

impl TcpNetmod {
    /// A connection has brought something: it is read directly from now on.
    #[inline]
    pub(crate) fn heat(&mut self, id: ConnId) {
        if let Some(out) = self.hot.insert(id) {
            self.rejoin_epoll(out);
        }
    }

    /// A connection is not hot any more.
    #[cold]
    pub(crate) fn chill(&mut self, id: ConnId) {
        self.hot.forget(id);
        self.rejoin_epoll(id);
    }

    /// No connection is hot any more.
    #[cold]
    pub(crate) fn cool(&mut self) {
        for entry in std::mem::take(&mut self.hot.list).into_iter().flatten() {
            self.rejoin_epoll(entry.id);
        }
    }

    /// Epoll is to know of everything, because the process will block on it.
    pub(crate) fn rejoin_epoll_all(&mut self) {
        for i in 0..HOT {
            let Some(e) = &mut self.hot.list[i] else { break };
            e.hits = 0;
            let id = e.id;
            self.rejoin_epoll(id);
        }
    }

    /// Puts a connection back into epoll, if it is out.
    pub(crate) fn rejoin_epoll(&mut self, id: ConnId) {
        let Some(c) = self.conns.get_mut(id) else { return };
        if c.in_epoll {
            return;
        }
        let (fd, interest) = (c.fd(), c.interest);
        match self.epoll.add(fd, id.to_wire(), interest) {
            Ok(()) => c.in_epoll = true,
            Err(e) => {
                tracing::error!(%e, "epoll does not take a connection back; it is read by polling only")
            }
        }
    }

    /// Takes a connection out of epoll; it is hot.
    #[cold]
    pub(crate) fn leave_epoll(&mut self, id: ConnId) {
        let Some(c) = self.conns.get_mut(id) else { return };
        if !c.in_epoll || c.interest != Interest::READ {
            return;
        }
        match self.epoll.remove(c.fd()) {
            Ok(()) => c.in_epoll = false,
            Err(e) => tracing::error!(%e, "epoll does not know a connection that is open"),
        }
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
        let mut hot = Hot::default();
        for n in 0..4 {
            assert_eq!(hot.insert(id(n)), None);
        }
        assert_eq!(hot.insert(id(1)), None);
        assert_eq!(hot.insert(id(9)), Some(id(0)));
        let order: Vec<_> = (0..HOT).map(|i| hot.at(i)).collect();
        assert_eq!(order, [9, 1, 3, 2].map(|n| Some(id(n))));
        hot.forget(id(1));
        let order: Vec<_> = (0..HOT).map(|i| hot.at(i)).collect();
        assert_eq!(order, [Some(id(9)), Some(id(3)), Some(id(2)), None]);
        hot.forget(id(77));
        assert_eq!(hot.len(), 3);
    }

    #[test]
    fn hits_are_kept_when_the_order_changes() {
        let mut hot = Hot::default();
        hot.insert(id(1));
        for n in 1..SOLO_AFTER {
            assert!(!hot.hit(0), "{n}");
        }
        hot.insert(id(2));
        assert!(hot.hit(1));
        assert!(!hot.hit(1));
    }

    /// Each read in vain would delay what the busy one brings.
    #[test]
    fn one_that_brings_nothing_beside_a_busy_one_leaves() {
        let mut hot = Hot::default();
        hot.insert(id(1));
        hot.insert(id(2));
        let mut left = None;
        for n in 0..=COOL_AFTER {
            hot.hit(0);
            hot.wants_epoll(true, 2);
            if hot.miss(1) {
                left = Some(n);
            }
        }
        assert_eq!(left, Some(COOL_AFTER));
        for _ in 0..3 {
            for _ in 0..COOL_AFTER {
                assert!(!hot.miss(0));
            }
            hot.hit(0);
        }
    }

    #[test]
    fn epoll_is_never_forgotten() {
        let mut hot = Hot::default();
        assert!(hot.wants_epoll(false, 0));
        hot.insert(id(1));
        for found in [true, false] {
            for connections in [1, 1000] {
                hot.asked();
                let polls = (1..=1000).find(|_| hot.wants_epoll(found, connections));
                assert!(polls.is_some_and(|n| n <= 2 * EPOLL_SELDOM), "{found} {connections}");
            }
        }
        for _ in 0..COOL_AFTER + 2 {
            hot.wants_epoll(false, 1);
        }
        assert!(hot.asked());
    }
}
