//! The queue of posted receives.

use std::num::NonZeroU64;

use super::hash::{Key, Seed};
use super::index::{Index, Load, MAX_NODES};
use super::{Class, Envelope, Pattern};

/// End of the free list.
const NIL: u32 = u32::MAX;
/// Sequence number of a free node. No receive ever gets it.
const FREE: NonZeroU64 = NonZeroU64::MAX;

/// A posted receive. 32 bytes, and never in two cache lines, if `T` is a handle.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
struct Node<T> {
    // Not a `Key`, whose padding would be in the place of `next`.
    source_tag: u64,
    context: u32,
    /// The next receive of its pattern, and after the last one the first. In a free node: the next
    /// free one.
    next: u32,
    seq: NonZeroU64,
    item: T,
}

impl<T> Node<T> {
    #[inline]
    fn key(&self) -> Key {
        Key { source_tag: self.source_tag, context: self.context }
    }
}

/// Names a posted receive, for [`PostedQueue::cancel`]. A key outlives its receive harmlessly:
/// sequence numbers are never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PostedKey {
    seq: NonZeroU64,
    /// The node in the lower half, the class in the upper one. Two words are passed in registers;
    /// pieces would be put together in memory, and read again before they are there.
    place: u64,
}

impl PostedKey {
    #[inline]
    fn new(node: u32, class: Class, seq: NonZeroU64) -> PostedKey {
        PostedKey { seq, place: u64::from(node) | (class as u64) << 32 }
    }

    #[inline]
    fn node(self) -> u32 {
        self.place as u32
    }

    #[inline]
    fn class(self) -> Class {
        Class::ALL[(self.place >> 32) as usize & 3]
    }
}

/// Receives that wait for a message. See the [module](super) for how it is laid out.
///
/// `T` is what the device gets back when a receive is matched, typically a request handle.
#[derive(Debug)]
pub struct PostedQueue<T> {
    /// Index of each [`Class`]: from key to the last receive, which leads to the first.
    indices: [Index; 4],
    nodes: Vec<Node<T>>,
    /// Predecessor of each node among the receives of its pattern; the first one's means nothing.
    /// Only kept up for patterns that were posted more than once.
    before: Vec<u32>,
    free: u32,
    len: usize,
    next_seq: NonZeroU64,
    /// Number of posted patterns with a wildcard.
    wild: usize,
    row: Row,
    /// The pattern that was posted last of those that are not the row's.
    last: Option<Pattern>,
}

/// The receives of one pattern without wildcards, which is in no index. Whoever expects a row of
/// messages posts one pattern again and again: such receives are posted and taken without a hash.
#[derive(Clone, Copy, Debug)]
struct Row {
    source_tag: u64,
    /// Wider than a context, so that no pattern is like that of a row which has none yet.
    context: u64,
    /// Its last receive, or [`NIL`].
    tail: u32,
}

/// The place of the row, where others have one in an index.
const ROW: usize = usize::MAX;

impl Row {
    const NONE: Row = Row { source_tag: 0, context: u64::MAX, tail: NIL };

    #[inline]
    fn is_of(&self, key: Key) -> bool {
        (self.source_tag ^ key.source_tag) | (self.context ^ u64::from(key.context)) == 0
    }
}

impl<T: Copy> Default for PostedQueue<T> {
    fn default() -> PostedQueue<T> {
        PostedQueue::new()
    }
}

impl<T: Copy> PostedQueue<T> {
    /// An empty queue with a random hash seed; allocates with the first receive.
    pub fn new() -> PostedQueue<T> {
        PostedQueue::with(Seed::random())
    }

    /// An empty queue with a given hash seed, for measurements and tests that must repeat. A
    /// queue that serves peers needs [`PostedQueue::new`].
    pub fn with_seed(words: [u64; 3]) -> PostedQueue<T> {
        PostedQueue::with(Seed::from_words(words))
    }

    fn with(seed: Seed) -> PostedQueue<T> {
        PostedQueue {
            indices: Class::ALL.map(|_| Index::new(seed, Load::Sparse)),
            nodes: Vec::new(),
            before: Vec::new(),
            free: NIL,
            len: 0,
            next_seq: NonZeroU64::MIN,
            wild: 0,
            row: Row::NONE,
            last: None,
        }
    }

    /// Returns the number of posted receives.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if no receive is posted.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Index entries, nodes and what is kept beside them: what the memory of the queue is
    /// proportional to.
    pub fn capacity(&self) -> usize {
        let indices: usize = self.indices.iter().map(Index::capacity).sum();
        indices + self.nodes.capacity() + self.before.capacity()
    }

