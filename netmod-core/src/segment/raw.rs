//! The segments' operations on raw memory: lending, copying out, copying in.
//!
//! The copies are sound for this reason: a [`Segment`] is built only here, by a caller who takes on
//! the contract of [`crate::buf`] for every byte that it describes. Its layout never changes
//! afterwards, and its end only shrinks. So the caller vouches for each byte between position and
//! end.

#![allow(unsafe_code)]

use core::mem::MaybeUninit;
use std::sync::Arc;

use super::moves::{Copier, IN, OUT, copy};
use super::{Datatype, Layout, List, Run, Segment};
use crate::buf::{IoVec, RxBytes, SendBuf};
use crate::copy;
use crate::stores::{StoreKind, store};

/// Bytes of noncontiguous data that are gathered for non-temporal stores at once.
const GATHERED: usize = 16 << 10;

#[cfg(test)]
mod layouts;
#[cfg(test)]
mod tests;

// SAFETY: a segment is addresses and numbers, and an immutable layout that may be shared. The use
// of the addresses is governed by the contract of `crate::buf`, which does not depend on threads.
unsafe impl Send for Segment {}

// SAFETY: as for a segment.
unsafe impl Send for Run {}

impl Run {
    /// Returns all of it as one buffer; the request that gets the buffer is that of the run.
    #[inline]
    pub fn send_buf(&self) -> SendBuf {
        // SAFETY: these bytes were lent with the run, under the same contract.
        unsafe { SendBuf::new(self.base, self.len) }
    }
}

impl Datatype {
    /// Copies `count` elements at `base` out, as much as fits into `dst`; returns the number of
    /// bytes.
    ///
    /// It does the same as [`Segment::pack`] of [`Segment::typed`], without a segment.
    ///
    /// # Safety
    ///
    /// As for [`Segment::typed`], during the call.
    pub unsafe fn pack(&self, base: *mut u8, count: usize, dst: &mut [u8]) -> usize {
        let n = dst.len().min(self.size().saturating_mul(count));
        if n > 0 {
            // SAFETY: the elements are lent; `dst` has room, and is borrowed mutably.
            unsafe { self.copy::<OUT>(base, 0, dst.as_mut_ptr(), n) };
        }
        n
    }

    /// Copies `src` into `count` elements at `base`, as much as fits; returns the number of bytes.
    ///
    /// # Safety
    ///
    /// As for [`Segment::typed`], during the call.
    pub unsafe fn unpack(&self, base: *mut u8, count: usize, src: &[u8]) -> usize {
        let n = src.len().min(self.size().saturating_mul(count));
        if n > 0 {
            // SAFETY: the elements are lent for writing; with `IN` the packed side is only read.
            unsafe { self.copy::<IN>(base, 0, src.as_ptr().cast_mut(), n) };
        }
        n
    }

    /// Copies `n` bytes of an array of elements from the position on.
    ///
    /// # Safety
    ///
    /// These bytes of the array at `base` must be lent; `n > 0` bytes at `packed` must be no part
    /// of it, and readable if `DIR` is `IN`, writable if it is `OUT`.
    #[inline]
    unsafe fn copy<const DIR: bool>(&self, base: *mut u8, pos: usize, packed: *mut u8, n: usize) {
        // SAFETY: as demanded.
        let mut v = unsafe { Copier::<DIR>::new(base, packed, n) };
        let _ = self.walk(pos, &mut v);
    }
}

impl Segment {
    /// Creates a segment of `len` bytes at `base`. A null base means no data.
    ///
    /// # Safety
    ///
    /// The contract of [`crate::buf`] must hold for these bytes until the request that gets the
    /// segment is finished; without a request, as long as the segment is used.
    #[inline]
    pub const unsafe fn contig(base: *mut u8, len: usize) -> Segment {
        if base.is_null() {
            return Segment::empty();
        }
        Segment { base, pos: 0, end: len, layout: Layout::Contig }
    }

    /// Creates a segment of `count` elements of a datatype at `base`, each the datatype's extent
    /// after the one before.
    ///
    /// It allocates nothing, and is the same as [`Segment::contig`] if the data is contiguous.
    ///
    /// # Safety
    ///
    /// [`Datatype::span`] of `count` must not be an error, and the contract of [`crate::buf`] must
    /// hold as for [`Segment::contig`] for every byte that the elements describe. Gaps are not
    /// accessed and need not be memory. Data to be received should not describe a byte twice; if it
    /// does, the value that stays is unspecified.
    #[inline]
    pub unsafe fn typed(base: *mut u8, ty: &Arc<Datatype>, count: usize) -> Segment {
        let end = ty.size().saturating_mul(count).min(isize::MAX as usize);
        if end == 0 {
            return Segment::empty();
        }
        match ty.as_run(count) {
            Some(off) => Segment { base: base.wrapping_offset(off), pos: 0, end, layout: Layout::Contig },
            None => Segment { base, pos: 0, end, layout: Layout::Typed(Arc::clone(ty)) },
        }
    }

