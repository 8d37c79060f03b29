//! The predefined datatypes: handle, name, size, alignment and arithmetic of each.
//!
//! A handle of MPICH's layout has the size and an index; the pair types of C that have gaps are
//! numbered apart. Sizes are those of the 64-bit System V ABIs and of GNU Fortran without options.

use crate::handle::Datatype;

/// The group of a type among those that MPI lists for its operations (MPI 4.1, section 6.9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// C integers, and the addresses, offsets and counts of both languages.
    Integer,
    /// Fortran integers, which have no logical operations.
    FortranInteger,
    /// Floating point.
    Float,
    /// Complex numbers.
    Complex,
    /// Truth values.
    Logical,
    /// Plain bytes, which have bitwise operations only.
    Byte,
    /// A value and its index, for MINLOC and MAXLOC.
    Pair,
    /// No operation: characters and packed data.
    Opaque,
}

/// The format of a value's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Repr {
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    U128,
    F16,
    Bf16,
    F32,
    F64,
    /// x87's 80-bit format in 16 bytes: `long double`.
    F80,
    /// IEEE 754 binary128: Fortran's `REAL(16)`.
    F128,
    ComplexF16,
    ComplexF32,
    ComplexF64,
    ComplexF80,
    ComplexF128,
    F32AndI32,
    F64AndI32,
    I64AndI32,
    I16AndI32,
    I32AndI32,
    LongDoubleAndI32,
    F32AndF32,
    F64AndF64,
    /// Bytes without a meaning.
    Opaque,
}

/// One predefined datatype.
#[derive(Debug)]
pub struct Basic {
    /// Its handle.
    pub handle: Datatype,
    /// Its name in MPI.
    pub name: &'static str,
    /// Bytes of data.
    pub size: usize,
    /// Alignment in bytes.
    pub align: usize,
    /// Its group among the types of operations.
    pub kind: Kind,
    /// The format of a value.
    pub repr: Repr,
}

/// The two parts of a pair: bytes of the first, offset and bytes of the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairShape {
    /// Bytes of the value.
    pub first: usize,
    /// Offset of the index.
    pub at: usize,
    /// Bytes of the index.
    pub second: usize,
}

impl Basic {
    /// Returns the layout of a pair type; `None` if it is not one.
    pub const fn pair(&self) -> Option<PairShape> {
        let (first, at, second) = match self.repr {
            Repr::F32AndI32 | Repr::I32AndI32 | Repr::F32AndF32 => (4, 4, 4),
            Repr::F64AndI32 | Repr::I64AndI32 => (8, 8, 4),
            Repr::I16AndI32 => (2, 4, 4),
            Repr::LongDoubleAndI32 => (16, 16, 4),
            Repr::F64AndF64 => (8, 8, 8),
            _ => return None,
        };
        Some(PairShape { first, at, second })
    }

    /// Returns the bytes from one value to the next in an array.
    pub fn extent(&self) -> usize {
        self.pair().map_or(self.size, |p| (p.at + p.second).next_multiple_of(self.align))
    }
}

const fn row(code: u32, name: &'static str, size: usize, align: usize, kind: Kind, repr: Repr) -> Basic {
    Basic { handle: Datatype(code), name, size, align, kind, repr }
}

/// A type whose alignment is its size, which its code contains.
const fn plain(code: u32, name: &'static str, kind: Kind, repr: Repr) -> Basic {
    let size = (code >> 8 & 0xff) as usize;
    row(code, name, size, size, kind, repr)
}

/// A complex type, which is aligned as its parts.
const fn complex(code: u32, name: &'static str, repr: Repr) -> Basic {
    let size = (code >> 8 & 0xff) as usize;
    row(code, name, size, size / 2, Kind::Complex, repr)
}

/// A type without alignment and arithmetic.
const fn opaque(code: u32, name: &'static str) -> Basic {
    row(code, name, (code >> 8 & 0xff) as usize, 1, Kind::Opaque, Repr::Opaque)
}

use Kind::{Byte, Float, FortranInteger, Integer, Logical, Pair};

/// All predefined datatypes.
pub static BASICS: &[Basic] = ROWS;

