//! Measurement of copying on this machine: within the caches, of a whole message, and by the
//! kernel.
//!
//! Each is measured once, when a choice first depends on it. The best of a few attempts counts,
//! since other load only makes them slower.

#![allow(unsafe_code)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::coop::RING;
use crate::rates::Rates;

/// Copies per measurement. The first one faults the memory in, and the caches settle during the
/// next ones.
const TRIES: usize = 4;

/// Measures with copies of `len` bytes; `None` if the kernel does not let a process read even its
/// own memory.
pub fn rates(len: usize) -> Option<Rates> {
    let from = vec![1u8; len];
    // Written, so that its pages are there.
    let mut to = vec![2u8; len];
    let copied = best(len, || timed(copy, &from, &mut to))?;
    let kernel = best(len, || timed(read_self, &from, &mut to))?;
    let cached = match len {
        ..=RING => copied,
        _ => best(RING, || timed(copy, &from[..RING], &mut to[..RING]))?,
    };
    Some(Rates { cached, copied, kernel })
}

fn copy(from: &[u8], to: &mut [u8]) -> Option<()> {
    to.copy_from_slice(black_box(from));
    black_box(to);
    Some(())
}

/// Returns the time of a copy.
fn timed(copy: impl FnOnce(&[u8], &mut [u8]) -> Option<()>, from: &[u8], to: &mut [u8]) -> Option<Duration> {
    let start = Instant::now();
    copy(from, to)?;
    Some(start.elapsed())
}

/// Returns the MB/s of the best attempt, each of which returns its time for `len` bytes.
fn best(len: usize, mut attempt: impl FnMut() -> Option<Duration>) -> Option<u32> {
    let mut least = Duration::MAX;
    for _ in 0..TRIES {
        least = least.min(attempt()?);
    }
    Some(rate(len, least))
}

/// Returns bytes per microsecond.
fn rate(bytes: usize, time: Duration) -> u32 {
    u32::try_from(bytes as u128 * 1000 / time.as_nanos().max(1)).unwrap_or(u32::MAX).max(1)
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
        let rate = best(3000, || micros.next().map(Duration::from_micros));
        assert_eq!((rate, micros.next()), (Some(3000 / 30), None));
        assert_eq!(best(3000, || None), None);
    }

    #[test]
    fn rates_are_bytes_in_a_microsecond() {
        assert_eq!(rate(262_144, Duration::from_micros(30)), 262_144 / 30);
        // A clock that stands still, or is very coarse.
        assert!(rate(1, Duration::ZERO) == 1000 && rate(1, Duration::MAX) == 1);
    }
}
