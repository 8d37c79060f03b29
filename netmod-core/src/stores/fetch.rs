//! Prefetches of cache lines that will be written.

/// Size of a cache line in bytes.
const LINE: usize = 64;

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
