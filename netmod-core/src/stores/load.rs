//! Copying out of memory that another core has written, and will write again.

use super::Processor;

/// Bytes that are fetched while those before them are copied.
const AHEAD: usize = 512;
/// The same in copies from so many bytes on, of which the writer is far ahead: there it is of use to fetch more, and what is
/// written to as well.
const FAR_AHEAD: usize = 1024;
const LONG: usize = 32 << 10;
/// Bytes of a line.
const LINE: usize = 64;

/// As `ptr::copy_nonoverlapping`, out of memory that is another core's to write. On AMD's processors up to Zen 4 lines are taken as if to
/// be written: a line that was only read stays the writer's as well, and each of the two then has to ask for it before it writes to it
/// again, long after both have lost it; one that was taken it finds in the cache that both share.
///
/// # Safety
/// As for that: `n` bytes readable at `src`, writable at `dst`, not overlapping.
#[inline]
pub unsafe fn load(src: *const u8, dst: *mut u8, n: usize) {
    // SAFETY: as demanded.
    unsafe {
        if n <= AHEAD || Processor::here() != Processor::Zen4 {
            src.copy_to_nonoverlapping(dst, n);
        } else if n < LONG {
            load_taken::<AHEAD, false>(src, dst, n);
        } else {
            load_taken::<FAR_AHEAD, true>(src, dst, n);
        }
    }
}

/// The same, `STEP` bytes at a time; `BOTH`: what is written to is fetched, too.
///
/// # Safety
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
            // The copy's own fetches wait behind those.
            fetch_all_to_write(dst.wrapping_add(next), len);
        }
        // SAFETY: `at + step <= n`.
        unsafe { src.add(at).copy_to_nonoverlapping(dst.add(at), step) };
        at = next;
    }
}

/// Asks for the cache lines of some bytes, as if to write to them. Changes nothing.
#[inline]
pub fn fetch_all_to_write(at: *const u8, len: usize) {
    for line in (0..len).step_by(LINE) {
        fetch_to_write(at.wrapping_add(line));
    }
}

/// Asks for the cache line of an address, to be written. Changes nothing.
#[inline(always)]
pub fn fetch_to_write(line: *const u8) {
    // By name, because the compiler's intrinsic makes it a fetch for reading where the target need not know it;
    // processors that do not know it ignore it (AMD64 Architecture Programmer's Manual, volume 3, PREFETCHW).
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: has no effect but on caches, whatever the address.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = line;
}
