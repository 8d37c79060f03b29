//! Devices that all threads of a process use at once.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ch3_shim::Config;
use ch3_shim::{Builder, Device, Error, Failed, Mode, Multiple, PROC_NULL, SharedRequest};
use netmod_tests::board::Board;
use netmod_tests::conformance::forms::{Counted, Received, ended, only, only_some};
use netmod_tests::conformance::pattern;
use netmod_tests::jobs::launch::{self, EACH_NETMOD, run};
use netmod_tests::jobs::sys;
use netmod_tests::jobs::threads::mixed;
use netmod_tests::watchdog::Watchdog;

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");

fn nmrun(ranks: u32, options: &[&str]) -> Command {
    static NMRUN: OnceLock<PathBuf> = OnceLock::new();
    let mut c = Command::new(NMRUN.get_or_init(|| launch::workspace_program(JOB, "netmod-pmi", "nmrun")));
    c.args(["-n", &ranks.to_string()]).args(options).arg(JOB);
    c
}

/// A job within this process: so many ranks, each a device that its threads share.
fn on_a_board(ranks: u32, tune: impl Fn(&mut Config), body: impl Fn(Device<Multiple>) + Sync) {
    let _watchdog = Watchdog::new();
    let mut board = Board::new(ranks);
    let mut cfg = Config::default();
    cfg.tcp.interface = "127.0.0.1".into();
    tune(&mut cfg);
    thread::scope(|s| {
        for rank in 0..ranks {
            let builder = Builder::new(cfg.clone(), Box::new(board.place(rank)));
            let body = &body;
            s.spawn(move || body(builder.build_thread::<Multiple>().expect("a device")));
        }
    });
}

#[test]
fn eight_threads_on_a_board() {
    for (engines, netmods) in [("1", "shm,tcp"), ("1", "tcp"), ("3", "shm,tcp"), ("3", "tcp")] {
        let tune = |cfg: &mut Config| {
            cfg.set("NETMOD_ENGINES", engines).expect("a number of engines");
            cfg.set("NETMOD", netmods).expect("netmods");
        };
        on_a_board(2, tune, |dev| {
            assert_eq!(dev.engines().to_string(), engines);
            mixed(&dev, 8, 24, 5).unwrap_or_else(|e| panic!("rank {}: {e}", dev.rank()));
            dev.finalize().expect("finalize");
        });
    }
}

/// Waits that block at once, and waits that never do.
#[test]
fn spinning_and_blocking() {
    for spin in ["0", "1000000"] {
        let tune = |cfg: &mut Config| cfg.set("NETMOD_SPIN", spin).expect("a number of polls");
        on_a_board(2, tune, |dev| {
            mixed(&dev, 3, 12, 6).unwrap_or_else(|e| panic!("rank {}: {e}", dev.rank()));
            dev.finalize().expect("finalize");
        });
    }
}

#[test]
fn threads_of_several_processes() {
    for (ranks, options) in [
        (1, &[][..]),
        (2, &[][..]),
        (3, &["--env", "NETMOD_ENGINES=2"][..]),
        (2, &["--env", "NETMOD_ENGINES=4", "--env", "NETMOD_SPIN=0"][..]),
    ] {
        for netmods in EACH_NETMOD {
            let mut c = nmrun(ranks, options);
            run(c.args(["threads", "8", "24"]).env("NETMOD", netmods)).expect_ok("threads", ranks);
        }
    }
}

