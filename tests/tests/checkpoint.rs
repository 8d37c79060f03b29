//! Checkpoints in the middle of traffic: the device holds no socket then, and nothing is lost or
//! doubled.

use std::collections::HashSet;
use std::sync::{Arc, Barrier, Mutex, MutexGuard, PoisonError};

use ch3_shim::Config;
use ch3_shim::{Device, Error, Request};
use netmod_core::VcErrorKind;
use netmod_tcp::TcpReport;
use netmod_tests::board::{run_devices, run_job_with};
use netmod_tests::factory::{NetmodFactory, Shm};
use netmod_tests::jobs::pattern::{Random, bytes, check, seed};
use netmod_tests::jobs::tap::Tap;

/// Around the limits of what is copied, kept, lent, announced.
const SIZES: [usize; 9] = [0, 8, 100, 2049, 16_385, 70_000, 131_073, 1 << 20, 3 << 20];

/// One test at a time: they look at the descriptors of the process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The TCP sockets of this process by inode.
fn sockets() -> HashSet<String> {
    let links = std::fs::read_dir("/proc/self/fd").expect("the list of descriptors");
    let open: HashSet<String> = links
        .flatten()
        .filter_map(|e| std::fs::read_link(e.path()).ok())
        .map(|l| l.to_string_lossy().into_owned())
        .filter(|l| l.starts_with("socket:"))
        .map(|l| l.trim_start_matches("socket:[").trim_end_matches(']').to_owned())
        .collect();
    let mut tcp = HashSet::new();
    for table in ["/proc/self/net/tcp", "/proc/self/net/tcp6"] {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        tcp.extend(text.lines().skip(1).filter_map(|l| l.split_whitespace().nth(9)).map(str::to_owned));
    }
    open.intersection(&tcp).cloned().collect()
}

fn plain(_: &mut Config) {}

fn checked(cfg: &mut Config) {
    cfg.set("NETMOD_CHECKSUM", "on").expect("a setting");
}

/// The default within a node: a connection that is lost is not made again.
fn local(cfg: &mut Config) {
    cfg.set("NETMOD_TCP_RESUME_LOCAL", "no").expect("a setting");
}

fn local_checked(cfg: &mut Config) {
    local(cfg);
    checked(cfg);
}

/// No lost connection is made again.
fn mortal(cfg: &mut Config) {
    cfg.set("NETMOD_TCP_RESUME_TIMEOUT", "0s").expect("a setting");
}

const TUNES: [fn(&mut Config); 5] = [plain, checked, local, local_checked, mortal];

/// Returns the message of rank `from` in a round.
fn plan(from: u32, round: u64) -> Vec<(u64, usize)> {
    let mut dice = Random::new(seed(&[u64::from(from), round, 77]));
    (0..12).map(|i| (seed(&[u64::from(from), round, i]), SIZES[dice.below(SIZES.len())])).collect()
}

/// Rounds of messages between all ranks; while they are under way, `pause` has the device.
fn talk(dev: &mut Device, rounds: u64, mut pause: impl FnMut(&mut Device, u64)) {
    let (world, me) = (dev.world(), dev.rank());
    let others: Vec<u32> = (0..dev.size()).filter(|r| *r != me).collect();
    for round in 0..rounds {
        let (mut receives, mut sends) = (Vec::new(), Vec::new());
        for peer in others.iter().copied() {
            for (of, len) in plan(peer, round) {
                let buffer = vec![0xE5; len + 1];
                receives.push((of, len, dev.irecv(buffer, peer as i32, 1, world).expect("a receive")));
            }
            for (of, len) in plan(me, round) {
                sends.push(dev.isend(bytes(of, len), peer as i32, 1, world).expect("a send"));
            }
        }
        for _ in 0..(round * 7) % 40 {
            dev.progress().expect("progress");
        }
        pause(dev, round);
        for (of, len, request) in receives {
            let done = dev.wait(request).expect("a message");
            assert_eq!((done.status.len, done.buffer[len]), (len, 0xE5), "rank {me}, round {round}");
            check(of, &done.buffer[..len]).expect("the right bytes");
        }
        dev.wait_all(sends).expect("the sends");
    }
}

fn suspend(dev: &mut Device) {
    dev.ckpt_shutdown().unwrap_or_else(|e| panic!("rank {}: {e}", dev.rank()));
    assert_eq!(dev.netmod_report::<TcpReport>().map_or(0, |r| r.connections), 0);
}

