//! Single promises of a link: size, pauses, causes, stale keys, termination in every phase.

use core::time::Duration;

use netmod_connection::RejectReason;
use netmod_core::{GroupId, PeerName, Time};

use super::*;

const CFG: LinkConfig = LinkConfig {
    connect_timeout: Duration::from_secs(30),
    handshake_timeout: Duration::from_secs(10),
    backoff_min: Duration::from_millis(5),
    backoff_max: Duration::from_secs(1),
    crossing_wait: Duration::from_millis(50),
    move_timeout: Duration::from_millis(250),
    parting_timeout: Duration::from_secs(5),
    resume_timeout: Duration::from_secs(10),
    ckpt_timeout: Duration::from_secs(3600),
};
const REFUSED: Failure = Failure::Errno(111);

/// The claims of the dial on a connection.
fn params(conn: ConnKey) -> HandshakeParams {
    HandshakeParams { session: 0, fresh: 0, incarnation: 7, dial: conn.0 }
}

fn name(rank: u32) -> PeerName {
    PeerName { group: GroupId([1; 16]), rank }
}

fn acts(link: &mut Link, event: LinkEvent, now: Time) -> Vec<LinkAction> {
    link.on(event, now, &CFG).into_iter().collect()
}

fn at(ms: u64) -> Time {
    Time(ms * 1_000_000)
}

/// A link of the lesser name in the wanted phase, on connection 1.
fn in_phase(phase: Phase) -> Link {
    let mut link = Link::new(&name(0), &name(1), 5);
    let conn = ConnKey(1);
    let failed = LinkEvent::DialFailed { conn, failure: REFUSED, permanent: false };
    let events: &[LinkEvent] = match phase {
        Phase::Idle => &[],
        Phase::Dialing => &[LinkEvent::WantSend, LinkEvent::Dialing { conn }],
        Phase::Backoff => &[LinkEvent::WantSend, LinkEvent::Dialing { conn }, failed],
        Phase::Promised => &[LinkEvent::Incoming { conn, params: params(conn) }],
        Phase::Up => &[LinkEvent::Incoming { conn, params: params(conn) }, LinkEvent::Ready { conn }],
        Phase::Parting => &[
            LinkEvent::Incoming { conn, params: params(conn) },
            LinkEvent::Ready { conn },
            LinkEvent::Terminate { pending: false },
        ],
        Phase::Failed => &[
            LinkEvent::Incoming { conn, params: params(conn) },
            LinkEvent::Ready { conn },
            LinkEvent::Lost { conn, failure: Failure::Eof },
        ],
        Phase::Shut => &[LinkEvent::Shutdown { pending: false }],
    };
    for event in events {
        let _ = link.on(*event, Time::ZERO, &CFG);
    }
    assert_eq!(link.phase(), phase);
    link
}

const PHASES: [Phase; 8] = [
    Phase::Idle,
    Phase::Dialing,
    Phase::Backoff,
    Phase::Promised,
    Phase::Up,
    Phase::Parting,
    Phase::Failed,
    Phase::Shut,
];

#[test]
fn a_link_is_small() {
    assert!(size_of::<Link>() <= 144, "{} bytes", size_of::<Link>());
}

/// Dials a peer that refuses until the link is down; returns how often, and the cause.
fn dial_in_vain() -> (usize, Option<DownCause>) {
    let mut link = Link::new(&name(0), &name(1), 99);
    let (mut dials, mut now, mut event) = (0, Time::ZERO, LinkEvent::WantSend);
    while dials < 1_000 {
        let mut next = None;
        for act in link.on(event, now, &CFG) {
            match act {
                LinkAction::StartDial => {
                    dials += 1;
                    let conn = ConnKey::NONE;
                    next = Some(LinkEvent::DialFailed { conn, failure: REFUSED, permanent: false });
                }
                LinkAction::Down(cause) => return (dials, Some(cause)),
                other => panic!("{other:?}"),
            }
        }
        event = next.unwrap_or_else(|| {
            now = link.deadline().expect("a waiting link has a deadline");
            LinkEvent::Timer
        });
    }
    (dials, None)
}

