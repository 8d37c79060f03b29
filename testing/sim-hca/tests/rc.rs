//! Tests of reliable connections: transitions, order, completions, slots in the queue.

mod common;

use common::*;
use hca::{
    AsyncEvent, Completed, Hca, ModifyQp, Mtu, Piece, PostError, Qp, QpState, SendOp, SendWr, Status, ToRtr,
    errno,
};
use netmod_sim_hca::Settings;

#[test]
fn messages_arrive_in_order_with_their_immediate_data() {
    for seed in 0..50 {
        let pair = Pair::new(seed);
        for i in 0..8 {
            pair.b.recv(&pair.qb, i, i as usize * 4096, 4096);
        }
        pair.a.mem.write(0, b"by registered memory");
        let (head, tail) = ([1, 2, 3], [4, 5]);
        let big: Vec<u8> = (0..3000u32).map(|i| i as u8).collect();
        pair.a.mem.write(8192, &big);
        let sges = [pair.a.sge(0, 2), pair.a.sge(3, 17)];
        let bigs = [pair.a.sge(8192, 3000)];
        pair.qa
            .post_send(&[
                send(10, SendOp::Send, &sges),
                inline(11, SendOp::SendImm(99), &[Piece::new(&head), Piece::new(&tail)]),
                send(12, SendOp::Send, &bigs),
                send(13, SendOp::Send, &[]),
            ])
            .unwrap();
        assert!(pair.settle());
        let sent = pair.a.poll();
        assert_eq!(sent.iter().map(|c| c.wr_id).collect::<Vec<_>>(), [10, 11, 12, 13]);
        assert!(sent.iter().all(|c| c.status.is_success() && c.op == Completed::Send));
        let got = pair.b.poll();
        let seen: Vec<_> = got.iter().map(|c| (c.wr_id, c.byte_len, c.imm, c.op, c.status)).collect();
        let expected = [(19, None), (5, Some(99)), (3000, None), (0, None)];
        let expected = (0..).zip(expected).map(|(i, (n, imm))| (i, n, imm, Completed::Recv, Status::Success));
        assert_eq!(seen, expected.collect::<Vec<_>>());
        assert!(got.iter().all(|c| c.qp_num == pair.qb.number().0));
        assert_eq!(pair.b.mem.read(0, 19), b"byregistered memory");
        assert_eq!(pair.b.mem.read(4096, 5), [1, 2, 3, 4, 5]);
        assert_eq!(pair.b.mem.read(8192, 3000), big);
        pair.clean();
    }
}

#[test]
fn nothing_arrives_before_its_time() {
    let delay = core::time::Duration::from_micros(100);
    let settings = Settings { delay_min: delay, delay_max: delay, ..Settings::default() };
    let pair = Pair::with(settings, rts(0), CAP);
    pair.b.recv(&pair.qb, 1, 0, 64);
    pair.qa.post_send(&[inline(2, SendOp::Send, &[Piece::new(b"x")])]).unwrap();
    after(&pair.fabric, core::time::Duration::from_micros(99));
    assert_eq!((pair.a.poll().len(), pair.b.poll().len()), (0, 0));
    after(&pair.fabric, core::time::Duration::from_micros(1));
    assert_eq!((pair.a.poll().len(), pair.b.poll().len()), (0, 1));
    after(&pair.fabric, delay);
    assert_eq!(pair.a.poll().len(), 1);
    pair.clean();
}

#[test]
fn without_delay_posts_and_polls_are_enough() {
    let zero = core::time::Duration::ZERO;
    let settings = Settings { delay_min: zero, delay_max: zero, ..Settings::default() };
    let pair = Pair::with(settings, rts(0), CAP);
    pair.b.recv(&pair.qb, 1, 0, 64);
    pair.qa.post_send(&[inline(2, SendOp::Send, &[Piece::new(b"x")])]).unwrap();
    let (mut sent, mut got) = (0, 0);
    for _ in 0..1000 {
        sent += pair.a.poll().len();
        got += pair.b.poll().len();
    }
    assert_eq!((sent, got, pair.fabric.now().0), (1, 1, 0));
    pair.clean();
}

