//! Runs the jobs of some hundred seeds, and the same seed twice.

use netmod_sim::{FaultKind, run_seed};

/// Returns the number of seeds to run: `NETMOD_TEST_SEEDS`, or a few hundred.
fn seeds() -> u64 {
    std::env::var("NETMOD_TEST_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}

#[test]
fn small_jobs_of_many_seeds() {
    let (mut messages, mut failures, mut kinds) = (0, 0, [0; 4]);
    for seed in 0..seeds() {
        let report = run_seed(seed, None, 0).unwrap_or_else(|e| panic!("{e}"));
        messages += report.messages;
        failures += report.failures;
        kinds[report.fault_kind as usize] += 1;
        if !report.fault_kind.is_lossy() {
            assert_eq!(report.failures, 0, "seed {seed}");
        }
    }
    // The seeds exercise everything that they are meant to.
    assert!(messages > 20 * seeds() && failures > seeds() / 20, "{messages} messages, {failures} failures");
    assert!(
        [FaultKind::Calm, FaultKind::Shaky, FaultKind::Cuts, FaultKind::Crashes]
            .iter()
            .all(|m| kinds[*m as usize] > 5),
        "{kinds:?}"
    );
}

/// Seeds that have found errors, grouped by error.
#[test]
fn seeds_that_failed_before() {
    let seeds = [
        (9425, "a program that only calls progress never asked the process manager who had died"),
        (2339, "a send behind the beginning of finalize"),
        (9924, "a slow network and the timeout of close"),
        (4599, "an acceptance taken back because its own side had not looked for too long"),
        (19271, "the same, in a finalize that could have gone on at once"),
        (20204, "a VC that was aborted while it parted could not be used again"),
    ];
    for (seed, fault) in seeds {
        run_seed(seed, None, 0).unwrap_or_else(|e| panic!("{fault}: {e}"));
    }
}

#[test]
fn a_seed_gives_the_same_job_each_time() {
    for seed in [3, 8, 17, 40] {
        assert_eq!(run_seed(seed, None, 0), run_seed(seed, None, 100));
    }
}
