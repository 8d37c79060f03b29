//! Tests of alternate paths: the transitions that load them, and connections whose port is lost.

mod common;

use common::*;
use hca::{
    AhAttr, AltPath, AsyncEvent, Hca, ModifyQp, Mr, PathMigState, Qp, QpCap, QpInit, QpKind, SendOp, Status,
    ToRtr, ToRts, XrcdOpen, errno,
};
use netmod_sim_hca::{DeviceSettings, Fabric, Settings, SimHca, SimQp};

/// Returns the path from the second port to a peer's second port.
fn second(to: &SimHca) -> AltPath {
    let ah = AhAttr { port: 2, dlid: to.port(2).expect("two ports").lid, ..route(to) };
    AltPath { ah, pkey_index: 0, timeout: 6 }
}

fn paths(alt: Option<AltPath>, path_mig_state: Option<PathMigState>) -> ModifyQp {
    ModifyQp::Paths { alt, path_mig_state }
}

/// Makes two processes on devices with two ports each, connected by the first ones.
fn pair(seed: u64) -> Pair {
    let fabric = Fabric::new(Settings { seed, ..Settings::default() });
    let devices = ["sim_a", "sim_b"].map(|name| {
        let mut settings = DeviceSettings::new(name);
        settings.attr.ports = 2;
        fabric.device(settings)
    });
    let [a, b] = devices.map(|device| Node::new(&fabric, device));
    let (qa, qb) = (a.rc(CAP, None), b.rc(CAP, None));
    let sending = ToRts { timeout: 5, retry_cnt: 2, ..rts(3) };
    connect(&qa, &b.hca, qb.number(), 5, sending);
    connect(&qb, &a.hca, qa.number(), 3, ToRts { sq_psn: 5, ..sending });
    Pair { fabric, devices, qa, qb, a, b }
}

/// Loads alternate paths on both sides, and arms them by a message.
fn arm(pair: &Pair) {
    let rearm = Some(PathMigState::Rearm);
    pair.qa.modify(&paths(Some(second(&pair.b.hca)), rearm)).expect("it is ready to send");
    pair.qb.modify(&paths(Some(second(&pair.a.hca)), rearm)).expect("it is ready to send");
    pair.b.recv(&pair.qb, 1, 0, 64);
    pair.qa.post_send(&[send(1, SendOp::Send, &[])]).expect("room");
    assert!(pair.settle());
    assert_eq!((pair.a.statuses(), pair.b.statuses().len()), (vec![(1, Status::Success)], 1));
    assert_eq!(states(pair), [PathMigState::Armed; 2]);
}

fn states(pair: &Pair) -> [PathMigState; 2] {
    [&pair.qa, &pair.qb].map(|qp| qp.path_mig_state().expect("a device that works"))
}

/// Sends numbered messages, and expects each once and in order.
fn exchange(pair: &Pair, from: (&Node, &SimQp), to: (&Node, &SimQp), what: &str) {
    for n in 0..4 {
        to.0.recv(to.1, n, n as usize * 8, 8);
        from.0.mem.write(512, &n.to_ne_bytes());
        from.1.post_send(&[send(n, SendOp::Send, &[from.0.sge(512, 8)])]).expect("room");
        assert!(pair.settle());
        assert_eq!(from.0.statuses(), [(n, Status::Success)], "{what}");
        assert_eq!(to.0.statuses(), [(n, Status::Success)], "{what}");
        assert_eq!(to.0.mem.read(n as usize * 8, 8), n.to_ne_bytes(), "{what}");
    }
}

