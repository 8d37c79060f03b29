//! The conformance suite with large messages in the Cooperative mode, over TCP and over the netmod
//! in memory, whose deliveries cut cookies in pieces.

use ch3_shim::Config;
use ch3_shim::Mode;
use netmod_tests::board::run_job_with;
use netmod_tests::conformance::{check, other, pattern, send};
use netmod_tests::factory::{Lmt, Loopback, Tcp};
use netmod_tests::loopback::{Cut, Options};

fn tcp() -> Lmt<Tcp> {
    Lmt { inner: Tcp, mode: "coop" }
}

fn loopback(options: Options, max_bytes: usize, mode: &'static str) -> Lmt<Loopback> {
    Lmt { inner: Loopback { options, max_bytes, eager_max: 0 }, mode }
}

/// A byte at a time.
fn bytewise() -> Lmt<Loopback> {
    loopback(Options { cut: Cut::Bytes(1), capacity: 16 << 10, ..Options::default() }, 16 << 20, "coop")
}

/// Random pieces.
fn random() -> Lmt<Loopback> {
    let cut = Cut::Random { seed: 42, max: 50 };
    loopback(Options { cut, capacity: 40_000, ..Options::default() }, 16 << 20, "coop")
}

netmod_tests::conformance!(coop_over_tcp, tcp());
netmod_tests::conformance!(coop_over_loopback_bytewise, bytewise());
netmod_tests::conformance!(coop_over_loopback_random, random());

/// Both ranks send messages of all these lengths at once; how many went through rings.
fn exchange(lens: &'static [usize], tune: impl Fn(&mut Config)) -> Vec<u64> {
    run_job_with(&tcp(), 2, tune, move |dev| {
        let (peer, world) = (other(dev), dev.world());
        let seed = |rank: i32, tag: usize| (rank as u64) << 32 | tag as u64;
        let me = dev.rank() as i32;
        let recvs: Vec<_> = lens
            .iter()
            .enumerate()
            .map(|(tag, len)| dev.irecv(vec![0; len + 1], peer, tag as i32, world).expect("irecv"))
            .collect();
        let sends: Vec<_> = lens
            .iter()
            .enumerate()
            .map(|(tag, len)| {
                let data = pattern(seed(me, tag), *len);
                dev.isend_mode(data.into(), peer, tag as i32, world, Mode::Sync).expect("isend")
            })
            .collect();
        for (tag, (req, len)) in recvs.into_iter().zip(lens).enumerate() {
            let done = dev.wait(req).expect("receive");
            assert_eq!(done.status.len, *len);
            check(seed(peer, tag), &done.buffer[..*len]);
        }
        for req in sends {
            dev.wait(req).expect("send");
        }
        dev.stats().through_rings
    })
}

const LENS: [usize; 9] = [1, 17, 4095, 65_535, 65_537, 262_143, 262_145, 1 << 20, (3 << 20) + 1];

#[test]
fn every_length_goes_through_the_ring_in_both_directions_at_once() {
    let all = 2 * LENS.len() as u64;
    assert_eq!(exchange(&LENS, |cfg| cfg.eager_max = 0), [all, all]);
}

#[test]
fn without_being_asked_for_nothing_goes_through_a_ring() {
    let null = |cfg: &mut Config| {
        cfg.eager_max = 0;
        cfg.lmt = "null";
    };
    assert_eq!(exchange(&LENS, null), [0, 0]);
    let put = |cfg: &mut Config| {
        cfg.eager_max = 0;
        cfg.lmt = "put";
    };
    assert_eq!(exchange(&LENS[..4], put), [0, 0]);
    // A rank that chose a network for a peer of this node gets the network.
    let auto = |cfg: &mut Config| {
        cfg.eager_max = 0;
        cfg.lmt = "auto";
    };
    assert_eq!(exchange(&LENS, auto), [0, 0]);
}

/// Without wake-ups each sleep would last up to a second, and there are so many that the job would
/// hit its limit.
#[test]
fn who_sleeps_is_woken_when_the_ring_moves_on() {
    let sleepy = |cfg: &mut Config| cfg.set("NETMOD_SPIN", "0").expect("a number of polls");
    assert_eq!(exchange(&[64 << 20; 4], sleepy), [8, 8]);
}

/// Over a network, too: one rank leaves while the other one stays, then both at once, then they
/// send again.
#[test]
fn rings_go_for_a_checkpoint_and_come_again() {
    let gate = std::sync::Barrier::new(2);
    let through = run_job_with(
        &tcp(),
        2,
        |_| {},
        move |dev| {
            let (peer, me, world) = (other(dev), u64::from(dev.rank()), dev.world());
            let mut through = Vec::new();
            for round in 0..6 {
                let sends: Vec<_> = (0..4)
                    .map(|i| dev.isend(pattern(round + i + me, 1 << 20), peer, 1, world).expect("isend"))
                    .collect();
                let receives: Vec<_> =
                    (0..4).map(|_| dev.irecv(vec![0; 1 << 20], peer, 1, world).expect("irecv")).collect();
                for _ in 0..round * 5 {
                    dev.progress().expect("progress");
                }
                let all = round == 4;
                if all || round == me {
                    dev.ckpt_shutdown().expect("a device that lets its rings go");
                    if all {
                        gate.wait();
                    }
                    dev.ckpt_restart().expect("a device that comes back");
                }
                for (i, req) in receives.into_iter().enumerate() {
                    check(round + i as u64 + 1 - me, &dev.wait(req).expect("receive").buffer);
                }
                dev.wait_all(sends).expect("sends");
                through.push(dev.stats().through_rings);
            }
            through
        },
    );
    for of_rank in through {
        // Four each way, where nobody leaves.
        assert_eq!((of_rank[3] - of_rank[2], of_rank[5] - of_rank[4]), (8, 8), "{of_rank:?}");
    }
}

/// One more peer than a process makes rings sends at once: that one's message goes otherwise.
#[test]
fn a_process_makes_so_many_rings() {
    const RINGS: u32 = 64;
    let all = run_job_with(
        &loopback(Options::default(), 1 << 20, "coop"),
        RINGS + 2,
        |_| {},
        |dev| {
            let (me, world) = (dev.rank(), dev.world());
            if me > 0 {
                send(dev, pattern(u64::from(me), 100_000), 0, 1);
                return dev.stats().through_rings;
            }
            let receive = |rank| dev.irecv(vec![0; 100_000], rank as i32, 1, world).expect("irecv");
            let receives: Vec<_> = (1..RINGS + 2).map(receive).collect();
            for (i, req) in receives.into_iter().enumerate() {
                check(i as u64 + 1, &dev.wait(req).expect("receive").buffer);
            }
            dev.stats().through_rings
        },
    );
    assert_eq!(all[0], u64::from(RINGS));
    assert_eq!(all[1..].iter().sum::<u64>(), u64::from(RINGS), "{all:?}");
}
