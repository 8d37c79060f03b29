//! Engines that share a scalable endpoint of libfabric's, each with a context of its own: over the
//! fake provider within this process, and over sockets, the only real provider that has such
//! endpoints here.

use std::process::Command;
use std::thread;

use ch3_shim::Config;
use ch3_shim::{Builder, Device, Multiple};
use libfabric_sys::consts::{FI_MR_ENDPOINT, FI_MR_LOCAL, FI_MR_PROV_KEY, FI_MR_VIRT_ADDR};
use netmod_core::Diagnose;
use netmod_fake_fabric::{Again, Control, Progress, Settings, World};
use netmod_ofi::{OfiNetmod, Setup};
use netmod_tests::board::Board;
use netmod_tests::factory::{NetmodFactory, Ofi, bare_name};
use netmod_tests::jobs::launch::{self, run};
use netmod_tests::jobs::threads::mixed;
use netmod_tests::watchdog::Watchdog;

const JOB: &str = env!("CARGO_BIN_EXE_netmod-job");
const SOCKETS: Ofi = Ofi { provider: "sockets", library: "", max_bytes: 0, many: 0 };

fn many(contexts: usize) -> Settings {
    Settings::default().max_ep_tx_ctx(contexts).max_ep_rx_ctx(contexts)
}

fn fake(settings: Settings) -> World {
    World::new(&Control::load(&netmod_fake_fabric::library_path()).1, settings)
}

/// Over a world of the fake provider, or sockets if there is none.
fn config(world: Option<&World>) -> Config {
    let mut cfg = SOCKETS.config();
    if let Some(world) = world {
        cfg.ofi.library = netmod_fake_fabric::library_path().to_string_lossy().into_owned();
        cfg.ofi.provider = "fake".into();
        cfg.ofi.domain = world.name().into();
    }
    cfg
}

/// Two ranks of `engines` engines each, whose threads send to each other in all ways that there
/// are. `tune` says how each rank is set up.
fn exchange(world: Option<&World>, engines: &str, threads: usize, tune: impl Fn(u32, &mut Config)) {
    let _watchdog = Watchdog::new();
    let mut board = Board::new(2);
    thread::scope(|s| {
        for rank in 0..2 {
            let mut cfg = config(world);
            cfg.set("NETMOD_ENGINES", engines).expect("a number of engines");
            tune(rank, &mut cfg);
            let builder = Builder::new(cfg, Box::new(board.place(rank)));
            s.spawn(move || {
                let dev: Device<Multiple> = builder.build_thread().expect("a device");
                mixed(&dev, threads, 12, 5).unwrap_or_else(|e| panic!("rank {rank}: {e}"));
                dev.finalize().expect("finalize");
            });
        }
    });
}

/// Checks the number of endpoints that were made, that all calls were right, and nothing is left.
fn ended(world: World, endpoints: usize) {
    assert_eq!(world.violations(), [""; 0]);
    assert_eq!(world.nodes().len(), endpoints);
    let mut leaks = world.close();
    // The last data of a process may still be under way.
    leaks.abandoned = 0;
    assert!(leaks.is_none(), "{leaks:?}");
}

fn contexts(n: usize) -> impl Fn(u32, &mut Config) {
    move |_, cfg| cfg.ofi.contexts = n
}

#[test]
fn engines_of_two_processes() {
    for progress in [Progress::Auto, Progress::Manual] {
        let world = fake(many(4).progress(progress));
        exchange(Some(&world), "3", 6, contexts(3));
        ended(world, 2);
    }
}

#[test]
fn more_engines_than_contexts() {
    let world = fake(many(4));
    exchange(Some(&world), "5", 5, contexts(2));
    ended(world, 6);
    // The provider has fewer than were asked for.
    let world = fake(many(2));
    exchange(Some(&world), "3", 3, contexts(16));
    ended(world, 4);
}

