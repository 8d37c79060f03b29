//! The queue of unexpected messages.

use super::hash::{Key, Seed};
use super::index::{Index, Load, MAX_NODES};
use super::{Class, Envelope, Pattern};

/// No node.
const NIL: u32 = u32::MAX;
/// A place in the slab. 32 bytes, and never in two cache lines, if `T` is a handle.
#[derive(Debug)]
#[repr(align(32))]
enum Node<T> {
    Free { next: u32 },
    // Not an `Envelope`, whose padding would leave no place for what tells the two apart.
    Used { source_tag: u64, context: u32, seq: u64, item: T },
}

impl<T> Node<T> {
    /// The key in a class's index; a free node is in none.
    #[inline]
    fn key(&self, class: Class) -> Key {
        match self {
            Node::Used { source_tag, context, .. } => {
                class.key_of(&Envelope::of_words(*context, *source_tag))
            }
            Node::Free { .. } => Key { source_tag: 0, context: 0 },
        }
    }
}

/// Neighbours in the list of one class. `prev` of the first node is the last one, so that the
/// list's head leads to its tail; `next` of the last one means nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    prev: u32,
    next: u32,
}

/// The lists of one class.
#[derive(Debug)]
struct Lists {
    /// From key to the first node.
    index: Index,
    /// Links of each node.
    links: Vec<Link>,
    /// True if the lists are kept.
    built: bool,
    /// True if they were used since the queue was last empty.
    wanted: bool,
}

impl Lists {
    #[inline]
    fn append<T>(&mut self, class: Class, nodes: &[Node<T>], node: u32) {
        if self.links.len() < nodes.len() {
            self.links.resize(nodes.len(), Link::default());
        }
        let key = nodes[node as usize].key(class);
        let key_of = |node: u32| nodes[node as usize].key(class);
        match self.index.find_or_insert(key, node, key_of) {
            None => self.links[node as usize].prev = node,
            Some(head) => {
                let tail = std::mem::replace(&mut self.links[head as usize].prev, node);
                self.links[tail as usize].next = node;
                self.links[node as usize].prev = tail;
            }
        }
    }

    /// Takes `node` out of the list that has place `at` in the index and begins with `head`.
    #[inline]
    fn unlink<T>(&mut self, class: Class, nodes: &[Node<T>], at: usize, head: u32, node: u32) {
        let Link { prev, next } = self.links[node as usize];
        if node == head {
            if prev == node {
                self.index.remove(at);
            } else {
                self.links[next as usize].prev = prev;
                let key_of = |node: u32| nodes[node as usize].key(class);
                self.index.replace(at, next, key_of);
            }
        } else if self.links[head as usize].prev == node {
            self.links[head as usize].prev = prev;
        } else {
            self.links[prev as usize].next = next;
            self.links[next as usize].prev = prev;
        }
    }
}

/// Names an unexpected message. A key outlives its message harmlessly: sequence numbers are
/// never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UnexpectedKey {
    node: u32,
    seq: u64,
}

/// Messages that wait for a receive. See the [module](super) for how it is laid out.
///
/// The queue is as long as the caller lets it become: it is the caller who bounds what peers may
/// leave here.
#[derive(Debug)]
pub struct UnexpectedQueue<T> {
    /// Indexed by [`Class`].
    lists: [Lists; 4],
    nodes: Vec<Node<T>>,
    free: u32,
    len: usize,
    next_seq: u64,
    /// Arrivals to be sorted, kept for its memory.
    arrivals: Vec<(u64, u32)>,
}

impl<T> Default for UnexpectedQueue<T> {
    fn default() -> UnexpectedQueue<T> {
        UnexpectedQueue::new()
    }
}

impl<T> UnexpectedQueue<T> {
    /// An empty queue with a random hash seed; allocates with the first message.
    pub fn new() -> UnexpectedQueue<T> {
        UnexpectedQueue::with(Seed::random())
    }

    /// An empty queue with a given hash seed, for measurements and tests that must repeat. A
    /// queue that serves peers needs [`UnexpectedQueue::new`].
    pub fn with_seed(words: [u64; 3]) -> UnexpectedQueue<T> {
        UnexpectedQueue::with(Seed::from_words(words))
    }