const ROWS: &[Basic] = &[
    // C. Plain `char` counts as an integer, as in MPICH.
    plain(0x4c00_0101, "MPI_CHAR", Integer, Repr::I8),
    plain(0x4c00_0118, "MPI_SIGNED_CHAR", Integer, Repr::I8),
    plain(0x4c00_0102, "MPI_UNSIGNED_CHAR", Integer, Repr::U8),
    plain(0x4c00_010d, "MPI_BYTE", Byte, Repr::U8),
    row(0x4c00_040e, "MPI_WCHAR", 4, 4, Kind::Opaque, Repr::Opaque),
    plain(0x4c00_0203, "MPI_SHORT", Integer, Repr::I16),
    plain(0x4c00_0204, "MPI_UNSIGNED_SHORT", Integer, Repr::U16),
    plain(0x4c00_0405, "MPI_INT", Integer, Repr::I32),
    plain(0x4c00_0406, "MPI_UNSIGNED", Integer, Repr::U32),
    plain(0x4c00_0807, "MPI_LONG", Integer, Repr::I64),
    plain(0x4c00_0808, "MPI_UNSIGNED_LONG", Integer, Repr::U64),
    plain(0x4c00_040a, "MPI_FLOAT", Float, Repr::F32),
    plain(0x4c00_080b, "MPI_DOUBLE", Float, Repr::F64),
    plain(0x4c00_100c, "MPI_LONG_DOUBLE", Float, LONG_DOUBLE),
    plain(0x4c00_0809, "MPI_LONG_LONG_INT", Integer, Repr::I64),
    plain(0x4c00_0819, "MPI_UNSIGNED_LONG_LONG", Integer, Repr::U64),
    opaque(0x4c00_010f, "MPI_PACKED"),
    opaque(0x4c00_0010, "MPI_LB"),
    opaque(0x4c00_0011, "MPI_UB"),
    plain(0x4c00_0137, "MPI_INT8_T", Integer, Repr::I8),
    plain(0x4c00_0238, "MPI_INT16_T", Integer, Repr::I16),
    plain(0x4c00_0439, "MPI_INT32_T", Integer, Repr::I32),
    plain(0x4c00_083a, "MPI_INT64_T", Integer, Repr::I64),
    plain(0x4c00_013b, "MPI_UINT8_T", Integer, Repr::U8),
    plain(0x4c00_023c, "MPI_UINT16_T", Integer, Repr::U16),
    plain(0x4c00_043d, "MPI_UINT32_T", Integer, Repr::U32),
    plain(0x4c00_083e, "MPI_UINT64_T", Integer, Repr::U64),
    plain(0x4c00_013f, "MPI_C_BOOL", Logical, Repr::U8),
    complex(0x4c00_0840, "MPI_C_COMPLEX", Repr::ComplexF32),
    complex(0x4c00_1041, "MPI_C_DOUBLE_COMPLEX", Repr::ComplexF64),
    complex(0x4c00_2042, "MPI_C_LONG_DOUBLE_COMPLEX", COMPLEX_LONG_DOUBLE),
    plain(0x4c00_0246, "MPIX_C_FLOAT16", Float, Repr::F16),
    plain(0x4c00_024c, "MPIX_BFLOAT16", Float, Repr::Bf16),
    plain(0x4c00_0843, "MPI_AINT", Integer, Repr::I64),
    plain(0x4c00_0844, "MPI_OFFSET", Integer, Repr::I64),
    plain(0x4c00_0845, "MPI_COUNT", Integer, Repr::I64),
    // Pairs of C.
    row(0x8c00_0000, "MPI_FLOAT_INT", 8, 4, Pair, Repr::F32AndI32),
    row(0x8c00_0001, "MPI_DOUBLE_INT", 12, 8, Pair, Repr::F64AndI32),
    row(0x8c00_0002, "MPI_LONG_INT", 12, 8, Pair, Repr::I64AndI32),
    row(0x8c00_0003, "MPI_SHORT_INT", 6, 4, Pair, Repr::I16AndI32),
    row(0x4c00_0816, "MPI_2INT", 8, 4, Pair, Repr::I32AndI32),
    row(0x8c00_0004, "MPI_LONG_DOUBLE_INT", 20, 16, Pair, Repr::LongDoubleAndI32),
    // C++.
    plain(0x4c00_0133, "MPI_CXX_BOOL", Logical, Repr::U8),
    complex(0x4c00_0834, "MPI_CXX_FLOAT_COMPLEX", Repr::ComplexF32),
    complex(0x4c00_1035, "MPI_CXX_DOUBLE_COMPLEX", Repr::ComplexF64),
    complex(0x4c00_2036, "MPI_CXX_LONG_DOUBLE_COMPLEX", COMPLEX_LONG_DOUBLE),
    // Fortran.
    opaque(0x4c00_011a, "MPI_CHARACTER"),
    plain(0x4c00_041b, "MPI_INTEGER", FortranInteger, Repr::I32),
    plain(0x4c00_041c, "MPI_REAL", Float, Repr::F32),
    plain(0x4c00_041d, "MPI_LOGICAL", Logical, Repr::U32),
    complex(0x4c00_081e, "MPI_COMPLEX", Repr::ComplexF32),
    plain(0x4c00_081f, "MPI_DOUBLE_PRECISION", Float, Repr::F64),
    row(0x4c00_0820, "MPI_2INTEGER", 8, 4, Pair, Repr::I32AndI32),
    row(0x4c00_0821, "MPI_2REAL", 8, 4, Pair, Repr::F32AndF32),
    complex(0x4c00_1022, "MPI_DOUBLE_COMPLEX", Repr::ComplexF64),
    row(0x4c00_1023, "MPI_2DOUBLE_PRECISION", 16, 8, Pair, Repr::F64AndF64),
    plain(0x4c00_0226, "MPI_REAL2", Float, Repr::F16),
    plain(0x4c00_0427, "MPI_REAL4", Float, Repr::F32),
    complex(0x4c00_0828, "MPI_COMPLEX8", Repr::ComplexF32),
    plain(0x4c00_0829, "MPI_REAL8", Float, Repr::F64),
    complex(0x4c00_102a, "MPI_COMPLEX16", Repr::ComplexF64),
    plain(0x4c00_102b, "MPI_REAL16", Float, Repr::F128),
    complex(0x4c00_202c, "MPI_COMPLEX32", Repr::ComplexF128),
    plain(0x4c00_012d, "MPI_INTEGER1", FortranInteger, Repr::I8),
    complex(0x4c00_042e, "MPI_COMPLEX4", Repr::ComplexF16),
    plain(0x4c00_022f, "MPI_INTEGER2", FortranInteger, Repr::I16),
    plain(0x4c00_0430, "MPI_INTEGER4", FortranInteger, Repr::I32),
    plain(0x4c00_0831, "MPI_INTEGER8", FortranInteger, Repr::I64),
    plain(0x4c00_1032, "MPI_INTEGER16", FortranInteger, Repr::I128),
    plain(0x4c00_0147, "MPI_LOGICAL1", Logical, Repr::U8),
    plain(0x4c00_0248, "MPI_LOGICAL2", Logical, Repr::U16),
    plain(0x4c00_0449, "MPI_LOGICAL4", Logical, Repr::U32),
    plain(0x4c00_084a, "MPI_LOGICAL8", Logical, Repr::U64),
    plain(0x4c00_104b, "MPI_LOGICAL16", Logical, Repr::U128),
];

