//! Many senders and one slow receiver with few receives: everything arrives in order, however often
//! it is retransmitted. If the senders' windows fit into the receiver's memory, nothing is
//! retransmitted.

mod world;

use std::time::Duration;

use netmod_sim_hca::Faults;
use world::{Setting, World};

/// Number of sending processes.
const SENDERS: usize = 64;
/// Turns of the senders per turn of the receiver.
const SLOW: usize = 50;

/// Connects all; rank 0 is the receiver.
fn connected(setting: &Setting) -> World {
    let mut w = World::new(setting);
    for from in 1..setting.ranks() {
        w.send(from, 0, 0);
    }
    w.until("all are connected", World::all_came);
    w
}

/// Sends from all, message by message, whether the receiver polls or not.
fn flood(w: &mut World, messages: usize, lens: &[usize]) {
    let ranks = w.ranks.len();
    let mut turns = 0;
    let mut turn = |w: &mut World| {
        w.pass();
        turns += 1;
        let first = usize::from(turns % SLOW != 0);
        (first..ranks).for_each(|rank| w.turn(rank));
    };
    for i in 0..messages {
        for from in 1..ranks {
            w.send(from, 0, lens[(i + from) % lens.len()]);
        }
        turn(w);
    }
    let end = w.now + Duration::from_secs(600);
    while !w.all_came() {
        assert!(w.now < end, "{:#?} {:?}", w.state(), w.fabric.violations());
        turn(w);
    }
}

/// There are 8 receives, and the network loses packets.
fn few_receives(xrc: bool) {
    let mut setting = Setting::new(SENDERS + 1, 1);
    setting.cfg.xrc = xrc;
    setting.cfg.rx_memory = 64 << 10;
    let mut w = connected(&setting);
    w.fabric.set_faults(Faults { loss: 0.0005, ..Faults::default() });
    let before: Vec<u64> = (0..=SENDERS).map(|rank| w.counts(rank).bytes).collect();
    flood(&mut w, 5, &[8, 200, 3000, 20_000]);
    // Receives have run out; still, no VC is down, and no additional memory is registered.
    assert!(w.fabric.stats().not_ready > 1000, "{:?}", w.fabric.stats());
    for (rank, r) in w.ranks.iter().enumerate() {
        assert!(r.layer.downs.is_empty(), "rank {rank}: {:?}", r.layer.downs);
        assert_eq!(
            (r.engine.netmod.stats().oddities, w.counts(rank).bytes),
            (0, before[rank]),
            "rank {rank}"
        );
    }
    w.fabric.set_faults(Faults::default());
    w.end();
}

#[test]
fn all_arrives_where_receives_are_few() {
    few_receives(false);
}

#[test]
fn all_arrives_by_xrc_where_receives_are_few() {
    few_receives(true);
}

/// A window's promise is kept: short frames, each using a whole buffer, are no more numerous than
/// long ones.
#[test]
fn windows_that_fit_into_memory_always_find_a_receive() {
    let default = Setting::new(1, 1).cfg;
    let fit = default.rx_memory / default.window;
    assert_eq!(fit, 16);
    let all = SENDERS * default.window;
    for (senders, rx_memory, xrc) in
        [(fit, default.rx_memory, false), (fit, default.rx_memory, true), (SENDERS, all, false)]
    {
        let mut setting = Setting::new(senders + 1, 1);
        setting.cfg.xrc = xrc;
        setting.cfg.rx_memory = rx_memory;
        let mut w = connected(&setting);
        flood(&mut w, 150, &[8, 100]);
        flood(&mut w, 3, &[100_000, 8]);
        assert_eq!(w.fabric.stats().not_ready, 0, "{senders} senders, XRC: {xrc}");
        w.end();
    }
    // This is because of the windows.
    let mut w = connected(&Setting::new(SENDERS + 1, 1));
    flood(&mut w, 150, &[8, 100]);
    assert!(w.fabric.stats().not_ready > 0);
    w.end();
}
