//! Random numbers by a seed, for tests and simulations: splitmix64 (Steele, Lea, Flood: "Fast
//! splittable pseudorandom number generators"), so that a seed gives the same run on every machine
//! and with every version of whatever else is linked. Not for secrets.

#[cfg(test)]
mod tests;

/// A generator. Generators of equal seeds give equal numbers.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Makes the generator of a seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// Makes the generator of a purpose, named by words, independent of those of the seed's other
    /// purposes.
    pub fn for_purpose(seed: u64, purpose: &[u64]) -> Rng {
        Rng(purpose
            .iter()
            .fold(seed, |seed, word| Rng(seed ^ word.wrapping_mul(0xd6e8_feb8_6659_fd93)).word()))
    }

    /// Takes a generator out of this one; both go on independently.
    pub fn fork(&mut self) -> Rng {
        Rng(self.word())
    }

    /// Returns 64 random bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.word() % n }
    }

    /// Returns an index of something of length `n`; 0 if `n` is 0.
    pub fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// Returns true once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns true with a probability. What never or always happens takes no number from the
    /// sequence.
    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && (probability >= 1.0 || self.unit() < probability)
    }

    /// Returns how many trials fail before one of that probability succeeds; `u64::MAX` if none
    /// ever does.
    pub fn failures(&mut self, probability: f64) -> u64 {
        if probability <= 0.0 {
            return u64::MAX;
        }
        if probability >= 1.0 {
            return 0;
        }
        // A float that is too large becomes the largest number.
        ((1.0 - self.unit()).ln() / (1.0 - probability).ln()) as u64
    }

    /// Returns one of these.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.index(of.len())]
    }

    /// Puts them in a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.index(i + 1);
            items.swap(i, j);
        }
    }

    /// Returns a number from 0 to 1, without 1: 53 bits, as many as the mantissa has.
    fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Mixes the bits of a number (the finalizer of splitmix64).
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
