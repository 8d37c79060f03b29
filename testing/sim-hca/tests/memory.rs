//! Tests of memory: reads, writes and atomics by peers, keys, access, registrations and their end.

mod common;

use common::*;
use hca::{
    Access, AsyncEvent, Completed, Data, ModifyQp, Mr, Piece, Qp, SendFlags, SendOp, Status, ToRtr, ToRts,
    errno,
};
use netmod_sim_hca::{DeviceSettings, Fabric, Faults, Settings};

#[test]
fn peers_read_and_write() {
    for seed in 0..30 {
        let pair = Pair::new(seed);
        pair.a.mem.write(0, &[7; 5000]);
        pair.b.mem.write(20_000, &[9; 6000]);
        pair.b.recv(&pair.qb, 50, 0, 0);
        let rkey = pair.b.mr.rkey();
        let (write, read) = ([pair.a.sge(0, 5000)], [pair.a.sge(8192, 1000), pair.a.sge(10_000, 5000)]);
        let imm = SendOp::RdmaWriteImm { addr: pair.b.addr(300), rkey, imm: 77 };
        let piece = [Piece::new(b"abc")];
        pair.qa
            .post_send(&[
                quiet(1, SendOp::RdmaWrite { addr: pair.b.addr(10_000), rkey }, &write),
                send(2, SendOp::RdmaRead { addr: pair.b.addr(20_000), rkey }, &read),
                inline(3, imm, &piece),
            ])
            .unwrap();
        assert!(pair.settle());
        let done = pair.a.poll();
        let seen: Vec<_> = done.iter().map(|c| (c.wr_id, c.status, c.op)).collect();
        let ok = Status::Success;
        assert_eq!(seen, [(2, ok, Completed::RdmaRead), (3, ok, Completed::RdmaWrite)]);
        assert_eq!(done[0].byte_len, 6000);
        let got = pair.b.poll();
        assert_eq!((got.len(), got[0].wr_id, got[0].imm, got[0].byte_len), (1, 50, Some(77), 3));
        assert_eq!(got[0].op, Completed::RecvRdmaWithImm);
        assert_eq!(pair.b.mem.read(10_000, 5000), [7; 5000]);
        assert_eq!(pair.b.mem.read(300, 3), b"abc");
        assert_eq!(
            (pair.a.mem.read(8192, 1000), pair.a.mem.read(10_000, 5000)),
            (vec![9; 1000], vec![9; 5000])
        );
        pair.clean();
    }
}

#[test]
fn a_write_with_immediate_data_waits_for_a_receive() {
    let pair = Pair::new(3);
    let rkey = pair.b.mr.rkey();
    let imm = SendOp::RdmaWriteImm { addr: pair.b.addr(0), rkey, imm: 1 };
    pair.qa.post_send(&[inline(1, imm, &[Piece::new(b"z")])]).unwrap();
    assert!(!pair.fabric.settle(netmod_core::Time(1_000_000)));
    assert_eq!((pair.b.mem.read(0, 1), pair.a.poll().len()), (vec![0], 0));
    pair.b.recv(&pair.qb, 2, 64, 0);
    assert!(pair.settle());
    assert_eq!((pair.b.mem.read(0, 1), pair.a.poll().len()), (b"z".to_vec(), 1));
    pair.clean();
}

#[test]
fn atomics_give_the_old_value() {
    let pair = Pair::new(1);
    pair.b.mem.write(64, &40u64.to_ne_bytes());
    let (addr, rkey) = (pair.b.addr(64), pair.b.mr.rkey());
    let results = [[pair.a.sge(0, 8)], [pair.a.sge(8, 8)], [pair.a.sge(16, 8)]];
    pair.qa
        .post_send(&[
            send(1, SendOp::FetchAdd { addr, rkey, add: 2 }, &results[0]),
            send(2, SendOp::CompareSwap { addr, rkey, compare: 42, swap: 7 }, &results[1]),
            send(3, SendOp::CompareSwap { addr, rkey, compare: 42, swap: 8 }, &results[2]),
        ])
        .unwrap();
    assert!(pair.settle());
    let done: Vec<_> = pair.a.poll().iter().map(|c| (c.wr_id, c.op, c.byte_len)).collect();
    assert_eq!(
        done,
        [(1, Completed::FetchAdd, 8), (2, Completed::CompareSwap, 8), (3, Completed::CompareSwap, 8)]
    );
    let values = [0, 8, 16].map(|at| u64::from_ne_bytes(pair.a.mem.read(at, 8).try_into().unwrap()));
    assert_eq!((values, pair.b.mem.read(64, 1)), ([40, 42, 7], vec![7]));
    pair.clean();
}

