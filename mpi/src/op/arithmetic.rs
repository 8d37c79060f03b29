//! Loops of the operations over numbers and truth values.

use super::f128::F128;
use super::half::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use super::x87::F80;
use super::{Builtin, Kernel};
use crate::datatype::basic::Repr;

/// A value that is kept as bytes.
trait Value: Copy {
    /// Reads one.
    fn load(bytes: &[u8]) -> Self;
    /// Writes it.
    fn store(self, bytes: &mut [u8]);
    const SIZE: usize;
}

macro_rules! values {
    ($($t:ty),*) => {$(
        impl Value for $t {
            const SIZE: usize = size_of::<$t>();
            #[inline(always)]
            fn load(bytes: &[u8]) -> $t {
                let mut one = [0; size_of::<$t>()];
                one.copy_from_slice(bytes);
                <$t>::from_ne_bytes(one)
            }
            #[inline(always)]
            fn store(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }
        }
    )*};
}

values!(i8, i16, i32, i64, i128, u8, u16, u32, u64, u128, f32, f64);

/// A number that is computed with as `f32`.
#[derive(Clone, Copy)]
struct Half<const BRAIN: bool>(f32);

impl<const BRAIN: bool> Value for Half<BRAIN> {
    const SIZE: usize = 2;
    #[inline(always)]
    fn load(bytes: &[u8]) -> Self {
        let bits = u16::load(bytes);
        Half(if BRAIN { bf16_to_f32(bits) } else { f16_to_f32(bits) })
    }
    #[inline(always)]
    fn store(self, bytes: &mut [u8]) {
        (if BRAIN { f32_to_bf16(self.0) } else { f32_to_f16(self.0) }).store(bytes);
    }
}

impl Value for F80 {
    const SIZE: usize = 16;
    #[inline(always)]
    fn load(bytes: &[u8]) -> F80 {
        F80(u128::load(bytes))
    }
    #[inline(always)]
    fn store(self, bytes: &mut [u8]) {
        self.0.store(bytes);
    }
}

impl Value for F128 {
    const SIZE: usize = 16;
    #[inline(always)]
    fn load(bytes: &[u8]) -> F128 {
        F128(u128::load(bytes))
    }
    #[inline(always)]
    fn store(self, bytes: &mut [u8]) {
        self.0.store(bytes);
    }
}

/// The arithmetic of integers wraps, that of floats is the machine's.
trait Number: Value {
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn exceeds(self, other: Self) -> bool;
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Number for $t {
            #[inline(always)]
            fn plus(self, other: $t) -> $t { self.wrapping_add(other) }
            #[inline(always)]
            fn times(self, other: $t) -> $t { self.wrapping_mul(other) }
            #[inline(always)]
            fn minus(self, other: $t) -> $t { self.wrapping_sub(other) }
            #[inline(always)]
            fn exceeds(self, other: $t) -> bool { self > other }
        }
    )*};
}

integers!(i8, i16, i32, i64, i128, u8, u16, u32, u64, u128);

macro_rules! floats {
    ($($t:ty),*) => {$(
        impl Number for $t {
            #[inline(always)]
            fn plus(self, other: $t) -> $t { self + other }
            #[inline(always)]
            fn times(self, other: $t) -> $t { self * other }
            #[inline(always)]
            fn minus(self, other: $t) -> $t { self - other }
            #[inline(always)]
            fn exceeds(self, other: $t) -> bool { self > other }
        }
    )*};
}

floats!(f32, f64);

impl<const BRAIN: bool> Number for Half<BRAIN> {
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Half(self.0 + other.0)
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        Half(self.0 * other.0)
    }
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        Half(self.0 - other.0)
    }
    #[inline(always)]
    fn exceeds(self, other: Self) -> bool {
        self.0 > other.0
    }
}

impl Number for F80 {
    #[inline(always)]
    fn plus(self, other: F80) -> F80 {
        self.sum(other)
    }
    #[inline(always)]
    fn times(self, other: F80) -> F80 {
        self.product(other)
    }
    #[inline(always)]
    fn minus(self, other: F80) -> F80 {
        self.sum(other.negated())
    }
    #[inline(always)]
    fn exceeds(self, other: F80) -> bool {
        self.is_greater(other)
    }
}

impl Number for F128 {
    #[inline(always)]
    fn plus(self, other: F128) -> F128 {
        self.sum(other)
    }
    #[inline(always)]
    fn times(self, other: F128) -> F128 {
        self.product(other)
    }
    #[inline(always)]
    fn minus(self, other: F128) -> F128 {
        self.sum(other.negated())
    }
    #[inline(always)]
    fn exceeds(self, other: F128) -> bool {
        self.is_greater(other)
    }
}

/// Combines the elements of two arrays.
#[inline(always)]
fn each<T: Value>(input: &[u8], inout: &mut [u8], f: impl Fn(T, T) -> T) {
    let pairs = input.chunks_exact(T::SIZE).zip(inout.chunks_exact_mut(T::SIZE));
    for (a, b) in pairs {
        f(T::load(a), T::load(b)).store(b);
    }
}

fn sum<T: Number>(a: &[u8], b: &mut [u8]) {
    each::<T>(a, b, T::plus);
}

