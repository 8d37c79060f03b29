//! Bytes that can be made and checked from a seed alone, so that no copy of a message need be kept.

use super::Result;

/// One step of splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators").
pub fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A seed from several numbers.
pub fn seed(parts: &[u64]) -> u64 {
    parts.iter().fold(0, |s, p| mix(s ^ p))
}

fn word(seed: u64, i: usize) -> [u8; 8] {
    mix(seed ^ i as u64).to_le_bytes()
}

/// Fills memory with the bytes of a seed.
pub fn fill(seed: u64, bytes: &mut [u8]) {
    for (i, piece) in bytes.chunks_mut(8).enumerate() {
        piece.copy_from_slice(&word(seed, i)[..piece.len()]);
    }
}

/// The first `len` bytes of a seed.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut all = vec![0; len];
    fill(seed, &mut all);
    all
}

/// Returns true if these are the bytes of a seed.
///
/// # Errors
/// The first one that is not, and how many are not.
pub fn check(seed: u64, bytes: &[u8]) -> Result<()> {
    let mut first = None;
    let mut wrong = 0;
    for (i, piece) in bytes.chunks(8).enumerate() {
        let want = word(seed, i);
        if piece != &want[..piece.len()] {
            let differ = piece.iter().zip(want).filter(|(got, want)| *got != want).count();
            wrong += differ;
            first.get_or_insert((i, piece, want));
        }
    }
    match first {
        None => Ok(()),
        Some((i, got, want)) => Err(format!(
            "{wrong} of {} bytes are wrong, the first ones about byte {}: {got:02x?} instead of {:02x?}",
            bytes.len(),
            8 * i,
            &want[..got.len()]
        )
        .into()),
    }
}

/// Numbers that look random and are the same for the same seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Random {
        Random(mix(seed))
    }

    /// The next number below `n`, which is above 0.
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (mix(self.0) % n as u64) as usize
    }

    /// Puts things into another order.
    pub fn shuffle<T>(&mut self, things: &mut [T]) {
        for i in (1..things.len()).rev() {
            things.swap(i, self.below(i + 1));
        }
    }
}