#[test]
fn a_dead_address_is_dialled_a_bounded_number_of_times() {
    let (dials, cause) = dial_in_vain();
    assert!((20..80).contains(&dials), "{dials} dials");
    let text = cause.expect("down in the end").to_string();
    let want = format!("no connection after {dials} attempts in 30.0s; the last one: ");
    assert!(text.starts_with(&want) && text.contains("refused"), "{text}");
}

#[test]
fn permanent_causes_end_the_attempts() {
    let conn = ConnKey(1);
    let mut link = in_phase(Phase::Dialing);
    let failure = Failure::Protocol;
    let got = acts(&mut link, LinkEvent::DialFailed { conn, failure, permanent: true }, at(1));
    assert_eq!(got, [LinkAction::Down(DownCause::Refused(failure))]);
    assert_eq!(link.phase(), Phase::Failed);
    for reason in RejectReason::ALL {
        let mut link = in_phase(Phase::Dialing);
        let got = acts(&mut link, LinkEvent::Rejected { conn, reason: *reason }, at(1));
        let down = DownCause::Refused(Failure::Rejected(*reason));
        let mut want = vec![LinkAction::Close(conn)];
        if !reason.is_transient() {
            want.push(LinkAction::Down(down));
        }
        assert_eq!(got, want);
        let text = down.to_string();
        assert!(text.contains(&reason.to_string()), "{text}");
    }
}

#[test]
fn a_refusal_that_announces_a_dial_is_waited_for() {
    let mut link = in_phase(Phase::Dialing);
    let event = LinkEvent::Rejected { conn: ConnKey(1), reason: RejectReason::Crossing };
    let _ = acts(&mut link, event, at(0));
    assert_eq!(link.deadline(), Some(at(50)));
    let got = acts(&mut link, LinkEvent::Timer, at(49));
    assert!(got.is_empty(), "too early: {got:?}");
    assert_eq!(acts(&mut link, LinkEvent::Timer, at(50)), [LinkAction::StartDial]);
}

#[test]
fn what_waits_at_the_peers_goodbye_decides() {
    let conn = ConnKey(1);
    for (pending, want, phase) in [
        (Pending::Nothing, vec![LinkAction::Abandon(conn)], Phase::Idle),
        (Pending::Whole, vec![LinkAction::Abandon(conn), LinkAction::StartDial], Phase::Dialing),
        (Pending::Partial, vec![LinkAction::Close(conn), LinkAction::Down(DownCause::CutOff)], Phase::Failed),
    ] {
        let mut link = in_phase(Phase::Up);
        assert_eq!(acts(&mut link, LinkEvent::Goodbye { conn, pending }, at(1)), want);
        assert_eq!(link.phase(), phase);
    }
    // A side that terminates still gets out what is pending: the peer reads on.
    let mut link = in_phase(Phase::Up);
    assert_eq!(acts(&mut link, LinkEvent::Terminate { pending: true }, at(1)), []);
    assert_eq!(acts(&mut link, LinkEvent::Goodbye { conn, pending: Pending::Partial }, at(1)), []);
    let got = acts(&mut link, LinkEvent::Drained, at(2));
    assert_eq!(got, [LinkAction::Abandon(conn), LinkAction::Terminated]);
}

#[test]
fn termination_is_answered_in_every_phase_and_the_link_is_usable_again() {
    let conn = ConnKey(1);
    for phase in PHASES {
        let mut link = in_phase(phase);
        let mut got = acts(&mut link, LinkEvent::Terminate { pending: false }, at(1));
        if link.is_terminating() {
            let end = match link.phase() {
                Phase::Promised => LinkEvent::Goodbye { conn, pending: Pending::Nothing },
                _ => LinkEvent::Lost { conn, failure: Failure::Eof },
            };
            got.extend(acts(&mut link, end, at(2)));
        }
        let answers = got.iter().filter(|a| **a == LinkAction::Terminated).count();
        assert_eq!(answers, 1, "in {phase:?}: {got:?}");
        assert!(!got.iter().any(|a| matches!(a, LinkAction::Down(_))), "in {phase:?}: {got:?}");
        assert_eq!(link.deadline(), None);
        if phase != Phase::Shut {
            assert_eq!(acts(&mut link, LinkEvent::WantSend, at(3)), [LinkAction::StartDial]);
        }
    }
}

