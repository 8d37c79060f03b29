//! The properties of a reduction's operation.

/// The properties of an operation that an algorithm may rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpFacts {
    /// True if operands may be exchanged.
    pub commutative: bool,
    /// True if the operation works on any part of a vector.
    pub divisible: bool,
}
