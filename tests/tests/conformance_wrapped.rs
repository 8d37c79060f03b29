//! The conformance suite within the wrappers: whatever they do to the bytes that is no loss, nobody
//! notices.

use std::time::Duration;

use netmod_tests::factory::{Captured, Faults, Loopback, Tcp};
use netmod_tests::loopback::{Cut, Options};
use netmod_wrap::FaultPlan;

fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

/// Each piece is cut, mostly where the headers are, and comes late.
fn tcp_split_and_delayed() -> Faults<Tcp> {
    let plan = FaultPlan::new(11).split(0.7).delay(us(0), us(300));
    Faults { inner: Tcp, plan, max_bytes: 4 << 20 }
}

/// Messages are held before they are sent.
fn tcp_held() -> Faults<Tcp> {
    let plan = FaultPlan::new(12).send_delay(us(0), us(200)).split(0.1);
    Faults { inner: Tcp, plan, max_bytes: 4 << 20 }
}

fn loopback_split_delayed_and_held() -> Faults<Loopback> {
    let plan = FaultPlan::new(13).split(0.5).delay(us(0), us(200)).send_delay(us(0), us(100));
    let inner = Loopback { options: Options::default(), max_bytes: 64 << 20, eager_max: 64 << 10 };
    Faults { inner, plan, max_bytes: 4 << 20 }
}

fn captured() -> Captured {
    let options = Options { cut: Cut::Primes, capacity: 5000, ..Options::default() };
    Captured(Loopback { options, max_bytes: 1 << 20, eager_max: 64 << 10 })
}

netmod_tests::conformance!(over_captured_loopback, captured());
netmod_tests::conformance!(over_tcp_split_and_delayed, tcp_split_and_delayed());
netmod_tests::conformance!(over_tcp_with_sends_held, tcp_held());
netmod_tests::conformance!(over_loopback_with_all_of_it, loopback_split_delayed_and_held());
