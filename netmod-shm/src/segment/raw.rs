//! The mapped segment: raw memory that other processes write, behind types that are sound whatever they write.
//!
//! Everything that is read as a value is an atomic, for which every pattern of bits is one. Content of
//! rings is only ever copied, in and out, within bounds that are this process's own.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

use memmap2::{MmapOptions, MmapRaw};
use netmod_core::stores::{Processor, fetch_all_to_write, fetch_to_write, store};
use netmod_core::{Header, Request, RxBuf, Stores};

use super::layout::{HEADER, JOINT, JOINTS, Layout, REGIONS, SLOT};
use crate::bell::BellMem;
use crate::joint::Joint;
use crate::ring::{CONTROL, Geometry, INLINE, LINE, RingMem, SHUTTLE};

/// The first bytes of a segment.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct HeaderWords {
    pub(crate) magic: AtomicU64,
    pub(crate) ranks: AtomicU32,
    /// One of the constants in [`crate::segment`].
    pub(crate) state: AtomicU32,
    /// What the system said when memory could not be had.
    pub(crate) error: AtomicU32,
    /// Slots given out.
    pub(crate) claimed: AtomicU32,
    /// What the segment is recognised by: 16 random bytes.
    pub(crate) nonce: [AtomicU64; 2],
    /// Pairs with a ring (upper 24 bits), and bytes of the pool that they take.
    pub(crate) pool: AtomicU64,
}

/// What a rank says of itself, and its doorbells.
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
    /// What the slot is recognised by: 16 random bytes, which are in the owner's business card.
    pub(crate) token: [AtomicU64; 2],
    /// A MAC with the job key.
    pub(crate) proof: [AtomicU64; 4],
    /// Where in the process's memory the token is, too: who can read it there can use cross-memory attach.
    pub(crate) probe_at: AtomicU64,
    /// Which PID namespace the process is in; 0 if it does not know.
    pub(crate) pid_namespace: AtomicU64,
    _pad: [u8; 32],
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
        // SAFETY: within the mapping, which lives as long as `self`, and aligned to a page; all atomics.
        unsafe { &*self.at(0).cast() }
    }

    /// A rank's slot.
    ///
    /// # Panics
    /// If there is none of this number.
    pub(crate) fn slot(&self, i: usize) -> &Slot {
        assert!(i < self.layout.ranks as usize);
        // SAFETY: slots follow the header, `i` is one of them; aligned to 256 bytes; all atomics but the padding,
        // which nobody reads.
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
        // SAFETY: one of the other lines of a rank, aligned to a line, within the mapping; all atomics.
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

    /// Where the ring of an ordered pair is.
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
        let geometry = Geometry::of(bytes);
        let bulk = base.as_ptr().wrapping_add(geometry.bulk_start());
        let shuttle = base.as_ptr().wrapping_add(SHUTTLE_AT);
        let hold = NonNull::new(base.as_ptr().wrapping_add(geometry.hold_start()))?;
        let (bulk, shuttle) = (NonNull::new(bulk)?, NonNull::new(shuttle)?);
        Some(RawRing { base, bulk, shuttle, hold, hold_len: geometry.hold, geometry, _map: Arc::clone(self) })
    }
}

/// The mapping of a header.
#[derive(Debug)]
pub(crate) struct HeaderMap(MmapRaw);

