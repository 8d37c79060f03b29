//! A hash table from keys to the numbers of slab nodes, of four bytes an entry.
//!
//! The keys themselves are in the nodes. An entry holds a node number and, in the bits that
//! number does not need, a part of the key's hash: a probe that passes over other keys' entries
//! stays in this small table, which a cache can hold when it can't hold the nodes, and goes to
//! one node only, as good as always the right one.
//!
//! Linear probing. A removed entry becomes a gap that probes pass and insertions fill; it is made
//! empty at once if the next entry is empty. When entries and gaps have filled what its [`Load`]
//! allows of the table, it is rebuilt in place, or doubled if 3/16 less than that is live. Both are
//! amortised over the insertions that made them necessary, at least 3/16 of its size.
//!
//! How long probes are matters more than the four bytes: a processor that mispredicts the length of
//! one can't overlap the cache miss of this match with that of the next. At 3/8 a probe mostly ends
//! where it begins, and a match among 10,000 receives costs two thirds of what it does at 5/8. A
//! table that a core's own cache can't hold is filled to 5/8 all the same: where others use the
//! shared cache too, what a larger one misses costs more than what it spares.

use super::hash::{Key, Seed};

/// Has never been behind a probe that went on: a probe ends here. Live entries have bit 31 clear.
const EMPTY: u32 = u32::MAX;
/// Removed, but a probe must go on.
const GAP: u32 = u32::MAX - 1;
/// The greatest node number plus one.
pub(super) const MAX_NODES: usize = 1 << 31;

/// 256 bytes; a program with a few receives then has next to no collisions.
const MIN_ENTRIES: usize = 64;
/// Node numbers of up to 16 bits leave 15 bits of hash.
const MIN_NODE_MASK: u32 = 0xffff;

/// Highest load of a table, gaps included.
#[derive(Clone, Copy, Debug)]
pub(super) enum Load {
    /// Five eighths: where peers decide how many entries there are, and memory is what is bounded.
    Dense,
    /// Three eighths up to [`SPARSE_MAX`]: where the program does, and time counts.
    Sparse,
}

/// The entries of the largest sparse table: 256 KiB.
const SPARSE_MAX: usize = 1 << 16;

impl Load {
    /// Returns the number of entries of a table of this size that may be in use.
    fn limit(self, len: usize) -> usize {
        match self {
            Load::Sparse if len <= SPARSE_MAX => len / 8 * 3,
            _ => len / 8 * 5,
        }
    }
}

/// The table. `key_of` arguments tell the key of a node that is in it.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Index {
    entries: Vec<u32>,
    /// Bits of an entry that are the node number.
    node_mask: u32,
    /// 64 less the number of bits of a place in `entries`.
    shift: u32,
    live: usize,
    // Between `live` and `used`: if they were neighbours, a compiler could update both with one
    // wide load that has to wait for narrow stores.
    seed: Seed,
    /// Entries that are not empty.
    used: usize,
    /// The greatest `used` before the table is rebuilt.
    limit: usize,
    /// Position of the key that was asked for last. A program that sends or receives a row of
    /// messages asks for one key again and again, and this spares the hash.
    last: usize,
    load: Load,
}

impl Index {
    pub(super) fn new(seed: Seed, load: Load) -> Index {
        let (node_mask, shift, live, used, limit, last) = (MIN_NODE_MASK, 0, 0, 0, 0, 0);
        Index { entries: Vec::new(), node_mask, shift, live, seed, used, limit, last, load }
    }

    /// Entries allocated.
    pub(super) fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// The place and the node of a key, if it is that which was asked for last.
    #[inline(always)]
    pub(super) fn again(&self, key: Key, key_of: impl Fn(u32) -> Key) -> Option<(usize, u32)> {
        let entry = *self.entries.get(self.last)?;
        let node = entry & self.node_mask;
        (entry < GAP && key_of(node).same(key)).then_some((self.last, node))
    }

    /// Returns true if no key is in it.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// The place and the node of a key. The place is good until the next insertion.
    #[inline(always)]
    pub(super) fn find(&self, key: Key, key_of: impl Fn(u32) -> Key) -> Option<(usize, u32)> {
        if self.live == 0 {
            return None;
        }
        let again = self.again(key, &key_of);
        if again.is_some() {
            return again;
        }
        let hash = self.seed.hash(key);
        let entries = self.entries.as_slice();
        let mask = entries.len() - 1;
        let mark = self.mark(hash);
        let mut at = (hash >> self.shift) as usize & mask;
        loop {
            let entry = entries[at];
            if entry & !self.node_mask == mark {
                let node = entry & self.node_mask;
                if key_of(node).same(key) {
                    return Some((at, node));
                }
            }
            if entry == EMPTY {
                return None;
            }
            at = (at + 1) & mask;
        }
    }

    /// The node of a key; if there is none, `node` becomes it.
    #[inline(always)]
    pub(super) fn find_or_insert(&mut self, key: Key, node: u32, key_of: impl Fn(u32) -> Key) -> Option<u32> {
        if let Some((_, there)) = self.again(key, &key_of) {
            return Some(there);
        }
        self.seat(key, node, key_of)
    }

