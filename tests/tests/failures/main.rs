//! Effects of a failed process on the requests of the others: the peers are a script.

mod watched;

use std::time::Duration;

use ch3_shim::pkt::{CookieLen, Mode, Packet, ShortData};
use ch3_shim::tagmatch::Envelope;
use ch3_shim::{ANY_SOURCE, ANY_TAG, Device, Error, RawReq, VirtualClock};
use netmod_core::{Segment, Time, VcErrorKind};
use netmod_tests::scripted::{Script, parse};
use netmod_tests::sys::Area;

/// Memory for a receive by its raw handle; leaked, since the request may outlive a test that fails.
fn memory() -> Segment {
    Area::new(vec![0; 16]).contig()
}

fn any(dev: &mut Device) -> RawReq {
    let world = dev.world();
    dev.irecv_raw(memory(), ANY_SOURCE, ANY_TAG, world).expect("irecv")
}

fn message(script: &Script, from: u32, tag: i32) {
    let env = Envelope::new(0, from as i32, tag);
    let data = ShortData::new(&[from as u8; 3]).expect("short");
    script.send(from, &Packet::EagerShort { env, ready: false, data }.emit());
}

fn announcement(script: &Script, from: u32, sreq: u64) {
    let env = Envelope::new(0, from as i32, 5);
    let rts = Packet::Rts { env, sync: false, sreq, data_sz: 1 << 20, cookie_len: CookieLen::NONE };
    script.send(from, &rts.emit());
}

fn die(script: &Script, dev: &mut Device, rank: u32) {
    script.die(rank);
    script.play(dev);
}

#[track_caller]
fn pending_for<T: std::fmt::Debug>(rank: u32, result: Result<T, impl Into<Error>>) {
    let result = result.map_err(Into::into);
    match &result {
        Err(e @ Error::PendingFailed { rank: r, cause, .. }) if *r == rank => {
            assert_eq!(cause.peer().map(|p| p.rank), Some(rank));
            let text = e.to_string();
            assert!(text.contains(&format!("rank {rank} on ")), "no host in: {text}");
            assert!(text.contains("the script lets it die"), "no cause in: {text}");
        }
        _ => panic!("a pending failure of rank {rank} was expected: {result:?}"),
    }
}

#[track_caller]
fn lost<T: std::fmt::Debug>(rank: u32, result: Result<T, impl Into<Error>>) {
    let result = result.map_err(Into::into);
    match &result {
        Err(Error::Peer(e)) if e.peer().map(|p| p.rank) == Some(rank) && e.host().is_some() => {}
        _ => panic!("an error of rank {rank} that names its host was expected: {result:?}"),
    }
}

fn acknowledged(dev: &mut Device) -> Vec<u32> {
    dev.ack_failures().iter().map(|f| f.peer.rank).collect()
}

#[test]
fn a_raw_receive_from_any_source_stays_posted() {
    let (script, mut dev) = Script::device(4, true);
    let mut req = any(&mut dev);
    assert_eq!(dev.test_raw(req), Ok(None));
    die(&script, &mut dev, 1);
    pending_for(1, dev.test_raw(req));
    pending_for(1, dev.wait_raw(req));
    pending_for(1, dev.wait_any_raw(&mut [req]));
    pending_for(1, dev.test_any_raw(&mut [req]));
    pending_for(1, dev.wait_some_raw(&mut [req], &mut Vec::new()));
    pending_for(1, dev.test_some_raw(&mut [req], &mut Vec::new()));
    let mut all = [req];
    let mut statuses = Vec::new();
    pending_for(1, dev.wait_all_raw(&mut all, Some(&mut statuses)));
    assert_eq!((all, statuses.len()), ([req], 1));
    pending_for(1, dev.test_all_raw(&mut all, None));
    assert!(dev.pending_failure(req).is_some());
    assert!(!dev.is_finished(req));
    assert_eq!((dev.posted_len(), dev.live_requests()), (1, 1));
    // One that is posted only now is no better.
    let later = any(&mut dev);
    pending_for(1, dev.wait_raw(later));

    assert_eq!(acknowledged(&mut dev), [1]);
    assert_eq!(acknowledged(&mut dev), Vec::<u32>::new());
    assert_eq!(dev.failed().len(), 1);
    assert_eq!(dev.pending_failure(req), None);
    assert_eq!(dev.test_raw(req), Ok(None));
    message(&script, 2, 7);
    assert_eq!(dev.wait_raw(req).map(|s| (s.source, s.tag, s.len)), Ok((2, 7, 3)));
    req = later;
    message(&script, 3, 8);
    assert_eq!(dev.wait_raw(req).map(|s| s.source), Ok(3));
    assert_eq!((dev.posted_len(), dev.live_requests()), (0, 0));
}

