//! Scenarios for any device behind the trait.

#![allow(unsafe_code)]

mod side;

use hca::{
    Access, AsyncEvent, Channel, Completed, Cq, Data, Hca, LinkLayer, ModifyQp, Mr, Piece, PortState,
    PostError, Qp, QpKind, QpState, RecvWr, SendFlags, SendOp, SendWr, Srq, SrqAttr, Status, To, XrcdOpen,
    errno,
};
use side::*;
pub use side::{World, readable};

/// Defines every scenario as a test of a world.
#[macro_export]
macro_rules! suite {
    ([$($attr:tt)*] $world:expr) => {
        $crate::suite! { @all [$($attr)*] $world;
            a_device_says_what_it_is
            messages_fill_a_shared_receive_queue_inline_and_with_immediate_data
            a_shared_receive_queue_tells_that_it_runs_low
            messages_wait_for_receives
            what_comes_after_a_fork_is_seen
            memory_is_written_read_and_added_to
            datagrams_come_behind_a_global_header
            what_is_not_permitted_fails_and_flushes_what_follows
            a_registration_ends_when_nothing_uses_it
            objects_go_in_any_order
            a_channel_wakes_who_waits
            a_port_that_goes_down_and_up_is_reported
            long_lists_are_posted_up_to_what_is_refused
            queue_pairs_take_what_their_state_permits
            xrc_is_there_or_refused
        }
    };
    (@all $attr:tt $world:expr; $($name:ident)*) => { $($crate::suite! { @one $attr $world; $name })* };
    (@one [$($attr:tt)*] $world:expr; $name:ident) => {
        #[test]
        $($attr)*
        fn $name() {
            $crate::scenarios::$name(&$world);
        }
    };
}

pub fn a_device_says_what_it_is<W: World>(world: &W) {
    let hca = world.open();
    let device = hca.device();
    assert!(!hca.name().is_empty() && device.ports >= PORT);
    assert!(device.max_qp > 0 && device.max_srq > 0 && device.max_cqe > 0 && device.max_qp_rd_atom > 0);
    let port = hca.port(PORT).expect("a port");
    assert_eq!(port.state, PortState::Active);
    assert!(port.active_mtu <= port.max_mtu && port.max_msg_size >= 1 << 20);
    assert_eq!(hca.pkey(PORT, 0).expect("a key"), 0xffff);
    let gids = hca.gids(PORT).expect("a table");
    assert!(!gids.is_empty() && gids.len() <= port.gid_table_len as usize);
    assert!(gids.iter().all(|entry| !entry.gid.is_zero()));
    assert!(gids.windows(2).all(|w| w[0].index < w[1].index));
    if port.link_layer == LinkLayer::Ethernet {
        assert!(gids.iter().all(|entry| entry.ifindex > 0));
    }
    for port in [0, device.ports + 1] {
        assert_eq!(hca.port(port).expect_err("there is none").errno, errno::EINVAL);
        assert_eq!(hca.gids(port).expect_err("there is none").errno, errno::EINVAL);
        assert_eq!(hca.pkey(port, 0).expect_err("there is none").errno, errno::EINVAL);
    }
    assert_eq!(hca.async_event(), Ok(None));
}