    /// Creates a segment of pieces of memory at absolute addresses, in this order.
    ///
    /// Pieces beyond a total of `isize::MAX` bytes are left out; no set of distinct pieces reaches
    /// that.
    ///
    /// # Safety
    ///
    /// The contract of [`crate::buf`] must hold as for [`Segment::contig`] for every piece.
    pub unsafe fn iovecs(mut list: Vec<IoVec>) -> Segment {
        let mut end = 0usize;
        let mut ends = Vec::with_capacity(list.len());
        list.retain(|iov| {
            let sum = end.checked_add(iov.len).filter(|&sum| sum <= isize::MAX as usize);
            let keep = iov.len > 0 && sum.is_some();
            if let (true, Some(sum)) = (keep, sum) {
                end = sum;
                ends.push(sum);
            }
            keep
        });
        match list[..] {
            [] => Segment::empty(),
            [one] => Segment { base: one.base, pos: 0, end, layout: Layout::Contig },
            _ => Segment {
                base: IoVec::EMPTY.base,
                pos: 0,
                end,
                layout: Layout::List(Box::new(List { iov: list, ends })),
            },
        }
    }

    /// Returns the remaining data as one buffer, if it is contiguous.
    ///
    /// The request that gets the buffer is that of the segment.
    #[inline]
    pub fn send_buf(&self) -> Option<SendBuf> {
        let (ptr, len) = self.as_contig()?;
        // SAFETY: these bytes were lent with the segment, under the same contract.
        Some(unsafe { SendBuf::new(ptr, len) })
    }

    /// Copies data out, as much as fits into `dst` or remains, and advances; returns the number of
    /// bytes.
    #[inline]
    pub fn pack(&mut self, dst: &mut [u8]) -> usize {
        let n = dst.len().min(self.remaining());
        // SAFETY: `dst` has room for `n` bytes, no more than remain. It is borrowed mutably while
        // nobody writes to the memory of a send, so they do not overlap.
        unsafe { self.copy_out(dst.as_mut_ptr(), n) };
        n
    }

    /// Does the same as [`Segment::pack`], into memory that other processes can see, and that is
    /// therefore never a slice.
    ///
    /// The stores there are of the given kind.
    ///
    /// # Safety
    ///
    /// `room` bytes at `dst` must be writable and no part of the segment.
    #[inline]
    pub unsafe fn pack_raw(&mut self, dst: *mut u8, room: usize, kind: StoreKind) -> usize {
        let n = room.min(self.remaining());
        match (kind, &self.layout) {
            // SAFETY: `n` is at most what remains, and `dst` has room for it by this function's
            // contract.
            (StoreKind::Cached, _) => unsafe { self.copy_out(dst, n) },
            (StoreKind::NonTemporal, Layout::Contig) => {
                // SAFETY: `pos + n <= end` bytes at `base` are lent; `dst` as above.
                unsafe { store(self.base.wrapping_add(self.pos), dst, n, kind) };
                self.pos += n;
            }
            // SAFETY: as above.
            (StoreKind::NonTemporal, _) => unsafe { self.gather_out(dst, n) },
        }
        n
    }

    /// Copies noncontiguous data out with non-temporal stores, and advances.
    ///
    /// These want whole lines: the data is gathered in the caches first.
    ///
    /// # Safety
    ///
    /// As for [`Segment::copy_out`].
    unsafe fn gather_out(&mut self, dst: *mut u8, n: usize) {
        let mut near = [const { MaybeUninit::<u8>::uninit() }; GATHERED];
        let mut done = 0;
        while done < n {
            let len = GATHERED.min(n - done);
            // SAFETY: `near` has room for `len` bytes, and they are initialised then. `dst` has
            // room for `n` by this function's contract.
            unsafe {
                self.copy_out(near.as_mut_ptr().cast(), len);
                store(near.as_ptr().cast(), dst.wrapping_add(done), len, StoreKind::NonTemporal);
            }
            done += len;
        }
    }

    /// Appends up to `max` bytes of data to `dst` and advances; returns the number of bytes.
    pub fn pack_vec(&mut self, max: usize, dst: &mut Vec<u8>) -> usize {
        let n = max.min(self.remaining());
        dst.reserve(n);
        let old = dst.len();
        // SAFETY: `reserve` made room for `n` bytes after `old`; for the rest see `pack`. The copy
        // initialises them, so the new length is true.
        unsafe {
            self.copy_out(dst.as_mut_ptr().add(old), n);
            dst.set_len(old + n);
        }
        n
    }

