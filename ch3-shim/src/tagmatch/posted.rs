//! The queue of posted receives.

use super::hash::{Key, Seed};
use super::index::{Index, Load, MAX_NODES};
use super::{Class, Envelope, Pattern};

/// End of the free list.
const NIL: u32 = u32::MAX;
/// Sequence number of a free node. No receive ever gets it.
const FREE: u64 = u64::MAX;

/// A posted receive. 32 bytes, and never in two cache lines, if `T` is a handle.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
struct Node<T> {
    // Not a `Key`, whose padding would be in the place of `tail`.
    source_tag: u64,
    context: u32,
    /// In the first receive of its pattern: the last one. In a free node: the next free one.
    tail: u32,
    seq: u64,
    item: T,
}

impl<T> Node<T> {
    #[inline]
    fn key(&self) -> Key {
        Key { source_tag: self.source_tag, context: self.context }
    }
}

/// Neighbours among the receives of one pattern. The first one's `prev` and the last one's
/// `next` mean nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    prev: u32,
    next: u32,
}

/// Names a posted receive, for [`PostedQueue::cancel`]. A key outlives its receive harmlessly:
/// sequence numbers are never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PostedKey {
    node: u32,
    class: Class,
    seq: u64,
}

/// Receives that wait for a message. See the [module](super) for how it is laid out.
///
/// `T` is what the device gets back when a receive is matched, typically a request handle.
#[derive(Debug)]
pub struct PostedQueue<T> {
    /// By [`Class`]: from key to the first receive.
    indices: [Index; 4],
    nodes: Vec<Node<T>>,
    /// By node; only kept up for patterns that were posted more than once.
    links: Vec<Link>,
    free: u32,
    len: usize,
    next_seq: u64,
    /// How many patterns with a wildcard are posted.
    wild: usize,
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
            links: Vec::new(),
            free: NIL,
            len: 0,
            next_seq: 0,
            wild: 0,
        }
    }

    /// How many receives are posted.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no receive is posted.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Index entries, nodes and links allocated: what the memory of the queue is proportional to.
    pub fn capacity(&self) -> usize {
        let indices: usize = self.indices.iter().map(Index::capacity).sum();
        indices + self.nodes.capacity() + self.links.capacity()
    }

    /// Appends a receive.
    ///
    /// # Panics
    ///
    /// If 2³¹ receives are posted already, which takes 64 GiB.
    #[inline]
    pub fn post(&mut self, pattern: Pattern, item: T) -> PostedKey {
        let class = pattern.class();
        let key = pattern.key();
        let seq = self.next_seq;
        self.next_seq = seq + 1;
        self.len += 1;
        let node = self.allocate(key, seq, item);
        let nodes = self.nodes.as_slice();
        let key_of = |node: u32| nodes[node as usize].key();
        let head = self.indices[class as usize].find_or_insert(key, node, key_of);
        if class != Class::Exact {
            self.wild += usize::from(head.is_none());
        }
        if let Some(head) = head {
            self.append(head, node);
        }
        PostedKey { node, class, seq }
    }

    /// Removes the receive that takes a message with this envelope: of those that match, the
    /// one posted first.
    #[inline(always)]
    pub fn take_match(&mut self, envelope: &Envelope) -> Option<T> {
        if self.wild != 0 {
            return self.take_match_of_all(envelope);
        }
        let (at, node) = self.find(Class::Exact, Class::Exact.key_of(envelope))?;
        self.indices[Class::Exact as usize].remember(at);
        Some(self.take_first(Class::Exact, at, node))
    }

    #[inline(never)]
    fn take_match_of_all(&mut self, envelope: &Envelope) -> Option<T> {
        let (class, at, node) = self.first_of_all(envelope)?;
        Some(self.take_first(class, at, node))
    }

    /// What [`PostedQueue::take_match`] would take, without taking it.
    pub fn peek_match(&self, envelope: &Envelope) -> Option<T> {
        let (_, _, node) = self.first_of_all(envelope)?;
        Some(self.nodes[node as usize].item)
    }

    /// Removes a receive that has not been matched yet; `None` if it has, or was cancelled.
    pub fn cancel(&mut self, key: PostedKey) -> Option<T> {
        let PostedKey { node, class, seq } = key;
        let doomed = self.nodes.get(node as usize)?;
        if doomed.seq != seq || seq == FREE {
            return None;
        }
        let (at, head) = self.find(class, doomed.key())?;
        if head == node {
            return Some(self.take_first(class, at, node));
        }
        let Link { prev, next } = self.links[node as usize];
        let tail = &mut self.nodes[head as usize].tail;
        if *tail == node {
            *tail = prev;
        } else {
            self.links[prev as usize].next = next;
            self.links[next as usize].prev = prev;
        }
        Some(self.release(node))
    }

    /// All receives in posting order, for diagnostics. Sorts: O(n log n).
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (PostedKey, Pattern, T)> + use<T> {
        let mut all = Vec::with_capacity(self.len);
        for class in Class::ALL {
            for head in self.indices[class as usize].nodes() {
                let mut node = head;
                let tail = self.nodes[head as usize].tail;
                loop {
                    let Node { seq, item, .. } = self.nodes[node as usize];
                    let pattern = class.pattern(self.nodes[node as usize].key());
                    all.push((PostedKey { node, class, seq }, pattern, item));
                    if node == tail {
                        break;
                    }
                    node = self.links[node as usize].next;
                }
            }
        }
        all.sort_unstable_by_key(|(key, ..)| key.seq);
        all.into_iter()
    }

    /// Whether there is a receive of whose pattern `pred` says so. Looks at each pattern once.
    pub fn any(&self, mut pred: impl FnMut(&Pattern) -> bool) -> bool {
        Class::ALL.into_iter().any(|class| {
            let mut heads = self.indices[class as usize].nodes();
            heads.any(|head| pred(&class.pattern(self.nodes[head as usize].key())))
        })
    }

    /// Removes the receives of which `pred` says so, and returns them in posting order. For the
    /// failure of a peer or the end of a communicator: O(n log n).
    pub fn drain_matching(&mut self, mut pred: impl FnMut(&Pattern, &T) -> bool) -> Vec<T> {
        let doomed = self.iter().filter(|(_, pattern, item)| pred(pattern, item));
        doomed.filter_map(|(key, ..)| self.cancel(key)).collect()
    }

    #[inline]
    fn find(&self, class: Class, key: Key) -> Option<(usize, u32)> {
        self.indices[class as usize].find(key, |node| self.nodes[node as usize].key())
    }

    /// Of the up to four first receives that match, the one with the least sequence number.
    #[inline]
    fn first_of_all(&self, envelope: &Envelope) -> Option<(Class, usize, u32)> {
        let seq_of = |node: u32| self.nodes[node as usize].seq;
        let mut first = None;
        let mut least = FREE;
        for class in Class::ALL {
            if let Some((at, node)) = self.find(class, class.key_of(envelope))
                && seq_of(node) < least
            {
                least = seq_of(node);
                first = Some((class, at, node));
            }
        }
        first
    }

    /// Takes the first receive of its pattern, which is `node` and has place `at` in the index.
    #[inline(always)]
    fn take_first(&mut self, class: Class, at: usize, node: u32) -> T {
        let index = &mut self.indices[class as usize];
        let tail = self.nodes[node as usize].tail;
        if tail == node {
            index.remove(at);
            if class != Class::Exact {
                self.wild -= 1;
            }
        } else {
            let next = self.links[node as usize].next;
            self.nodes[next as usize].tail = tail;
            let nodes = self.nodes.as_slice();
            index.replace(at, next, |node| nodes[node as usize].key());
        }
        self.release(node)
    }

    /// A node that is first and last of its pattern.
    #[inline]
    fn allocate(&mut self, key: Key, seq: u64, item: T) -> u32 {
        let Key { source_tag, context } = key;
        let mut new = Node { source_tag, context, tail: self.free, seq, item };
        if let Some(place) = self.nodes.get_mut(self.free as usize) {
            let node = self.free;
            self.free = place.tail;
            new.tail = node;
            *place = new;
            return node;
        }
        assert!(self.nodes.len() < MAX_NODES, "too many receives are posted");
        new.tail = self.nodes.len() as u32;
        self.nodes.push(new);
        new.tail
    }

    #[inline(always)]
    fn release(&mut self, node: u32) -> T {
        self.len -= 1;
        let place = &mut self.nodes[node as usize];
        place.seq = FREE;
        place.tail = self.free;
        self.free = node;
        place.item
    }

    /// Puts a receive behind those of the same pattern.
    fn append(&mut self, head: u32, node: u32) {
        if self.links.len() < self.nodes.len() {
            self.links.resize(self.nodes.len(), Link::default());
        }
        let tail = std::mem::replace(&mut self.nodes[head as usize].tail, node);
        self.links[tail as usize].next = node;
        self.links[node as usize].prev = tail;
    }
}
