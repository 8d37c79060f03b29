//! The conformance suite for TCP, for shared memory, and for the netmod in memory with deliveries
//! cut in several ways.

use netmod_tests::factory::{Loopback, Shm, Tcp};
use netmod_tests::loopback::{Cut, Options};

fn tcp() -> Tcp {
    Tcp
}

fn loopback(options: Options, max_bytes: usize, eager_max: usize) -> Loopback {
    Loopback { options, max_bytes, eager_max }
}

/// Everything at once, wherever it belongs.
fn whole() -> Loopback {
    loopback(Options::default(), 64 << 20, 128 << 10)
}

/// Nothing goes straight to its place, and nothing is sent at once.
fn queued() -> Loopback {
    loopback(Options { direct: false, eager: false, ..Options::default() }, 16 << 20, 128 << 10)
}

/// A byte at a time.
fn bytewise() -> Loopback {
    loopback(Options { cut: Cut::Bytes(1), capacity: 16 << 10, ..Options::default() }, 70_000, 24 << 10)
}

/// Pieces of prime lengths, into small room.
fn primes() -> Loopback {
    loopback(Options { cut: Cut::Primes, capacity: 1000, ..Options::default() }, 300_000, 64 << 10)
}

/// Random pieces.
fn random() -> Loopback {
    let cut = Cut::Random { seed: 42, max: 5000 };
    loopback(Options { cut, capacity: 40_000, ..Options::default() }, 4 << 20, 128 << 10)
}

netmod_tests::conformance!(over_tcp, tcp());
netmod_tests::conformance!(over_shm, Shm);
netmod_tests::conformance!(over_loopback_whole, whole());
netmod_tests::conformance!(over_loopback_queued, queued());
netmod_tests::conformance!(over_loopback_bytewise, bytewise());
netmod_tests::conformance!(over_loopback_primes, primes());
netmod_tests::conformance!(over_loopback_random, random());
