//! Tests of the death of processes and devices, ports, limits, refused creation, and threads.

mod common;

use core::time::Duration;

use common::*;
use hca::{
    Access, AsyncEvent, Cq, Hca, ModifyQp, PortState, Qp, QpCap, QpInit, QpKind, SendOp, SrqAttr, Status,
    ToRts, errno,
};
use netmod_sim_hca::{Counts, DeviceSettings, Fabric, Faults, Leaks, Settings};

#[test]
fn peers_of_the_dead_run_out_of_retries() {
    let pair = Pair::with(Settings::default(), ToRts { timeout: 3, retry_cnt: 2, ..rts(0) }, CAP);
    (0..2).for_each(|i| pair.b.recv(&pair.qb, i, 0, 64));
    pair.qa.post_send(&[send(1, SendOp::Send, &[])]).unwrap();
    assert!(pair.settle());
    let process = pair.b.hca.context();
    pair.fabric.kill(process);
    assert_eq!(pair.fabric.counts(process), Counts::default());
    pair.qa.post_send(&[send(2, SendOp::Send, &[])]).unwrap();
    assert!(pair.settle());
    assert_eq!(pair.a.statuses(), [(1, Status::Success), (2, Status::RetryExcErr)]);
    assert_eq!((pair.a.events(), pair.a.hca.port(1).unwrap().state), (vec![], PortState::Active));
    // Handles of a dead process.
    assert_eq!(pair.qb.post_send(&[send(1, SendOp::Send, &[])]).unwrap_err().errno, errno::ENODEV);
    assert_eq!(pair.b.cq.poll(&mut []).unwrap_err().errno, errno::ENODEV);
    assert_eq!(pair.b.hca.create_channel().unwrap_err().errno, errno::ENODEV);
    assert_eq!(pair.b.hca.async_event().unwrap_err().errno, errno::ENODEV);
    pair.clean();
}

#[test]
fn a_number_of_the_dead_is_not_soon_that_of_another() {
    let pair = Pair::new(1);
    let number = pair.qb.number();
    pair.fabric.kill(pair.b.hca.context());
    let heir = Node::new(&pair.fabric, pair.devices[1]);
    for _ in 0..100 {
        assert_ne!(heir.rc(CAP, None).number(), number);
    }
}

#[test]
fn what_was_on_its_way_from_the_dead_may_arrive() {
    let pair = Pair::new(1);
    pair.b.recv(&pair.qb, 1, 0, 64);
    pair.qa.post_send(&[send(2, SendOp::Send, &[])]).unwrap();
    // The packet has left, and takes at least 200 ns.
    after(&pair.fabric, Duration::ZERO);
    pair.fabric.kill(pair.a.hca.context());
    assert!(pair.settle());
    assert_eq!(pair.b.statuses(), [(1, Status::Success)]);
    pair.clean();
}

#[test]
fn a_device_that_fails_is_silent() {
    let pair = Pair::with(Settings::default(), ToRts { timeout: 3, retry_cnt: 1, ..rts(0) }, CAP);
    pair.b.recv(&pair.qb, 1, 0, 64);
    pair.qa.post_send(&[send(2, SendOp::Send, &[])]).unwrap();
    pair.fabric.fail_device(pair.devices[0]);
    assert!(pair.settle());
    assert_eq!(pair.a.events(), [AsyncEvent::DeviceFatal]);
    assert_eq!(pair.b.events(), []);
    assert_eq!(pair.a.cq.poll(&mut []).unwrap_err().errno, errno::EIO);
    assert_eq!(pair.qa.post_send(&[send(3, SendOp::Send, &[])]).unwrap_err().errno, errno::EIO);
    assert_eq!(pair.qa.modify(&ModifyQp::Err).unwrap_err().errno, errno::EIO);
    assert!(pair.a.hca.port(1).unwrap_err().to_string().contains("has failed"));
    pair.qb.post_send(&[send(4, SendOp::Send, &[])]).unwrap();
    assert!(pair.settle());
    assert!(pair.b.statuses().contains(&(4, Status::RetryExcErr)));
    pair.clean();
}

