//! The conformance suite over shared memory with each mode of large messages, and what Put and Get
//! do with the memory that they register.

use std::sync::Arc;

use ch3_shim::Config;
use ch3_shim::netset::NetSet;
use ch3_shim::{Bootstrap, Device, DeviceStats, Mode};
use netmod_core::{Datatype, RxBytes};
use netmod_tests::board::run_job_with;
use netmod_tests::conformance::{check, other, pattern, recv, send};
use netmod_tests::factory::{Capabilities, Job, Lmt, NetmodFactory, Shm, Tcp};
use netmod_tests::scripted::Script;
use netmod_tests::sys::Area;

fn shm(mode: &'static str) -> Lmt<Shm> {
    Lmt { inner: Shm, mode }
}

netmod_tests::conformance!(put, shm("put"));
netmod_tests::conformance!(get, shm("get"));
netmod_tests::conformance!(coop, shm("coop"));
netmod_tests::conformance!(auto, shm("auto"));
netmod_tests::conformance!(null, shm("null"));

/// Both ranks send messages of all these lengths at once; their statistics.
fn exchange(f: &dyn NetmodFactory, lens: &'static [usize], tune: impl Fn(&mut Config)) -> Vec<DeviceStats> {
    let tune = |cfg: &mut Config| {
        cfg.eager_max = 0;
        tune(cfg);
    };
    run_job_with(f, 2, tune, move |dev| {
        let (peer, world) = (other(dev), dev.world());
        let seed = |rank: i32, tag: usize| (rank as u64) << 32 | tag as u64;
        let me = dev.rank() as i32;
        let tags = || lens.iter().enumerate();
        let recvs: Vec<_> = tags()
            .map(|(tag, len)| dev.irecv(vec![0; len + 1], peer, tag as i32, world).expect("irecv"))
            .collect();
        let sends: Vec<_> = tags()
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
        dev.stats()
    })
}

const LENS: [usize; 9] = [1, 17, 4095, 65_535, 65_537, 262_143, 262_145, 1 << 20, (3 << 20) + 1];

#[test]
fn every_message_is_put_or_got_in_one_window() {
    for mode in ["put", "get"] {
        for stats in exchange(&shm(mode), &LENS, |_| {}) {
            let moved = (stats.one_sided, stats.through_rings, stats.rekeys);
            assert_eq!(moved, (LENS.len() as u64, 0, 0), "{mode}: {stats:?}");
        }
    }
}

/// Half of what may be registered is for peers, of which there are two windows: so one has 256 KiB.
fn little(cfg: &mut Config) {
    cfg.shm.register_max = 1 << 20;
}

/// With a small `RLIMIT_MEMLOCK`, the next window is registered while the last one moves.
#[test]
fn a_message_moves_in_a_hundred_windows_and_more() {
    for mode in ["put", "get"] {
        for stats in exchange(&shm(mode), &[40 << 20], little) {
            assert_eq!((stats.rekeys, stats.rekeys_ahead), (159, 159), "{mode}: {stats:?}");
            assert_eq!(stats.one_sided, 1);
        }
    }
}

/// All of them want to be registered, which is not possible: those for which there is no room go
/// without, and nothing waits in a circle.
#[test]
fn many_messages_share_what_may_be_registered() {
    const MANY: [usize; 12] = [5 << 20; 12];
    for mode in ["put", "get"] {
        let stats = exchange(&shm(mode), &MANY, little);
        for s in &stats {
            assert!(s.one_sided > 0 && s.rekeys > 0, "{mode}: {s:?}");
        }
        // A rank that may register but one piece of the least size at once has many moves that wait
        // for another.
        let stats = exchange(&Minds { modes: [mode; 2], most: [0, 8 << 10] }, &[300_000; 6], |_| {});
        assert_eq!((stats[0].one_sided, stats[1].one_sided), (0, 6), "{mode}: {stats:?}");
        let all = exchange(&shm(mode), &MANY, |_| {});
        assert!(all.iter().all(|s| s.one_sided == 12 && s.rekeys == 0), "{mode}: {all:?}");
    }
}

/// Without room for one window of the least size it is as if nothing could be registered.
#[test]
fn without_room_to_register_anything_messages_go_otherwise() {
    for mode in ["put", "get"] {
        for stats in exchange(&shm(mode), &LENS, |cfg| cfg.shm.register_max = 1) {
            assert_eq!((stats.one_sided, stats.rekeys), (0, 0), "{mode}: {stats:?}");
        }
    }
}

