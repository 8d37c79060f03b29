//! Receive buffers, where messages come faster than they are posted.

use std::time::Duration;

use netmod_fake_fabric::Settings;

use pair::Pair;

mod pair;

static DATA: [u8; 960] = [1; 960];

/// More comes than there are buffers for before the receiver looks, over a provider where what waits without one takes the room of buffers for several messages.
#[test]
fn what_waits_without_a_buffer_does_not_keep_others_from_being_posted() {
    let settings = Settings { inject_size: 4096, unexpected_full: 8, ..Settings::default() };
    let mut pair = Pair::new(settings, |cfg| cfg.rx_memory = Some(64 << 10));
    pair.send(0, &[]);
    pair.run(Duration::from_millis(100));
    for _ in 0..8 {
        for _ in 0..200 {
            pair.send(0, &DATA);
        }
        pair.run(Duration::from_millis(20));
    }
    assert_eq!(pair.ranks[1].layer.got, 1 + 8 * 200 * 31);
    assert!(pair.world.stats().no_room > 0, "{:?}", pair.world.stats());
    assert_eq!((pair.world.violations(), &pair.ranks[1].layer.downs), (vec![], &vec![]));
}
