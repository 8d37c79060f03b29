//! Random schedules: a few processes in one thread, over a simulated network in simulated time.
//!
//! A seed decides the order of events: messages in pieces, cancelled, or cut by endings and aborts;
//! puts and gets whose memory is taken back early; a process that dies. Each byte is checked on
//! both sides, and so are the bytes around its destination. VCs that nothing has disturbed lose
//! nothing and stay up; the others can be revived. Every request ends, the [`World`] reports no
//! violations, and nothing is left.

pub mod data;
mod layer;
pub mod memory;
mod rank;
mod run;
mod seen;
mod transfers;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use run::Run;
pub use seen::Seen;
pub use world::{Plan, World};

/// Failing seeds after which no further seeds are run.
const ENOUGH: usize = 20;

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|e| panic!("{text:?} is no seed: {e}"))
}

/// Returns the requested seeds. `n`: the first n; `a..b`: from `a` up to before `b`.
pub fn asked() -> Option<Vec<u64>> {
    let one = std::env::var("NETMOD_TEST_SEED").ok();
    one.map(|seed| vec![number(&seed)]).or_else(|| {
        let text = std::env::var("NETMOD_TEST_SEEDS").ok()?;
        let (from, to) = text.split_once("..").unwrap_or(("0", &text));
        Some((number(from)..number(to)).collect())
    })
}

/// Runs the schedules of some seeds. Failures do not stop it, so that the failing seeds can be
/// compared.
pub fn each<S: core::fmt::Debug>(
    seeds: &[u64],
    setting: impl Fn(u64) -> S,
    run: impl Fn(&S) -> Seen,
) -> Seen {
    let mut all = Seen::default();
    let mut failed = Vec::new();
    for &seed in seeds {
        if seeds.len() == 1 {
            println!("{:#?}", setting(seed));
        }
        match catch_unwind(AssertUnwindSafe(|| run(&setting(seed)))) {
            Ok(seen) => all.add(&seen),
            Err(_) => {
                eprintln!("the schedule was that of NETMOD_TEST_SEED={seed}");
                failed.push(seed);
                if failed.len() == ENOUGH {
                    break;
                }
            }
        }
    }
    println!("{} seeds: {all:?}", seeds.len());
    assert!(failed.is_empty(), "these of {} seeds fail: {failed:?}", seeds.len());
    all
}
