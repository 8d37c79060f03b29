//! Copying out of memory that another core has written, and will write again.

use crate::copy::copy;
use crate::processor::Processor;

/// Bytes that are prefetched ahead of the copy.
const AHEAD: usize = 512;
/// Bytes that are prefetched in long copies, of which the writer is far ahead.
///
/// There it helps to prefetch more, and the destination as well.
const FAR_AHEAD: usize = 1024;
const LONG: usize = 32 << 10;
/// Size of a cache line in bytes.
const LINE: usize = 64;

/// Does the same as `ptr::copy_nonoverlapping`, for memory that another core will write again.
///
/// On AMD processors up to Zen 4 it prefetches lines for writing. A line that was only read stays
/// shared with the writer, so each core must request it before it writes again, long after both
/// have evicted it. A line that was taken exclusively is found in the shared cache.
///
/// # Safety
///
/// As for that: `n` bytes must be readable at `src` and writable at `dst`, without overlap.
#[inline]
pub unsafe fn load(src: *const u8, dst: *mut u8, n: usize) {
    // SAFETY: as demanded.
    unsafe {
        if n <= AHEAD || Processor::here() != Processor::Zen4 {
            copy(src, dst, n);
        } else if n < LONG {
            load_taken::<AHEAD, false>(src, dst, n);
        } else {
            load_taken::<FAR_AHEAD, true>(src, dst, n);
        }
    }
}

/// Does the same, `STEP` bytes at a time; with `BOTH` it also prefetches the destination.
///
/// # Safety
///
/// As for [`load`].
#[inline(never)]
pub(super) unsafe fn load_taken<const STEP: usize, const BOTH: bool>(src: *const u8, dst: *mut u8, n: usize) {
    fetch_all_to_write(src, STEP.min(n));
    let mut at = 0;
    while at < n {
        let step = STEP.min(n - at);
        let (next, len) = (at + step, STEP.min(n - at - step));
        fetch_all_to_write(src.wrapping_add(next), len);
        if BOTH {
            // The copy's own loads wait behind these prefetches.
            fetch_all_to_write(dst.wrapping_add(next), len);
        }
        // SAFETY: `at + step <= n`.
        unsafe { src.add(at).copy_to_nonoverlapping(dst.add(at), step) };
        at = next;
    }
}

/// Prefetches the cache lines of some bytes for writing. Changes nothing.
#[inline]
pub fn fetch_all_to_write(at: *const u8, len: usize) {
    for line in (0..len).step_by(LINE) {
        fetch_to_write(at.wrapping_add(line));
    }
}

/// Prefetches the cache line of an address for writing. Changes nothing.
#[inline(always)]
pub fn fetch_to_write(line: *const u8) {
    // In assembly, because the compiler's intrinsic becomes a prefetch for reading where the target
    // need not support this one. Processors without it ignore it (AMD64 Architecture Programmer's
    // Manual, volume 3, PREFETCHW).
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch affects only caches, whatever the address.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = line;
}
