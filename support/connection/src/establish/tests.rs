//! Single promises of the machine: pauses, deadlines, causes, stale keys; and mistakes that
//! exploration cannot see.

use core::time::Duration;

use netmod_core::{GroupId, PeerName, Time};

use super::explore::model::{Fail, Peer};
use super::explore::mutant::{Mutant, transition};
use super::*;
use crate::RejectReason;

const RULES: Rules = Rules {
    connect_timeout: Duration::from_secs(30),
    handshake_timeout: Duration::from_secs(10),
    promise_timeout: Duration::from_secs(20),
    backoff_min: Duration::from_millis(5),
    backoff_max: Duration::from_secs(1),
    crossing_wait: Duration::from_millis(50),
    retransmit: Duration::MAX,
    held: false,
};

const TIMED_OUT: Fail = Fail::Machine(Setback::TimedOut);

fn at(ms: u64) -> Time {
    Time(ms * 1_000_000)
}

fn acts(m: &mut Peer, event: Event<u8, Fail>, now: Time) -> Vec<Action<u8>> {
    m.on(event, now, &RULES).into_iter().collect()
}

fn dial(conn: u8, number: u64) -> Event<u8, Fail> {
    Event::Incoming(Incoming { conn, incarnation: 7, number, claim: Claim::Acceptable })
}

fn failed(conn: u8) -> Event<u8, Fail> {
    Event::Failed { conn: Some(conn), failure: Fail::Lost, permanent: false }
}

/// A machine of the lesser name in the wanted phase, on connection 1.
fn in_phase(phase: Phase) -> Peer {
    let mut m = Peer::new(false, 5);
    let events: &[Event<u8, Fail>] = match phase {
        Phase::Idle => &[],
        Phase::Dialing => &[Event::Want, Event::Dialing { conn: 1 }],
        Phase::Backoff => &[Event::Want, Event::Dialing { conn: 1 }, failed(1)],
        Phase::Promised => &[dial(1, 1)],
        Phase::Made => &[dial(1, 1), Event::Ready { conn: 1 }],
    };
    for event in events {
        let _ = m.on(event.clone(), Time::ZERO, &RULES);
    }
    assert_eq!(m.phase(), phase);
    m
}

const PHASES: [Phase; 5] = [Phase::Idle, Phase::Dialing, Phase::Backoff, Phase::Promised, Phase::Made];

#[test]
fn of_two_crossing_dials_exactly_one_survives() {
    let name = |group, rank| PeerName { group: GroupId([group; 16]), rank };
    let names = [name(1, 0), name(1, 1), name(2, 0)];
    for a in names {
        for b in names.into_iter().filter(|b| a != *b) {
            let verdict = |me: &PeerName, peer: &PeerName| {
                let mut m = Peer::new(dial_survives(me, peer), 1);
                let _ = m.on(Event::Want, Time::ZERO, &RULES);
                let claim = Claim::Acceptable;
                m.verdict(&Incoming { conn: 9, incarnation: 7, number: 1, claim })
            };
            let mut both = [verdict(&a, &b), verdict(&b, &a)];
            both.sort_by_key(|v| *v == Verdict::AcceptInstead);
            assert_eq!(both, [Verdict::Reject(RejectReason::Crossing), Verdict::AcceptInstead]);
            assert_eq!(dial_survives(&a, &b), a > b);
        }
    }
}

#[test]
fn pauses_double_up_to_a_limit_and_differ() {
    let (min, max) = (Duration::from_millis(10), Duration::from_secs(1));
    let mut random = 7;
    let mut seen = std::collections::HashSet::new();
    for failed in 1..200u16 {
        let pause = backoff::pause(failed, min, max, backoff::next_random(&mut random));
        let full = min.saturating_mul(1 << (failed - 1).min(20)).min(max);
        assert!(pause >= full / 2 && pause <= full, "{failed}: {pause:?} of {full:?}");
        seen.insert(pause);
    }
    assert!(seen.len() > 150, "no jitter: {} pauses", seen.len());
    assert_eq!(backoff::pause(9, Duration::ZERO, Duration::ZERO, 1), Duration::ZERO);
}

