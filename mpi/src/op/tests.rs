//! Operations on small arrays, and what MPI allows.

use super::wide::Vectors;
use super::{Builtin, Operation, kernel, kernel_with};
use crate::datatype::basic::{BASICS, Basic, Kind};
use crate::error::Class;

fn basic(name: &str) -> &'static Basic {
    BASICS.iter().find(|b| b.name == name).unwrap()
}

/// Combines arrays that start at an odd address.
fn combined(op: Builtin, name: &str, input: &[u8], inout: &[u8]) -> Vec<u8> {
    let (mut a, mut b) = (vec![0xee], vec![0xee]);
    a.extend(input);
    b.extend(inout);
    kernel(op, basic(name)).unwrap().combine(&a[1..], &mut b[1..]);
    b.split_off(1)
}

macro_rules! check {
    ($t:ty, $name:literal, $op:ident, $a:expr, $b:expr, $want:expr) => {{
        let bytes = |v: &[$t]| v.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>();
        let (a, b, want): (Vec<$t>, Vec<$t>, Vec<$t>) = ($a.to_vec(), $b.to_vec(), $want.to_vec());
        let got = combined(Builtin::$op, $name, &bytes(&a), &bytes(&b));
        assert_eq!(got, bytes(&want), "{} on {}: {a:?} and {b:?}", stringify!($op), $name);
    }};
}

#[test]
fn numbers() {
    check!(i32, "MPI_INT", Sum, [1, -2, i32::MAX], [10, 20, 1], [11, 18, i32::MIN]);
    check!(i32, "MPI_INTEGER", Prod, [3, -2], [5, 7], [15, -14]);
    check!(i8, "MPI_SIGNED_CHAR", Max, [-1, 5], [1, -5], [1, 5]);
    check!(u8, "MPI_UNSIGNED_CHAR", Max, [255, 5], [1, 6], [255, 6]);
    check!(u64, "MPI_UNSIGNED_LONG", Min, [u64::MAX, 5], [1, 6], [1, 5]);
    check!(i64, "MPI_AINT", Min, [-1, 5], [1, -6], [-1, -6]);
    check!(i128, "MPI_INTEGER16", Prod, [1i128 << 80], [-3], [-3i128 << 80]);
    check!(f32, "MPI_FLOAT", Sum, [1.5, -2.0], [0.25, 2.0], [1.75, 0.0]);
    check!(f64, "MPI_DOUBLE", Max, [1.5, -2.0], [0.25, 2.0], [1.5, 2.0]);
    check!(f64, "MPI_DOUBLE_PRECISION", Min, [1.5, -2.0], [0.25, 2.0], [0.25, -2.0]);
    check!(u16, "MPIX_C_FLOAT16", Sum, [0x3c00u16], [0x4000], [0x4200]);
    check!(u16, "MPIX_BFLOAT16", Prod, [0x4000u16], [0x4040], [0x40c0]);
}

#[test]
fn bits_and_truth() {
    check!(u32, "MPI_UNSIGNED", Band, [0b1100u32], [0b1010], [0b1000]);
    check!(i32, "MPI_INT", Bor, [0b1100], [0b1010], [0b1110]);
    check!(u8, "MPI_BYTE", Bxor, [0b1100u8], [0b1010], [0b0110]);
    let (a, b) = ([0, 0, 5, 7], [0, 3, 0, 2]);
    check!(i32, "MPI_INT", Land, a, b, [0, 0, 0, 1]);
    check!(i32, "MPI_LOGICAL", Lor, a, b, [0, 1, 1, 1]);
    check!(i32, "MPI_INT32_T", Lxor, a, b, [0, 1, 1, 0]);
    check!(u8, "MPI_C_BOOL", Lxor, [1u8, 1], [1, 0], [0, 1]);
}

#[test]
fn complex_numbers() {
    let (a, b) = ([1.0f32, 2.0, 0.0, 1.0], [3.0, 4.0, 0.0, 1.0]);
    check!(f32, "MPI_C_COMPLEX", Sum, a, b, [4.0, 6.0, 0.0, 2.0]);
    let (a, b) = ([1.0f64, 2.0, 0.0, 1.0], [3.0, 4.0, 0.0, 1.0]);
    check!(f64, "MPI_DOUBLE_COMPLEX", Prod, a, b, [-5.0, 10.0, -1.0, 0.0]);
}

