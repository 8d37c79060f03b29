//! MINLOC and MAXLOC: the extreme value, and the least index among those that have it.

use super::f128::F128;
use super::x87::F80;
use super::{Builtin, InPlace, Kernel};
use crate::datatype::basic::Repr;

/// Compares two parts of pairs that are kept as bytes: true if the first is less.
type Less = fn(&[u8], &[u8]) -> bool;

macro_rules! less {
    ($name:ident, $t:ty) => {
        fn $name(a: &[u8], b: &[u8]) -> bool {
            let (mut x, mut y) = ([0; size_of::<$t>()], [0; size_of::<$t>()]);
            x.copy_from_slice(a);
            y.copy_from_slice(b);
            <$t>::from_ne_bytes(x) < <$t>::from_ne_bytes(y)
        }
    };
}

less!(less_i16, i16);
less!(less_i32, i32);
less!(less_i64, i64);
less!(less_f32, f32);
less!(less_f64, f64);

fn less_long_double(a: &[u8], b: &[u8]) -> bool {
    let (mut x, mut y) = ([0; 16], [0; 16]);
    x.copy_from_slice(a);
    y.copy_from_slice(b);
    let (x, y) = (u128::from_ne_bytes(x), u128::from_ne_bytes(y));
    if F80::WORKS { F80(y).is_greater(F80(x)) } else { F128(y).is_greater(F128(x)) }
}

/// Combines pairs of `FIRST` bytes of value and `SECOND` of index at offset `AT`, `EXTENT` apart.
#[inline(always)]
fn each<const FIRST: usize, const AT: usize, const SECOND: usize, const EXTENT: usize>(
    input: &[u8],
    inout: &mut [u8],
    better: Less,
    less_index: Less,
) {
    // The last pair may lack the gap at its end.
    for (a, b) in input.chunks(EXTENT).zip(inout.chunks_mut(EXTENT)) {
        let (value, index) = (0..FIRST, AT..AT + SECOND);
        let take = if better(&a[value.clone()], &b[value.clone()]) {
            true
        } else {
            !better(&b[value.clone()], &a[value.clone()]) && less_index(&a[index.clone()], &b[index.clone()])
        };
        if take {
            b[value.clone()].copy_from_slice(&a[value]);
            b[index.clone()].copy_from_slice(&a[index]);
        }
    }
}

macro_rules! pair {
    ($op:expr, $first:literal, $at:literal, $second:literal, $extent:literal, $less:ident, $index:ident) => {
        match $op {
            Builtin::Minloc => |a, b| each::<$first, $at, $second, $extent>(a, b, $less, $index),
            Builtin::Maxloc => |a, b| each::<$first, $at, $second, $extent>(a, b, |x, y| $less(y, x), $index),
            _ => return None,
        }
    };
}

/// Returns the loop of an operation over pairs that are read in this way.
pub(super) fn kernel(op: Builtin, repr: Repr) -> Option<Kernel> {
    let in_place: InPlace = match repr {
        Repr::F32AndI32 => pair!(op, 4, 4, 4, 8, less_f32, less_i32),
        Repr::F64AndI32 => pair!(op, 8, 8, 4, 16, less_f64, less_i32),
        Repr::I64AndI32 => pair!(op, 8, 8, 4, 16, less_i64, less_i32),
        Repr::I16AndI32 => pair!(op, 2, 4, 4, 8, less_i16, less_i32),
        Repr::I32AndI32 => pair!(op, 4, 4, 4, 8, less_i32, less_i32),
        Repr::LongDoubleAndI32 => pair!(op, 16, 16, 4, 32, less_long_double, less_i32),
        Repr::F32AndF32 => pair!(op, 4, 4, 4, 8, less_f32, less_f32),
        Repr::F64AndF64 => pair!(op, 8, 8, 8, 16, less_f64, less_f64),
        _ => return None,
    };
    Some(Kernel { in_place, apart: None })
}
