//! The conformance suite with the smallest windows that can be had: most messages are announced,
//! and many wait before they even are.

use netmod_tests::factory::{Loopback, Tcp, Tight};
use netmod_tests::loopback::{Cut, Options};

const WINDOW: usize = 16 << 10;

fn loopback(options: Options, max_bytes: usize) -> Loopback {
    Loopback { options, max_bytes, eager_max: 128 << 10 }
}

fn tcp() -> Tight<Tcp> {
    Tight { inner: Tcp, window: WINDOW, slots: 2 }
}

/// One announced message at a time.
fn whole() -> Tight<Loopback> {
    Tight { inner: loopback(Options::default(), 2 << 20), window: WINDOW, slots: 1 }
}

/// Nothing is sent at once, so that there is much to be cancelled.
fn queued() -> Tight<Loopback> {
    let options = Options { direct: false, eager: false, ..Options::default() };
    Tight { inner: loopback(options, 1 << 20), window: WINDOW, slots: 2 }
}

/// Random pieces.
fn random() -> Tight<Loopback> {
    let cut = Cut::Random { seed: 43, max: 5000 };
    let options = Options { cut, capacity: 40_000, ..Options::default() };
    Tight { inner: loopback(options, 300_000), window: WINDOW, slots: 3 }
}

netmod_tests::conformance!(over_tcp, tcp());
netmod_tests::conformance!(over_loopback_whole, whole());
netmod_tests::conformance!(over_loopback_queued, queued());
netmod_tests::conformance!(over_loopback_random, random());
