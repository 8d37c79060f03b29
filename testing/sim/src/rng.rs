//! The one source of chance of a simulation.

/// A pseudo-random generator (splitmix64): the same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// A generator that goes its own way from here.
    pub fn fork(&mut self) -> Rng {
        Rng(self.word())
    }

    /// 64 random bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `n`; zero if `n` is.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(n)) >> 64) as u64
    }

    /// An index of something of length `n`; zero if `n` is.
    pub fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.index(of.len())]
    }
}

/// A good mixture of the bits of a number (the finalizer of splitmix64).
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_bounds_and_repeat() {
        let (mut a, mut b) = (Rng::new(5), Rng::new(5));
        let mut seen = [0; 7];
        for _ in 0..1000 {
            let n = a.range(3, 9);
            assert_eq!(n, b.range(3, 9));
            seen[(n - 3) as usize] += 1;
        }
        assert!(seen.iter().all(|n| *n > 90), "{seen:?}");
        assert_eq!((a.below(0), a.index(0)), (0, 0));
    }
}
