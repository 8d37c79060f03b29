//! Copying past the caches, for data that will have left them before anybody looks at it.
//!
//! An ordinary store fetches the line that it writes to, and later writes it back: twice the traffic to memory. A
//! non-temporal one writes it once.

/// As `ptr::copy_nonoverlapping`, past the caches where the processor has a way.
///
/// # Safety
/// As for that: `n` bytes readable at `src`, writable at `dst`, not overlapping.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn copy(src: *const u8, dst: *mut u8, n: usize) {
    use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    /// Bytes of a line, which is written as a whole.
    const LINE: usize = 64;

    // SAFETY: all offsets below `n`. The stores go to multiples of 16, since `head` brings `dst` to a line's start and
    // whole lines follow. They are not ordered with others, which the fence at the end makes up for before anybody
    // is told of them.
    unsafe {
        let head = dst.align_offset(LINE).min(n);
        src.copy_to_nonoverlapping(dst, head);
        let mut at = head;
        while n - at >= LINE {
            let from = src.add(at).cast::<__m128i>();
            let to = dst.add(at).cast::<__m128i>();
            let line = [
                _mm_loadu_si128(from),
                _mm_loadu_si128(from.add(1)),
                _mm_loadu_si128(from.add(2)),
                _mm_loadu_si128(from.add(3)),
            ];
            _mm_stream_si128(to, line[0]);
            _mm_stream_si128(to.add(1), line[1]);
            _mm_stream_si128(to.add(2), line[2]);
            _mm_stream_si128(to.add(3), line[3]);
            at += LINE;
        }
        src.add(at).copy_to_nonoverlapping(dst.add(at), n - at);
        _mm_sfence();
    }
}

/// As `ptr::copy_nonoverlapping`: another way is not known for this processor.
///
/// # Safety
/// As for that.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn copy(src: *const u8, dst: *mut u8, n: usize) {
    // SAFETY: as demanded.
    unsafe { src.copy_to_nonoverlapping(dst, n) };
}