#[test]
fn a_failed_link_refuses_until_it_is_revived() {
    let mut link = in_phase(Phase::Failed);
    let conn = ConnKey(2);
    let reject = LinkAction::SendReject(conn, RejectReason::VcDown);
    assert_eq!(acts(&mut link, LinkEvent::Incoming { conn, params: params(conn) }, at(1)), [reject]);
    assert_eq!(acts(&mut link, LinkEvent::WantSend, at(1)), []);
    assert_eq!(acts(&mut link, LinkEvent::Revive, at(1)), []);
    let accept = LinkAction::SendAccept(conn);
    assert_eq!(acts(&mut link, LinkEvent::Incoming { conn, params: params(conn) }, at(1)), [accept]);
}

#[test]
fn stale_keys_change_nothing() {
    let stale = ConnKey(77);
    for phase in PHASES {
        let before = in_phase(phase);
        let mut link = before.clone();
        let failure = Failure::Eof;
        for (event, want) in [
            (LinkEvent::Dialing { conn: stale }, vec![LinkAction::Abandon(stale)]),
            (LinkEvent::DialFailed { conn: stale, failure, permanent: true }, vec![]),
            (
                LinkEvent::Accepted { conn: stale, session: 0, incarnation: 7, dials: 0 },
                vec![LinkAction::Abandon(stale)],
            ),
            (LinkEvent::Rejected { conn: stale, reason: RejectReason::Finalized }, vec![]),
            (LinkEvent::Ready { conn: stale }, vec![LinkAction::Withdraw(stale)]),
            (LinkEvent::Goodbye { conn: stale, pending: Pending::Partial }, vec![]),
            (LinkEvent::Lost { conn: stale, failure }, vec![]),
        ] {
            assert_eq!(acts(&mut link, event, at(1)), want, "{event:?} in {phase:?}");
            assert_eq!(link, before, "{event:?} in {phase:?}");
        }
    }
}

#[test]
fn every_wait_has_a_deadline() {
    for phase in [Phase::Dialing, Phase::Backoff, Phase::Promised, Phase::Parting] {
        let mut link = in_phase(phase);
        let mut now = Time::ZERO;
        for _ in 0..200 {
            let Some(due) = link.deadline() else { break };
            assert!(due > now, "{phase:?}: a timer that is due already");
            now = due;
            for act in link.on(LinkEvent::Timer, now, &CFG) {
                if act == LinkAction::StartDial {
                    let conn = ConnKey(now.0);
                    assert!(link.on(LinkEvent::Dialing { conn }, now, &CFG).is_empty());
                }
            }
        }
        assert!(matches!(link.phase(), Phase::Idle | Phase::Failed), "{:?}", link.phase());
        assert!(now <= at(45_000), "{phase:?} took {now:?}");
    }
}

/// The greater name's dials do not keep the lesser one out if only the lesser can reach the other.
#[test]
fn a_dial_that_failed_before_gives_way() {
    let mut link = Link::new(&name(1), &name(0), 5);
    let (first, second) = (ConnKey(1), ConnKey(2));
    assert_eq!(acts(&mut link, LinkEvent::WantSend, at(0)), [LinkAction::StartDial]);
    assert!(acts(&mut link, LinkEvent::Dialing { conn: first }, at(0)).is_empty());
    let refused =
        acts(&mut link, LinkEvent::Incoming { conn: ConnKey(7), params: params(ConnKey(7)) }, at(1));
    assert_eq!(refused, [LinkAction::SendReject(ConnKey(7), RejectReason::Crossing)]);
    let failed = LinkEvent::DialFailed { conn: first, failure: Failure::TimedOut, permanent: false };
    assert!(acts(&mut link, failed, at(2)).is_empty());
    assert_eq!(acts(&mut link, LinkEvent::Timer, at(5000)), [LinkAction::StartDial]);
    assert!(acts(&mut link, LinkEvent::Dialing { conn: second }, at(5000)).is_empty());
    let taken =
        acts(&mut link, LinkEvent::Incoming { conn: ConnKey(8), params: params(ConnKey(8)) }, at(5001));
    assert_eq!(taken, [LinkAction::Abandon(second), LinkAction::SendAccept(ConnKey(8))]);
}