#[test]
fn a_message_that_is_there_wins_over_a_failure() {
    let (script, mut dev) = Script::device(3, true);
    let world = dev.world();
    let req = any(&mut dev);
    die(&script, &mut dev, 1);
    message(&script, 2, 3);
    // Not a single step of progress was made since it was sent.
    assert_eq!(dev.wait_raw(req).map(|s| s.source), Ok(2));
    for _ in 0..4 {
        message(&script, 2, 3);
    }
    assert_eq!(dev.probe(ANY_SOURCE, 3, world).map(|s| s.source), Ok(2));
    let held = dev.mprobe(ANY_SOURCE, 3, world).expect("a message");
    assert_eq!(dev.mrecv(&mut [0; 3], held).map(|s| s.source), Ok(2));
    assert_eq!(dev.recv(&mut [0; 3], ANY_SOURCE, 3, world).map(|s| s.source), Ok(2));
    // Messages that a process has sent before its death arrived whole.
    message(&script, 2, 4);
    die(&script, &mut dev, 2);
    assert_eq!(dev.recv(&mut [0; 3], 2, 3, world).map(|s| s.source), Ok(2));
    assert_eq!(dev.recv(&mut [0; 3], ANY_SOURCE, 4, world).map(|s| s.source), Ok(2));
}

#[test]
fn an_owned_receive_is_kept_if_it_was_lent_and_cancelled_if_it_was_given() {
    let (script, mut dev) = Script::device(3, true);
    let world = dev.world();
    let irecv = |dev: &mut Device| dev.irecv(vec![0; 3], ANY_SOURCE, ANY_TAG, world).expect("irecv");
    let mut req = irecv(&mut dev);
    die(&script, &mut dev, 1);
    pending_for(1, dev.wait(&mut req));
    pending_for(1, dev.test(&mut req).map(|r| r.is_ok()));
    pending_for(1, dev.wait_all([&mut req]));
    let mut list = vec![req];
    pending_for(1, dev.wait_any(&mut list));
    pending_for(1, dev.wait_some(&mut list));
    assert_eq!((list.len(), dev.posted_len()), (1, 1));
    let mut req = list.remove(0);

    let given = irecv(&mut dev);
    pending_for(1, dev.wait(given));
    let given = irecv(&mut dev);
    pending_for(1, dev.test(given).map(|r| r.is_ok()));
    let given = [irecv(&mut dev), irecv(&mut dev)];
    pending_for(1, dev.wait_all(given));
    let given = vec![irecv(&mut dev)];
    pending_for(1, dev.test_all(given).map(|r| r.is_ok()));
    assert_eq!((dev.posted_len(), dev.live_requests()), (1, 1), "a receive that nobody has any more is left");

    dev.ack_failures();
    message(&script, 2, 1);
    let done = dev.wait(&mut req).expect("a message");
    assert_eq!((done.status.source, &done.buffer[..]), (2, &[2; 3][..]));
    // It is used up.
    assert_eq!(dev.wait(req).map(|d| d.status.len), Ok(0));
    assert_eq!(dev.live_requests(), 0);
}

#[test]
fn others_that_are_finished_come_first() {
    let (script, mut dev) = Script::device(3, true);
    let world = dev.world();
    let wild = any(&mut dev);
    let exact = dev.irecv_raw(memory(), 1, 1, world).expect("irecv");
    die(&script, &mut dev, 1);
    let mut reqs = [wild, exact];
    lost(1, dev.wait_any_raw(&mut reqs));
    assert_eq!(reqs, [wild, RawReq::NULL]);
    let mut out = Vec::new();
    message(&script, 2, 9);
    assert_eq!(dev.wait_some_raw(&mut reqs, &mut out), Ok(()));
    assert_eq!(out.iter().map(|(i, s)| (*i, s.source)).collect::<Vec<_>>(), [(0, 2)]);
}

