//! The conformance suite: what a device over any netmod must do.
//!
//! One file a concern; each case is a function of a [`NetmodFactory`]. The macro `conformance!`
//! makes a test of every case for one factory, and `conformance_of_large!` of those in which large
//! messages take part.

pub mod cancel;
pub mod closing;
pub mod crowd;
pub mod failing;
pub mod flood;
pub mod forms;
pub mod matching;
pub mod modes;
pub mod onesided;
pub mod order;
pub mod probing;
pub mod scattered;
pub mod scopes;
pub mod send_forms;
pub mod sizes;
pub mod truncation;
pub mod waiting;

use ch3_shim::{Completion, Device};

pub use crate::board::{doing, run_devices, run_job, run_job_with, settle};
pub use crate::factory::NetmodFactory;

/// Makes a module with a test for each case of the suite: `conformance!(name, factory)`, where
/// `factory` is an expression. Attributes in front of the name are those of each test.
#[macro_export]
macro_rules! conformance {
    ($(#[$attr:meta])* $module:ident, $factory:expr) => {
        $crate::conformance_module! { [$(#[$attr])*] $module, $factory;
            order: same_tag mixed_sizes several_tags several_contexts both_directions;
            sizes: expected unexpected back_to_back one_mib sixteen_mib sixty_four_mib;
            scattered: short eager_small eager_large rendezvous both_sides_in_pieces;
            matching: any_source_keeps_each_senders_order any_tag wildcards_and_exact_receives_in_order
                unexpected_in_arrival_order contexts_do_not_mix unexpected_before_and_after;
            truncation: short eager rendezvous strided to_nothing;
            modes: synchronous_waits_for_the_match ready ready_without_receive to_self proc_null bad_arguments;
            forms: receives one_of_several_fails dropped;
            send_forms: to_nobody cancelled received;
            failing: with_their_peer;
            cancel: posted_receive matched_receive queued_send rendezvous_before_the_match
                rendezvous_after_the_match synchronous_before_the_match synchronous_after_the_match
                to_self eager_that_has_gone;
            probing: probe_then_receive iprobe_sees_what_a_receive_would matched_probe nobody;
            waiting: raw_any raw_some raw_all raw_tests owned_forms null_requests
                over_at_once;
            scopes: lends_and_returns waits_within early_error early_error_with_a_rendezvous panic_within
                forgotten_requests freed_requests;
            closing: disconnect_and_reuse crossing_closes_then_sends_at_once several_peers
                finalize_with_unexpected_messages finalize_with_sends_in_flight finalize_unused a_peer_dies;
            onesided: memory_changes_as_it_should memory_is_given_back;
            crowd: crossing_connects many_to_one all_to_all;
            flood: short_messages all_sizes both_ways wildcards last_first behind_it cancelled
                closed_in_between to_self a_flooded_peer_dies;
        }
    };
}

/// The tests of [`conformance!`] in which large messages take part, for one of several ways of them
/// over a netmod that has all tests with another one.
#[macro_export]
macro_rules! conformance_of_large {
    ($(#[$attr:meta])* $module:ident, $factory:expr) => {
        $crate::conformance_module! { [$(#[$attr])*] $module, $factory;
            order: mixed_sizes both_directions;
            sizes: expected unexpected back_to_back one_mib sixteen_mib sixty_four_mib;
            scattered: eager_large rendezvous both_sides_in_pieces;
            truncation: rendezvous strided to_nothing;
            cancel: matched_receive rendezvous_before_the_match rendezvous_after_the_match;
            probing: matched_probe;
            scopes: early_error_with_a_rendezvous;
            closing: disconnect_and_reuse crossing_closes_then_sends_at_once finalize_with_sends_in_flight
                a_peer_dies;
            onesided: memory_changes_as_it_should memory_is_given_back;
            crowd: all_to_all;
            flood: all_sizes both_ways behind_it closed_in_between a_flooded_peer_dies;
        }
    };
}

/// A module of tests; not for use by itself.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_module {
    ($attrs:tt $module:ident, $factory:expr; $($cases:tt)*) => {
        mod $module {
            #[allow(unused_imports)]
            use super::*;

            /// Made in one place, since each test would compile the expression again.
            fn factory_under_test() -> Box<dyn $crate::factory::NetmodFactory> {
                Box::new($factory)
            }

            $crate::conformance_cases! { $attrs $($cases)* }
        }
    };
}

/// The tests of [`conformance!`]; not for use by itself.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    ($attrs:tt $($file:ident: $($case:ident)*;)*) => {
        $(mod $file {
            $($crate::conformance_case! { $attrs $file, $case })*
        })*
    };
}

/// One test of [`conformance!`]; not for use by itself.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_case {
    ([$($attr:tt)*] $file:ident, $case:ident) => {
        #[test]
        $($attr)*
        fn $case() {
            let case = $crate::conformance::$file::$case;
            $crate::conformance::run_case(stringify!($case), case, super::factory_under_test);
        }
    };
}

/// Runs one case over one factory, if this machine has its netmod; not for use by itself.
#[doc(hidden)]
pub fn run_case(name: &str, case: fn(&dyn NetmodFactory), factory: fn() -> Box<dyn NetmodFactory>) {
    let factory = factory();
    if factory.is_available(name) {
        case(&*factory);
    }
}

/// `len` bytes that depend on their position, and on `seed`.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    for (i, chunk) in out.chunks_mut(8).enumerate() {
        let word = mix(seed, i as u64).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    out
}

fn mix(seed: u64, i: u64) -> u64 {
    let x = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed.wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 32)
}

