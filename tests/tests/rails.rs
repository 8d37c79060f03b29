//! Large messages over several connections at once: the conformance suite, and rails that break, change and end at any
//! moment.

use ch3_shim::{Device, DeviceStats, Mode};
use netmod_tcp::TcpStats;
use netmod_tests::board::run_job_with;
use netmod_tests::conformance::{check, other, pattern};
use netmod_tests::factory::{Lmt, Rails};

fn rails(n: usize, mode: &'static str) -> Lmt<Rails> {
    Lmt { inner: Rails(n), mode }
}

netmod_tests::conformance!(put_by_two, rails(2, "put"));
netmod_tests::conformance!(put_by_five, rails(5, "put"));
netmod_tests::conformance!(auto, rails(3, "auto"));

/// Messages to and fro until both sides have put one. Both ranks call it.
fn lay(dev: &mut Device) {
    let (peer, world) = (other(dev), dev.world());
    let swap = |dev: &mut Device, data: Vec<u8>| {
        let len = data.len();
        let mine = dev.isend(data, peer, 99, world).expect("isend");
        let theirs = dev.irecv(vec![0; len], peer, 99, world).expect("irecv");
        let got = dev.wait(theirs).expect("receive").buffer;
        dev.wait(mine).expect("send");
        got
    };
    for i in 0.. {
        check(i, &swap(dev, pattern(i, 300_000)));
        let laid = dev.stats().one_sided > 0;
        if swap(dev, vec![u8::from(laid)]) == [1] && laid {
            return;
        }
    }
}

/// What a rank has seen.
#[derive(Clone, Copy, Debug)]
struct Seen {
    dev: DeviceStats,
    tcp: TcpStats,
}

fn seen(dev: &Device) -> Seen {
    Seen { dev: dev.stats(), tcp: dev.tcp_stats().expect("tcp") }
}

/// Both ranks send messages of all these lengths at once, `rounds` times; between polls `disturb` does what it likes.
fn exchange(dev: &mut Device, lens: &[usize], rounds: u64, disturb: &mut impl FnMut(&mut Device)) {
    let (peer, world, me) = (other(dev), dev.world(), dev.rank() as u64);
    for round in 0..rounds {
        let seed = |rank: u64, tag: usize| rank << 32 | round << 16 | tag as u64;
        let recvs: Vec<_> = lens
            .iter()
            .enumerate()
            .map(|(tag, len)| dev.irecv(vec![0; len + 1], peer, tag as i32, world).expect("irecv"))
            .collect();
        let mut sends: Vec<_> = lens
            .iter()
            .enumerate()
            .map(|(tag, len)| {
                let data = pattern(seed(me, tag), *len);
                dev.isend_mode(data.into(), peer, tag as i32, world, Mode::Sync).expect("isend")
            })
            .collect();
        while let Some(send) = sends.pop() {
            let mut send = Some(send);
            while let Some(s) = send.take() {
                disturb(dev);
                match dev.test(s).expect("send") {
                    Ok(_) => {}
                    Err(s) => send = Some(s),
                }
            }
        }
        for (tag, (req, len)) in recvs.into_iter().zip(lens).enumerate() {
            let done = dev.wait(req).expect("receive");
            assert_eq!(done.status.len, *len);
            check(seed(peer as u64, tag), &done.buffer[..*len]);
        }
    }
}

const LENS: [usize; 9] = [25_000, 65_535, 65_537, 262_143, 262_145, 300_001, 1 << 20, (3 << 20) + 1, 8 << 20];

#[test]
fn every_message_is_put_by_rails() {
    for n in [2, 3, 8] {
        let all = run_job_with(
            &rails(n, "put"),
            2,
            |_| {},
            |dev| {
                lay(dev);
                let before = seen(dev);
                exchange(dev, &LENS, 2, &mut |_| {});
                (before, seen(dev))
            },
        );
        for (before, after) in all {
            assert_eq!(after.dev.one_sided - before.dev.one_sided, 18, "{before:?} {after:?}");
            let bytes = 2 * LENS.iter().sum::<usize>() as u64;
            assert_eq!(after.tcp.rail_tx_bytes - before.tcp.rail_tx_bytes, bytes);
            assert_eq!((after.tcp.rail_faults, after.tcp.rail_resent), (0, 0));
            assert_eq!(after.tcp.rails, 2 * n as u64);
        }
    }
}