impl HeaderMap {
    pub(crate) fn words(&self) -> &HeaderWords {
        // SAFETY: within the mapping, which lives as long as `self`, and aligned to a page; all atomics.
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

/// Where in a cell the header of a message is that goes on in the bulk area: behind the words that say what and where.
const HEAD_AT: usize = 16;

/// Where in a ring's control block the shuttle is.
const SHUTTLE_AT: usize = 4 * LINE;
const _: () = assert!(SHUTTLE_AT + LINE <= CONTROL);

/// The memory of one ring.
#[derive(Debug)]
pub(crate) struct RawRing {
    /// `geometry.bytes()` bytes, aligned to a line, of which the mapping below is kept.
    base: NonNull<u8>,
    /// The bulk area.
    bulk: NonNull<u8>,
    /// The shuttle's line: this ring's, or that of another one of the same mapping.
    shuttle: NonNull<u8>,
    /// The hold of that ring, of `hold_len` bytes.
    hold: NonNull<u8>,
    hold_len: u32,
    geometry: Geometry,
    _map: Arc<Map>,
}

// SAFETY: addresses within a mapping that lives as long as the value; what is there is shared between processes anyway.
unsafe impl Send for RawRing {}

impl RawRing {
    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// From now on this ring's shuttle is that of another one.
    ///
    /// # Panics
    /// If it is in another mapping.
    pub(crate) fn share_shuttle(&mut self, other: &RawRing) {
        assert!(Arc::ptr_eq(&self._map, &other._map));
        (self.shuttle, self.hold, self.hold_len) = (other.shuttle, other.hold, other.hold_len);
    }

    /// The control word of the ring at this offset of its control block.
    #[inline]
    fn word(&self, offset: usize) -> &AtomicU32 {
        debug_assert!(offset < CONTROL && offset.is_multiple_of(4));
        // SAFETY: within the control block; an atomic.
        unsafe { &*self.base.as_ptr().add(offset).cast() }
    }

    /// First byte of a cell, or of the shuttle.
    #[inline]
    fn cell(&self, cell: u32) -> *mut u8 {
        if cell == SHUTTLE {
            return self.shuttle.as_ptr();
        }
        let cell = cell & (self.geometry.cells - 1);
        self.base.as_ptr().wrapping_add(CONTROL + cell as usize * LINE)
    }

    /// Writes a header and what follows it into a cell.
    ///
    /// # Panics
    /// If that is more than [`INLINE`].
    #[inline]
    pub(crate) fn write_inline(&self, cell: u32, hdr: &Header, data: &[u8]) {
        assert!(data.len() <= INLINE - hdr.len());
        let to = self.cell(cell).wrapping_add(8);
        // SAFETY: a cell has room for a header behind its control word.
        unsafe { write_words(to, hdr) };
        if !data.is_empty() {
            // SAFETY: a cell has `INLINE` bytes behind its control word, which is room for both; the slices are memory of
            // this process, and no part of the mapping is ever borrowed as a slice.
            unsafe { ptr::copy_nonoverlapping(data.as_ptr(), to.add(hdr.len()), data.len()) };
        }
    }

    /// Writes the header of a message that goes on in the bulk area into a cell.
    #[inline]
    pub(crate) fn write_head(&self, cell: u32, hdr: &Header) {
        // SAFETY: a cell has room for a header there.
        unsafe { write_words(self.cell(cell).wrapping_add(HEAD_AT), hdr) };
    }

    /// Writes a message into the bulk area, where others may be before it.
    ///
    /// # Panics
    /// If it does not fit there.
    #[inline]
    pub(crate) fn write_message(&self, at: u32, hdr: &Header, data: &[u8]) {
        if !at.is_multiple_of(8) {
            self.write_bulk(at, hdr);
        } else {
            assert!(at as usize + hdr.len() <= self.geometry.bulk as usize);
            // SAFETY: within the bulk area, as asserted, and aligned, as `at` and the area are.
            unsafe { write_words(self.bulk.as_ptr().add(at as usize), hdr) };
        }
        if !data.is_empty() {
            self.write_bulk(at + hdr.len() as u32, data);
        }
    }

    /// Takes the lines of bytes of the bulk area that are free, because they will soon be written: on AMD's processors by writing to them, since
    /// `prefetchw` does nothing there for a line that two processors have.
    ///
    /// # Panics
    /// If there are none such.
    #[inline]
    pub(crate) fn claim_bulk(&self, at: u32, len: usize) {
        assert!(at as usize + len <= self.geometry.bulk as usize && at.is_multiple_of(LINE as u32));
        let stores = Processor::here() != Processor::Other;
        for at in (at as usize..at as usize + len).step_by(LINE) {
            let line = self.bulk.as_ptr().wrapping_add(at);
            if stores {
                // SAFETY: the first word of a line of the bulk area, aligned, as asserted; an atomic.
                unsafe { &*line.cast::<AtomicU64>() }.store(0, Relaxed);
            } else {
                fetch_to_write(line);
            }
        }
    }

    /// Says that bytes of the bulk area will soon be read, if they are there. Changes nothing.
    #[inline]
    pub(crate) fn prefetch_bulk(&self, at: u32, len: usize) {
        let (at, bulk) = (at as usize, self.geometry.bulk as usize);
        let (first, len) = (self.bulk.as_ptr().wrapping_add(at), len.min(bulk.saturating_sub(at)));
        // As `netmod_core::stores::load` will.
        if Processor::here() == Processor::Zen4 {
            return fetch_all_to_write(first, len);
        }
        for at in (0..len).step_by(LINE) {
            fetch_to_read(first.wrapping_add(at));
        }
    }

    /// Takes the shuttle's line: who looks whether it has come will write to it. Changes nothing.
    #[inline]
    pub(crate) fn fetch_shuttle(&self) {
        fetch_to_write(self.shuttle.as_ptr());
    }

    /// Takes the lines of the first `len` bytes of the hold. Changes nothing.
    #[inline]
    pub(crate) fn fetch_hold(&self, len: usize) {
        fetch_all_to_write(self.hold.as_ptr(), len.min(self.hold_len as usize));
    }

    /// Writes bytes into the hold.
    ///
    /// # Panics
    /// If they do not fit there.
    #[inline]
    pub(crate) fn write_hold(&self, bytes: &[u8]) {
        assert!(bytes.len() <= self.hold_len as usize);
        // SAFETY: within the hold, as asserted; for the slice see `write_inline`.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.hold.as_ptr(), bytes.len()) };
    }

    /// Lends the first bytes of the hold to the engine.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline]
    pub(crate) fn lend_hold(&self, len: usize, token: u64) -> RxBuf {
        assert!(len <= self.hold_len as usize);
        // SAFETY: within the hold, as asserted; for the rest see `lend_inline`.
        unsafe { RxBuf::new(self.hold, len, token) }
    }

    /// Writes bytes into the bulk area.
    ///
    /// # Panics
    /// If they do not fit there.
    #[inline]
    pub(crate) fn write_bulk(&self, at: u32, bytes: &[u8]) {
        assert!(at as usize + bytes.len() <= self.geometry.bulk as usize);
        // SAFETY: within the bulk area, as asserted; for the slice see `write_inline`.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.bulk.as_ptr().add(at as usize), bytes.len()) };
    }

    /// Writes a piece of bytes into the bulk area, the way that is found to be better.
    ///
    /// # Panics
    /// If they do not fit there.
    #[inline]
    pub(crate) fn write_piece(&self, at: u32, bytes: &[u8], stores: &mut Stores) {
        assert!(at as usize + bytes.len() <= self.geometry.bulk as usize);
        stores.copy(bytes.len(), |way| {
            // SAFETY: within the bulk area, as asserted; for the slice see `write_inline`.
            unsafe { store(bytes.as_ptr(), self.bulk.as_ptr().add(at as usize), bytes.len(), way) };
        });
    }

    /// Writes up to `room` of the next bytes of a request's data into the bulk area, the way that is found to be better; returns how many.
    ///
    /// # Panics
    /// If they do not fit there.
    pub(crate) fn pack_piece(&self, at: u32, room: usize, req: &mut Request, stores: &mut Stores) -> usize {
        assert!(at as usize + room <= self.geometry.bulk as usize);
        stores.copy(room, |way| {
            // SAFETY: within the bulk area, as asserted, which is no memory of a request's.
            unsafe { req.seg.pack_raw(self.bulk.as_ptr().add(at as usize), room, way) }
        })
    }

    /// Lends the first bytes of a cell to the engine.
    #[inline]
    pub(crate) fn lend_inline(&self, cell: u32, len: usize, token: u64) -> RxBuf {
        let len = len.min(INLINE);
        let at = self.cell(cell).wrapping_add(8);
        // SAFETY: `len` bytes of a cell, in a mapping that outlives the loan: the netmod gives it up only when nothing is on
        // loan. They may change while they are read, for which `RxBuf` is made.
        unsafe { RxBuf::new(NonNull::new_unchecked(at), len, token) }
    }

    /// Lends the header in a cell to the engine.
    #[inline]
    pub(crate) fn lend_head(&self, cell: u32, token: u64) -> RxBuf {
        let at = self.cell(cell).wrapping_add(HEAD_AT);
        // SAFETY: a header's length within a cell; for the rest see `lend_inline`.
        unsafe { RxBuf::new(NonNull::new_unchecked(at), size_of::<Header>(), token) }
    }

    /// Lends bytes of the bulk area to the engine.
    ///
    /// # Panics
    /// If there are none such.
    #[inline]
    pub(crate) fn lend_bulk(&self, at: u32, len: usize, token: u64) -> RxBuf {
        assert!(at as usize + len <= self.geometry.bulk as usize);
        // SAFETY: within the bulk area, as asserted; for the rest see `lend_inline`.
        unsafe { RxBuf::new(self.bulk.add(at as usize), len, token) }
    }
}

/// Asks for the cache line of an address, to be read.
#[inline(always)]
fn fetch_to_read(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

impl RingMem for RawRing {
    #[inline]
    fn control(&self, cell: u32) -> u64 {
        // SAFETY: the first eight bytes of a cell, aligned; an atomic.
        unsafe { &*self.cell(cell).cast::<AtomicU64>() }.load(Acquire)
    }
    #[inline]
    fn set_control(&self, cell: u32, word: u64) {
        // SAFETY: as above.
        unsafe { &*self.cell(cell).cast::<AtomicU64>() }.store(word, Release);
    }
    #[inline]
    fn bulk_at(&self, cell: u32) -> u32 {
        // SAFETY: the bytes behind a control word, aligned; an atomic.
        unsafe { &*self.cell(cell).add(8).cast::<AtomicU32>() }.load(Relaxed)
    }
    #[inline]
    fn set_bulk_at(&self, cell: u32, at: u32) {
        // SAFETY: as above.
        unsafe { &*self.cell(cell).add(8).cast::<AtomicU32>() }.store(at, Relaxed);
    }
    #[inline]
    fn hold(&self) -> u32 {
        self.hold_len
    }
    fn tail(&self) -> u32 {
        self.word(0).load(Acquire)
    }
    fn set_tail(&self, tail: u32) {
        self.word(0).store(tail, Release);
    }
    #[inline]
    fn watched(&self) -> bool {
        self.word(4).load(Relaxed) != 0
    }
    fn set_watched(&self, watched: bool) {
        self.word(4).store(watched.into(), Relaxed);
    }
    fn wants_space(&self) -> bool {
        self.word(2 * LINE).load(Relaxed) != 0
    }
    fn set_wants_space(&self, wants: bool) {
        self.word(2 * LINE).store(wants.into(), Relaxed);
    }
    #[inline]
    fn fence(&self) {
        fence(SeqCst);
    }
}

/// Word by word, because that is how a header has been put together a moment ago: a processor that is to load two
/// words at once, of which it has not stored each yet, waits until it has.
///
/// # Safety
/// The bytes of a header at `to` are mapped, aligned to 8, and only ever accessed as atomics or copied.
#[inline]
unsafe fn write_words(to: *mut u8, hdr: &Header) {
    let (words, _) = hdr.as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        // SAFETY: as demanded; an atomic.
        unsafe { &*to.add(8 * i).cast::<AtomicU64>() }.store(u64::from_ne_bytes(*word), Relaxed);
    }
}
