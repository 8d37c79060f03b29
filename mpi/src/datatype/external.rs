//! The representation `external32`: big-endian numbers of fixed sizes (MPI 4.1, section 14.5.2).
//!
//! Memory is little-endian on the processors that this library runs on.

use super::basic::{Basic, Repr};
use crate::error::{Class, MpiError, Result};

/// The name of the representation.
pub const NAME: &str = "external32";

/// The way of a basic element between memory and the external representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum External {
    /// It has the same size, in units of so many bytes, whose order is reversed.
    Units(usize),
    /// An integer of 8 bytes that has 4 externally; true if it has a sign.
    Long(bool),
    /// A character of 4 bytes that has 2 externally.
    Wide,
    /// Numbers of x87's format, which are binary128 externally.
    X87,
}

impl External {
    /// Returns the ways of a predefined type; both are the same unless it is a pair.
    pub(super) fn of(basic: &Basic) -> [External; 2] {
        use External::{Long, Units, Wide, X87};
        let both = |external| [external; 2];
        match (basic.name, basic.repr) {
            ("MPI_LONG", _) => both(Long(true)),
            ("MPI_UNSIGNED_LONG", _) => both(Long(false)),
            ("MPI_WCHAR", _) => both(Wide),
            (_, Repr::I8 | Repr::U8 | Repr::Opaque) => both(Units(1)),
            (_, Repr::I16 | Repr::U16 | Repr::F16 | Repr::Bf16 | Repr::ComplexF16) => both(Units(2)),
            (_, Repr::I32 | Repr::U32 | Repr::F32 | Repr::ComplexF32) => both(Units(4)),
            (_, Repr::F32AndI32 | Repr::I32AndI32 | Repr::F32AndF32) => both(Units(4)),
            (_, Repr::I64 | Repr::U64 | Repr::F64 | Repr::ComplexF64 | Repr::F64AndF64) => both(Units(8)),
            (_, Repr::I128 | Repr::U128 | Repr::F128 | Repr::ComplexF128) => both(Units(16)),
            (_, Repr::F80 | Repr::ComplexF80) => both(X87),
            (_, Repr::F64AndI32) => [Units(8), Units(4)],
            (_, Repr::I64AndI32) => [Long(true), Units(4)],
            (_, Repr::I16AndI32) => [Units(2), Units(4)],
            (_, Repr::LongDoubleAndI32) if cfg!(target_arch = "x86_64") => [X87, Units(4)],
            (_, Repr::LongDoubleAndI32) => [Units(16), Units(4)],
        }
    }

    /// Returns the bytes of external data that so many bytes of memory have.
    pub(super) fn size(self, native: usize) -> usize {
        match self {
            External::Long(_) | External::Wide => native / 2,
            External::Units(_) | External::X87 => native,
        }
    }

    /// Converts elements from memory.
    ///
    /// # Errors
    /// [`Class::CONVERSION`] if a value has no room.
    pub(super) fn emit(self, native: &[u8], out: &mut Vec<u8>) -> Result<()> {
        match self {
            External::Units(1) => out.extend_from_slice(native),
            External::Units(unit) => {
                native.chunks_exact(unit).for_each(|unit| out.extend(unit.iter().rev()));
            }
            External::Long(signed) => {
                for bytes in native.as_chunks().0 {
                    let value = i64::from_le_bytes(*bytes);
                    let narrow = match signed {
                        true => i32::try_from(value).ok().map(i32::cast_unsigned),
                        false => u32::try_from(value.cast_unsigned()).ok(),
                    };
                    out.extend(narrow.ok_or_else(|| no_room(value, "a long", 4))?.to_be_bytes());
                }
            }
            External::Wide => {
                for bytes in native.as_chunks().0 {
                    let value = u32::from_le_bytes(*bytes);
                    let narrow = u16::try_from(value).map_err(|_| no_room(value, "a wide character", 2))?;
                    out.extend(narrow.to_be_bytes());
                }
            }
            External::X87 => {
                for bytes in native.as_chunks().0 {
                    out.extend(binary128_of_x87(u128::from_le_bytes(*bytes)).to_be_bytes());
                }
            }
        }
        Ok(())
    }

