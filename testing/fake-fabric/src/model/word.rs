//! Words of memory, and the operations on them.

use crate::mem::Lent;
use libfabric_sys::consts::{
    FI_ATOMIC_WRITE, FI_BAND, FI_BOR, FI_BXOR, FI_CSWAP, FI_INT32, FI_INT64, FI_MAX, FI_MIN, FI_SUM,
    FI_UINT32, FI_UINT64,
};

/// An operation with its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Atomic {
    pub(crate) op: i32,
    pub(crate) datatype: i32,
    pub(crate) operand: u64,
    pub(crate) comparand: u64,
    /// True if the old value is stored in the first piece of local memory.
    pub(crate) fetches: bool,
}

/// Returns the length of a word in bytes; `None` if the provider has no operations on it.
pub(crate) fn size_of_word(datatype: i32) -> Option<usize> {
    match datatype {
        FI_INT32 | FI_UINT32 => Some(4),
        FI_INT64 | FI_UINT64 => Some(8),
        _ => None,
    }
}

/// Returns true if the provider has the operation, in the form that compares or in the others.
pub(crate) fn is_valid(datatype: i32, op: i32, compares: bool) -> bool {
    let known = if compares {
        op == FI_CSWAP
    } else {
        matches!(op, FI_MIN | FI_MAX | FI_SUM | FI_BOR | FI_BAND | FI_BXOR | FI_ATOMIC_WRITE)
    };
    known && size_of_word(datatype).is_some()
}

/// Returns the number that the bytes of a word are.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    match *bytes {
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
        _ => 0,
    }
}

impl Atomic {
    /// Changes a word, and returns the bytes of the old value.
    pub(crate) fn apply(&self, word: &Lent) -> Vec<u8> {
        let bytes = word.read(0, word.len());
        let (old, new) = (number(&bytes), self.operand);
        let is_less = match self.datatype {
            FI_INT32 => (new as i32) < old as i32,
            FI_INT64 => (new as i64) < old as i64,
            _ => new < old,
        };
        let result = match self.op {
            FI_SUM => old.wrapping_add(new),
            FI_BAND => old & new,
            FI_BOR => old | new,
            FI_BXOR => old ^ new,
            FI_MIN if is_less => new,
            FI_MAX if !is_less => new,
            FI_ATOMIC_WRITE => new,
            FI_CSWAP if old == self.comparand => new,
            _ => old,
        };
        if bytes.len() == 4 {
            word.write(0, &(result as u32).to_ne_bytes());
        } else {
            word.write(0, &result.to_ne_bytes());
        }
        bytes
    }
}
