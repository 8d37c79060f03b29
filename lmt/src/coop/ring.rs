//! Copying into a ring and out of it.

#![allow(unsafe_code)]

use std::fs::File;
use std::ptr::NonNull;

use netmod_core::stores::Processor;
use netmod_core::{RxBytes, Segment, Stores};

use super::RingError;
use super::gate::{Corrupt, Gate, Putter, Taker};
use super::sys::{self, Mapping};
use crate::cookie::RingName;

/// Bytes of a ring. With its two sides' working sets they fit the caches that cores do not share; see the example `ring`.
pub const RING: usize = 256 << 10;
/// Bytes of memory of a long ring, more than a core's own caches hold: until a byte's place is written again, the receiver's
/// have lost it, and it need not be taken away from there (see [`netmod_core::stores`]).
pub const LONG: usize = 2 << 20;
/// Bytes that are in a long ring at once, at most: so much slack lets neither side wait for the other.
const LONG_WINDOW: usize = 1 << 20;
/// Bytes after which the other side is told. Smaller ones cost more synchronization, larger ones less overlap.
pub const CHUNK: usize = 64 << 10;

/// Messages of so many bytes, and longer ones, are written past the receiver's caches, as memcpy does from about there
/// on: no cache holds them until they are read.
pub(super) const HUGE: usize = 16 << 20;

/// What precedes the data in the file.
const HEADER: usize = 4096;
/// Where the number of the ring is, at the header's end.
const NUMBER_AT: usize = HEADER - 8;
const _: () = assert!(size_of::<Gate>() <= NUMBER_AT);

/// Sizes of a ring, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Of its memory.
    pub memory: usize,
    /// That are in it at once, at most: no more than its memory.
    pub window: usize,
    /// After which the other side is told.
    pub chunk: usize,
}

impl Sizes {
    /// Of a ring that is not long.
    pub const SHORT: Sizes = Sizes { memory: RING, window: RING, chunk: CHUNK };
    /// Of one that is.
    pub const LONG: Sizes = Sizes { memory: LONG, window: LONG_WINDOW, chunk: CHUNK };
}

/// The memory of a ring.
#[derive(Debug)]
struct Memory {
    map: Mapping,
    size: usize,
}

impl Memory {
    fn gate(&self) -> &Gate {
        // SAFETY: the mapping begins on a page and has at least `HEADER` bytes; a gate is made of atomics, for which
        // any bytes are a value, and which the peer may change at any time.
        unsafe { self.map.base().cast::<Gate>().as_ref() }
    }

    /// The longest piece from a position on that does not wrap, of at most `n` bytes.
    fn piece(&self, at: u64, n: usize) -> (NonNull<u8>, usize) {
        let at = (at % self.size as u64) as usize;
        debug_assert!(HEADER + self.size <= self.map.len());
        // SAFETY: `at < size`, and the mapping has `HEADER + size` bytes.
        let base = unsafe { self.map.base().add(HEADER + at) };
        (base, n.min(self.size - at))
    }
}

/// The sender's end of a ring.
#[derive(Debug)]
pub struct Producer {
    memory: Memory,
    putter: Putter,
    chunk: usize,
    stores: Stores,
}

/// The receiver's end of a ring.
#[derive(Debug)]
pub struct Consumer {
    memory: Memory,
    taker: Taker,
    name: RingName,
    /// By which the peer finds the ring: closed with it, or when something has come, since the peer then has mapped it.
    file: Option<File>,
    chunk: usize,
}

/// A number that nobody guesses.
fn random_number() -> Result<[u8; 8], RingError> {
    let mut number = [0; 8];
    getrandom::fill(&mut number).map_err(|e| RingError::System {
        what: "draw a random number for",
        path: "a ring".into(),
        source: std::io::Error::other(e.to_string()),
        hint: "large messages go through the network module",
    })?;
    Ok(number)
}

impl Consumer {
    /// Makes a ring; a long one if that is of use on this machine and `long` says that there is memory for it.
    ///
    /// # Errors
    /// If the file cannot be made, or there is no memory for it.
    pub fn create(long: bool) -> Result<Consumer, RingError> {
        let long = long && Processor::here() == Processor::Zen4;
        Consumer::with_sizes(if long { Sizes::LONG } else { Sizes::SHORT })
    }

    /// The same with other sizes, to measure them.
    ///
    /// # Errors
    /// As [`Consumer::create`].
    pub fn with_sizes(sizes: Sizes) -> Result<Consumer, RingError> {
        let Sizes { memory, window, chunk } = sizes;
        let (map, file, name) = sys::create(random_number()?, NUMBER_AT as u64, HEADER + memory)?;
        let memory = Memory { map, size: memory };
        Ok(Consumer { memory, taker: Taker::new(window as u64), name, file: Some(file), chunk })
    }

    /// By which the peer finds it.
    pub fn name(&self) -> RingName {
        self.name
    }

