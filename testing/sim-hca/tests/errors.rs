//! Tests of failing requests on connections, and of their effect on other requests.

mod common;

use core::time::Duration;

use common::*;
use hca::{Access, AsyncEvent, ModifyQp, Mr, Piece, Qp, QpState, SendOp, Sge, Status, ToRts};
use netmod_core::Time;
use netmod_sim_hca::{Faults, Settings};

fn with(sending: ToRts) -> Pair {
    Pair::with(Settings::default(), sending, CAP)
}

#[test]
fn without_a_receive_a_sender_waits_as_often_as_it_was_told() {
    for rnr_retry in 0..7 {
        let pair = with(ToRts { rnr_retry, ..rts(0) });
        pair.qa.post_send(&[quiet(1, SendOp::Send, &[]), quiet(2, SendOp::Send, &[])]).unwrap();
        assert!(pair.settle());
        let got = pair.a.statuses();
        assert_eq!(got, [(1, Status::RnrRetryExcErr), (2, Status::WrFlushErr)]);
        // Each retry waits for 10 us, code 1.
        let waited = pair.fabric.now();
        let waits = Duration::from_micros(10) * u32::from(rnr_retry);
        assert!(waited >= Time::ZERO + waits && waited < Time::ZERO + waits + Duration::from_micros(60));
        assert_eq!(pair.qa.state().unwrap(), QpState::Err);
        assert_eq!(pair.qb.state().unwrap(), QpState::Rts);
        pair.clean();
    }
}

#[test]
fn seven_is_for_ever() {
    let pair = with(rts(0));
    pair.a.mem.write(0, b"late");
    pair.qa.post_send(&[send(1, SendOp::Send, &[pair.a.sge(0, 4)]), send(2, SendOp::Send, &[])]).unwrap();
    assert!(!pair.fabric.settle(Time(1_000_000_000)));
    assert_eq!(pair.a.poll().len(), 0);
    pair.b.recv(&pair.qb, 3, 0, 64);
    pair.b.recv(&pair.qb, 4, 64, 64);
    assert!(pair.settle());
    assert_eq!(pair.a.statuses(), [(1, Status::Success), (2, Status::Success)]);
    assert_eq!(pair.b.statuses(), [(3, Status::Success), (4, Status::Success)]);
    assert_eq!(pair.b.mem.read(0, 4), b"late");
    pair.clean();
}

#[test]
fn storms_of_missing_receives_are_survived() {
    let pair = with(rts(0));
    pair.faults(Faults { rnr: 0.9, ..Faults::default() });
    (0..8).for_each(|i| pair.b.recv(&pair.qb, i, 0, 64));
    (0..8).for_each(|i| pair.qa.post_send(&[send(i, SendOp::Send, &[])]).unwrap());
    assert!(pair.settle());
    assert!(pair.fabric.now() > Time(100_000), "nobody waited");
    assert_eq!(pair.a.statuses(), (0..8).map(|i| (i, Status::Success)).collect::<Vec<_>>());
    pair.clean();
}

#[test]
fn without_an_answer_a_sender_tries_as_often_as_it_was_told() {
    for retry_cnt in 0..8u8 {
        let pair = with(ToRts { retry_cnt, timeout: 8, ..rts(0) });
        pair.qb.modify(&ModifyQp::Reset).unwrap();
        pair.a.recv(&pair.qa, 9, 0, 64);
        pair.qa.post_send(&[quiet(1, SendOp::Send, &[]), send(2, SendOp::Send, &[])]).unwrap();
        assert!(pair.settle());
        let expected = [(1, Status::RetryExcErr), (2, Status::WrFlushErr), (9, Status::WrFlushErr)];
        assert_eq!(pair.a.statuses(), expected);
        let wait = 4096 * 256 * (u64::from(retry_cnt) + 1);
        assert!((wait..4 * wait + 10_000).contains(&pair.fabric.now().0), "{:?}", pair.fabric.now());
        pair.clean();
    }
}

#[test]
fn a_sender_that_waits_for_ever_does() {
    let pair = with(ToRts { timeout: 0, ..rts(0) });
    pair.qb.modify(&ModifyQp::Reset).unwrap();
    pair.qa.post_send(&[send(1, SendOp::Send, &[])]).unwrap();
    assert!(pair.settle());
    assert_eq!(pair.a.poll().len(), 0);
    pair.clean();
}