#[test]
fn the_loss_of_a_port_moves_an_armed_connection_without_loss() {
    for seed in 0..20 {
        for lost in 0..2 {
            let pair = pair(seed);
            arm(&pair);
            pair.fabric.set_port(pair.devices[lost], 1, false);
            exchange(&pair, (&pair.a, &pair.qa), (&pair.b, &pair.qb), "there");
            exchange(&pair, (&pair.b, &pair.qb), (&pair.a, &pair.qa), "back");
            assert_eq!(states(&pair), [PathMigState::Migrated; 2]);
            let moved =
                [AsyncEvent::PathMigrated(pair.qa.number()), AsyncEvent::PathMigrated(pair.qb.number())];
            for (node, moved) in [(&pair.a, moved[0]), (&pair.b, moved[1])] {
                let events = node.events();
                assert_eq!(events.iter().filter(|event| **event == moved).count(), 1, "{events:?}");
            }
            pair.clean();
        }
    }
}

#[test]
fn requests_under_way_when_the_port_is_lost_are_done_once() {
    for seed in 0..50 {
        let pair = pair(seed);
        arm(&pair);
        let add = SendOp::FetchAdd { addr: pair.b.addr(4096), rkey: pair.b.mr.rkey(), add: 1 };
        for n in 0..3 {
            pair.qa.post_send(&[send(n, add, &[pair.a.sge(64, 8)])]).expect("room");
        }
        after(&pair.fabric, core::time::Duration::from_nanos(300 * seed));
        pair.fabric.set_port(pair.devices[0], 1, false);
        assert!(pair.settle());
        let done: Vec<_> = (0..3).map(|n| (n, Status::Success)).collect();
        assert_eq!(pair.a.statuses(), done, "seed {seed}");
        assert_eq!(pair.b.mem.read(4096, 8), 3_u64.to_ne_bytes(), "seed {seed}");
        pair.clean();
    }
}

#[test]
fn a_connection_that_is_not_armed_fails_with_its_port() {
    for rearm in [false, true] {
        let pair = pair(1);
        if rearm {
            // The peer has loaded none.
            pair.qa.modify(&paths(Some(second(&pair.b.hca)), Some(PathMigState::Rearm))).expect("a step");
            pair.b.recv(&pair.qb, 1, 0, 64);
            pair.qa.post_send(&[send(1, SendOp::Send, &[])]).expect("room");
            assert!(pair.settle());
            assert_eq!(states(&pair), [PathMigState::Rearm, PathMigState::Migrated]);
            assert_eq!(pair.a.statuses(), [(1, Status::Success)]);
        }
        pair.fabric.set_port(pair.devices[0], 1, false);
        pair.qa.post_send(&[send(2, SendOp::Send, &[])]).expect("room");
        assert!(pair.settle());
        assert_eq!(pair.a.statuses(), [(2, Status::RetryExcErr)]);
    }
}

#[test]
fn an_armed_connection_can_be_moved_and_armed_again() {
    let pair = pair(1);
    arm(&pair);
    pair.qa.modify(&paths(None, Some(PathMigState::Migrated))).expect("it is armed");
    exchange(&pair, (&pair.a, &pair.qa), (&pair.b, &pair.qb), "on the second path");
    assert_eq!(states(&pair), [PathMigState::Migrated; 2]);
    // Back to the first ports when the second ones are lost.
    let first = |to: &SimHca| AltPath { ah: route(to), pkey_index: 0, timeout: 5 };
    let rearm = Some(PathMigState::Rearm);
    pair.qa.modify(&paths(Some(first(&pair.b.hca)), rearm)).expect("a step");
    pair.qb.modify(&paths(Some(first(&pair.a.hca)), rearm)).expect("a step");
    exchange(&pair, (&pair.b, &pair.qb), (&pair.a, &pair.qa), "arming");
    assert_eq!(states(&pair), [PathMigState::Armed; 2]);
    pair.fabric.set_port(pair.devices[1], 2, false);
    exchange(&pair, (&pair.a, &pair.qa), (&pair.b, &pair.qb), "on the first path again");
    pair.clean();
}

