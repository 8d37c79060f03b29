//! Pauses between attempts, and what becomes of offers that lapse.

use netmod_connection::{InitiatorParams, InitiatorStep, Purpose};
use netmod_core::{Break, Diagnose, Time};

use std::time::Duration;

use super::*;
use crate::interfaces::HOLD;
use crate::netmod::rails::tests::{Liar, Two, a_rail};
use crate::pairs::Pairs;

fn seconds(n: u64) -> Time {
    Time::ZERO + Duration::from_secs(n)
}

#[test]
fn attempts_follow_each_other_more_and_more_slowly() {
    let mut going = Upgrade::new(seconds(5));
    let mut pauses = vec![];
    for n in 0..8 {
        pauses.push(going.pause().as_secs());
        going.tried(seconds(5 + n));
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 300]);
    going.forget(seconds(400));
    assert_eq!(going.pause(), HOLD, "it is long ago");
}

#[test]
fn each_move_doubles_the_pause_before_the_next_one() {
    let mut going = Upgrade::new(seconds(0));
    for n in 0..5 {
        assert_eq!(going.pause(), HOLD * (1 << n));
        going.tried(seconds(10 * n + 1));
        going.moved(seconds(10 * n + 2));
    }
    // News of the interfaces make attempts count no more, but moves do.
    going.tries = 0;
    assert_eq!(going.pause(), HOLD * 32);
    going.moved(seconds(1000));
    assert_eq!(going.pause(), HOLD * 2, "those before are long ago");
}

/// Two processes with a session.
fn two() -> Two {
    Two::new(|cfg| (cfg.resume_local, cfg.rails_loopback) = (true, 0))
}

/// The parameters of the first process for a further connection of its session with the second one.
fn a_connection(two: &Two, offer: bool) -> InitiatorParams {
    let (first, second) = (&two.engines[0].netmod, &two.engines[1].netmod);
    let v = second.sessions.vcs.get(two.vcs[1]).expect("a VC");
    assert_ne!(v.session.id, 0);
    InitiatorParams {
        purpose: Purpose::Vc,
        caps: crate::netmod::handshake::RESUME,
        incarnation: first.id.incarnation(),
        dial: first.stats.dialled + 1,
        session: v.session.id,
        terms: Pairs::default().offered(offer).terms(),
        ..a_rail()
    }
}

/// The dialler by hand, up to what it has to prove.
fn challenged(two: &mut Two, offer: bool) -> (Liar, Vec<u8>) {
    let (mut liar, mut initiator) = Liar::greet(two, a_connection(two, offer));
    loop {
        let bytes = liar.hear(two, 1).expect("a challenge");
        match initiator.on_bytes(&bytes).expect("a handshake").1 {
            InitiatorStep::NeedMore => {}
            InitiatorStep::Prove(proof) => return (liar, proof.as_bytes().to_vec()),
            other => panic!("{other:?}"),
        }
    }
}

/// The peer makes no call while an offer lapses: it does not take it afterwards, and nothing is
/// lost.
#[test]
fn an_offer_that_has_lapsed_is_not_taken() {
    let mut two = two();
    let before = two.engines[1].netmod.sessions.vcs.get(two.vcs[1]).and_then(|v| v.link.up());
    let (mut liar, proof) = challenged(&mut two, true);
    liar.write(&[&proof, netmod_connection::Initiator::goodbye().as_bytes()].concat());
    liar.hear(&mut two, 1).expect_err("the connection is closed without an answer");
    for _ in 0..100 {
        two.step();
    }
    let v = two.engines[1].netmod.sessions.vcs.get(two.vcs[1]).expect("a VC");
    assert!(before.is_some() && v.link.up() == before, "{}", two.describe());
    assert!(v.session.loss.is_none() && v.session.resumes == 0);
    two.connect();
    assert_eq!(two.engines[0].netmod.stats().resumes, 0);
}

/// An offered connection replaces one that works, and no loss is told. One that is not offered is
/// told as a loss.
#[test]
fn an_offer_that_is_taken_is_no_loss() {
    for (offer, failure) in [(true, Failure::Moved), (false, Failure::Replaced)] {
        let mut two = two();
        let (mut liar, proof) = challenged(&mut two, offer);
        liar.write(&proof);
        liar.hear(&mut two, 1).expect("it is accepted");
        let v = two.engines[1].netmod.sessions.vcs.get(two.vcs[1]).expect("a VC");
        assert_eq!(v.session.loss.as_ref().map(|l| l.failure), Some(failure), "offer: {offer}");
    }
}

/// The peer has taken an offer just as it lapsed, and has closed the connection: that is told, and
/// counts as no loss.
#[test]
fn an_offer_that_is_taken_as_it_lapses_is_no_loss() {
    for lapsed in [true, false] {
        let mut two = two();
        let vc = two.vcs[0];
        let tcp = &mut two.engines[0].netmod;
        if lapsed {
            let now = tcp.clock.now;
            let going = Upgrade { lapsed: now, ..Upgrade::new(now) };
            tcp.sessions.vcs.get_mut(vc).expect("a VC").routes.upgrade = Some(Box::new(going));
        }
        let engine = &mut two.engines[1];
        engine.netmod.break_connection(&mut engine.core, two.vcs[1], Break::Shut).expect("a connection");
        let loss =
            |two: &Two| two.engines[0].netmod.sessions.vcs.get(vc)?.session.loss.as_ref().map(|l| l.failure);
        two.until("the end is seen", |two| loss(two).is_some());
        let want = if lapsed { Failure::Lapsed } else { Failure::Eof };
        assert_eq!(loss(&two), Some(want));
        two.connect();
        assert_eq!(two.engines[0].netmod.stats().resumes, u64::from(!lapsed));
        assert!(!two.describe().contains("lost"), "{}", two.describe());
    }
}

/// An offer that nobody answers is counted when it lapses, and the connection stays.
#[test]
fn lapses_are_counted() {
    let mut two = two();
    let (vc, e) = (two.vcs[0], &mut two.engines[0]);
    // Pretends that the peer has sent something, too.
    e.netmod.link_event(&mut e.core, vc, LinkEvent::Heard);
    let up = e.netmod.sessions.vcs.get(vc).and_then(|v| v.link.up());
    let route = e.netmod.sessions.vcs.get(vc).and_then(|v| v.routes.last_route()).cloned().expect("a route");
    let port = e.netmod.sessions.vcs.get(vc).and_then(|v| v.routes.all.as_ref()).expect("routes").port;
    let socket = connect(&e.netmod.cfg, &route, port, true).expect("a connection");
    let mut conn = Conn::new(socket, Stage::Connecting, Some(vc));
    e.netmod.stats.dialled += 1;
    (conn.handshake.dial, conn.moves) = (e.netmod.stats.dialled, true);
    e.netmod.sockets.enroll(conn, Interest::BOTH).expect("a connection");
    // The second process makes no call.
    let end = std::time::Instant::now() + Duration::from_secs(60);
    while two.engines[0].netmod.stats().lapsed == 0 {
        assert!(std::time::Instant::now() < end, "{}", two.describe());
        two.step_one(0);
    }
    let v = two.engines[0].netmod.sessions.vcs.get(vc).expect("a VC");
    assert_eq!((v.link.up(), v.link.moving()), (up, None));
    two.connect();
    let stats = two.engines[0].netmod.stats();
    assert_eq!((stats.lapsed, stats.resumes, stats.moved), (1, 0, 0));
}
