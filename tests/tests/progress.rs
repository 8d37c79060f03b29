//! A message leaves although its sender computes: none waits for the sender's next call.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ch3_shim::Config;
use ch3_shim::{Builder, Device, HelperStats, Mode, Multiple, Request};
use netmod_tests::board::Board;
use netmod_tests::conformance::{NetmodFactory, run_job_with};
use netmod_tests::factory::{Ofi, Shm, Tcp};
use netmod_tests::watchdog::Watchdog;

/// Time that a sender that computes waits for its receiver: without the helper for ever.
const LIMIT: Duration = Duration::from_secs(30);
/// A message that is announced and not sent.
const LONG: usize = 300_000;

type Ends = (Mutex<Sender<()>>, Mutex<Receiver<()>>);

/// A word from one rank to the other, which needs no device.
fn word() -> Arc<Ends> {
    let (tx, rx) = channel();
    Arc::new((Mutex::new(tx), Mutex::new(rx)))
}

fn say(word: &Ends) {
    word.0.lock().expect("no panic").send(()).expect("a listener");
}

fn hear(word: &Ends, limit: Duration) -> bool {
    word.1.lock().expect("no panic").recv_timeout(limit).is_ok()
}

/// Both have heard of each other, and nothing is under way.
fn meet(dev: &mut Device) {
    let world = dev.world();
    for _ in 0..2 {
        dev.barrier(world).expect("barrier");
        while dev.progress().expect("progress") {}
    }
}

/// Messages of 8 bytes, and a long one that the receiver only looks at.
fn begin(dev: &mut Device, short: u8) -> Vec<Request> {
    let world = dev.world();
    let mut reqs: Vec<Request> =
        (0..short).map(|n| dev.isend(vec![n; 8], 1, 1, world).expect("isend")).collect();
    reqs.push(dev.isend(vec![9; LONG], 1, 2, world).expect("isend"));
    reqs.push(dev.isend_mode(vec![7; 8].into(), 1, 3, world, Mode::Sync).expect("issend"));
    reqs
}

fn receive_short(dev: &mut Device, short: u8) {
    let world = dev.world();
    for n in 0..short {
        let mut data = [0; 8];
        dev.recv(&mut data, 0, 1, world).expect("recv");
        assert_eq!(data, [n; 8]);
    }
}

fn receive_rest(dev: &mut Device) {
    let world = dev.world();
    let done = dev.irecv(vec![0; LONG], 0, 2, world).expect("irecv");
    assert_eq!(dev.wait(done).expect("the long one").buffer, vec![9; LONG]);
    let mut data = [0; 8];
    dev.recv(&mut data, 0, 3, world).expect("recv");
    assert_eq!(data, [7; 8]);
}

/// The sender makes no call from its last isend until the receiver has all of it.
fn arrives_while_its_sender_computes(factory: &dyn NetmodFactory) {
    let got = word();
    run_job_with(
        factory,
        2,
        |_| {},
        move |dev| {
            let world = dev.world();
            for short in [1, 2, 3, 40] {
                meet(dev);
                if dev.rank() == 0 {
                    let reqs = begin(dev, short);
                    assert!(hear(&got, LIMIT), "{short} messages have not arrived");
                    dev.wait_all(reqs).expect("the sends");
                } else {
                    receive_short(dev, short);
                    assert_eq!(dev.probe(0, 2, world).expect("a probe").len, LONG);
                    dev.probe(0, 3, world).expect("a probe");
                    say(&got);
                    receive_rest(dev);
                }
            }
        },
    );
}

#[test]
fn over_shared_memory() {
    arrives_while_its_sender_computes(&Shm);
}

#[test]
fn over_tcp() {
    arrives_while_its_sender_computes(&Tcp);
}

#[test]
fn over_libfabric() {
    for provider in ["tcp", "net", "shm"] {
        let ofi = Ofi { provider, library: "", max_bytes: 0, many: 0 };
        if ofi.is_available("over_libfabric") {
            arrives_while_its_sender_computes(&ofi);
        }
    }
}