/// Sends some messages from rank 0 to rank 1; of each one's VC, why they do not go as the rank
/// wants.
fn unmet(f: &dyn NetmodFactory, tune: impl Fn(&mut Config)) -> [Option<String>; 2] {
    let tune = |cfg: &mut Config| {
        cfg.eager_max = 0;
        tune(cfg);
    };
    let all = run_job_with(f, 2, tune, |dev| {
        let peer = other(dev);
        for i in 0..3 {
            if dev.rank() == 0 {
                send(dev, pattern(i, 100_000), peer, 1);
            } else {
                check(i, &recv(dev, 100_000, peer, 1).buffer);
            }
        }
        let report = dev.status();
        let [vc] = &report.vcs[..] else { panic!("{} VCs", report.vcs.len()) };
        if let Some(why) = &vc.lmt {
            assert!(report.text().contains(&why[..]), "{}", report.text());
        }
        vc.lmt.clone()
    });
    all.try_into().expect("two ranks")
}

#[test]
fn a_mode_that_cannot_be_had_is_not_silently_another() {
    let tcp = |mode| Lmt { inner: Tcp, mode };
    for (mode, why) in [("get", "has no get"), ("put", "puts only by several pairs of interfaces")] {
        for found in unmet(&tcp(mode), |_| {}) {
            let text = found.expect("tcp has neither");
            let head = format!("NETMOD_LMT={mode} is not honoured over tcp: ");
            assert!(
                text.starts_with(&head) && text.contains(why) && text.contains("NETMOD_LMT=auto"),
                "{text}"
            );
        }
        let found = unmet(&shm(mode), |cfg| cfg.shm.register_max = 1);
        assert!(
            found.iter().any(|f| f.as_ref().is_some_and(|t| t.contains("over shm"))),
            "{mode}: {found:?}"
        );
        assert_eq!(unmet(&shm(mode), |_| {}), [None, None], "{mode}");
    }
    for mode in ["null", "coop", "auto"] {
        assert_eq!(unmet(&tcp(mode), |_| {}), [None, None], "{mode}");
    }
}

/// A mode that only one end wants is reported at that end.
#[test]
fn a_mode_that_the_peer_does_not_want_is_told() {
    let shm = |modes| unmet(&Minds { modes, most: [0; 2] }, |_| {});
    for mode in ["get", "put", "coop"] {
        let [sender, receiver] = shm([mode, "null"]);
        let told = sender.is_some_and(|t| t.contains("the receiver has chosen"));
        assert!(told && receiver.is_none(), "{mode}: {receiver:?}");
        let [sender, receiver] = shm(["null", mode]);
        let told = receiver.is_some_and(|t| t.contains("has not offered"));
        assert!(told && sender.is_none(), "{mode}: {sender:?}");
    }
}

/// Rank 0 sends rank 1 so many messages in pieces, which land in pieces; the statistics of both.
fn in_pieces(f: &dyn NetmodFactory, messages: u64) -> Vec<DeviceStats> {
    run_job_with(
        f,
        2,
        |cfg| cfg.eager_max = 0,
        move |dev| {
            let byte = Datatype::contiguous(1).expect("a byte");
            // Three windows and pieces, neither of a round length.
            let rows = Datatype::vector(1001, 599, 640, &byte).expect("a vector");
            let (peer, world, len) = (other(dev), dev.world(), 1001 * 599);
            let memory = Area::new(vec![0; 1001 * 640]);
            for i in 0..messages {
                let seg = || memory.typed(0, &rows, 1);
                if dev.rank() == 0 {
                    seg().unpack(RxBytes::from_slice(&pattern(i, len)));
                    let send = dev.isend_raw(seg(), peer, 1, world, Mode::Standard).expect("isend");
                    dev.wait_raw(send).expect("send");
                } else {
                    let receive = dev.irecv_raw(seg(), peer, 1, world).expect("irecv");
                    assert_eq!(dev.wait_raw(receive).expect("receive").len, len);
                    let mut got = vec![0; len];
                    seg().pack(&mut got);
                    check(i, &got);
                }
            }
            dev.stats()
        },
    )
}

/// The buffers through which data in pieces goes are given back: there are fewer of them than
/// messages here.
#[test]
fn data_in_pieces_never_runs_out_of_buffers() {
    for mode in ["put", "get"] {
        let stats = in_pieces(&shm(mode), 40);
        let moved: u64 = stats.iter().map(|s| s.one_sided).sum();
        let rekeys: u64 = stats.iter().map(|s| s.rekeys).sum();
        assert_eq!((moved, rekeys), (40, 80), "{mode}: {stats:?}");
    }
}

/// A message that was packed to be exposed is sent whole if the receiver does not read it.
#[test]
fn data_in_pieces_that_is_not_read_is_sent() {
    let stats = in_pieces(&Minds { modes: ["get", "null"], most: [0; 2] }, 2);
    assert!(stats.iter().all(|s| s.one_sided == 0), "{stats:?}");
}