#[test]
fn blocking_calls_and_scopes_end() {
    let (script, mut dev) = Script::device(3, true);
    let world = dev.world();
    die(&script, &mut dev, 1);
    let mut buf = [0; 8];
    pending_for(1, dev.recv(&mut buf, ANY_SOURCE, 1, world));
    pending_for(1, dev.probe(ANY_SOURCE, 1, world));
    pending_for(1, dev.iprobe(ANY_SOURCE, 1, world));
    pending_for(1, dev.mprobe(ANY_SOURCE, 1, world).map(|m| m.status()));
    pending_for(1, dev.improbe(ANY_SOURCE, 1, world).map(|m| m.is_some()));
    lost(1, dev.probe(1, 1, world));
    lost(1, dev.recv(&mut buf, 1, 1, world));
    lost(1, dev.send(&[1], 1, 1, world));
    // A rank that is not concerned.
    assert_eq!(dev.iprobe(2, 1, world), Ok(None));
    let ended = dev.scope(|s| {
        s.irecv(&mut buf, ANY_SOURCE, 1, world)?;
        Ok(())
    });
    pending_for(1, ended);
    let ended = dev.scope(|s| {
        let mut req = s.irecv(&mut buf, ANY_SOURCE, 1, world)?;
        pending_for(1, s.wait(&req));
        message(&script, 2, 1);
        s.wait(&mut req)
    });
    assert_eq!(ended.map(|s| s.source), Ok(2));
    assert_eq!((dev.posted_len(), dev.live_requests()), (0, 0));
}

