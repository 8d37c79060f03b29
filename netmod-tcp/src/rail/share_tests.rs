//! The sharing of puts among rails: every byte goes once over rails that live, in whatever order
//! things happen.

use netmod_core::IoVec;
use netmod_core::rma::RegionId;

use super::share::{Chunk, Ended, Share};
use super::wire::Ack;

/// Numbers that look random, from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

/// Memory that nobody touches, at an address of its own.
fn memory(at: usize, len: usize) -> IoVec {
    IoVec { base: std::ptr::without_provenance_mut(at), len }
}

fn ack(chunk: &Chunk) -> Ack {
    Ack { number: chunk.number, len: chunk.mem.len as u32, taken: true }
}

fn with_rails(n: usize) -> Share {
    let mut share = Share::default();
    for i in 0..n {
        share.add_rail();
        share.up(i);
    }
    share
}

/// Sends all that rail `i` takes.
fn send_all(share: &mut Share, i: usize) -> Vec<Chunk> {
    std::iter::from_fn(|| {
        assert_eq!(share.would_take(i), share.clone().next(i).is_some());
        let chunk = share.next(i)?;
        assert!(!share.would_take(i) && share.next(i).is_none(), "in the middle of a chunk");
        share.sent(i);
        Some(chunk)
    })
    .collect()
}

#[test]
fn a_put_is_cut_without_gaps_and_ends_with_its_last_acknowledgement() {
    let mut share = with_rails(1);
    share.put(7, RegionId(1), memory(1 << 30, 5_000_001), 99, 1000);
    let (mut at, mut ended) = (0, None);
    while ended.is_none() {
        let chunks = send_all(&mut share, 0);
        assert!(!chunks.is_empty());
        for chunk in chunks {
            assert_eq!((chunk.region, chunk.at), (99, 1000 + at as u64));
            assert_eq!(chunk.mem.base.addr(), (1 << 30) + at);
            at += chunk.mem.len;
            assert!(ended.is_none());
            ended = share.acked(0, ack(&chunk)).expect("in order").0;
        }
    }
    assert_eq!((at, ended, share.is_idle()), (5_000_001, Some(Ended { op: 7, ok: true }), true));
}

/// Small puts are worth several rails, too, and no rail gets the whole.
#[test]
fn a_put_of_the_least_size_uses_all_rails() {
    for rails in 2..=8 {
        let mut share = with_rails(rails);
        share.put(7, RegionId(1), memory(0, 256 << 10), 99, 0);
        let mut taken = vec![0; rails];
        while share.is_waiting() {
            for (i, taken) in taken.iter_mut().enumerate() {
                *taken += share.next(i).map_or(0, |c| c.mem.len);
                share.sent(i);
            }
        }
        assert!(taken.iter().all(|t| *t > 0 && *t <= 160 << 10), "{taken:?}");
    }
}

/// A rail of a tenth of the speed gets about a tenth of the data.
#[test]
fn the_share_of_a_rail_follows_its_speed() {
    let mut share = with_rails(2);
    share.put(7, RegionId(1), memory(0, 64 << 20), 99, 0);
    let speed = [10.0, 1.0];
    let mut done_at = [0.0; 2];
    let mut bytes = [0; 2];
    let mut under_way: [std::collections::VecDeque<(f64, Chunk)>; 2] = Default::default();
    let mut end = 0.0;
    while !share.is_idle() {
        for i in 0..2 {
            for chunk in send_all(&mut share, i) {
                done_at[i] = f64::max(done_at[i], end) + chunk.mem.len as f64 / speed[i];
                under_way[i].push_back((done_at[i], chunk));
            }
        }
        let next = |i: usize| under_way[i].front().map_or(f64::MAX, |c| c.0);
        let i = usize::from(next(1) < next(0));
        let (at, chunk) = under_way[i].pop_front().expect("something is under way");
        end = at;
        bytes[i] += chunk.mem.len;
        share.acked(i, ack(&chunk)).expect("in order");
        let unsent = under_way[i].iter().skip(1).map(|c| c.1.mem.len).sum();
        share.adapt(i, unsent);
    }
    let best = f64::from(64 << 20) / 11.0;
    assert!(end < 1.1 * best, "{end} instead of {best}; {bytes:?}");
    assert!(bytes[1] > (64 << 20) / 15 && bytes[1] < (64 << 20) / 8, "{bytes:?}");
}

#[test]
fn windows_follow_what_rails_can_use() {
    let mut share = with_rails(1);
    share.put(7, RegionId(1), memory(0, 1 << 30), 99, 0);
    let before = share.load(0).1;
    send_all(&mut share, 0);
    assert!(share.load(0).0 <= before && share.load(0).0 > before / 2);
    share.adapt(0, 0);
    assert!(share.load(0).1 > before);
    for _ in 0..100 {
        share.adapt(0, 0);
    }
    assert_eq!(share.load(0).1, 4 << 20);
    for _ in 0..100 {
        share.adapt(0, 4 << 20);
    }
    assert_eq!(share.load(0).1, 128 << 10);
    assert!(share.next(0).is_none(), "more is under way than the window has room for");
}