/// An acknowledgement and a clearance to send are begun by a receive, and leave as well.
#[test]
fn answers_of_a_receive_leave_too() {
    let (posted, sent) = (word(), word());
    run_job_with(
        &Tcp,
        2,
        |_| {},
        move |dev| {
            let world = dev.world();
            meet(dev);
            if dev.rank() == 0 {
                let sync =
                    |tag| dev.isend_mode(vec![1; 8].into(), 1, tag, world, Mode::Sync).expect("issend");
                let reqs: Vec<Request> = (0..6).map(sync).collect();
                assert!(hear(&posted, LIMIT));
                dev.wait_all(reqs).expect("all have been received");
                say(&sent);
            } else {
                for tag in 0..6 {
                    dev.probe(0, tag, world).expect("a probe");
                }
                let reqs: Vec<Request> =
                    (0..6).map(|tag| dev.irecv(vec![0; 8], 0, tag, world).expect("irecv")).collect();
                say(&posted);
                assert!(hear(&sent, LIMIT), "the sender waits for acknowledgements");
                dev.wait_all(reqs).expect("the receives");
            }
        },
    );
}

/// Bytes that did not fit into the socket leave when there is room.
#[test]
fn more_than_a_socket_takes() {
    const EACH: usize = 50_000;
    let (begun, got) = (word(), word());
    let small = |cfg: &mut Config| (cfg.tcp.sndbuf, cfg.tcp.rcvbuf) = (8 << 10, 8 << 10);
    run_job_with(&Tcp, 2, small, move |dev| {
        let world = dev.world();
        meet(dev);
        if dev.rank() == 0 {
            let reqs: Vec<Request> =
                (0..8).map(|n| dev.isend(vec![n; EACH], 1, 1, world).expect("isend")).collect();
            say(&begun);
            assert!(hear(&got, LIMIT), "the messages have not arrived");
            dev.wait_all(reqs).expect("the sends");
        } else {
            assert!(hear(&begun, LIMIT));
            for n in 0..8 {
                let done = dev.irecv(vec![0; EACH], 0, 1, world).expect("irecv");
                assert_eq!(dev.wait(done).expect("a message").buffer, vec![n; EACH]);
            }
            say(&got);
        }
    });
}

/// A message over shared memory lies where its receiver looks: nobody need send it.
#[test]
fn shared_memory_needs_no_helper() {
    let got = word();
    run_job_with(
        &Shm,
        2,
        |_| {},
        move |dev| {
            let world = dev.world();
            meet(dev);
            if dev.rank() == 0 {
                let reqs: Vec<_> =
                    (0..40).map(|n| dev.isend(vec![n; 8], 1, 1, world).expect("isend")).collect();
                assert!(hear(&got, LIMIT), "the messages have not arrived");
                assert_eq!(dev.helper_stats(), HelperStats::default());
                dev.wait_all(reqs).expect("the sends");
            } else {
                receive_short(dev, 40);
                say(&got);
            }
        },
    );
}

/// The counts of a helper once it rests: one that looks for something to send does so every
/// millisecond.
fn at_rest(dev: &Device) -> HelperStats {
    let begun = Instant::now();
    loop {
        let stats = dev.helper_stats();
        std::thread::sleep(Duration::from_millis(50));
        if dev.helper_stats() == stats {
            return stats;
        }
        assert!(begun.elapsed() < LIMIT, "rounds of a helper that has nothing to do: {stats:?}");
    }
}

