//! How many poll, and when they give the processor up.

use super::Pollers;

/// Threads that poll in vain take the cores from those that have work: engines count like processes, as do threads of libraries.
#[test]
fn pollers_that_are_more_than_cores_are_crowded() {
    let crowded = |ranks, engines, threads, own| Pollers { engines, threads }.are_crowded(ranks, 4, own);
    for (ranks, engines, threads, expected) in [
        (4, 1, 0, false),
        (1, 4, 0, false),
        (2, 2, 0, false),
        (2, 3, 0, true),
        (1, 5, 0, true),
        (2, 1, 1, false),
        (3, 1, 1, true),
        (1, 1, 4, true),
    ] {
        assert_eq!(crowded(ranks, engines, threads, 4), expected, "{ranks} x ({engines} + {threads})");
    }
    // A launcher binds each process to a core: only who has a thread beside itself there shares it.
    assert!(!crowded(4, 1, 0, 1) && crowded(2, 1, 1, 1));
}
