//! Tests of large jobs: a rank's resources grow with its neighbours and not with the job; many
//! ranks dial one; a node is lost.
//!
//! `NETMOD_TEST_SIM_RANKS=10000` with `--nocapture` prints the figures of docs/scale.md.

use netmod_sim::{Report, run_allreduce, run_halo, run_lost_node, run_neighbours, run_storm};

/// Returns the number of ranks of the large job: `NETMOD_TEST_SIM_RANKS`, or enough to see the
/// growth.
fn ranks() -> u32 {
    std::env::var("NETMOD_TEST_SIM_RANKS").ok().and_then(|n| n.parse().ok()).unwrap_or(512)
}

/// Prints what a job has taken. Its time tells nothing: processes get their turns in random order.
fn tell(what: &str, report: &Report) {
    println!(
        "{what}: {} ranks, {} messages, {} ends of connections, at most {} values of the process manager each, {} \
         requests failed",
        report.ranks, report.messages, report.net.opened, report.fetched_high, report.failures
    );
}

#[test]
fn connections_and_cards_grow_with_the_neighbours() {
    let n = ranks();
    let report = run_neighbours(n, 1, 7).unwrap_or_else(|e| panic!("{e}"));
    // Partners at distances 1, 2, 4 and so on, in both directions.
    let partners = 2 * u64::from(n.ilog2() + 1);
    tell("neighbours", &report);
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

#[test]
fn all_reduces_take_a_partner_for_each_step() {
    let n = ranks();
    let report = run_allreduce(n, 2, 5).unwrap_or_else(|e| panic!("{e}"));
    tell("all-reduces", &report);
    let steps = u64::from(n.next_power_of_two().ilog2());
    assert_eq!((report.messages, report.failures), (2 * steps * u64::from(n), 0));
    assert!(report.fetched_high <= 2 * steps + 2, "{report:?}");
}

#[test]
fn halo_exchanges_take_six_connections() {
    let n = ranks();
    let report = run_halo(n, 3, 4096, 9).unwrap_or_else(|e| panic!("{e}"));
    tell("halo exchanges", &report);
    assert_eq!((report.messages, report.failures), (3 * 6 * u64::from(n), 0));
    assert!(report.net.opened <= 6 * u64::from(n) && report.fetched_high <= 6 + 2, "{report:?}");
}

/// Only ranks that have to do with a lost node are told of it; the others' messages arrive.
#[test]
fn a_node_is_lost_in_the_middle_of_halo_exchanges() {
    const NODE: u32 = 32;
    let n = ranks();
    let (whole, rounds) = (6 * u64::from(n), 3);
    // From the first exchange, while connections are made, to the last one.
    for (seed, eighths) in [(1, 1), (2, 2), (3, 3)] {
        let calm = run_halo(n, rounds, 4096, seed).unwrap_or_else(|e| panic!("{e}"));
        let step = calm.steps / 8 * eighths;
        let report = run_lost_node(n, rounds, NODE, step, seed).unwrap_or_else(|e| panic!("{e}"));
        tell("a lost node", &report);
        // Each lost rank has six partners, with a send and a receive in each round.
        let most = u64::from(NODE) * 6 * 2 * rounds as u64;
        assert!(report.failures > 0 && report.failures <= most, "at step {step}: {report:?}");
        assert!(report.messages >= whole * rounds as u64 - most, "at step {step}: {report:?}");
    }
}
