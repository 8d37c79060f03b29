//! What copying costs on this machine: one copy within the caches, one of as much as a message has, and one by the kernel.
//!
//! Each is measured once, when the choice between them first matters. The best of a few parts counts, since a busy machine only ever makes
//! them slower.

#![allow(unsafe_code)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::coop::RING;
use crate::rates::Rates;

/// Parts into which what is copied is divided, of which each is timed. Where all of them together are more than the caches hold, each part has
/// left them when its turn comes, as it has in a message of that length.
const PARTS: usize = 4;

/// Measures with so many bytes, a multiple of four; `None` where the kernel does not let a process read even its own memory.
pub fn rates(len: usize) -> Option<Rates> {
    let from = vec![1u8; len];
    // Written, so that its pages are there.
    let mut to = vec![2u8; len];
    let copied = best(len / PARTS, |part| timed(copy, &from, &mut to, part))?;
    let kernel = best(len / PARTS, |part| timed(read_self, &from, &mut to, part))?;
    let cached = match len {
        ..=RING => copied,
        _ => best(RING / PARTS, |part| timed(copy, &from[..RING], &mut to[..RING], part))?,
    };
    Some(Rates { cached, copied, kernel })
}

fn copy(from: &[u8], to: &mut [u8]) -> Option<()> {
    to.copy_from_slice(black_box(from));
    black_box(to);
    Some(())
}

/// How long it takes to copy one of the parts.
fn timed(
    copy: impl FnOnce(&[u8], &mut [u8]) -> Option<()>,
    from: &[u8],
    to: &mut [u8],
    part: usize,
) -> Option<Duration> {
    let len = from.len() / PARTS;
    let at = part * len..(part + 1) * len;
    let start = Instant::now();
    copy(&from[at.clone()], &mut to[at])?;
    Some(start.elapsed())
}

/// MB/s of the best of the parts, of `len` bytes each, in a second pass: what fits into the caches is there after the first.
fn best(len: usize, mut time: impl FnMut(usize) -> Option<Duration>) -> Option<u32> {
    let mut least = Duration::MAX;
    for pass in 0..2 {
        for part in 0..PARTS {
            let took = time(part)?;
            if pass > 0 {
                least = least.min(took);
            }
        }
    }
    Some(rate(len, least))
}

/// Bytes in a microsecond.
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
    fn the_best_part_of_the_second_pass_counts() {
        let mut micros = [1, 2, 3, 4, 200, 30, 90, 40].into_iter();
        let mut parts = Vec::new();
        let rate = best(3000, |part| {
            parts.push(part);
            micros.next().map(Duration::from_micros)
        });
        assert_eq!((rate, parts), (Some(3000 / 30), vec![0, 1, 2, 3, 0, 1, 2, 3]));
        assert_eq!(best(3000, |_| None), None);
    }

    #[test]
    fn a_part_is_copied_and_nothing_else() {
        let (from, mut to) = (vec![1; 4000], vec![0; 4000]);
        assert!(timed(copy, &from, &mut to, 2).is_some());
        assert!(to[2000..3000].iter().all(|b| *b == 1));
        assert_eq!(to.iter().filter(|b| **b == 1).count(), 1000);
    }

    #[test]
    fn rates_are_bytes_in_a_microsecond() {
        assert_eq!(rate(262_144, Duration::from_micros(30)), 262_144 / 30);
        // A clock that stands still, or is very coarse.
        assert!(rate(1, Duration::ZERO) == 1000 && rate(1, Duration::MAX) == 1);
    }
}
