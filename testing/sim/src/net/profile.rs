//! How a network behaves: delays, sizes, chances.

use netmod_harness::Rng;

/// How a network behaves. Times in nanoseconds.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Shortest and longest delay of what is sent.
    pub latency: (u64, u64),
    /// One in so many deliveries takes a hundred times as long; zero for none.
    pub spikes: u64,
    /// Bytes that a lane holds unread.
    pub capacity: usize,
    /// The most bytes that arrive, or are read, at once.
    pub fragment: usize,
    /// One in so many messages is queued although it could go at once; zero for none.
    pub lazy: u64,
    /// One in so many pieces goes straight to the receive that is under way; zero for none.
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
    /// A network of random character: fast or slow, with tiny or large buffers and fragments.
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
