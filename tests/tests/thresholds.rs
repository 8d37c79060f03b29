//! The threshold between eager and rendezvous is each VC's own.

use ch3_shim::Config;
use ch3_shim::Mode;
use netmod_tests::board::{run_job, run_job_with};
use netmod_tests::conformance::{check, other, pattern};
use netmod_tests::factory::{Shm, Tcp};

/// Cost of a header, in bytes.
const HDR: u64 = 32;

#[test]
fn one_peer_gets_rendezvous_and_the_other_eager() {
    run_job(&Tcp, 3, |dev| {
        let world = dev.world();
        if dev.rank() > 0 {
            let mut buf = [0; 1000];
            assert_eq!(dev.recv(&mut buf, 0, 1, world).expect("recv").len, 1000);
            assert_eq!(buf, [7; 1000]);
            return;
        }
        dev.set_eager_max(1, 100).expect("rank 1 exists");
        assert!(dev.set_eager_max(3, 100).is_err());
        let sends: Vec<_> = [1, 2]
            .map(|to| dev.isend_mode(vec![7; 1000].into(), to, 1, world, Mode::Standard).expect("isend"))
            .into();
        dev.wait_all(sends).expect("sends");
        let sent: Vec<_> =
            dev.report().iter().map(|r| (r.rank, r.eager_max, r.stats.tx_msgs, r.stats.tx_bytes)).collect();
        // RTS and data on the one way, a single message on the other.
        assert_eq!(sent, [(1, 100, 2, 2 * HDR + 1000), (2, 128 << 10, 1, HDR + 1000)]);
    });
}

/// A message longer than the netmod's buffer goes straight to the memory of its receive, but for
/// the part that the buffer took before the receive was known. It does so in every protocol and
/// layout.
#[test]
fn long_messages_go_straight_to_their_receives_over_tcp() {
    const LEN: usize = 4 << 20;
    let direct = run_job(&Tcp, 2, |dev| {
        let (peer, world) = (other(dev), dev.world());
        let recv = dev.irecv(vec![0; LEN], peer, 1, world).expect("irecv");
        let send = dev.isend(pattern(7, LEN), peer, 1, world).expect("isend");
        check(7, &dev.wait(recv).expect("a receive").buffer);
        dev.wait(send).expect("a send");
        dev.report()[0].stats.rx_direct
    });
    for bytes in direct {
        assert!(bytes > LEN as u64 / 2 && bytes <= LEN as u64, "{bytes} of {LEN} bytes");
    }
}

/// Both ranks exchange messages that may go eagerly. For each rank: the threshold of its VC, and
/// how many messages it has got from the peer's memory.
fn over_shared_memory(lens: [usize; 4], tune: impl Fn(&mut Config)) -> Vec<(usize, u64)> {
    run_job_with(&Shm, 2, tune, move |dev| {
        let (peer, world) = (other(dev), dev.world());
        for len in lens {
            let recv = dev.irecv(vec![0; len], peer, 1, world).expect("irecv");
            let send = dev.isend(pattern(7, len), peer, 1, world).expect("isend");
            let got = dev.wait(recv).expect("a receive");
            assert_eq!(got.status.len, len);
            check(7, &got.buffer);
            dev.wait(send).expect("a send");
        }
        (dev.report()[0].eager_max, dev.stats().one_sided)
    })
}

/// Within a node goes eagerly what has room in the netmod's ring, unless a get may be faster on
/// this machine; a user's word goes before.
#[test]
fn what_has_room_goes_eagerly_if_nobody_has_said_otherwise() {
    let (most, from) = (Config::default().eager_max, Config::default().lmt_min);
    let room = most.max(netmod_shm::room_between(2));
    let lens = [from, 100_000, most, room];
    let told = over_shared_memory(lens, |cfg| {
        // The tests' own has said something.
        let Config { device, shm, .. } = std::mem::take(cfg);
        (cfg.netmods, cfg.shm) = (device.netmods, shm);
    });
    for (sender, receiver) in [(0, 1), (1, 0)] {
        let (eager, got) = (told[sender].0, told[receiver].1);
        // The receiver has samples of its own, and may take the ring for the message that was
        // announced.
        assert!((eager, got) == (room, 0) || eager == most && got <= 1, "{told:?}");
    }
    let lens = [from - 1, from, 100_000, most];
    for (mode, eager_max) in [("auto", Some("128K")), ("null", None), ("coop", None)] {
        let told = over_shared_memory(lens, |cfg| {
            cfg.lmt = mode;
            if let Some(bytes) = eager_max {
                cfg.set("NETMOD_EAGER_MAX", bytes).expect("a size");
            }
        });
        assert_eq!(told, [(most, 0); 2], "{mode} {eager_max:?}");
    }
}
