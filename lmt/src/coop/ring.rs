//! Copying into a ring and out of it.

#![allow(unsafe_code)]

use std::fs::File;
use std::ptr::NonNull;

use netmod_core::processor::Processor;
use netmod_core::{RxBytes, Segment, Stores};

use super::RingError;
use super::gate::{Corrupt, Gate, Putter, Taker};
use super::sys::{self, Mapping};
use crate::cookie::RingName;

/// Size of a ring in bytes.
///
/// With the working sets of its two sides it fits the caches that cores do not share; see the
/// example `ring`.
pub const RING: usize = 256 << 10;
/// Size of a long ring in bytes, more than a core's own caches hold.
///
/// Before a position is written again, the receiver's caches have evicted it, so it need not be
/// taken from there (see [`netmod_core::stores`]).
pub const LONG: usize = 2 << 20;
/// Most bytes in a long ring at once; with this much slack neither side waits for the other.
const LONG_WINDOW: usize = 1 << 20;
/// Bytes after which the other side is told.
///
/// Smaller chunks cost more synchronization, larger ones reduce the overlap.
pub const CHUNK: usize = 64 << 10;

/// Length from which on messages are written past the receiver's caches.
///
/// memcpy does so from about there on, too. No cache holds such a message until it is read.
pub(super) const HUGE: usize = 16 << 20;

/// Bytes before the data in the file.
const HEADER: usize = 4096;
/// Offset of the ring's random number, at the end of the header.
const NUMBER_AT: usize = HEADER - 8;
const _: () = assert!(size_of::<Gate>() <= NUMBER_AT);

/// The sizes of a ring, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Memory of the ring.
    pub memory: usize,
    /// Most bytes in the ring at once, at most its memory.
    pub window: usize,
    /// Bytes after which the other side is told.
    pub chunk: usize,
}

impl Sizes {
    /// Sizes of a short ring.
    pub const SHORT: Sizes = Sizes { memory: RING, window: RING, chunk: CHUNK };
    /// Sizes of a long ring.
    pub const LONG: Sizes = Sizes { memory: LONG, window: LONG_WINDOW, chunk: CHUNK };
}

/// The mapped memory of a ring.
#[derive(Debug)]
struct Memory {
    map: Mapping,
    size: usize,
}

impl Memory {
    fn gate(&self) -> &Gate {
        // SAFETY: the mapping begins on a page and has at least `HEADER` bytes. A gate is made of
        // atomics, for which any bytes are valid, and which the peer may change at any time.
        unsafe { self.map.base().cast::<Gate>().as_ref() }
    }

    /// Returns the longest piece at a position that does not wrap, of at most `n` bytes.
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
    /// File by which the peer finds the ring.
    ///
    /// It is closed with the ring, or when data has come, since the peer has mapped it then.
    file: Option<File>,
    chunk: usize,
}