pub fn messages_fill_a_shared_receive_queue_inline_and_with_immediate_data<W: World>(world: &W) {
    let (a, b) = pair(world);
    b.receive(0..4);
    let (head, tail) = (pattern(40, 1), pattern(24, 2));
    let long = pattern(SLOT, 3);
    a.mem.put(DATA_AT, &long);
    {
        // The lent parts end with this block; the message has a copy.
        let gone = (head.clone(), tail.clone());
        let pieces = [Piece::new(&gone.0), Piece::new(&gone.1)];
        let silent = SendWr { flags: SendFlags::NONE, ..wr(10, SendOp::Send, Data::Inline(&pieces)) };
        let data = [a.data(0, 1000)[0], a.data(1000, SLOT - 1000)[0]];
        a.post(&[silent, wr(11, SendOp::SendImm(0xdead_beef), Data::Registered(&data))]);
    }
    let first = b.done(Completed::Recv);
    assert_eq!((first.wr_id, first.byte_len, first.imm), (0, 64, None));
    assert_eq!(b.mem.get(0, 64), [head, tail].concat());
    let second = b.done(Completed::Recv);
    assert_eq!((second.wr_id, second.byte_len, second.imm), (1, SLOT as u32, Some(0xdead_beef)));
    assert_eq!(b.mem.get(SLOT, SLOT), long);
    assert_eq!(second.qp_num, b.qp.number().0);
    // Only one of the two sends has requested a completion.
    let sent = a.done(Completed::Send);
    assert_eq!((sent.wr_id, sent.qp_num), (11, a.qp.number().0));
    assert!(a.is_quiet() && b.is_quiet());
}

pub fn a_shared_receive_queue_tells_that_it_runs_low<W: World>(world: &W) {
    let (a, b) = pair(world);
    b.receive(0..4);
    assert!(b.srq.set_limit(b.srq.max_wr() + 1).is_err());
    b.srq.set_limit(3).expect("there are more");
    for i in 0..3 {
        a.post(&[wr(i, SendOp::Send, Data::EMPTY)]);
    }
    for _ in 0..3 {
        b.done(Completed::Recv);
    }
    world.wait(b.hca.async_fd(), "the limit's event");
    assert_eq!(b.hca.async_event(), Ok(Some(AsyncEvent::SrqLimitReached(2))));
    assert_eq!(b.hca.async_event(), Ok(None));
    assert_eq!(a.hca.async_event(), Ok(None));
}

/// Uses a queue with one receive at a time. The limit's event is reported each time it is used,
/// messages wait for the next receive, and none is lost.
pub fn messages_wait_for_receives<W: World>(world: &W) {
    const MESSAGES: usize = 6;
    let (a, b) = pair(world);
    let before = world.not_ready();
    for i in 0..MESSAGES {
        a.post(&[wr(i as u64, SendOp::SendImm(i as u32), Data::EMPTY)]);
    }
    for i in 0..MESSAGES {
        // The remaining messages wait meanwhile.
        world.pass(core::time::Duration::from_millis(30));
        b.srq.set_limit(1).expect("there is room for more");
        b.receive(i..i + 1);
        let got = b.done(Completed::Recv);
        assert_eq!((got.wr_id, got.imm), (i as u64, Some(i as u32)));
        world.wait(b.hca.async_fd(), "the limit's event");
        assert_eq!(b.hca.async_event(), Ok(Some(AsyncEvent::SrqLimitReached(2))));
    }
    for i in 0..MESSAGES {
        assert_eq!(a.done(Completed::Send).wr_id, i as u64);
    }
    let after = world.not_ready();
    assert!(before.zip(after).is_none_or(|(before, after)| after > before), "no sender was told to wait");
    assert_eq!((a.qp.state(), b.qp.state()), (Ok(QpState::Rts), Ok(QpState::Rts)));
}

/// While a child shares this process's pages, received data arrives in this process's page, even
/// after it has written beside it.
pub fn what_comes_after_a_fork_is_seen<W: World>(world: &W) {
    let (a, b) = pair(world);
    b.receive(0..3);
    world.beside_a_child(|| {
        for slot in 0..3 {
            let bytes = pattern(SLOT / 2, slot + 20);
            b.mem.put(slot * SLOT, &[0xaa; SLOT]);
            a.mem.put(DATA_AT, &bytes);
            let data = a.data(0, SLOT / 2);
            a.post(&[wr(1, SendOp::Send, Data::Registered(&data))]);
            assert_eq!(b.done(Completed::Recv).wr_id, slot as u64);
            a.done(Completed::Send);
            assert_eq!(b.mem.get(slot * SLOT, SLOT), [bytes, vec![0xaa; SLOT - SLOT / 2]].concat());
        }
    });
}