#[test]
fn the_least_index_of_the_extreme_value() {
    check!(i32, "MPI_2INT", Maxloc, [5, 1, 2, 9, 4, 3], [4, 0, 2, 1, 6, 8], [5, 1, 2, 1, 6, 8]);
    check!(i32, "MPI_2INTEGER", Minloc, [5, 1, 2, 0], [4, 0, 2, 1], [4, 0, 2, 0]);
    check!(f64, "MPI_2DOUBLE_PRECISION", Minloc, [5.0, 1.0], [6.0, 0.0], [5.0, 1.0]);
    let pair = |v: f64, i: i32, gap: bool| {
        let mut b = [0u8; 16];
        b[..8].copy_from_slice(&v.to_ne_bytes());
        b[8..12].copy_from_slice(&i.to_ne_bytes());
        b[12..].fill(0xaa);
        b[..if gap { 16 } else { 12 }].to_vec()
    };
    // The last pair has no gap behind it.
    let a = [pair(1.0, 7, true), pair(-3.0, 2, false)].concat();
    let b = [pair(1.0, 4, true), pair(-2.0, 1, false)].concat();
    let want = [pair(1.0, 4, true), pair(-3.0, 2, false)].concat();
    assert_eq!(combined(Builtin::Minloc, "MPI_DOUBLE_INT", &a, &b), want);
}

#[test]
fn every_operation_works_where_mpi_allows_it_and_is_refused_elsewhere() {
    let mut works = 0;
    for (b, op) in BASICS.iter().flat_map(|b| Builtin::ALL.map(|op| (b, op))) {
        match kernel(op, b) {
            Ok(k) => {
                assert!(op.takes(b.kind), "{op:?} on {}", b.name);
                let mut inout = vec![0; 3 * b.extent()];
                k.combine(&vec![0; 3 * b.extent()], &mut inout);
                works += 1;
            }
            Err(e) => {
                assert_eq!(e.class, Class::OP);
                assert!(!op.takes(b.kind), "{op:?} on {}: {e:?}", b.name);
            }
        }
    }
    assert!(works > 250, "{works}");
    assert!(!Builtin::Land.takes(Kind::Float) && !Builtin::Sum.takes(Kind::Logical));
}

/// Random elements behind one byte. Floats are finite: which of two that are no numbers is the
/// result is left to the processor.
fn random(basic: &Basic, count: usize, seed: &mut u64) -> Vec<u8> {
    let byte = |_| {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        (*seed >> 24) as u8
    };
    let mut all: Vec<u8> = (0..count * basic.extent() + 1).map(byte).collect();
    let part = match basic.kind {
        Kind::Float => basic.extent(),
        Kind::Complex => basic.extent() / 2,
        _ => return all,
    };
    // The highest bit of the exponent.
    all[1..].chunks_mut(part).for_each(|value| value[part - 1] &= !0x40);
    all
}

#[test]
fn all_vectors_give_the_same_bits_in_place_and_apart() {
    let mut seed = 0x9e37_79b9_7f4a_7c15;
    let mut longer = 0;
    for (b, op) in BASICS.iter().flat_map(|b| Builtin::ALL.map(|op| (b, op))) {
        // Whole vectors and less, from an odd address on.
        for count in [1, 7, 64, 331] {
            let (left, right) = (random(b, count, &mut seed), random(b, count, &mut seed));
            let Ok(common) = kernel_with(op, b, Vectors::Common) else { continue };
            let mut want = right.clone();
            common.combine(&left[1..], &mut want[1..]);
            for vectors in Vectors::all() {
                let k = kernel_with(op, b, vectors).unwrap();
                let what = || format!("{op:?} on {count} of {} with {vectors:?}", b.name);
                let mut got = right.clone();
                k.combine(&left[1..], &mut got[1..]);
                assert!(got == want, "{}", what());
                let mut apart = vec![0; right.len()];
                k.combine_into(&left[1..], &right[1..], &mut apart[1..]);
                assert!(apart[1..] == want[1..], "{}, apart", what());
                longer += usize::from(vectors != Vectors::Common);
            }
        }
    }
    assert_eq!(longer > 0, Vectors::longest() != Vectors::Common);
}

#[test]
fn handles_are_mpichs() {
    for (i, op) in Builtin::ALL.iter().enumerate() {
        assert_eq!(op.handle().0, 0x5800_0001 + i as u32);
        assert_eq!(Builtin::of(op.handle()), Some(*op));
    }
    assert_eq!(Builtin::Sum.handle().0, 0x5800_0003);
    assert_eq!(Builtin::of(crate::handle::Op(0x5800_0000)), None);
    assert_eq!(Builtin::of(crate::handle::Op(0x5800_000f)), None);
    assert!(Operation::Builtin(Builtin::Sum).is_commutative());
}
