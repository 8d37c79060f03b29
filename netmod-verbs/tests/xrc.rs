//! XRC: processes of a node that share receiving QPs, and shared sending QPs.

mod world;

use std::time::Duration;

use netmod_core::{Diagnose, VcLife};
use netmod_sim_hca::TgtLife;
use netmod_verbs::VerbsConfig;
use world::{Setting, World};

fn setting(nodes: usize, per_node: usize) -> Setting {
    let setting = Setting::new(nodes, per_node);
    Setting { cfg: VerbsConfig { xrc: true, ..setting.cfg }, ..setting }
}

/// Connects the ranks of two nodes: each on one has talked to each on the other, in this order.
fn connected(per_node: usize, life: TgtLife) -> World {
    let mut setting = setting(2, per_node);
    setting.fabric.tgt_life = life;
    let mut w = World::new(&setting);
    for to in per_node..2 * per_node {
        for from in 0..per_node {
            w.send(from, to, 8);
            w.until("it came", World::all_came);
            w.send(to, from, 8);
            w.until("it came", World::all_came);
        }
    }
    w
}

fn rest(w: &mut World) {
    let rest = w.now + Duration::from_millis(100);
    w.until("all rest", |w| w.now >= rest);
}

/// Checks that none of these has lost another of these.
fn nobody_is_lost(w: &World, all: &[usize]) {
    for rank in all {
        let lost: Vec<_> = w.ranks[*rank].layer.downs.iter().filter(|(peer, _)| all.contains(peer)).collect();
        assert!(lost.is_empty(), "rank {rank}: {lost:?}");
    }
}

#[test]
fn a_receiver_outlives_the_process_that_made_it() {
    for life in [TgtLife::Handles, TgtLife::Domain] {
        let mut w = connected(3, life);
        // Rank 3 was the first that each rank of the other node talked to: it has made their
        // receiving QPs.
        let before = w.fabric.leaks().qps;
        let of = w.counts(3);
        w.kill(3);
        assert_eq!(w.fabric.leaks().qps, before - of.qps, "{life:?}: receivers are still there");
        for round in 0..50 {
            for (from, to) in [(0, 4), (1, 5), (2, 4), (0, 5)] {
                w.send(from, to, round * 37);
                w.send(to, from, round * 11);
            }
        }
        let left = [0, 1, 2, 4, 5];
        w.until("what was sent has come", |w| w.came_between(&left));
        nobody_is_lost(&w, &left);
        assert_eq!(w.fabric.leaks().qps, before - of.qps, "{life:?}: no lane was made anew");
        w.end();
    }
}

#[test]
fn a_death_costs_those_nothing_who_share_a_lane_with_the_dead() {
    for life in [TgtLife::Handles, TgtLife::Domain] {
        for dead in [3, 4, 5] {
            let mut w = connected(3, life);
            rest(&mut w);
            let counts = w.counts(0);
            w.kill(dead);
            let left: Vec<usize> = (0..6).filter(|rank| *rank != dead).collect();
            // Among much else, a message for the dead process: it is refused, and all later ones
            // are flushed.
            for round in 0..40 {
                for (from, to) in (0..3).flat_map(|from| (3..6).map(move |to| (from, to))) {
                    if to == dead {
                        if round == 7 {
                            w.send(from, to, 8);
                        }
                        continue;
                    }
                    w.send(from, to, [8, 100, 3000, 20_000][round % 4]);
                    w.send(to, from, round);
                }
                w.poll();
            }
            w.until("what was sent has come", |w| w.came_between(&left));
            w.until("the dead one is lost", |w| (0..3).all(|r| !w.ranks[r].layer.downs.is_empty()));
            nobody_is_lost(&w, &left);
            for rank in 0..3 {
                let downs = &w.ranks[rank].layer.downs;
                assert!(downs.len() == 1 && downs[0].0 == dead, "{downs:?}");
                assert!(downs[0].1.to_string().contains("remote invalid request"), "{downs:?}");
            }
            rest(&mut w);
            assert_eq!(w.counts(0).qps, counts.qps, "one shared QP has replaced another");
            w.end();
        }
    }
}

#[test]
fn a_node_that_is_gone_is_lost_as_a_whole() {
    let mut w = connected(2, TgtLife::Domain);
    w.kill(2);
    w.kill(3);
    w.send(0, 2, 8);
    w.send(0, 3, 8);
    w.until("both are lost", |w| w.ranks[0].layer.downs.len() == 2);
    for (_, error) in &w.ranks[0].layer.downs {
        assert!(error.to_string().contains("does not answer"), "{error}");
    }
}

/// A dial waits only for the process that is dialled.
#[test]
fn a_process_that_computes_keeps_nobody_from_its_neighbour() {
    let mut w = World::new(&setting(2, 3));
    // All of rank 0's dials offer the same sender, and rank 3 does not answer.
    for to in 3..6 {
        w.send(0, to, 8);
    }
    for _ in 0..20_000 {
        w.pass();
        (0..6).filter(|rank| *rank != 3).for_each(|rank| w.turn(rank));
    }
    let got = |w: &World, rank: usize| w.ranks[rank].layer.got[0];
    assert_eq!((got(&w, 3), got(&w, 4), got(&w, 5)), (0, 1, 1));
    w.until("the other has looked", World::all_came);
    rest(&mut w);
    assert_eq!((w.counts(0).qps, w.counts(3).tgt_qps), (2, 1));
    w.end();
}

