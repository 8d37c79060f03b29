//! A pool of buffers by size class, for unexpected messages.

#![allow(unsafe_code)]

use netmod_core::Segment;

/// Smallest class: 64 bytes.
const MIN_SHIFT: u32 = 6;
/// Classes from 64 bytes to 1 MiB.
const CLASSES: usize = 15;

/// A pool of free buffers, bounded in bytes.
#[derive(Debug)]
pub(crate) struct Pool {
    free: [Vec<Vec<u8>>; CLASSES],
    held: usize,
    limit: usize,
}

impl Pool {
    /// Makes a pool that keeps at most `limit` bytes of unused buffers.
    pub(crate) fn new(limit: usize) -> Pool {
        Pool { free: Default::default(), held: 0, limit }
    }

    fn class(len: usize) -> Option<usize> {
        let shift = len.max(1).next_power_of_two().trailing_zeros().max(MIN_SHIFT);
        let class = (shift - MIN_SHIFT) as usize;
        (class < CLASSES).then_some(class)
    }

    /// Returns a buffer of exactly `len` bytes, of unspecified content.
    pub(crate) fn take(&mut self, len: usize) -> Vec<u8> {
        let Some(class) = Self::class(len) else { return vec![0; len] };
        let size = 1usize << (class as u32 + MIN_SHIFT);
        match self.free[class].pop() {
            Some(mut buf) => {
                self.held -= size;
                // Its capacity is that of the class and its content initialised: no allocation.
                buf.resize(len, 0);
                buf
            }
            None => {
                let mut buf = Vec::with_capacity(size);
                buf.resize(len, 0);
                buf
            }
        }
    }

    /// Gives a buffer back.
    pub(crate) fn give(&mut self, buf: Vec<u8>) {
        let Some(class) = Self::class(buf.capacity()) else { return };
        let size = 1usize << (class as u32 + MIN_SHIFT);
        if buf.capacity() == size && self.held + size <= self.limit {
            self.held += size;
            self.free[class].push(buf);
        }
    }
}

/// Returns the segment of a buffer that the device keeps in its part of the request.
///
/// The caller stores `buf` in the side table of the request that gets the segment and touches
/// it no more before that request is finished or removed; both happen within this crate.
pub(crate) fn segment_of(buf: &mut [u8]) -> Segment {
    // SAFETY: a Vec's heap memory does not move with the Vec. The caller keeps it alive and
    // untouched as long as the request, which is the contract of `netmod_core::buf`.
    unsafe { Segment::contig(buf.as_mut_ptr(), buf.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again_and_bounded() {
        let mut p = Pool::new(1024);
        let a = p.take(100);
        assert_eq!((a.len(), a.capacity()), (100, 128));
        let at = a.as_ptr();
        p.give(a);
        let b = p.take(65);
        assert_eq!((b.len(), b.as_ptr()), (65, at));
        p.give(b);
        for _ in 0..100 {
            let many: Vec<_> = (0..20).map(|_| p.take(500)).collect();
            many.into_iter().for_each(|b| p.give(b));
        }
        assert!(p.held <= 1024);
        assert_eq!(p.take(0).len(), 0);
        assert_eq!(p.take(3 << 20).len(), 3 << 20);
    }
}