pub fn memory_is_written_read_and_added_to<W: World>(world: &W) {
    let (a, b) = pair(world);
    let ((addr, rkey), all) = (b.remote(0), a.data(0, DATA));
    let bytes = pattern(DATA, 4);
    a.mem.put(DATA_AT, &bytes);
    a.post(&[wr(1, SendOp::RdmaWrite { addr, rkey }, Data::Registered(&all))]);
    assert_eq!(a.done(Completed::RdmaWrite).wr_id, 1);
    assert_eq!(b.mem.get(DATA_AT, DATA), bytes);
    // Immediate data uses a receive, but not its memory.
    b.receive(5..6);
    let piece = [Piece::new(b"written inline")];
    a.post(&[wr(2, SendOp::RdmaWriteImm { addr: addr + 100, rkey, imm: 17 }, Data::Inline(&piece))]);
    let received = b.done(Completed::RecvRdmaWithImm);
    assert_eq!((received.wr_id, received.imm, received.byte_len), (5, Some(17), 14));
    assert_eq!(b.mem.get(DATA_AT + 100, 14), b"written inline");
    assert_eq!(b.mem.get(5 * SLOT, SLOT), vec![0; SLOT]);
    a.done(Completed::RdmaWrite);

    let bytes = pattern(DATA, 5);
    b.mem.put(DATA_AT, &bytes);
    a.post(&[wr(3, SendOp::RdmaRead { addr, rkey }, Data::Registered(&all))]);
    a.done(Completed::RdmaRead);
    assert_eq!(a.mem.get(DATA_AT, DATA), bytes);

    assert_ne!(a.hca.device().atomics, hca::AtomicCap::None);
    let old = a.data(8, 8);
    let swaps = [
        (SendOp::FetchAdd { addr, rkey, add: 289 }, Completed::FetchAdd, 5000_u64),
        (SendOp::CompareSwap { addr, rkey, compare: 4711, swap: 3 }, Completed::CompareSwap, 3),
        (SendOp::CompareSwap { addr, rkey, compare: 4712, swap: 3 }, Completed::CompareSwap, 4711),
    ];
    for (op, completed, expected) in swaps {
        b.mem.put(DATA_AT, &4711_u64.to_ne_bytes());
        let fenced = SendFlags { fence: true, ..SendFlags::SIGNALED };
        a.post(&[SendWr { flags: fenced, ..wr(4, op, Data::Registered(&old)) }]);
        a.done(completed);
        assert_eq!(a.mem.get(DATA_AT + 8, 8), 4711_u64.to_ne_bytes());
        assert_eq!(b.mem.get(DATA_AT, 8), expected.to_ne_bytes());
    }
}

pub fn datagrams_come_behind_a_global_header<W: World>(world: &W) {
    const GRH: usize = 40;
    let (a, b) = (Side::new(world, true), Side::new(world, true));
    for side in [&a, &b] {
        let refused = side.qp.modify(&INIT).expect_err("that is a step of connections");
        assert_eq!(refused.errno, errno::EINVAL);
        side.qp.modify(&ModifyQp::InitUd { port: PORT, pkey_index: 0, qkey: QKEY }).expect("init");
        side.qp.modify(&ModifyQp::RtrUd).expect("ready to receive");
        side.qp.modify(&ModifyQp::RtsUd { sq_psn: 1 }).expect("ready to send");
    }
    b.receive(0..1);
    let ah = a.hca.create_ah(&a.route(&b)).expect("an address handle");
    assert!(a.hca.create_ah(&hca::AhAttr { port: 0, ..a.route(&b) }).is_err());
    a.mem.put(DATA_AT, &pattern(50, 6));
    let data = a.data(0, 50);
    let to = To::Datagram { ah: &ah, qp: b.qp.number(), qkey: QKEY };
    let datagram = wr(1, SendOp::SendImm(9), Data::Registered(&data));
    // A datagram without an address handle has no destination.
    assert_eq!(a.qp.post_send(&[datagram]), Err(PostError { at: 0, errno: errno::EINVAL }));
    a.post(&[SendWr { to, ..datagram }]);
    let got = b.done(Completed::Recv);
    assert_eq!((got.byte_len as usize, got.src_qp), (GRH + 50, a.qp.number().0));
    assert_eq!(got.imm, Some(9));
    let ethernet = b.hca.port(PORT).expect("a port").link_layer == LinkLayer::Ethernet;
    assert!(got.grh || !ethernet);
    assert_eq!(b.mem.get(GRH, 50), pattern(50, 6));
    a.done(Completed::Send);
}