/// The helper is woken once for all that stays staged, and rests when it is sent.
#[test]
fn the_helper_rests_while_nothing_is_staged() {
    let (got, all) = (word(), word());
    run_job_with(
        &Tcp,
        2,
        |_| {},
        move |dev| {
            meet(dev);
            if dev.rank() == 1 {
                for _ in 0..5 {
                    receive_short(dev, 3);
                    say(&got);
                }
                assert!(hear(&all, LIMIT));
                return;
            }
            let world = dev.world();
            let mut before = at_rest(dev);
            let mut fewest = u64::MAX;
            for _ in 0..5 {
                let reqs: Vec<Request> =
                    (0..3).map(|n| dev.isend(vec![n; 8], 1, 1, world).expect("isend")).collect();
                assert!(hear(&got, LIMIT));
                let after = at_rest(dev);
                // If this thread loses its core between two of them, each may wake the helper.
                let wakes = after.wakes - before.wakes;
                assert!(wakes <= 3, "{after:?} after {before:?}");
                (fewest, before) = (fewest.min(wakes), after);
                dev.wait_all(reqs).expect("the sends");
            }
            assert!(fewest <= 1, "each of the messages wakes it");
            say(&all);
        },
    );
}

/// A rank that only makes blocking calls needs no helper.
#[test]
fn blocking_calls_wake_nobody() {
    for stats in run_job_with(
        &Tcp,
        2,
        |_| {},
        |dev| {
            let (me, world) = (dev.rank() as i32, dev.world());
            for _ in 0..200 {
                let mut data = [0; 8];
                dev.sendrecv(&[1; 8], 1 - me, 1, &mut data, 1 - me, 1, world).expect("sendrecv");
                dev.send(&[2; 8], 1 - me, 2, world).expect("send");
                dev.recv(&mut data, 1 - me, 2, world).expect("recv");
                dev.barrier(world).expect("barrier");
            }
            dev.helper_stats()
        },
    ) {
        assert_eq!(stats.pushes, 0);
    }
}

/// With NETMOD_PROGRESS=off what is staged leaves with the next call, and no thread is there.
#[test]
fn it_can_be_switched_off() {
    let (got, checked) = (word(), word());
    let off = |cfg: &mut Config| cfg.set("NETMOD_PROGRESS", "off").expect("a setting");
    run_job_with(&Tcp, 2, off, move |dev| {
        meet(dev);
        if dev.rank() == 1 {
            receive_short(dev, 3);
            say(&got);
            assert!(hear(&checked, LIMIT));
            return;
        }
        let world = dev.world();
        let reqs: Vec<Request> = (0..3).map(|n| dev.isend(vec![n; 8], 1, 1, world).expect("isend")).collect();
        assert!(!hear(&got, Duration::from_millis(200)), "the second message waits for the next call");
        dev.wait_all(reqs).expect("the sends");
        assert!(hear(&got, LIMIT));
        assert_eq!(dev.helper_stats(), HelperStats::default());
        say(&checked);
    });
}

/// A device of all threads has one helper for its engines.
#[test]
fn at_the_level_multiple() {
    let _watchdog = Watchdog::new();
    let mut board = Board::new(2);
    let got = word();
    std::thread::scope(|s| {
        for rank in 0..2 {
            let mut cfg = Config::default();
            cfg.netmods = vec!["tcp".into()];
            cfg.engines = 2;
            let (place, got) = (Box::new(board.place(rank)), &got);
            s.spawn(move || {
                let dev: Device<Multiple> = Builder::new(cfg, place).build_thread().expect("a device");
                let world = dev.world();
                let other = dev.dup(world).expect("a communicator of the other engine");
                for round in 0..3 {
                    for comm in [world, other] {
                        dev.barrier(comm).expect("barrier");
                    }
                    if rank == 0 {
                        let reqs: Vec<_> = (0..3)
                            .flat_map(|n| [world, other].map(|comm| dev.isend(vec![n; 8], 1, 1, comm)))
                            .map(|req| req.expect("isend"))
                            .collect();
                        assert!(hear(got, LIMIT), "round {round}: the messages have not arrived");
                        dev.wait_all(reqs).expect("the sends");
                    } else {
                        for n in 0..3 {
                            for comm in [world, other] {
                                let mut data = [0; 8];
                                dev.recv(&mut data, 0, 1, comm).expect("recv");
                                assert_eq!(data, [n; 8]);
                            }
                        }
                        say(got);
                    }
                }
                dev.finalize().expect("finalize");
            });
        }
    });
}