    fn with(seed: Seed) -> UnexpectedQueue<T> {
        UnexpectedQueue {
            lists: Class::ALL.map(|class| Lists {
                index: Index::new(seed, Load::Dense),
                links: Vec::new(),
                built: class == Class::Exact,
                wanted: false,
            }),
            nodes: Vec::new(),
            free: NIL,
            len: 0,
            next_seq: 0,
            arrivals: Vec::new(),
        }
    }

    /// Returns the number of waiting messages.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if no message waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Index entries, nodes and links allocated: what the memory of the queue is
    /// proportional to.
    pub fn capacity(&self) -> usize {
        let of = |lists: &Lists| lists.index.capacity() + lists.links.capacity();
        let lists: usize = self.lists.iter().map(of).sum();
        lists + self.nodes.capacity() + self.arrivals.capacity()
    }

    /// Appends a message that matched no posted receive.
    ///
    /// # Panics
    ///
    /// If 2³¹ messages wait already, which takes more than 64 GiB.
    #[inline]
    pub fn push(&mut self, envelope: Envelope, item: T) -> UnexpectedKey {
        let seq = self.next_seq;
        self.next_seq += 1;
        self.len += 1;
        let used = Node::Used { source_tag: envelope.source_tag(), context: envelope.context(), seq, item };
        let node = match self.nodes.get_mut(self.free as usize) {
            Some(place) => {
                let node = self.free;
                if let Node::Free { next } = *place {
                    self.free = next;
                }
                *place = used;
                node
            }
            None => {
                assert!(self.nodes.len() < MAX_NODES, "too many unexpected messages wait");
                self.nodes.push(used);
                (self.nodes.len() - 1) as u32
            }
        };
        for class in Class::ALL {
            let lists = &mut self.lists[class as usize];
            if lists.built {
                lists.append(class, &self.nodes, node);
            }
        }
        UnexpectedKey { node, seq }
    }

    /// Removes the message that a receive with this pattern gets: of those that match, the one
    /// that arrived first.
    #[inline]
    pub fn take_match(&mut self, pattern: &Pattern) -> Option<(Envelope, T)> {
        let (class, at, node) = self.find(pattern)?;
        self.lists[class as usize].unlink(class, &self.nodes, at, node, node);
        self.take(node, Some(class))
    }

    /// The message that [`UnexpectedQueue::take_match`] would take, left where it is (a probe).
    #[inline]
    pub fn peek_match(&mut self, pattern: &Pattern) -> Option<(Envelope, &T)> {
        let key = self.find_match(pattern)?;
        match &self.nodes[key.node as usize] {
            Node::Used { source_tag, context, item, .. } => {
                Some((Envelope::of_words(*context, *source_tag), item))
            }
            Node::Free { .. } => None,
        }
    }

    /// The key of the message that [`UnexpectedQueue::take_match`] would take (a matched probe).
    #[inline]
    pub fn find_match(&mut self, pattern: &Pattern) -> Option<UnexpectedKey> {
        let (_, _, node) = self.find(pattern)?;
        match self.nodes[node as usize] {
            Node::Used { seq, .. } => Some(UnexpectedKey { node, seq }),
            Node::Free { .. } => None,
        }
    }

    /// The first message with just this envelope of which `pred` says so; for a sender that
    /// takes one message back. Walks over the messages of this envelope.
    pub fn find_exact(&self, envelope: &Envelope, mut pred: impl FnMut(&T) -> bool) -> Option<UnexpectedKey> {
        let lists = &self.lists[Class::Exact as usize];
        let key_of = |node: u32| self.nodes[node as usize].key(Class::Exact);
        let (_, head) = lists.index.find(Class::Exact.key_of(envelope), key_of)?;
        let tail = lists.links[head as usize].prev;
        let mut node = head;
        loop {
            if let Node::Used { seq, item, .. } = &self.nodes[node as usize]
                && pred(item)
            {
                return Some(UnexpectedKey { node, seq: *seq });
            }
            if node == tail {
                return None;
            }
            node = lists.links[node as usize].next;
        }
    }

