//! Rings between two sides in one process: contents, bounds, corrupted positions, files.

#![allow(unsafe_code)]

use netmod_core::Segment;

use super::ring::{CHUNK, HUGE, RING};
use super::sys::path_of;
use super::*;

fn segment(buf: &mut [u8]) -> Segment {
    // SAFETY: the tests keep the buffers alive and untouched while their segments are used.
    unsafe { Segment::contig(buf.as_mut_ptr(), buf.len()) }
}

/// Sizes of a ring that wraps soon.
const SMALL: Sizes = Sizes { memory: 8192, window: 8192, chunk: 4096 };

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| ((i * 31) ^ (i >> 8) ^ seed) as u8).collect()
}

fn queues() -> (OutQueue<u32>, InQueue<u32>) {
    let (mut out, mut inc) = (OutQueue::default(), InQueue::default());
    out.attach(inc.open(true).expect("a ring")).expect("the same ring");
    (out, inc)
}

#[test]
fn messages_follow_each_other_through_the_ring() {
    let (mut out, mut inc) = queues();
    let lens = [1, RING - 1, RING, 3 * RING + 17, 5, CHUNK];
    let mut data: Vec<_> = lens.iter().enumerate().map(|(i, len)| pattern(*len, i)).collect();
    let mut got: Vec<_> = lens.iter().map(|len| vec![0; *len]).collect();
    let (want, mut sends, mut recvs) = (data.clone(), Vec::new(), Vec::new());
    for (i, len) in lens.iter().enumerate() {
        inc.push(i as u32, *len as u64);
        out.push(i as u32, *len as u64);
        sends.push(segment(&mut data[i]));
        recvs.push(segment(&mut got[i]));
    }
    while let Some((at, true)) = inc.front() {
        let mut n = 0;
        if let Some(from) = out.front() {
            n += out.fill(&mut sends[from as usize], 100_000).expect("honest");
        }
        n += inc.drain(Some(&mut recvs[at as usize]), 70_001).expect("honest");
        assert!(n > 0, "neither room nor data");
    }
    assert!(out.is_empty() && inc.is_empty());
    assert!(got == want);
}

#[test]
fn a_message_that_no_cache_holds_arrives_whole() {
    let (mut out, mut inc) = queues();
    let len = HUGE + 4321;
    let (mut data, mut got) = (pattern(len, 3), vec![0; len + 1]);
    let want = data.clone();
    out.push(1, len as u64);
    inc.push(1, len as u64);
    let (mut from, mut to) = (segment(&mut data), segment(&mut got[1..]));
    while !to.is_done() {
        let n = out.fill(&mut from, 100_001).expect("honest");
        assert!(n + inc.drain(Some(&mut to), 99_999).expect("honest") > 0, "neither room nor data");
    }
    assert!(got[1..] == want && got[0] == 0);
}

/// The peer has accepted two of four messages that were granted, and a part of them is through.
#[test]
fn what_the_peer_will_refuse_is_not_waited_for() {
    let (mut out, mut inc) = queues();
    let mut data = pattern(3000, 1);
    for key in 1..=4 {
        inc.push(key, 3000);
    }
    out.push(1, 3000);
    out.push(2, 3000);
    let mut seg = segment(&mut data);
    assert_eq!(out.fill(&mut seg, 2000), Ok(2000));
    assert_eq!(inc.drain(None, 500), Ok(500));
    let accepted = out.accepted();
    assert_eq!(accepted, inc.name().map(|name| (name, 6000)));
    inc.void_behind(accepted);
    assert_eq!(inc.front(), Some((1, true)));
    for left in [1500, 1000] {
        assert_eq!(inc.drain(None, 1500), Ok(left));
        out.fill(&mut seg, 1000).expect("honest");
    }
    assert!(out.fill(&mut segment(&mut pattern(3000, 2)), 3000) == Ok(3000) && out.is_empty());
    // The same is said when the ring is unmapped, and of no ring that is newer.
    out.close();
    assert_eq!(out.accepted(), accepted);
    inc.void_behind(out.accepted());
    assert_eq!(inc.drain(None, 9000), Ok(3000));
    assert!(inc.is_empty());
    let (_, mut newer) = queues();
    newer.push(5, 3000);
    newer.void_behind(out.accepted());
    assert!(newer.is_empty());
}

#[test]
fn a_message_that_nobody_wants_falls_and_the_next_one_is_whole() {
    let (mut out, mut inc) = queues();
    let (mut a, mut b, mut there) = (pattern(1000, 1), pattern(2000, 2), vec![0; 2000]);
    let want = b.clone();
    for (key, buf) in [(1, &mut a), (2, &mut b)] {
        out.push(key, buf.len() as u64);
        inc.push(key, buf.len() as u64);
        out.fill(&mut segment(buf), usize::MAX).expect("honest");
    }
    inc.forget(1);
    assert_eq!(inc.front(), Some((1, false)));
    assert_eq!(inc.drain(None, usize::MAX), Ok(1000));
    assert_eq!(inc.front(), Some((2, true)));
    assert_eq!(inc.drain(Some(&mut segment(&mut there)), usize::MAX), Ok(2000));
    assert!(there == want);
}

