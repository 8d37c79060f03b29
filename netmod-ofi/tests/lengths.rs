//! Tests of frame lengths.

use std::time::Duration;

use netmod_core::HDR_LEN;
use netmod_fake_fabric::Settings;
use netmod_framed::wire::FRAME_HEADER;

use pair::Pair;

mod pair;

/// Length in bytes that is as good as this many header-only messages.
const HEADERS: usize = 320;
static DATA: [u8; HEADERS * HDR_LEN] = [1; HEADERS * HDR_LEN];

/// Returns the numbers of injections and messages for one long message, over a provider with this
/// inject size.
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

/// The receiver would fetch messages longer than the provider's own buffers, which takes longer
/// than two more frames.
#[test]
fn frames_are_no_longer_than_what_is_injected_where_that_is_long() {
    assert_eq!(frames(4096), (3, 3));
    assert_eq!(frames(2048), (6, 6));
    assert_eq!(frames(256), (0, 1));
}
