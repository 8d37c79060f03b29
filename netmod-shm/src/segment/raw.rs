//! The mapped segment: raw memory that other processes write, behind types that are sound whatever
//! they write.
//!
//! Everything that is read as a value is an atomic, for which every pattern of bits is one. Content
//! of rings is only ever copied, in and out, within bounds that are this process's own.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

use memmap2::{MmapOptions, MmapRaw};

use super::layout::{HEADER, JOINT, JOINTS, Layout, REGIONS, SLOT};
use crate::bell::BellMem;
use crate::joint::Joint;
use crate::ring::{Geometry, LINE};

mod ring;

pub(crate) use ring::RawRing;

/// The first bytes of a segment.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct HeaderWords {
    pub(crate) magic: AtomicU64,
    pub(crate) ranks: AtomicU32,
    /// One of the constants in [`crate::segment`].
    pub(crate) state: AtomicU32,
    /// The system's error when memory could not be allocated.
    pub(crate) error: AtomicU32,
    /// Slots given out.
    pub(crate) claimed: AtomicU32,
    /// The identity of the segment: 16 random bytes.
    pub(crate) nonce: [AtomicU64; 2],
    /// Pairs with a ring (upper 24 bits), and bytes of the pool that they take.
    pub(crate) pool: AtomicU64,
    /// 16 random bytes, which a segment that replaces another one does not take over from it.
    pub(crate) made: [AtomicU64; 2],
}

/// A rank's description of itself, and its doorbells.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Slot {
    /// One of the constants in [`crate::segment`].
    pub(crate) state: AtomicU32,
    pub(crate) rank: AtomicU32,
    pub(crate) pid: AtomicU32,
    pub(crate) pipe_fd: AtomicU32,
    pub(crate) pipe_inode: AtomicU64,
    pub(crate) pipe_device: AtomicU64,
    /// The identity of the slot: 16 random bytes, which are in the owner's business card.
    pub(crate) token: [AtomicU64; 2],
    /// A MAC with the job key.
    pub(crate) proof: [AtomicU64; 4],
    /// Address of a copy of the token in the process's memory: a peer that can read it there can
    /// use cross-memory attach.
    pub(crate) probe_at: AtomicU64,
    /// The PID namespace of the process; 0 if it does not know.
    pub(crate) pid_namespace: AtomicU64,
    /// The last round of checkpoints from which the rank has come back.
    pub(crate) back: AtomicU32,
    _pad: [u8; 28],
    sleeps: AtomicU32,
    /// Somebody has something to say and no way to wake the rank.
    pub(crate) unwakeable: AtomicU32,
    _pad2: [u8; 56],
    /// A line of its own.
    bits: [AtomicU64; 8],
}

const _: () = assert!(size_of::<Slot>() == SLOT && size_of::<HeaderWords>() <= HEADER);
const _: () = assert!(size_of::<Joint>() == JOINT && align_of::<Joint>() == JOINT);
const _: () = assert!(std::mem::offset_of!(Slot, sleeps) == 128 && std::mem::offset_of!(Slot, bits) == 192);

/// The mapping of a segment.
#[derive(Debug)]
pub(crate) struct Map {
    map: MmapRaw,
    layout: Layout,
}

impl Map {
    /// Maps the whole of a file that is long enough for the layout.
    pub(crate) fn new(file: &File, layout: Layout) -> io::Result<Map> {
        // A mapping beyond the end of a file can be made, and kills who touches it.
        if file.metadata()?.len() < layout.total() as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let map = MmapOptions::new().len(layout.total()).map_raw(file)?;
        Ok(Map { map, layout })
    }

