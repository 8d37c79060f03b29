//! The descriptor for event loops: no message is missed between arming and waiting.

use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::Barrier;
use std::time::Duration;

use ch3_shim::Config;
use ch3_shim::pkt::{Packet, ShortData};
use ch3_shim::tagmatch::Envelope;
use ch3_shim::{ANY_TAG, Builder, Device, VirtualClock};
use netmod_core::{Arm, Diagnose, Netmod, Pollers};
use netmod_fake_fabric::{Again, Control, World, library_path};
use netmod_ofi::OfiConfig;
use netmod_ofi::{OfiNetmod, Setup};
use netmod_tests::board::{Board, run_job_with};
use netmod_tests::conformance::NetmodFactory;
use netmod_tests::factory::{Ofi, Shm, Tcp, bare_name};
use netmod_tests::jobs::launch;
use netmod_tests::jobs::pattern::{Random, seed};
use netmod_tests::jobs::sys::readable;
use netmod_tests::libfabric::{again_with, first_or_skip};
use netmod_tests::scripted::{Misled, Script};
use netmod_tests::watchdog::Watchdog;

/// Far longer than any message takes: a wait that ends by time has missed one.
const MISSED: Duration = Duration::from_secs(20);

/// One receive as an event loop does it; how often it has waited.
fn receive(dev: &mut Device, len: usize, source: i32) -> u32 {
    let fd = dev.wait_fd().expect("a descriptor").as_raw_fd();
    let world = dev.world();
    let mut req = dev.irecv(vec![0; len], source, ANY_TAG, world).expect("irecv");
    let mut waits = 0;
    loop {
        req = match dev.test(req).expect("test") {
            Ok(done) => {
                assert_eq!(done.status.len, len);
                return waits;
            }
            Err(req) => req,
        };
        if dev.arm() == Arm::Armed {
            waits += 1;
            assert!(readable(fd, MISSED).expect("poll"), "armed, and nothing came for {MISSED:?}");
        }
    }
}

/// Two ranks answer each other, each at a random moment of the other's way from test to wait.
fn answers(f: &dyn NetmodFactory, rounds: u64, longest: usize, spin: &'static str) {
    let tune = move |cfg: &mut Config| {
        cfg.set("NETMOD_SPIN", spin).expect("a spin");
        // The default has no descriptor if each rank has a core.
        cfg.set("NETMOD_OFI_WAIT", "fd").expect("a way to wait");
    };
    let waits = run_job_with(f, 2, tune, move |dev| {
        let peer = 1 - dev.rank() as i32;
        let world = dev.world();
        let mut random = Random::new(seed(&[u64::from(dev.rank()), longest as u64]));
        let mut sizes = Random::new(seed(&[longest as u64]));
        let mut waits = 0;
        // The connection is made with timers of its own, which this loop does not heed.
        dev.barrier(world).expect("barrier");
        for _ in 0..rounds {
            let len = sizes.below(longest);
            if dev.rank() == 0 {
                delay(&mut random);
                dev.send(&vec![1; len], peer, 3, world).expect("send");
                waits += receive(dev, len, peer);
            } else {
                waits += receive(dev, len, peer);
                delay(&mut random);
                dev.send(&vec![2; len], peer, 4, world).expect("send");
            }
        }
        dev.barrier(world).expect("barrier");
        waits
    });
    // The point of the exercise: that many waits were there to be missed.
    assert!(u64::from(waits[0] + waits[1]) > rounds / 4, "{waits:?} waits in {rounds} rounds");
}

/// From nothing to about what a wait takes to begin.
fn delay(random: &mut Random) {
    for _ in 0..random.below(3000) {
        std::hint::spin_loop();
    }
}

#[test]
fn small_messages() {
    answers(&Tcp, 5000, 64, "0");
}

#[test]
fn small_messages_through_memory() {
    answers(&Shm, 5000, 64, "0");
}

#[test]
fn eager_and_rendezvous() {
    answers(&Tcp, 300, 400_000, "100");
}

#[test]
fn eager_and_rendezvous_through_memory() {
    answers(&Shm, 300, 400_000, "100");
}

/// Over sockets of a provider's. Its other one for TCP, net, has no descriptor that is of use
/// before libfabric 2.0, and is gone then.
fn over_libfabric(test: &str, rounds: u64, longest: usize, spin: &'static str) {
    let f = Ofi { provider: "tcp", library: "", max_bytes: 0, many: 0 };
    if f.is_available(test) {
        answers(&f, rounds, longest, spin);
    }
}

#[test]
fn small_messages_over_libfabric() {
    over_libfabric("small_messages_over_libfabric", 2000, 64, "0");
}