    /// Converts elements to memory.
    pub(super) fn parse(self, external: &[u8], out: &mut Vec<u8>) {
        match self {
            External::Units(1) => out.extend_from_slice(external),
            External::Units(unit) => {
                external.chunks_exact(unit).for_each(|unit| out.extend(unit.iter().rev()));
            }
            External::Long(signed) => {
                for bytes in external.as_chunks().0 {
                    let value = u32::from_be_bytes(*bytes);
                    let wide = if signed { i64::from(value.cast_signed()) } else { i64::from(value) };
                    out.extend(wide.to_le_bytes());
                }
            }
            External::Wide => {
                for bytes in external.as_chunks().0 {
                    out.extend(u32::from(u16::from_be_bytes(*bytes)).to_le_bytes());
                }
            }
            External::X87 => {
                for bytes in external.as_chunks().0 {
                    out.extend(x87_of_binary128(u128::from_be_bytes(*bytes)).to_le_bytes());
                }
            }
        }
    }
}

#[cold]
fn no_room(value: impl std::fmt::Display, what: &str, bytes: usize) -> Box<MpiError> {
    let text =
        format!("{value} has no room in the {bytes} bytes of {what} in {NAME}; use a type of fixed size");
    MpiError::new(Class::CONVERSION, text)
}

/// Bits of the fraction of binary128, and those that x87's format has fewer.
const FRACTION: u32 = 112;
const FEWER: u32 = 49;
/// The exponent of infinity, and of what is no number.
const TOP: u128 = 0x7fff;

/// Returns the number of x87's format as binary128, which has all its values.
fn binary128_of_x87(bits: u128) -> u128 {
    let sign = bits >> 79 & 1;
    let exponent = bits >> 64 & TOP;
    // The leading bit is written out.
    let mantissa = bits & u128::from(u64::MAX);
    let leading = mantissa >> 63 != 0;
    let fraction = (mantissa << 65) >> 65 << FEWER;
    let (exponent, fraction) = match (exponent, leading) {
        (TOP, _) => (TOP, fraction),
        (0, true) => (1, fraction),
        (0, false) | (_, true) => (exponent, fraction),
        // No value of the format.
        (_, false) => (TOP, 1 << (FRACTION - 1)),
    };
    sign << 127 | exponent << FRACTION | fraction
}

/// Returns the number of x87's format that is nearest to one of binary128.
fn x87_of_binary128(bits: u128) -> u128 {
    let sign = bits >> 127;
    let exponent = bits >> FRACTION & TOP;
    let fraction = bits & ((1 << FRACTION) - 1);
    if exponent == TOP {
        let quiet = if fraction == 0 { 0 } else { 1 << 62 | fraction >> FEWER };
        return sign << 79 | TOP << 64 | 1 << 63 | quiet;
    }
    let whole = u128::from(exponent != 0) << FRACTION | fraction;
    let (mut mantissa, lost) = (whole >> FEWER, whole & ((1 << FEWER) - 1));
    let half = 1 << (FEWER - 1);
    if lost > half || (lost == half && mantissa & 1 == 1) {
        mantissa += 1;
    }
    let mut exponent = exponent;
    if mantissa >> 64 != 0 {
        mantissa >>= 1;
        exponent += 1;
    } else if exponent == 0 && mantissa >> 63 != 0 {
        exponent = 1;
    }
    if exponent == TOP {
        mantissa = 1 << 63;
    }
    sign << 79 | exponent << 64 | mantissa
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_doubles_become_binary128_and_come_back() {
        let one = 0x3fff_8000_0000_0000_0000u128;
        assert_eq!(binary128_of_x87(one), 0x3fff << 112);
        let third = 0x3ffd_aaaa_aaaa_aaaa_aaab_u128;
        let infinity = 0x7fff_8000_0000_0000_0000u128;
        let tiny = 1;
        for bits in [0, one, third, infinity, tiny, one | 1 << 79] {
            assert_eq!(x87_of_binary128(binary128_of_x87(bits)), bits, "{bits:#x}");
        }
        // Bytes above the number mean nothing.
        assert_eq!(binary128_of_x87(one | 7 << 80), 0x3fff << 112);
        // Halves are rounded to even, also across the exponent.
        let all_ones = 0x3fff << 112 | ((1 << 112) - 1);
        assert_eq!(x87_of_binary128(all_ones), 0x4000_8000_0000_0000_0000);
        assert_eq!(x87_of_binary128(0x3fff << 112 | 1 << 48), one);
        assert_eq!(x87_of_binary128(0x3fff << 112 | 3 << 48), one | 2);
        let nan = x87_of_binary128(0x7fff << 112 | 1);
        assert!(nan >> 64 == 0x7fff && nan << 65 != 0);
        // The greatest number below the normal ones is rounded up to the least of these.
        assert_eq!(x87_of_binary128((1 << 112) - 1), 1 << 64 | 1 << 63);
    }
}