pub fn what_is_not_permitted_fails_and_flushes_what_follows<W: World>(world: &W) {
    let (a, b) = pair(world);
    let (addr, rkey) = b.remote(0);
    let before = b.mem.get(DATA_AT, 64);
    a.mem.put(DATA_AT, &[9; 64]);
    let data = a.data(0, 64);
    let write = |wr_id, rkey| wr(wr_id, SendOp::RdmaWrite { addr, rkey }, Data::Registered(&data));
    a.post(&[write(1, rkey ^ 0x00f0_0f0f), write(2, rkey)]);
    let ended = [a.next(), a.next()].map(|c| (c.wr_id, c.status));
    assert_eq!(ended, [(1, Status::RemAccessErr), (2, Status::WrFlushErr)]);
    assert_eq!((a.qp.state(), b.mem.get(DATA_AT, 64)), (Ok(QpState::Err), before));
    // An aborted queue pair behaves the same.
    b.qp.modify(&ModifyQp::Err).expect("it has not failed, or it has");
    b.post(&[wr(3, SendOp::Send, Data::EMPTY)]);
    let flushed = b.next();
    assert_eq!((flushed.wr_id, flushed.status), (3, Status::WrFlushErr));
}

pub fn a_registration_ends_when_nothing_uses_it<W: World>(world: &W) {
    let (a, b) = pair(world);
    let second = b.mem.register(&b.hca, Access::ALL);
    assert_eq!((second.len(), second.addr()), (ALL, b.mr.addr()));
    let (addr, rkey) = (second.addr() + DATA_AT as u64, second.rkey());
    let data = a.data(0, 64);
    let read = wr(1, SendOp::RdmaRead { addr, rkey }, Data::Registered(&data));
    b.mem.put(DATA_AT, &[7; 64]);
    a.post(&[read]);
    a.done(Completed::RdmaRead);
    assert_eq!(a.mem.get(DATA_AT, 64), [7; 64]);
    assert!(second.deregister().is_ok());
    a.post(&[read]);
    assert_eq!(a.next().status, Status::RemAccessErr);
}

pub fn objects_go_in_any_order<W: World>(world: &W) {
    // A queue pair keeps alive everything it needs, and so do queues.
    let (a, b) = pair(world);
    b.receive(0..1);
    let Side { qp, srq, cq, channel, mr, hca, mem, .. } = b;
    drop((hca, srq, channel));
    a.post(&[wr(1, SendOp::SendImm(1), Data::EMPTY)]);
    a.done(Completed::Send);
    let mut room = [hca::Completion::EMPTY; 4];
    assert_eq!(cq.poll(&mut room), Ok(1));
    assert_eq!((room[0].imm, qp.state()), (Some(1), Ok(QpState::Rts)));
    drop((cq, qp, mr, mem));

    for first in 0..6 {
        let hca = world.open();
        let channel = hca.create_channel().expect("a channel");
        let cq = hca.create_cq(8, 1, Some(&channel)).expect("a queue");
        let srq = hca.create_srq(SrqAttr { max_wr: 8, max_sge: 1 }, 2).expect("a queue");
        let ah = hca.create_ah(&route(&hca)).expect("an address handle");
        let qp = queue_pair(&hca, QpKind::Rc { send_cq: &cq, recv_cq: &cq, srq: Some(&srq) });
        let mem = Block::new();
        let mr = mem.register(&hca, Access::LOCAL);
        match first {
            0 => drop((hca, channel, cq, srq, ah, qp, mr)),
            1 => drop((mr, qp, ah, srq, cq, channel, hca)),
            2 => drop((channel, qp, hca, cq, mr, srq, ah)),
            3 => drop((cq, srq, hca, ah, mr, channel, qp)),
            4 => drop((srq, cq, qp, mr, channel, hca, ah)),
            _ => drop((qp, channel, cq, hca, srq, mr, ah)),
        }
    }
}