fn resume(dev: &mut Device) {
    dev.ckpt_restart().unwrap_or_else(|e| panic!("rank {}: {e}", dev.rank()));
}

#[test]
fn either_side_in_the_middle_of_traffic() {
    let _alone = alone();
    for tune in TUNES {
        let resumed = run_job_with(&Tap::default(), 2, tune, |dev| {
            talk(dev, 16, |dev, round| {
                if round % 2 == u64::from(dev.rank()) {
                    suspend(dev);
                    // Messages are taken meanwhile, and polls do no harm.
                    let world = dev.world();
                    let to = 1 - dev.rank() as i32;
                    let send = dev.isend(bytes(round, 5000), to, 2, world).expect("a send");
                    for _ in 0..20 {
                        dev.progress().expect("progress");
                    }
                    resume(dev);
                    dev.wait(send).expect("the send");
                } else {
                    let mut got = vec![0; 5000];
                    let from = 1 - dev.rank() as i32;
                    let world = dev.world();
                    dev.recv(&mut got, from, 2, world).expect("what was sent during the checkpoint");
                    check(round, &got).expect("the right bytes");
                }
            });
            dev.netmod_report::<TcpReport>().expect("a device over tcp").stats.resumes
        });
        assert!(resumed.iter().sum::<u64>() >= 8, "{resumed:?}");
    }
}

#[test]
fn a_vc_that_is_first_used_meanwhile_waits() {
    let _alone = alone();
    run_job_with(&Tap::default(), 2, plain, |dev| {
        let world = dev.world();
        let mut got = vec![0; 5000];
        if dev.rank() == 0 {
            suspend(dev);
            let send = dev.isend(bytes(3, 5000), 1, 2, world).expect("a send");
            for _ in 0..200 {
                dev.progress().expect("progress");
            }
            assert_eq!(dev.netmod_report::<TcpReport>().expect("a device over tcp").stats.dialled, 0);
            resume(dev);
            dev.wait(send).expect("the send");
            dev.recv(&mut got, 1, 2, world).expect("the answer");
        } else {
            dev.recv(&mut got, 0, 2, world).expect("what was sent during the checkpoint");
            dev.send(&got, 0, 2, world).expect("the answer");
        }
        check(3, &got).expect("the right bytes");
    });
}

#[test]
fn all_at_once_with_no_socket_left() {
    let _alone = alone();
    for tune in TUNES {
        let gate = Arc::new(Barrier::new(2));
        let before = sockets().len();
        run_job_with(&Tap::default(), 2, tune, move |dev| {
            talk(dev, 8, |dev, _| {
                suspend(dev);
                gate.wait();
                assert_eq!(sockets().len(), before, "a suspended device holds a socket");
                gate.wait();
                resume(dev);
            });
        });
    }
}

#[test]
fn a_peer_that_sends_while_the_other_one_is_away() {
    let _alone = alone();
    let gate = Arc::new(Barrier::new(2));
    run_job_with(&Tap::default(), 2, plain, move |dev| {
        let world = dev.world();
        dev.barrier(world).expect("a barrier");
        if dev.rank() == 0 {
            suspend(dev);
            gate.wait();
            gate.wait();
            resume(dev);
            for (of, len) in plan(1, 0) {
                let mut got = vec![0; len];
                dev.recv(&mut got, 1, 3, world).expect("a message");
                check(of, &got).expect("the right bytes");
            }
        } else {
            // The other side waits for this one to close.
            let mut sends = Vec::new();
            while dev.netmod_report::<TcpReport>().map(|r| r.connections) != Some(0) {
                dev.progress().expect("progress");
            }
            gate.wait();
            for (of, len) in plan(1, 0) {
                sends.push(dev.isend(bytes(of, len), 0, 3, world).expect("a send"));
            }
            for _ in 0..1000 {
                dev.progress().expect("nothing is wrong");
            }
            gate.wait();
            dev.wait_all(sends).expect("the sends");
        }
    });
}