/// Checks that these are the bytes of [`pattern`].
///
/// # Panics
/// If they are not, saying where.
pub fn check(seed: u64, got: &[u8]) {
    for (i, chunk) in got.chunks(8).enumerate() {
        let word = mix(seed, i as u64).to_le_bytes();
        if chunk != &word[..chunk.len()] {
            let at = chunk.iter().zip(word).position(|(a, b)| *a != b).unwrap_or(0);
            panic!(
                "byte {} of {} is wrong (pattern {seed}): {chunk:?} instead of {word:?}",
                i * 8 + at,
                got.len()
            );
        }
    }
}

/// Sends and waits.
///
/// # Panics
/// If that fails.
pub fn send(dev: &mut Device, data: Vec<u8>, dest: i32, tag: i32) {
    let world = dev.world();
    let req = dev.isend(data, dest, tag, world).unwrap_or_else(|e| panic!("isend to {dest}: {e}"));
    dev.wait(req).unwrap_or_else(|e| panic!("send to {dest}: {e}"));
}

/// Receives up to `max` bytes and waits; the buffer is cut to what came.
///
/// # Panics
/// If that fails.
pub fn recv(dev: &mut Device, max: usize, source: i32, tag: i32) -> Completion {
    let world = dev.world();
    let req =
        dev.irecv(vec![0; max], source, tag, world).unwrap_or_else(|e| panic!("irecv from {source}: {e}"));
    let mut done = dev.wait(req).unwrap_or_else(|e| panic!("receive from {source}: {e}"));
    done.buffer.truncate(done.status.len);
    done
}

/// Tag of the empty messages by which cases keep ranks in step; no case uses it otherwise.
pub const STEP: i32 = 0x7fff_0000;

/// Tells a rank to go on.
pub fn go(dev: &mut Device, dest: i32) {
    send(dev, Vec::new(), dest, STEP);
}

/// Waits until a rank says [`go`].
pub fn await_go(dev: &mut Device, source: i32) {
    recv(dev, 0, source, STEP);
}

/// The peer of a job of two.
pub fn other(dev: &Device) -> i32 {
    1 - dev.rank() as i32
}

/// Lengths of one message of each protocol: in the header, eager and copied, eager and not copied,
/// rendezvous.
pub fn protocols(dev: &Device) -> [usize; 4] {
    [8, 1000, 20_000, dev.config().eager_max + 1000]
}