#[test]
fn atomics_are_done_once_although_packets_are_lost() {
    for seed in 0..100 {
        let pair = Pair::new(seed);
        pair.faults(Faults { loss: 0.3, ..Faults::default() });
        let (addr, rkey) = (pair.b.addr(0), pair.b.mr.rkey());
        let results: Vec<_> = (0..10).map(|i| [pair.a.sge(i * 8, 8)]).collect();
        for (i, result) in (0..).zip(&results) {
            pair.qa.post_send(&[send(i, SendOp::FetchAdd { addr, rkey, add: 1 }, result)]).unwrap();
        }
        assert!(pair.settle());
        let done = pair.a.statuses();
        if done.iter().any(|(_, status)| !status.is_success()) {
            continue;
        }
        assert_eq!(done.len(), 10);
        let values: Vec<_> = (0..10).map(|i| pair.a.mem.read(i * 8, 1)[0]).collect();
        assert_eq!((values, pair.b.mem.read(0, 1)), ((0..10).collect(), vec![10]));
        pair.clean();
    }
}

/// Sends a request that must be refused.
fn refused(change: impl Fn(&Pair) -> (SendOp, usize)) -> (Status, Vec<AsyncEvent>) {
    let pair = Pair::new(5);
    let (op, len) = change(&pair);
    pair.qa.post_send(&[send(1, op, &[pair.a.sge(0, len)])]).unwrap();
    assert!(pair.settle());
    let statuses = pair.a.statuses();
    assert_eq!(statuses.len(), 1);
    let events = pair.b.events();
    assert_eq!(pair.b.mem.read(0, MEMORY), vec![0; MEMORY], "memory was written");
    pair.clean();
    (statuses[0].1, events)
}

#[test]
fn keys_and_bounds_are_looked_at() {
    let number = Pair::new(5).qb.number();
    let access = (Status::RemAccessErr, vec![AsyncEvent::QpAccessError(number)]);
    let invalid = (Status::RemInvReqErr, vec![AsyncEvent::QpRequestError(number)]);
    let end = MEMORY - 8;
    assert_eq!(refused(|p| (SendOp::RdmaWrite { addr: p.b.addr(0), rkey: p.b.mr.rkey() ^ 1 }, 8)), access);
    assert_eq!(refused(|p| (SendOp::RdmaWrite { addr: p.b.addr(end), rkey: p.b.mr.rkey() }, 9)), access);
    assert_eq!(refused(|p| (SendOp::RdmaWrite { addr: p.b.addr(0) - 1, rkey: p.b.mr.rkey() }, 8)), access);
    assert_eq!(refused(|p| (SendOp::RdmaWrite { addr: u64::MAX, rkey: p.b.mr.rkey() }, 8)), access);
    assert_eq!(refused(|p| (SendOp::RdmaRead { addr: p.b.addr(end), rkey: p.b.mr.rkey() }, 9)), access);
    let add = 1;
    assert_eq!(
        refused(|p| (SendOp::FetchAdd { addr: p.b.addr(MEMORY), rkey: p.b.mr.rkey(), add }, 8)),
        access
    );
    assert_eq!(refused(|p| (SendOp::FetchAdd { addr: p.b.addr(4), rkey: p.b.mr.rkey(), add }, 8)), invalid);
}

#[test]
fn access_is_what_the_registration_says() {
    let number = Pair::new(5).qb.number();
    for (access, op) in [
        (Access { remote_read: true, ..Access::LOCAL }, 0),
        (Access { remote_write: true, ..Access::LOCAL }, 1),
    ] {
        let pair = Pair::new(5);
        let mem = Block::new(4096);
        let mr = register(&pair.b.hca, &mem, access).unwrap();
        let (addr, rkey) = (mr.addr(), mr.rkey());
        let op = [SendOp::RdmaWrite { addr, rkey }, SendOp::RdmaRead { addr, rkey }][op];
        pair.qa.post_send(&[send(1, op, &[pair.a.sge(0, 8)])]).unwrap();
        assert!(pair.settle());
        assert_eq!(pair.a.statuses(), [(1, Status::RemAccessErr)]);
        assert_eq!(pair.b.events(), [AsyncEvent::QpAccessError(number)]);
        mr.deregister().unwrap();
        pair.clean();
    }
}