/// The port is taken meanwhile: the peer learns of the new one, and finds it when the connection
/// breaks.
#[test]
fn a_restart_with_another_port() {
    let _alone = alone();
    let (tap, gate) = (Tap::default(), Arc::new(Barrier::new(2)));
    let homes = tap.clone();
    run_job_with(&tap, 2, plain, move |dev| {
        let world = dev.world();
        dev.barrier(world).expect("a barrier");
        if dev.rank() == 0 {
            suspend(dev);
            let port = homes.home(0).port();
            let taken = std::net::TcpListener::bind(("::", port)).expect("the port is free");
            resume(dev);
            dev.barrier(world).expect("a barrier");
            gate.wait();
            // Only the other side may dial: this one sees nothing before it is there.
            gate.wait();
            dev.barrier(world).expect("a barrier");
            drop(taken);
        } else {
            dev.barrier(world).expect("a barrier");
            gate.wait();
            assert!(dev.break_connection(0, ch3_shim::Break::Reset).expect("a reset"));
            gate.wait();
            dev.barrier(world).expect("a barrier");
            assert!(dev.netmod_report::<TcpReport>().is_some_and(|r| r.stats.resumes >= 2));
        }
    });
}

/// Checks that a rank whose peer does not return from its checkpoint gives it up, and says so.
fn a_peer_stays_away(factory: &dyn NetmodFactory) {
    let _alone = alone();
    let gate = Arc::new(Barrier::new(2));
    let tune = |cfg: &mut Config| cfg.set("NETMOD_CKPT_TIMEOUT", "300ms").expect("a setting");
    let errors = run_devices(factory, 2, tune, move |mut dev| {
        let world = dev.world();
        dev.barrier(world).expect("a barrier");
        if dev.rank() == 0 {
            suspend(&mut dev);
            gate.wait();
            return None;
        }
        let error = dev.recv(&mut [0; 8], 0, 1, world).expect_err("nobody comes");
        gate.wait();
        Some(error)
    });
    let error = errors.into_iter().flatten().next().expect("the error of rank 1");
    let text = error.to_string();
    assert!(matches!(&error, Error::Peer(e) if e.kind() == VcErrorKind::Lost), "{text}");
    assert!(text.contains("checkpoint") && text.contains("NETMOD_CKPT_TIMEOUT"), "{text}");
}

#[test]
fn a_peer_that_does_not_come_back_is_given_up() {
    a_peer_stays_away(&Tap::default());
}

/// The checkpoints of one side, with no traffic of its own: the connection lasts only as long as
/// one checkpoint needs.
#[test]
fn a_connection_that_is_not_resumed_otherwise_is_for_each_checkpoint() {
    let _alone = alone();
    for tune in [local, mortal] {
        let resumed = run_job_with(&Tap::default(), 2, tune, |dev| {
            let world = dev.world();
            dev.barrier(world).expect("a barrier");
            for round in 0..3 {
                if dev.rank() == 0 {
                    suspend(dev);
                    resume(dev);
                    dev.send(&bytes(round, 5000), 1, 2, world).expect("a send");
                } else {
                    let mut got = vec![0; 5000];
                    dev.recv(&mut got, 0, 2, world).expect("a message");
                    check(round, &got).expect("the right bytes");
                }
            }
            dev.netmod_report::<TcpReport>().expect("a device over tcp").stats.resumes
        });
        assert_eq!(resumed, [3, 3]);
    }
}

#[test]
fn a_restart_without_a_shutdown_is_refused() {
    let _alone = alone();
    run_job_with(&Tap::default(), 1, plain, |dev| {
        assert!(matches!(dev.ckpt_restart(), Err(Error::Netmod(_))));
        suspend(dev);
        suspend(dev);
        resume(dev);
    });
}

/// Returns the shared memory that this process holds: mappings, and descriptors.
fn shared() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the mappings of this process");
    let files = std::fs::read_dir("/proc/self/fd").expect("the list of descriptors").flatten();
    let links =
        files.filter_map(|e| std::fs::read_link(e.path()).ok()).map(|l| l.to_string_lossy().into_owned());
    let is_it = |line: &str| line.contains("/dev/shm/") || line.contains("/netmod-");
    maps.lines().filter(|l| is_it(l)).count() + links.filter(|l| is_it(l)).count()
}

/// Large messages go from memory to memory, through the rings of the netmod, through rings of their
/// own, or as the device chooses.
const LMT: [fn(&mut Config); 4] = [
    |cfg| cfg.set("NETMOD_LMT", "get").expect("a setting"),
    |cfg| cfg.set("NETMOD_LMT", "null").expect("a setting"),
    |cfg| cfg.set("NETMOD_LMT", "coop").expect("a setting"),
    plain,
];

