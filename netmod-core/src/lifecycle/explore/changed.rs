//! Exploration of mutated tables and of wrong uses of the right one: all must be caught.

use super::super::table::{Entry, TABLE};
use super::super::{Action, VcEvent, VcState};
use super::{Driver, explore_all};

fn caught(driver: Driver, changes: &[(VcState, VcEvent)]) -> String {
    let mut table = TABLE.clone();
    for (state, event) in changes {
        assert!(table.0[*state as usize][event.index()].take().is_some());
    }
    let error = explore_all(&table, driver).map(|_| ()).unwrap_err();
    netmod_models::mutant(module_path!(), format_args!("{driver:?} {changes:?}"));
    error.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_driver_that_sends_before_it_stores_meets_the_answer_in_the_old_state() {
    let error = caught(Driver::SendFirst, &[]);
    assert!(error.contains("\"CLOSE(") && error.contains("not allowed in state"), "{error}");
}

#[test]
fn a_lost_acknowledgement_leaves_somebody_waiting() {
    let error = caught(Driver::LosesAck, &[]);
    assert!(error.contains("stuck in"), "{error}");
}

#[test]
fn mpich_s_fatal_second_report_is_found() {
    for state in [VcState::Moribund, VcState::InactiveClosed] {
        let error = caught(Driver::Right, &[(state, VcEvent::Terminated)]);
        assert!(error.contains("\"terminated\" is not allowed"), "{error}");
    }
}

/// Returns why a change is unobservable, if it is.
fn harmless(state: VcState, event: VcEvent, to: Entry) -> Option<&'static str> {
    let (next, action) = to?;
    let (old_next, old) = TABLE.step(state, event).ok()?;
    if state.is_failed() && next == old_next && action == old | Action::FAIL_REQUESTS {
        return Some("the requests of a VC that has failed have failed already");
    }
    None
}

#[test]
fn every_single_change_of_the_table_goes_wrong() {
    let mut survivors = Vec::new();
    let mut harmless_seen = 0;
    let all = single_changes();
    for (state, event, to) in &all {
        let mut table = TABLE.clone();
        table.0[*state as usize][event.index()] = *to;
        let caught = explore_all(&table, Driver::Right).is_err();
        match harmless(*state, *event, *to) {
            Some(why) => {
                assert!(!caught, "{state} + {event} => {to:?} matters after all, though {why}");
                harmless_seen += 1;
            }
            None if caught => {}
            None => survivors.push(format!("{state} + {event} => {to:?}")),
        }
    }
    assert!(survivors.is_empty(), "not caught:\n{}", survivors.join("\n"));
    println!("{} changes, {harmless_seen} of them harmless, the rest caught", all.len());
    netmod_models::mutants(module_path!(), "single changes of the table", all.len() - harmless_seen);
}

/// Returns every table that differs from the real one in one entry.
///
/// The change is another target, another packet, one action more or less, or no entry.
fn single_changes() -> Vec<(VcState, VcEvent, Entry)> {
    const PACKETS: [Action; 3] = [Action::NONE, Action::SEND_CLOSE, Action::SEND_CLOSE_ACK];
    const REST: [Action; 4] =
        [Action::TERMINATE, Action::FAIL_REQUESTS, Action::CLOSE_STARTED, Action::CLOSE_FINISHED];
    let mut out = Vec::new();
    for state in VcState::ALL {
        for event in VcEvent::ALL {
            let Ok((next, action)) = TABLE.step(state, event) else { continue };
            out.push((state, event, None));
            let targets = VcState::ALL.into_iter().filter(|t| *t != next);
            out.extend(targets.map(|t| (state, event, Some((t, action)))));
            let quiet = Action(action.0 & !(Action::SEND_CLOSE.0 | Action::SEND_CLOSE_ACK.0));
            let packets = PACKETS.into_iter().map(|p| quiet | p).filter(|a| *a != action);
            out.extend(packets.map(|a| (state, event, Some((next, a)))));
            let toggled = REST.into_iter().map(|bit| Action(action.0 ^ bit.0));
            out.extend(toggled.map(|a| (state, event, Some((next, a)))));
        }
    }
    out
}
