//! Non-temporal copies, for data that will have left the caches before it is read.
//!
//! An ordinary store fetches the line that it writes to, and later writes it back: twice the memory
//! traffic. A non-temporal one only writes it.

/// Does the same as `ptr::copy_nonoverlapping`, with non-temporal stores.
///
/// # Safety
///
/// As for that: `n` bytes must be readable at `src` and writable at `dst`, without overlap.
#[cfg(target_arch = "x86_64")]
pub(super) unsafe fn copy(src: *const u8, dst: *mut u8, n: usize) {
    use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    /// Size of a cache line in bytes, which is written as a whole.
    const LINE: usize = 64;

    // SAFETY: all offsets are below `n`. The stores go to multiples of 16, since `head` brings
    // `dst` to a line's start and whole lines follow. They are not ordered with others; the fence
    // at the end orders them before anybody is told of them.
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

/// Does the same as `ptr::copy_nonoverlapping`: non-temporal stores are not known for this
/// processor.
///
/// # Safety
///
/// As for that.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn copy(src: *const u8, dst: *mut u8, n: usize) {
    // SAFETY: as demanded.
    unsafe { src.copy_to_nonoverlapping(dst, n) };
}