/// Each rank leaves while the others send on, and comes back to the same memory.
#[test]
fn shared_memory_in_the_middle_of_traffic() {
    let _alone = alone();
    for (ranks, lmt) in [(2, LMT[0]), (3, LMT[0]), (3, LMT[1]), (2, LMT[2]), (3, LMT[2]), (3, LMT[3])] {
        run_job_with(&Shm, ranks, lmt, |dev| {
            talk(dev, 24, |dev, round| {
                if round % u64::from(dev.size()) == u64::from(dev.rank()) {
                    suspend(dev);
                    for _ in 0..20 {
                        dev.progress().expect("progress");
                    }
                    resume(dev);
                }
            });
        });
    }
}

/// Nothing is mapped or open when all are away; they come back to new memory, in either order.
#[test]
fn shared_memory_all_at_once_and_nothing_is_left() {
    let _alone = alone();
    for (ranks, lmt) in [(2, LMT[0]), (4, LMT[0]), (3, LMT[1]), (2, LMT[2]), (4, LMT[2]), (3, LMT[3])] {
        let gate = Arc::new(Barrier::new(ranks as usize));
        let before = shared();
        run_job_with(&Shm, ranks, lmt, move |dev| {
            talk(dev, 12, |dev, round| {
                suspend(dev);
                gate.wait();
                assert_eq!(shared(), before, "something of the shared memory is held");
                gate.wait();
                for turn in 0..u64::from(ranks) {
                    if (turn + round) % u64::from(ranks) == u64::from(dev.rank()) {
                        resume(dev);
                    }
                    gate.wait();
                }
            });
        });
    }
}

/// Two of three leave at the same time, while the third sends; then all three at once, then one
/// again.
#[test]
fn shared_memory_of_those_who_leave_and_who_stay() {
    let _alone = alone();
    for lmt in [LMT[0], LMT[2]] {
        run_job_with(&Shm, 3, lmt, move |dev| {
            talk(dev, 30, |dev, round| {
                let stays = match round % 4 {
                    0 | 1 => Some((round / 4 % 3) as u32),
                    2 => None,
                    _ => Some(dev.rank() / 2 * 2),
                };
                if stays != Some(dev.rank()) {
                    suspend(dev);
                    for _ in 0..(round * 13 + u64::from(dev.rank()) * 29) % 60 {
                        dev.progress().expect("progress");
                    }
                    resume(dev);
                }
            });
        });
    }
}

/// A first message to a rank that is away waits for it, and so does one that such a rank sends.
#[test]
fn shared_memory_that_is_first_used_meanwhile() {
    let _alone = alone();
    for all in [false, true] {
        let gate = Arc::new(Barrier::new(2));
        run_job_with(&Shm, 2, plain, move |dev| {
            let (world, other) = (dev.world(), 1 - dev.rank() as i32);
            if dev.rank() == 0 || all {
                suspend(dev);
            }
            gate.wait();
            let send = dev.isend(bytes(3, 5000), other, 2, world).expect("a send");
            for _ in 0..200 {
                dev.progress().expect("progress");
            }
            gate.wait();
            if dev.rank() == 1 && !all {
                // It has something in no ring, and leaves, too.
                suspend(dev);
            }
            gate.wait();
            resume(dev);
            let mut got = vec![0; 5000];
            dev.recv(&mut got, other, 2, world).expect("the message");
            check(3, &got).expect("the right bytes");
            dev.wait(send).expect("the send");
        });
    }
}

/// Messages of a rank to the other one, of which there are so many in each direction.
struct Exchange {
    of: u64,
    receives: Vec<Request>,
    sends: Vec<Request>,
}

const MIB: usize = 1 << 20;
const EACH: u64 = 4;

impl Exchange {
    fn begin(dev: &mut Device, of: u64) -> Exchange {
        let (world, other) = (dev.world(), 1 - dev.rank() as i32);
        let receive = |_| dev.irecv(vec![0; MIB], other, of as i32, world).expect("a receive");
        let receives = (0..EACH).map(receive).collect();
        let send = |i| {
            let data = bytes(seed(&[of, i, u64::from(dev.rank())]), MIB);
            dev.isend(data, other, of as i32, world).expect("a send")
        };
        Exchange { of, receives, sends: (0..EACH).map(send).collect() }
    }

    fn end(self, dev: &mut Device) {
        let other = u64::from(1 - dev.rank());
        for (i, request) in self.receives.into_iter().enumerate() {
            let done = dev.wait(request).expect("a message");
            check(seed(&[self.of, i as u64, other]), &done.buffer).expect("the right bytes");
        }
        dev.wait_all(self.sends).expect("the sends");
    }
}

