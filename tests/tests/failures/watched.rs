//! Failed processes of which the process manager tells nothing: those who wait for one have it
//! watched.

use std::time::Duration;

use ch3_shim::{Device, VirtualClock};
use netmod_tests::scripted::Script;

use super::{acknowledged, any, lost, memory, message, pending_for};

/// A device whose process manager tells nothing of failed ranks, with the time of the test.
fn unaided(size: u32) -> (Script, Device, VirtualClock) {
    let clock = VirtualClock::new();
    let tune = |cfg: &mut ch3_shim::Config| cfg.failure_check = Duration::ZERO;
    let (script, dev) = Script::device_with(size, true, Some(clock.clone()), tune);
    (script, dev, clock)
}

/// Lets seconds pass, with a few polls in each.
fn pass(dev: &mut Device, clock: &VirtualClock, seconds: u64) {
    for _ in 0..seconds {
        let now = clock.now();
        clock.set(now + Duration::from_secs(1));
        for _ in 0..3 {
            dev.progress().expect("progress");
        }
    }
}

#[test]
fn who_ends_before_its_first_message_is_noticed_by_those_who_wait_for_it() {
    let (script, mut dev, clock) = unaided(4);
    let world = dev.world();
    let receive = dev.irecv_raw(memory(), 1, 5, world).expect("irecv");
    pass(&mut dev, &clock, 3);
    assert!(!dev.is_finished(receive));
    let watched = script.watched(None);
    assert!(!watched.is_empty() && watched.iter().all(|r| *r == 1), "{watched:?}");
    script.end(1);
    pass(&mut dev, &clock, 3);
    lost(1, dev.wait_raw(receive));

    // A probe, in a loop or blocked, is no worse.
    script.end(2);
    assert_eq!(dev.iprobe(2, 5, world), Ok(None));
    pass(&mut dev, &clock, 3);
    lost(2, dev.iprobe(2, 5, world));
    acknowledged(&mut dev);

    // Every possible sender counts.
    script.watched(None);
    let any = any(&mut dev);
    pass(&mut dev, &clock, 3);
    assert_eq!(dev.test_raw(any), Ok(None));
    assert!(script.watched(None).contains(&3));
    script.end(3);
    pass(&mut dev, &clock, 3);
    pending_for(3, dev.wait_raw(any));
    dev.cancel_raw(any);
}

#[test]
fn nobody_is_watched_for_nothing() {
    let (script, mut dev, clock) = unaided(4);
    let world = dev.world();
    pass(&mut dev, &clock, 10);
    assert_eq!(script.watched(None), [0; 0]);
    message(&script, 2, 5);
    script.play(&mut dev);
    assert!(dev.iprobe(2, 5, world).expect("iprobe").is_some());
    pass(&mut dev, &clock, 10);
    assert_eq!(script.watched(None), [0; 0]);

    // The process manager's word alone is enough.
    let clock = VirtualClock::new();
    let (script, mut dev) = Script::device_at(4, true, Some(clock.clone()));
    let any = any(&mut dev);
    pass(&mut dev, &clock, 10);
    assert_eq!(script.watched(None), [0; 0]);
    assert_eq!(dev.test_raw(any), Ok(None));
    dev.cancel_raw(any);
}

/// All of very many possible senders are asked in turn, a bounded number each second.
#[test]
fn many_possible_senders_are_watched_in_turn() {
    const RANKS: u32 = 4000;
    let (script, mut dev, clock) = unaided(RANKS);
    let any = any(&mut dev);
    pass(&mut dev, &clock, 2);
    script.watched(Some(64));
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..RANKS / 64 + 1 {
        pass(&mut dev, &clock, 1);
        let batch = script.watched(Some(64));
        assert!(batch.len() <= 64, "{}", batch.len());
        seen.extend(batch);
    }
    assert_eq!(seen.len() as u32, RANKS - 1);
    script.watched(None);
    pass(&mut dev, &clock, 1);
    assert!(script.watched(None).len() <= 256);
    assert_eq!(dev.test_raw(any), Ok(None));
    dev.cancel_raw(any);
}
