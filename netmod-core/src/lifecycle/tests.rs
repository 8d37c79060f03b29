//! Snapshots of the VC lifecycle's table and graph, and its invariants.

use super::*;

const REGENERATE: &str = "run with NETMOD_BLESS=1 if the change is meant";

fn check(file: &str, have: &str, want: &str) {
    if std::env::var_os("NETMOD_BLESS").is_some() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/src/lifecycle/");
        std::fs::write(format!("{dir}{file}"), want).expect("the source folder is writable");
        return;
    }
    assert_eq!(have, want, "{file} differs from the table; {REGENERATE}");
}

#[test]
fn the_documented_table_and_graph_are_the_real_ones() {
    check("table.md", include_str!("table.md"), &markdown());
    check("graph.dot", include_str!("graph.dot"), &dot());
}

#[test]
fn every_state_and_event_is_declared_once_and_in_order() {
    for (i, state) in VcState::ALL.into_iter().enumerate() {
        assert_eq!(state as usize, i);
        assert_eq!(state.to_string(), state.name());
    }
    for (i, event) in VcEvent::ALL.into_iter().enumerate() {
        assert_eq!(event.index(), i);
    }
}

#[test]
fn an_end_is_accepted_in_every_state() {
    for state in VcState::ALL {
        for event in [VcEvent::Terminated, VcEvent::Lost] {
            let (next, _) = step(state, event).expect("no report of an end is fatal");
            assert!(next.is_at_rest(), "{state} + {event} goes on in {next}");
        }
    }
}

#[test]
fn a_violation_names_state_and_event_and_whose_mistake_it_is() {
    let violation = step(VcState::RemoteClose, VcEvent::RecvClose { ack: false }).unwrap_err();
    let text = violation.to_string();
    for part in ["CLOSE(F)", "REMOTE_CLOSE", "the peer"] {
        assert!(text.contains(part), "{text}");
    }
    let early = step(VcState::Active, VcEvent::Finalize).unwrap_err();
    assert!(early.to_string().contains("close it first"), "{early}");
}

#[test]
fn actions_say_what_is_in_them() {
    let (next, action) = step(VcState::LocalClose, VcEvent::RecvClose { ack: true }).unwrap();
    assert_eq!(next, VcState::Closed);
    assert_eq!(action.close_packet(), Some(true));
    assert!(action.contains(Action::TERMINATE) && action.close_ops() == 0);
    assert_eq!(action.to_string(), "send CLOSE(T), terminate");
    let (_, action) = step(VcState::Active, VcEvent::LocalClose).unwrap();
    assert_eq!((action.close_packet(), action.close_ops()), (Some(false), 1));
    let (_, action) = step(VcState::CloseAcked, VcEvent::Lost).unwrap();
    assert_eq!((action.close_packet(), action.close_ops()), (None, -1));
    assert!(Action::NONE.is_none() && !action.is_none());
}

#[test]
fn the_predicates_agree_with_the_table() {
    for state in VcState::ALL {
        let close = step(state, VcEvent::LocalClose).map(|(_, action)| action.close_ops());
        assert_eq!(close == Ok(1), state.needs_close(), "{state}");
        let ends = step(state, VcEvent::Lost).map(|(_, action)| action.close_ops());
        assert_eq!(ends == Ok(-1), state.is_closing(), "{state}");
        assert!(!(state.is_at_rest() && state.is_closing()));
        assert_eq!(step(state, VcEvent::Revive).is_ok(), state.is_failed());
    }
}
