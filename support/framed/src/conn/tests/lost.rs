//! Frames of handshakes that are lost, where they are said again.

use super::*;

/// Much shorter than a handshake may take.
const SOON: Duration = Duration::from_secs(2);

fn lossy() -> (World, [VcId; 2]) {
    let mut params = Params::new(TIMEOUT, 4, 4, Words::SAMPLE);
    params.retransmit = Duration::from_millis(100);
    let mut w = World::with(2, params);
    let vcs = [w.vc(0, 1), w.vc(1, 0)];
    (w, vcs)
}

#[test]
fn each_frame_of_a_handshake_may_be_lost() {
    use FrameType::{Accept, Challenge, Hello, Proof};
    for lost in [
        &[Hello][..],
        &[Challenge],
        &[Proof],
        &[Accept],
        &[Hello, Hello, Hello],
        &[Accept, Accept],
        &[Hello, Challenge, Proof, Accept],
    ] {
        let (mut w, [a, b]) = lossy();
        w.loses = lost.to_vec();
        w.connect(0, a);
        w.pass(SOON);
        assert_eq!(w.loses, [], "they were said");
        assert_eq!((w.log(0), w.log(1)), (vec![OPENED.to_owned()], vec![OPENED.to_owned()]), "{lost:?}");
        w.run(0, |m, env| m.terminate(a, env));
        w.pass(SOON);
        assert!(!w.processes[1].manager.is_up(b));
        w.assert_quiet();
    }
}

#[test]
fn without_repetition_a_lost_frame_costs_a_handshake() {
    let (mut w, [a, _]) = World::pair();
    w.loses = vec![FrameType::Proof];
    w.connect(0, a);
    w.pass(SOON);
    assert!(w.log(0).is_empty());
    w.pass(TIMEOUT / 4);
    assert_eq!((w.log(0), w.log(1)), (vec![OPENED.to_owned()], vec![OPENED.to_owned()]));
}

#[test]
fn a_refusal_that_is_lost_is_asked_for_again() {
    let (mut w, [a, _]) = lossy();
    w.run(1, Manager::shut);
    w.loses = vec![FrameType::Reject];
    w.connect(0, a);
    w.pass(SOON);
    let log = w.log(0);
    assert!(log.len() == 1 && log[0].starts_with("down Refused"), "{log:?}");
    w.assert_quiet();
}

#[test]
fn a_promise_for_a_dial_that_was_given_up_ends_soon() {
    let (mut w, [a, _]) = lossy();
    w.loses = vec![FrameType::Accept, FrameType::Goodbye];
    w.connect(0, a);
    w.settle();
    assert_eq!(w.loses, [FrameType::Goodbye]);
    w.run(0, |m, env| m.terminate(a, env));
    assert_eq!(w.log(0), ["terminated"]);
    w.pass(SOON);
    assert_eq!(w.loses, []);
    assert!(w.log(1).is_empty());
    w.assert_quiet();
}

#[test]
fn what_was_said_again_and_is_late_changes_nothing() {
    let (mut w, [a, b]) = lossy();
    w.connect(0, a);
    let mut said = vec![];
    for (from, to) in [(0, 1), (1, 0), (0, 1), (1, 0)] {
        let frame = w.wires[from][to].pop_front().expect("a frame of the handshake");
        w.hand(to, &frame);
        // Once more, at once.
        w.hand(to, &frame);
        said.push((to, frame));
    }
    w.settle();
    assert_eq!((w.log(0), w.log(1)), (vec![OPENED.to_owned()], vec![OPENED.to_owned()]));
    for (to, frame) in said {
        w.hand(to, &frame);
        assert!(w.wires.iter().flatten().all(VecDeque::is_empty), "{frame:?} is answered");
    }
    w.pass(SOON);
    assert!(w.processes[0].manager.is_up(a) && w.processes[1].manager.is_up(b));
    assert_eq!((w.processes[0].met.len(), w.processes[1].met.len()), (0, 1));
    assert!(w.log(0).is_empty() && w.log(1).is_empty());
    w.run(0, |m, env| m.terminate(a, env));
    w.pass(SOON);
    w.assert_quiet();
}