/// Dials a peer that refuses until it is unreachable; returns the dials, and the last action.
fn dial_in_vain(mutant: Option<Mutant>) -> (usize, Option<Action<u8>>) {
    let mut m = Peer::new(false, 99);
    let (mut dials, mut now, mut event) = (0, Time::ZERO, Event::Want);
    while dials < 1_000 {
        let act = transition(mutant, &mut m, event, now, &RULES).pop();
        event = match act {
            Some(Action::Dial) => {
                dials += 1;
                Event::Failed { conn: None, failure: Fail::Lost, permanent: false }
            }
            Some(act) => return (dials, Some(act)),
            None => {
                now = m.deadline().expect("a waiting machine has a deadline");
                Event::Timer
            }
        };
    }
    (dials, None)
}

#[test]
fn a_dead_address_is_dialled_a_bounded_number_of_times() {
    let (dials, end) = dial_in_vain(None);
    assert!((20..80).contains(&dials), "{dials} dials");
    let Some(Action::Unreachable { permanent: false, attempts, elapsed }) = end else { panic!("{end:?}") };
    assert_eq!((usize::from(attempts), elapsed), (dials, RULES.connect_timeout));
    let storm = dial_in_vain(Some(Mutant::RedialAtOnce));
    assert_eq!(storm, (1_000, None), "this test notices a storm");
}

#[test]
fn permanent_causes_end_the_attempts() {
    let mut m = in_phase(Phase::Dialing);
    let event = Event::Failed { conn: Some(1), failure: Fail::Lost, permanent: true };
    let elapsed = Duration::from_millis(1);
    let unreachable = Action::Unreachable { permanent: true, attempts: 1, elapsed };
    assert_eq!(acts(&mut m, event, at(1)), [unreachable]);
    assert_eq!((m.phase(), m.last_failure()), (Phase::Idle, Some(&Fail::Lost)));
    for permanent in [false, true] {
        let mut m = in_phase(Phase::Dialing);
        let reason = RejectReason::Finalized;
        let got = acts(&mut m, Event::Rejected { conn: 1, reason, permanent }, at(1));
        let want = [Action::Close(1), unreachable];
        assert_eq!(got, want[..1 + usize::from(permanent)]);
        assert_eq!(m.last_failure(), Some(&Fail::Machine(Setback::Rejected(reason))));
    }
}

#[test]
fn a_refusal_that_announces_a_dial_is_waited_for() {
    let mut m = in_phase(Phase::Dialing);
    let rejected = |conn| Event::Rejected { conn, reason: RejectReason::Crossing, permanent: false };
    assert_eq!(acts(&mut m, rejected(1), at(0)), [Action::Close(1)]);
    assert_eq!(m.deadline(), Some(at(50)));
    assert_eq!(acts(&mut m, Event::Timer, at(49)), [], "too early");
    assert_eq!(acts(&mut m, Event::Timer, at(50)), [Action::Dial]);
    // It does not hide what failed before.
    let mut m = in_phase(Phase::Backoff);
    assert_eq!(acts(&mut m, Event::Timer, at(50)), [Action::Dial]);
    assert_eq!(acts(&mut m, Event::Dialing { conn: 2 }, at(50)), []);
    assert_eq!(acts(&mut m, rejected(2), at(51)), [Action::Close(2)]);
    assert_eq!(m.last_failure(), Some(&Fail::Lost));
}

