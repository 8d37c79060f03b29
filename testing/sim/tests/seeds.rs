//! Jobs of some hundred seeds, and the same seed twice.

use netmod_sim::{Mood, run_seed};

/// How many seeds to run: `NETMOD_TEST_SEEDS`, or a few hundred.
fn seeds() -> u64 {
    std::env::var("NETMOD_TEST_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}

#[test]
fn small_jobs_of_many_seeds() {
    let (mut messages, mut failures, mut moods) = (0, 0, [0; 4]);
    for seed in 0..seeds() {
        let report = run_seed(seed, None, 0).unwrap_or_else(|e| panic!("{e}"));
        messages += report.messages;
        failures += report.failures;
        moods[report.mood as usize] += 1;
        if !report.mood.is_lossy() {
            assert_eq!(report.failures, 0, "seed {seed}");
        }
    }
    // The seeds show everything that they are to show.
    assert!(messages > 20 * seeds() && failures > seeds() / 20, "{messages} messages, {failures} failures");
    assert!(
        [Mood::Calm, Mood::Shaky, Mood::Cuts, Mood::Crashes].iter().all(|m| moods[*m as usize] > 5),
        "{moods:?}"
    );
}

/// Seeds that once showed a fault, by what it was.
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
