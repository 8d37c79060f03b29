//! The memory of a ring in the mapped segment: what is written to it and lent from it, and the
//! words that the protocol needs.

#![allow(unsafe_code)]

use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

use netmod_core::copy::copy;
use netmod_core::processor::Processor;
use netmod_core::stores::{fetch_all_to_write, fetch_to_write, store};
use netmod_core::{Header, Request, RxBuf, Stores};

use super::Map;
use crate::ring::{CONTROL, Geometry, INLINE, LINE, MAX_PAYLOAD, RingMem, TOKEN_LINE};

/// Offset in a cell of the header of a message that continues in the bulk area: behind the words
/// that say what and where.
const HEAD_AT: usize = 16;

/// Offset of the token line in a ring's control block; the line with the fill of the payload buffer
/// follows.
const TOKEN_LINE_AT: usize = 4 * LINE;
const _: () = assert!(TOKEN_LINE_AT + 2 * LINE <= CONTROL);
/// Offset there of the open piece's level: in the producer's line.
const LEVEL_AT: usize = 2 * LINE + 8;

/// The memory of one ring.
#[derive(Debug)]
pub(crate) struct RawRing {
    /// `geometry.bytes()` bytes, aligned to a line, of which the mapping below is kept.
    base: NonNull<u8>,
    /// The bulk area.
    bulk: NonNull<u8>,
    /// The token line's line: this ring's, or that of another one of the same mapping.
    token_line: NonNull<u8>,
    /// The payload buffer of that ring, of `payload_len` bytes.
    payload: NonNull<u8>,
    payload_len: u32,
    geometry: Geometry,
    _map: Arc<Map>,
}

// SAFETY: addresses within a mapping that lives as long as the value; what is there is shared
// between processes anyway.
unsafe impl Send for RawRing {}