#[test]
fn a_peer_that_moves_elsewhere_is_told_of_and_not_heard() {
    let fabric = Fabric::new(Settings::default());
    let devices = ["sim_a", "sim_b"].map(|name| {
        let mut settings = DeviceSettings::new(name);
        settings.attr.ports = 3;
        fabric.device(settings)
    });
    let [a, b] = devices.map(|device| Node::new(&fabric, device));
    let (qa, qb) = (a.rc(CAP, None), b.rc(CAP, None));
    let sending = ToRts { timeout: 5, retry_cnt: 1, ..rts(3) };
    connect(&qa, &b.hca, qb.number(), 5, sending);
    connect(&qb, &a.hca, qa.number(), 3, ToRts { sq_psn: 5, ..sending });
    let pair = Pair { fabric, devices, qa, qb, a, b };
    arm(&pair);
    // It sends from its third port, and its peer expects the second.
    let third = AltPath { ah: AhAttr { port: 3, ..second(&pair.b.hca).ah }, ..second(&pair.b.hca) };
    pair.qa.modify(&paths(Some(third), Some(PathMigState::Rearm))).expect("a step");
    pair.b.recv(&pair.qb, 2, 0, 64);
    pair.qa.post_send(&[send(2, SendOp::Send, &[])]).expect("room");
    assert!(pair.settle());
    assert_eq!((pair.a.statuses(), pair.b.statuses().len()), (vec![(2, Status::Success)], 1));
    pair.qa.modify(&paths(None, Some(PathMigState::Migrated))).expect("it is armed");
    pair.b.recv(&pair.qb, 3, 0, 64);
    pair.qa.post_send(&[send(3, SendOp::Send, &[])]).expect("room");
    assert!(pair.settle());
    assert_eq!(pair.a.statuses(), [(3, Status::RetryExcErr)]);
    assert!(pair.b.events().contains(&AsyncEvent::PathMigrationFailed(pair.qb.number())));
    assert_eq!(states(&pair)[1], PathMigState::Armed);
}

#[test]
fn each_step_takes_paths_as_the_table_has_it_and_names_what_it_refuses() {
    let pair = pair(1);
    let qp = pair.a.rc(CAP, None);
    let alt = second(&pair.b.hca);
    let refused = |step: ModifyQp, attribute: &str| {
        let error = qp.modify(&step).expect_err("it is not valid");
        assert_eq!(error.errno, errno::EINVAL, "{step:?}");
        assert!(error.on.ends_with(attribute), "{error}");
    };
    let wrong = [
        (AltPath { ah: AhAttr { port: 3, ..alt.ah }, ..alt }, ", alt_port_num"),
        (AltPath { pkey_index: 1, ..alt }, ", alt_pkey_index"),
        (AltPath { timeout: 32, ..alt }, ", alt_timeout"),
        (AltPath { ah: AhAttr { dlid: 0, ..alt.ah }, ..alt }, ", alt_ah_attr"),
    ];
    let (migrated, rearm, armed) =
        (Some(PathMigState::Migrated), Some(PathMigState::Rearm), Some(PathMigState::Armed));
    qp.modify(&init()).expect("a step");
    let to = rtr(&pair.b.hca, pair.qb.number(), 0);
    for (wrong, attribute) in wrong {
        refused(ModifyQp::Rtr(ToRtr { alt: Some(wrong), ..to }), attribute);
    }
    qp.modify(&ModifyQp::Rtr(ToRtr { alt: Some(alt), ..to })).expect("a step");
    for (wrong, attribute) in wrong {
        refused(ModifyQp::Rts(ToRts { alt: Some(wrong), ..rts(0) }), attribute);
    }
    refused(ModifyQp::Rts(ToRts { path_mig_state: armed, ..rts(0) }), "path_mig_state: set by the device");
    // The path loaded by the previous transition is there.
    qp.modify(&ModifyQp::Rts(ToRts { path_mig_state: rearm, ..rts(0) })).expect("a step");
    assert_eq!(qp.path_mig_state(), Ok(PathMigState::Rearm));
    for (wrong, attribute) in wrong {
        refused(paths(Some(wrong), rearm), attribute);
    }
    refused(paths(None, migrated), "path_mig_state: the queue pair is not armed");
    refused(paths(Some(alt), None), "replaced only with path_mig_state rearm");
    qp.modify(&paths(Some(alt), rearm)).expect("a step");
    qp.modify(&paths(None, None)).expect("a step without attributes");
    assert_eq!(pair.qa.modify(&paths(None, rearm)).expect_err("none is loaded").errno, errno::EINVAL);
    // A reset discards it.
    qp.modify(&ModifyQp::Reset).expect("a step");
    assert_eq!(qp.path_mig_state(), Ok(PathMigState::Migrated));
    assert_eq!(pair.fabric.violations(), Vec::<String>::new());
    // The transition requires ready to send, and a connected queue pair.
    qp.modify(&paths(Some(alt), rearm)).expect_err("it is reset");
    let kind = QpKind::Ud { send_cq: &pair.a.cq, recv_cq: &pair.a.cq, srq: None };
    let ud = pair.a.hca.create_qp(&QpInit { kind, cap: CAP, signal_all: false }).expect("room");
    ud.modify(&ModifyQp::InitUd { port: 1, pkey_index: 0, qkey: 1 }).expect("a step");
    ud.modify(&ModifyQp::RtrUd).expect("a step");
    ud.modify(&ModifyQp::RtsUd { sq_psn: 0 }).expect("a step");
    ud.modify(&paths(Some(alt), rearm)).expect_err("datagrams have no path");
    assert_eq!(pair.fabric.violations().len(), 2);
}