#[test]
fn access_is_also_what_the_queue_pair_says() {
    let pair = Pair::new(5);
    pair.qb.modify(&ModifyQp::Reset).unwrap();
    let access = Access { remote_write: false, ..Access::ALL };
    pair.qb.modify(&ModifyQp::Init { port: 1, pkey_index: 0, access }).unwrap();
    pair.qb.modify(&ModifyQp::Rtr(rtr(&pair.a.hca, pair.qa.number(), 0x00ff_fffe))).unwrap();
    let op = SendOp::RdmaWrite { addr: pair.b.addr(0), rkey: pair.b.mr.rkey() };
    pair.qa.post_send(&[send(1, op, &[pair.a.sge(0, 8)])]).unwrap();
    assert!(pair.settle());
    assert_eq!(pair.a.statuses(), [(1, Status::RemInvReqErr)]);
    pair.clean();
}

#[test]
fn memory_of_another_process_is_out_of_reach() {
    let pair = Pair::new(5);
    // A node of the same device with another protection domain.
    let other = Node::new(&pair.fabric, pair.devices[1]);
    let op = SendOp::RdmaWrite { addr: other.addr(0), rkey: other.mr.rkey() };
    pair.qa.post_send(&[send(1, op, &[pair.a.sge(0, 8)])]).unwrap();
    assert!(pair.settle());
    assert_eq!(pair.a.statuses(), [(1, Status::RemAccessErr)]);
    drop(other);
    pair.clean();
}

#[test]
fn no_more_reads_than_the_peer_takes() {
    let pair = Pair::new(5);
    pair.qb.modify(&ModifyQp::Reset).unwrap();
    pair.qb.modify(&init()).unwrap();
    let to = rtr(&pair.a.hca, pair.qa.number(), 0x00ff_fffe);
    pair.qb.modify(&ModifyQp::Rtr(ToRtr { max_dest_rd_atomic: 3, ..to })).unwrap();
    let op = SendOp::RdmaRead { addr: pair.b.addr(0), rkey: pair.b.mr.rkey() };
    let sges = [pair.a.sge(0, 8)];
    let list: Vec<_> = (0..4).map(|i| send(i, op, &sges)).collect();
    pair.qa.post_send(&list).unwrap();
    assert!(pair.settle());
    pair.punished("4 reads and atomics");
    assert!(pair.a.statuses().contains(&(3, Status::RemInvReqErr)));
}

#[test]
fn a_sender_holds_reads_back_beyond_its_own_limit() {
    let pair = Pair::new(5);
    let op = SendOp::RdmaRead { addr: pair.b.addr(0), rkey: pair.b.mr.rkey() };
    let sges = [pair.a.sge(0, 8)];
    let list: Vec<_> = (0..16).map(|i| send(i, op, &sges)).collect();
    pair.qa.post_send(&list).unwrap();
    assert!(pair.settle());
    assert_eq!(pair.a.poll().len(), 16);
    pair.clean();
}

#[test]
fn an_answer_that_is_lost_is_one_retry_however_many_acknowledgements_follow() {
    let delay = core::time::Duration::from_micros(1);
    let settings = Settings { delay_min: delay, delay_max: delay, ..Settings::default() };
    let pair = Pair::with(settings, ToRts { retry_cnt: 1, ..rts(0) }, CAP);
    (0..10).for_each(|i| pair.b.recv(&pair.qb, i, 0, 8));
    pair.b.mem.write(64, &[5; 8]);
    let op = SendOp::RdmaRead { addr: pair.b.addr(64), rkey: pair.b.mr.rkey() };
    pair.qa.post_send(&[send(0, op, &[pair.a.sge(0, 8)])]).unwrap();
    after(&pair.fabric, delay / 2);
    pair.faults(Faults { loss: 1.0, ..Faults::default() });
    after(&pair.fabric, delay);
    pair.faults(Faults::default());
    (1..11).for_each(|i| pair.qa.post_send(&[send(i, SendOp::Send, &[])]).unwrap());
    assert!(pair.settle());
    assert!(pair.fabric.now().0 < 4096 << 5, "nobody waited for the timer to find it");
    assert_eq!(pair.a.statuses(), (0..11).map(|i| (i, Status::Success)).collect::<Vec<_>>());
    assert_eq!((pair.b.poll().len(), pair.a.mem.read(0, 8)), (10, vec![5; 8]));
    pair.clean();
}

