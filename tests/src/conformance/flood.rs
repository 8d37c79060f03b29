//! Senders that outrun their receiver: what waits there is bounded, nothing hangs, and all arrives
//! in order.
//!
//! Windows are small here, so that few messages make a flood.

use ch3_shim::Config;
use ch3_shim::{ANY_SOURCE, ANY_TAG, Device, FlowReport, Mode, Request};

use super::{
    NetmodFactory, await_go, check, go, other, pattern, recv, run_devices, run_job_with, send, settle,
};

const WINDOW: u64 = 16 << 10;
const SLOTS: u64 = 4;
/// Bytes that flow control charges for a message besides its payload.
const ENTRY: u64 = 256;

fn tight(cfg: &mut Config) {
    cfg.eager_window = WINDOW as usize;
    cfg.rts_max = SLOTS as usize;
}

/// Sends without waiting for any.
fn pour(dev: &mut Device, to: i32, messages: impl Iterator<Item = (usize, i32)>) -> Vec<Request> {
    let (me, world) = (dev.rank(), dev.world());
    let one = |(i, (len, tag)): (usize, (usize, i32))| {
        // In their turn, all modes that need no receive.
        let mode = if i % 7 == 6 { Mode::Sync } else { Mode::Standard };
        dev.isend_mode(pattern(seed(me, i), len).into(), to, tag, world, mode).expect("isend")
    };
    messages.enumerate().map(one).collect()
}

fn seed(from: u32, i: usize) -> u64 {
    u64::from(from) << 32 | i as u64
}

/// Progress without receives, until nothing seems to come any more.
fn look_on(dev: &mut Device) {
    let mut quiet = 0;
    while quiet < 300 {
        quiet = if dev.progress().expect("progress") { 0 } else { quiet + 1 };
        std::thread::yield_now();
    }
}

/// No more is here than each of `peers` was granted, and what it was lent besides.
fn is_bounded(dev: &Device, peers: u64) {
    let stats = dev.stats();
    let most = peers * (WINDOW + SLOTS * ENTRY) + stats.slots_lent * ENTRY;
    assert!(stats.unexpected_memory_high <= most, "more than {most} bytes: {stats:?}");
}

fn flow(dev: &Device, rank: u32) -> FlowReport {
    dev.report().iter().find(|r| r.rank == rank).expect("a VC that was used").flow
}

/// Nobody has lost anything: what rank 0 has left and what rank 1 holds and owes is what was
/// granted and lent. Rank 0 sends nothing more before rank 1 has come here.
fn nothing_is_lost(dev: &mut Device) -> FlowReport {
    let peer = other(dev);
    if dev.rank() == 0 {
        await_go(dev, peer);
        go(dev, peer);
        await_go(dev, peer);
        flow(dev, 1)
    } else {
        go(dev, peer);
        await_go(dev, peer);
        let report = flow(dev, 0);
        go(dev, peer);
        report
    }
}

fn is_conserved(reports: &[FlowReport]) {
    let [a, b] = reports else { panic!("two ranks") };
    assert_eq!(a.window, WINDOW);
    assert_eq!((b.held, b.held_slots, a.waiting_sends), (0, 0, 0), "{a:?}\n{b:?}");
    assert_eq!(a.left + b.owed, a.window, "{a:?}\n{b:?}");
    // A loan that the last messages did not need any more, since they were cancelled or had slots
    // under way, is with the sender.
    assert_eq!(a.slots_left + b.owed_slots, a.slots + b.lent_slots, "{a:?}\n{b:?}");
}

fn one_way(f: &dyn NetmodFactory, len: impl Fn(usize) -> usize + Copy + Send + Sync + 'static, most: usize) {
    let many = f.capabilities().many.min(most);
    let reports = run_job_with(f, 2, tight, move |dev| {
        let peer = other(dev);
        if dev.rank() == 0 {
            let sends = pour(dev, peer, (0..many).map(|i| (len(i), 1)));
            assert!(flow(dev, 1).waiting_sends > 0, "that was no flood");
            look_on(dev);
            dev.wait_all(sends).expect("sends");
            assert!(dev.stats().sends_waited > 0 && dev.stats().eager_declined > 0);
        } else {
            look_on(dev);
            is_bounded(dev, 1);
            for i in 0..many {
                let got = recv(dev, len(i), peer, 1);
                assert_eq!(got.status.len, len(i), "message {i}");
                check(seed(0, i), &got.buffer);
            }
            is_bounded(dev, 1);
            assert_eq!((dev.unexpected_len(), dev.stats().unexpected_memory), (0, 0));
        }
        nothing_is_lost(dev)
    });
    is_conserved(&reports);
}

/// Messages that travel in their headers.
pub fn short_messages(f: &dyn NetmodFactory) {
    one_way(f, |_| 8, usize::MAX);
}

/// Messages of all protocols, of which the longer eager ones are a quarter of the window.
pub fn all_sizes(f: &dyn NetmodFactory) {
    one_way(f, |i| [4000, 0, 16, 17, 9000, 300, 4000][i % 7], 150);
}

