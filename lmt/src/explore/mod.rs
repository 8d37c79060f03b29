//! Exploration of the two sides of a transfer, in every order of events.
//!
//! Events are deliveries, moves, failed registrations, failed moves, cancellation, abandonment and
//! loss, for each mode and for receives that are too short. Sides with a known mistake (mutants)
//! must be caught.

mod world;

use std::collections::HashSet;

use world::{Case, World};

use crate::mode::Mode;
use crate::mutant::{Mutant, with};

/// Returns the number of states and of ends reached, or the violation with its history.
fn explore(case: Case) -> Result<(usize, usize), String> {
    let start = World::new(case);
    let mut known = HashSet::from([start.clone()]);
    // Each state with its predecessor and the step between them, for the history of a violation.
    let mut worlds: Vec<(World, usize, String)> = vec![(start, 0, "start".into())];
    let (mut at, mut ends) = (0, 0);
    while at < worlds.len() {
        let world = worlds[at].0.clone();
        let steps = world.steps();
        if !steps.iter().any(|s| s.is_due()) {
            ends += 1;
            world.check_end().map_err(|text| text + &history(&worlds, at))?;
        }
        for step in steps {
            let mut next = world.clone();
            let told = format!("{step:?}");
            next.take(step).map_err(|text| format!("{text}, by {told}") + &history(&worlds, at))?;
            if known.insert(next.clone()) {
                worlds.push((next, at, told));
            }
        }
        at += 1;
    }
    Ok((at, ends))
}

fn history(worlds: &[(World, usize, String)], mut at: usize) -> String {
    let mut lines = vec![format!("{:?}", worlds[at].0)];
    while at != 0 {
        lines.push(worlds[at].2.clone());
        at = worlds[at].1;
    }
    lines.reverse();
    format!("\n{}", lines.join("\n"))
}

/// Returns all modes for a message of `total` windows, with room for all, a part, or none of it.
fn cases(total: u64, faults: u8) -> impl Iterator<Item = Case> {
    let rooms = [total, total.saturating_sub(2), 0];
    Mode::ALL.into_iter().flat_map(move |mode| {
        rooms.into_iter().map(move |room| Case { mode, total, room, window: 1, faults })
    })
}

fn explore_all(total: u64, faults: u8) -> Result<(usize, usize), String> {
    let mut sum = (0, 0);
    for case in cases(total, faults) {
        let (states, ends) = explore(case).map_err(|text| format!("{case:?}: {text}"))?;
        sum = (sum.0 + states, sum.1 + ends);
    }
    Ok(sum)
}

#[test]
fn every_order_ends_well() {
    for total in [1, 2, 4] {
        let (states, ends) = explore_all(total, 1).unwrap_or_else(|text| panic!("{text}"));
        netmod_models::state_space(module_path!(), format_args!("{total} windows, one fault"), states);
        assert!(states > 200 && ends > 12, "{states} states and {ends} ends of {total} windows");
    }
}

#[test]
fn two_faults_end_well_too() {
    let (states, _) = explore_all(3, 2).unwrap_or_else(|text| panic!("{text}"));
    netmod_models::state_space(module_path!(), "3 windows, two faults", states);
}

#[test]
fn a_window_that_is_too_large_is_made_smaller() {
    for mode in [Mode::Put, Mode::Get] {
        let case = Case { mode, total: 6, room: 6, window: 4, faults: 2 };
        let (states, _) = explore(case).unwrap_or_else(|text| panic!("{text}"));
        netmod_models::state_space(module_path!(), format_args!("{case:?}"), states);
    }
}

#[test]
fn without_faults_all_moves() {
    for case in cases(5, 0) {
        let (states, ends) = explore(case).unwrap_or_else(|text| panic!("{case:?}: {text}"));
        netmod_models::state_space(module_path!(), format_args!("{case:?}"), states);
        assert!(ends > 0, "{case:?}");
    }
}

#[test]
fn more_than_a_hundred_windows_follow_each_other() {
    for mode in [Mode::Put, Mode::Get] {
        let case = Case { mode, total: 128, room: 128, window: 1, faults: 0 };
        let (states, ends) = explore(case).unwrap_or_else(|text| panic!("{text}"));
        netmod_models::state_space(module_path!(), format_args!("{case:?}"), states);
        assert!(states > 128 && ends > 0, "{states} states, {ends} ends");
    }
}

#[test]
fn mistakes_are_caught() {
    for mutant in Mutant::ALL {
        let found = with(Some(mutant), || explore_all(4, 1).and_then(|_| explore_all(3, 2)));
        assert!(found.is_err(), "{mutant:?} was not caught");
        netmod_models::mutant(module_path!(), format_args!("{mutant:?}"));
    }
}
