//! Many senders, one receiver that is slow and has few receives: everything arrives, in order, however often it has to be sent; and as long as the
//! windows of those who send fit into its memory, nothing has to be sent twice.

mod world;

use std::time::Duration;

use netmod_sim_hca::Faults;
use world::{Setting, World};

/// Processes that send.
const SENDERS: usize = 64;
/// The receiver has one turn where the others have so many.
const SLOW: usize = 50;

/// Rank 0 is the receiver.
fn connected(setting: &Setting) -> World {
    let mut w = World::new(setting);
    for from in 1..setting.ranks() {
        w.send(from, 0, 0);
    }
    w.until("all are connected", World::all_came);
    w
}

/// All send, message by message, whether the receiver looks or not.
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
    // It has happened that there was none; still no VC is down, and no more memory is registered than before.
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

/// What a window promises is there: short frames, of which each takes a whole buffer, are no more than long ones.
#[test]
fn whose_windows_fit_into_memory_meets_a_receive() {
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
    // It is the windows that see to it.
    let mut w = connected(&Setting::new(SENDERS + 1, 1));
    flood(&mut w, 150, &[8, 100]);
    assert!(w.fabric.stats().not_ready > 0);
    w.end();
}