#[test]
fn what_is_not_signaled_does_not_complete_and_keeps_its_place() {
    let pair = Pair::new(1);
    for i in 0..16 {
        pair.b.recv(&pair.qb, i, 0, 64);
    }
    for i in 0..15 {
        pair.qa.post_send(&[quiet(i, SendOp::Send, &[])]).unwrap();
    }
    pair.qa.post_send(&[send(15, SendOp::Send, &[])]).unwrap();
    assert!(pair.settle());
    // All have arrived, but the queue is full until the completion was polled.
    let full = pair.qa.post_send(&[quiet(16, SendOp::Send, &[])]);
    assert_eq!(full, Err(PostError { at: 0, errno: errno::ENOMEM }));
    pair.punished("send queue overflow");
    assert_eq!(pair.a.statuses(), [(15, Status::Success)]);
    for i in 0..16 {
        pair.b.recv(&pair.qb, i, 0, 64);
        pair.qa.post_send(&[quiet(i, SendOp::Send, &[])]).unwrap();
    }
}

#[test]
fn a_list_is_posted_up_to_the_request_that_is_refused() {
    let pair = Pair::new(1);
    pair.b.recv(&pair.qb, 0, 0, 64);
    let long = [0; 65];
    let long = [Piece::new(&long)];
    let list = [send(1, SendOp::Send, &[]), inline(2, SendOp::Send, &long), send(3, SendOp::Send, &[])];
    assert_eq!(pair.qa.post_send(&list), Err(PostError { at: 1, errno: errno::EINVAL }));
    pair.punished("inline");
    assert!(pair.settle());
    assert_eq!(pair.a.statuses(), [(1, Status::Success)]);
}

#[test]
fn steps_are_taken_in_order_with_valid_attributes() {
    let pair = Pair::new(1);
    let qp = pair.a.rc(CAP, None);
    let to = rtr(&pair.b.hca, pair.qb.number(), 0);
    let refused = |step: ModifyQp, attribute: &str| {
        let error = qp.modify(&step).unwrap_err();
        assert_eq!(error.errno, errno::EINVAL, "{step:?}");
        assert!(error.on.ends_with(attribute), "{error}");
    };
    refused(ModifyQp::Rtr(to), "");
    refused(ModifyQp::Err, "");
    refused(ModifyQp::InitUd { port: 1, pkey_index: 0, qkey: 0 }, "");
    refused(ModifyQp::Init { port: 2, pkey_index: 0, access: Default::default() }, ", port_num");
    refused(ModifyQp::Init { port: 1, pkey_index: 1, access: Default::default() }, ", pkey_index");
    qp.modify(&init()).unwrap();
    refused(ModifyQp::Rts(rts(0)), "");
    refused(ModifyQp::Rtr(ToRtr { rq_psn: 1 << 24, ..to }), ", rq_psn");
    refused(ModifyQp::Rtr(ToRtr { max_dest_rd_atomic: 17, ..to }), ", max_dest_rd_atomic");
    refused(ModifyQp::Rtr(ToRtr { ah: hca::AhAttr { dlid: 0, ..to.ah }, ..to }), ", ah_attr");
    qp.modify(&ModifyQp::Rtr(ToRtr { path_mtu: Mtu::B4096, ..to })).unwrap();
    refused(ModifyQp::Rts(hca::ToRts { retry_cnt: 8, ..rts(0) }), ", retry_cnt");
    refused(ModifyQp::Rts(hca::ToRts { max_rd_atomic: 17, ..rts(0) }), ", max_rd_atomic");
    assert_eq!(qp.state().unwrap(), QpState::Rtr);
    qp.modify(&ModifyQp::Rts(rts(0))).unwrap();
    assert_eq!(qp.state().unwrap(), QpState::Rts);
    qp.modify(&ModifyQp::Err).unwrap();
    qp.modify(&ModifyQp::Reset).unwrap();
    assert_eq!(qp.state().unwrap(), QpState::Reset);
}