/// Two ranks flood each other before either receives.
pub fn both_ways(f: &dyn NetmodFactory) {
    let many = f.capabilities().many.min(600);
    run_job_with(f, 2, tight, move |dev| {
        let peer = other(dev);
        let len = |i: usize| [8, 700, 8, 5000, 0][i % 5];
        let sends = pour(dev, peer, (0..many).map(|i| (len(i), 1)));
        look_on(dev);
        is_bounded(dev, 1);
        for i in 0..many {
            let got = recv(dev, len(i), peer, 1);
            check(seed(peer as u32, i), &got.buffer);
        }
        dev.wait_all(sends).expect("sends");
    });
}

/// Many to one, which receives with wildcards: each sender's messages in their order.
pub fn wildcards(f: &dyn NetmodFactory) {
    const RANKS: u32 = 6;
    let each = f.capabilities().many / 5;
    run_job_with(f, RANKS, tight, move |dev| {
        let len = |i: usize| [8, 90, 0, 2000][i % 4];
        if dev.rank() > 0 {
            let sends = pour(dev, 0, (0..each).map(|i| (len(i), i as i32)));
            dev.wait_all(sends).expect("sends");
            return;
        }
        look_on(dev);
        is_bounded(dev, u64::from(RANKS) - 1);
        let mut next = [0; RANKS as usize];
        for _ in 0..each * (RANKS as usize - 1) {
            let got = recv(dev, 2000, ANY_SOURCE, ANY_TAG);
            let from = got.status.source as usize;
            assert_eq!((got.status.tag, got.status.len), (next[from] as i32, len(next[from])));
            check(seed(from as u32, next[from]), &got.buffer);
            next[from] += 1;
        }
        is_bounded(dev, u64::from(RANKS) - 1);
    });
}

/// The receiver wants the last messages first: by receives, by probes, by matched probes, and with
/// receives that were posted before.
pub fn last_first(f: &dyn NetmodFactory) {
    let reports = run_job_with(f, 2, tight, |dev| {
        const N: usize = 120;
        let (peer, world) = (other(dev), dev.world());
        for way in 0..4 {
            if dev.rank() == 0 {
                await_go(dev, peer);
                let sends = pour(dev, peer, (0..N).map(|i| (8 + i, i as i32)));
                dev.wait_all(sends).expect("sends");
                continue;
            }
            let early =
                (way == 3).then(|| dev.irecv(vec![0; 500], peer, N as i32 - 1, world).expect("irecv"));
            go(dev, peer);
            if way < 3 {
                look_on(dev);
            }
            let mut order: Vec<usize> = (0..N).rev().collect();
            if let Some(early) = early {
                let done = dev.wait(early).expect("receive");
                check(seed(0, N - 1), &done.buffer[..done.status.len]);
                order.remove(0);
            }
            for i in order {
                match way {
                    1 => assert_eq!(dev.probe(peer, i as i32, world).expect("probe").len, 8 + i),
                    2 => {
                        let msg = dev.mprobe(ANY_SOURCE, i as i32, world).expect("mprobe");
                        let mut buf = vec![0; 8 + i];
                        dev.mrecv(&mut buf, msg).expect("mrecv");
                        check(seed(0, i), &buf);
                        continue;
                    }
                    _ => {}
                }
                check(seed(0, i), &recv(dev, 500, peer, i as i32).buffer);
            }
            assert!(dev.stats().slots_lent > 0, "way {way}: nothing was lent");
            is_bounded(dev, 1);
        }
        nothing_is_lost(dev)
    });
    is_conserved(&reports);
}

/// A barrier, and a message in another communicator, behind a flood that is received only then.
pub fn behind_it(f: &dyn NetmodFactory) {
    run_job_with(f, 2, tight, |dev| {
        const N: usize = 150;
        let (peer, world) = (other(dev), dev.world());
        let comm = dev.dup(world).expect("a context");
        let sends = pour(dev, peer, (0..N).map(|i| (i, 1)));
        dev.barrier(world).expect("barrier");
        let last = dev.isend(vec![7; 5000], peer, 1, comm).expect("isend");
        let got = dev.irecv(vec![0; 5000], peer, 1, comm).expect("irecv");
        assert_eq!(dev.wait(got).expect("receive").buffer, [7; 5000]);
        for i in 0..N {
            check(seed(peer as u32, i), &recv(dev, i, peer, 1).buffer);
        }
        dev.wait(last).expect("send");
        dev.wait_all(sends).expect("sends");
    });
}

