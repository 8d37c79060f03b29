//! Atomic operations on single words of a peer's memory.

use super::RegionId;
use super::RemoteKey;
use crate::slab::VcId;

/// An operation. All of them yield the old value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AtomicOp {
    /// Adds the operand, modulo the word's size.
    Add,
    /// Bitwise "and" with the operand.
    And,
    /// Bitwise "or" with the operand.
    Or,
    /// Bitwise "exclusive or" with the operand.
    Xor,
    /// Stores the lesser of both.
    Min,
    /// Stores the greater of both.
    Max,
    /// Stores the operand.
    Swap,
    /// Stores the operand if the old value equals the comparand.
    CompareSwap,
}

impl AtomicOp {
    /// All operations.
    pub const ALL: [AtomicOp; 8] = [
        AtomicOp::Add,
        AtomicOp::And,
        AtomicOp::Or,
        AtomicOp::Xor,
        AtomicOp::Min,
        AtomicOp::Max,
        AtomicOp::Swap,
        AtomicOp::CompareSwap,
    ];
}

/// The type of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Word {
    /// Unsigned, 32 bits.
    U32,
    /// Signed, 32 bits.
    I32,
    /// Unsigned, 64 bits.
    U64,
    /// Signed, 64 bits.
    I64,
}

impl Word {
    /// All types.
    pub const ALL: [Word; 4] = [Word::U32, Word::I32, Word::U64, Word::I64];

    /// Returns its length in bytes, of which addresses are multiples.
    pub const fn size(self) -> usize {
        match self {
            Word::U32 | Word::I32 => 4,
            Word::U64 | Word::I64 => 8,
        }
    }

    /// Returns the result of an operation on an old value. Values are in the low bits; the others
    /// are ignored, and zero in the result.
    pub const fn apply(self, op: AtomicOp, old: u64, operand: u64, comparand: u64) -> u64 {
        let (old, new, expected) = (self.low(old), self.low(operand), self.low(comparand));
        let is_less = match self {
            Word::U32 | Word::U64 => new < old,
            Word::I32 => (new as i32) < old as i32,
            Word::I64 => (new as i64) < old as i64,
        };
        let result = match op {
            AtomicOp::Add => old.wrapping_add(new),
            AtomicOp::And => old & new,
            AtomicOp::Or => old | new,
            AtomicOp::Xor => old ^ new,
            AtomicOp::Min if is_less => new,
            AtomicOp::Max if !is_less => new,
            AtomicOp::Min | AtomicOp::Max => old,
            AtomicOp::Swap => new,
            AtomicOp::CompareSwap if old == expected => new,
            AtomicOp::CompareSwap => old,
        };
        self.low(result)
    }

    const fn low(self, value: u64) -> u64 {
        if self.size() == 4 { value & u32::MAX as u64 } else { value }
    }
}

/// The accesses that a netmod's atomic operations are atomic with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Coherence {
    /// Operations of peers over the same device of the target's ([`super::RmaCaps::device`]).
    Device,
    /// All accesses to the memory, also the atomic instructions of the target's processors.
    Processor,
}

/// The atomic operations of a netmod, and what they are atomic with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomics {
    /// A bit for each operation, by the type of the word.
    sets: [u8; Word::ALL.len()],
    /// The accesses that they are atomic with.
    pub coherence: Coherence,
}

impl Atomics {
    /// No operation.
    pub const NONE: Atomics = Atomics { sets: [0; Word::ALL.len()], coherence: Coherence::Device };

    /// No operation yet; those that follow by [`Atomics::with`] are atomic with these accesses.
    pub const fn new(coherence: Coherence) -> Atomics {
        Atomics { coherence, ..Atomics::NONE }
    }

    /// Adds an operation.
    #[must_use]
    pub const fn with(mut self, op: AtomicOp, word: Word) -> Atomics {
        self.sets[word as usize] |= 1 << op as u8;
        self
    }

