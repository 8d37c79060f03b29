//! Random schedules of netmods over the fake provider: two to four processes in one thread,
//! simulated time, and everything that a provider may require or get wrong. `NETMOD_TEST_SEEDS` is
//! the number of seeds, or their range (`5000..10000`); `NETMOD_TEST_SEED` selects one.
//!
//! Long runs: `NETMOD_TEST_SEEDS=10000 cargo test -p netmod-ofi --test schedules random_schedules
//! -- --nocapture`

mod fake;
mod setting;

use netmod_fake_fabric::{Control, MrDialect, ToTheDead, library_path};
use netmod_harness::schedules::{asked, each};

use fake::run;
use setting::{Setting, mr_mode, of_seed};

/// Default number of seeds.
const SEEDS: u64 = 400;
/// Seeds that have found rare errors.
const RARE: [u64; 12] = [497, 824, 2615, 2026, 3423, 3619, 4097, 4266, 4666, 8651, 9280, 9537];
/// Schedules in which processes die.
const DEATHS: u64 = 60;
/// Schedules with many failures.
const FAILURES: u64 = 200;

/// With any provider and any failure: data is correct, in order and delivered once, every request
/// ends, no rule is broken, and nothing is left.
#[test]
fn random_schedules() {
    let (_library, control) = Control::load(&library_path());
    let seeds: Vec<u64> = asked().unwrap_or_else(|| (0..SEEDS).chain(RARE).collect());
    let all = each(&seeds, of_seed, |s| run(&control, s));
    // The schedules are useless if they do not exercise their subjects.
    if seeds.len() as u64 >= SEEDS {
        assert!(all.is_full(), "{all:?}");
    }
}

/// Every set of modes, with messages, a put and a get that have happened.
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
                let seen = run(&control, &setting);
                let what = (mr_mode(n), dialect, multi_recv, &seen);
                assert!(seen.messages > 10 && seen.puts > 0 && seen.gets > 0, "{what:?}");
                assert_eq!((seen.downs, seen.failed), (0, 0), "{what:?}");
            }
        }
    }
}

/// Frames to a dead process may never complete. They occupy slots, but never all: traffic with the
/// others continues, even with two slots.
#[test]
fn the_dead_leave_room_for_the_others() {
    let (_library, control) = Control::load(&library_path());
    for seed in 0..DEATHS {
        let mut setting = plain(seed);
        (setting.plan.kills, setting.plan.transfers, setting.plan.ranks) = (true, false, 3);
        let world = &mut setting.world;
        (world.to_the_dead, world.tx_size, world.complete_early) = (ToTheDead::Again, 2, false);
        if seed % 4 != 0 {
            // Window updates then need slots, too.
            (world.inject_size, world.delivery_delay, setting.plan.longest) = (0, 20, 20_000);
            (setting.cfg.frame, setting.cfg.window) = (1 << 10, 4 << 10);
        }
        let seen = run(&control, &setting);
        assert_eq!(seen.killed, 1, "{setting:?}");
    }
}

/// With many failures, some of them unidentified, no VC waits for ever for a lost message.
#[test]
fn whatever_fails_everything_ends() {
    let (_library, control) = Control::load(&library_path());
    let seeds: Vec<u64> = asked().unwrap_or_else(|| (0..FAILURES).collect());
    let all = each(&seeds, failing, |s| run(&control, s));
    assert!(all.downs > 0 && all.messages > 0, "{all:?}");
}

/// Makes a setting with many failures.
fn failing(seed: u64) -> Setting {
    let mut setting = of_seed(seed);
    (setting.plan.fails, setting.plan.kills, setting.plan.ranks) = (true, false, 3);
    let world = &mut setting.world;
    (world.failure.send, world.failure.recv) =
        [(0.2, 0.0), (0.0, 0.1), (0.03, 0.05)][(seed / 2 % 3) as usize];
    world.anonymous_errors = seed.is_multiple_of(2);
    setting.plan.transfers &= !world.anonymous_errors;
    setting
}

/// Makes a setting without failures, with transfers.
fn plain(seed: u64) -> Setting {
    let mut setting = of_seed(seed);
    let plan = &mut setting.plan;
    (plan.terminates, plan.aborts, plan.kills, plan.fails, plan.early) = (false, false, false, false, false);
    (plan.transfers, plan.steps, plan.longest) = (true, 200, 3000);
    setting.cfg.register_max = 0;
    let world = &mut setting.world;
    world.failure = netmod_fake_fabric::Failure::default();
    world.anonymous_errors = false;
    (world.mr_count, world.mr_key_size) = (65_536, 8);
    setting
}
