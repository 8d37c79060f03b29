//! Mutated packets: whatever a peer sends, the device does not panic, does not allocate without
//! bound, loses nothing of its own, and goes on with its other peers.

use ch3_shim::pkt::{CookieLen, Mode, Packet, ShortData};
use ch3_shim::tagmatch::Envelope;
use ch3_shim::{ANY_SOURCE, ANY_TAG, Device};
use netmod_tests::conformance::{check, pattern};
use netmod_tests::loopback::Rng;
use netmod_tests::scripted::{Script, parse};
use netmod_tests::sys::{Counting, count_from_here, counted};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Ranks of a device; all but 0 and 1 are hostile, one after the other.
const RANKS: u32 = 200;
/// The peer that behaves.
const GOOD: u32 = 1;
/// The window of a peer, and hence the most that its headers can make the device reserve: at most.
const WINDOW: i64 = 1 << 20;
/// Bytes that a hostile peer may make the device allocate besides.
const SLACK: i64 = 16 << 20;

/// Packets in a valid stream, at most; with it more than two million go to 4 × 250 devices.
const PACKETS: usize = 14;

/// A valid stream of a rank, with the ids of the device's requests that it has been told, and
/// others.
fn stream(rng: &mut Rng, rank: u32, told: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    let id = |rng: &mut Rng| match told.get(rng.below(told.len() + 1)) {
        Some(id) => *id,
        None => (rng.below(4) as u64) << 32 | rng.below(24) as u64,
    };
    for _ in 0..PACKETS {
        let env = Envelope::new(rng.below(2) as u32, rank as i32, rng.below(5) as i32);
        let len = [0, 1, 16, 17, 100, 3000][rng.below(6)];
        let pkt = match rng.below(12) {
            0 | 1 => Packet::EagerShort {
                env,
                ready: rng.below(2) == 0,
                data: ShortData::new(&[7; 16][..len.min(16)]).expect("short"),
            },
            2 | 3 => Packet::Eager {
                env,
                mode: [Mode::Standard, Mode::Sync, Mode::Ready][rng.below(3)],
                len: len as u32,
                sreq: id(rng),
                credit: rng.word() as u32,
            },
            4 => Packet::Rts {
                env,
                sync: false,
                sreq: id(rng),
                data_sz: rng.word() >> rng.below(64),
                cookie_len: CookieLen::NONE,
            },
            5 => {
                Packet::Cts { sreq: id(rng), rreq: id(rng), data_sz: len as u64, cookie_len: CookieLen::NONE }
            }
            6 => Packet::RndvData { rreq: id(rng), len: len as u64 },
            7 => Packet::EagerSyncAck { sreq: id(rng) },
            8 => Packet::CancelReq { env, sreq: id(rng) },
            9 => Packet::CancelResp { sreq: id(rng), ack: rng.below(2) == 0 },
            10 => {
                Packet::Credit { want: rng.below(2) == 0, bytes: rng.word() as u32, slots: rng.word() as u32 }
            }
            _ => Packet::Close { ack: rng.below(2) == 0 },
        };
        // A close ends most streams early; seldom is enough.
        if matches!(pkt, Packet::Close { .. }) && rng.below(4) > 0 {
            continue;
        }
        out.extend(pkt.emit());
        out.resize(out.len() + pkt.payload_len() as usize, 0x5A);
    }
    out
}

/// The data of each rendezvous that the device has asked for.
fn rendezvous_data(rng: &mut Rng, sent: &[(Packet, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (pkt, _) in sent {
        if let Packet::Cts { rreq, data_sz, .. } = *pkt {
            out.extend(Packet::RndvData { rreq, len: data_sz }.emit());
            out.resize(out.len() + data_sz.min(4096) as usize, rng.word() as u8);
        }
    }
    out
}

fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..rng.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = rng.below(bytes.len());
        match rng.below(6) {
            0 | 1 => bytes[at] ^= 1 << rng.below(8),
            2 => bytes[at] = rng.word() as u8,
            3 => bytes.truncate(at),
            4 => {
                let n = 1 + rng.below(40);
                let junk: Vec<u8> = (0..n).map(|_| rng.word() as u8).collect();
                bytes.splice(at..at, junk);
            }
            _ => {
                // A header at random, of a kind that exists.
                let mut hdr: Vec<u8> =
                    (0..32).map(|_| if rng.below(2) == 0 { rng.word() as u8 } else { 0 }).collect();
                hdr[0] = rng.below(14) as u8;
                let at = (at / 32) * 32;
                bytes.splice(at..at, hdr);
            }
        }
    }
}

/// Events of a device's job.
#[derive(Default)]
struct Tally {
    streams: u64,
    violations: u64,
    survivors: u64,
}

