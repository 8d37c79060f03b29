//! Random schedules of netmods over the fake provider: two to four processes in one thread, simulated time, and all that a provider may
//! demand or get wrong. `NETMOD_TEST_SEEDS` says how many seeds are run, `NETMOD_TEST_SEED` which one alone.

mod layer;
mod memory;
mod rng;
mod run;
mod seen;
mod setting;
mod transfers;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fake_fabric::{Control, MrDialect, ToTheDead, library_path};

use run::Run;
use seen::Seen;
use setting::{Setting, mr_mode, of_seed};

/// Seeds without a wish.
const SEEDS: u64 = 400;
/// Processes that die, in schedules that are made for that.
const DEATHS: u64 = 60;
/// So many failures are enough to see what they have in common.
const FAILURES: usize = 20;

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|e| panic!("{text:?} is no seed: {e}"))
}

/// `n`: the first so many seeds; `a..b`: those from `a` on, up to before `b`.
fn seeds() -> Range<u64> {
    match std::env::var("NETMOD_TEST_SEEDS") {
        Err(_) => 0..SEEDS,
        Ok(text) => match text.split_once("..") {
            Some((from, to)) => number(from)..number(to),
            None => 0..number(&text),
        },
    }
}

/// Whatever the provider is like and whatever goes wrong: bytes are right and in order, nothing comes twice, every request ends, no rule
/// is broken, nothing is left.
#[test]
fn random_schedules() {
    let (_library, control) = Control::load(&library_path());
    if let Ok(seed) = std::env::var("NETMOD_TEST_SEED") {
        let setting = of_seed(number(&seed));
        println!("{setting:#?}");
        println!("{:#?}", Run::of(&control, &setting));
        return;
    }
    let seeds = seeds();
    let mut all = Seen::default();
    let mut failed = Vec::new();
    for seed in seeds.clone() {
        match catch_unwind(AssertUnwindSafe(|| Run::of(&control, &of_seed(seed)))) {
            Ok(seen) => all.add(&seen),
            Err(_) => {
                eprintln!("the schedule was that of NETMOD_TEST_SEED={seed}");
                failed.push(seed);
                if failed.len() == FAILURES {
                    break;
                }
            }
        }
    }
    println!("seeds {seeds:?}: {all:?}");
    assert!(failed.is_empty(), "these of the seeds {seeds:?} fail: {failed:?}");
    // The schedules are of no use if what they are for does not happen.
    if seeds.end - seeds.start >= SEEDS {
        assert!(all.is_full(), "{all:?}");
    }
}

/// Every set of modes, with messages, a put and a get that are known to have happened.
#[test]
fn every_mode_of_registration() {
    let (_library, control) = Control::load(&library_path());
    let dialects = [(32, MrDialect::Bits), (1, MrDialect::Basic), (1, MrDialect::Scalable)];
    for (sets, dialect) in dialects {
        for n in 0..sets {
            for multi_recv in [true, false] {
                let mut setting = plain(n);
                setting.world.mr_mode = mr_mode(n);
                setting.world.mr_dialect = dialect;
                setting.world.multi_recv = multi_recv;
                let seen = Run::of(&control, &setting);
                let what = (mr_mode(n), dialect, multi_recv, &seen);
                assert!(seen.messages > 10 && seen.puts > 0 && seen.gets > 0, "{what:?}");
                assert_eq!((seen.downs, seen.failed), (0, 0), "{what:?}");
            }
        }
    }
}

/// Frames to a process that has died may never end. They take up what they take up, but not all that the provider has room for: the others
/// go on, even where that is two.
#[test]
fn the_dead_leave_room_for_the_others() {
    let (_library, control) = Control::load(&library_path());
    for seed in 0..DEATHS {
        let mut setting = plain(seed);
        (setting.plan.kills, setting.plan.transfers, setting.plan.ranks) = (true, false, 3);
        let world = &mut setting.world;
        (world.to_the_dead, world.tx_size, world.complete_early) = (ToTheDead::Again, 2, false);
        if seed % 4 != 0 {
            // Then what is said of windows takes room, too.
            (world.inject_size, world.delivery_delay, setting.plan.longest) = (0, 20, 20_000);
            (setting.cfg.frame, setting.cfg.window) = (1 << 10, 4 << 10);
        }
        let seen = Run::of(&control, &setting);
        assert_eq!(seen.killed, 1, "{setting:?}");
    }
}

/// A setting in which nothing goes wrong, and transfers happen.
fn plain(seed: u64) -> Setting {
    let mut setting = of_seed(seed);
    let plan = &mut setting.plan;
    (plan.terminates, plan.aborts, plan.kills, plan.fails, plan.early) = (false, false, false, false, false);
    (plan.transfers, plan.steps, plan.longest) = (true, 200, 3000);
    setting.cfg.register_max = 0;
    let world = &mut setting.world;
    world.failure = fake_fabric::Failure::default();
    world.anonymous_errors = false;
    (world.mr_count, world.mr_key_size) = (65_536, 8);
    setting
}
