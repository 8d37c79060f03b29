//! Behaviour of a network: delays, sizes, probabilities.

use netmod_harness::Rng;

/// Behaviour of a network. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Minimum and maximum delay of sent data.
    pub latency: (u64, u64),
    /// Interval of deliveries that take a hundred times as long; zero for none.
    pub spikes: u64,
    /// Maximum number of unread bytes in a pipe.
    pub capacity: usize,
    /// Maximum number of bytes that arrive, or are read, at once.
    pub fragment: usize,
    /// Interval of messages that are queued although they could be sent at once; zero for none.
    pub lazy: u64,
    /// Interval of pieces that are stored directly in the active receive; zero for none.
    pub direct: u64,
}

impl Default for Profile {
    fn default() -> Profile {
        Profile {
            latency: (1_000, 50_000),
            spikes: 0,
            capacity: 256 << 10,
            fragment: 64 << 10,
            lazy: 4,
            direct: 2,
        }
    }
}

impl Profile {
    /// Makes a random network: fast or slow, with tiny or large buffers and fragments.
    pub fn random(rng: &mut Rng) -> Profile {
        let low = rng.pick(&[1, 1_000, 20_000]);
        Profile {
            latency: (low, low * rng.pick(&[1, 3, 50, 1000])),
            spikes: rng.pick(&[0, 0, 20, 200]),
            capacity: rng.pick(&[64, 200, 1 << 10, 16 << 10, 256 << 10]),
            fragment: rng.pick(&[7, 40, 500, 4 << 10, 64 << 10]),
            lazy: rng.pick(&[0, 1, 2, 10]),
            direct: rng.pick(&[0, 1, 2]),
        }
    }
}