/// Calls for several requests return those that were over at once like others, whatever their
/// engines; used up ones are passed over.
#[test]
fn over_at_once() {
    for engines in ["1", "2"] {
        let tune = |cfg: &mut Config| cfg.set("NETMOD_ENGINES", engines).expect("a number of engines");
        on_a_board(1, tune, |dev| {
            let world = dev.world();
            let other = dev.dup(world).expect("a communicator");
            let mut used_up = dev.isend(vec![1], PROC_NULL, 0, other).expect("isend");
            dev.wait_on(&mut used_up).expect("wait");
            let receive = dev.irecv(vec![0; 1], 0, 1, world).expect("irecv");
            let over = dev.isend(vec![2], PROC_NULL, 0, world).expect("isend");
            assert!(dev.is_finished(&over) && !dev.is_finished(&receive));
            let mut reqs = vec![used_up, receive, over];
            let which = |done: Result<Option<(usize, _)>, Box<Failed>>| done.expect("wait").map(|(i, _)| i);
            assert_eq!(which(dev.wait_any(&mut reqs)), Some(2));
            dev.send(&[3], 0, 1, world).expect("send");
            assert_eq!(which(dev.wait_any(&mut reqs)), Some(1));
            reqs.push(dev.isend(vec![2], PROC_NULL, 0, world).expect("isend"));
            assert!(matches!(dev.wait_some(&mut reqs).expect("wait")[..], [(1, _)]));
            assert_eq!((which(dev.wait_any(&mut reqs)), reqs.len()), (None, 1));
            assert!(dev.wait_some(&mut reqs).expect("wait").is_empty());
            dev.finalize().expect("finalize");
        });
    }
}

/// A call of a device for many threads that completes a request.
type SharedCall = fn(&Device<Multiple>, SharedRequest) -> Received;

const CALLS: &[(&str, SharedCall)] = &[
    ("wait", |d, r| ended(d.wait(r))),
    ("wait_on", |d, mut r| ended(d.wait_on(&mut r))),
    ("test", |d, mut r| {
        loop {
            match d.test(r) {
                Ok(Err(again)) => r = again,
                Ok(Ok(done)) => return ended(Ok(done)),
                Err(failed) => return ended(Err(failed)),
            }
        }
    }),
    ("wait_all", |d, r| only(d.wait_all([r]))),
    ("wait_any", |d, r| ended(d.wait_any(&mut vec![r]).map(|done| done.expect("there is one").1))),
    ("wait_some", |d, r| only_some(d.wait_some(&mut vec![r]))),
    ("test_all", |d, r| {
        let mut reqs = vec![r];
        loop {
            match d.test_all(reqs) {
                Ok(Err(again)) => reqs = again,
                Ok(Ok(done)) => return only(Ok(done)),
                Err(failed) => return only(Err(failed)),
            }
        }
    }),
];

/// All calls give the buffer back as it was given but for the message, also with a failure or from
/// nobody.
#[test]
fn buffers_come_back() {
    const LEN: usize = 100;
    for engines in ["1", "2"] {
        let tune = |cfg: &mut Config| cfg.set("NETMOD_ENGINES", engines).expect("a number of engines");
        on_a_board(1, tune, |dev| {
            let world = dev.world();
            for (what, call) in CALLS {
                for (source, room) in [(PROC_NULL, LEN), (0, LEN + 9), (0, LEN), (0, LEN - 9)] {
                    for matched in [false, true] {
                        let mut buf = vec![9; room];
                        let sent =
                            (source == 0).then(|| dev.isend(vec![1; LEN], 0, 1, world).expect("isend"));
                        let req = if matched {
                            dev.imrecv(buf.clone(), dev.mprobe(source, 1, world).expect("mprobe"))
                        } else {
                            dev.irecv(buf.clone(), source, 1, world).expect("irecv")
                        };
                        let (result, got) = call(&dev, req);
                        let len = if source == 0 { LEN.min(room) } else { 0 };
                        buf[..len].fill(1);
                        assert_eq!(got, buf, "{what}, {room} bytes from {source}");
                        match result {
                            Ok(status) => assert!(room >= LEN && status.len == len, "{what}: {status:?}"),
                            Err(Error::Truncated { status, sent: 100 }) => assert_eq!(status.len, room),
                            Err(e) => panic!("{what}: {e}"),
                        }
                        sent.into_iter().for_each(|r| drop(dev.wait(r).expect("send")));
                    }
                }
            }
            // A failure says which request it is of, wherever that is in the list.
            let mut reqs: Vec<SharedRequest> = (0..3)
                .map(|tag| dev.irecv(vec![9; LEN - tag as usize % 2], 0, tag, world).expect("irecv"))
                .collect();
            (0..3).for_each(|tag| dev.send(&[1; LEN], 0, tag, world).expect("send"));
            assert!(reqs.iter().all(|r| dev.is_finished(r)));
            let failed = dev.wait_some(&mut reqs).expect_err("one of them fails");
            assert_eq!(
                (failed.results.len(), failed.first().and_then(|f| f.place)),
                (3, Some(1)),
                "{failed}"
            );
            assert!(reqs.is_empty());
            dev.finalize().expect("finalize");
        });
    }
}

