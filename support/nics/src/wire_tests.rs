//! Messages that are whole, cut off or malformed; and damaged replies.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use netmod_matching::Routes;

use super::*;
use crate::lookups::Lookups;
use crate::lookups::tests::queries;
use crate::simulated::{Delivery, Simulated};
use crate::survey::Found;

#[test]
fn what_is_written_is_read() {
    let mut bytes = Vec::new();
    request(&mut bytes, 18, libc::NLM_F_DUMP, 5, &[1, 2, 3, 4]).attribute(&mut bytes, 29, &[9; 5]).address(
        &mut bytes,
        1,
        "fd00::7".parse().unwrap(),
    );
    request(&mut bytes, 26, 0, 6, &[]);
    let all: Vec<_> = messages(&bytes).map(Result::unwrap).collect();
    let [first, second] = &all[..] else { panic!("{all:?}") };
    assert_eq!((first.kind, first.sequence, second.kind, second.sequence), (18, 5, 26, 6));
    assert_eq!(i32::from(first.flags), libc::NLM_F_REQUEST | libc::NLM_F_DUMP);
    let (fixed, rest) = first.payload.split_at(4);
    assert_eq!(fixed, [1, 2, 3, 4]);
    let read: Vec<_> = attributes(rest).collect();
    let [(29, value), (1, ip)] = read[..] else { panic!("{read:?}") };
    assert_eq!(value, [9; 5]);
    assert_eq!(address(ip), Some("fd00::7".parse().unwrap()));
}

#[test]
fn what_is_cut_ends_with_an_error() {
    let mut bytes = Vec::new();
    request(&mut bytes, 18, 0, 5, &[1, 2, 3, 4]);
    let whole = bytes.len();
    request(&mut bytes, 19, 0, 5, &[1, 2, 3, 4]);
    for cut in 0..bytes.len() {
        let read: Vec<_> = messages(&bytes[..cut]).collect();
        let ends_well = cut == 0 || cut == whole;
        assert_eq!(read.last().is_none_or(Result::is_ok), ends_well, "{cut}");
        assert_eq!(read.iter().filter(|m| m.is_ok()).count(), cut / whole, "{cut}");
    }
    assert_eq!(messages(&[0; 64]).map(|m| m.err()).collect::<Vec<_>>(), [Some(Malformed)]);
}

#[test]
fn error_numbers() {
    fn message(payload: &[u8]) -> Message<'_> {
        Message { kind: 2, flags: 0, sequence: 0, payload }
    }
    assert_eq!(message(&(-13i32).to_ne_bytes()).error(), 13);
    assert_eq!(message(&0i32.to_ne_bytes()).error(), 0);
    assert_eq!(message(&i32::MIN.to_ne_bytes()).error(), i32::MAX);
    assert_eq!(message(&[1, 2]).error(), 0);
}

#[test]
fn strings_end_at_a_zero_or_with_their_bytes() {
    assert_eq!((text(b"eth0\0x"), text(b"eth0"), text(b"")), ("eth0".into(), "eth0".into(), String::new()));
    assert_eq!(text(&[0xff, 0]), "\u{fffd}");
}

/// Random numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n
    }

    /// Damages the deliveries, in one position or several.
    fn damage(&mut self, replies: &mut VecDeque<Delivery>) {
        for _ in 0..1 + self.below(4) {
            if replies.is_empty() {
                return;
            }
            let at = self.below(replies.len());
            let what = self.below(16);
            if what == 0 {
                replies.remove(at);
                continue;
            }
            if what == 1 {
                let errors = [libc::ENOBUFS, libc::EINTR, libc::EAGAIN, libc::EPERM, libc::ENOMEM];
                replies.insert(at, Err(errors[self.below(errors.len())]));
                continue;
            }
            if what == 2 {
                let other = replies[self.below(replies.len())].clone();
                replies.insert(at, other);
                continue;
            }
            let Some(Ok(bytes)) = replies.get_mut(at) else { continue };
            if bytes.is_empty() {
                continue;
            }
            let location = self.below(bytes.len());
            match what {
                3 => bytes.truncate(location),
                4 => bytes.resize(bytes.len() + 1 + self.below(64), 0xa5),
                5..=7 => bytes[location] ^= 1 << self.below(8),
                8 | 9 => bytes[location] = [0, 1, 4, 0x7f, 0x80, 0xff][self.below(6)],
                // Lengths of attributes and messages are at even offsets.
                10 | 11 if location + 2 <= bytes.len() => {
                    let len = [0u16, 1, 3, 4, 5, 8, 0x7fff, 0xffff][self.below(8)];
                    bytes[location & !1..][..2].copy_from_slice(&len.to_ne_bytes());
                }
                12 if location + 8 <= bytes.len() => {
                    bytes.drain(location..location + 4);
                }
                13 => {
                    let copy = bytes[location..].to_vec();
                    bytes.extend_from_slice(&copy);
                }
                _ => bytes[location] = bytes[location].wrapping_add(1),
            }
        }
    }
}

/// Number of damaged replies in `cargo test`; `NETMOD_NICS_MUTATIONS` sets another.
const MUTATIONS: u64 = 4_000;

#[test]
fn damaged_replies_never_panic() {
    let rounds = std::env::var("NETMOD_NICS_MUTATIONS").map_or(MUTATIONS, |n| n.parse().expect("a number"));
    let [mut whole, mut failed, mut different] = [0u64; 3];
    let intact = Found::by(&Simulated::host()).unwrap();
    let all = queries();
    for seed in 0..rounds {
        let random = Rc::new(RefCell::new(Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)));
        let damaging = Rc::clone(&random);
        let kernel = Simulated::host().tampered(move |_, _, replies| damaging.borrow_mut().damage(replies));
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let found = Found::by(&kernel);
            let mut lookups = Lookups::by(&kernel);
            let first = seed as usize % all.len();
            let some = &all[first..(first + 4).min(all.len())];
            assert_eq!(lookups.ask(some).len(), some.len());
            found
        }));
        match outcome {
            Ok(Ok(found)) if found == intact => whole += 1,
            Ok(Ok(_)) => different += 1,
            Ok(Err(_)) => failed += 1,
            Err(_) => panic!("seed {seed} panics"),
        }
    }
    // All three outcomes occur; otherwise the damage is too small or too large.
    assert!(
        [whole, failed, different].iter().all(|n| *n * 50 > rounds),
        "{whole} {failed} {different} of {rounds}"
    );
}
