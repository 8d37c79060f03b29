//! Processors that a process may run on (`sched_setaffinity(2)`).

use super::check;
use std::io;

/// Number of bits in a word of a mask.
const BITS: usize = u64::BITS as usize;

/// Number of words, for 1024 processors as in the C library's type.
const WORDS: usize = 1024 / BITS;

/// A set of processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CpuMask([u64; WORDS]);

impl CpuMask {
    /// Returns the set of these processors; those beyond the last possible one are left out.
    pub(crate) fn new(cpus: impl IntoIterator<Item = usize>) -> CpuMask {
        let mut mask = [0; WORDS];
        for cpu in cpus {
            if let Some(word) = mask.get_mut(cpu / BITS) {
                *word |= 1 << (cpu % BITS);
            }
        }
        CpuMask(mask)
    }

    /// Returns the processors in ascending order.
    pub(crate) fn cpus(&self) -> impl Iterator<Item = usize> {
        (0..WORDS * BITS).filter(|cpu| self.0[cpu / BITS] >> (cpu % BITS) & 1 == 1)
    }

    /// Lets the calling thread run on these processors only.
    pub(super) fn apply(&self) -> io::Result<()> {
        // SAFETY: the pointer and the size describe the mask, which is only read.
        check(unsafe { libc::sched_setaffinity(0, size_of_val(&self.0), self.0.as_ptr().cast()) }).map(drop)
    }
}

/// Returns the processors that the calling thread may run on.
///
/// # Errors
///
/// Fails on machines with more processors than a mask has bits.
pub(crate) fn allowed_cpus() -> io::Result<CpuMask> {
    let mut mask = CpuMask([0; WORDS]);
    // SAFETY: the pointer and the size describe the mask, which is exclusively ours.
    check(unsafe { libc::sched_getaffinity(0, size_of_val(&mask.0), mask.0.as_mut_ptr().cast()) })?;
    Ok(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_what_it_was_made_of() {
        let mask = CpuMask::new([1023, 0, 64, 63, 1024, 64]);
        assert_eq!(mask.cpus().collect::<Vec<_>>(), [0, 63, 64, 1023]);
        let allowed = allowed_cpus().unwrap();
        assert!(allowed.cpus().count() > 0);
        allowed.apply().unwrap();
        assert_eq!(allowed_cpus().unwrap(), allowed);
    }
}