/// With a setting with which the descriptor does not always wake, there is none, and who waits
/// naps.
#[test]
fn a_descriptor_that_does_not_wake_is_not_used() {
    const SETTING: &str = "FI_OFI_RXM_DEF_TCP_WAIT_OBJ";
    let Some(library) = first_or_skip("a descriptor that does not wake") else { return };
    if library.version() >= libfabric_sys::version(2, 0) {
        return;
    }
    let set = std::env::var_os(SETTING).is_some();
    let cfg = OfiConfig { provider: "tcp;ofi_rxm".into(), domain: "lo".into(), ..OfiConfig::default() };
    let netmod = OfiNetmod::new(&Setup::new(&cfg), bare_name(0), 1);
    assert_eq!((netmod.failure(), netmod.wait_fd().is_none()), (None, set));
    if !set {
        again_with("a_descriptor_that_does_not_wake_is_not_used", &[(SETTING, "pollfd")]);
    }
}

/// Two ranks over the fake provider, which read what is announced to them, and wait in that way.
/// They have met when they are called.
fn read_over_fake(
    settings: netmod_fake_fabric::Settings,
    wait: &'static str,
    run: impl Fn(u32, &mut Device) + Sync,
) {
    let _watchdog = Watchdog::new();
    let fabric = World::new(&Control::load(&library_path()).1, settings);
    let mut board = Board::new(2);
    std::thread::scope(|s| {
        for rank in 0..2 {
            let mut cfg = Config::default();
            (cfg.lmt, cfg.lmt_min, cfg.eager_max) = ("get", 1, 0);
            cfg.netmods = vec!["ofi".into()];
            cfg.ofi.library = library_path().display().to_string();
            (cfg.ofi.provider, cfg.ofi.domain) = ("fake".into(), fabric.name().to_owned());
            cfg.ofi.wait = wait;
            let builder = Builder::new(cfg, Box::new(board.place(rank)));
            let run = &run;
            s.spawn(move || {
                let mut dev = builder.build().expect("a device");
                // A message that is announced before there is a connection is not read, but sent.
                dev.barrier(dev.world()).expect("barrier");
                run(rank, &mut dev);
                dev.finalize().expect("finalize");
            });
        }
    });
    assert_eq!(fabric.violations(), [""; 0]);
}

/// A netmod without a descriptor is looked after in naps: a part of the time that nothing came, up
/// to some milliseconds, and short again after something has come. So few polls are made in a
/// second, and what comes is late by little.
#[test]
fn naps_grow_until_something_comes() {
    const FIRST: Duration = Duration::from_micros(4);
    const LONGEST: Duration = Duration::from_millis(16);
    let clock = VirtualClock::new();
    let (script, mut dev) = Script::device_at(2, false, Some(clock.clone()));
    let nap = |dev: &mut Device| {
        assert!(!dev.progress().expect("progress"));
        assert_eq!(dev.arm(), Arm::Armed);
        let until = dev.deadline().expect("a nap ends");
        until.since(dev.now())
    };
    let (mut naps, mut waited) = (0, Duration::ZERO);
    // After a second the process manager is looked at.
    while waited < Duration::from_millis(900) {
        let next = nap(&mut dev);
        assert_eq!(next, (waited / 32).clamp(FIRST, LONGEST));
        clock.set(clock.now() + next);
        waited += next;
        naps += 1;
    }
    assert!(naps < 400, "{naps} naps in {waited:?}");
    let data = ShortData::new(b"abc").expect("short");
    script.send(1, &Packet::EagerShort { env: Envelope::new(0, 1, 5), ready: false, data }.emit());
    assert!(dev.progress().expect("progress"));
    while dev.progress().expect("progress") {}
    assert_eq!(nap(&mut dev), FIRST);
}

/// A netmod that has a descriptor that is readable for ever, or never lets one wait: a wait sleeps
/// all the same.
#[test]
fn a_netmod_that_misleads_is_looked_after_in_naps() {
    const WAIT: Duration = Duration::from_millis(500);
    for how in [Misled::Readable, Misled::Busy] {
        let tune = |cfg: &mut Config| cfg.set("NETMOD_SPIN", "0").expect("a number of polls");
        let (script, mut dev) = Script::device_with(2, false, None, tune);
        let world = dev.world();
        script.mislead(how);
        let data = ShortData::new(b"abc").expect("short");
        let bytes = Packet::EagerShort { env: Envelope::new(0, 1, 5), ready: false, data }.emit();
        let sender = script.clone();
        let sending = std::thread::spawn(move || {
            std::thread::sleep(WAIT);
            sender.send(1, &bytes);
        });
        let before = script.all_polls();
        dev.recv(&mut [0; 3], 1, 5, world).expect("recv");
        let polls = script.all_polls() - before;
        sending.join().expect("the sender");
        assert!(polls < 2000, "{how:?}: {polls} polls in {WAIT:?}");
        script.mislead(Misled::No);
    }
}