#[test]
fn an_atomic_whose_answer_is_lost_is_answered_again_and_not_done_again() {
    let delay = core::time::Duration::from_micros(1);
    let settings = Settings { delay_min: delay, delay_max: delay, ..Settings::default() };
    let pair = Pair::with(settings, rts(0), CAP);
    let op = SendOp::FetchAdd { addr: pair.b.addr(0), rkey: pair.b.mr.rkey(), add: 3 };
    pair.qa.post_send(&[send(1, op, &[pair.a.sge(8, 8)])]).unwrap();
    after(&pair.fabric, delay / 2);
    pair.faults(Faults { loss: 1.0, ..Faults::default() });
    after(&pair.fabric, delay);
    pair.faults(Faults::default());
    pair.a.mem.write(8, &[9; 8]);
    assert!(pair.settle());
    assert_eq!(pair.a.statuses(), [(1, Status::Success)]);
    assert_eq!((pair.b.mem.read(0, 1), pair.a.mem.read(8, 8)), (vec![3], vec![0; 8]));
    pair.clean();
}

#[test]
fn a_write_that_is_refused_takes_no_receive() {
    let pair = Pair::new(5);
    pair.b.recv(&pair.qb, 1, 0, 8);
    let op = SendOp::RdmaWriteImm { addr: pair.b.addr(0), rkey: pair.b.mr.rkey() ^ 1, imm: 4 };
    pair.qa.post_send(&[send(2, op, &[pair.a.sge(0, 8)])]).unwrap();
    assert!(pair.settle());
    assert_eq!(pair.a.statuses(), [(2, Status::RemAccessErr)]);
    assert_eq!(pair.b.statuses(), [(1, Status::WrFlushErr)]);
    pair.clean();
}

#[test]
fn reads_need_a_limit() {
    let pair = Pair::with(Settings::default(), ToRts { max_rd_atomic: 0, ..rts(0) }, CAP);
    let op = SendOp::RdmaRead { addr: pair.b.addr(0), rkey: pair.b.mr.rkey() };
    pair.qa.post_send(&[send(1, op, &[pair.a.sge(0, 8)])]).unwrap();
    pair.punished("max_rd_atomic is 0");
    assert!(pair.settle());
    assert_eq!(pair.a.statuses(), [(1, Status::LocQpOpErr)]);
}

#[test]
fn a_fence_waits_for_reads() {
    // Data that is read is sent on: without the fence, the send may precede the data.
    let run = |seed, fence| {
        let pair = Pair::new(seed);
        pair.b.mem.write(0, &[1; 8]);
        pair.b.recv(&pair.qb, 9, 64, 8);
        let op = SendOp::RdmaRead { addr: pair.b.addr(0), rkey: pair.b.mr.rkey() };
        let sges = [pair.a.sge(0, 8)];
        let mut second = send(2, SendOp::Send, &sges);
        second.flags = SendFlags { fence, ..SendFlags::SIGNALED };
        pair.qa.post_send(&[send(1, op, &sges), second]).unwrap();
        assert!(pair.settle());
        assert_eq!(pair.a.statuses(), [(1, Status::Success), (2, Status::Success)]);
        let right = pair.b.mem.read(64, 8) == [1; 8];
        pair.clean();
        right
    };
    assert!((0..30).all(|seed| run(seed, true)));
    assert!(!(0..30).any(|seed| run(seed, false)));
}

