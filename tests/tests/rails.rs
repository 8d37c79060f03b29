//! Large messages over several connections at once: the conformance suite, and rails that break,
//! change and end at any moment.

use std::time::Duration;

use ch3_shim::{Break, Device, DeviceStats, Error, Mode};
use netmod_tcp::TcpReport;
use netmod_tcp::TcpStats;
use netmod_tests::board::run_job_with;
use netmod_tests::conformance::{check, other, pattern};
use netmod_tests::factory::{Lmt, Rails};
use netmod_tests::jobs::pattern::{Random, seed};

fn rails(n: usize, mode: &'static str) -> Lmt<Rails> {
    Lmt { inner: Rails(n), mode }
}

netmod_tests::conformance!(put, rails(3, "put"));

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

/// Observations of a rank.
#[derive(Clone, Copy, Debug)]
struct Seen {
    dev: DeviceStats,
    tcp: TcpStats,
}

fn seen(dev: &Device) -> Seen {
    Seen { dev: dev.stats(), tcp: dev.netmod_report::<TcpReport>().expect("tcp").stats }
}

/// Both ranks send messages of all these lengths at once, `rounds` times; between polls `disturb`
/// does what it likes.
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

/// A rank that only receives takes rails too, and says so to the sender's first offers.
#[test]
fn rails_are_made_for_data_that_goes_one_way() {
    let all = run_job_with(
        &rails(2, "auto"),
        2,
        |_| {},
        |dev| {
            let world = dev.world();
            for i in 0..40 {
                let mut data = pattern(i, 1 << 20);
                if dev.rank() == 0 {
                    dev.send(&data, 1, 1, world).expect("send");
                } else {
                    data.fill(0);
                    dev.recv(&mut data, 0, 1, world).expect("receive");
                    check(i, &data);
                }
            }
            seen(dev)
        },
    );
    assert!(all[0].dev.one_sided > 10 && all[1].dev.one_sided == 0, "{all:?}");
    assert_eq!(all[0].tcp.rail_tx_bytes, all[0].dev.one_sided << 20);
}

/// Rails of both sides break again and again while messages of all sizes move both ways.
#[test]
fn rails_break_at_any_moment() {
    for (checksum, security) in [(false, "off"), (true, "off"), (false, "auth"), (false, "encrypt")] {
        let all = run_job_with(
            &rails(3, "put"),
            2,
            |cfg| (cfg.tcp.checksum, cfg.tcp.security) = (checksum, security),
            |dev| {
                lay(dev);
                let (mut dice, mut broken) = (Random::new(seed(&[u64::from(dev.rank()), 5])), 0);
                exchange(dev, &LENS, 6, &mut |dev| {
                    if dice.below(9) == 0 && broken < 60 {
                        let peer = 1 - dev.rank();
                        broken += u64::from(
                            dev.break_connection(peer, Break::Rail(dice.below(3))).expect("a drill"),
                        );
                    }
                });
                (broken, seen(dev))
            },
        );
        let (broken, resent) = (all[0].0 + all[1].0, all[0].1.tcp.rail_resent + all[1].1.tcp.rail_resent);
        assert!(broken > 10 && resent > 0, "{all:?}");
        assert!(all.iter().all(|(_, s)| s.tcp.rail_faults == 0 && s.tcp.altered == 0), "{all:?}");
    }
}

/// The stream of the VC breaks, is resumed, and its rails go on meanwhile.
#[test]
fn a_vc_that_is_resumed_keeps_its_puts() {
    let all = run_job_with(
        &rails(2, "put"),
        2,
        |_| {},
        |dev| {
            lay(dev);
            let mut dice = Random::new(seed(&[u64::from(dev.rank()), 6]));
            let peer = 1 - dev.rank();
            exchange(dev, &LENS, 4, &mut |dev| {
                if dice.below(40) == 0 {
                    dev.break_connection(peer, Break::Reset).expect("a drill");
                }
            });
            seen(dev)
        },
    );
    assert!(all[0].tcp.resumes > 0 && all[0].dev.one_sided > 30, "{all:?}");
}

/// Without sessions a VC is lost with its connection: all that is under way ends, on both sides,
/// and the VC can be used again.
#[test]
fn a_vc_that_is_lost_ends_its_puts() {
    for polls in [0, 1, 2, 5, 20, 60] {
        run_job_with(
            &rails(2, "put"),
            2,
            |cfg| cfg.tcp.resume_timeout = Duration::ZERO,
            move |dev| {
                lay(dev);
                let (peer, world) = (other(dev), dev.world());
                let send = dev.isend(vec![1; 40 << 20], peer, 1, world).expect("isend");
                let receive = dev.irecv(vec![0; 40 << 20], peer, 1, world).expect("irecv");
                for _ in 0..polls {
                    dev.progress().expect("progress");
                }
                if dev.rank() == 0 {
                    dev.break_connection(1, Break::Reset).expect("a drill");
                }
                let done =
                    [dev.wait(send), dev.wait(receive)].map(|done| done.map_err(ch3_shim::Error::from).err());
                // Messages that were through before the break do not fail.
                for error in done.into_iter().flatten() {
                    assert!(matches!(error, Error::Peer(_)), "{error:?}");
                }
                assert_eq!(dev.live_requests(), 0);
                while dev.ack_failures().is_empty() {
                    dev.progress().expect("progress");
                }
            },
        );
    }
}

/// Each side sleeps in the middle of traffic, several times: no connection is left then, and what
/// was not acknowledged goes again.
#[test]
fn checkpoints_close_rails_and_lose_nothing() {
    let all = run_job_with(
        &rails(3, "put"),
        2,
        |_| {},
        |dev| {
            lay(dev);
            for turn in 0..8u32 {
                let (mut polls, mine) = (0, turn % 2 == dev.rank());
                exchange(dev, &[300_001, 8 << 20, 1 << 20], 1, &mut |dev| {
                    polls += 1;
                    if mine && polls == 1 + 3 * turn {
                        dev.ckpt_shutdown().expect("a checkpoint");
                        assert_eq!(dev.netmod_report::<TcpReport>().map(|r| r.connections), Some(0));
                        dev.ckpt_restart().expect("a restart");
                    }
                });
            }
            seen(dev)
        },
    );
    // Each of them has had rails several times.
    assert!(all.iter().all(|s| s.tcp.rails > 12 && s.tcp.resumes > 2), "{all:?}");
}