/// A peer dies: each call, of whatever thread, returns the cause, and gives buffers and data back
/// as they were given.
#[test]
fn requests_fail_with_their_peer() {
    /// A call with a borrowed buffer that waits for a message.
    type Borrowed = fn(&Device<Multiple>, &mut [u8]) -> ch3_shim::Result<()>;
    const NEVER: i32 = 2;
    const BORROWED: &[(&str, Borrowed)] = &[
        ("recv", |d, b| d.recv(b, 1, NEVER, d.world()).map(drop)),
        ("sendrecv", |d, b| d.sendrecv(&[], PROC_NULL, 1, b, 1, NEVER, d.world()).map(drop)),
        ("probe", |d, _| d.probe(1, NEVER, d.world()).map(drop)),
        ("mprobe", |d, _| d.mprobe(1, NEVER, d.world()).map(drop)),
    ];
    let is_lost = |e: &Error| matches!(e, Error::Peer(e) if e.peer().is_some_and(|p| p.rank == 1));
    for (engines, netmods) in [("1", "tcp"), ("2", "tcp"), ("1", "shm"), ("2", "shm")] {
        let tune = |cfg: &mut Config| {
            cfg.set("NETMOD_ENGINES", engines).expect("a number of engines");
            cfg.set("NETMOD", netmods).expect("netmods");
        };
        on_a_board(2, tune, |dev| {
            let world = dev.world();
            if dev.rank() == 1 {
                dev.recv(&mut [], 0, 1, world).expect("recv");
                return;
            }
            let large = dev.config().eager_max + 1;
            // Those that wait for the loss, and those that ask when it is known.
            let mut all = Vec::new();
            for (what, call) in CALLS.iter().chain(CALLS) {
                let receive = dev.irecv(vec![9; 100], 1, NEVER, world).expect("irecv");
                all.push((what, call, receive, vec![9; 100]));
                for len in [8, large] {
                    let data = pattern(1, len);
                    let send = dev.isend_mode(data.clone().into(), 1, NEVER, world, Mode::Sync);
                    all.push((what, call, send.expect("isend"), data));
                }
            }
            let afterwards = all.split_off(all.len() / 2);
            let check = |what: &str, (result, got): Received, given: Vec<u8>| {
                assert!(result.as_ref().is_err_and(&is_lost), "{what}: {result:?}");
                assert_eq!(got, given, "{what}");
            };
            thread::scope(|s| {
                for (what, call) in BORROWED {
                    let dev = dev.clone();
                    s.spawn(move || {
                        let mut buf = [9; 100];
                        let error = call(&dev, &mut buf).expect_err("the peer dies");
                        assert!(is_lost(&error) && buf == [9; 100], "{what}: {error}");
                    });
                }
                for (what, call, req, given) in all {
                    let (dev, check) = (dev.clone(), &check);
                    s.spawn(move || check(what, call(&dev, req), given));
                }
                dev.send(&[], 1, 1, world).expect("the peer waits for it");
            });
            for (what, call, req, given) in afterwards {
                check(what, call(&dev, req), given);
            }
            let refused = dev.isend(vec![8; 5], 1, NEVER, world).expect_err("the peer is lost");
            assert!(is_lost(&refused.error) && refused.data == [8; 5][..], "{refused:?}");
            let refused = dev.irecv(vec![8; 5], 1, NEVER, world).expect_err("the peer is lost");
            assert!(is_lost(&refused.error) && refused.buffer == [8; 5], "{refused:?}");
        });
    }
}