impl RawRing {
    /// The ring that begins at `base`. `None` if it would begin at the end of all addresses.
    ///
    /// # Safety
    /// `geometry.bytes()` bytes from there on lie in `map`, aligned to a line.
    pub(super) unsafe fn new(base: NonNull<u8>, geometry: Geometry, map: Arc<Map>) -> Option<RawRing> {
        let part = |at: usize| NonNull::new(base.as_ptr().wrapping_add(at));
        let (bulk, token_line, payload) =
            (part(geometry.bulk_start())?, part(TOKEN_LINE_AT)?, part(geometry.payload_start())?);
        Some(RawRing { base, bulk, token_line, payload, payload_len: geometry.payload, geometry, _map: map })
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// From now on this ring's token_line is that of another one.
    ///
    /// # Panics
    /// If it is in another mapping.
    pub(crate) fn share_token_line(&mut self, other: &RawRing) {
        assert!(Arc::ptr_eq(&self._map, &other._map));
        (self.token_line, self.payload, self.payload_len) =
            (other.token_line, other.payload, other.payload_len);
    }

    /// The control word of the ring at this offset of its control block.
    #[inline]
    fn word(&self, offset: usize) -> &AtomicU32 {
        debug_assert!(offset < CONTROL && offset.is_multiple_of(4));
        // SAFETY: within the control block; an atomic.
        unsafe { &*self.base.as_ptr().add(offset).cast() }
    }

    /// First byte of a cell, or of the token line.
    #[inline]
    fn cell(&self, cell: u32) -> *mut u8 {
        if cell == TOKEN_LINE {
            return self.token_line.as_ptr();
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
            // SAFETY: a cell has `INLINE` bytes behind its control word, which is room for both;
            // the slices are memory of this process, and no part of the mapping is ever borrowed as
            // a slice.
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

    /// Takes the lines of bytes of the bulk area that are free, because they will soon be written:
    /// on AMD's processors by writing to them, since `prefetchw` does nothing there for a line that
    /// two processors have.
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
                // SAFETY: the first word of a line of the bulk area, aligned, as asserted; an
                // atomic.
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
        for at in (0..len).step_by(LINE) {
            fetch_to_read(first.wrapping_add(at));
        }
    }

    /// Takes the token line's line: who looks whether it has come will write to it. Changes
    /// nothing.
    #[inline]
    pub(crate) fn fetch_token_line(&self) {
        fetch_to_write(self.token_line.as_ptr());
    }

    /// Takes the lines of the first `len` bytes of the payload buffer. Changes nothing.
    #[inline]
    pub(crate) fn fetch_payload(&self, len: usize) {
        fetch_all_to_write(self.payload.as_ptr(), len.min(self.payload_len as usize));
    }

    /// Writes bytes into the payload buffer, from `at` on.
    ///
    /// # Panics
    /// If they do not fit there.
    #[inline]
    pub(crate) fn write_payload(&self, at: usize, bytes: &[u8]) {
        assert!(at <= MAX_PAYLOAD && at + bytes.len() <= self.payload_len as usize);
        // SAFETY: within the payload buffer, as asserted; for the slice see `write_inline`.
        unsafe { copy(bytes.as_ptr(), self.payload.as_ptr().add(at), bytes.len()) };
    }

    /// Lends bytes of the payload buffer to the engine.
    ///
    /// # Panics
    /// If there are none such.
    #[inline]
    pub(crate) fn lend_payload(&self, at: u32, len: usize, token: u64) -> RxBuf {
        assert!(at as usize + len <= self.payload_len as usize);
        // SAFETY: within the payload buffer, as asserted; for the rest see `lend_inline`.
        unsafe { RxBuf::new(self.payload.add(at as usize), len, token) }
    }

    /// Writes bytes into the bulk area.
    ///
    /// # Panics
    /// If they do not fit there.
    #[inline]
    pub(crate) fn write_bulk(&self, at: u32, bytes: &[u8]) {
        assert!(at as usize + bytes.len() <= self.geometry.bulk as usize);
        // SAFETY: within the bulk area, as asserted; for the slice see `write_inline`.
        unsafe { copy(bytes.as_ptr(), self.bulk.as_ptr().add(at as usize), bytes.len()) };
    }

    /// Writes a piece of bytes into the bulk area, the way that is found to be better.
    ///
    /// # Panics
    /// If they do not fit there.
    #[inline]
    pub(crate) fn write_piece(&self, at: u32, bytes: &[u8], stores: &mut Stores) {
        assert!(at as usize + bytes.len() <= self.geometry.bulk as usize);
        stores.copy(bytes.len(), |kind| {
            // SAFETY: within the bulk area, as asserted; for the slice see `write_inline`.
            unsafe { store(bytes.as_ptr(), self.bulk.as_ptr().add(at as usize), bytes.len(), kind) };
        });
    }

    /// Writes up to `room` of the next bytes of a request's data into the bulk area, the way that
    /// is found to be better; returns how many.
    ///
    /// # Panics
    /// If they do not fit there.
    pub(crate) fn pack_piece(&self, at: u32, room: usize, req: &mut Request, stores: &mut Stores) -> usize {
        assert!(at as usize + room <= self.geometry.bulk as usize);
        stores.pack(&mut req.seg, room, |seg, kind| {
            // SAFETY: within the bulk area, as asserted, which is no memory of a request's.
            unsafe { seg.pack_raw(self.bulk.as_ptr().add(at as usize), room, kind) }
        })
    }

    /// Lends the first bytes of a cell to the engine.
    #[inline]
    pub(crate) fn lend_inline(&self, cell: u32, len: usize, token: u64) -> RxBuf {
        let len = len.min(INLINE);
        let at = self.cell(cell).wrapping_add(8);
        // SAFETY: `len` bytes of a cell, in a mapping that outlives the loan: the netmod gives it
        // up only when nothing is on loan. They may change while they are read, for which `RxBuf`
        // is made.
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
    fn payload(&self) -> u32 {
        self.payload_len
    }
    #[inline]
    fn fill(&self) -> u64 {
        // SAFETY: the line behind the token line in its control block, aligned; an atomic.
        unsafe { &*self.token_line.as_ptr().add(LINE).cast::<AtomicU64>() }.load(Acquire)
    }
    #[inline]
    fn set_fill(&self, word: u64) {
        // SAFETY: as above.
        unsafe { &*self.token_line.as_ptr().add(LINE).cast::<AtomicU64>() }.store(word, Release);
    }
    fn tail(&self) -> u32 {
        self.word(0).load(Acquire)
    }
    fn set_tail(&self, tail: u32) {
        self.word(0).store(tail, Release);
    }
    #[inline]
    fn level(&self) -> u64 {
        // SAFETY: eight bytes of the control block, aligned; an atomic.
        unsafe { &*self.base.as_ptr().add(LEVEL_AT).cast::<AtomicU64>() }.load(Acquire)
    }
    #[inline]
    fn set_level(&self, word: u64) {
        // SAFETY: as above.
        unsafe { &*self.base.as_ptr().add(LEVEL_AT).cast::<AtomicU64>() }.store(word, Release);
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

/// Word by word, because that is how a header has been put together a moment ago: a processor that
/// is to load two words at once, of which it has not stored each yet, waits until it has.
///
/// # Safety
/// The bytes of a header at `to` are mapped, aligned to 8, and only ever accessed as atomics or
/// copied.
#[inline]
unsafe fn write_words(to: *mut u8, hdr: &Header) {
    let (words, _) = hdr.as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        // SAFETY: as demanded; an atomic.
        unsafe { &*to.add(8 * i).cast::<AtomicU64>() }.store(u64::from_ne_bytes(*word), Relaxed);
    }
}