    /// Returns true if it has this operation.
    pub const fn has(&self, op: AtomicOp, word: Word) -> bool {
        self.sets[word as usize] & 1 << op as u8 != 0
    }

    /// Returns true if it has no operation.
    pub fn is_empty(&self) -> bool {
        self.sets == Atomics::NONE.sets
    }
}

/// An atomic operation's arguments that do not depend on where the word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AtomicArgs {
    /// The operation.
    pub op: AtomicOp,
    /// The type of the word.
    pub word: Word,
    /// The operand, in the low bits.
    pub operand: u64,
    /// The expected value of [`AtomicOp::CompareSwap`], in the low bits.
    pub comparand: u64,
    /// True if the old value is wanted.
    pub fetches: bool,
}

/// An atomic operation on a word of a peer's registration.
#[derive(Clone, Copy, Debug)]
pub struct RmaAtomic<'a> {
    /// The VC whose peer takes part.
    pub vc: VcId,
    /// This side's registration, for [`super::Access::Local`].
    pub local: RegionId,
    /// Offset of [`RmaAtomic::LOCAL`] bytes in it, a multiple of 8. They are the netmod's until the
    /// operation ends. Then the first of them are the old value, if it was wanted, as the word lies
    /// in the memory of the peer.
    pub at: usize,
    /// The key of the peer's registration, for [`super::Access::RemoteAll`].
    pub key: &'a RemoteKey,
    /// Offset of the word in that, in bytes.
    pub remote_at: usize,
    /// The operation and its operands.
    pub args: AtomicArgs,
    /// The caller's number of the operation, which [`crate::Event::RmaDone`] names.
    pub op: u64,
}

impl RmaAtomic<'_> {
    /// Bytes of local memory that an operation uses.
    pub const LOCAL: usize = 24;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_is_in_its_set_alone() {
        for op in AtomicOp::ALL {
            for word in Word::ALL {
                let one = Atomics::new(Coherence::Processor).with(op, word);
                assert!(!one.is_empty() && one.coherence == Coherence::Processor);
                for other in AtomicOp::ALL {
                    for of in Word::ALL {
                        assert_eq!(one.has(other, of), (other, of) == (op, word), "{other:?} {of:?}");
                    }
                }
            }
        }
        assert!(Atomics::NONE.is_empty());
    }

    #[test]
    fn words_are_changed_within_their_size_and_by_their_sign() {
        use AtomicOp::*;
        let high = 0xabcd_0000_0000_0000;
        for (word, op, old, operand, new) in [
            (Word::U32, Add, u64::from(u32::MAX), 2, 1),
            (Word::U64, Add, u64::MAX, 2, 1),
            (Word::U32, Swap, 1, high | 7, 7),
            (Word::U64, Swap, 1, high | 7, high | 7),
            (Word::I32, Min, 1, u64::from(u32::MAX), u64::from(u32::MAX)),
            (Word::U32, Min, 1, u64::from(u32::MAX), 1),
            (Word::I32, Max, 1, u64::from(u32::MAX), 1),
            (Word::I64, Max, u64::MAX, 5, 5),
            (Word::U64, Max, u64::MAX, 5, u64::MAX),
            (Word::I64, Min, u64::MAX, 5, u64::MAX),
            (Word::U64, And, 0b1100, 0b1010, 0b1000),
            (Word::U64, Or, 0b1100, 0b1010, 0b1110),
            (Word::U64, Xor, 0b1100, 0b1010, 0b0110),
        ] {
            assert_eq!(word.apply(op, old, operand, 0), new, "{word:?} {op:?}");
        }
        assert_eq!(Word::U32.apply(CompareSwap, high | 3, 9, 3), 9);
        assert_eq!(Word::U64.apply(CompareSwap, high | 3, 9, 3), high | 3);
        assert_eq!(Word::U32.apply(CompareSwap, 4, 9, 3), 4);
    }
}
