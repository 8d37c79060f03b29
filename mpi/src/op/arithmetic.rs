//! Loops of the operations over numbers and truth values.

use core::marker::PhantomData;

use super::f128::F128;
use super::half::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use super::wide::{self, Loop, Vectors};
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
    /// True if the processor has vectors of such values.
    const IN_VECTORS: bool;
}

macro_rules! values {
    ($($t:ty),*) => {$(
        impl Value for $t {
            const SIZE: usize = size_of::<$t>();
            const IN_VECTORS: bool = size_of::<$t>() <= 8;
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
    const IN_VECTORS: bool = true;
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
    const IN_VECTORS: bool = false;
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
    const IN_VECTORS: bool = false;
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

/// A loop that combines elements of a type by an operation.
struct Each<T, O>(PhantomData<(T, O)>);

impl<T: Value, O: Combine<T>> Loop for Each<T, O> {
    #[inline(always)]
    fn in_place(input: &[u8], inout: &mut [u8]) {
        for (a, b) in input.chunks_exact(T::SIZE).zip(inout.chunks_exact_mut(T::SIZE)) {
            O::combine(T::load(a), T::load(b)).store(b);
        }
    }

    #[inline(always)]
    fn apart(left: &[u8], right: &[u8], result: &mut [u8]) {
        let operands = left.chunks_exact(T::SIZE).zip(right.chunks_exact(T::SIZE));
        for ((a, b), c) in operands.zip(result.chunks_exact_mut(T::SIZE)) {
            O::combine(T::load(a), T::load(b)).store(c);
        }
    }
}

/// An operation on two elements.
trait Combine<T> {
    fn combine(x: T, y: T) -> T;
}

/// Writes operations on elements that have a trait.
macro_rules! operations {
    ($trait:ident; $($name:ident: |$x:ident, $y:ident| $result:expr;)*) => {$(
        struct $name;

        impl<T: $trait> Combine<T> for $name {
            #[inline(always)]
            fn combine($x: T, $y: T) -> T {
                $result
            }
        }
    )*};
}

operations! {
    Number;
    Sum: |x, y| x.plus(y);
    Product: |x, y| x.times(y);
    Max: |x, y| if x.exceeds(y) { x } else { y };
    Min: |x, y| if y.exceeds(x) { x } else { y };
}

operations! {
    Bits;
    BitAnd: |x, y| x.and(y);
    BitOr: |x, y| x.or(y);
    BitXor: |x, y| x.xor(y);
    And: |x, y| T::truth(x.is_true() & y.is_true());
    Or: |x, y| T::truth(x.is_true() | y.is_true());
    Xor: |x, y| T::truth(x.is_true() ^ y.is_true());
}

/// A complex number: real and imaginary part.
#[derive(Clone, Copy)]
struct Complex<T>(T, T);

impl<T: Value> Value for Complex<T> {
    const SIZE: usize = 2 * T::SIZE;
    const IN_VECTORS: bool = T::IN_VECTORS;
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

struct ComplexProduct;

impl<T: Number> Combine<Complex<T>> for ComplexProduct {
    #[inline(always)]
    fn combine(x: Complex<T>, y: Complex<T>) -> Complex<T> {
        Complex(x.0.times(y.0).minus(x.1.times(y.1)), x.0.times(y.1).plus(x.1.times(y.0)))
    }
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

/// The maker of the loops of one operation, with vectors of which some are longer.
#[derive(Clone, Copy)]
struct Loops {
    op: Builtin,
    vectors: Vectors,
}

impl Loops {
    fn of<T: Value, O: Combine<T>>(self) -> Kernel {
        wide::kernel::<Each<T, O>>(if T::IN_VECTORS { self.vectors } else { Vectors::Common })
    }

    fn bits<T: Bits>(self) -> Option<Kernel> {
        Some(match self.op {
            Builtin::Band => self.of::<T, BitAnd>(),
            Builtin::Bor => self.of::<T, BitOr>(),
            Builtin::Bxor => self.of::<T, BitXor>(),
            Builtin::Land => self.of::<T, And>(),
            Builtin::Lor => self.of::<T, Or>(),
            Builtin::Lxor => self.of::<T, Xor>(),
            _ => return None,
        })
    }

    fn number<T: Number>(self) -> Option<Kernel> {
        Some(match self.op {
            Builtin::Sum => self.of::<T, Sum>(),
            Builtin::Prod => self.of::<T, Product>(),
            Builtin::Max => self.of::<T, Max>(),
            Builtin::Min => self.of::<T, Min>(),
            _ => return None,
        })
    }

    fn complex<T: Number>(self) -> Option<Kernel> {
        Some(match self.op {
            // The sum of the parts.
            Builtin::Sum => self.of::<T, Sum>(),
            Builtin::Prod => self.of::<Complex<T>, ComplexProduct>(),
            _ => return None,
        })
    }

    fn integer<T: Number, B: Bits>(self) -> Option<Kernel> {
        self.number::<T>().or_else(|| self.bits::<B>())
    }
}

/// Returns the loop of an operation over values that are read in this way.
pub(super) fn kernel(op: Builtin, repr: Repr, vectors: Vectors) -> Option<Kernel> {
    let loops = Loops { op, vectors };
    match repr {
        Repr::I8 => loops.integer::<i8, u8>(),
        Repr::I16 => loops.integer::<i16, u16>(),
        Repr::I32 => loops.integer::<i32, u32>(),
        Repr::I64 => loops.integer::<i64, u64>(),
        Repr::I128 => loops.integer::<i128, u128>(),
        Repr::U8 => loops.integer::<u8, u8>(),
        Repr::U16 => loops.integer::<u16, u16>(),
        Repr::U32 => loops.integer::<u32, u32>(),
        Repr::U64 => loops.integer::<u64, u64>(),
        Repr::U128 => loops.integer::<u128, u128>(),
        Repr::F16 => loops.number::<Half<false>>(),
        Repr::Bf16 => loops.number::<Half<true>>(),
        Repr::F32 => loops.number::<f32>(),
        Repr::F64 => loops.number::<f64>(),
        Repr::F80 if F80::WORKS => loops.number::<F80>(),
        Repr::F128 => loops.number::<F128>(),
        Repr::ComplexF16 => loops.complex::<Half<false>>(),
        Repr::ComplexF32 => loops.complex::<f32>(),
        Repr::ComplexF64 => loops.complex::<f64>(),
        Repr::ComplexF80 if F80::WORKS => loops.complex::<F80>(),
        Repr::ComplexF128 => loops.complex::<F128>(),
        _ => None,
    }
}