/// One device meets [`RANKS`] hostile peers, each for one stream, with traffic of the good one in
/// between.
fn campaign(seed: u64, tally: &mut Tally) {
    let mut rng = Rng::seeded(seed, 1);
    let (script, mut dev) = Script::device(RANKS, seed.is_multiple_of(2));
    let world = dev.world();
    let mut good = 0u64;
    for rank in 2..RANKS {
        count_from_here();
        // Own operations that the peer can get hold of: a rendezvous, a synchronous send, receives.
        let own = operations(&mut dev, rank);
        script.play(&mut dev);
        let told: Vec<u64> = parse(&script.received(rank))
            .iter()
            .filter_map(|(p, _)| match *p {
                Packet::Rts { sreq, .. } | Packet::Eager { sreq, .. } => Some(sreq),
                _ => None,
            })
            .collect();
        assert_eq!(told.len(), 2, "the device's sends have not reached the peer");
        let mut bytes = stream(&mut rng, rank, &told);
        for _ in 0..2 {
            tally.streams += 1;
            if rng.below(8) > 0 {
                mutate(&mut rng, &mut bytes);
            }
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let n = (1 + rng.below(500)).min(rest.len());
                script.send(rank, &rest[..n]);
                rest = &rest[n..];
                if rng.below(12) == 0 {
                    good_message(&script, &mut dev, &mut good);
                }
            }
            script.play(&mut dev);
            good_message(&script, &mut dev, &mut good);
            bytes = rendezvous_data(&mut rng, &parse(&script.received(rank)));
        }
        if script.is_down(rank) {
            tally.violations += 1;
        } else {
            tally.survivors += 1;
            script.die(rank);
            script.play(&mut dev);
        }
        // Everything that depended on the peer has ended.
        for req in own {
            assert!(dev.is_finished(req), "seed {seed}, rank {rank}: a request outlives its peer");
            let _ = dev.wait_raw(req);
        }
        assert_eq!(dev.ack_failures().len(), 1, "seed {seed}, rank {rank}");
        // Messages that arrived whole can be received.
        while dev.iprobe(ANY_SOURCE, ANY_TAG, world).expect("iprobe").is_some() {
            let receive = dev.irecv(vec![0; 4096], ANY_SOURCE, ANY_TAG, world).expect("irecv");
            // A message that was cut off ends in an error; that is not the point here.
            let _ = dev.wait(receive);
        }
        assert_eq!((dev.live_requests(), dev.posted_len()), (0, 0), "seed {seed}, rank {rank}");
        let peak = counted().peak;
        assert!(peak < WINDOW + SLACK, "seed {seed}, rank {rank}: {peak} bytes were allocated");
    }
    assert!(!script.is_down(GOOD), "the good peer's VC went down");
    assert_eq!(dev.report().iter().find(|v| v.rank == GOOD).map(|v| v.stats.faults), Some(0));
}

fn operations(dev: &mut Device, rank: u32) -> Vec<ch3_shim::RawReq> {
    let (to, world, large) = (rank as i32, dev.world(), dev.config().eager_max + 1);
    thread_local! {
        static DATA: netmod_tests::sys::Area = netmod_tests::sys::Area::new(vec![1; 1 << 20]);
        static ROOM: netmod_tests::sys::Area = netmod_tests::sys::Area::new(vec![1; 1 << 12]);
    }
    let run = |n: usize| netmod_core::Datatype::contiguous(n).expect("a run");
    let mut own = Vec::new();
    for (len, mode) in [(large, Mode::Standard), (100, Mode::Sync)] {
        let seg = DATA.with(|d| d.typed(0, &run(len), 1));
        own.push(dev.isend_raw(seg, to, 1, world, mode).expect("isend"));
    }
    for (i, tag) in [0, 1, ANY_TAG].into_iter().enumerate() {
        let seg = ROOM.with(|r| r.typed(i * 1000, &run(500), 1));
        own.push(dev.irecv_raw(seg, to, tag, world).expect("irecv"));
    }
    own
}

/// The good peer's next message arrives as it was sent.
fn good_message(script: &Script, dev: &mut Device, good: &mut u64) {
    *good += 1;
    let len = (*good % 700) as usize + 17;
    let own = Envelope::new(9, GOOD as i32, 3);
    let mut bytes =
        Packet::Eager { env: own, mode: Mode::Standard, len: len as u32, sreq: 0, credit: 0 }.emit().to_vec();
    bytes.extend(pattern(*good, len));
    let comm = comm_nine(dev);
    let receive = dev.irecv(vec![0; len], GOOD as i32, 3, comm).expect("irecv");
    let (a, b) = bytes.split_at(bytes.len() / 3);
    script.send(GOOD, a);
    script.send(GOOD, b);
    script.play(dev);
    let done = match dev.test(receive).expect("test") {
        Ok(done) => done,
        Err(_) => panic!("message {good} of the good peer has not arrived"),
    };
    assert_eq!(done.status.len, len);
    check(*good, &done.buffer);
}

/// The communicator whose messages are the good peer's alone.
fn comm_nine(dev: &mut Device) -> ch3_shim::Comm {
    thread_local! {
        static COMM: std::cell::Cell<Option<ch3_shim::Comm>> = const { std::cell::Cell::new(None) };
    }
    COMM.with(|c| {
        c.get().unwrap_or_else(|| {
            let world = dev.world();
            let mut comm = world;
            while comm.context() < 9 {
                comm = dev.dup(world).expect("a context");
            }
            c.set(Some(comm));
            comm
        })
    })
}

fn campaigns(seeds: std::ops::Range<u64>) {
    let mut tally = Tally::default();
    for seed in seeds {
        campaign(seed, &mut tally);
    }
    // The mutations are neither too coarse nor too fine to find anything.
    let Tally { streams, violations, survivors } = tally;
    assert!(
        violations > streams / 20 && survivors > streams / 20,
        "{violations} violations, {survivors} survivors, {streams} streams"
    );
}

/// A quarter of some millions of packets.
#[test]
fn mutated_packets_1() {
    campaigns(0..250);
}

/// Another quarter.
#[test]
fn mutated_packets_2() {
    campaigns(250..500);
}

/// Another quarter.
#[test]
fn mutated_packets_3() {
    campaigns(500..750);
}

/// The last quarter.
#[test]
fn mutated_packets_4() {
    campaigns(750..1000);
}