    /// Maps the header alone, which is all that is sure to be there while a segment is being made.
    pub(crate) fn new_header(file: &File) -> io::Result<HeaderMap> {
        if file.metadata()?.len() < HEADER as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(HeaderMap(MmapOptions::new().len(HEADER).map_raw(file)?))
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < self.layout.total());
        self.map.as_mut_ptr().wrapping_add(offset)
    }

    pub(crate) fn header(&self) -> &HeaderWords {
        // SAFETY: within the mapping, which lives as long as `self`, and aligned to a page; all
        // atomics.
        unsafe { &*self.at(0).cast() }
    }

    /// A rank's slot.
    ///
    /// # Panics
    /// If there is none of this number.
    pub(crate) fn slot(&self, i: usize) -> &Slot {
        assert!(i < self.layout.ranks as usize);
        // SAFETY: slots follow the header, `i` is one of them; aligned to 256 bytes; all atomics
        // but the padding, which nobody reads.
        unsafe { &*self.at(HEADER + i * SLOT).cast() }
    }

    /// A word of a rank's table of regions that peers may read or write: the region's number, or 0.
    ///
    /// # Panics
    /// If there is no such word.
    pub(crate) fn region(&self, slot: usize, i: usize) -> &AtomicU64 {
        assert!(slot < self.layout.ranks as usize && i < REGIONS);
        // SAFETY: a table of `ranks * REGIONS` words, aligned, within the mapping.
        unsafe { &*self.at(self.layout.regions_at + (slot * REGIONS + i) * 8).cast() }
    }

    /// Bits of a rank's regions that a reader wants to be helped with.
    ///
    /// # Panics
    /// If there is no such rank.
    pub(crate) fn wanted(&self, slot: usize) -> &AtomicU64 {
        assert!(slot < self.layout.ranks as usize);
        // SAFETY: the first of a rank's lines, aligned, within the mapping; an atomic.
        unsafe { &*self.at(self.layout.joints_at + slot * JOINTS * JOINT).cast() }
    }

    /// The joint get of a rank's region.
    ///
    /// # Panics
    /// If there is no such region.
    pub(crate) fn joint(&self, slot: usize, i: usize) -> &Joint {
        assert!(slot < self.layout.ranks as usize && i < REGIONS);
        // SAFETY: one of the other lines of a rank, aligned to a line, within the mapping; all
        // atomics.
        unsafe { &*self.at(self.layout.joints_at + (slot * JOINTS + 1 + i) * JOINT).cast() }
    }

    /// The doorbells of a slot, to be looked at often.
    pub(crate) fn bells(self: &Arc<Map>, i: usize) -> OwnBells {
        // Bits beyond the last rank mean nothing.
        let words = (self.layout.ranks as usize).div_ceil(64);
        OwnBells { slot: NonNull::from(self.slot(i)), words, _map: Arc::clone(self) }
    }

    /// The word by which a slot's rank says that it sleeps.
    pub(crate) fn sleep_word(self: &Arc<Map>, i: usize) -> SleepWord {
        SleepWord { slot: NonNull::from(self.slot(i)), _map: Arc::clone(self) }
    }

    /// Returns the offset of an ordered pair's ring.
    ///
    /// # Panics
    /// If there is no such pair.
    pub(crate) fn pair(&self, from: usize, to: usize) -> &AtomicU64 {
        let n = self.layout.ranks as usize;
        assert!(from < n && to < n);
        // SAFETY: a table of `n * n` words, aligned, within the mapping.
        unsafe { &*self.at(self.layout.pairs_at + (from * n + to) * 8).cast() }
    }

    /// The ring of `bytes` bytes at `at` in the pool. `None` if it does not lie there.
    pub(crate) fn ring(self: &Arc<Map>, at: usize, bytes: usize) -> Option<RawRing> {
        let fits = at.is_multiple_of(LINE)
            && bytes.is_multiple_of(crate::ring::MIN_RING)
            && (crate::ring::MIN_RING..=crate::ring::MAX_RING).contains(&bytes)
            && at.checked_add(bytes).is_some_and(|end| end <= self.layout.pool_len);
        if !fits {
            return None;
        }
        let base = NonNull::new(self.at(self.layout.pool_at + at))?;
        // SAFETY: these bytes lie in the pool, as was looked at, and the pool in the mapping.
        unsafe { RawRing::new(base, Geometry::of(bytes), Arc::clone(self)) }
    }
}

/// The mapping of a header.
#[derive(Debug)]
pub(crate) struct HeaderMap(MmapRaw);

impl HeaderMap {
    pub(crate) fn words(&self) -> &HeaderWords {
        // SAFETY: within the mapping, which lives as long as `self`, and aligned to a page; all
        // atomics.
        unsafe { &*self.0.as_mut_ptr().cast() }
    }
}

impl BellMem for Slot {
    fn words(&self) -> usize {
        self.bits.len()
    }
    #[inline]
    fn word(&self, i: usize) -> u64 {
        self.bits[i].load(Relaxed)
    }
    fn set_bit(&self, i: usize, bit: u64) {
        self.bits[i].fetch_or(bit, AcqRel);
    }
    fn take(&self, i: usize) -> u64 {
        self.bits[i].swap(0, AcqRel)
    }
    fn sleeps(&self) -> bool {
        self.sleeps.load(Relaxed) != 0
    }
    fn swap_sleeps(&self, sleeps: bool) -> bool {
        self.sleeps.swap(sleeps.into(), AcqRel) != 0
    }
    fn fence(&self) {
        fence(SeqCst);
    }
}

/// The word by which a rank says that it sleeps, for those who wait for it in the kernel.
#[derive(Debug)]
pub(crate) struct SleepWord {
    slot: NonNull<Slot>,
    _map: Arc<Map>,
}

// SAFETY: as for `RawRing`.
unsafe impl Send for SleepWord {}
// SAFETY: nothing of it but an atomic can be reached.
unsafe impl Sync for SleepWord {}

impl SleepWord {
    pub(crate) fn word(&self) -> &AtomicU32 {
        // SAFETY: made from a reference into the mapping, which is kept.
        &unsafe { self.slot.as_ref() }.sleeps
    }
}

/// This rank's own doorbells, which every poll looks at.
#[derive(Debug)]
pub(crate) struct OwnBells {
    slot: NonNull<Slot>,
    words: usize,
    _map: Arc<Map>,
}

// SAFETY: as for `RawRing`.
unsafe impl Send for OwnBells {}

impl OwnBells {
    #[inline]
    fn slot(&self) -> &Slot {
        // SAFETY: made from a reference into the mapping, which is kept.
        unsafe { self.slot.as_ref() }
    }
}

impl BellMem for OwnBells {
    #[inline]
    fn words(&self) -> usize {
        self.words
    }
    #[inline]
    fn word(&self, i: usize) -> u64 {
        self.slot().word(i)
    }
    fn set_bit(&self, i: usize, bit: u64) {
        self.slot().set_bit(i, bit);
    }
    fn take(&self, i: usize) -> u64 {
        self.slot().take(i)
    }
    fn sleeps(&self) -> bool {
        self.slot().sleeps()
    }
    fn swap_sleeps(&self, sleeps: bool) -> bool {
        self.slot().swap_sleeps(sleeps)
    }
    fn fence(&self) {
        fence(SeqCst);
    }
}
