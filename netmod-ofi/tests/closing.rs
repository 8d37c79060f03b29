//! Losses during the orderly end of a connection are reported.

use std::time::Duration;

use netmod_core::{HDR_LEN, VcLife};
use netmod_fake_fabric::{Operation, Settings};
use netmod_framed::wire::FRAME_HEADER;

use pair::{Pair, Rank};

mod pair;

fn terminate(pair: &mut Pair, rank: usize) {
    let (now, Rank { engine, vc, .. }) = (pair.now, &mut pair.ranks[rank]);
    engine.netmod.vc_terminate(&mut engine.core, *vc, now);
}

/// A failed injected message is not identified; FIN_ACK is how the peer learns that something is
/// missing.
#[test]
fn a_message_that_is_lost_with_the_answer_to_fin_is_told() {
    let mut lost = 0;
    for seed in 0..64 {
        let mut pair = Pair::new(Settings { seed, inject_size: 64, ..Settings::default() }, |_| ());
        pair.send(0, &[]);
        pair.run(Duration::from_millis(100));
        assert_eq!(pair.ranks[1].layer.got, 1, "seed {seed}");
        terminate(&mut pair, 1);
        pair.world.fail_next(Operation::Send, 2);
        let before = pair.world.stats();
        pair.send(0, &[]);
        let after = pair.world.stats();
        assert_eq!((after.injects, after.failed), (before.injects + 1, before.failed + 1), "seed {seed}");
        assert_eq!(after.bytes - before.bytes, (FRAME_HEADER + HDR_LEN) as u64, "seed {seed}");
        pair.run(Duration::from_secs(10));
        let [sender, receiver] = &pair.ranks[..] else { unreachable!("there are two") };
        let told = !sender.layer.downs.is_empty() || !receiver.layer.downs.is_empty();
        lost += u32::from(receiver.layer.got == 1);
        assert!(receiver.layer.got == 2 || told, "seed {seed}: the message is lost, and nobody is told");
        assert!(receiver.layer.terminated || !receiver.layer.downs.is_empty(), "seed {seed}: no answer");
        assert_eq!(pair.world.violations(), [""; 0]);
    }
    assert!((10..50).contains(&lost), "lost {lost} times");
}