#[test]
fn ports_tell_their_state_to_all_processes_once() {
    let fabric = Fabric::new(Settings::default());
    let mut settings = DeviceSettings::new("two");
    settings.attr.ports = 2;
    let device = fabric.device(settings);
    let processes = [(); 2].map(|()| fabric.open(device).unwrap());
    assert_ne!(processes[0].port(1).unwrap().lid, processes[0].port(2).unwrap().lid);
    assert_ne!(processes[0].gids(1).unwrap()[0].gid, processes[0].gids(2).unwrap()[0].gid);
    assert_eq!(processes[0].port(3).unwrap_err().errno, errno::EINVAL);
    assert_eq!((processes[0].pkey(1, 0).unwrap(), processes[0].pkey(1, 1).is_err()), (0xffff, true));
    for (up, event, state) in [
        (false, AsyncEvent::PortError(2), PortState::Down),
        (true, AsyncEvent::PortActive(2), PortState::Active),
    ] {
        fabric.set_port(device, 2, up);
        fabric.set_port(device, 2, up);
        for process in &processes {
            assert_eq!(process.port(2).unwrap().state, state);
            assert_eq!((process.async_event(), process.async_event()), (Ok(Some(event)), Ok(None)));
        }
    }
}

#[test]
fn what_a_process_holds_is_counted() {
    let pair = Pair::new(1);
    let context = pair.a.hca.context();
    let base = pair.fabric.counts(context);
    let expected = Counts { cqs: 1, qps: 1, mrs: 1, bytes: MEMORY as u64, ..Counts::default() };
    assert_eq!(base, expected);
    let srq = pair.a.hca.create_srq(SrqAttr { max_wr: 4, max_sge: 1 }, 0).unwrap();
    let qps: Vec<_> = (0..5).map(|_| pair.a.rc(CAP, Some(&srq))).collect();
    let ah = pair.a.hca.create_ah(&route(&pair.b.hca)).unwrap();
    let xrcd = pair.a.hca.open_xrcd(hca::XrcdOpen::Private).unwrap();
    assert_eq!(pair.fabric.counts(context), Counts { srqs: 1, qps: 6, ahs: 1, xrcds: 1, ..base });
    let leaks =
        Leaks { contexts: 2, cqs: 2, srqs: 1, qps: 7, mrs: 2, ahs: 1, xrcds: 1, domains: 1, channels: 0 };
    assert_eq!(pair.fabric.leaks(), leaks);
    drop((srq, qps, ah, xrcd));
    assert_eq!(pair.fabric.counts(context), base);
    pair.clean();
}

#[test]
fn what_is_forgotten_is_seen() {
    let pair = Pair::new(1);
    let fabric = pair.fabric.clone();
    std::mem::forget(pair.a.rc(CAP, None));
    drop(pair);
    assert_eq!((fabric.leaks().qps, fabric.leaks().cqs, fabric.leaks().contexts), (1, 1, 1));
}

