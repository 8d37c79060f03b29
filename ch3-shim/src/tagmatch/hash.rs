//! The seeded hash that spreads (context, source, tag) over a table.

use std::hash::{BuildHasher, RandomState};

/// The three words of an envelope or pattern as a table compares them: source and tag in one
/// word, so that equality costs two comparisons without a branch between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) source_tag: u64,
    pub(super) context: u32,
}

impl Key {
    pub(super) fn source(self) -> i32 {
        (self.source_tag as u32).cast_signed()
    }

    pub(super) fn tag(self) -> i32 {
        ((self.source_tag >> 32) as u32).cast_signed()
    }

    #[inline]
    pub(super) fn same(self, other: Key) -> bool {
        (self.source_tag ^ other.source_tag) | u64::from(self.context ^ other.context) == 0
    }
}

/// The secret of one table. Peers choose tags, so the place of a tag must not be computable
/// outside this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seed([u64; 3]);

impl Seed {
    /// A seed from the operating system's randomness (by way of [`RandomState`]).
    pub(super) fn random() -> Seed {
        let state = RandomState::new();
        Seed::from_words([state.hash_one(0u8), state.hash_one(1u8), state.hash_one(2u8)])
    }

    /// A given seed, for measurements and tests that must repeat.
    pub(super) fn from_words(words: [u64; 3]) -> Seed {
        Seed([words[0], words[1], words[2] | 1])
    }

    /// 64 bits of which the *upper* ones are to be used.
    ///
    /// A keyed 64×64→128-bit product, folded, mixes all input bits; consecutive ranks and tags
    /// still come out of it as something like an arithmetic progression, on which linear probing
    /// does badly. The fold's xor followed by a second product breaks that up.
    #[inline]
    pub(super) fn hash(&self, key: Key) -> u64 {
        let [s0, s1, s2] = self.0;
        let left = u128::from(key.source_tag ^ s0);
        let right = u128::from((u64::from(key.context) << 32) ^ s1);
        let product = left * right;
        ((product >> 64) as u64 ^ product as u64).wrapping_mul(s2)
    }
}
