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

#[test]
fn a_seed_gives_the_same_job_each_time() {
    for seed in [3, 8, 17, 40] {
        assert_eq!(run_seed(seed, None, 0), run_seed(seed, None, 100));
    }
}