    /// Appends a receive.
    ///
    /// # Panics
    ///
    /// If 2³¹ receives are posted already, which takes 64 GiB.
    #[inline]
    pub fn post(&mut self, pattern: Pattern, item: T) -> PostedKey {
        let seq = self.next_seq;
        self.next_seq = seq.saturating_add(1);
        self.len += 1;
        // If this is true, no word of the pattern is wild.
        let key = pattern.to_envelope().key();
        if !self.row.is_of(key) {
            return self.post_beside(pattern, seq, item);
        }
        let node = self.allocate(key, seq, item);
        let tail = std::mem::replace(&mut self.row.tail, node);
        if tail != NIL {
            self.append(tail, node);
        }
        PostedKey::new(node, Class::Exact, seq)
    }

    /// Posts what is not of the row's pattern.
    #[inline]
    fn post_beside(&mut self, pattern: Pattern, seq: NonZeroU64, item: T) -> PostedKey {
        let (class, key) = (pattern.class(), pattern.key());
        let node = self.allocate(key, seq, item);
        let again = self.last.replace(pattern) == Some(pattern);
        if class == Class::Exact
            && (again || self.row.tail == NIL)
            && self.indices[Class::Exact as usize].is_empty()
        {
            self.begin_row(key, node);
            return PostedKey::new(node, class, seq);
        }
        let nodes = self.nodes.as_slice();
        let key_of = |node: u32| nodes[node as usize].key();
        let tail = self.indices[class as usize].replace_or_insert(key, node, key_of);
        if class != Class::Exact {
            self.wild += usize::from(tail.is_none());
        }
        if let Some(tail) = tail {
            self.append(tail, node);
        }
        PostedKey::new(node, class, seq)
    }

    /// The row is of another pattern from now on, which is in no index. What is posted of the
    /// present one, and waits while the other comes again and again, goes to an index.
    #[inline(never)]
    fn begin_row(&mut self, key: Key, node: u32) {
        let Row { tail, .. } = self.row;
        if tail != NIL {
            let nodes = self.nodes.as_slice();
            let key_of = |node: u32| nodes[node as usize].key();
            self.indices[Class::Exact as usize].replace_or_insert(key_of(tail), tail, key_of);
        }
        self.row = Row { source_tag: key.source_tag, context: u64::from(key.context), tail: node };
    }

    /// Removes the receive that takes a message with this envelope: of those that match, the
    /// one posted first.
    #[inline(always)]
    pub fn take_match(&mut self, envelope: &Envelope) -> Option<T> {
        if self.wild != 0 {
            return self.take_match_of_all(envelope);
        }
        let (at, tail) = self.find(Class::Exact, envelope.key())?;
        Some(self.take_first(Class::Exact, at, tail))
    }

    /// Works like [`PostedQueue::take_match`], for a further message with the envelope of the one
    /// that was last asked for. `None` also says that there is no short way to its receive.
    #[inline(always)]
    pub(crate) fn take_again(&mut self, envelope: &Envelope) -> Option<T> {
        let tail = self.row.tail;
        let has = self.wild == 0 && self.row.is_of(envelope.key()) && tail != NIL;
        has.then(|| self.take_first(Class::Exact, ROW, tail))
    }

    #[inline(never)]
    fn take_match_of_all(&mut self, envelope: &Envelope) -> Option<T> {
        let (class, at, tail) = self.first_of_all(envelope)?;
        Some(self.take_first(class, at, tail))
    }

    /// Returns the receive that [`PostedQueue::take_match`] would take, without taking it.
    pub fn peek_match(&self, envelope: &Envelope) -> Option<T> {
        let (_, _, tail) = self.first_of_all(envelope)?;
        Some(self.nodes[self.nodes[tail as usize].next as usize].item)
    }

    /// Removes a receive that has not been matched yet; `None` if it has, or was cancelled.
    pub fn cancel(&mut self, key: PostedKey) -> Option<T> {
        let (node, class) = (key.node(), key.class());
        let doomed = self.nodes.get(node as usize)?;
        if doomed.seq != key.seq || doomed.seq == FREE {
            return None;
        }
        let next = doomed.next;
        let (at, tail) = self.find(class, doomed.key())?;
        if self.nodes[tail as usize].next == node {
            return Some(self.take_first(class, at, tail));
        }
        let before = self.before[node as usize];
        self.nodes[before as usize].next = next;
        if tail != node {
            self.before[next as usize] = before;
        } else if at == ROW {
            self.row.tail = before;
        } else {
            let nodes = self.nodes.as_slice();
            self.indices[class as usize].replace(at, before, |node| nodes[node as usize].key());
        }
        Some(self.release(node))
    }

