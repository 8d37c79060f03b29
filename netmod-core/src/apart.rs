//! Word-by-word access to data that was written word by word.
//!
//! A core that loads what it has just stored gets it from the store buffer. That works if one store
//! covers the whole load. A load across two stores waits until both are in the cache, some 15
//! cycles on x86-64 (Intel's optimization manual, "Store Forwarding"; AMD's optimization guides,
//! "Load-Store Unit"). Compilers like to copy or compare two neighbouring words by one load of 16
//! bytes, and do not know that each was stored alone shortly before. The functions here prevent
//! that.

#![allow(unsafe_code)]

use crate::header::{HDR_LEN, Header};

/// The words of a message's header, by its halves.
pub type Halves = [[u64; 2]; 2];

/// Returns the words of a header that may just have been written word by word.
#[inline]
pub fn halves(hdr: &Header) -> Halves {
    let (words, _) = hdr.as_chunks::<8>();
    let word = |i: usize| apart(u64::from_le_bytes(words[i]));
    [[word(0), word(1)], [word(2), word(3)]]
}

/// Returns the header of these words, which may just have been written.
#[inline]
pub fn whole(halves: &Halves) -> Header {
    let mut hdr = [0; HDR_LEN];
    let (to, _) = hdr.as_chunks_mut();
    for (to, word) in to.iter_mut().zip(halves.as_flattened()) {
        *to = apart(*word).to_le_bytes();
    }
    hdr
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_what_it_is() {
        let words = [0, 1, u64::MAX, 0x0123_4567_89ab_cdef];
        assert_eq!(words.map(apart), words);
    }

    #[test]
    fn a_header_is_its_words() {
        let hdr: Header = core::array::from_fn(|i| i as u8 + 1);
        let [first, second] =
            [[0x0807_0605_0403_0201, 0x100f_0e0d_0c0b_0a09], [0x1817_1615_1413_1211, 0x201f_1e1d_1c1b_1a19]];
        assert_eq!(halves(&hdr), [first, second]);
        assert_eq!(whole(&[first, second]), hdr);
    }
}