#[test]
fn a_receiver_of_xrc_takes_an_alternate_path() {
    let pair = pair(1);
    let xrcd = pair.a.hca.open_xrcd(XrcdOpen::Private).expect("there is XRC");
    let kind = QpKind::XrcTgt { xrcd: &xrcd };
    let init_attr = QpInit { kind, cap: QpCap::default(), signal_all: false };
    let tgt = pair.a.hca.create_qp(&init_attr).expect("room");
    tgt.modify(&init()).expect("a step");
    let to = rtr(&pair.b.hca, pair.qb.number(), 0);
    tgt.modify(&ModifyQp::Rtr(ToRtr { alt: Some(second(&pair.b.hca)), ..to })).expect("a step");
    tgt.modify(&ModifyQp::Rts(ToRts { path_mig_state: Some(PathMigState::Rearm), ..rts(0) }))
        .expect("a step");
    assert_eq!(tgt.path_mig_state(), Ok(PathMigState::Rearm));
}

#[test]
fn a_device_without_path_migration_refuses_it() {
    let fabric = Fabric::new(Settings::default());
    let mut settings = DeviceSettings::new("sim_a");
    (settings.attr.ports, settings.attr.path_migration) = (2, false);
    let node = Node::new(&fabric, fabric.device(settings));
    assert!(!node.hca.device().path_migration);
    let qp = node.rc(CAP, None);
    qp.modify(&init()).expect("a step");
    let to = rtr(&node.hca, qp.number(), 0);
    let error =
        qp.modify(&ModifyQp::Rtr(ToRtr { alt: Some(second(&node.hca)), ..to })).expect_err("it cannot");
    assert!(error.on.ends_with("alt_ah_attr: the device has no path migration"), "{error}");
    qp.modify(&ModifyQp::Rtr(to)).expect("a step");
    let rearm = Some(PathMigState::Rearm);
    qp.modify(&ModifyQp::Rts(ToRts { path_mig_state: rearm, ..rts(0) })).expect_err("it cannot");
    let migrated = Some(PathMigState::Migrated);
    qp.modify(&ModifyQp::Rts(ToRts { path_mig_state: migrated, ..rts(0) })).expect("that is what it is");
}
