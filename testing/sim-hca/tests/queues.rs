//! Tests of shared receive queues and their limits, and of completion queues and their events.

mod common;

use std::io::Read;
use std::os::unix::net::UnixStream;

use common::*;
use hca::{
    AsyncEvent, Channel, Completion, Cq, Hca, ModifyQp, Piece, PostError, Qp, QpInit, QpKind, QpState,
    RecvWr, SendFlags, SendOp, SendWr, Srq, SrqAttr, Status, errno,
};
use netmod_sim_hca::{DeviceSettings, Fabric, Settings, SimCq, SimQp, SimSrq};

/// Returns true if a descriptor is readable.
fn readable(fd: std::os::fd::BorrowedFd<'_>) -> bool {
    // Reading consumes the byte, so this may be asked once.
    let socket = UnixStream::from(fd.try_clone_to_owned().unwrap());
    let mut copy = &socket;
    let mut byte = [0; 1];
    match copy.read(&mut byte) {
        Ok(n) => {
            assert_eq!(n, 1);
            true
        }
        Err(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
            false
        }
    }
}

/// Two senders, and one receiver with a shared queue of eight.
struct Shared {
    fabric: Fabric,
    srq: SimSrq,
    senders: Vec<(SimQp, Node)>,
    receivers: Vec<SimQp>,
    node: Node,
}

fn shared(at_once: bool) -> Shared {
    let fabric = Fabric::new(Settings::default());
    let settings = DeviceSettings { srq_limit_at_once: at_once, ..DeviceSettings::new("sim") };
    let device = fabric.device(settings);
    let node = Node::new(&fabric, device);
    let srq = node.hca.create_srq(SrqAttr { max_wr: 8, max_sge: 2 }, 33).unwrap();
    let (mut senders, mut receivers) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let sender = Node::new(&fabric, device);
        let (qs, qr) = (sender.rc(CAP, None), node.rc(CAP, Some(&srq)));
        connect(&qs, &node.hca, qr.number(), 0, rts(0));
        connect(&qr, &sender.hca, qs.number(), 0, rts(0));
        senders.push((qs, sender));
        receivers.push(qr);
    }
    Shared { fabric, srq, senders, receivers, node }
}

impl Shared {
    fn fill(&self, range: core::ops::Range<u64>) {
        for wr_id in range {
            let sge = self.node.sge(wr_id as usize * 64, 64);
            self.srq.post_recv(&[RecvWr { wr_id, sges: &[sge] }]).unwrap();
        }
    }

    fn send(&self, sender: usize) {
        self.senders[sender].0.post_send(&[send(1, SendOp::Send, &[])]).unwrap();
        assert!(settle(&self.fabric));
    }
}

#[test]
fn queue_pairs_share_receives() {
    let shared = shared(false);
    shared.fill(0..4);
    for sender in [0, 1, 1, 0] {
        shared.send(sender);
    }
    let got: Vec<_> = shared.node.poll().iter().map(|c| (c.wr_id, c.qp_num)).collect();
    let [first, second] = [0, 1].map(|i| shared.receivers[i].number().0);
    assert_eq!(got, [(0, first), (1, second), (2, second), (3, first)]);
    assert_eq!(
        shared.receivers[0].post_recv(&[RecvWr { wr_id: 1, sges: &[] }]).unwrap_err().errno,
        errno::EINVAL
    );
}

#[test]
fn the_limit_is_an_event_once() {
    let shared = shared(false);
    shared.fill(0..6);
    shared.srq.set_limit(4).unwrap();
    shared.send(0);
    shared.send(1);
    assert_eq!(shared.node.events(), [], "four are left");
    assert!(!readable(shared.node.hca.async_fd()));
    shared.send(0);
    assert_eq!(shared.node.events(), [AsyncEvent::SrqLimitReached(33)]);
    shared.send(1);
    shared.fill(6..9);
    shared.send(1);
    assert_eq!(shared.node.events(), [], "the limit is off");
    shared.srq.set_limit(5).unwrap();
    assert_eq!(shared.node.events(), [], "this device looks when a receive is taken");
    shared.send(1);
    assert_eq!(shared.node.events(), [AsyncEvent::SrqLimitReached(33)]);
    assert_eq!(shared.srq.set_limit(9).unwrap_err().errno, errno::EINVAL);
}

