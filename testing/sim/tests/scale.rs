//! Tests of large jobs: a rank's resources grow with its neighbours and not with the job; many
//! ranks dial one.

use netmod_sim::{run_neighbours, run_storm};

/// Returns the number of ranks of the large job: `NETMOD_TEST_SIM_RANKS`, or enough to see the
/// growth.
fn ranks() -> u32 {
    std::env::var("NETMOD_TEST_SIM_RANKS").ok().and_then(|n| n.parse().ok()).unwrap_or(1024)
}

#[test]
fn connections_and_cards_grow_with_the_neighbours() {
    let n = ranks();
    let report = run_neighbours(n, 1, 7).unwrap_or_else(|e| panic!("{e}"));
    // Partners at distances 1, 2, 4 and so on, in both directions.
    let partners = 2 * u64::from(n.ilog2() + 1);
    assert!(report.net.opened <= u64::from(n) * partners, "{report:?}");
    // Besides the cards: the job key.
    assert!(report.fetched_high <= partners + 2, "{report:?}");
    assert_eq!(report.failures, 0);
}

#[test]
fn a_rank_that_all_dial_at_once_serves_them_all() {
    let report = run_storm(600, 3).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((report.messages, report.failures), (599, 0));
    // The listener's queue was full, and the rejected dials were retried.
    assert!(report.net.crowded > 0, "{report:?}");
}
