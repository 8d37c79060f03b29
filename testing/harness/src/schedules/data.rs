//! Random numbers and data of schedules, derived from the seed.

use crate::rng::Rng;

/// Makes the generator of a schedule, different from that of the network with the same seed.
pub fn seeded(seed: u64) -> Rng {
    Rng::new(seed.wrapping_mul(0xd134_2543_de82_ef95) ^ 0x5851_f42d_4c95_7f2d)
}

/// Returns the length of pieces and of the gaps between them; 0 for one piece.
pub fn shape(rng: &mut Rng) -> (usize, usize) {
    if rng.one_in(2) { (0, 0) } else { (1 + rng.below(300) as usize, 1 + rng.below(9) as usize) }
}

/// Returns `len` bytes that depend on their position and on `seed`.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(len + 8);
    let mut rng = seeded(seed);
    while out.len() < len {
        out.extend_from_slice(&rng.word().to_le_bytes());
    }
    out.truncate(len);
    out
}