#[test]
fn what_a_queue_pair_in_error_gets_is_flushed_in_order() {
    let pair = with(rts(0));
    (0..3).for_each(|i| pair.a.recv(&pair.qa, i, 0, 64));
    pair.qa.modify(&ModifyQp::Err).unwrap();
    pair.a.recv(&pair.qa, 3, 0, 64);
    pair.qa.post_send(&[quiet(10, SendOp::Send, &[]), send(11, SendOp::Send, &[])]).unwrap();
    let flushed = [0, 1, 2, 3, 10, 11].map(|wr_id| (wr_id, Status::WrFlushErr));
    assert_eq!(pair.a.statuses(), flushed);
    // Slots in the queue are free again.
    for i in 0..40 {
        pair.qa.post_send(&[quiet(i, SendOp::Send, &[])]).unwrap();
        assert_eq!(pair.a.statuses(), [(i, Status::WrFlushErr)]);
    }
    pair.clean();
}

#[test]
fn a_message_that_is_too_long_for_its_receive_ends_both_sides() {
    let pair = with(rts(0));
    pair.b.recv(&pair.qb, 1, 0, 3);
    pair.b.recv(&pair.qb, 2, 0, 64);
    pair.b.mem.write(0, b"....");
    pair.qa.post_send(&[inline(3, SendOp::Send, &[Piece::new(b"four")])]).unwrap();
    assert!(pair.settle());
    assert_eq!(pair.a.statuses(), [(3, Status::RemInvReqErr)]);
    assert_eq!(pair.b.statuses(), [(1, Status::LocLenErr), (2, Status::WrFlushErr)]);
    assert_eq!((pair.b.mem.read(0, 4), pair.qb.state().unwrap()), (b"....".to_vec(), QpState::Err));
    assert_eq!(pair.b.events(), [], "the completion tells");
    pair.clean();
}

#[test]
fn local_memory_must_be_registered() {
    let pair = with(rts(0));
    let beyond = Sge { len: MEMORY as u32, ..pair.a.sge(1, 0) };
    pair.qa.post_send(&[send(1, SendOp::Send, &[beyond])]).unwrap();
    pair.punished("not registered");
    assert!(pair.settle());
    assert_eq!(pair.a.statuses(), [(1, Status::LocProtErr)]);

    let pair = with(rts(0));
    let other = Sge { lkey: pair.b.mr.lkey() ^ 0x55, ..pair.b.sge(0, 8) };
    pair.qb.post_recv(&[hca::RecvWr { wr_id: 2, sges: &[other] }]).unwrap();
    pair.punished("a receive");
    pair.qa.post_send(&[inline(1, SendOp::Send, &[Piece::new(b"x")])]).unwrap();
    assert!(pair.settle());
    assert_eq!(pair.a.statuses(), [(1, Status::RemOpErr)]);
    assert_eq!(pair.b.statuses(), [(2, Status::LocProtErr)]);
}

#[test]
fn memory_that_may_only_be_read_takes_no_message() {
    let pair = with(rts(0));
    let mem = Block::new(4096);
    let mr = register(&pair.b.hca, &mem, Access::READ).unwrap();
    pair.qb.post_recv(&[hca::RecvWr { wr_id: 2, sges: &[mr.sge(0, 8)] }]).unwrap();
    pair.punished("a receive");
    pair.qa.post_send(&[inline(1, SendOp::Send, &[Piece::new(b"x")])]).unwrap();
    assert!(pair.settle());
    assert_eq!((pair.b.statuses(), mem.read(0, 1)), (vec![(2, Status::LocProtErr)], vec![0]));
    mr.deregister().unwrap();
}