/// Returns true if a machine of the greater name refuses the peer though its own dial has failed.
/// It must not: perhaps only the lesser name can reach the greater one.
fn insists_after_a_failure(mutant: Option<Mutant>) -> bool {
    let mut m = Peer::new(true, 5);
    let on = |m: &mut Peer, event, ms| transition(mutant, m, event, at(ms), &RULES);
    assert_eq!(on(&mut m, Event::Want, 0), [Action::Dial]);
    assert_eq!(on(&mut m, Event::Dialing { conn: 1 }, 0), []);
    assert_eq!(on(&mut m, dial(7, 1), 1), [Action::Reject(7, RejectReason::Crossing)]);
    assert_eq!(on(&mut m, failed(1), 2), []);
    assert_eq!(on(&mut m, Event::Timer, 5000), [Action::Dial]);
    assert_eq!(on(&mut m, Event::Dialing { conn: 2 }, 5000), []);
    on(&mut m, dial(8, 2), 5001) != [Action::Abandon(2), Action::Accept(8)]
}

#[test]
fn a_dial_that_failed_before_gives_way() {
    assert!(!insists_after_a_failure(None));
    assert!(insists_after_a_failure(Some(Mutant::InsistAlways)), "this test notices it");
}

#[test]
fn stale_keys_change_nothing() {
    for phase in PHASES {
        let before = in_phase(phase);
        let mut m = before.clone();
        let reason = RejectReason::Finalized;
        for (event, want) in [
            (Event::Dialing { conn: 77 }, vec![Action::Abandon(77)]),
            (Event::Failed { conn: Some(77), failure: Fail::Lost, permanent: true }, vec![]),
            (Event::Accepted { conn: 77, incarnation: 7, dials: 0 }, vec![Action::Abandon(77)]),
            (Event::Rejected { conn: 77, reason, permanent: true }, vec![]),
            (Event::Ready { conn: 77 }, vec![Action::Withdraw(77)]),
            (Event::Goodbye { conn: 77 }, vec![]),
        ] {
            assert_eq!(acts(&mut m, event.clone(), at(1)), want, "{event:?} in {phase:?}");
            assert_eq!(m, before, "{event:?} in {phase:?}");
        }
        let ready = Event::Ready { conn: 77 };
        let silence = Some(Mutant::LateReadyInSilence);
        let got = transition(silence, &mut m, ready, at(1), &RULES);
        assert_ne!(got, [Action::Withdraw(77)], "this test notices it");
    }
}

#[test]
fn every_wait_has_a_deadline() {
    for phase in [Phase::Dialing, Phase::Backoff, Phase::Promised] {
        let mut m = in_phase(phase);
        let mut now = Time::ZERO;
        for _ in 0..200 {
            let Some(due) = m.deadline() else { break };
            assert!(due > now, "{phase:?}: a timer that is due already");
            now = due;
            for act in acts(&mut m, Event::Timer, now) {
                if act == Action::Dial {
                    assert_eq!(acts(&mut m, Event::Dialing { conn: 2 }, now), []);
                }
            }
        }
        assert_eq!((m.phase(), m.deadline()), (Phase::Idle, None));
        assert!(now <= at(45_000), "{phase:?} took {now:?}");
    }
}

#[test]
fn a_promise_has_a_time_of_its_own_and_is_kept_when_nothing_waits() {
    let mut m = in_phase(Phase::Promised);
    assert_eq!(m.deadline(), Some(at(20_000)));
    assert_eq!(acts(&mut m, Event::Want, at(1)), []);
    assert_eq!(acts(&mut m, Event::Cancel, at(2)), []);
    assert_eq!(acts(&mut m, Event::Timer, at(20_000)), [Action::Withdraw(1)]);
    assert_eq!((m.phase(), m.deadline()), (Phase::Idle, None));
}

