//! The ways to the memory of the processes of a window, and what they tell each other for that.

use std::io;
use std::sync::Arc;

use ch3_shim::Request as Message;
use ch3_shim::shared_memory::{PeerMemory, SharedMemory, Ticket};

use netmod_core::rma::RemoteKey;

use super::memory::Span;
use crate::allocated::Place;

/// The way to the memory of a process.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reach {
    /// Loads and stores of this process.
    Memory(Span),
    /// Put and get by the kernel, from and to the addresses of the other process; requests for all
    /// else.
    Attach(PeerMemory, Span),
    /// Requests, which the process executes.
    Requests,
}

/// The network's way to the memory of a process that is reached by requests, as far as it is known.
#[derive(Debug, Default)]
pub(super) enum Network {
    /// Nothing is.
    #[default]
    Unknown,
    /// Nothing yet: the process was asked for the key.
    Asked(Message),
    /// The key.
    Open(RemoteKey),
    /// There is none.
    Closed,
}

/// The agent that executes all accumulate-type operations on the memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agent {
    /// The processor's atomic operations, by whoever can access the memory.
    Processor,
    /// The process itself.
    Target,
}

/// Words that tell the processes of a node of memory of the program.
pub(super) const WORDS: usize = 5;

/// Memory of the program, as the others of the node are told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// A part of a segment that they can open: bytes of the segment, and the part's place in it.
    Segment { ticket: Ticket, len: usize, at: usize },
    /// Other memory at an address.
    Address(PeerMemory, u64),
}

impl Told {
    /// Describes memory at an address, which is at a place of a segment or elsewhere.
    pub(super) fn of(address: usize, place: Option<&Place>) -> Option<Told> {
        let segment = |place: &Place| {
            Some(Told::Segment { ticket: place.memory.ticket()?, len: place.memory.len(), at: place.at })
        };
        place
            .and_then(segment)
            .or_else(|| Some(Told::Address(PeerMemory::of_this_process()?, address as u64)))
    }

    /// Returns it as words; zeros are none.
    pub(super) fn words(told: Option<Told>) -> [i64; WORDS] {
        let mut words = [0; WORDS];
        let mut put = |first: usize, bytes: &[u8]| {
            let numbers = bytes.as_chunks::<8>().0.iter().map(|bytes| i64::from_le_bytes(*bytes));
            words[first..].iter_mut().zip(numbers).for_each(|(word, number)| *word = number);
        };
        match told {
            None => {}
            Some(Told::Segment { ticket, len, at }) => {
                put(0, &ticket.to_bytes());
                // An address is not negative.
                (words[2], words[4]) = (len as i64, -1 - at as i64);
            }
            Some(Told::Address(peer, at)) => {
                put(0, &peer.to_bytes());
                words[4] = at as i64;
            }
        }
        words
    }

    /// Reads what [`Told::words`] has made.
    pub(super) fn read(words: &[i64]) -> Option<Told> {
        let words = words.first_chunk::<WORDS>()?;
        let mut bytes = [0; PeerMemory::LEN];
        bytes.as_chunks_mut::<8>().0.iter_mut().zip(words).for_each(|(b, word)| *b = word.to_le_bytes());
        match words[4] {
            0 => None,
            at if at > 0 => Some(Told::Address(PeerMemory::from_bytes(bytes), at as u64)),
            at => {
                let ticket = bytes.first_chunk().map(|bytes| Ticket::from_bytes(*bytes))?;
                Some(Told::Segment { ticket, len: words[2] as usize, at: (-1 - at) as usize })
            }
        }
    }

    /// Returns true if the processor executes accumulations on the memory.
    pub(super) fn agent(told: Option<Told>) -> Agent {
        if matches!(told, Some(Told::Segment { .. })) { Agent::Processor } else { Agent::Target }
    }

    /// Finds out how the memory of another process of the node can be reached, of which `size`
    /// bytes are the window's. Its segment is opened by `open`, and returned, too.
    pub(super) fn reach(
        &self,
        rank: u32,
        size: u64,
        open: impl FnOnce(Ticket, usize) -> io::Result<Arc<SharedMemory>>,
    ) -> (Reach, Option<Arc<SharedMemory>>) {
        let by_requests = |why: String| {
            tracing::info!(rank, "memory of a window is accessed by requests: {why}");
            (Reach::Requests, None)
        };
        match *self {
            Told::Segment { ticket, len, at } => {
                let fits = |n: &usize| at.checked_add(*n).is_some_and(|end| end <= len);
                let Some(size) = usize::try_from(size).ok().filter(fits) else {
                    return by_requests("it is not within its segment".into());
                };
                match open(ticket, len) {
                    Ok(memory) => (Reach::Memory(Span::of_shared(&memory, at, size)), Some(memory)),
                    Err(e) => by_requests(e.to_string()),
                }
            }
            Told::Address(peer, at) => match peer.check() {
                Ok(_) => (Reach::Attach(peer, Span::elsewhere(at, size)), None),
                Err(e) => by_requests(e.to_string()),
            },
        }
    }
}

/// Opens the segment of a ticket.
///
/// # Errors
/// As [`SharedMemory::open`].
pub(super) fn open(ticket: Ticket, len: usize) -> io::Result<Arc<SharedMemory>> {
    SharedMemory::open(&ticket, len).map(Arc::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_opened_by_the_words_that_tell_of_it() {
        let memory = Arc::new(SharedMemory::create(1000).unwrap());
        let place = Place { memory: Arc::clone(&memory), at: 64 };
        let told = Told::of(4096, Some(&place));
        assert_eq!((Told::read(&Told::words(told)), Told::read(&Told::words(None))), (told, None));
        memory.word(72).store(9, std::sync::atomic::Ordering::Relaxed);
        let (reach, opened) = told.unwrap().reach(0, 100, open);
        let opened = opened.unwrap();
        assert!(matches!(reach, Reach::Memory(span) if span.address() == opened.at(64, 100).addr()));
        assert_eq!(opened.word(72).load(std::sync::atomic::Ordering::Relaxed), 9);
        assert!(matches!(told.unwrap().reach(0, 1000, open), (Reach::Requests, None)), "beyond the segment");
        let closed = Told::Segment { ticket: Ticket::from_bytes([0; Ticket::LEN]), len: 1000, at: 64 };
        assert!(matches!(closed.reach(0, 100, open), (Reach::Requests, None)));
    }

    #[test]
    fn other_memory_is_reached_by_the_kernel() {
        let told = Told::of(4096, None);
        assert_eq!(Told::read(&Told::words(told)), told);
        assert_eq!((Told::agent(told), Told::agent(None)), (Agent::Target, Agent::Target));
        // This process reads its own memory, unless the kernel forbids all of it.
        let (reach, _) = told.unwrap().reach(0, 100, open);
        assert!(matches!(reach, Reach::Attach(_, span) if (span.address(), span.len()) == (4096, 100)));
    }
}
