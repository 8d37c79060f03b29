//! Random schedules of netmods over the fake provider: two to four processes in one thread, simulated time, and all that a provider may
//! demand or get wrong. `NETMOD_TEST_SEEDS` says how many seeds are run, `NETMOD_TEST_SEED` which one alone.

mod layer;
mod memory;
mod rng;
mod run;
mod setting;
mod transfers;

use fake_fabric::{Control, MrDialect, library_path};

use run::Run;
use setting::{Setting, mr_mode, of_seed};

/// Seeds without a wish.
const SEEDS: u64 = 600;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|e| panic!("{name}={text}: {e}")))
}

/// Whatever the provider is like and whatever goes wrong: bytes are right and in order, nothing comes twice, every request ends, no rule
/// is broken, nothing is left.
#[test]
fn random_schedules() {
    let (_library, control) = Control::load(&library_path());
    if let Some(seed) = number("NETMOD_TEST_SEED") {
        let setting = of_seed(seed);
        println!("{setting:#?}");
        println!("{:#?}", Run::of(&control, &setting));
        return;
    }
    let seeds = number("NETMOD_TEST_SEEDS").unwrap_or(SEEDS);
    let mut all = run::Seen::default();
    for seed in 0..seeds {
        let alone = Alarm(seed);
        all.add(&Run::of(&control, &of_seed(seed)));
        std::mem::forget(alone);
    }
    println!("{seeds} seeds: {all:?}");
    // The schedules are of no use if what they are for does not happen.
    if seeds >= SEEDS {
        assert!(all.is_full(), "{all:?}");
    }
}

/// Says which seed it was, if a schedule fails.
struct Alarm(u64);

impl Drop for Alarm {
    fn drop(&mut self) {
        eprintln!("the schedule was that of NETMOD_TEST_SEED={}", self.0);
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
