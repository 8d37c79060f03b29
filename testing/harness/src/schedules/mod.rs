//! Random schedules: a few processes in one thread, over a simulated network in simulated time. A seed decides what is done when: messages in
//! pieces, cancelled, cut by ends and aborts; puts and gets whose memory is taken back early; a process that dies. Each byte is looked at, on both
//! sides and beside the place it was meant for; VCs that nobody has hurt lose nothing and stay up, those that were hurt can be revived;
//! every request ends; the [`World`] has nothing to complain of, and nothing is left.

pub mod data;
mod layer;
pub mod memory;
mod run;
mod seen;
mod transfers;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use run::Run;
pub use seen::Seen;
pub use world::{Plan, World};

/// So many seeds that fail are enough to see what they have in common.
const ENOUGH: usize = 20;

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|e| panic!("{text:?} is no seed: {e}"))
}

/// The seeds that were asked for. `n`: the first so many; `a..b`: those from `a` on, up to before `b`.
pub fn asked() -> Option<Vec<u64>> {
    let one = std::env::var("NETMOD_TEST_SEED").ok();
    one.map(|seed| vec![number(&seed)]).or_else(|| {
        let text = std::env::var("NETMOD_TEST_SEEDS").ok()?;
        let (from, to) = text.split_once("..").unwrap_or(("0", &text));
        Some((number(from)..number(to)).collect())
    })
}

/// Runs the schedules of some seeds; all of them, to see what those that fail have in common.
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
