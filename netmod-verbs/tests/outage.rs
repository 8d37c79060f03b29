//! Ports that go down, and requests that a device cannot send. Short outages are survived. Long
//! ones are reported with their cause and the port's name, and connections can be made again.

mod world;

use std::time::Duration;

use netmod_core::{Time, VcLife};
use netmod_sim_hca::Faults;
use world::{Setting, World};

/// Connects two ranks on separate nodes; each has sent to the other.
fn connected() -> World {
    let mut w = World::new(&Setting::new(2, 1));
    w.step = Duration::from_micros(100);
    for (from, to) in [(0, 1), (1, 0)] {
        w.send(from, to, 100);
    }
    w.until("all have met", World::all_came);
    w
}

fn pass(w: &mut World, time: Duration) {
    let end: Time = w.now + time;
    while w.now < end {
        w.poll();
    }
}

/// Revives a failed VC on both sides, and uses it.
fn begin_anew(w: &mut World) {
    for me in 0..2 {
        w.ranks[me].layer.downs.clear();
        let r = &mut w.ranks[me];
        let vc = r.vcs[1 - me].expect("a VC");
        r.engine.netmod.vc_revive(&mut r.engine.core, vc, None).expect("a VC that was down");
    }
    for (from, to) in [(0, 1), (1, 0)] {
        // Lost messages are not sent again.
        w.ranks[from].sent[to] = w.ranks[to].layer.got[from];
        for len in [8, 100_000] {
            w.send(from, to, len);
        }
    }
    w.until("what was sent since has come", World::all_came);
    assert!(w.ranks.iter().all(|r| r.layer.downs.is_empty()));
}

#[test]
fn a_short_outage_is_survived() {
    let mut w = connected();
    for round in 0..20 {
        for (from, to) in [(0, 1), (1, 0)] {
            for len in [8, 3000, 200_000] {
                w.send(from, to, len);
            }
        }
        w.fabric.set_port(w.devices[round % 2], 1, false);
        pass(&mut w, Duration::from_millis(100));
        w.fabric.set_port(w.devices[round % 2], 1, true);
        w.until("all came", World::all_came);
    }
    assert!(w.ranks.iter().all(|r| r.layer.downs.is_empty()));
    w.end();
}

#[test]
fn a_long_outage_is_told_with_port_and_cause_and_then_there_are_new_connections() {
    for down in 0..2 {
        let mut w = connected();
        w.fabric.set_port(w.devices[down], 1, false);
        w.send(0, 1, 100);
        w.send(1, 0, 100_000);
        w.until("both are told", |w| w.ranks.iter().all(|r| r.layer.downs.len() == 1));
        let told = |rank: usize| w.ranks[rank].layer.downs[0].1.to_string();
        let (here, there) = (told(down), told(1 - down));
        for part in ["sim0:1", "does not answer", "this host's port is not active (Down)"] {
            assert!(here.contains(part), "{here}");
        }
        for part in ["sim0:1", "does not answer", "is its host up"] {
            assert!(there.contains(part), "{there}");
        }
        assert!(!there.contains("this host's port"), "{there}");
        w.fabric.set_port(w.devices[down], 1, true);
        begin_anew(&mut w);
        w.end();
    }
}

/// Some devices immediately fail requests that they cannot send. A failed datagram fails the queue
/// pair for handshakes.
#[test]
fn a_device_that_sends_nothing_does_so_later() {
    let mut w = connected();
    w.fabric.set_faults(Faults { send: 1.0, ..Faults::default() });
    w.send(0, 1, 100);
    w.until("the sender is told", |w| w.ranks[0].layer.downs.len() == 1);
    let text = w.ranks[0].layer.downs[0].1.to_string();
    assert!(text.contains("sim0:1") && text.contains("GeneralErr"), "{text}");
    pass(&mut w, Duration::from_millis(200));
    assert!(w.ranks[1].layer.downs.is_empty(), "nothing has reached it");
    // This rank waits for the other one, which has sent nothing since, and still gets the failure
    // reported.
    w.fabric.set_faults(Faults::default());
    w.until("the peer is told", |w| w.ranks[1].layer.downs.len() == 1);
    begin_anew(&mut w);
    w.end();
}

/// While the device sends nothing, the datagram queue pair fails with each handshake.
#[test]
fn a_handshake_succeeds_as_soon_as_the_device_sends_again() {
    let mut w = World::new(&Setting::new(2, 1));
    w.step = Duration::from_micros(100);
    w.fabric.set_faults(Faults { send: 1.0, ..Faults::default() });
    w.send(0, 1, 100);
    pass(&mut w, Duration::from_secs(5));
    assert!(!w.all_came());
    w.fabric.set_faults(Faults::default());
    w.until("it came", World::all_came);
    assert!(w.ranks.iter().all(|r| r.layer.downs.is_empty()));
    w.end();
}