#[test]
fn devices_have_limits() {
    let fabric = Fabric::new(Settings::default());
    let mut settings = DeviceSettings::new("tiny");
    settings.attr.max_qp = 2;
    settings.attr.max_cq = 2;
    settings.attr.max_srq = 1;
    settings.attr.max_cqe = 256;
    settings.attr.max_qp_wr = 16;
    let device = fabric.device(settings);
    let node = Node::new(&fabric, device);
    let make = |cap: QpCap| {
        let kind = QpKind::Rc { send_cq: &node.cq, recv_cq: &node.cq, srq: None };
        node.hca.create_qp(&QpInit { kind, cap, signal_all: false })
    };
    let refusal = |cap| make(cap).map(|_| ()).unwrap_err().errno;
    for cap in [
        QpCap { max_send_wr: 17, ..CAP },
        QpCap { max_recv_wr: 17, ..CAP },
        QpCap { max_send_sge: 31, ..CAP },
        QpCap { max_inline: 221, ..CAP },
    ] {
        assert_eq!(refusal(cap), errno::EINVAL, "{cap:?}");
    }
    let first = make(QpCap { max_inline: 30, ..CAP }).unwrap();
    assert_eq!(first.cap().max_inline, 32, "the device gives more");
    let _second = make(CAP).unwrap();
    assert_eq!(refusal(CAP), errno::ENOMEM);
    drop(first);
    assert!(make(CAP).is_ok());
    assert_eq!(node.hca.create_cq(257, 0, None).unwrap_err().errno, errno::EINVAL);
    let _cq = node.hca.create_cq(256, 0, None).unwrap();
    assert_eq!(node.hca.create_cq(1, 0, None).unwrap_err().errno, errno::ENOMEM);
    let attr = SrqAttr { max_wr: 1, max_sge: 1 };
    let _srq = node.hca.create_srq(attr, 0).unwrap();
    assert_eq!(node.hca.create_srq(attr, 0).unwrap_err().errno, errno::ENOMEM);
}

#[test]
fn creating_and_registering_fail_where_asked() {
    let pair = Pair::new(1);
    let mem = Block::new(4096);
    pair.faults(Faults { create: 1.0, register: 1.0, ..Faults::default() });
    let hca = &pair.a.hca;
    let kind = QpKind::Rc { send_cq: &pair.a.cq, recv_cq: &pair.a.cq, srq: None };
    let errors = [
        hca.create_channel().map(|_| ()),
        hca.create_cq(1, 0, None).map(|_| ()),
        hca.create_srq(SrqAttr { max_wr: 1, max_sge: 1 }, 0).map(|_| ()),
        hca.create_qp(&QpInit { kind, cap: CAP, signal_all: false }).map(|_| ()),
        hca.create_ah(&route(&pair.b.hca)).map(|_| ()),
        register(hca, &mem, Access::LOCAL).map(|_| ()),
    ];
    for error in errors {
        assert_eq!(error.unwrap_err().errno, errno::ENOMEM);
    }
    pair.faults(Faults::default());
    drop(pair.a.hca.create_channel().unwrap());
    pair.clean();
}

#[test]
fn processes_may_be_in_several_threads() {
    let zero = Duration::ZERO;
    let settings = Settings { delay_min: zero, delay_max: zero, ..Settings::default() };
    let Pair { fabric, qa, qb, a, b, .. } = Pair::with(settings, rts(0), CAP);
    const MESSAGES: u64 = 200;
    let echo = std::thread::spawn(move || {
        b.recv(&qb, 0, 0, 8);
        let mut done = 0;
        while done < MESSAGES {
            for completion in b.poll().iter().filter(|c| c.wr_id == 0) {
                assert!(completion.status.is_success());
                let value = b.mem.read(0, 8);
                b.mem.write(64, &value);
                b.recv(&qb, 0, 0, 8);
                qb.post_send(&[send(1, SendOp::Send, &[b.sge(64, 8)])]).unwrap();
                done += 1;
            }
            std::thread::yield_now();
        }
        (qb, b)
    });
    for i in 0..MESSAGES {
        a.recv(&qa, 0, 0, 8);
        a.mem.write(64, &i.to_ne_bytes());
        qa.post_send(&[send(1, SendOp::Send, &[a.sge(64, 8)])]).unwrap();
        let mut open = 2;
        while open != 0 {
            open -= a.poll().len();
            // A receive may have been missing for a moment: time must pass.
            after(&fabric, Duration::from_micros(1));
            std::thread::yield_now();
        }
        assert_eq!(a.mem.read(0, 8), i.to_ne_bytes());
    }
    let other = echo.join().unwrap();
    drop((qa, a, other));
    assert_eq!((fabric.violations(), fabric.leaks()), (vec![], Leaks::default()));
}