    /// The message of `key`, unless it has been taken.
    pub fn get(&self, key: UnexpectedKey) -> Option<(Envelope, &T)> {
        match self.nodes.get(key.node as usize)? {
            Node::Used { source_tag, context, seq, item } if *seq == key.seq => {
                Some((Envelope::of_words(*context, *source_tag), item))
            }
            _ => None,
        }
    }

    /// The message of `key`, unless it has been taken.
    pub fn get_mut(&mut self, key: UnexpectedKey) -> Option<&mut T> {
        match self.nodes.get_mut(key.node as usize)? {
            Node::Used { seq, item, .. } if *seq == key.seq => Some(item),
            _ => None,
        }
    }

    /// Removes the message of `key`, unless it has been taken: a matched probe's receive, a
    /// sender's cancellation, the loss of a VC.
    pub fn remove(&mut self, key: UnexpectedKey) -> Option<T> {
        self.get(key)?;
        self.take(key.node, None).map(|(_, item)| item)
    }

    /// All messages in arrival order, for diagnostics. Sorts: O(n log n).
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (UnexpectedKey, Envelope, &T)> {
        let mut all = Vec::with_capacity(self.len);
        for (node, place) in (0..).zip(&self.nodes) {
            if let Node::Used { source_tag, context, seq, item } = place {
                let envelope = Envelope::of_words(*context, *source_tag);
                all.push((UnexpectedKey { node, seq: *seq }, envelope, item));
            }
        }
        all.sort_unstable_by_key(|(key, ..)| key.seq);
        all.into_iter()
    }

    /// Removes the messages of which `pred` says so, and returns them in arrival order. For the
    /// failure of a peer or the end of a communicator: O(n log n).
    pub fn drain_matching(&mut self, mut pred: impl FnMut(Envelope, &T) -> bool) -> Vec<(Envelope, T)> {
        let doomed: Vec<UnexpectedKey> =
            self.iter().filter(|(_, envelope, item)| pred(*envelope, item)).map(|(key, ..)| key).collect();
        let take = |key: UnexpectedKey| self.take(key.node, None);
        doomed.into_iter().filter_map(take).collect()
    }

    /// The class of the pattern, and place and first node of the pattern's list in it.
    #[inline]
    fn find(&mut self, pattern: &Pattern) -> Option<(Class, usize, u32)> {
        if self.len == 0 {
            return None;
        }
        let class = pattern.class();
        let lists = &mut self.lists[class as usize];
        lists.wanted = true;
        if !lists.built {
            self.build(class);
        }
        let key_of = |node: u32| self.nodes[node as usize].key(class);
        let index = &self.lists[class as usize].index;
        let (at, node) = index.find(pattern.key(), key_of)?;
        Some((class, at, node))
    }

    /// Takes a message out of the slab and out of all lists but those of `unlinked`.
    #[inline]
    fn take(&mut self, node: u32, unlinked: Option<Class>) -> Option<(Envelope, T)> {
        for class in Class::ALL {
            let lists = &mut self.lists[class as usize];
            if lists.built && unlinked != Some(class) {
                let key_of = |node: u32| self.nodes[node as usize].key(class);
                let (at, head) = lists.index.find(key_of(node), key_of)?;
                lists.unlink(class, &self.nodes, at, head, node);
            }
        }
        let freed = Node::Free { next: self.free };
        let used = std::mem::replace(&mut self.nodes[node as usize], freed);
        let Node::Used { source_tag, context, item, .. } = used else { return None };
        self.free = node;
        self.len -= 1;
        if self.len == 0 {
            for class in Class::WILD {
                let lists = &mut self.lists[class as usize];
                lists.built &= lists.wanted;
                lists.wanted = false;
            }
        }
        Some((Envelope::of_words(context, source_tag), item))
    }

    /// Puts all messages into the lists of a class.
    #[cold]
    #[inline(never)]
    fn build(&mut self, class: Class) {
        self.arrivals.clear();
        for (node, place) in (0..).zip(&self.nodes) {
            if let Node::Used { seq, .. } = place {
                self.arrivals.push((*seq, node));
            }
        }
        self.arrivals.sort_unstable();
        let lists = &mut self.lists[class as usize];
        lists.built = true;
        for &(_, node) in &self.arrivals {
            lists.append(class, &self.nodes, node);
        }
    }
}