#[test]
fn requests_before_the_one_that_fails_complete_first() {
    for seed in 0..50 {
        let pair = Pair::new(seed);
        (0..4).for_each(|i| pair.b.recv(&pair.qb, i, 0, 64));
        let wrong = pair.b.mr.rkey() ^ 1;
        let write = SendOp::RdmaWrite { addr: pair.b.addr(0), rkey: wrong };
        let piece = [Piece::new(b"x")];
        pair.qa
            .post_send(&[
                send(1, SendOp::Send, &[]),
                quiet(2, SendOp::Send, &[]),
                inline(3, write, &piece),
                send(4, SendOp::Send, &[]),
                quiet(5, SendOp::Send, &[]),
            ])
            .unwrap();
        assert!(pair.settle());
        let expected = [
            (1, Status::Success),
            (3, Status::RemAccessErr),
            (4, Status::WrFlushErr),
            (5, Status::WrFlushErr),
        ];
        assert_eq!(pair.a.statuses(), expected);
        let flushed = [2, 3].map(|i| (i, Status::WrFlushErr));
        assert_eq!(pair.b.statuses(), [[(0, Status::Success), (1, Status::Success)], flushed].concat());
        assert_eq!(pair.b.events(), [AsyncEvent::QpAccessError(pair.qb.number())]);
        pair.clean();
    }
}

#[test]
fn packet_numbers_must_agree() {
    for (offset, wraps) in [(1, 0), (7, 0x00ff_ffff)] {
        let pair = with(ToRts { retry_cnt: 2, ..rts(wraps) });
        pair.qb.modify(&ModifyQp::Reset).unwrap();
        let expected = wraps.wrapping_sub(offset) & 0x00ff_ffff;
        connect(&pair.qb, &pair.a.hca, pair.qa.number(), expected, rts(5));
        pair.b.recv(&pair.qb, 1, 0, 64);
        pair.qa.post_send(&[send(2, SendOp::Send, &[])]).unwrap();
        assert!(pair.settle());
        assert_eq!(pair.a.statuses(), [(2, Status::RetryExcErr)]);
        assert_eq!(pair.b.poll().len(), 0);
        pair.clean();
    }
}

#[test]
fn a_port_that_is_down_too_long_breaks_connections() {
    let pair = with(ToRts { timeout: 10, ..rts(0) });
    let [_, b] = pair.devices;
    (0..3).for_each(|i| pair.b.recv(&pair.qb, i, 0, 64));
    // A short interruption only costs time.
    pair.fabric.set_port(b, 1, false);
    pair.qa.post_send(&[send(1, SendOp::Send, &[])]).unwrap();
    after(&pair.fabric, Duration::from_millis(6));
    pair.fabric.set_port(b, 1, true);
    assert!(pair.settle());
    assert_eq!(pair.a.statuses(), [(1, Status::Success)]);
    assert_eq!(pair.b.events(), [AsyncEvent::PortError(1), AsyncEvent::PortActive(1)]);
    assert_eq!(pair.a.events(), []);
    pair.fabric.set_port(b, 1, false);
    pair.qa.post_send(&[send(2, SendOp::Send, &[])]).unwrap();
    assert!(pair.settle());
    assert_eq!(pair.a.statuses(), [(2, Status::RetryExcErr)]);
    assert_eq!(pair.b.statuses(), [(0, Status::Success)]);
    pair.clean();
}

#[test]
fn nothing_leaves_by_a_port_that_is_down() {
    let pair = with(ToRts { timeout: 3, retry_cnt: 1, ..rts(0) });
    pair.b.recv(&pair.qb, 1, 0, 64);
    pair.fabric.set_port(pair.devices[0], 1, false);
    pair.qa.post_send(&[send(2, SendOp::Send, &[])]).unwrap();
    assert!(pair.settle());
    assert_eq!((pair.a.statuses(), pair.b.statuses()), (vec![(2, Status::RetryExcErr)], vec![]));
    pair.clean();
}

#[test]
fn a_queue_pair_hears_its_peer_alone() {
    let pair = with(rts(0));
    let third = pair.a.rc(CAP, None);
    connect(&third, &pair.b.hca, pair.qb.number(), 5, ToRts { timeout: 3, retry_cnt: 1, ..rts(0) });
    pair.b.recv(&pair.qb, 1, 0, 64);
    third.post_send(&[send(2, SendOp::Send, &[])]).unwrap();
    assert!(pair.settle());
    assert_eq!((pair.a.statuses(), pair.b.statuses()), (vec![(2, Status::RetryExcErr)], vec![]));
    pair.qa.post_send(&[send(3, SendOp::Send, &[])]).unwrap();
    assert!(pair.settle());
    assert_eq!((pair.a.statuses(), pair.b.poll().len()), (vec![(3, Status::Success)], 1));
    drop(third);
    pair.clean();
}

