//! What copying costs on this machine: one copy within the caches, and one by the kernel.
//!
//! Both are measured once, when the choice between them first matters, in well under a millisecond. The best of a few
//! tries counts, since a busy machine only ever makes them slower.

#![allow(unsafe_code)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::choice::Rates;

/// Bytes of a copy: as many as a ring of the Cooperative mode holds, so that they stay in the caches as those do.
const SAMPLE: usize = crate::coop::RING;
/// Tries of each; the first one brings the memory.
const TRIES: usize = 4;

/// Measures; `None` where the kernel does not let a process read even its own memory.
pub fn rates() -> Option<Rates> {
    let from = vec![1u8; SAMPLE];
    let mut to = vec![0u8; SAMPLE];
    let cached = best(|| {
        timed(|| {
            to.copy_from_slice(black_box(&from));
            black_box(&mut to);
            Some(())
        })
    })?;
    let kernel = best(|| timed(|| read_self(&from, &mut to)))?;
    Some(Rates { cached, kernel })
}

fn timed(copy: impl FnOnce() -> Option<()>) -> Option<Duration> {
    let start = Instant::now();
    copy().map(|()| start.elapsed())
}

/// MB/s of the best try, each of which tells how long a copy of the sample took.
fn best(mut attempt: impl FnMut() -> Option<Duration>) -> Option<u32> {
    let mut least = Duration::MAX;
    for _ in 0..TRIES {
        least = least.min(attempt()?);
    }
    // Bytes in a microsecond.
    let rate = SAMPLE as u128 * 1000 / least.as_nanos().max(1);
    Some(u32::try_from(rate).unwrap_or(u32::MAX).max(1))
}

/// Reads this process's memory as a peer would (`process_vm_readv(2)`).
fn read_self(from: &[u8], to: &mut [u8]) -> Option<()> {
    let remote = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    // SAFETY: the kernel writes to `to` alone, which is borrowed mutably, and only reads `from`.
    let n = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    (usize::try_from(n) == Ok(from.len())).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_is_there() {
        let from: Vec<u8> = (0..9000u32).map(|i| (i % 251) as u8).collect();
        let mut to = vec![0; 9000];
        if read_self(&from, &mut to).is_some() {
            assert_eq!(from, to);
        }
    }

    #[test]
    fn rates_are_of_the_best_try() {
        let mut micros = [200, 30, 90, 40].into_iter();
        let rate = best(|| micros.next().map(Duration::from_micros));
        assert_eq!((rate, micros.next()), (Some((SAMPLE / 30) as u32), None));
        assert_eq!(best(|| None), None);
        // A clock that stands still, or is very coarse.
        assert!(best(|| Some(Duration::ZERO)).is_some_and(|r| r > 1_000_000));
    }
}