/// A link of the greater name that is up on connection 1 in session 77.
fn in_session() -> Link {
    let mut link = Link::new(&name(1), &name(0), 5);
    let conn = ConnKey(1);
    for event in [
        LinkEvent::WantSend,
        LinkEvent::Dialing { conn },
        LinkEvent::Accepted { conn, session: 77, incarnation: 7, dials: 0 },
    ] {
        let _ = link.on(event, Time::ZERO, &CFG);
    }
    assert_eq!((link.up(), link.session()), (Some(conn), 77));
    link
}

#[test]
fn a_lost_connection_is_dialled_again_and_given_up_in_time() {
    let (conn, failure) = (ConnKey(1), Failure::Eof);
    let mut link = in_session();
    let got = acts(&mut link, LinkEvent::Lost { conn, failure }, at(1000));
    assert_eq!(got, [LinkAction::Suspend(failure), LinkAction::StartDial]);
    assert!(link.is_resuming() && link.session() == 77);
    // Time is up after `resume_timeout`, however the dials fail.
    let (mut event, mut now, mut dials) = (None, at(1000), 0);
    let cause = loop {
        let next = event.take().unwrap_or(LinkEvent::DialFailed {
            conn: ConnKey::NONE,
            failure: Failure::TimedOut,
            permanent: false,
        });
        let got = acts(&mut link, next, now);
        match got[..] {
            [LinkAction::Down(cause)] => break cause,
            [LinkAction::StartDial] => dials += 1,
            _ => {
                now = link.deadline().expect("a waiting link has a deadline");
                event = Some(LinkEvent::Timer);
            }
        }
    };
    assert!(dials > 5 && now == at(11_000), "{dials} dials until {now:?}");
    assert!(matches!(cause, DownCause::NotResumed { last: Failure::TimedOut, .. }), "{cause}");
    assert_eq!((link.phase(), link.session(), link.is_resuming()), (Phase::Failed, 0, false));
    // Failures other than the network's are not resumed.
    let mut link = in_session();
    let got = acts(&mut link, LinkEvent::Lost { conn, failure: Failure::Protocol }, at(0));
    assert_eq!(got, [LinkAction::Down(DownCause::Lost(Failure::Protocol))]);
}

#[test]
fn a_process_that_is_gone_does_not_cost_the_whole_time() {
    let mut link = in_session();
    let _ = acts(&mut link, LinkEvent::Lost { conn: ConnKey(1), failure: Failure::Eof }, at(0));
    let failed = |failure| LinkEvent::DialFailed { conn: ConnKey::NONE, failure, permanent: false };
    let mut now = at(0);
    let mut dial = |link: &mut Link, failure: Failure| {
        let got = acts(link, failed(failure), now);
        if got.is_empty() {
            now = link.deadline().expect("a pause");
            assert_eq!(acts(link, LinkEvent::Timer, now), [LinkAction::StartDial]);
        }
        (now, got)
    };
    // Another failure in between: it does not count.
    for failure in [REFUSED, REFUSED, Failure::TimedOut] {
        assert!(dial(&mut link, failure).1.is_empty());
    }
    for _ in 0..30 {
        let (now, got) = dial(&mut link, REFUSED);
        if let [LinkAction::Down(cause)] = got[..] {
            assert!(matches!(cause, DownCause::Gone { refused: 3.., .. }), "{cause}");
            assert!(cause.to_string().contains("nobody listens"), "{cause}");
            assert!(now >= at(200) && now < at(1000), "{now:?}");
            return;
        }
    }
    panic!("a process that is gone was dialled for ever");
}

