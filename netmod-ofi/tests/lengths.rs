//! How long frames are.

use std::time::Duration;

use netmod_core::HDR_LEN;
use netmod_fake_fabric::Settings;
use netmod_framed::wire::FRAME_HEADER;

use pair::Pair;

mod pair;

/// What is as good as so many messages of a header alone.
const HEADERS: usize = 320;
static DATA: [u8; HEADERS * HDR_LEN] = [1; HEADERS * HDR_LEN];

/// Injections and messages that a long one takes over a provider that injects so many bytes.
fn frames(inject_size: usize) -> (u64, u64) {
    let mut pair = Pair::new(Settings { inject_size, ..Settings::default() }, |_| ());
    pair.send(0, &[]);
    pair.run(Duration::from_millis(100));
    let before = pair.world.stats();
    pair.send(0, &DATA);
    pair.run(Duration::from_millis(1));
    let after = pair.world.stats();
    assert_eq!(pair.ranks[1].layer.got as usize, 2 + HEADERS);
    let bytes = (after.bytes - before.bytes) as usize;
    let sends = after.sends - before.sends;
    assert_eq!(bytes, HDR_LEN + DATA.len() + sends as usize * FRAME_HEADER);
    assert_eq!(pair.world.violations(), [""; 0]);
    (after.injects - before.injects, sends)
}

/// What is longer than a provider's own buffers would be fetched by the receiver, which takes longer than two more frames.
#[test]
fn frames_are_no_longer_than_what_is_injected_where_that_is_long() {
    assert_eq!(frames(4096), (3, 3));
    assert_eq!(frames(2048), (6, 6));
    assert_eq!(frames(256), (0, 1));
}
