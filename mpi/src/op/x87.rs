//! x87's 80-bit format, which C calls `long double` on x86 and Rust has no type for.

#![allow(unsafe_code)]

/// A number of 80 bits in 16 bytes; the other 6 mean nothing.
#[derive(Clone, Copy)]
pub(super) struct F80(pub u128);

const SIGN: u128 = 1 << 79;

impl F80 {
    /// True if this machine has the arithmetic.
    pub(super) const WORKS: bool = cfg!(target_arch = "x86_64");

    /// Returns it with the other sign.
    #[inline]
    pub(super) fn negated(self) -> F80 {
        F80(self.0 ^ SIGN)
    }

    fn magnitude(self) -> u128 {
        self.0 & (SIGN - 1)
    }

    fn is_nan(self) -> bool {
        self.magnitude() >> 64 == 0x7fff && self.magnitude() << 65 != 0
    }

    /// Returns true if it is greater than another; false if one is not a number.
    #[inline]
    pub(super) fn is_greater(self, other: F80) -> bool {
        let (a, b) = (self.magnitude(), other.magnitude());
        if self.is_nan() || other.is_nan() {
            return false;
        }
        match (self.0 & SIGN != 0, other.0 & SIGN != 0) {
            (false, false) => a > b,
            (true, true) => a < b,
            // Zeros are equal, whatever their signs.
            (false, true) => a | b != 0,
            (true, false) => false,
        }
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! two_operands {
    ($name:ident, $instruction:literal) => {
        #[inline]
        pub(super) fn $name(self, other: F80) -> F80 {
            let mut result = 0u128;
            // SAFETY: the instructions read 10 of the 16 bytes at each operand and write 10 of the
            // 16 at the result, and leave the x87 stack as they found it, empty at their start as
            // the C interface has it.
            unsafe {
                core::arch::asm!(
                    "fld tbyte ptr [{a}]",
                    "fld tbyte ptr [{b}]",
                    $instruction,
                    "fstp tbyte ptr [{result}]",
                    a = in(reg) &self.0,
                    b = in(reg) &other.0,
                    result = in(reg) &mut result,
                    out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                    out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                    options(nostack),
                );
            }
            F80(result)
        }
    };
}

#[cfg(target_arch = "x86_64")]
impl F80 {
    two_operands!(sum, "faddp st(1), st");
    two_operands!(product, "fmulp st(1), st");
}

#[cfg(not(target_arch = "x86_64"))]
impl F80 {
    /// Never called: [`F80::WORKS`] is false.
    pub(super) fn sum(self, _other: F80) -> F80 {
        self
    }

    /// Never called: [`F80::WORKS`] is false.
    pub(super) fn product(self, _other: F80) -> F80 {
        self
    }
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::F80;

    /// Converts a double, whose value it keeps.
    fn f80(v: f64) -> F80 {
        let bits = v.to_bits();
        let (sign, exponent, fraction) = (bits >> 63, bits >> 52 & 0x7ff, bits & ((1 << 52) - 1));
        let (exponent, mantissa) = match exponent {
            0 => (0, 0),
            0x7ff => (0x7fff, 1 << 63 | fraction << 11),
            e => (e + 15360, 1 << 63 | fraction << 11),
        };
        F80(u128::from(sign) << 79 | u128::from(exponent) << 64 | u128::from(mantissa))
    }

    #[test]
    fn arithmetic_is_that_of_doubles_where_these_are_exact() {
        let values = [0.0, -0.0, 1.0, -1.0, 1.5, 3.0, -7.25, 1e10, 0.125, f64::INFINITY];
        for (a, b) in values.iter().flat_map(|a| values.iter().map(move |b| (*a, *b))) {
            let (x, y) = (f80(a), f80(b));
            assert_eq!(x.sum(y).0, f80(a + b).0, "{a} + {b}");
            if !(a * b).is_nan() {
                assert_eq!(x.product(y).0, f80(a * b).0, "{a} * {b}");
            }
            assert_eq!(x.is_greater(y), a > b, "{a} > {b}");
            assert_eq!(x.negated().0, f80(-a).0);
        }
        assert!(!f80(f64::NAN).is_greater(f80(1.0)) && !f80(1.0).is_greater(f80(f64::NAN)));
    }

    #[test]
    fn it_has_more_digits_than_doubles() {
        let tiny = f80(2f64.powi(-60));
        let sum = f80(1.0).sum(tiny);
        assert!(sum.is_greater(f80(1.0)));
        assert_eq!(sum.sum(f80(-1.0)).0, tiny.0);
    }
}