#[test]
fn retries_begin_anew_when_the_peer_has_answered() {
    let pair = with(ToRts { retry_cnt: 1, ..rts(0) });
    for i in 0..5 {
        pair.b.recv(&pair.qb, i, 0, 64);
        pair.faults(Faults { loss: 1.0, ..Faults::default() });
        pair.qa.post_send(&[send(i, SendOp::Send, &[])]).unwrap();
        after(&pair.fabric, Duration::from_micros(1));
        pair.faults(Faults::default());
        assert!(pair.settle());
        assert_eq!((pair.a.statuses(), pair.b.poll().len()), (vec![(i, Status::Success)], 1));
    }
    pair.clean();
}

#[test]
fn old_answers_stop_nobody() {
    // The transit takes longer than the sender's timeout, so many copies, refusals and answers are
    // in transit at once.
    for seed in 0..300 {
        let delay = Duration::from_micros(100);
        let faults = Faults { loss: 0.2, rnr: 0.3, ..Faults::default() };
        let settings =
            Settings { seed, delay_min: delay / 2, delay_max: delay, faults, ..Settings::default() };
        let pair = Pair::with(settings, ToRts { timeout: 3, ..rts(0) }, CAP);
        (0..8).for_each(|i| pair.b.recv(&pair.qb, i, 0, 64));
        (0..8).for_each(|i| pair.qa.post_send(&[send(i, SendOp::Send, &[])]).unwrap());
        assert!(pair.settle());
        assert_eq!(pair.a.poll().len(), 8, "seed {seed}");
        pair.clean();
    }
}

#[test]
fn errors_say_something_to_the_devices_maker() {
    let pair = with(ToRts { rnr_retry: 0, ..rts(0) });
    pair.faults(Faults { send: 1.0, vendor_err: 0x8a, ..Faults::default() });
    pair.qa.post_send(&[send(1, SendOp::Send, &[])]).unwrap();
    assert!(pair.settle());
    let got = pair.a.poll();
    assert_eq!((got[0].status, got[0].vendor_err, got.len()), (Status::GeneralErr, 0x8a, 1));
    pair.clean();
}

#[test]
fn a_queue_pair_can_be_made_anew() {
    let pair = with(ToRts { rnr_retry: 0, ..rts(0) });
    pair.qa.post_send(&[send(1, SendOp::Send, &[])]).unwrap();
    assert!(pair.settle());
    pair.a.poll();
    for qp in [&pair.qa, &pair.qb] {
        qp.modify(&ModifyQp::Reset).unwrap();
    }
    connect(&pair.qa, &pair.b.hca, pair.qb.number(), 9, rts(8));
    connect(&pair.qb, &pair.a.hca, pair.qa.number(), 8, rts(9));
    pair.b.recv(&pair.qb, 2, 0, 64);
    pair.qa.post_send(&[send(3, SendOp::Send, &[])]).unwrap();
    assert!(pair.settle());
    assert_eq!(
        (pair.a.statuses(), pair.b.statuses()),
        (vec![(3, Status::Success)], vec![(2, Status::Success)])
    );
    pair.clean();
}

#[test]
fn messages_longer_than_the_port_permits_fail() {
    let fabric = netmod_sim_hca::Fabric::new(Settings::default());
    let settings =
        netmod_sim_hca::DeviceSettings { max_msg_size: 100, ..netmod_sim_hca::DeviceSettings::new("small") };
    let device = fabric.device(settings);
    let [a, b] = [(); 2].map(|()| Node::new(&fabric, device));
    let (qa, qb) = (a.rc(CAP, None), b.rc(CAP, None));
    connect(&qa, &b.hca, qb.number(), 0, rts(0));
    connect(&qb, &a.hca, qa.number(), 0, rts(0));
    b.recv(&qb, 1, 0, 200);
    qa.post_send(&[send(2, SendOp::Send, &[a.sge(0, 100)]), send(3, SendOp::Send, &[a.sge(0, 101)])])
        .unwrap();
    assert!(fabric.violations()[0].contains("101 bytes"));
    assert!(settle(&fabric));
    assert_eq!(a.statuses(), [(2, Status::Success), (3, Status::LocLenErr)]);
}