#[test]
fn registrations_have_limits() {
    let fabric = Fabric::new(Settings::default());
    let settings = DeviceSettings { memlock: Some(10_000), ..DeviceSettings::new("tight") };
    let hca = fabric.open(fabric.device(settings)).unwrap();
    let mem = Block::new(4096);
    let first = register(&hca, &mem, Access::ALL).unwrap();
    let second = register(&hca, &mem, Access::READ).unwrap();
    let third = register(&hca, &mem, Access::READ).unwrap_err();
    assert_eq!(third.errno, errno::ENOMEM);
    assert!(third.to_string().contains("ulimit -l"), "{third}");
    assert_eq!((fabric.counts(hca.context()).mrs, fabric.counts(hca.context()).bytes), (2, 8192));
    first.deregister().unwrap();
    drop(second);
    let again = register(&hca, &mem, Access::READ).unwrap();
    let wrong = Access { local_write: false, ..Access::ALL };
    assert_eq!(register(&hca, &mem, wrong).unwrap_err().errno, errno::EINVAL);
    drop(again);
    drop(hca);
    assert_eq!(fabric.leaks(), Default::default());
}

#[test]
fn a_registration_that_a_request_uses_must_stay() {
    let pair = Pair::new(5);
    let mem = Block::new(4096);
    let mr = register(&pair.b.hca, &mem, Access::LOCAL).unwrap();
    pair.qb.post_recv(&[hca::RecvWr { wr_id: 1, sges: &[mr.sge(0, 8)] }]).unwrap();
    mr.deregister().unwrap();
    pair.punished("in flight");

    // Until its completion, or a later one, was polled.
    let pair = Pair::new(5);
    let mr = register(&pair.a.hca, &mem, Access::LOCAL).unwrap();
    (0..2).for_each(|i| pair.b.recv(&pair.qb, i, 0, 64));
    pair.qa.post_send(&[quiet(1, SendOp::Send, &[mr.sge(0, 8)]), send(2, SendOp::Send, &[])]).unwrap();
    assert!(pair.settle());
    assert_eq!(pair.a.poll().len(), 1);
    mr.deregister().unwrap();
    assert_eq!(pair.fabric.violations().len(), 0);
    pair.clean();

    // Or until the queue pair is closed.
    let pair = Pair::new(5);
    let mr = register(&pair.a.hca, &mem, Access::LOCAL).unwrap();
    pair.qa.post_recv(&[hca::RecvWr { wr_id: 1, sges: &[mr.sge(0, 8)] }]).unwrap();
    pair.qa.modify(&ModifyQp::Err).unwrap();
    pair.qa.modify(&ModifyQp::Reset).unwrap();
    mr.deregister().unwrap();
    pair.clean();
}

#[test]
fn keys_are_of_no_more_use_after_the_end() {
    let pair = Pair::new(5);
    let mem = Block::new(4096);
    let mr = register(&pair.b.hca, &mem, Access::ALL).unwrap();
    let op = SendOp::RdmaWrite { addr: mr.addr(), rkey: mr.rkey() };
    mr.deregister().unwrap();
    let again = register(&pair.b.hca, &mem, Access::ALL).unwrap();
    assert_ne!(again.rkey(), if let SendOp::RdmaWrite { rkey, .. } = op { rkey } else { 0 });
    pair.qa.post_send(&[send(1, op, &[pair.a.sge(0, 8)])]).unwrap();
    assert!(pair.settle());
    assert_eq!(pair.a.statuses(), [(1, Status::RemAccessErr)]);
    drop(again);
    pair.clean();
}

#[test]
fn a_registration_may_refuse_to_end() {
    let pair = Pair::new(5);
    let mem = Block::new(4096);
    let mr = register(&pair.a.hca, &mem, Access::LOCAL).unwrap();
    pair.faults(Faults { deregister: 1.0, ..Faults::default() });
    let (mr, error) = mr.deregister().unwrap_err();
    assert_eq!(error.errno, errno::EBUSY);
    pair.faults(Faults::default());
    mr.deregister().unwrap();
    pair.clean();
}

#[test]
fn reads_and_atomics_have_no_inline_data() {
    let pair = Pair::new(5);
    let op = SendOp::RdmaRead { addr: pair.b.addr(0), rkey: pair.b.mr.rkey() };
    let piece = [Piece::new(b"x")];
    assert!(pair.qa.post_send(&[inline(1, op, &piece)]).is_err());
    pair.punished("inline");
    let op = SendOp::FetchAdd { addr: pair.b.addr(0), rkey: pair.b.mr.rkey(), add: 1 };
    let mut wr = send(1, op, &[]);
    wr.data = Data::EMPTY;
    assert!(pair.qa.post_send(&[wr]).is_err());
    assert!(pair.fabric.violations()[1].contains("not of 8 bytes"));
}