#[test]
fn sends_must_wait_for_the_last_step_and_receives_for_the_first() {
    let pair = Pair::new(1);
    let qp = pair.a.rc(CAP, None);
    assert!(qp.post_recv(&[hca::RecvWr { wr_id: 1, sges: &[] }]).is_err());
    pair.punished("receive in state Reset");
    qp.modify(&init()).unwrap();
    qp.post_recv(&[hca::RecvWr { wr_id: 1, sges: &[] }]).unwrap();
    assert!(qp.post_send(&[send(1, SendOp::Send, &[])]).is_err());
    assert!(pair.fabric.violations()[1].contains("state Init"));
}

#[test]
fn the_first_message_is_an_event_for_one_that_cannot_send_yet() {
    let pair = Pair::new(1);
    pair.qb.modify(&ModifyQp::Reset).unwrap();
    pair.qb.modify(&init()).unwrap();
    pair.qb.modify(&ModifyQp::Rtr(rtr(&pair.a.hca, pair.qa.number(), 0x00ff_fffe))).unwrap();
    pair.b.recv(&pair.qb, 1, 0, 64);
    pair.b.recv(&pair.qb, 2, 0, 64);
    pair.qa.post_send(&[send(1, SendOp::Send, &[]), send(2, SendOp::Send, &[])]).unwrap();
    assert!(pair.settle());
    assert_eq!(pair.b.events(), [AsyncEvent::CommEstablished(pair.qb.number())]);
    assert_eq!(pair.b.poll().len(), 2);
    pair.clean();
}

#[test]
fn a_completion_may_come_before_that_of_the_message_which_it_answers() {
    let early = |seed| {
        let pair = Pair::new(seed);
        pair.b.recv(&pair.qb, 1, 0, 64);
        pair.a.recv(&pair.qa, 2, 0, 64);
        pair.qa.post_send(&[send(3, SendOp::Send, &[])]).unwrap();
        let mut order = Vec::new();
        while order.len() < 2 {
            if pair.b.poll().iter().any(|c| c.wr_id == 1) {
                pair.qb.post_send(&[quiet(4, SendOp::Send, &[])]).unwrap();
            }
            after(&pair.fabric, core::time::Duration::from_nanos(50));
            order.extend(pair.a.poll().iter().map(|c| c.wr_id));
        }
        order == [2, 3]
    };
    let cases = (0..40).filter(|seed| early(*seed)).count();
    assert!((1..40).contains(&cases), "{cases} of 40");
}

#[test]
fn path_mtus_must_be_the_same() {
    let pair = Pair::new(1);
    pair.qb.modify(&ModifyQp::Reset).unwrap();
    pair.qb.modify(&init()).unwrap();
    let to = rtr(&pair.a.hca, pair.qa.number(), 0x00ff_fffe);
    pair.qb.modify(&ModifyQp::Rtr(ToRtr { path_mtu: Mtu::B4096, ..to })).unwrap();
    pair.qa.post_send(&[send(1, SendOp::Send, &[])]).unwrap();
    assert!(pair.settle());
    pair.punished("path MTU");
    assert_eq!(pair.a.statuses(), [(1, Status::RemInvReqErr)]);
}

#[test]
fn a_request_must_go_with_the_kind_of_queue_pair() {
    let pair = Pair::new(1);
    let wr = SendWr { to: hca::To::Srq(hca::SrqNum(1)), ..send(1, SendOp::Send, &[]) };
    assert_eq!(pair.qa.post_send(&[wr]), Err(PostError { at: 0, errno: errno::EINVAL }));
    pair.punished("does not go with Rc");
}

#[test]
fn objects_may_be_dropped_in_any_order() {
    for first in 0..3 {
        let pair = Pair::new(first);
        let channel = pair.a.hca.create_channel().unwrap();
        let cq = pair.a.hca.create_cq(4, 1, Some(&channel)).unwrap();
        let kind = hca::QpKind::Rc { send_cq: &cq, recv_cq: &cq, srq: None };
        let qp = pair.a.hca.create_qp(&hca::QpInit { kind, cap: CAP, signal_all: true }).unwrap();
        match first {
            0 => drop((channel, cq, qp)),
            1 => drop((cq, qp, channel)),
            _ => drop((qp, channel, cq)),
        }
        pair.clean();
    }
}