    /// `node` becomes the node of a key; returns the one that was.
    #[inline(always)]
    pub(super) fn replace_or_insert(
        &mut self,
        key: Key,
        node: u32,
        key_of: impl Fn(u32) -> Key,
    ) -> Option<u32> {
        let there = self.seat(key, node, key_of)?;
        let entry = &mut self.entries[self.last];
        *entry = *entry & !self.node_mask | node;
        Some(there)
    }

    /// The node of a key, or none if `node` has become it. That is what was asked for last, and
    /// there is room for `node` in its place.
    #[inline(always)]
    fn seat(&mut self, key: Key, node: u32, key_of: impl Fn(u32) -> Key) -> Option<u32> {
        if self.used >= self.limit || node > self.node_mask {
            self.make_room(node, &key_of);
        }
        let hash = self.seed.hash(key);
        let mark = self.mark(hash);
        let node_mask = self.node_mask;
        let entries = self.entries.as_mut_slice();
        let mask = entries.len() - 1;
        let mut at = (hash >> self.shift) as usize & mask;
        let mut gap = usize::MAX;
        loop {
            let entry = entries[at];
            if entry & !node_mask == mark {
                let there = entry & node_mask;
                if key_of(there).same(key) {
                    self.last = at;
                    return Some(there);
                }
            }
            if entry == EMPTY {
                break;
            }
            if entry == GAP && gap == usize::MAX {
                gap = at;
            }
            at = (at + 1) & mask;
        }
        let fresh = gap == usize::MAX;
        let at = if fresh { at } else { gap } & mask;
        entries[at] = mark | node;
        self.last = at;
        self.used += usize::from(fresh);
        self.live += 1;
        None
    }

    /// Gives the key at `at` another node, whose key is the same.
    #[inline]
    pub(super) fn replace(&mut self, at: usize, node: u32, key_of: impl Fn(u32) -> Key) {
        if node > self.node_mask {
            let key = key_of(node);
            self.remove(at);
            self.insert_far(key, node, key_of);
        } else {
            self.entries[at] = self.entries[at] & !self.node_mask | node;
        }
    }

    #[cold]
    #[inline(never)]
    fn insert_far(&mut self, key: Key, node: u32, key_of: impl Fn(u32) -> Key) {
        self.find_or_insert(key, node, key_of);
    }

    /// Removes the key at `at`.
    #[inline]
    pub(super) fn remove(&mut self, at: usize) {
        let entries = self.entries.as_mut_slice();
        let next = (at + 1) & (entries.len() - 1);
        // Chosen without a branch: it would be one that cannot be predicted.
        let ends_here = u32::from(entries[next] == EMPTY);
        entries[at] = GAP + ends_here;
        self.used -= ends_here as usize;
        self.live -= 1;
    }

    /// The nodes in the table, in no order.
    pub(super) fn nodes(&self) -> impl Iterator<Item = u32> {
        let live = |entry: &&u32| **entry < GAP;
        self.entries.iter().filter(live).map(|e| e & self.node_mask)
    }

    /// The part of a hash that is kept in an entry.
    #[inline]
    fn mark(&self, hash: u64) -> u32 {
        hash as u32 & !self.node_mask & (u32::MAX >> 1)
    }

    #[cold]
    #[inline(never)]
    fn make_room(&mut self, node: u32, key_of: &impl Fn(u32) -> Key) {
        let old_mask = self.node_mask;
        while node > self.node_mask {
            self.node_mask = self.node_mask << 1 | 1;
        }
        let len = self.entries.len();
        if self.live > self.load.limit(len) - len / 16 * 3 || len == 0 {
            self.double(old_mask, key_of);
        } else {
            self.rebuild(old_mask, key_of);
        }
        self.used = self.live;
    }

    fn double(&mut self, old_mask: u32, key_of: &impl Fn(u32) -> Key) {
        let len = (self.entries.len() * 2).max(MIN_ENTRIES);
        let old = std::mem::replace(&mut self.entries, vec![EMPTY; len]);
        self.shift = 64 - len.trailing_zeros();
        self.limit = self.load.limit(len);
        for entry in old.into_iter().filter(|entry| *entry < GAP) {
            self.place(entry & old_mask, key_of);
        }
    }

    /// Makes gaps empty, in place.
    ///
    /// Starting behind an empty entry, every live one is taken out and put back at the first
    /// empty place from its home on. That is never behind its old place, so what was placed
    /// before stays reachable and what comes later is not disturbed.
    fn rebuild(&mut self, old_mask: u32, key_of: &impl Fn(u32) -> Key) {
        let mask = self.entries.len() - 1;
        let Some(start) = self.entries.iter().position(|entry| *entry == EMPTY) else {
            return;
        };
        for step in 1..=mask {
            let entry = std::mem::replace(&mut self.entries[(start + step) & mask], EMPTY);
            if entry < GAP {
                self.place(entry & old_mask, key_of);
            }
        }
    }

    fn place(&mut self, node: u32, key_of: &impl Fn(u32) -> Key) {
        let hash = self.seed.hash(key_of(node));
        let mask = self.entries.len() - 1;
        let mut at = (hash >> self.shift) as usize & mask;
        while self.entries[at] != EMPTY {
            at = (at + 1) & mask;
        }
        self.entries[at] = self.mark(hash) | node;
    }
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