#[test]
fn retransmissions_double_their_pause_and_end_with_the_handshake() {
    let rules = Rules { retransmit: Duration::from_millis(100), ..RULES };
    for (events, conn) in [(vec![Event::Want, Event::Dialing { conn: 1 }], 1), (vec![dial(3, 1)], 3)] {
        let mut m = Peer::new(false, 5);
        for event in events {
            let _ = m.on(event, Time::ZERO, &rules);
        }
        for ms in [100, 300, 700, 1500] {
            assert_eq!(m.deadline(), Some(at(ms)));
            let got: Vec<_> = m.on(Event::Timer, at(ms), &rules).into_iter().collect();
            assert_eq!(got, [Action::Retransmit(conn)]);
        }
        let end = match conn {
            1 => Event::Accepted { conn, incarnation: 7, dials: 0 },
            _ => Event::Ready { conn },
        };
        let got: Vec<_> = m.on(end, at(1600), &rules).into_iter().collect();
        assert_eq!(got, [Action::Made { conn, dialed: conn == 1 }]);
        assert_eq!(m.deadline(), None);
    }
}

#[test]
fn while_held_nothing_is_dialled_and_no_time_passes() {
    let held = Rules { held: true, ..RULES };
    let mut m = Peer::new(false, 5);
    assert!(m.on(Event::Want, at(0), &held).into_iter().next().is_none());
    assert_eq!((m.phase(), m.deadline()), (Phase::Backoff, None));
    assert_eq!(acts(&mut m, Event::Wake, at(90_000)), []);
    assert!(m.deadline().is_some_and(|due| due > at(90_000) && due <= at(90_005)));
    assert_eq!(m.wanted_for(at(90_000), &RULES), Duration::ZERO);
    let due = m.deadline().unwrap_or(Time::NEVER);
    assert_eq!(acts(&mut m, Event::Timer, due), [Action::Dial]);
    // A dial that fails meanwhile waits, too.
    assert_eq!(acts(&mut m, Event::Dialing { conn: 1 }, due), []);
    assert!(m.on(failed(1), due, &held).into_iter().next().is_none());
    assert_eq!(m.phase(), Phase::Backoff);
    // The peer is to dial, for as long as the rules say.
    let mut m = in_phase(Phase::Made);
    assert_eq!(acts(&mut m, Event::Wait, at(5)), []);
    assert_eq!((m.phase(), m.deadline()), (Phase::Backoff, Some(at(30_005))));
    assert_eq!(acts(&mut m, Event::Extend, at(10)), []);
    assert_eq!(m.deadline(), Some(at(30_010)));
    assert_eq!(acts(&mut m, dial(2, 2), at(11)), [Action::Accept(2)]);
}

#[test]
fn what_waits_when_a_connection_ends_is_dialled_for() {
    let mut m = in_phase(Phase::Made);
    assert_eq!(acts(&mut m, Event::Want, at(1)), []);
    assert_eq!(acts(&mut m, Event::Ended, at(50_000)), [Action::Dial]);
    assert_eq!(m.wanted_for(at(50_001), &RULES), Duration::from_millis(1));
    let mut m = in_phase(Phase::Made);
    assert_eq!(acts(&mut m, Event::Ended, at(2)), []);
    assert_eq!(m.phase(), Phase::Idle);
}

#[test]
fn given_up_dials_and_promises_are_announced() {
    for (phase, event, want) in [
        (Phase::Dialing, Event::Abort, vec![Action::Abandon(1)]),
        (Phase::Dialing, Event::Cancel, vec![Action::Abandon(1)]),
        (Phase::Promised, Event::Abort, vec![Action::Withdraw(1)]),
        (Phase::Made, Event::Abort, vec![]),
        (Phase::Dialing, Event::Forget, vec![]),
        (Phase::Promised, Event::Forget, vec![]),
    ] {
        let mut m = in_phase(phase);
        assert_eq!(acts(&mut m, event.clone(), at(1)), want, "{event:?} in {phase:?}");
        assert_eq!((m.phase(), m.conn(), m.deadline()), (Phase::Idle, None, None));
    }
    let mut m = in_phase(Phase::Dialing);
    assert_eq!(acts(&mut m, Event::Timer, at(10_000)), [Action::Abandon(1)]);
    assert_eq!((m.phase(), m.last_failure()), (Phase::Backoff, Some(&TIMED_OUT)));
}