/// Returns an unpredictable number.
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
    /// Creates a ring: a long one if this machine benefits from it and `long` says that there is
    /// memory for it.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be created, or there is no memory for it.
    pub fn create(long: bool) -> Result<Consumer, RingError> {
        let long = long && Processor::here() != Processor::Other;
        Consumer::with_sizes(if long { Sizes::LONG } else { Sizes::SHORT })
    }

    /// Creates a ring of other sizes, for measurements.
    ///
    /// # Errors
    ///
    /// As for [`Consumer::create`].
    pub fn with_sizes(sizes: Sizes) -> Result<Consumer, RingError> {
        let Sizes { memory, window, chunk } = sizes;
        let (map, file, name) = sys::create(random_number()?, NUMBER_AT as u64, HEADER + memory)?;
        let memory = Memory { map, size: memory };
        Ok(Consumer { memory, taker: Taker::new(window as u64), name, file: Some(file), chunk })
    }

    /// Returns the name by which the peer finds it.
    pub fn name(&self) -> RingName {
        self.name
    }

    /// Returns the bytes that were taken out, in all.
    pub fn at(&self) -> u64 {
        self.taker.at()
    }

    /// Copies at most `max` bytes from the ring into the segment, as far as there are any; returns
    /// their number.
    ///
    /// # Errors
    ///
    /// Fails if the peer has corrupted the ring.
    pub fn drain(&mut self, seg: &mut Segment, max: usize) -> Result<usize, Corrupt> {
        let max = max.min(seg.remaining());
        let huge = seg.total() >= HUGE;
        self.each_piece(max, |base, n| {
            // SAFETY: the piece is within the mapping, which outlives this call.
            let bytes = unsafe { RxBytes::from_raw(base, n) };
            if huge {
                seg.unpack_nontemporal(bytes);
            } else {
                seg.unpack(bytes);
            }
        })
    }

    /// Discards at most `max` bytes; returns their number.
    ///
    /// # Errors
    ///
    /// Fails if the peer has corrupted the ring.
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

    /// Returns true if the peer sleeps and must be told that there is room.
    pub fn must_wake(&self) -> bool {
        self.taker.must_wake(self.memory.gate())
    }

    /// Returns true if this side may sleep: the peer will tell when there is data.
    ///
    /// # Errors
    ///
    /// Fails if the peer has corrupted the ring.
    pub fn prepare_to_sleep(&mut self) -> Result<bool, Corrupt> {
        self.taker.prepare_to_sleep(self.memory.gate())
    }
}

impl Producer {
    /// Maps the ring that a peer on this node has created.
    ///
    /// # Errors
    ///
    /// Fails if there is no such ring, or not in the form that a peer creates.
    pub fn open(name: RingName) -> Result<Producer, RingError> {
        Producer::map(name, &[Sizes::SHORT, Sizes::LONG])
    }

    /// Maps a ring of other sizes, for measurements.
    ///
    /// # Errors
    ///
    /// As for [`Producer::open`].
    pub fn with_sizes(name: RingName, sizes: Sizes) -> Result<Producer, RingError> {
        Producer::map(name, &[sizes])
    }

    /// Maps a ring that has one of these sizes, according to the length of its file.
    fn map(name: RingName, all: &[Sizes]) -> Result<Producer, RingError> {
        let lens: Vec<usize> = all.iter().map(|sizes| HEADER + sizes.memory).collect();
        let map = sys::open(name, NUMBER_AT as u64, &lens)?;
        let size = map.len() - HEADER;
        let Sizes { window, chunk, .. } =
            all.iter().copied().find(|sizes| sizes.memory == size).unwrap_or(Sizes::SHORT);
        let putter = Putter::new(window as u64);
        Ok(Producer { memory: Memory { map, size }, putter, chunk, stores: Stores::default() })
    }

    /// Returns the bytes that were put in, in all.
    pub fn at(&self) -> u64 {
        self.putter.at()
    }

    /// Copies at most `max` bytes of the segment into the ring, as far as there is room; returns
    /// their number.
    ///
    /// # Errors
    ///
    /// Fails if the peer has corrupted the ring.
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
            let n = self.stores.pack(seg, n, |seg, kind| {
                // SAFETY: the piece is within the mapping; it belongs to the ring and to no
                // request's memory.
                unsafe { seg.pack_raw(base.as_ptr(), n, kind) }
            });
            self.putter.put(self.memory.gate(), n as u64);
            done += n;
        }
        Ok(done)
    }

    /// Returns true if the peer sleeps and must be told that there is data.
    pub fn must_wake(&self) -> bool {
        self.putter.must_wake(self.memory.gate())
    }

    /// Returns true if this side may sleep: the peer will tell when there is room.
    ///
    /// # Errors
    ///
    /// Fails if the peer has corrupted the ring.
    pub fn prepare_to_sleep(&mut self) -> Result<bool, Corrupt> {
        self.putter.prepare_to_sleep(self.memory.gate())
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