/// A peer's device reads memory of this process only while that is polled, where it has no thread:
/// however long that takes, naps stay short.
#[test]
fn naps_are_short_while_memory_is_moved() {
    const SHORT: Duration = Duration::from_micros(20);
    let announced = Barrier::new(2);
    read_over_fake(netmod_fake_fabric::Settings::default(), "none", |rank, dev| {
        let world = dev.world();
        if rank == 1 {
            announced.wait();
            dev.recv(&mut vec![0; 50_000], 0, 1, world).expect("recv");
        } else {
            while dev.progress().expect("progress") {}
            let nap = |dev: &mut Device| {
                dev.progress().expect("progress");
                while dev.arm() == Arm::Busy {
                    dev.progress().expect("progress");
                }
                dev.deadline().expect("a nap ends").since(dev.now())
            };
            // Long enough for naps that are not short any more.
            let waited = |dev: &mut Device| {
                nap(dev);
                std::thread::sleep(Duration::from_millis(5));
                nap(dev)
            };
            let idle = waited(dev);
            let large = dev.isend(vec![7; 50_000], 1, 1, world).expect("isend");
            let naps = waited(dev);
            announced.wait();
            dev.wait(large).expect("wait");
            assert!(idle > SHORT && naps <= SHORT, "{idle:?} {naps:?}");
        }
    });
}

/// A descriptor costs each message: there is one where cores are shared, and where the user wants
/// it.
#[test]
fn a_descriptor_of_libfabric_only_where_cores_are_shared() {
    let (_, control) = Control::load(&library_path());
    let world = World::new(&control, netmod_fake_fabric::Settings::default());
    let here = |processes| Pollers { processes, engines: 2, millicores: 4000 };
    for (wait, pollers, expected) in [
        ("auto", here(2), false),
        ("auto", here(3), true),
        ("auto", Pollers::UNKNOWN, true),
        ("none", here(3), false),
        ("fd", here(2), true),
    ] {
        let config = OfiConfig {
            library: library_path().display().to_string(),
            provider: "fake".into(),
            domain: world.name().to_owned(),
            wait,
            ..OfiConfig::default()
        };
        let netmod = OfiNetmod::new(&Setup { config, pollers }, bare_name(0), 1);
        assert_eq!(netmod.failure(), None);
        assert_eq!(netmod.wait_fd().is_some(), expected, "{wait} {pollers:?}");
        assert_eq!(netmod.opened().contains("NETMOD_OFI_WAIT"), !expected, "{}", netmod.opened());
    }
    assert!(world.close().is_none());
}

/// No event tells of a transfer that the provider does not take: a waiter looks again soon.
#[test]
fn a_transfer_that_is_refused_is_tried_again_soon() {
    const SOON: Duration = Duration::from_millis(1);
    let refuses = Again { read: 0.97, ..Again::default() };
    read_over_fake(netmod_fake_fabric::Settings::default().again(refuses), "fd", |rank, dev| {
        let world = dev.world();
        if rank == 0 {
            let large = dev.isend(vec![7; 50_000], 1, 1, world).expect("isend");
            dev.send(&[], 1, 2, world).expect("send");
            dev.wait(large).expect("wait");
        } else {
            // A message that was announced before this one has arrived is read at once.
            dev.recv(&mut [], 0, 2, world).expect("recv");
            let mut req = dev.irecv(vec![0; 50_000], 0, 1, world).expect("irecv");
            let mut waits = 0;
            loop {
                req = match dev.test(req).expect("test") {
                    Ok(_) => break,
                    Err(req) => req,
                };
                if dev.arm() == Arm::Armed {
                    waits += 1;
                    let until = dev.deadline().expect("somebody looks again");
                    assert!(until.since(dev.now()) <= SOON, "{:?}", dev.report());
                }
            }
            assert!(waits > 0, "nothing was refused");
        }
    });
}

#[test]
fn eager_and_rendezvous_over_libfabric() {
    over_libfabric("eager_and_rendezvous_over_libfabric", 200, 400_000, "100");
}

/// A descriptor for each device, made once, and gone with it.
#[test]
fn it_stays_the_same() {
    run_job_with(
        &Tcp,
        1,
        |_| {},
        |dev| {
            let fd = dev.wait_fd().expect("a descriptor").as_raw_fd();
            assert_eq!(dev.wait_fd().expect("a descriptor").as_raw_fd(), fd);
            while dev.arm() == Arm::Busy {
                dev.progress().expect("progress");
            }
            assert!(!readable(fd, Duration::ZERO).expect("poll"), "readable without an event");
            // A message to itself needs no descriptor; it is there at once.
            let world = dev.world();
            let send = dev.isend(vec![5; 3], 0, 0, world).expect("isend");
            assert_eq!(receive(dev, 3, 0), 0);
            dev.wait(send).expect("wait");
        },
    );
}

/// The example that shares tokio's event loop, as a job.
#[test]
fn an_event_loop_of_tokio() {
    let job = env!("CARGO_BIN_EXE_netmod-job");
    let nmrun = launch::workspace_program(job, "netmod-pmi", "nmrun");
    let example = launch::workspace_example(job, "ch3-shim", "tokio");
    launch::run(Command::new(nmrun).args(["-n", "2"]).arg(example)).expect_ok("tokio", 2);
}