/// `long double`: x87's format on x86, binary128 elsewhere.
const LONG_DOUBLE: Repr = if cfg!(target_arch = "x86_64") { Repr::F80 } else { Repr::F128 };
const COMPLEX_LONG_DOUBLE: Repr =
    if cfg!(target_arch = "x86_64") { Repr::ComplexF80 } else { Repr::ComplexF128 };

/// First handle of the pair types that are numbered apart.
const APART: u32 = 0x8c00_0000;
/// Their number.
const PAIRS: usize = 5;
/// Indices that the other handles use.
const INDICES: usize = 0x4d;

/// Place in [`BASICS`] by the index of a handle, then by the number of a pair; `u8::MAX`: none.
static PLACES: [u8; INDICES + PAIRS] = places();

const fn slot(code: u32) -> usize {
    if code >= APART { INDICES + (code - APART) as usize } else { (code & 0xff) as usize }
}

const fn places() -> [u8; INDICES + PAIRS] {
    let mut table = [u8::MAX; INDICES + PAIRS];
    let mut i = 0;
    while i < ROWS.len() {
        table[slot(ROWS[i].handle.0)] = i as u8;
        i += 1;
    }
    table
}

/// The handles of predefined types that are one run of bytes, by their last byte; elsewhere what is
/// no handle of that place.
const PLAIN: [u32; INDICES] = {
    let mut table = [0; INDICES];
    let mut i = 0;
    while i < INDICES {
        table[i] = !(i as u32);
        i += 1;
    }
    let mut row = 0;
    while row < ROWS.len() {
        let code = ROWS[row].handle.0;
        if code >> 16 == 0x4c00 && ROWS[row].pair().is_none() && size_in(code) == ROWS[row].size {
            table[slot(code)] = code;
        }
        row += 1;
    }
    table
};

