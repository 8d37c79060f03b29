//! The ways to the memory of the processes of a window, and what they tell each other for that.

use std::sync::Arc;

use ch3_shim::shared_memory::{SharedMemory, Ticket};

use super::memory::Span;
use crate::allocated::Place;

/// The way to the memory of a process.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reach {
    /// Loads and stores of this process.
    Memory(Span),
    /// Requests, which the process executes.
    Requests,
}

/// The agent that executes all accumulate-type operations on the memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agent {
    /// The processor's atomic operations, by whoever can access the memory.
    Processor,
    /// The process itself.
    Target,
}

/// Words that tell of memory that the processes of a node can open.
pub(super) const WORDS: usize = 4;

/// Memory of a process that the others of its node can open: a part of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opening {
    ticket: Ticket,
    /// Bytes of the segment.
    len: usize,
    /// The part's place in it.
    at: usize,
}

impl Opening {
    /// Describes the memory at a place; `None` if its segment is closed to others.
    pub(super) fn of(place: &Place) -> Option<Opening> {
        Some(Opening { ticket: place.memory.ticket()?, len: place.memory.len(), at: place.at })
    }

    /// Returns it as words; zeros are none.
    pub(super) fn words(opening: Option<Opening>) -> [i64; WORDS] {
        let Some(Opening { ticket, len, at }) = opening else { return [0; WORDS] };
        let bytes = ticket.to_bytes();
        let word = |at: usize| bytes[at..].first_chunk().copied().map_or(0, i64::from_le_bytes);
        [word(0), word(8), len as i64, at as i64]
    }

    /// Reads what [`Opening::words`] has made.
    pub(super) fn read(words: &[i64]) -> Option<Opening> {
        let [a, b, len, at] = *words.first_chunk::<WORDS>()?;
        let mut bytes = [0; Ticket::LEN];
        bytes[..8].copy_from_slice(&a.to_le_bytes());
        bytes[8..].copy_from_slice(&b.to_le_bytes());
        (len > 0).then(|| Opening { ticket: Ticket::from_bytes(bytes), len: len as usize, at: at as usize })
    }

    /// Opens the memory, of which `size` bytes are the window's. Returns it with its segment, or
    /// nothing if it cannot be had here: then requests lead to it.
    pub(super) fn open(&self, rank: u32, size: u64) -> Option<(Span, Arc<SharedMemory>)> {
        let size = usize::try_from(size).ok()?;
        if self.at.checked_add(size)? > self.len {
            return None;
        }
        match SharedMemory::open(&self.ticket, self.len) {
            Ok(memory) => Some((Span::of_shared(&memory, self.at, size), Arc::new(memory))),
            Err(e) => {
                tracing::info!(rank, "memory of a window is accessed by requests: {e}");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_opened_by_the_words_that_tell_of_it() {
        let memory = Arc::new(SharedMemory::create(1000).unwrap());
        let opening = Opening::of(&Place { memory: Arc::clone(&memory), at: 64 });
        let words = Opening::words(opening);
        assert_eq!((Opening::read(&words), Opening::read(&Opening::words(None))), (opening, None));
        let opening = opening.unwrap();
        memory.word(72).store(9, std::sync::atomic::Ordering::Relaxed);
        let (span, opened) = opening.open(0, 100).unwrap();
        assert_eq!(span.address(), opened.at(64, 100).addr());
        assert_eq!(opened.word(72).load(std::sync::atomic::Ordering::Relaxed), 9);
        assert!(opening.open(0, 1000).is_none(), "beyond the segment");
        let closed = Opening { ticket: Ticket::from_bytes([0; Ticket::LEN]), ..opening };
        assert!(closed.open(0, 100).is_none());
    }
}
