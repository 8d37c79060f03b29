//! Tests of receive buffers when messages arrive faster than buffers are posted.

use std::time::Duration;

use netmod_fake_fabric::Settings;

use pair::Pair;

mod pair;

static DATA: [u8; 960] = [1; 960];

/// More messages arrive than there are buffers before the receiver polls. With this provider,
/// messages without a buffer use the room for multi-receive buffers.
#[test]
fn messages_without_a_buffer_do_not_block_posting() {
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
