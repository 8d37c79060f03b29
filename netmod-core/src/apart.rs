//! Word-by-word access to data that was written word by word.
//!
//! A core that loads what it has just stored gets it from the store buffer. That works if one store
//! covers the whole load. A load across two stores waits until both are in the cache, some 15
//! cycles on x86-64 (Intel's optimization manual, "Store Forwarding"; AMD's optimization guides,
//! "Load-Store Unit"). Compilers like to copy or compare two neighbouring words by one load of 16
//! bytes, and do not know that each was stored alone shortly before. The functions here prevent
//! that.

#![allow(unsafe_code)]

/// Returns the word in a register of its own, so that it is not loaded together with its
/// neighbours.
#[inline(always)]
pub fn apart(word: u64) -> u64 {
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    return word;
    #[cfg(all(not(miri), any(target_arch = "x86_64", target_arch = "aarch64")))]
    // SAFETY: there is no instruction; the word is unchanged.
    unsafe {
        let same: u64;
        core::arch::asm!("/* {0} */", inlateout(reg) word => same, options(pure, nomem, nostack, preserves_flags));
        same
    }
}

/// Returns the same address, which the compiler cannot know.
///
/// For loops with several accesses at fixed distances from one address, which else become as many
/// addresses that are each advanced.
#[inline(always)]
#[allow(clippy::pointers_in_nomem_asm_block, reason = "nothing is accessed at the address")]
pub(crate) fn opaque(address: *mut u8) -> *mut u8 {
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    return address;
    #[cfg(all(not(miri), any(target_arch = "x86_64", target_arch = "aarch64")))]
    // SAFETY: there is no instruction; the address is unchanged.
    unsafe {
        let same: *mut u8;
        core::arch::asm!("/* {0} */", inlateout(reg) address => same, options(pure, nomem, nostack, preserves_flags));
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