pub fn a_channel_wakes_who_waits<W: World>(world: &W) {
    let (a, b) = pair(world);
    assert_eq!(b.channel.drain(), Ok(0));
    b.receive(0..2);
    b.cq.arm(false).expect("the device works");
    assert!(!readable(b.channel.fd(), 0));
    a.post(&[wr(1, SendOp::Send, Data::EMPTY)]);
    world.wait(b.channel.fd(), "a wake-up");
    assert_eq!((b.channel.drain(), b.channel.drain()), (Ok(1), Ok(0)));
    assert!(!readable(b.channel.fd(), 0));
    b.done(Completed::Recv);
    // An event for solicited completions only, because it was armed so.
    b.receive(2..4);
    b.cq.arm(true).expect("the device works");
    let flags = SendFlags { solicited: true, ..SendFlags::SIGNALED };
    a.post(&[wr(2, SendOp::Send, Data::EMPTY), SendWr { flags, ..wr(3, SendOp::SendImm(3), Data::EMPTY) }]);
    world.wait(b.channel.fd(), "a wake-up");
    assert_eq!(b.channel.drain(), Ok(1));
    b.done(Completed::Recv);
    assert_eq!(b.done(Completed::Recv).imm, Some(3));
}

pub fn a_port_that_goes_down_and_up_is_reported<W: World>(world: &W) {
    let hca = world.open();
    for up in [false, true] {
        if !world.set_port(up) {
            return;
        }
        let expected = if up { AsyncEvent::PortActive(PORT) } else { AsyncEvent::PortError(PORT) };
        loop {
            world.wait(hca.async_fd(), "the port's event");
            match hca.async_event().expect("the device works") {
                // GIDs change with the interface's addresses.
                None | Some(AsyncEvent::GidChange(PORT)) => {}
                Some(event) => {
                    assert_eq!(event, expected);
                    break;
                }
            }
        }
        assert_eq!(hca.port(PORT).expect("a port").state == PortState::Active, up);
    }
}

pub fn long_lists_are_posted_up_to_what_is_refused<W: World>(world: &W) {
    const LONG: usize = 60;
    let (a, b) = pair(world);
    b.receive(0..LONG);
    let imm = |i: usize| wr(i as u64, SendOp::SendImm(i as u32), Data::EMPTY);
    // Reads have no inline data.
    let (addr, rkey) = b.remote(0);
    let bytes = [Piece::new(b"12345678")];
    let mut list: Vec<Wr<'_, W>> = (0..LONG).map(imm).collect();
    list[37] = wr(37, SendOp::RdmaRead { addr, rkey }, Data::Inline(&bytes));
    assert_eq!(a.qp.post_send(&list), Err(PostError { at: 37, errno: errno::EINVAL }));
    list[37] = imm(37);
    a.post(&list[37..]);
    for i in 0..LONG {
        let got = b.done(Completed::Recv);
        assert_eq!((got.wr_id, got.imm), (i as u64, Some(i as u32)));
        assert_eq!(a.done(Completed::Send).wr_id, i as u64);
    }
    // More receives than the queue has room for.
    let srq = b.hca.create_srq(SrqAttr { max_wr: 40, max_sge: 1 }, 3).expect("a queue");
    let list = vec![RecvWr { wr_id: 1, sges: &[] }; 2 * srq.max_wr() as usize + 100];
    let full = srq.post_recv(&list).expect_err("so many");
    assert!(full.at >= 40 && full.at < list.len(), "{full}");
    assert_eq!(srq.post_recv(&list), Err(PostError { at: 0, ..full }));
}