#[test]
fn no_end_keeps_others_from_a_lane() {
    let mut setting = setting(2, 6);
    setting.device.attr.max_qp_wr = 8;
    let mut w = World::new(&setting);
    for to in 6..12 {
        w.send(0, to, 8);
    }
    w.until("connected", World::all_came);
    for i in 0..3000 {
        w.send(0, 6, 8 + i % 3000);
    }
    for _ in 0..20 {
        for to in 7..12 {
            w.send(0, to, 8);
        }
    }
    let last = |w: &World| (7..12).all(|to| w.ranks[to].layer.got[0] == 21);
    w.until("the others have theirs", last);
    let got = w.ranks[6].layer.got[0];
    assert!(got < 1500, "{got} messages to one process were before 20 to each of the others");
    w.until("all came", World::all_came);
    w.end();
}

#[test]
fn where_a_device_has_no_xrc_reliable_connections_are_used() {
    let mut setting = setting(2, 2);
    setting.device.xrc = false;
    assert!(setting.device.attr.xrc_claimed, "what it claims does not count");
    let mut w = World::new(&setting);
    let says = w.ranks[0].engine.netmod.opened();
    assert!(says.contains("no XRC: ibv_open_xrcd") && says.contains("cannot do this"), "{says}");
    w.send(0, 2, 8);
    w.send(0, 3, 8);
    w.until("all came", World::all_came);
    rest(&mut w);
    assert_eq!((w.counts(0).qps, w.counts(0).xrcds, w.counts(0).tgt_qps), (3, 0, 0));
    w.end();
}

#[test]
fn two_processes_use_xrc_only_if_both_have_it() {
    let mut setting = setting(2, 3);
    setting.without_xrc = vec![1, 4];
    // Room for a small receive queue beside that of XRC.
    setting.cfg.rx_memory = 64 << 10;
    let mut w = World::new(&setting);
    for round in 0..30 {
        for (from, to) in (0..3).flat_map(|from| (3..6).map(move |to| (from, to))) {
            w.send(from, to, round * 100);
            w.send(to, from, round * 100);
        }
    }
    w.until("all came", World::all_came);
    rest(&mut w);
    // Rank 0 has a datagram QP, a shared QP to the other node, and a reliable connection with rank
    // 4.
    let (with, without) = (w.counts(0), w.counts(1));
    assert_eq!((with.qps, with.tgt_qps, with.srqs, with.mrs), (3, 2, 2, 4));
    assert_eq!((without.qps, without.tgt_qps, without.srqs, without.mrs), (4, 0, 1, 3));
    assert!(
        w.ranks[0]
            .engine
            .netmod
            .describe(&w.ranks[0].engine.core, w.ranks[0].vcs[3].unwrap())
            .starts_with("connected")
    );
    w.end();
}

/// Control messages and handshakes are lost, one in five.
#[test]
fn lanes_are_joined_whatever_is_lost() {
    let mut setting = setting(3, 2);
    setting.fabric.faults.loss = 0.2;
    setting.cfg.connect_timeout = Duration::from_secs(200);
    let mut w = World::new(&setting);
    for (from, to) in (0..6).flat_map(|from| (0..6).map(move |to| (from, to))) {
        if from / 2 != to / 2 {
            w.send(from, to, 8);
        }
    }
    w.step = Duration::from_millis(1);
    w.until("all came", World::all_came);
    w.fabric.set_faults(Default::default());
    w.end();
}

/// An endpoint that has not joined a failing shared QP has sent nothing on it, and loses nothing.
#[test]
fn an_end_that_has_not_joined_a_lane_does_not_fail_with_it() {
    let mut setting = setting(2, 2);
    setting.fabric.tgt_life = TgtLife::Handles;
    let mut w = World::new(&setting);
    w.send(0, 2, 8);
    w.until("it came", World::all_came);
    rest(&mut w);
    // The receiving QP disappears with the only process that holds it, so nobody answers.
    w.kill(2);
    w.send(0, 2, 8);
    w.send(0, 3, 8);
    let up = |w: &World| {
        let r = &w.ranks[0];
        r.engine.netmod.describe(&r.engine.core, r.vcs[3].unwrap()).starts_with("connected")
    };
    w.until("it has accepted the dial", up);
    // The other process computes, and does not answer that the receiving QP is gone.
    w.step = Duration::from_micros(200);
    while w.ranks[0].layer.downs.is_empty() {
        w.pass();
        w.turn(0);
    }
    w.until("the other has looked", |w| w.ranks[3].layer.got[0] == 1);
    let downs = &w.ranks[0].layer.downs;
    assert!(downs.len() == 1 && downs[0].0 == 2, "{downs:?}");
    w.end();
}

#[test]
fn a_connection_that_ends_leaves_nothing() {
    let mut w = connected(2, TgtLife::Handles);
    rest(&mut w);
    assert_eq!((w.counts(0).qps, w.counts(0).tgt_qps), (2, 2));
    let end = |w: &mut World, a: usize, b: usize| {
        for (from, to) in [(a, b), (b, a)] {
            let (now, r) = (w.now, &mut w.ranks[from]);
            r.engine.netmod.vc_terminate(&mut r.engine.core, r.vcs[to].unwrap(), now);
        }
        rest(w);
    };
    end(&mut w, 0, 2);
    assert_eq!((w.counts(0).qps, w.counts(0).tgt_qps), (2, 1), "rank 3 is still talked to");
    assert_eq!((w.counts(2).qps, w.counts(2).tgt_qps), (2, 1));
    end(&mut w, 0, 3);
    assert_eq!((w.counts(0).qps, w.counts(0).tgt_qps), (1, 0));
    w.send(0, 2, 8);
    w.until("it came", World::all_came);
    rest(&mut w);
    assert_eq!((w.counts(0).qps, w.counts(0).tgt_qps), (2, 1));
    w.end();
}