    /// All receives in posting order, for diagnostics. Sorts: O(n log n).
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (PostedKey, Pattern, T)> + use<T> {
        let mut all = Vec::with_capacity(self.len);
        for class in Class::ALL {
            for tail in self.tails(class) {
                let mut node = tail;
                loop {
                    node = self.nodes[node as usize].next;
                    let Node { seq, item, .. } = self.nodes[node as usize];
                    let pattern = class.pattern(self.nodes[node as usize].key());
                    all.push((PostedKey::new(node, class, seq), pattern, item));
                    if node == tail {
                        break;
                    }
                }
            }
        }
        all.sort_unstable_by_key(|(key, ..)| key.seq);
        all.into_iter()
    }

    /// Returns true if there is a receive of whose pattern `pred` says so. Looks at each pattern
    /// once.
    pub fn any(&self, mut pred: impl FnMut(&Pattern) -> bool) -> bool {
        Class::ALL
            .into_iter()
            .any(|class| self.tails(class).any(|tail| pred(&class.pattern(self.nodes[tail as usize].key()))))
    }

    /// Removes the receives of which `pred` says so, and returns them in posting order. For the
    /// failure of a peer or the end of a communicator: O(n log n).
    pub fn drain_matching(&mut self, mut pred: impl FnMut(&Pattern, &T) -> bool) -> Vec<T> {
        let doomed = self.iter().filter(|(_, pattern, item)| pred(pattern, item));
        doomed.filter_map(|(key, ..)| self.cancel(key)).collect()
    }

    /// The pattern of the receives that are in no index.
    #[cfg(test)]
    pub(super) fn row_pattern(&self) -> Option<Pattern> {
        (self.row.tail != NIL).then(|| Class::Exact.pattern(self.nodes[self.row.tail as usize].key()))
    }

    /// The last receives of the patterns of a class.
    fn tails(&self, class: Class) -> impl Iterator<Item = u32> {
        let row = (class == Class::Exact && self.row.tail != NIL).then_some(self.row.tail);
        self.indices[class as usize].nodes().chain(row)
    }

    /// The place and the last receive of a pattern.
    #[inline(always)]
    fn find(&self, class: Class, key: Key) -> Option<(usize, u32)> {
        if class == Class::Exact && self.row.is_of(key) {
            return (self.row.tail != NIL).then_some((ROW, self.row.tail));
        }
        self.indices[class as usize].find(key, |node| self.nodes[node as usize].key())
    }

    /// Returns the oldest matching receive among the four wildcard classes: its class, its
    /// place, and its last receive.
    #[inline]
    fn first_of_all(&self, envelope: &Envelope) -> Option<(Class, usize, u32)> {
        let seq_of = |tail: u32| self.nodes[self.nodes[tail as usize].next as usize].seq;
        let mut first = None;
        let mut least = FREE;
        for class in Class::ALL {
            if let Some((at, tail)) = self.find(class, class.key_of(envelope))
                && seq_of(tail) < least
            {
                least = seq_of(tail);
                first = Some((class, at, tail));
            }
        }
        first
    }

    /// Takes the first receive of the pattern that has place `at`, and `tail` as its last one.
    #[inline(always)]
    fn take_first(&mut self, class: Class, at: usize, tail: u32) -> T {
        let head = self.nodes[tail as usize].next;
        if head != tail {
            self.nodes[tail as usize].next = self.nodes[head as usize].next;
        } else if at == ROW {
            self.row.tail = NIL;
        } else {
            self.indices[class as usize].remove(at);
            if class != Class::Exact {
                self.wild -= 1;
            }
        }
        self.release(head)
    }

    /// A node that is first and last of its pattern.
    #[inline]
    fn allocate(&mut self, key: Key, seq: NonZeroU64, item: T) -> u32 {
        let Key { source_tag, context } = key;
        let mut new = Node { source_tag, context, next: self.free, seq, item };
        if let Some(place) = self.nodes.get_mut(self.free as usize) {
            let node = self.free;
            self.free = place.next;
            new.next = node;
            *place = new;
            return node;
        }
        assert!(self.nodes.len() < MAX_NODES, "too many receives are posted");
        new.next = self.nodes.len() as u32;
        self.nodes.push(new);
        new.next
    }

    #[inline(always)]
    fn release(&mut self, node: u32) -> T {
        self.len -= 1;
        let place = &mut self.nodes[node as usize];
        place.seq = FREE;
        place.next = self.free;
        self.free = node;
        place.item
    }

    /// Puts a receive behind those of the same pattern.
    #[inline(always)]
    fn append(&mut self, tail: u32, node: u32) {
        if node as usize >= self.before.len() {
            self.grow_before();
        }
        let head = std::mem::replace(&mut self.nodes[tail as usize].next, node);
        self.nodes[node as usize].next = head;
        self.before[node as usize] = tail;
    }

    #[cold]
    #[inline(never)]
    fn grow_before(&mut self) {
        self.before.resize(self.nodes.len(), NIL);
    }
}