#[test]
fn plain_endpoints_and_contexts_reach_each_other() {
    let world = fake(many(4));
    exchange(Some(&world), "3", 3, |rank, cfg| cfg.ofi.contexts = if rank == 0 { 3 } else { 1 });
    ended(world, 1 + 3);
    let world = fake(many(4));
    exchange(Some(&world), "3", 3, |rank, cfg| {
        (cfg.ofi.contexts, cfg.ofi.disable_sep) = (3, rank == 0);
    });
    ended(world, 3 + 1);
    // There are none.
    let world = fake(many(1));
    exchange(Some(&world), "3", 3, contexts(3));
    ended(world, 3 + 3);
}

/// Large messages are read and written through contexts, registered as the provider wants it.
#[test]
fn large_messages() {
    for (mode, mr_mode) in [
        ("get", 0),
        ("put", 0),
        ("get", FI_MR_LOCAL | FI_MR_ENDPOINT | FI_MR_VIRT_ADDR),
        ("put", FI_MR_LOCAL | FI_MR_ENDPOINT | FI_MR_PROV_KEY),
    ] {
        let world = fake(many(4).mr_mode(mr_mode).mr_key_size(2).again(Again::all(0.1)).delivery_delay(3));
        exchange(Some(&world), "3", 6, |_, cfg| {
            cfg.ofi.contexts = 3;
            cfg.lmt = mode;
            (cfg.lmt_min, cfg.eager_max) = (1, 2048);
        });
        let stats = world.stats();
        let moved = if mode == "get" { stats.reads } else { stats.writes };
        assert!(moved > 0, "{mode}: {stats:?}");
        ended(world, 2);
    }
}

#[test]
fn what_is_open_and_why() {
    let opened = |settings, tune: fn(&mut Config)| {
        let world = fake(settings);
        let mut cfg = config(Some(&world));
        tune(&mut cfg);
        let netmods = [0, 1].map(|_| OfiNetmod::new(&Setup::new(&cfg.ofi), bare_name(0), 1));
        let texts = netmods.each_ref().map(|n| n.opened().replace(world.name(), "W"));
        drop(netmods);
        assert!(world.violations().is_empty() && world.close().is_none());
        texts
    };
    let share: fn(&mut Config) = |cfg| cfg.ofi.contexts = 3;
    assert_eq!(opened(many(4), share), ["fake W (context 0 of 3)", "fake W (context 1 of 3)"]);
    assert_eq!(opened(many(4), |_| {}), ["fake W"; 2]);
    let disabled = opened(many(4), |cfg| (cfg.ofi.contexts, cfg.ofi.disable_sep) = (3, true));
    assert_eq!(disabled, ["fake W (a plain endpoint: NETMOD_OFI_DISABLE_SEP is set)"; 2]);
    assert_eq!(opened(many(1), share), ["fake W (a plain endpoint: fake has no scalable endpoints)"; 2]);
}

#[test]
fn sockets_within_a_process() {
    if !SOCKETS.is_available("sockets_within_a_process") {
        return;
    }
    exchange(None, "3", 3, contexts(3));
    exchange(None, "3", 3, |rank, cfg| cfg.ofi.contexts = if rank == 0 { 2 } else { 1 });
}

#[test]
fn sockets_between_processes() {
    if !SOCKETS.is_available("sockets_between_processes") {
        return;
    }
    for lmt in ["null", "get", "put"] {
        let mut c = Command::new(launch::workspace_program(JOB, "netmod-pmi", "nmrun"));
        c.args(["-n", "2", JOB, "threads", "4", "12"]);
        c.envs([("NETMOD", "ofi"), ("NETMOD_OFI_PROVIDER", "sockets"), ("FI_SOCKETS_PE_WAITTIME", "0")]);
        c.envs([("NETMOD_ENGINES", "3"), ("NETMOD_OFI_CONTEXTS", "3")]);
        c.envs([("NETMOD_LMT", lmt), ("NETMOD_LMT_MIN", "1"), ("NETMOD_EAGER_MAX", "2048")]);
        run(&mut c).expect_ok("threads", 2);
    }
}
