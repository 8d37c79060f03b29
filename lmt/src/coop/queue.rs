//! The messages that a VC copies through its ring, in the order in which they were granted.

use std::collections::VecDeque;

use netmod_core::Segment;

use super::RingError;
use super::gate::Corrupt;
use super::ring::{Consumer, Producer};
use crate::cookie::RingName;

/// Messages that go out through a ring of the peer's. `K` names a request.
#[derive(Debug)]
pub struct OutLane<K> {
    ring: Option<(RingName, Producer)>,
    queue: VecDeque<(K, u64)>,
}

/// Messages that come through a ring of this process. Of one that was given up, the bytes still come.
#[derive(Debug)]
pub struct InLane<K> {
    ring: Option<Consumer>,
    queue: VecDeque<(K, u64, bool)>,
}

impl<K> Default for OutLane<K> {
    fn default() -> Self {
        OutLane { ring: None, queue: VecDeque::new() }
    }
}

impl<K> Default for InLane<K> {
    fn default() -> Self {
        InLane { ring: None, queue: VecDeque::new() }
    }
}

impl<K: Copy + PartialEq> OutLane<K> {
    /// Maps the ring of this name, if it is not the one that is mapped.
    ///
    /// # Errors
    /// If it cannot be mapped, or messages of another one are not through.
    pub fn attach(&mut self, name: RingName) -> Result<(), RingError> {
        match &self.ring {
            Some((mapped, _)) if *mapped == name => Ok(()),
            _ => {
                let ring = Producer::open(name)?;
                self.queue.clear();
                self.ring = Some((name, ring));
                Ok(())
            }
        }
    }

    /// A message of `len` bytes follows those that are there.
    pub fn push(&mut self, key: K, len: u64) {
        self.queue.push_back((key, len));
    }

    /// The message whose turn it is.
    pub fn front(&self) -> Option<K> {
        self.queue.front().map(|(key, _)| *key)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether a message is there.
    pub fn contains(&self, key: K) -> bool {
        self.queue.iter().any(|(k, _)| *k == key)
    }

    /// Copies at most `max` bytes of the message whose turn it is, whose data `seg` is; returns how many.
    ///
    /// # Errors
    /// If the peer has broken the ring.
    pub fn fill(&mut self, seg: &mut Segment, max: usize) -> Result<usize, Corrupt> {
        let (Some((_, ring)), Some((_, left))) = (&mut self.ring, self.queue.front_mut()) else {
            return Ok(0);
        };
        let n = ring.fill(seg, max.min(usize::try_from(*left).unwrap_or(usize::MAX)))?;
        *left -= n as u64;
        if *left == 0 {
            self.queue.pop_front();
        }
        Ok(n)
    }

    /// See [`Producer::must_wake`].
    pub fn must_wake(&self) -> bool {
        self.ring.as_ref().is_some_and(|(_, ring)| ring.must_wake())
    }

    /// See [`Producer::lie_down`]. Without messages it may always.
    ///
    /// # Errors
    /// If the peer has broken the ring.
    pub fn lie_down(&mut self) -> Result<bool, Corrupt> {
        match &mut self.ring {
            Some((_, ring)) if !self.queue.is_empty() => ring.lie_down(),
            _ => Ok(true),
        }
    }
}

impl<K: Copy + PartialEq> InLane<K> {
    /// The name of the ring, which is made if there is none; see [`Consumer::create`].
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open(&mut self, long: bool) -> Result<RingName, RingError> {
        match &self.ring {
            Some(ring) => Ok(ring.name()),
            None => Ok(self.ring.insert(Consumer::create(long)?).name()),
        }
    }

    /// The name of the ring, if there is one.
    pub fn name(&self) -> Option<RingName> {
        self.ring.as_ref().map(Consumer::name)
    }

    /// Whether there is a ring.
    pub fn is_open(&self) -> bool {
        self.ring.is_some()
    }

    /// A message of `len` bytes was granted.
    pub fn push(&mut self, key: K, len: u64) {
        self.queue.push_back((key, len, true));
    }

    /// The message whose turn it is, and whether it is wanted.
    pub fn front(&self) -> Option<(K, bool)> {
        self.queue.front().map(|(key, _, wanted)| (*key, *wanted))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Nobody wants the message any more: its bytes will fall.
    pub fn forget(&mut self, key: K) {
        for (k, _, wanted) in &mut self.queue {
            *wanted &= *k != key;
        }
    }

    /// The sender does not put the message in.
    pub fn remove(&mut self, key: K) {
        self.queue.retain(|(k, ..)| *k != key);
    }

    /// Copies at most `max` bytes of the message whose turn it is, to where `seg` says or nowhere; returns how many.
    ///
    /// # Errors
    /// If the peer has broken the ring.
    pub fn drain(&mut self, seg: Option<&mut Segment>, max: usize) -> Result<usize, Corrupt> {
        let (Some(ring), Some((_, left, _))) = (&mut self.ring, self.queue.front_mut()) else { return Ok(0) };
        let max = max.min(usize::try_from(*left).unwrap_or(usize::MAX));
        let n = match seg {
            Some(seg) => ring.drain(seg, max)?,
            None => ring.discard(max)?,
        };
        *left -= n as u64;
        if *left == 0 {
            self.queue.pop_front();
        }
        Ok(n)
    }

    /// See [`Consumer::must_wake`].
    pub fn must_wake(&self) -> bool {
        self.ring.as_ref().is_some_and(Consumer::must_wake)
    }

    /// See [`Consumer::lie_down`]. Without messages it may always.
    ///
    /// # Errors
    /// If the peer has broken the ring.
    pub fn lie_down(&mut self) -> Result<bool, Corrupt> {
        match &mut self.ring {
            Some(ring) if !self.queue.is_empty() => ring.lie_down(),
            _ => Ok(true),
        }
    }
}