/// Cancels some messages of a flood, wherever they are: at the receiver, announced, waiting.
pub fn cancelled(f: &dyn NetmodFactory) {
    let reports = run_job_with(f, 2, tight, |dev| {
        const N: usize = 140;
        let peer = other(dev);
        if dev.rank() == 0 {
            let sends = pour(dev, peer, (0..N).map(|i| ([8, 1500, 60, 10_000][i % 4], i as i32)));
            // At once, while much is still queued; from the end and from the beginning.
            let every = |n: usize| (0..N).filter(move |i| i % n == 1);
            every(3).collect::<Vec<_>>().iter().rev().for_each(|i| dev.cancel(&sends[*i]));
            look_on(dev);
            every(5).for_each(|i| dev.cancel(&sends[i]));
            // The lost ones are known when the others have been received.
            let done = dev.wait_all(sends).expect("sends");
            let lost: Vec<u8> = done.iter().map(|d| u8::from(d.status.cancelled)).collect();
            assert!(lost.iter().filter(|c| **c == 1).count() >= N / 6, "{lost:?}");
            send(dev, lost, peer, N as i32);
        } else {
            look_on(dev);
            let mut here = Vec::new();
            let lost = loop {
                let got = recv(dev, 10_000, peer, ANY_TAG);
                let i = got.status.tag as usize;
                if i == N {
                    break got.buffer;
                }
                check(seed(0, i), &got.buffer);
                here.push(i);
            };
            let want: Vec<usize> = (0..N).filter(|i| lost[*i] == 0).collect();
            assert_eq!(here, want);
            is_bounded(dev, 1);
        }
        nothing_is_lost(dev)
    });
    is_conserved(&reports);
}

/// The connection is closed while messages wait at both ends, and used again.
pub fn closed_in_between(f: &dyn NetmodFactory) {
    let reports = run_job_with(f, 2, tight, |dev| {
        const N: usize = 100;
        let peer = other(dev);
        for _ in 0..3 {
            if dev.rank() == 0 {
                await_go(dev, peer);
                let sends = pour(dev, peer, (0..N).map(|i| (i * 3, 1)));
                look_on(dev);
                dev.disconnect(peer as u32).expect("disconnect");
                dev.wait_all(sends).expect("sends");
                continue;
            }
            go(dev, peer);
            let (world, first) = (dev.world(), 0);
            assert_eq!(dev.probe(peer, 1, world).expect("probe").len, first);
            look_on(dev);
            dev.disconnect(peer as u32).expect("disconnect");
            for i in 0..N {
                let got = recv(dev, i * 3, peer, 1);
                assert_eq!(got.status.len, i * 3);
                check(seed(0, i), &got.buffer);
            }
        }
        nothing_is_lost(dev)
    });
    is_conserved(&reports);
}

/// A message to oneself is copied as long as there is room for copies; beyond that its send waits.
pub fn to_self(f: &dyn NetmodFactory) {
    let tune = |cfg: &mut Config| {
        tight(cfg);
        cfg.unexpected_max = 1 << 20;
    };
    run_job_with(f, 1, tune, |dev| {
        const N: usize = 300;
        let len = |i: usize| i % 7000;
        let (world, copies) = (dev.world(), 1 << 18);
        let sends: Vec<Request> = (0..N)
            .map(|i| dev.isend(pattern(seed(0, i), 4000 + len(i)), 0, 1, world).expect("isend"))
            .collect();
        let stats = dev.stats();
        assert!(stats.unexpected_bytes <= copies, "{stats:?}");
        assert!(stats.unexpected_bytes > copies / 2, "{stats:?}");
        for i in 0..N {
            let got = recv(dev, 12_000, if i % 2 == 0 { 0 } else { ANY_SOURCE }, 1);
            check(seed(0, i), &got.buffer);
        }
        dev.wait_all(sends).expect("sends");
        assert_eq!((dev.stats().unexpected_memory, dev.live_requests()), (0, 0));
        // All the room is there again.
        for _ in 0..3 {
            for i in 0..30 {
                send(dev, pattern(i, 4000), 0, 1);
            }
            for i in 0..30 {
                check(i, &recv(dev, 4000, 0, 1).buffer);
            }
        }
    });
}

/// The receiver dies: sends that had not even been announced fail, and nothing of it is left.
pub fn a_flooded_peer_dies(f: &dyn NetmodFactory) {
    run_devices(f, 2, tight, |mut dev| {
        let peer = other(&dev);
        if dev.rank() == 1 {
            await_go(&mut dev, peer);
            return;
        }
        go(&mut dev, peer);
        let world = dev.world();
        let (mut sends, mut failed) = (Vec::new(), 0);
        let mut fails = |e: ch3_shim::Error| {
            assert!(e.to_string().contains("rank 1"), "{e}");
            failed += 1;
        };
        for _ in 0..200 {
            // The peer may be gone before the last of them has begun.
            match dev.isend(pattern(1, 500), peer, 1, world) {
                Ok(req) => sends.push(req),
                Err(failed) => fails(failed.into()),
            }
        }
        for req in sends {
            if let Err(e) = dev.wait(req).map_err(ch3_shim::Error::from) {
                fails(e);
            }
        }
        assert!(failed > 50, "{failed} sends failed");
        settle(&mut dev);
        assert_eq!(flow(&dev, 1).waiting_sends, 0);
    });
}