    /// Copies received bytes in, as many as there are or as remain, and advances; returns the
    /// number of bytes.
    #[inline]
    pub fn unpack(&mut self, src: RxBytes<'_>) -> usize {
        let n = src.len().min(self.remaining());
        // SAFETY: `src` has `n` readable bytes, no more than remain. It does not overlap the memory
        // of a receive, which nobody else may access.
        unsafe { self.copy_in(src.as_ptr(), n) };
        n
    }

    /// Does the same as [`Segment::unpack`] with non-temporal stores if the segment is contiguous.
    ///
    /// It is for a part of a message that is too long for the caches anyway. Any thread that may
    /// see that the bytes are there sees the bytes.
    pub fn unpack_nontemporal(&mut self, src: RxBytes<'_>) -> usize {
        if !matches!(self.layout, Layout::Contig) {
            return self.unpack(src);
        }
        let n = src.len().min(self.remaining());
        // SAFETY: as for `unpack`: `pos + n <= end` bytes at `base` are lent.
        unsafe { store(src.as_ptr(), self.base.wrapping_add(self.pos), n, StoreKind::NonTemporal) };
        self.pos += n;
        n
    }

    /// Copies data out and advances.
    ///
    /// # Safety
    ///
    /// `n` must be at most what remains; `n` bytes at `dst` must be writable and no part of the
    /// segment.
    #[inline]
    unsafe fn copy_out(&mut self, dst: *mut u8, n: usize) {
        if matches!(self.layout, Layout::Contig) {
            // SAFETY: `pos + n <= end` bytes at `base` are lent; `dst` by this function's contract.
            unsafe { copy::copy(self.base.wrapping_add(self.pos), dst, n) };
        } else {
            // SAFETY: as demanded.
            unsafe { self.copy_scattered::<OUT>(dst, n) };
        }
        self.pos += n;
    }

    /// Copies data in and advances.
    ///
    /// # Safety
    ///
    /// `n` must be at most what remains; `n` bytes at `src` must be readable and no part of the
    /// segment.
    #[inline(always)]
    unsafe fn copy_in(&mut self, src: *const u8, n: usize) {
        if matches!(self.layout, Layout::Contig) {
            // SAFETY: `pos + n <= end` bytes at `base` are lent; `src` by this function's contract.
            unsafe { copy_short(src, self.base.wrapping_add(self.pos), n) };
        } else {
            // SAFETY: as demanded; with `IN` the packed side is only read.
            unsafe { self.copy_scattered::<IN>(src.cast_mut(), n) };
        }
        self.pos += n;
    }

    /// Copies noncontiguous data.
    ///
    /// # Safety
    ///
    /// `n` must be at most what remains; `n` bytes at `packed` must be no part of the segment, and
    /// readable if `DIR` is `IN`, writable if it is `OUT`.
    unsafe fn copy_scattered<const DIR: bool>(&self, packed: *mut u8, n: usize) {
        if n == 0 {
            return;
        }
        match &self.layout {
            // SAFETY: `pos + n <= end` bytes at `base` are lent; `packed` by this function's
            // contract.
            Layout::Contig => unsafe {
                copy::<DIR>(self.base.wrapping_add(self.pos), packed, n);
            },
            // SAFETY: as demanded: `n` is at most what remains.
            Layout::Typed(ty) => unsafe { ty.copy::<DIR>(self.base, self.pos, packed, n) },
            Layout::List(list) => {
                let mut packed = packed;
                for piece in list.pieces(self.pos, n) {
                    // SAFETY: the piece is lent, and the pieces have at most `n` bytes in total.
                    unsafe { copy::<DIR>(piece.base, packed, piece.len) };
                    packed = packed.wrapping_add(piece.len);
                }
            }
        }
    }
}

/// Does the same as [`crate::copy::copy`], without a call for up to 16 bytes.
///
/// # Safety
///
/// As for that: `n` bytes must be readable at `src` and writable at `dst`, without overlap.
#[inline(always)]
unsafe fn copy_short(src: *const u8, dst: *mut u8, n: usize) {
    /// Copies by two moves, which may overlap each other.
    ///
    /// # Safety
    ///
    /// As above, with `n` from `LEN` to `2 * LEN`.
    #[inline(always)]
    unsafe fn two<const LEN: usize>(src: *const u8, dst: *mut u8, n: usize) {
        // SAFETY: the first `LEN` and the last `LEN` of at least `LEN` bytes.
        unsafe {
            let (first, last) = (src.cast::<[u8; LEN]>().read(), src.add(n - LEN).cast::<[u8; LEN]>().read());
            dst.cast::<[u8; LEN]>().write(first);
            dst.add(n - LEN).cast::<[u8; LEN]>().write(last);
        }
    }
    // SAFETY: as demanded.
    unsafe {
        match n {
            8..=16 => two::<8>(src, dst, n),
            4..=7 => two::<4>(src, dst, n),
            0 => {}
            _ => copy::copy(src, dst, n),
        }
    }
}