#[test]
fn devices_may_look_at_the_limit_at_once() {
    let shared = shared(true);
    shared.fill(0..3);
    shared.srq.set_limit(3).unwrap();
    assert_eq!(shared.node.events(), []);
    shared.srq.set_limit(4).unwrap();
    assert_eq!(shared.node.events(), [AsyncEvent::SrqLimitReached(33)]);
}

#[test]
fn a_shared_queue_that_is_full_overflows() {
    let shared = shared(false);
    shared.fill(0..8);
    let list = [RecvWr { wr_id: 8, sges: &[] }];
    assert_eq!(shared.srq.post_recv(&list), Err(PostError { at: 0, errno: errno::ENOMEM }));
    assert!(shared.fabric.violations()[0].contains("overflow"));
    shared.send(0);
    shared.srq.post_recv(&list).unwrap();
    let pieces = [shared.node.sge(0, 1); 3];
    shared.send(0);
    assert_eq!(shared.srq.post_recv(&[RecvWr { wr_id: 9, sges: &pieces }]).unwrap_err().errno, errno::EINVAL);
}

#[test]
fn a_queue_pair_in_error_tells_when_it_takes_no_more() {
    let shared = shared(false);
    shared.fill(0..4);
    let number = shared.receivers[0].number();
    shared.receivers[0].modify(&ModifyQp::Err).unwrap();
    assert_eq!(shared.node.events(), [AsyncEvent::LastWqeReached(number)]);
    // The receives are still there for the others.
    assert_eq!(shared.node.poll().len(), 0);
    shared.send(1);
    assert_eq!(shared.node.statuses(), [(0, Status::Success)]);
    // Without a shared queue there is no such event.
    let pair = Pair::new(1);
    pair.qa.modify(&ModifyQp::Err).unwrap();
    assert_eq!(pair.a.events(), []);
}

#[test]
fn receive_queues_of_queue_pairs_overflow_too() {
    let pair = Pair::new(1);
    (0..16).for_each(|i| pair.b.recv(&pair.qb, i, 0, 64));
    let full = pair.qb.post_recv(&[RecvWr { wr_id: 16, sges: &[] }]);
    assert_eq!(full, Err(PostError { at: 0, errno: errno::ENOMEM }));
    pair.punished("receive queue overflow");
}

/// Makes a queue pair with a completion queue of the given size, beside a working one.
fn small(pair: &Pair, entries: u32) -> (SimCq, SimQp) {
    let cq = pair.b.hca.create_cq(entries, 99, None).unwrap();
    let kind = QpKind::Rc { send_cq: &pair.b.cq, recv_cq: &cq, srq: None };
    let qp = pair.b.hca.create_qp(&QpInit { kind, cap: CAP, signal_all: false }).unwrap();
    pair.qa.modify(&ModifyQp::Reset).unwrap();
    connect(&pair.qa, &pair.b.hca, qp.number(), 0, rts(0));
    connect(&qp, &pair.a.hca, pair.qa.number(), 0, rts(0));
    (cq, qp)
}

#[test]
fn a_completion_queue_that_overruns_is_lost() {
    let pair = Pair::new(1);
    let (cq, qp) = small(&pair, 2);
    (0..3).for_each(|i| pair.b.recv(&qp, i, 0, 64));
    (0..2).for_each(|i| pair.qa.post_send(&[send(i, SendOp::Send, &[])]).unwrap());
    assert!(pair.settle());
    assert_eq!(pair.fabric.violations(), Vec::<String>::new());
    pair.qa.post_send(&[send(2, SendOp::Send, &[])]).unwrap();
    assert!(pair.settle());
    pair.punished("token 99");
    assert_eq!(pair.b.events(), [AsyncEvent::CqError(99), AsyncEvent::QpFatal(qp.number())]);
    assert_eq!(qp.state().unwrap(), QpState::Err);
    let mut room = [Completion::EMPTY; 4];
    assert_eq!(cq.poll(&mut room).unwrap(), 2);
    assert_eq!(cq.poll(&mut room).unwrap_err().errno, errno::EIO);
    assert_eq!(cq.entries(), 2);
}

