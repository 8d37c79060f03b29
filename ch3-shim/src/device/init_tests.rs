//! What a device decides by the number of engines.

use netmod_core::Config;

use super::pollers;

/// Threads that poll in vain take the cores from those that have work: engines count like processes.
#[test]
fn engines_that_are_more_than_cores_do_not_spin_for_long() {
    let spin = Config::default().spin;
    let (long, short) = (spin.polls(1, 4), spin.polls(5, 4));
    assert!(short < long);
    for (ranks, engines, expected) in [(4, 1, long), (1, 4, long), (2, 2, long), (2, 3, short), (1, 5, short)]
    {
        assert_eq!(spin.polls(pollers(ranks, engines), 4), expected, "{ranks} ranks, {engines} engines");
    }
}
