//! Plain copies, without an accident of AMD's processors.
//!
//! The C library copies from 2 KiB on by `rep movsb`. On AMD processors up to Zen 4 that takes ten
//! to twenty times as long if the destination is less than 32 bytes behind the source, both seen
//! within a page of 4 KiB (glibc bug 30994, mended in 2.40 by not using the instruction). A large
//! array of malloc lies 16 bytes behind the start of a page, and windows at the start of one, so
//! programs meet it often.

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use std::sync::LazyLock;

#[cfg(target_arch = "x86_64")]
use crate::processor::Processor;

/// Least length for which the C library uses the instruction.
const LEAST: usize = 2 << 10;
/// Lengths from here on are beyond that again.
const MOST: usize = 512 << 10;
/// Size of a page in bytes, within which addresses are compared.
const PAGE: usize = 4 << 10;
/// Distances of the destination below this one are slow, but for none.
const NEAR: usize = 32;

/// Returns true if the C library's copy would be slow.
#[inline]
fn is_slow(src: *const u8, dst: *mut u8, n: usize) -> bool {
    let distance = dst.addr().wrapping_sub(src.addr()) % PAGE;
    (LEAST..MOST).contains(&n) && (1..NEAR).contains(&distance) && has_accident()
}

/// Does the same as `ptr::copy_nonoverlapping`.
///
/// # Safety
///
/// As for that: `n` bytes must be readable at `src` and writable at `dst`, without overlap.
#[inline]
pub unsafe fn copy(src: *const u8, dst: *mut u8, n: usize) {
    // SAFETY: as demanded; a processor that has the accident has AVX.
    unsafe {
        if is_slow(src, dst, n) {
            blocks(src, dst, n);
        } else {
            src.copy_to_nonoverlapping(dst, n);
        }
    }
}

/// Does the same as `ptr::copy`.
///
/// # Safety
///
/// As for that: `n` bytes must be readable at `src` and writable at `dst`.
#[inline]
pub unsafe fn copy_within(src: *const u8, dst: *mut u8, n: usize) {
    // SAFETY: as demanded; what is at least `n` apart does not overlap.
    unsafe {
        if src.addr().abs_diff(dst.addr()) >= n {
            copy(src, dst, n);
        } else {
            src.copy_to(dst, n);
        }
    }
}

/// Does the same as [`copy`], block by block: each is read as a whole before it is written, so that
/// few reads wait for a write that seems to be of the same address.
///
/// # Safety
///
/// As for [`copy`]; the processor must have AVX.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
#[inline(never)]
unsafe fn blocks(src: *const u8, dst: *mut u8, n: usize) {
    use core::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_storeu_si256};
    const BLOCK: usize = 4 * size_of::<__m256i>();

    let mut at = 0;
    // SAFETY: all offsets are below `n`; both kinds of access may be unaligned.
    unsafe {
        while n - at >= BLOCK {
            let (from, to) = (src.add(at).cast::<__m256i>(), dst.add(at).cast::<__m256i>());
            let block = [
                _mm256_loadu_si256(from),
                _mm256_loadu_si256(from.add(1)),
                _mm256_loadu_si256(from.add(2)),
                _mm256_loadu_si256(from.add(3)),
            ];
            _mm256_storeu_si256(to, block[0]);
            _mm256_storeu_si256(to.add(1), block[1]);
            _mm256_storeu_si256(to.add(2), block[2]);
            _mm256_storeu_si256(to.add(3), block[3]);
            at += BLOCK;
        }
        src.add(at).copy_to_nonoverlapping(dst.add(at), n - at);
    }
}

/// Returns true if this processor has the accident, and what [`blocks`] needs.
#[cfg(target_arch = "x86_64")]
#[inline]
fn has_accident() -> bool {
    /// Last family of AMD's with it: Zen 3 and Zen 4.
    const LAST: u32 = 0x19;
    static HERE: LazyLock<bool> = LazyLock::new(|| {
        // AMD64 Architecture Programmer's Manual, volume 3, CPUID Fn0000_0001_EAX.
        let eax = core::arch::x86_64::__cpuid(1).eax;
        let family = (eax >> 8 & 0xf) + (eax >> 20 & 0xff);
        Processor::here() == Processor::Amd && family <= LAST && std::arch::is_x86_feature_detected!("avx")
    });
    *HERE
}

/// Does the same as [`copy`]; other processors have no such accident.
///
/// # Safety
///
/// As for [`copy`].
#[cfg(not(target_arch = "x86_64"))]
unsafe fn blocks(src: *const u8, dst: *mut u8, n: usize) {
    // SAFETY: as demanded.
    unsafe { src.copy_to_nonoverlapping(dst, n) };
}

/// Returns false: no such accident is known of other processors.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn has_accident() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    type Copy = unsafe fn(*const u8, *mut u8, usize);

    /// Copies so many bytes by a function from a place in one vector to a place in another, and
    /// checks them and their neighbours.
    fn check(f: Copy, from: usize, to: usize, n: usize) {
        let src: Vec<u8> = (0..from + n).map(|i| (i * 7 + i / 251) as u8).collect();
        let mut dst = vec![0xee; to + n + 40];
        // SAFETY: both vectors are long enough.
        unsafe { f(src.as_ptr().add(from), dst.as_mut_ptr().add(to), n) };
        assert_eq!(dst[to..to + n], src[from..], "{n} bytes from {from} to {to}");
        assert!(dst[..to].iter().chain(&dst[to + n..]).all(|b| *b == 0xee), "{n} bytes from {from} to {to}");
    }

    #[test]
    fn bytes_arrive_and_their_neighbours_stay() {
        let lengths = [0, 1, 15, 16, 127, 128, 129, 255, 2047, 2048, 2049, 4096, 5000, 70_001];
        for n in lengths {
            for (from, to) in [(0, 0), (0, 1), (3, 2), (16, 32), (10, 32), (5, 36), (63, 0)] {
                check(copy, from, to, n);
                check(copy_within, from, to, n);
                if has_accident() {
                    // SAFETY: the processor has what it needs; for the rest see `check`.
                    check(|src, dst, n| unsafe { blocks(src, dst, n) }, from, to, n);
                }
            }
        }
    }

    #[test]
    fn overlapping_bytes_move() {
        for (from, to) in [(0, 16), (16, 0), (0, 0), (5000, 9000)] {
            let mut bytes: Vec<u8> = (0..20_000).map(|i| (i % 253) as u8).collect();
            let wanted = bytes[from..from + 8000].to_vec();
            // SAFETY: both ranges are within the vector.
            unsafe { copy_within(bytes.as_ptr().add(from), bytes.as_mut_ptr().add(to), 8000) };
            assert_eq!(bytes[to..to + 8000], wanted, "from {from} to {to}");
        }
    }

    #[test]
    fn a_destination_a_little_behind_the_source_is_slow() {
        let page = std::ptr::without_provenance_mut::<u8>(1 << 20);
        let is = |from: usize, to: usize, n| is_slow(page.wrapping_add(from), page.wrapping_add(to), n);
        assert_eq!(is(0, 16, 8192), has_accident());
        assert_eq!(is(4000, PAGE + 4001, 8192), has_accident(), "in another page");
        assert_eq!(is(4090, 5, 8192), has_accident(), "seen within a page");
        for (from, to, n) in [(0, 0, 8192), (16, 0, 8192), (0, 32, 8192), (0, 16, 2047), (0, 16, MOST)] {
            assert!(!is(from, to, n), "{n} bytes from {from} to {to}");
        }
    }
}