#[test]
fn when_nobody_is_left_a_receive_from_anybody_fails() {
    let (script, mut dev) = Script::device(3, true);
    let world = dev.world();
    let (first, second) = (any(&mut dev), any(&mut dev));
    die(&script, &mut dev, 1);
    die(&script, &mut dev, 2);
    match dev.wait_raw(first) {
        Err(Error::PendingFailed { rank: 1, others: 1, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(acknowledged(&mut dev), [1, 2]);
    // This process may still send to itself.
    dev.send(&[0; 3], 0, 4, world).expect("a message to this process");
    assert_eq!(dev.wait_raw(first).map(|s| s.source), Ok(0));
    let none = dev.wait_raw(second);
    assert!(matches!(&none, Err(Error::Peer(e)) if e.to_string().contains("nobody is left")), "{none:?}");
    let none = dev.recv(&mut [0], ANY_SOURCE, 1, world);
    assert!(matches!(none, Err(Error::Peer(_))), "{none:?}");
    let none = dev.probe(ANY_SOURCE, 1, world);
    assert!(matches!(none, Err(Error::Peer(_))), "{none:?}");
    let last = any(&mut dev);
    let none = dev.test_raw(last);
    assert!(matches!(none, Err(Error::Peer(_))), "{none:?}");
    assert_eq!((dev.posted_len(), dev.live_requests()), (0, 0));
}

#[test]
fn a_failed_process_can_be_used_again() {
    let (script, mut dev) = Script::device(3, true);
    let world = dev.world();
    dev.send(&[1], 1, 1, world).expect("send");
    die(&script, &mut dev, 1);
    lost(1, dev.send(&[1], 1, 1, world));
    dev.reconnect(1).expect("reconnect");
    assert_eq!(dev.failed(), []);
    script.received(1);
    dev.send(&[1], 1, 2, world).expect("send");
    let sent = parse(&script.received(1));
    assert!(matches!(sent[..], [(Packet::EagerShort { .. }, _)]), "{sent:?}");
    let req = any(&mut dev);
    assert_eq!(dev.test_raw(req), Ok(None), "the failure is forgotten");
    script.connect(1);
    message(&script, 1, 6);
    assert_eq!(dev.wait_raw(req).map(|s| s.source), Ok(1));
    // A process that has not failed: nothing to do.
    dev.reconnect(2).expect("reconnect");
    assert!(matches!(dev.reconnect(3), Err(Error::Rank { .. })));
}

/// A refused send may tell a program of a failure before the failure itself has been handled.
#[test]
fn a_failure_that_nobody_has_seen_yet_can_be_mended() {
    let (script, mut dev) = Script::device(3, true);
    let world = dev.world();
    dev.send(&[1], 1, 1, world).expect("send");
    script.die(1);
    dev.reconnect(1).expect("reconnect");
    script.received(1);
    assert_eq!(dev.failed(), []);
    dev.send(&[1], 1, 2, world).expect("send");
    let sent = parse(&script.received(1));
    assert!(matches!(sent[..], [(Packet::EagerShort { .. }, _)]), "{sent:?}");
    script.play(&mut dev);
    assert_eq!(dev.failed(), [], "it fails once only");
}

#[test]
fn a_new_incarnation_connects_by_itself() {
    let (script, mut dev) = Script::device(3, true);
    let world = dev.world();
    message(&script, 1, 1);
    die(&script, &mut dev, 1);
    assert_eq!(dev.failed().len(), 1);
    let wild = any(&mut dev);
    assert_eq!(dev.wait_raw(wild).map(|s| s.source), Ok(1));
    let wild = any(&mut dev);
    pending_for(1, dev.test_raw(wild));
    script.connect(1);
    script.play(&mut dev);
    assert_eq!(dev.failed(), []);
    assert_eq!(dev.test_raw(wild), Ok(None));
    dev.send(&[1], 1, 1, world).expect("send");
    message(&script, 1, 2);
    assert_eq!(dev.wait_raw(wild).map(|s| (s.source, s.tag)), Ok((1, 2)));
    // It dies once more.
    die(&script, &mut dev, 1);
    lost(1, dev.send(&[1], 1, 1, world));
    assert_eq!(acknowledged(&mut dev), [1]);
}

/// A peer that connects by itself may die before the process manager has answered with its card.
#[test]
fn the_host_of_a_failed_rank_is_named_when_its_card_comes() {
    let (script, mut dev) = Script::device(3, true);
    script.answer_cards(false);
    message(&script, 1, 1);
    script.play(&mut dev);
    die(&script, &mut dev, 1);
    assert_eq!(dev.failed()[0].cause.host(), None);
    script.answer_cards(true);
    for _ in 0..200 {
        dev.progress().expect("progress");
    }
    let failed = dev.ack_failures();
    assert!(failed[0].cause.host().is_some_and(|host| !host.is_empty()), "{failed:?}");
}

/// A message that was matched by a probe is of one connection, and is not asked for on the next.
#[test]
fn a_held_message_does_not_outlive_its_connection() {
    let (script, mut dev) = Script::device(3, true);
    let world = dev.world();
    announcement(&script, 1, 77);
    script.play(&mut dev);
    let held = dev.mprobe(1, 5, world).expect("an announced message");
    announcement(&script, 1, 78);
    script.play(&mut dev);
    die(&script, &mut dev, 1);
    dev.reconnect(1).expect("reconnect");
    script.received(1);
    let mut buf = vec![0; 1 << 20];
    lost_or_gone(dev.mrecv(&mut buf, held));
    assert!(script.received(1).is_empty(), "the data of a lost message is asked for");
    // Nor is the other one there any more.
    assert_eq!(dev.iprobe(1, 5, world), Ok(None));
    assert_eq!(dev.stats().unexpected_bytes, 0);
}

#[track_caller]
fn lost_or_gone<T: std::fmt::Debug>(result: Result<T, impl Into<Error>>) {
    let result = result.map_err(Into::into);
    assert!(matches!(&result, Err(Error::Peer(e)) if e.peer().is_some_and(|p| p.rank == 1)), "{result:?}");
}

/// Waiting sends and receives of every kind end with their process, none with another.
#[test]
fn everything_that_needs_a_process_fails_with_it() {
    let (script, mut dev) = Script::device(3, true);
    let world = dev.world();
    let large = vec![1u8; dev.config().eager_max + 1];
    let rendezvous = dev.isend(large.clone(), 1, 1, world).expect("isend");
    let sync = dev.isend_mode(vec![1; 9].into(), 1, 1, world, Mode::Sync).expect("isend");
    let posted = dev.irecv(vec![0; 9], 1, 1, world).expect("irecv");
    let other = dev.irecv(vec![0; 3], 2, 1, world).expect("irecv");
    let other_send = dev.isend(large, 2, 1, world).expect("isend");
    announcement(&script, 1, 5);
    script.play(&mut dev);
    // Matched: its data is asked for and never comes.
    let half = dev.irecv(vec![0; 1 << 20], ANY_SOURCE, 5, world).expect("irecv");
    die(&script, &mut dev, 1);
    for req in [rendezvous, sync, posted, half] {
        lost(1, dev.wait(req));
    }
    assert_eq!(dev.live_requests(), 2);
    message(&script, 2, 1);
    assert_eq!(dev.wait(other).map(|d| d.status.source), Ok(2));
    let asked = parse(&script.received(2));
    let [(Packet::Rts { sreq, .. }, _)] = asked[..] else { panic!("{asked:?}") };
    let cts = Packet::Cts { sreq, rreq: 1, data_sz: 1, cookie_len: CookieLen::NONE };
    script.send(2, &cts.emit());
    dev.wait(other_send).expect("a send to the other process");
}

/// The words of the process manager count when the connection says nothing.
#[test]
fn the_process_manager_tells_of_a_death() {
    let clock = VirtualClock::new();
    let (script, mut dev) = Script::device_at(4, true, Some(clock.clone()));
    let world = dev.world();
    let mut seconds = 1;
    let mut later = |ms: u64| {
        seconds += ms;
        clock.set(Time(seconds * 1_000_000));
    };
    // Rank 1 has a connection, rank 2 has none.
    message(&script, 1, 1);
    script.play(&mut dev);
    let from_1 = dev.irecv_raw(memory(), 1, 2, world).expect("irecv");
    let from_2 = dev.irecv_raw(memory(), 2, 2, world).expect("irecv");
    let wild = dev.irecv_raw(memory(), ANY_SOURCE, 9, world).expect("irecv");
    later(1);
    assert_eq!(dev.iprobe(3, 0, world), Ok(None));
    script.tell_failed(&[1, 2]);
    assert_eq!((dev.test_raw(from_1), dev.test_raw(from_2)), (Ok(None), Ok(None)), "nobody was asked yet");
    later(1100);
    assert_eq!(spin(&mut dev, from_2).expect_err("rank 2 is dead").kind(), VcErrorKind::Dead);
    lost(2, dev.send(&[1], 2, 1, world));
    lost(2, dev.recv(&mut [1], 2, 1, world));
    let error = dev.failed().remove(0);
    assert_eq!(error.cause.kind().found_by(), "the process manager");
    // Messages that rank 1 has sent before its death may still come.
    assert_eq!(dev.test_raw(from_1), Ok(None));
    message(&script, 1, 2);
    assert_eq!(dev.wait_raw(from_1).map(|s| s.source), Ok(1));
    let from_1 = dev.irecv_raw(memory(), 1, 2, world).expect("irecv");
    later(300);
    assert_eq!(spin(&mut dev, from_1).expect_err("rank 1 is dead").kind(), VcErrorKind::Dead);
    match dev.test_raw(wild) {
        Err(Error::PendingFailed { rank: 1, others: 1, .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(acknowledged(&mut dev), [1, 2]);
    // The process manager repeats itself, and that is no news.
    later(1100);
    for _ in 0..200 {
        assert_eq!(dev.test_raw(wild), Ok(None));
    }
    // A new incarnation of the rank without a connection.
    script.connect(2);
    message(&script, 2, 9);
    assert_eq!(dev.wait_raw(wild).map(|s| s.source), Ok(2));
    assert_eq!(dev.failed().len(), 1);
    later(1100);
    for _ in 0..200 {
        assert_eq!(dev.iprobe(2, 0, world), Ok(None));
    }
}

/// Tests a request that nobody will serve until it fails.
fn spin(dev: &mut Device, req: RawReq) -> Result<(), netmod_core::VcError> {
    for _ in 0..1000 {
        match dev.test_raw(req) {
            Ok(None) => {}
            Err(Error::Peer(e)) => return Err(e),
            other => panic!("{other:?}"),
        }
    }
    panic!("a receive from a dead rank waits on")
}

#[test]
fn finalize_names_who_has_failed() {
    for acknowledge in [false, true] {
        let (script, mut dev) = Script::device(3, true);
        die(&script, &mut dev, 2);
        if acknowledge {
            dev.ack_failures();
            dev.finalize().expect("finalize");
        } else {
            let failed = dev.finalize().expect_err("rank 2 has failed");
            assert!(matches!(&failed, Error::ProcessesFailed(f) if f.len() == 1), "{failed:?}");
            assert!(failed.to_string().contains("rank 2 on "), "{failed}");
        }
    }
}

/// A process manager that waits for a dead rank in its barrier.
#[test]
fn finalize_does_not_wait_for_the_dead() {
    let clock = VirtualClock::new();
    let (script, mut dev) = Script::device_at(3, true, Some(clock.clone()));
    let world = dev.world();
    dev.send(&[1], 1, 1, world).expect("send");
    script.play(&mut dev);
    script.let_barriers_end(false);
    dev.finalize_begin();
    let timeout = dev.config().close_timeout;
    // It waits as long as nobody has failed.
    for n in 1..20 {
        clock.set(Time::ZERO + timeout * n);
        for _ in 0..10 {
            assert_eq!(dev.finalize_poll(), Ok(false));
        }
    }
    script.die(2);
    let mut steps = 0;
    let (begin, mut now) = (clock.now(), clock.now());
    let outcome = loop {
        match dev.finalize_poll() {
            Ok(true) => break Ok(()),
            Ok(false) => {}
            Err(e) => break Err(e),
        }
        now = now + Duration::from_millis(100);
        clock.set(now);
        steps += 1;
        assert!(steps < 10_000, "finalize has no end");
    };
    let text = outcome.expect_err("rank 2 has failed").to_string();
    assert!(text.contains("barrier") && text.contains("rank 2 on "), "{text}");
    // Rank 1 does not close its side either: each stage has had its time, and no more.
    assert!(now.since(begin) <= timeout * 2 + Duration::from_secs(1), "{:?}", now.since(begin));
}

#[test]
fn a_death_in_the_middle_of_a_close() {
    let (script, mut dev) = Script::device(3, true);
    let world = dev.world();
    dev.send(&[1], 1, 1, world).expect("send");
    script.play(&mut dev);
    let closing = dev.disconnect_begin(1);
    assert_eq!(dev.disconnect_poll(&closing), Ok(false));
    script.die(1);
    lost(1, dev.disconnect_poll(&closing));
    lost(1, dev.disconnect(1));
    // The other way round: the peer has closed, this side has not.
    dev.send(&[1], 2, 1, world).expect("send");
    script.play(&mut dev);
    script.send(2, &Packet::Close { ack: false }.emit());
    die(&script, &mut dev, 2);
    lost(2, dev.send(&[1], 2, 1, world));
    assert_eq!(acknowledged(&mut dev), [1, 2]);
    dev.finalize().expect("finalize");
}

/// Both sides have closed: what breaks then is no failure, and the VC can be used again.
#[test]
fn a_loss_after_both_have_closed_is_no_failure() {
    let (script, mut dev) = Script::device(3, true);
    let world = dev.world();
    dev.send(&[1], 1, 1, world).expect("send");
    script.play(&mut dev);
    let posted = dev.irecv_raw(memory(), 1, 1, world).expect("irecv");
    script.break_last_words();
    let closing = dev.disconnect_begin(1);
    script.send(1, &Packet::Close { ack: true }.emit());
    while !dev.disconnect_poll(&closing).expect("a close by agreement") {}
    assert_eq!(dev.failed(), []);
    assert_eq!(dev.report()[0].state, "INACTIVE");
    script.received(1);
    dev.send(&[1], 1, 2, world).expect("the VC is used again");
    assert_eq!(parse(&script.received(1)).len(), 1);
    message(&script, 1, 1);
    assert_eq!(dev.wait_raw(posted).map(|s| s.source), Ok(1));
}