/// Large messages in both directions before, during and behind a checkpoint of either rank.
#[test]
fn rings_of_large_messages_go_and_come() {
    let _alone = alone();
    for (tune, is_ring_sure) in [(LMT[2], true), (LMT[3], false)] {
        let through = run_job_with(&Shm, 2, tune, |dev| {
            let mut through = Vec::new();
            for round in 0..9 {
                let before = dev.stats().through_rings;
                let begun = Exchange::begin(dev, round);
                for _ in 0..round * 3 {
                    dev.progress().expect("progress");
                }
                if round % 3 < 2 {
                    if round % 3 == u64::from(dev.rank()) {
                        suspend(dev);
                        let meanwhile = Exchange::begin(dev, 100 + round);
                        for _ in 0..20 {
                            dev.progress().expect("progress");
                        }
                        resume(dev);
                        meanwhile.end(dev);
                    } else {
                        Exchange::begin(dev, 100 + round).end(dev);
                    }
                }
                begun.end(dev);
                through.push(dev.stats().through_rings - before);
            }
            through
        });
        for of_rank in through.iter().filter(|_| is_ring_sure) {
            for quiet in [2, 5, 8] {
                assert_eq!(of_rank[quiet], 2 * EACH, "{of_rank:?}");
            }
        }
    }
}

/// A rank that is away cannot be looked at, nor look at others: that is no reason to say that a
/// mode cannot be had.
#[test]
fn a_mode_is_not_missed_because_a_rank_is_away() {
    let _alone = alone();
    for lmt in [LMT[0], LMT[2]] {
        let gate = Arc::new(Barrier::new(2));
        run_job_with(&Shm, 2, lmt, move |dev| {
            let missed = |dev: &mut Device| dev.status().vcs.into_iter().find_map(|vc| vc.lmt);
            Exchange::begin(dev, 1).end(dev);
            suspend(dev);
            gate.wait();
            if dev.rank() == 0 {
                resume(dev);
            }
            let begun = Exchange::begin(dev, 2);
            for _ in 0..20 {
                dev.progress().expect("progress");
            }
            assert_eq!(missed(dev), None, "rank {}", dev.rank());
            gate.wait();
            if dev.rank() == 1 {
                resume(dev);
            }
            begun.end(dev);
            Exchange::begin(dev, 3).end(dev);
            assert_eq!(missed(dev), None, "rank {}", dev.rank());
        });
    }
}

/// A peer that makes no progress holds a checkpoint up; all goes on then, and behind a later one.
#[test]
fn a_message_in_the_middle_of_a_ring_is_waited_for() {
    let _alone = alone();
    let gate = Arc::new(Barrier::new(2));
    let tune = |cfg: &mut Config| {
        cfg.set("NETMOD_LMT", "coop").expect("a setting");
        cfg.set("NETMOD_CLOSE_TIMEOUT", "200ms").expect("a setting");
    };
    run_job_with(&Shm, 2, tune, move |dev| {
        let (world, len) = (dev.world(), 8 * MIB);
        if dev.rank() == 0 {
            let send = dev.isend(bytes(5, len), 1, 0, world).expect("a send");
            while dev.stats().through_rings == 0 {
                dev.progress().expect("progress");
            }
            gate.wait();
            let error = dev.ckpt_shutdown().expect_err("the other rank takes nothing out");
            assert!(
                matches!(&error, Error::Timeout(text) if text.contains("NETMOD_CLOSE_TIMEOUT")),
                "{error}"
            );
            gate.wait();
            dev.wait(send).expect("the send");
            while let Err(error) = dev.ckpt_shutdown() {
                assert!(matches!(error, Error::Timeout(_)), "{error}");
            }
            resume(dev);
        } else {
            let receive = dev.irecv(vec![0; len], 0, 0, world).expect("a receive");
            while dev.stats().through_rings == 0 {
                dev.progress().expect("progress");
            }
            gate.wait();
            gate.wait();
            let done = dev.wait(receive).expect("the message");
            check(5, &done.buffer).expect("the right bytes");
        }
        Exchange::begin(dev, 7).end(dev);
    });
}

#[test]
fn shared_memory_of_a_rank_that_does_not_come_back() {
    a_peer_stays_away(&Shm);
}
