//! Engines over libfabric that are opened, used and closed again and again leave nothing behind: no
//! descriptor, thread, mapping or file in `/dev/shm`, and no memory but what a provider is known to
//! keep.
//!
//! `NETMOD_TEST_CYCLES` says how often (20 if it is not set). Each provider has a process of its
//! own, which nobody else opens things in.

use std::sync::{Mutex, PoisonError};
use std::thread;

use ch3_shim::Builder;
use netmod_core::Diagnose;
use netmod_ofi::{OfiNetmod, Setup};
use netmod_tests::board::Board;
use netmod_tests::census::{Allowance, Census};
use netmod_tests::conformance::{check, pattern, recv, send, settle};
use netmod_tests::factory::{Lmt, NetmodFactory, Ofi, bare_name};
use netmod_tests::libfabric::again_with;
use netmod_tests::watchdog::Watchdog;

/// Set in the process that a provider has to itself.
const ALONE: &str = "NETMOD_TEST_ALONE";
/// Other variables of that process: one heap for all threads, without caches of freed memory and
/// without large blocks, so that freed memory is gone; and a provider's thread that does not spin.
const ENVIRONMENT: [(&str, &str); 5] = [
    (ALONE, "1"),
    ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0"),
    ("MALLOC_ARENA_MAX", "1"),
    ("MALLOC_MMAP_THRESHOLD_", "65536"),
    ("FI_SOCKETS_PE_WAITTIME", "0"),
];
/// One provider at a time: heavy as they are, the others' cycles would take too long beside them.
static TURN: Mutex<()> = Mutex::new(());
/// Cycles before anything is counted: libraries, pools and caches come into being.
const WARM_UP: u64 = 5;
/// Bytes that go by packets, and that one side puts or gets.
const LENGTHS: [usize; 2] = [40, 100_000];

/// Bytes that a provider keeps of each endpoint and its connection; see
/// `netmod_ofi::choose::DEFECTS`.
fn kept(provider: &str) -> u64 {
    match provider {
        "net" => 1500,
        "shm" => 400,
        _ => 0,
    }
}

/// Two processes' devices, which exchange messages of each length; and a netmod that nobody uses.
fn cycle(provider: &'static str, n: u64) {
    let _watchdog = Watchdog::new();
    // Over shm nothing is put.
    let mode = if n.is_multiple_of(2) || provider == "shm" { "get" } else { "put" };
    let factory = Lmt { inner: Ofi { provider, library: "", max_bytes: 0, many: 0 }, mode };
    let mut cfg = factory.config();
    // The stack of a helper thread that has ended stays in the C library's cache, and not every
    // cycle has a helper.
    cfg.set("NETMOD_PROGRESS", "off").expect("a setting");
    let mut board = Board::new(2);
    let ranks = [0, 1].map(|rank: i32| {
        let builder = Builder::new(cfg.clone(), Box::new(board.place(rank as u32)));
        thread::spawn(move || {
            let mut dev = builder.build().expect("a device");
            let peer = 1 - rank;
            for len in LENGTHS {
                if rank == 0 {
                    send(&mut dev, pattern(n, len), peer, 1);
                    check(n + 1, &recv(&mut dev, len, peer, 1).buffer);
                } else {
                    check(n, &recv(&mut dev, len, peer, 1).buffer);
                    send(&mut dev, pattern(n + 1, len), peer, 1);
                }
            }
            let moved = dev.stats().one_sided;
            settle(&mut dev);
            dev.finalize().expect("finalize");
            moved
        })
    });
    let moved: u64 = ranks.into_iter().map(|r| r.join().expect("a rank")).sum();
    assert_eq!(moved, 2, "{provider}: messages that were moved by {mode}");
    let unused = OfiNetmod::new(&Setup::new(&factory.config().ofi), bare_name(0), 1);
    assert_eq!(unused.failure(), None);
}

fn cycles(test: &str, provider: &'static str) {
    if !(Ofi { provider, library: "", max_bytes: 0, many: 0 }).is_available(test) {
        return;
    }
    if std::env::var_os(ALONE).is_none() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        return again_with(test, &ENVIRONMENT);
    }
    let count: u64 = match std::env::var("NETMOD_TEST_CYCLES") {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("NETMOD_TEST_CYCLES={text} is not a number")),
        Err(_) => 20,
    };
    for n in 0..WARM_UP {
        cycle(provider, n);
    }
    let before = Census::take();
    for n in 0..count {
        cycle(provider, n);
    }
    // Three endpoints a cycle. What else is allowed is what the allocator and its caches do by the
    // way: an endpoint that stays has buffers of a megabyte, and a connection, an address or a
    // registration that stays has some hundred bytes.
    let allocated = (24 << 10) + count * (64 + 3 * kept(provider));
    let allowed = Allowance { allocated, mapped: (1 << 20) + 2 * allocated };
    let after = match Census::settled_since(&before, allowed) {
        Ok(after) => after,
        Err(left) => panic!("{provider}: {count} cycles have left behind: {left}\nbefore: {before}"),
    };
    println!("{provider}, {count} cycles\nbefore: {before}\nafter:  {after}");
}

#[test]
fn over_tcp() {
    cycles("over_tcp", "tcp");
}

#[test]
fn over_net() {
    cycles("over_net", "net");
}

#[test]
fn over_shm() {
    cycles("over_shm", "shm");
}

#[test]
fn over_sockets() {
    cycles("over_sockets", "sockets");
}

#[test]
fn over_udp() {
    cycles("over_udp", "udp");
}