/// A dropped request frees its memory and itself when it is finished.
#[test]
fn dropped_requests_are_freed() {
    const MANY: usize = 20;
    on_a_board(
        1,
        |_| {},
        |dev| {
            let (world, freed) = (dev.world(), Arc::new(AtomicUsize::new(0)));
            let len = dev.config().eager_max + 1;
            for _ in 0..MANY {
                let data = Bytes::from_owner(Counted(vec![1; len], Arc::clone(&freed)));
                drop(dev.isend(data, 0, 1, world).expect("isend"));
            }
            let mut buf = vec![0; len];
            for _ in 0..MANY {
                dev.recv(&mut buf, 0, 1, world).expect("recv");
            }
            let end = Instant::now() + Duration::from_secs(20);
            while freed.load(Ordering::Relaxed) < MANY || dev.live_requests() > 0 {
                assert!(Instant::now() < end, "{freed:?} of {MANY} freed, {} are left", dev.live_requests());
                dev.progress().expect("progress");
            }
            dev.finalize().expect("finalize");
        },
    );
}

/// A thread that comes late to a finalized device is told.
#[test]
fn finalized_for_all() {
    on_a_board(
        1,
        |_| {},
        |dev| {
            let other = dev.clone();
            dev.finalize().expect("finalize");
            let error = other.isend(vec![1], 0, 0, other.world()).expect_err("a send after finalize");
            assert!(matches!(&error.error, Error::Usage(text) if text.contains("finalized")), "{error}");
            assert!(other.finalize().is_err());
        },
    );
}

/// Processes that do not have the same number of engines cannot talk, and say so.
#[test]
fn all_processes_have_as_many_engines() {
    let _watchdog = Watchdog::new();
    let mut board = Board::new(2);
    let mut cfg = Config::default();
    cfg.tcp.interface = "127.0.0.1".into();
    let builders = [0, 1].map(|rank| Builder::new(cfg.clone(), Box::new(board.place(rank))));
    thread::scope(|s| {
        let [a, b] = builders;
        let first = s.spawn(move || a.engines(2).expect("two").build_thread::<Multiple>().map(drop));
        let second = s.spawn(move || b.build().map(drop));
        assert_eq!(first.join().expect("rank 0"), Ok(()));
        let error = second.join().expect("rank 1").expect_err("another number of engines");
        assert!(error.to_string().contains("rank 0 has 2 engines and this process 1"), "{error}");
    });
}

/// A rank waits on one engine while its peer waits for it on another.
#[test]
fn a_wait_helps_the_other_engines() {
    let tune = |cfg: &mut Config| cfg.set("NETMOD_ENGINES", "2").expect("two engines");
    on_a_board(2, tune, |dev| {
        let world = dev.world();
        let other = dev.dup(world).expect("a communicator");
        assert_ne!(dev.engine_of(world), dev.engine_of(other));
        dev.barrier(world).expect("barrier");
        let large = vec![7; 4 << 20];
        if dev.rank() == 0 {
            let sent = dev.isend(large, 1, 0, other).expect("isend");
            // The peer's part of the large message comes while this thread waits for the small one.
            dev.recv(&mut [0], 1, 0, world).expect("recv");
            dev.wait(sent).expect("wait");
        } else {
            let mut got = vec![0; large.len()];
            dev.recv(&mut got, 0, 0, other).expect("recv");
            assert_eq!(got, large);
            dev.send(&[1], 0, 0, world).expect("send");
        }
        dev.finalize().expect("finalize");
    });
}

/// No wait of a forked child succeeds, whatever its request.
#[test]
fn waits_of_a_forked_child_are_refused() {
    on_a_board(
        1,
        |_| {},
        |dev| {
            let world = dev.world();
            let sent = dev.isend(vec![1; 8], 0, 1, world).expect("isend");
            let message = dev.mprobe(0, 1, world).expect("mprobe");
            let receive = match sys::fork().expect("a child") {
                0 => {
                    let refused = |r: Result<_, Box<Failed>>| r.is_err_and(|f| f.error == Error::Forked);
                    let mut lent = dev.imrecv(vec![0; 8], message);
                    let all =
                        refused(dev.wait_on(&mut lent)) && refused(dev.wait(lent)) && refused(dev.wait(sent));
                    sys::exit_now(i32::from(!all));
                }
                child => {
                    sys::reap(child).expect("each wait of the child is refused");
                    dev.imrecv(vec![0; 8], message)
                }
            };
            assert_eq!(dev.wait(receive).expect("a receive").buffer, [1; 8]);
            dev.wait(sent).expect("a send");
        },
    );
}