fn product<T: Number>(a: &[u8], b: &mut [u8]) {
    each::<T>(a, b, T::times);
}

fn max<T: Number>(a: &[u8], b: &mut [u8]) {
    each::<T>(a, b, |x, y| if x.exceeds(y) { x } else { y });
}

fn min<T: Number>(a: &[u8], b: &mut [u8]) {
    each::<T>(a, b, |x, y| if y.exceeds(x) { x } else { y });
}

/// A complex number: real and imaginary part.
#[derive(Clone, Copy)]
struct Complex<T>(T, T);

impl<T: Value> Value for Complex<T> {
    const SIZE: usize = 2 * T::SIZE;
    #[inline(always)]
    fn load(bytes: &[u8]) -> Self {
        let (re, im) = bytes.split_at(T::SIZE);
        Complex(T::load(re), T::load(im))
    }
    #[inline(always)]
    fn store(self, bytes: &mut [u8]) {
        let (re, im) = bytes.split_at_mut(T::SIZE);
        self.0.store(re);
        self.1.store(im);
    }
}

fn complex_product<T: Number>(a: &[u8], b: &mut [u8]) {
    each::<Complex<T>>(a, b, |x, y| {
        Complex(x.0.times(y.0).minus(x.1.times(y.1)), x.0.times(y.1).plus(x.1.times(y.0)))
    });
}

/// Bits and truth values, which only depend on the size.
trait Bits: Value {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn is_true(self) -> bool;
    fn truth(v: bool) -> Self;
}

macro_rules! bits {
    ($($t:ty),*) => {$(
        impl Bits for $t {
            #[inline(always)]
            fn and(self, other: $t) -> $t { self & other }
            #[inline(always)]
            fn or(self, other: $t) -> $t { self | other }
            #[inline(always)]
            fn xor(self, other: $t) -> $t { self ^ other }
            #[inline(always)]
            fn is_true(self) -> bool { self != 0 }
            #[inline(always)]
            fn truth(v: bool) -> $t { <$t>::from(v) }
        }
    )*};
}

bits!(u8, u16, u32, u64, u128);

fn of_bits<T: Bits>(op: Builtin) -> Option<Kernel> {
    Some(match op {
        Builtin::Band => |a, b| each::<T>(a, b, T::and),
        Builtin::Bor => |a, b| each::<T>(a, b, T::or),
        Builtin::Bxor => |a, b| each::<T>(a, b, T::xor),
        Builtin::Land => |a, b| each::<T>(a, b, |x, y| T::truth(x.is_true() & y.is_true())),
        Builtin::Lor => |a, b| each::<T>(a, b, |x, y| T::truth(x.is_true() | y.is_true())),
        Builtin::Lxor => |a, b| each::<T>(a, b, |x, y| T::truth(x.is_true() ^ y.is_true())),
        _ => return None,
    })
}

fn of_number<T: Number>(op: Builtin) -> Option<Kernel> {
    Some(match op {
        Builtin::Sum => sum::<T>,
        Builtin::Prod => product::<T>,
        Builtin::Max => max::<T>,
        Builtin::Min => min::<T>,
        _ => return None,
    })
}

fn of_complex<T: Number>(op: Builtin) -> Option<Kernel> {
    Some(match op {
        // The sum of the parts.
        Builtin::Sum => sum::<T>,
        Builtin::Prod => complex_product::<T>,
        _ => return None,
    })
}

fn of_integer<T: Number, B: Bits>(op: Builtin) -> Option<Kernel> {
    of_number::<T>(op).or_else(|| of_bits::<B>(op))
}

/// Returns the loop of an operation over values that are read in this way.
pub(super) fn kernel(op: Builtin, repr: Repr) -> Option<Kernel> {
    match repr {
        Repr::I8 => of_integer::<i8, u8>(op),
        Repr::I16 => of_integer::<i16, u16>(op),
        Repr::I32 => of_integer::<i32, u32>(op),
        Repr::I64 => of_integer::<i64, u64>(op),
        Repr::I128 => of_integer::<i128, u128>(op),
        Repr::U8 => of_integer::<u8, u8>(op),
        Repr::U16 => of_integer::<u16, u16>(op),
        Repr::U32 => of_integer::<u32, u32>(op),
        Repr::U64 => of_integer::<u64, u64>(op),
        Repr::U128 => of_integer::<u128, u128>(op),
        Repr::F16 => of_number::<Half<false>>(op),
        Repr::Bf16 => of_number::<Half<true>>(op),
        Repr::F32 => of_number::<f32>(op),
        Repr::F64 => of_number::<f64>(op),
        Repr::F80 if F80::WORKS => of_number::<F80>(op),
        Repr::F128 => of_number::<F128>(op),
        Repr::ComplexF16 => of_complex::<Half<false>>(op),
        Repr::ComplexF32 => of_complex::<f32>(op),
        Repr::ComplexF64 => of_complex::<f64>(op),
        Repr::ComplexF80 if F80::WORKS => of_complex::<F80>(op),
        Repr::ComplexF128 => of_complex::<F128>(op),
        _ => None,
    }
}
