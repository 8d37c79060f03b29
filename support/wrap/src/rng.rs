//! Random numbers that repeat with their seed (SplitMix64).

/// A generator. Equal seeds give equal numbers, on every machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// A generator of its own for each of the words that name a purpose.
    pub(crate) fn new(seed: u64, purpose: [u64; 3]) -> Rng {
        purpose.iter().fold(Rng(seed), |rng, word| {
            let mut next = Rng(rng.0 ^ word.wrapping_mul(0xd6e8_feb8_6659_fd93));
            Rng(next.word())
        })
    }

    /// 64 random bits.
    pub(crate) fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to 1, without 1.
    fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Whether something of this probability happens.
    pub(crate) fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && self.unit() < p
    }

    /// From 0 to `n` - 1; 0 if there is nothing to choose from.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.word() % n }
    }

    /// How many trials fail before one of probability `p` succeeds.
    pub(crate) fn failures(&mut self, p: f64) -> u64 {
        if p <= 0.0 {
            return u64::MAX;
        }
        if p >= 1.0 {
            return 0;
        }
        let n = (1.0 - self.unit()).ln() / (1.0 - p).ln();
        // A float that is too large becomes the largest number.
        n as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_repeat_and_purposes_differ() {
        let draw = |seed, purpose| {
            let mut rng = Rng::new(seed, purpose);
            [rng.word(), rng.word(), rng.word()]
        };
        assert_eq!(draw(7, [1, 2, 3]), draw(7, [1, 2, 3]));
        for other in [(8, [1, 2, 3]), (7, [2, 1, 3]), (7, [1, 2, 4])] {
            assert_ne!(draw(7, [1, 2, 3]), draw(other.0, other.1));
        }
    }

    #[test]
    fn probabilities_are_met() {
        let mut rng = Rng::new(1, [0; 3]);
        let hits = (0..100_000).filter(|_| rng.chance(0.2)).count();
        assert!((19_000..21_000).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| !rng.chance(0.0)));
        assert!((0..1000).all(|_| rng.chance(1.0)));
        let mean = (0..10_000).map(|_| rng.failures(0.01)).sum::<u64>() / 10_000;
        assert!((90..110).contains(&mean), "{mean}");
        assert_eq!((rng.failures(0.0), rng.failures(1.0)), (u64::MAX, 0));
        assert!((0..1000).all(|_| rng.below(3) < 3));
    }
}
