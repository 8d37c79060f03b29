//! Two processes: messages, transfers, VCs that end and are connected again, and processes that are
//! gone.

mod world;

use netmod_core::rma::Access;
use netmod_core::{Rma as _, RmaOp, VcError, VcErrorKind, VcLife};
use netmod_sim_hca::Leaks;
use world::{Setting, World, pattern};

fn world() -> World {
    let mut setting = Setting::new(2, 1);
    setting.cfg.rx_memory = 256 << 10;
    World::new(&setting)
}

/// Connects two ranks; a message has arrived from rank 0.
fn connected() -> World {
    let mut w = world();
    w.send(0, 1, 8);
    w.until("connected", World::all_came);
    w
}

#[test]
fn messages_of_all_lengths_arrive_in_order_both_ways() {
    let mut w = world();
    for len in [0, 1, 8, 100, 200, 221, 1000, 8000, 8192, 9000, 100_000, 1_000_000, 3, 0] {
        w.send(0, 1, len);
        w.send(1, 0, len);
    }
    w.until("all came", World::all_came);
    w.end();
}

#[test]
fn a_flood_of_short_messages_is_held_back_and_not_lost() {
    let mut w = world();
    for i in 0..20_000 {
        w.send(0, 1, i % 300);
    }
    w.until("all came", World::all_came);
    w.end();
}

#[test]
fn memory_is_read_and_written() {
    let mut w = connected();
    let len = 300_000;
    for (op, access) in [(77, Access::RemoteRead), (78, Access::RemoteWrite)] {
        let (there, here) = (w.area(pattern(1, len)), w.area(pattern(2, len)));
        let r = &mut w.ranks[1];
        let vc = r.vcs[0].expect("its VC");
        let (region, key) =
            r.engine.netmod.register(&mut r.engine.core, vc, there.rma_buf(), access).expect("memory");
        let r = &mut w.ranks[0];
        let (vc, e) = (r.vcs[1].expect("its VC"), &mut r.engine);
        let (local, _) = e.netmod.register(&mut e.core, vc, here.rma_buf(), Access::Local).expect("memory");
        let rma = RmaOp { vc, local, at: 5, key: &key, remote_at: 7, len: len - 9, op };
        if access == Access::RemoteRead {
            e.netmod.get(&mut e.core, &rma).expect("a get");
        } else {
            e.netmod.put(&mut e.core, &rma).expect("a put");
        }
        w.until("the transfer has ended", |w| w.ranks[0].layer.ended.contains_key(&op));
        assert_eq!(w.ranks[0].layer.ended[&op], Ok(()));
        let (mut want_here, mut want_there) = (pattern(2, len), pattern(1, len));
        if access == Access::RemoteRead {
            want_here[5..len - 4].copy_from_slice(&want_there[7..len - 2]);
        } else {
            want_there[7..len - 2].copy_from_slice(&want_here[5..len - 4]);
        }
        assert!(here.bytes() == want_here && there.bytes() == want_there, "{access:?}");
        for (rank, region) in [(1, region), (0, local)] {
            let e = &mut w.ranks[rank].engine;
            e.netmod.deregister(&mut e.core, region).expect("an end of the registration");
        }
    }
    w.end();
}

#[test]
fn a_vc_that_has_ended_is_connected_again() {
    let mut w = world();
    for round in 0..5 {
        w.send(round % 2, 1 - round % 2, 5000);
        w.until("it came", World::all_came);
        for rank in 0..2 {
            let (now, r) = (w.now, &mut w.ranks[rank]);
            let vc = r.vcs[1 - rank].expect("its VC");
            r.engine.netmod.vc_terminate(&mut r.engine.core, vc, now);
        }
        w.until("both have ended", |w| w.ranks.iter().all(|r| r.layer.terminated == round + 1));
        for r in &w.ranks {
            assert_eq!(r.engine.netmod.stats().oddities, 0);
            assert!(r.layer.downs.is_empty(), "{:?}", r.layer.downs);
        }
    }
    w.end();
}