#[test]
fn positions_that_cannot_be_are_found() {
    let size = RING as u64;
    let mut ring = Consumer::create(false).expect("a ring");
    ring.forge(size + 1, 0);
    assert_eq!(ring.discard(1), Err(Corrupt { theirs: size + 1, ours: 0, size }));
    ring.forge(u64::MAX, 0);
    assert!(ring.prepare_to_sleep().is_err());
    ring.forge(10, 0);
    assert_eq!(ring.discard(10), Ok(10));
    ring.forge(9, 10);
    assert_eq!(ring.discard(1), Err(Corrupt { theirs: 9, ours: 10, size }));

    let ring = Consumer::create(false).expect("a ring");
    let mut end = Producer::open(ring.name()).expect("the same ring");
    let mut data = vec![1; RING];
    assert_eq!(end.fill(&mut segment(&mut data), RING), Ok(RING));
    ring.forge(size, size + 1);
    assert_eq!(end.fill(&mut segment(&mut data), 1), Err(Corrupt { theirs: size + 1, ours: size, size }));
    ring.forge(size, 5);
    assert_eq!(end.fill(&mut segment(&mut data), 5), Ok(5));
    ring.forge(size, 4);
    assert!(end.fill(&mut segment(&mut data), 1).is_err());
}

/// A ring with more memory than its window is never filled beyond the window, and its data survives
/// many rounds.
#[test]
fn a_long_ring_is_written_round_and_round() {
    let sizes = Sizes { memory: 5 * 4096, ..SMALL };
    let mut inc = Consumer::with_sizes(sizes).expect("a ring");
    let mut out = Producer::with_sizes(inc.name(), sizes).expect("the same ring");
    let mut data = pattern(1 << 20, 3);
    let mut there = vec![0; data.len()];
    let want = data.clone();
    let (mut from, mut to) = (segment(&mut data), segment(&mut there));
    let mut rng = 1u64;
    let mut most = 0;
    while !to.is_done() {
        rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let n = (rng >> 33) as usize % 6000;
        out.fill(&mut from, n).expect("honest");
        most = most.max(from.pos() - to.pos());
        inc.drain(&mut to, (rng >> 50) as usize % 6000).expect("honest");
    }
    assert!(most > 4096 && most <= SMALL.window, "{most}");
    assert!(there == want);
    assert!(Producer::open(inc.name()).is_err());
}

/// Both sides derive the window from the length of a ring.
#[test]
fn rings_of_both_lengths_are_filled_as_far_as_both_sides_mean() {
    for sizes in [Sizes::SHORT, Sizes::LONG] {
        let mut inc = Consumer::with_sizes(sizes).expect("a ring");
        let mut out = Producer::open(inc.name()).expect("the same ring");
        let mut data = pattern(2 * sizes.window + 5, 7);
        let mut there = vec![0; data.len()];
        let want = data.clone();
        let (mut from, mut to) = (segment(&mut data), segment(&mut there));
        for left in [sizes.window, sizes.window, 5] {
            assert_eq!(out.fill(&mut from, usize::MAX), Ok(left));
            assert_eq!(out.fill(&mut from, usize::MAX), Ok(0));
            assert_eq!(inc.drain(&mut to, usize::MAX), Ok(left));
        }
        assert!(there == want);
    }
}

/// The file of a ring has no name, so that it does not outlive its processes.
#[test]
fn a_ring_is_found_by_its_descriptor_until_it_is_used() {
    use std::os::unix::fs::MetadataExt;
    let mut ring = Consumer::create(false).expect("a ring");
    let meta = std::fs::metadata(path_of(ring.name())).expect("its file");
    assert_eq!((meta.nlink(), meta.mode() & 0o777), (0, 0o600));
    let mut end = Producer::open(ring.name()).expect("the same ring");
    assert!(ring.has_file());
    let mut data = [7];
    assert_eq!(end.fill(&mut segment(&mut data), 1), Ok(1));
    assert_eq!(ring.discard(1), Ok(1));
    // From now on the descriptor may be another file's.
    assert!(!ring.has_file());
    Producer::open(ring.name()).expect_err("closed");
}

#[test]
fn what_is_no_ring_is_not_mapped() {
    let ring = Consumer::with_sizes(SMALL).expect("a ring");
    let error = Producer::open(ring.name()).expect_err("of another length").to_string();
    assert!(error.contains("another length"), "{error}");
    let mut name = ring.name();
    name.0[15] ^= 1;
    let error = Producer::with_sizes(name, SMALL).expect_err("another ring").to_string();
    assert!(error.contains("the ring's number"), "{error}");
    let mut name = ring.name();
    name.0[..4].copy_from_slice(&u32::MAX.to_le_bytes());
    let error = Producer::with_sizes(name, SMALL).expect_err("no process").to_string();
    assert!(error.contains("is the peer alive"), "{error}");
    let path = path_of(ring.name());
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).expect("chmod");
    let error = Producer::with_sizes(ring.name(), SMALL).expect_err("of everybody").to_string();
    assert!(error.contains("this user alone"), "{error}");
    // Only regular files are opened: opening a pipe would have an effect.
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    let mut name = ring.name();
    name.0[4..8].copy_from_slice(&(std::os::fd::AsRawFd::as_raw_fd(&reader) as u32).to_le_bytes());
    let error = Producer::with_sizes(name, SMALL).expect_err("a pipe").to_string();
    assert!(error.contains("not a file"), "{error}");
}

#[test]
fn a_sleeping_side_is_woken_once() {
    let (mut out, mut inc) = queues();
    let mut data = pattern(10, 0);
    inc.push(1, 20);
    assert_eq!(inc.prepare_to_sleep(), Ok(true));
    out.push(1, 20);
    assert!(!inc.must_wake() && out.must_wake() && !out.must_wake());
    assert_eq!(inc.prepare_to_sleep(), Ok(true));
    out.fill(&mut segment(&mut data), 10).expect("honest");
    assert!(out.must_wake());
    assert_eq!(inc.prepare_to_sleep(), Ok(false), "something is there");
    assert!(!out.must_wake(), "and nobody sleeps");
    assert_eq!(out.prepare_to_sleep(), Ok(false), "there is room");
}