/// With auto nothing is copied before the receiver has chosen; who wants Get gets it.
#[test]
fn data_in_pieces_is_exposed_only_if_that_is_asked_for() {
    for (mode, exposed) in [("auto", 0), ("get", 1)] {
        let (script, mut dev) = Script::device_with(2, true, None, |cfg| cfg.lmt = mode);
        let byte = Datatype::contiguous(1).expect("a byte");
        let rows = Datatype::vector(1000, 300, 400, &byte).expect("a vector");
        let memory = Area::new(vec![1; 400_000]);
        let world = dev.world();
        let send = dev.isend_raw(memory.typed(0, &rows, 1), 1, 1, world, Mode::Standard).expect("isend");
        script.play(&mut dev);
        assert_eq!(script.regions().live(), exposed, "{mode}");
        script.die(1);
        script.play(&mut dev);
        dev.wait_raw(send).expect_err("nobody receives it");
        assert_eq!(script.regions().live(), 0);
    }
}

/// Two ranks of different minds.
#[derive(Clone, Debug)]
struct Minds {
    modes: [&'static str; 2],
    /// Bytes that each may register.
    most: [usize; 2],
}

impl NetmodFactory for Minds {
    fn name(&self) -> String {
        format!("shm with {self:?}")
    }

    fn capabilities(&self) -> Capabilities {
        Shm.capabilities()
    }

    fn config(&self) -> Config {
        shm("null").config()
    }

    fn job(&self, ranks: u32) -> Arc<dyn Job> {
        Arc::new(MindsJob { minds: self.clone(), shm: Shm.job(ranks) })
    }
}

/// Their job over shared memory.
struct MindsJob {
    minds: Minds,
    shm: Arc<dyn Job>,
}

impl Job for MindsJob {
    fn device(&self, boot: Box<dyn Bootstrap>, mut cfg: Config) -> ch3_shim::Result<Device> {
        let rank = boot.rank() as usize;
        (cfg.lmt, cfg.shm.register_max) = (self.minds.modes[rank], self.minds.most[rank]);
        self.shm.device(boot, cfg)
    }

    fn netmod(&self, rank: u32) -> NetSet {
        self.shm.netmod(rank)
    }
}

/// The sender's offer and the receiver's wish must agree; else the mode is Null, never an error.
/// Whether a sender that may choose exposes its data for a get depends on what copies cost
/// here.
#[test]
fn ranks_may_be_of_different_minds() {
    const MODES: [&str; 5] = ["null", "put", "get", "coop", "auto"];
    for (i, a) in MODES.into_iter().enumerate() {
        for b in &MODES[i + 1..] {
            let stats = exchange(&Minds { modes: [a, b], most: [0; 2] }, &LENS, |_| {});
            let agree = *b == "auto" && a != "null";
            for s in stats.iter().filter(|_| (a, *b) != ("get", "auto")) {
                let otherwise = s.one_sided + s.through_rings;
                assert_eq!(otherwise > 0, agree, "{a} and {b}: {s:?}");
            }
        }
    }
}

/// Both ways within a node are tried, whichever the model prefers; each message comes by one of
/// them, and the report says what they have taken.
#[test]
fn two_ways_are_tried_and_reported() {
    const MESSAGES: u64 = 200;
    const LEN: usize = 700_000;
    let job = || {
        let all = run_job_with(
            &shm("auto"),
            2,
            |_| {},
            |dev| {
                let peer = other(dev);
                for seed in 0..MESSAGES {
                    if dev.rank() == 0 {
                        send(dev, pattern(seed, LEN), peer, 1);
                    } else {
                        check(seed, &recv(dev, LEN, peer, 1).buffer);
                    }
                }
                let large: Vec<_> = dev.status().vcs.into_iter().flat_map(|v| v.large).collect();
                (dev.stats(), large, dev.status().text())
            },
        );
        let (stats, large, text) = &all[1];
        assert_eq!(stats.one_sided + stats.through_rings, MESSAGES, "{stats:?}");
        let both = stats.one_sided > 0 && stats.through_rings > 0;
        assert_eq!(large.len(), usize::from(both), "{large:?} of {stats:?}");
        assert_eq!(text.contains("MB/s through a ring"), both, "{text}");
        assert!(large.iter().all(|l| l.len == 1 << 20 && l.ring > 0 && l.kernel > 0), "{large:?}");
        both
    };
    // The model may find one of them hopeless by samples that were disturbed.
    assert!((0..3).any(|_| job()), "one way was never tried");
}