pub fn queue_pairs_take_what_their_state_permits<W: World>(world: &W) {
    let side = Side::new(world, false);
    let kind = QpKind::Rc { send_cq: &side.cq, recv_cq: &side.cq, srq: None };
    let cap = hca::QpCap { max_send_wr: 4, max_recv_wr: 4, max_send_sge: 1, max_recv_sge: 1, max_inline: 0 };
    let init = hca::QpInit { kind, cap, signal_all: true };
    let qp = side.hca.create_qp(&init).expect("a queue pair");
    let (send, receive) = ([wr(1, SendOp::Send, Data::EMPTY)], [RecvWr { wr_id: 2, sges: &[] }]);
    let refused = Err(PostError { at: 0, errno: errno::EINVAL });
    assert_eq!((qp.state(), qp.post_send(&send)), (Ok(QpState::Reset), refused));
    assert_eq!(qp.post_recv(&receive), refused);
    assert!(qp.modify(&ModifyQp::RtrUd).is_err());
    qp.modify(&INIT).expect("init");
    assert_eq!((qp.post_recv(&receive), qp.post_send(&send)), (Ok(()), refused));
    assert_eq!(qp.state(), Ok(QpState::Init));
    // With a shared queue, the pair has no receive queue of its own.
    side.qp.modify(&INIT).expect("init");
    assert_eq!(side.qp.post_recv(&receive), refused);
    assert_eq!(side.qp.post_recv(&[]), Ok(()));
    // A send that was posted too early is not sent later.
    let peer = Side::new(world, false);
    peer.receive(0..2);
    connect(&peer.qp, &peer.hca, side.qp.number());
    assert_eq!(side.qp.post_send(&send), refused);
    ready(&side.qp, &side.hca, peer.qp.number());
    side.post(&[wr(3, SendOp::SendImm(3), Data::EMPTY)]);
    assert_eq!(peer.done(Completed::Recv).imm, Some(3));
    assert_eq!(side.done(Completed::Send).wr_id, 3);
    assert!(peer.is_quiet() && side.is_quiet());
}

pub fn xrc_is_there_or_refused<W: World>(world: &W) {
    let (a, b) = (Side::new(world, false), Side::new(world, false));
    let xrcd = match b.hca.open_xrcd(XrcdOpen::Private) {
        Ok(xrcd) => xrcd,
        Err(why) => {
            assert_eq!(why.errno, errno::EOPNOTSUPP, "{why}");
            assert!(!b.hca.name().starts_with("sim"), "the simulation has it");
            return;
        }
    };
    assert!(!b.hca.name().starts_with("rxe"), "rxe has none");
    let attr = SrqAttr { max_wr: 8, max_sge: 1 };
    let srq = b.hca.create_xrc_srq(attr, 5, &xrcd, &b.cq).expect("a queue");
    let number = srq.number().expect("it is one of XRC");
    let tgt = queue_pair(&b.hca, QpKind::XrcTgt { xrcd: &xrcd });
    let ini = queue_pair(&a.hca, QpKind::XrcIni { send_cq: &a.cq });
    connect(&tgt, &b.hca, ini.number());
    connect(&ini, &a.hca, tgt.number());
    let other = b.hca.open_tgt(&xrcd, tgt.number()).expect("it is there");
    assert_eq!(other.number(), tgt.number());
    drop(tgt);
    srq.post_recv(&[RecvWr { wr_id: 6, sges: &[b.mr.sge(0, SLOT as u32)] }]).expect("there is room");
    let bytes = pattern(50, 7);
    let data = [Piece::new(&bytes)];
    let message = wr(1, SendOp::Send, Data::Inline(&data));
    assert!(ini.post_send(&[message]).is_err(), "it names no queue");
    ini.post_send(&[SendWr { to: To::Srq(number), ..message }]).expect("there is room");
    let got = b.done(Completed::Recv);
    assert_eq!((got.wr_id, got.byte_len, b.mem.get(0, 50)), (6, 50, bytes));
    a.done(Completed::Send);
}