/// Returns the size that is a part of the handle of a predefined type.
const fn size_in(code: u32) -> usize {
    (code >> 8 & 0xff) as usize
}

/// Returns the size of a predefined datatype that is one run of bytes; `None` for others.
#[inline]
pub(super) fn plain_size(handle: Datatype) -> Option<usize> {
    let code = handle.0;
    (*PLAIN.get((code & 0xff) as usize)? == code).then_some(size_in(code))
}

/// Returns the place of a predefined datatype in [`BASICS`]; `None` if the handle is not one.
#[inline]
pub fn place(handle: Datatype) -> Option<usize> {
    let code = handle.0;
    let apart = code.wrapping_sub(APART) < PAIRS as u32;
    if !apart && code >> 16 != 0x4c00 {
        return None;
    }
    let at = usize::from(*PLACES.get(slot(code))?);
    (BASICS.get(at)?.handle == handle).then_some(at)
}

/// Returns a predefined datatype; `None` if the handle is not one.
#[inline]
pub fn basic(handle: Datatype) -> Option<&'static Basic> {
    Some(&BASICS[place(handle)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_what_is_one_run_is_in_its_handle() {
        for b in BASICS {
            let is_run = b.handle.0 >> 16 == 0x4c00 && b.pair().is_none();
            assert_eq!(plain_size(b.handle), is_run.then_some(b.size), "{}", b.name);
            assert_eq!(plain_size(Datatype(b.handle.0 ^ 0x100)), None, "{} with another size", b.name);
        }
        assert_eq!([0, u32::MAX, 0x0c00_0000].map(|h| plain_size(Datatype(h))), [None; 3]);
    }

    #[test]
    fn every_handle_leads_to_its_row_and_no_other_does() {
        for b in BASICS {
            assert!(core::ptr::eq(basic(b.handle).unwrap(), b), "{}", b.name);
            assert!(basic(Datatype(b.handle.0 ^ 0x100)).is_none(), "{} with another size", b.name);
            assert!(basic(Datatype(b.handle.0 ^ 0x1_0000)).is_none(), "{} with another kind", b.name);
        }
        for code in [0, 0x0c00_0000, 0x4c00_01ff, 0x8c00_0005, 0x8c00_0100, u32::MAX] {
            assert!(basic(Datatype(code)).is_none(), "{code:#x}");
        }
    }

    #[test]
    fn sizes_and_extents_of_c() {
        let shape = |name: &str| {
            let b = BASICS.iter().find(|b| b.name == name).unwrap();
            (b.size, b.extent())
        };
        assert_eq!(shape("MPI_INT"), (4, 4));
        assert_eq!(shape("MPI_LB"), (0, 0));
        assert_eq!(shape("MPI_FLOAT_INT"), (8, 8));
        assert_eq!(shape("MPI_DOUBLE_INT"), (12, 16));
        assert_eq!(shape("MPI_LONG_INT"), (12, 16));
        assert_eq!(shape("MPI_SHORT_INT"), (6, 8));
        assert_eq!(shape("MPI_2INT"), (8, 8));
        assert_eq!(shape("MPI_LONG_DOUBLE_INT"), (20, 32));
        assert_eq!(shape("MPI_2DOUBLE_PRECISION"), (16, 16));
    }
}
