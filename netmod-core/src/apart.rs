//! Words that are read one by one where they were written one by one.
//!
//! A core that loads what it has just stored gets it from the store, which is not in the cache yet. That works if one store covers the whole
//! load; a load across two of them waits until both have left for the cache, for some 15 cycles on x86-64 (Intel's optimization manual, "Store
//! Forwarding"; AMD's optimization guides, "Load-Store Unit"). Compilers like to copy or compare two neighbouring words by one load of 16 bytes, and
//! don't know that each was written by itself a few dozen instructions before. On the way of a message of 8 bytes such waits were a tenth of the time.

#![allow(unsafe_code)]

/// The word, in a register of its own: it is not loaded together with its neighbours.
#[inline(always)]
pub fn apart(word: u64) -> u64 {
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    return word;
    #[cfg(all(not(miri), any(target_arch = "x86_64", target_arch = "aarch64")))]
    // SAFETY: no instruction; the word is left as it is.
    unsafe {
        let same: u64;
        core::arch::asm!("/* {0} */", inlateout(reg) word => same, options(pure, nomem, nostack, preserves_flags));
        same
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_what_it_is() {
        let words = [0, 1, u64::MAX, 0x0123_4567_89ab_cdef];
        assert_eq!(words.map(apart), words);
    }
}