#[test]
fn nobody_acknowledges_what_was_not_sent() {
    let mut share = with_rails(2);
    assert!(share.acked(0, Ack { number: 0, len: 1, taken: true }).is_err());
    share.put(7, RegionId(1), memory(0, 1 << 20), 99, 0);
    let first = share.next(0).expect("a chunk");
    assert!(share.acked(0, ack(&first)).is_err(), "in the middle of it");
    share.sent(0);
    for wrong in [
        Ack { number: 1, ..ack(&first) },
        Ack { number: u32::MAX, ..ack(&first) },
        Ack { len: first.mem.len as u32 - 1, ..ack(&first) },
    ] {
        assert!(share.acked(0, wrong).is_err(), "{wrong:?}");
    }
    assert!(share.acked(1, ack(&first)).is_err(), "sent on another rail");
    assert!(share.acked(0, ack(&first)).is_ok());
    assert!(share.acked(0, ack(&first)).is_err(), "twice");
}

#[test]
fn a_put_whose_region_is_gone_ends_once_and_stops_rails_in_the_middle_of_it() {
    let mut share = with_rails(3);
    share.put(7, RegionId(1), memory(0, 4 << 20), 99, 0);
    share.put(8, RegionId(2), memory(0, 4 << 20), 98, 0);
    let first = share.next(0).expect("a chunk");
    share.sent(0);
    assert!(share.next(1).is_some());
    let gone = Ack { taken: false, ..ack(&first) };
    assert_eq!(share.acked(0, gone), Ok((Some(Ended { op: 7, ok: false }), 0b010)));
    // The other rails go on with the next put.
    share.down(1);
    assert_eq!(share.next(0).expect("a chunk").region, 98);
    assert_eq!(share.next(2).expect("a chunk").region, 98);
    assert_eq!(share.forget_local(RegionId(2)), Some((8, 0b101)));
    assert_eq!(share.forget_local(RegionId(2)), None);
    assert!(share.is_idle() && !share.is_waiting());
}

/// Rails come and go, puts are given up, and windows change, in random order: each put ends once,
/// and with each of its bytes acknowledged at least once.
#[test]
fn nothing_is_lost_whatever_happens_to_rails() {
    for seed in 1..=100 {
        let mut random = Random(seed * 0x9e37_79b9);
        let rails = 1 + random.below(4);
        let mut share = with_rails(rails);
        let mut sent: Vec<std::collections::VecDeque<Chunk>> = vec![Default::default(); rails];
        let mut up = vec![true; rails];
        // Each put: its region, its length, and the bytes that have arrived, in units of the least
        // length.
        let mut puts: Vec<(u64, usize, Vec<bool>)> = Vec::new();
        let mut ended = 0;
        let mut given_up = 0;
        for step in 0..3000 {
            let i = random.below(rails);
            let calm = step > 2000;
            match random.below(if calm { 4 } else { 8 }) {
                0 | 1 if up[i] => {
                    if let Some(chunk) = share.next(i) {
                        if random.below(10) > 0 || calm {
                            share.sent(i);
                            sent[i].push_back(chunk);
                        } else {
                            // It breaks in the middle of it.
                            share.down(i);
                            sent[i].clear();
                            up[i] = false;
                        }
                    }
                }
                2 | 3 if up[i] => {
                    if let Some(chunk) = sent[i].pop_front() {
                        let (end, stuck) = share.acked(i, ack(&chunk)).expect("in order");
                        assert_eq!(stuck, 0);
                        if let Some((_, _, there)) = puts.iter_mut().find(|p| p.0 == chunk.region) {
                            let units = chunk.mem.len.div_ceil(4096);
                            there[chunk.at as usize / 4096..][..units].fill(true);
                        }
                        if let Some(Ended { op, ok }) = end {
                            assert!(ok);
                            let (_, _, there) = puts.iter().find(|p| p.0 == op).expect("a put");
                            assert!(there.iter().all(|t| *t), "seed {seed}: put {op} has ended too early");
                            ended += 1;
                        }
                        share.adapt(i, random.below(1 << 20));
                    }
                }
                4 if puts.len() < 20 => {
                    let region = puts.len() as u64;
                    let len = 1 + random.below(3 << 20);
                    share.put(region, RegionId(region), memory(0, len), region, 0);
                    puts.push((region, len, vec![false; len.div_ceil(4096)]));
                }
                5 if up[i] => {
                    share.down(i);
                    sent[i].clear();
                    up[i] = false;
                }
                6 if random.below(20) == 0 && !puts.is_empty() => {
                    let region = random.below(puts.len()) as u64;
                    if let Some((op, stuck)) = share.forget_local(RegionId(region)) {
                        assert_eq!((op, stuck), (region, 0));
                        given_up += 1;
                    }
                }
                _ if !up[i] => {
                    share.up(i);
                    up[i] = true;
                }
                _ => {}
            }
        }
        for (i, _) in up.iter().enumerate().filter(|(_, up)| !**up) {
            share.up(i);
        }
        for _ in 0..10_000 {
            if share.is_idle() {
                break;
            }
            for (i, sent) in sent.iter_mut().enumerate() {
                sent.extend(send_all(&mut share, i));
                if let Some(chunk) = sent.pop_front() {
                    ended += usize::from(share.acked(i, ack(&chunk)).expect("in order").0.is_some());
                }
            }
        }
        assert_eq!((ended + given_up, share.left(), share.is_idle()), (puts.len(), 0, true), "seed {seed}");
    }
}
