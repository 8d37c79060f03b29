//! Cuts of deliveries.

/// Most bytes of each delivery.
#[derive(Clone, Debug)]
pub enum Cut {
    /// All bytes that there are.
    Whole,
    /// At most this number of bytes.
    Bytes(usize),
    /// 2, 3, 5 and so on up to 97, over and over.
    Primes,
    /// From 1 to `max` bytes, at random.
    Random {
        /// Seed of the sequence; each rank varies it.
        seed: u64,
        /// The most bytes of a delivery.
        max: usize,
    },
}

const PRIMES: [usize; 25] =
    [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97];

/// The sequence of lengths of a [`Cut`].
#[derive(Debug)]
pub(super) struct Cutter {
    cut: Cut,
    state: u64,
}

impl Cutter {
    pub(super) fn new(cut: &Cut, rank: u32) -> Cutter {
        let seed = match cut {
            Cut::Random { seed, .. } => *seed,
            _ => 0,
        };
        Cutter { cut: cut.clone(), state: Rng::seeded(seed, u64::from(rank)).0 }
    }

    /// The length of the next delivery.
    pub(super) fn next(&mut self) -> usize {
        match self.cut {
            Cut::Whole => usize::MAX,
            Cut::Bytes(n) => n.max(1),
            Cut::Primes => {
                self.state = self.state.wrapping_add(1);
                PRIMES[(self.state % PRIMES.len() as u64) as usize]
            }
            Cut::Random { max, .. } => {
                let mut rng = Rng(self.state);
                let n = 1 + rng.below(max.max(1));
                self.state = rng.0;
                n
            }
        }
    }
}

/// A small generator of pseudo-random numbers (xorshift), for tests that must be repeatable.
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    /// The `stream`-th generator of a seed.
    pub fn seeded(seed: u64, stream: u64) -> Rng {
        let mixed = (seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Rng(mixed ^ (mixed >> 29) | 1)
    }

    /// The next number.
    pub fn word(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n`, which is not zero.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.word() >> 33) % n as u64) as usize
    }
}
