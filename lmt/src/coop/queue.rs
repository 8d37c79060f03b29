//! The queues of messages that a VC copies through its rings, in the order of the grants.

use std::collections::VecDeque;

use netmod_core::Segment;

use super::RingError;
use super::gate::Corrupt;
use super::ring::{Consumer, Producer};
use crate::cookie::RingName;

/// The messages that go out through the peer's ring. `K` names a request.
#[derive(Debug)]
pub struct OutQueue<K> {
    ring: Option<(RingName, Producer)>,
    /// The ring that was unmapped last, and the position at which that ended.
    ended: Option<(RingName, u64)>,
    queue: VecDeque<(K, u64)>,
}

/// The messages that come in through this process's ring. Bytes of an abandoned message still come.
#[derive(Debug)]
pub struct InQueue<K> {
    ring: Option<Consumer>,
    queue: VecDeque<(K, u64, bool)>,
}

impl<K> Default for OutQueue<K> {
    fn default() -> Self {
        OutQueue { ring: None, ended: None, queue: VecDeque::new() }
    }
}

impl<K> Default for InQueue<K> {
    fn default() -> Self {
        InQueue { ring: None, queue: VecDeque::new() }
    }
}

impl<K: Copy + PartialEq> OutQueue<K> {
    /// Maps the ring of this name, unless it is mapped already.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be mapped, or if messages through another ring have not ended.
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

    /// Returns the ring that was mapped last, and the position at which the accepted data ends.
    pub fn accepted(&self) -> Option<(RingName, u64)> {
        let queued = || self.queue.iter().map(|(_, left)| left).sum::<u64>();
        self.ring.as_ref().map(|(name, ring)| (*name, ring.at().saturating_add(queued()))).or(self.ended)
    }

    /// Unmaps the ring, in which everything was put.
    pub fn close(&mut self) {
        self.ended = self.accepted();
        self.ring = None;
    }

    /// Queues a message of `len` bytes.
    pub fn push(&mut self, key: K, len: u64) {
        self.queue.push_back((key, len));
    }

    /// Returns the first message.
    pub fn front(&self) -> Option<K> {
        self.queue.front().map(|(key, _)| *key)
    }

    /// Returns true if there are no messages.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns true if the message is queued.
    pub fn contains(&self, key: K) -> bool {
        self.queue.iter().any(|(k, _)| *k == key)
    }

    /// Copies at most `max` bytes of the first message, whose data is `seg`; returns their number.
    ///
    /// # Errors
    ///
    /// Fails if the peer has corrupted the ring.
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

    /// Does the same as [`Producer::must_wake`].
    pub fn must_wake(&self) -> bool {
        self.ring.as_ref().is_some_and(|(_, ring)| ring.must_wake())
    }

    /// Does the same as [`Producer::prepare_to_sleep`]; always true without messages.
    ///
    /// # Errors
    ///
    /// Fails if the peer has corrupted the ring.
    pub fn prepare_to_sleep(&mut self) -> Result<bool, Corrupt> {
        match &mut self.ring {
            Some((_, ring)) if !self.queue.is_empty() => ring.prepare_to_sleep(),
            _ => Ok(true),
        }
    }
}

impl<K: Copy + PartialEq> InQueue<K> {
    /// Returns the name of the ring; creates it first if there is none, see [`Consumer::create`].
    ///
    /// # Errors
    ///
    /// Fails if it cannot be created.
    pub fn open(&mut self, long: bool) -> Result<RingName, RingError> {
        match &self.ring {
            Some(ring) => Ok(ring.name()),
            None => Ok(self.ring.insert(Consumer::create(long)?).name()),
        }
    }

    /// Returns the name of the ring, if there is one.
    pub fn name(&self) -> Option<RingName> {
        self.ring.as_ref().map(Consumer::name)
    }

    /// Returns true if there is a ring.
    pub fn is_open(&self) -> bool {
        self.ring.is_some()
    }

    /// Queues a message of `len` bytes that was granted.
    pub fn push(&mut self, key: K, len: u64) {
        self.queue.push_back((key, len, true));
    }

    /// Returns the first message, and whether it is still wanted.
    pub fn front(&self) -> Option<(K, bool)> {
        self.queue.front().map(|(key, _, wanted)| (*key, *wanted))
    }

    /// Returns true if there are no messages.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Marks a message as abandoned: its bytes will be discarded.
    pub fn forget(&mut self, key: K) {
        for (k, _, wanted) in &mut self.queue {
            *wanted &= *k != key;
        }
    }

    /// Removes a message that the sender will not send.
    pub fn remove(&mut self, key: K) {
        self.queue.retain(|(k, ..)| *k != key);
    }

    /// Removes what was granted behind a position in a ring: the peer has accepted what ends there,
    /// and will refuse the rest.
    pub fn void_behind(&mut self, accepted: Option<(RingName, u64)>) {
        let Some(ring) = &self.ring else { return self.queue.clear() };
        let end = accepted.filter(|(name, _)| *name == ring.name()).map_or(0, |(_, end)| end);
        let mut at = ring.at();
        self.queue.retain(|(_, left, _)| {
            let is_accepted = at < end;
            at = at.saturating_add(*left);
            is_accepted
        });
    }

    /// Copies at most `max` bytes of the first message to `seg`, or discards them; returns their
    /// number.
    ///
    /// # Errors
    ///
    /// Fails if the peer has corrupted the ring.
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

    /// Does the same as [`Consumer::must_wake`].
    pub fn must_wake(&self) -> bool {
        self.ring.as_ref().is_some_and(Consumer::must_wake)
    }

    /// Does the same as [`Consumer::prepare_to_sleep`]; always true without messages.
    ///
    /// # Errors
    ///
    /// Fails if the peer has corrupted the ring.
    pub fn prepare_to_sleep(&mut self) -> Result<bool, Corrupt> {
        match &mut self.ring {
            Some(ring) if !self.queue.is_empty() => ring.prepare_to_sleep(),
            _ => Ok(true),
        }
    }
}