    /// Copies at most `max` bytes out of the ring into the segment, as far as there are any; returns how many.
    ///
    /// # Errors
    /// If the peer has broken the ring.
    pub fn drain(&mut self, seg: &mut Segment, max: usize) -> Result<usize, Corrupt> {
        let max = max.min(seg.remaining());
        let huge = seg.total() >= HUGE;
        self.each_piece(max, |base, n| {
            // SAFETY: the piece is within the mapping, which lives longer than this call.
            let bytes = unsafe { RxBytes::from_raw(base, n) };
            if huge {
                seg.unpack_past_caches(bytes);
            } else {
                seg.unpack(bytes);
            }
        })
    }

    /// Lets at most `max` bytes fall; returns how many.
    ///
    /// # Errors
    /// If the peer has broken the ring.
    pub fn discard(&mut self, max: usize) -> Result<usize, Corrupt> {
        self.each_piece(max, |_, _| {})
    }

    fn each_piece(&mut self, max: usize, mut f: impl FnMut(NonNull<u8>, usize)) -> Result<usize, Corrupt> {
        let mut done = 0;
        while done < max {
            let there = self.taker.there(self.memory.gate())?;
            if there == 0 {
                break;
            }
            self.file = None;
            let n = usize::try_from(there).unwrap_or(usize::MAX).min(self.chunk).min(max - done);
            let (base, n) = self.memory.piece(self.taker.at(), n);
            f(base, n);
            self.taker.take(self.memory.gate(), n as u64);
            done += n;
        }
        Ok(done)
    }

    /// Whether the peer sleeps and is to be told that there is room.
    pub fn must_wake(&self) -> bool {
        self.taker.must_wake(self.memory.gate())
    }

    /// Whether this side may sleep: the peer will tell when there is something.
    ///
    /// # Errors
    /// If the peer has broken the ring.
    pub fn lie_down(&mut self) -> Result<bool, Corrupt> {
        self.taker.lie_down(self.memory.gate())
    }
}

impl Producer {
    /// Maps the ring that a peer on this node has made.
    ///
    /// # Errors
    /// If it is not there, or not what a peer makes.
    pub fn open(name: RingName) -> Result<Producer, RingError> {
        Producer::map(name, &[Sizes::SHORT, Sizes::LONG])
    }

    /// The same with other sizes, to measure them.
    ///
    /// # Errors
    /// As [`Producer::open`].
    pub fn with_sizes(name: RingName, sizes: Sizes) -> Result<Producer, RingError> {
        Producer::map(name, &[sizes])
    }

    /// Maps a ring that has one of these sizes, as the length of its file tells.
    fn map(name: RingName, all: &[Sizes]) -> Result<Producer, RingError> {
        let lens: Vec<usize> = all.iter().map(|sizes| HEADER + sizes.memory).collect();
        let map = sys::open(name, NUMBER_AT as u64, &lens)?;
        let size = map.len() - HEADER;
        let Sizes { window, chunk, .. } =
            all.iter().copied().find(|sizes| sizes.memory == size).unwrap_or(Sizes::SHORT);
        let putter = Putter::new(window as u64);
        Ok(Producer { memory: Memory { map, size }, putter, chunk, stores: Stores::default() })
    }

    /// Copies at most `max` bytes of the segment into the ring, as far as there is room; returns how many.
    ///
    /// # Errors
    /// If the peer has broken the ring.
    pub fn fill(&mut self, seg: &mut Segment, max: usize) -> Result<usize, Corrupt> {
        let max = max.min(seg.remaining());
        let mut done = 0;
        while done < max {
            let want = self.chunk.min(max - done);
            let room = self.putter.room(self.memory.gate(), want as u64)?;
            if room == 0 {
                break;
            }
            let n = usize::try_from(room).unwrap_or(usize::MAX).min(want);
            let (base, n) = self.memory.piece(self.putter.at(), n);
            let n = self.stores.copy(n, |way| {
                // SAFETY: the piece is within the mapping; it is the ring's and no part of a request's memory.
                unsafe { seg.pack_raw(base.as_ptr(), n, way) }
            });
            self.putter.put(self.memory.gate(), n as u64);
            done += n;
        }
        Ok(done)
    }

    /// Whether the peer sleeps and is to be told that there is something.
    pub fn must_wake(&self) -> bool {
        self.putter.must_wake(self.memory.gate())
    }

    /// Whether this side may sleep: the peer will tell when there is room.
    ///
    /// # Errors
    /// If the peer has broken the ring.
    pub fn lie_down(&mut self) -> Result<bool, Corrupt> {
        self.putter.lie_down(self.memory.gate())
    }
}

#[cfg(test)]
impl Consumer {
    pub(super) fn forge(&self, head: u64, tail: u64) {
        self.memory.gate().forge(head, tail);
    }

    pub(super) fn has_file(&self) -> bool {
        self.file.is_some()
    }
}