#[test]
fn only_the_session_at_hand_is_resumed() {
    let conn = ConnKey(9);
    let of = |session| HandshakeParams { session, ..params(conn) };
    // The peer has lost the connection before this side noticed.
    let mut link = in_session();
    let got = acts(&mut link, LinkEvent::Incoming { conn, params: of(77) }, at(0));
    let want =
        [LinkAction::Close(ConnKey(1)), LinkAction::Suspend(Failure::Replaced), LinkAction::SendAccept(conn)];
    assert_eq!(got, want);
    assert_eq!(acts(&mut link, LinkEvent::Ready { conn }, at(1)), [LinkAction::Adopt(conn)]);
    assert_eq!(link.session(), 77);
    for phase in PHASES {
        let mut link = in_phase(phase);
        let reason = match phase {
            // It may be the one that the own dial, or the connection for a checkpoint, is about to
            // begin.
            Phase::Dialing | Phase::Promised | Phase::Up => RejectReason::Crossing,
            Phase::Shut => RejectReason::Finalized,
            _ => RejectReason::NoSession,
        };
        let got = acts(&mut link, LinkEvent::Incoming { conn, params: of(78) }, at(1));
        assert_eq!(got, [LinkAction::SendReject(conn, reason)], "{phase:?}");
    }
}

#[test]
fn a_new_incarnation_ends_the_old_one_and_revives_what_failed() {
    let conn = ConnKey(9);
    let new = LinkEvent::Incoming { conn, params: HandshakeParams { incarnation: 8, ..params(conn) } };
    let mut link = in_session();
    let down = LinkAction::Down(DownCause::Replaced);
    let refused = LinkAction::SendReject(conn, RejectReason::VcDown);
    assert_eq!(acts(&mut link, new, at(0)), [LinkAction::Close(ConnKey(1)), down, refused]);
    assert_eq!(link.phase(), Phase::Failed);
    // The old one is refused still.
    let old = LinkEvent::Incoming { conn, params: params(conn) };
    assert_eq!(acts(&mut link, old, at(1)), [refused]);
    assert_eq!(acts(&mut link, new, at(1)), [LinkAction::SendAccept(conn)]);
    assert_eq!(link.phase(), Phase::Promised);
}

#[test]
fn a_later_dial_takes_the_place_of_the_one_that_was_promised() {
    let mut link = in_phase(Phase::Promised);
    let (earlier, later) = (ConnKey(1), ConnKey(2));
    let got = acts(&mut link, LinkEvent::Incoming { conn: later, params: params(later) }, at(1));
    assert_eq!(got, [LinkAction::Close(earlier), LinkAction::SendAccept(later)]);
    let stale = HandshakeParams { dial: 1, ..params(later) };
    let conn = ConnKey(3);
    let got = acts(&mut link, LinkEvent::Incoming { conn, params: stale }, at(1));
    assert_eq!(got, [LinkAction::SendReject(conn, RejectReason::AlreadyConnected)]);
}

#[test]
fn giving_up_leads_to_where_a_failure_would() {
    for phase in PHASES {
        let mut link = in_phase(phase);
        assert_eq!(acts(&mut link, LinkEvent::Abort, at(1)), []);
        let want = if phase == Phase::Shut || phase == Phase::Parting { link.phase() } else { Phase::Failed };
        assert_eq!((link.phase(), link.deadline()), (want, None), "{phase:?}");
        assert!(matches!(link.phase(), Phase::Failed | Phase::Shut | Phase::Idle));
    }
}