#[test]
fn a_dead_peer_is_noticed_when_something_is_sent() {
    let mut w = connected();
    w.kill(1);
    w.send(0, 1, 8);
    w.until("it is down", |w| !w.ranks[0].layer.downs.is_empty());
    let down = w.ranks[0].layer.downs[0].1.to_string();
    assert!(down.contains("does not answer"), "{down}");
    w.end();
}

/// A device retries for long if a peer does not answer; memory is taken back here without simulated
/// time passing.
#[test]
fn memory_is_given_back_at_once_when_a_peer_is_known_to_be_dead() {
    for (xrc, access) in [
        (false, Access::RemoteRead),
        (false, Access::RemoteWrite),
        (true, Access::RemoteRead),
        (true, Access::RemoteWrite),
    ] {
        let mut setting = Setting::new(3, 1);
        setting.cfg.xrc = xrc;
        let mut w = World::new(&setting);
        for (from, to) in [(0, 1), (1, 0), (0, 2)] {
            w.send(from, to, 8);
        }
        w.until("connected", World::all_came);
        let len = 300_000;
        let (there, here) = (w.area(pattern(1, len)), w.area(pattern(2, len)));
        let r = &mut w.ranks[1];
        let vc = r.vcs[0].expect("its VC");
        let (_, key) =
            r.engine.netmod.register(&mut r.engine.core, vc, there.rma_buf(), access).expect("memory");
        w.kill(1);
        let r = &mut w.ranks[0];
        let (vc, e) = (r.vcs[1].expect("its VC"), &mut r.engine);
        let (local, _) = e.netmod.register(&mut e.core, vc, here.rma_buf(), Access::Local).expect("memory");
        let rma = RmaOp { vc, local, at: 0, key: &key, remote_at: 0, len, op: 77 };
        if access == Access::RemoteRead {
            e.netmod.get(&mut e.core, &rma).expect("a get");
        } else {
            e.netmod.put(&mut e.core, &rma).expect("a put");
        }
        e.netmod.vc_abort(&mut e.core, vc, VcError::new(VcErrorKind::Dead, None, "it was killed"));
        e.netmod.deregister(&mut e.core, local).expect("an end of the registration");
        w.until("the transfer has ended", |w| w.ranks[0].layer.ended.contains_key(&77));
        assert_eq!(w.ranks[0].layer.ended[&77].as_ref().map_err(VcError::kind), Err(VcErrorKind::Dead));
        let downs: Vec<usize> = w.ranks[0].layer.downs.iter().map(|(peer, _)| *peer).collect();
        assert_eq!(downs, [1], "the connection with rank 2 is as it was");
        for (from, to) in [(0, 2), (2, 0)] {
            w.send(from, to, 100_000);
        }
        w.until("it came", |w| w.came_between(&[0, 2]));
        w.end();
    }
}

#[test]
fn dropping_an_engine_in_a_transfer_does_not_free_memory_in_use() {
    let mut w = connected();
    let len = 300_000;
    let (there, here) = (w.area(pattern(1, len)), w.area(pattern(2, len)));
    let r = &mut w.ranks[1];
    let vc = r.vcs[0].expect("its VC");
    let (_, key) = r
        .engine
        .netmod
        .register(&mut r.engine.core, vc, there.rma_buf(), Access::RemoteRead)
        .expect("memory");
    let r = &mut w.ranks[0];
    let (vc, e) = (r.vcs[1].expect("its VC"), &mut r.engine);
    let (local, _) = e.netmod.register(&mut e.core, vc, here.rma_buf(), Access::Local).expect("memory");
    let rma = RmaOp { vc, local, at: 0, key: &key, remote_at: 0, len, op: 77 };
    e.netmod.get(&mut e.core, &rma).expect("a get");
    for _ in 0..2 {
        w.ranks.remove(0);
        assert_eq!(w.fabric.violations(), Vec::<String>::new());
    }
    assert_eq!(w.fabric.leaks(), Leaks::default());
}