#[test]
fn events_come_when_they_were_asked_for() {
    let pair = Pair::new(1);
    let channel = pair.b.hca.create_channel().unwrap();
    let cq = pair.b.hca.create_cq(64, 5, Some(&channel)).unwrap();
    let kind = QpKind::Rc { send_cq: &cq, recv_cq: &cq, srq: None };
    let qp = pair.b.hca.create_qp(&QpInit { kind, cap: CAP, signal_all: false }).unwrap();
    pair.qa.modify(&ModifyQp::Reset).unwrap();
    connect(&pair.qa, &pair.b.hca, qp.number(), 0, rts(0));
    connect(&qp, &pair.a.hca, pair.qa.number(), 0, rts(0));
    (0..8).for_each(|i| pair.b.recv(&qp, i, 0, 64));
    let message = |solicited| {
        let flags = SendFlags { solicited, ..SendFlags::SIGNALED };
        pair.qa.post_send(&[SendWr { flags, ..send(0, SendOp::Send, &[]) }]).unwrap();
        assert!(pair.settle());
        channel.drain().unwrap()
    };
    assert_eq!(message(true), 0, "nobody asked");
    cq.arm(false).unwrap();
    assert_eq!(message(false), 1);
    assert_eq!(message(false), 0, "once");
    cq.arm(true).unwrap();
    assert_eq!(message(false), 0);
    assert_eq!(message(true), 1);
    cq.arm(false).unwrap();
    cq.arm(true).unwrap();
    assert_eq!(message(false), 1, "the call that asks for more counts");
    cq.arm(true).unwrap();
    qp.modify(&ModifyQp::Err).unwrap();
    assert_eq!(channel.drain().unwrap(), 1, "errors are urgent");
    drop((cq, qp, channel));
    pair.clean();
}

#[test]
fn descriptors_are_readable_while_there_are_events() {
    let pair = Pair::new(1);
    let channel = pair.a.hca.create_channel().unwrap();
    let cq = pair.a.hca.create_cq(4, 5, Some(&channel)).unwrap();
    let kind = QpKind::Rc { send_cq: &cq, recv_cq: &cq, srq: None };
    let qp = pair.a.hca.create_qp(&QpInit { kind, cap: CAP, signal_all: true }).unwrap();
    qp.modify(&init()).unwrap();
    qp.post_recv(&[RecvWr { wr_id: 1, sges: &[] }]).unwrap();
    cq.arm(false).unwrap();
    assert!(!readable(channel.fd()));
    qp.modify(&ModifyQp::Err).unwrap();
    assert!(readable(channel.fd()));
    pair.fabric.tell(pair.devices[0], AsyncEvent::GidChange(1));
    pair.fabric.tell(pair.devices[0], AsyncEvent::LidChange(1));
    assert_eq!(pair.a.hca.async_event().unwrap(), Some(AsyncEvent::GidChange(1)));
    assert!(readable(pair.a.hca.async_fd()));
    assert!(!readable(pair.b.hca.async_fd()));
}

#[test]
fn everything_due_happens_before_one_sleeps() {
    let zero = core::time::Duration::ZERO;
    for seed in 0..50 {
        let settings = Settings { seed, delay_min: zero, delay_max: zero, ..Settings::default() };
        let pair = Pair::with(settings, rts(0), CAP);
        pair.b.recv(&pair.qb, 1, 0, 64);
        pair.qa.post_send(&[inline(1, SendOp::Send, &[Piece::new(b"x")])]).unwrap();
        pair.b.cq.arm(false).unwrap();
        assert_eq!((pair.a.poll().len(), pair.b.poll().len()), (1, 1));
        pair.clean();
    }
}

#[test]
fn each_send_completes_where_that_was_asked_for() {
    let pair = Pair::new(1);
    let kind = QpKind::Rc { send_cq: &pair.a.cq, recv_cq: &pair.a.cq, srq: None };
    let qp = pair.a.hca.create_qp(&QpInit { kind, cap: CAP, signal_all: true }).unwrap();
    pair.qb.modify(&ModifyQp::Reset).unwrap();
    connect(&qp, &pair.b.hca, pair.qb.number(), 0, rts(0));
    connect(&pair.qb, &pair.a.hca, qp.number(), 0, rts(0));
    (0..2).for_each(|i| pair.b.recv(&pair.qb, i, 0, 64));
    qp.post_send(&[quiet(1, SendOp::Send, &[]), quiet(2, SendOp::Send, &[])]).unwrap();
    assert!(pair.settle());
    assert_eq!(pair.a.poll().len(), 2);
    drop(qp);
    pair.clean();
}