#[test]
fn a_peer_that_sleeps_is_not_dialled_and_has_long_to_come_back() {
    let (conn, next) = (ConnKey(1), ConnKey(2));
    let mut link = in_session();
    // It closes the connection itself, when it has heard that this side knows.
    assert_eq!(acts(&mut link, LinkEvent::PeerSleeps, at(1000)), []);
    assert_eq!(link.up(), Some(conn));
    let got = acts(&mut link, LinkEvent::Lost { conn, failure: Failure::Errno(104) }, at(1000));
    assert_eq!(got, [LinkAction::Suspend(Failure::Checkpoint)]);
    assert_eq!((link.phase(), link.is_resuming(), link.is_patient()), (Phase::Backoff, true, true));
    assert_eq!(link.deadline(), Some(at(3_601_000)));
    assert_eq!(acts(&mut link, LinkEvent::WantSend, at(2000)), []);
    let mut forgotten = link.clone();
    let got = acts(&mut forgotten, LinkEvent::Timer, at(3_601_000));
    assert!(matches!(got[..], [LinkAction::Down(DownCause::NotResumed { .. })]), "{got:?}");
    let back = LinkEvent::Incoming { conn: next, params: HandshakeParams { session: 77, ..params(next) } };
    assert_eq!(acts(&mut link, back, at(60_000)), [LinkAction::SendAccept(next)]);
    assert_eq!(acts(&mut link, LinkEvent::Ready { conn: next }, at(60_001)), [LinkAction::Adopt(next)]);
    assert!(!link.is_patient() && link.session() == 77);
}

#[test]
fn no_time_passes_for_a_process_that_sleeps() {
    for phase in PHASES {
        let mut link = in_phase(phase);
        let _ = acts(&mut link, LinkEvent::Sleep, at(0));
        let _ = acts(&mut link, LinkEvent::SleepNow, at(1));
        let got = acts(&mut link, LinkEvent::WantSend, at(2));
        assert!(got.is_empty() && link.deadline().is_none(), "{phase:?}: {got:?}, {:?}", link.deadline());
        assert_eq!(acts(&mut link, LinkEvent::Wake, at(100_000)), []);
        if matches!(phase, Phase::Failed | Phase::Shut | Phase::Up) {
            // Without a session it is down.
            continue;
        }
        let due = link.deadline().expect("a pause");
        assert!(due > at(100_000) && due < at(101_000), "{phase:?}: {due:?}");
        assert_eq!(acts(&mut link, LinkEvent::Timer, due), [LinkAction::StartDial], "{phase:?}");
    }
}

/// The peer's address may have nobody for long after either side was checkpointed.
#[test]
fn refusals_after_a_checkpoint_are_no_death() {
    let mut link = in_session();
    assert_eq!(acts(&mut link, LinkEvent::Sleep, at(0)), []);
    let knows = acts(&mut link, LinkEvent::PeerKnows, at(1));
    assert_eq!(knows, [LinkAction::Close(ConnKey(1)), LinkAction::Suspend(Failure::Checkpoint)]);
    assert!(link.is_quiet());
    assert_eq!(acts(&mut link, LinkEvent::Wake, at(1000)), []);
    for _ in 0..60 {
        let now = link.deadline().expect("a pause");
        assert_eq!(acts(&mut link, LinkEvent::Timer, now), [LinkAction::StartDial]);
        let failed = LinkEvent::DialFailed { conn: ConnKey::NONE, failure: REFUSED, permanent: false };
        assert_eq!(acts(&mut link, failed, now), []);
    }
    assert!(link.deadline() > Some(at(20_000)));
}

/// It would take the process for dead.
#[test]
fn a_peer_that_has_not_heard_of_the_checkpoint_is_dialled_until_it_has() {
    let mut link = in_session();
    assert_eq!(acts(&mut link, LinkEvent::Sleep, at(0)), []);
    let lost = acts(&mut link, LinkEvent::Lost { conn: ConnKey(1), failure: Failure::Eof }, at(1));
    assert_eq!(lost, [LinkAction::Suspend(Failure::Eof), LinkAction::StartDial]);
    assert_eq!(acts(&mut link, LinkEvent::Dialing { conn: ConnKey(2) }, at(1)), []);
    assert!(!link.is_quiet());
    let late = acts(&mut link, LinkEvent::SleepNow, at(5000));
    assert_eq!(late, [LinkAction::Close(ConnKey(2))]);
    assert!(link.is_quiet() && link.is_patient());
}
