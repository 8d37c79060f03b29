//! Pauses between dials: exponential, with jitter, deterministic for a seed.

use core::time::Duration;

/// One step of xorshift32 (Marsaglia); never zero for a seed that is not.
pub(super) fn next_random(state: &mut u32) -> u32 {
    let mut x = *state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    *state = x;
    x
}

/// The pause after `failed` dials (at least 1).
///
/// It is `min`, doubled for each further failure, at most `max`; and of that a random part between
/// one half and the whole, so that two sides do not stay in step.
pub(super) fn pause(failed: u16, min: Duration, max: Duration, random: u32) -> Duration {
    let doublings = u32::from(failed.saturating_sub(1)).min(31);
    let full = min.saturating_mul(1 << doublings).min(max);
    let half = full / 2;
    half + half.mul_f64(f64::from(random) / f64::from(u32::MAX))
}
