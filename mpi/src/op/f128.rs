//! IEEE 754 binary128, Fortran's `REAL(16)`, which no common processor computes with.
//!
//! Numbers are taken apart, computed with in integers, and rounded to the nearest, halves to even.

/// A number of 128 bits: sign, 15 bits of exponent, 112 of fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct F128(pub u128);

const SIGN: u128 = 1 << 127;
const FRACTION: u32 = 112;
/// The exponent of infinity, and of what is no number.
const TOP: i32 = 0x7fff;
const BIAS: i32 = 0x3fff;
const INFINITY: u128 = (TOP as u128) << FRACTION;
const NAN: u128 = INFINITY | 1 << (FRACTION - 1);
/// Bits below the fraction while a result is not rounded: guard, round, sticky.
const EXTRA: u32 = 3;

/// A finite number: `mantissa` in units of 2^(`exponent` - BIAS - FRACTION).
struct Parts {
    negative: bool,
    exponent: i32,
    mantissa: u128,
}

/// Shifts right; a lost bit stays as the lowest one.
fn sticky_shift(value: u128, by: u32) -> u128 {
    match by {
        0 => value,
        1..=127 => value >> by | u128::from(value << (128 - by) != 0),
        _ => u128::from(value != 0),
    }
}

/// Returns the 256 bits of a product, the upper half first.
fn wide_product(a: u128, b: u128) -> (u128, u128) {
    let low = |v: u128| v & u128::from(u64::MAX);
    let (ah, al, bh, bl) = (a >> 64, low(a), b >> 64, low(b));
    let (ll, lh, hl, hh) = (al * bl, al * bh, ah * bl, ah * bh);
    let middle = (ll >> 64) + low(lh) + low(hl);
    (hh + (lh >> 64) + (hl >> 64) + (middle >> 64), middle << 64 | low(ll))
}

impl F128 {
    fn magnitude(self) -> u128 {
        self.0 & !SIGN
    }

    fn is_negative(self) -> bool {
        self.0 & SIGN != 0
    }

    fn is_nan(self) -> bool {
        self.magnitude() > INFINITY
    }

    fn is_infinite(self) -> bool {
        self.magnitude() == INFINITY
    }

    fn parts(self) -> Parts {
        let exponent = (self.magnitude() >> FRACTION) as i32;
        let fraction = self.0 & ((1 << FRACTION) - 1);
        // Subnormal numbers have the least exponent and no leading bit.
        let leading = if exponent == 0 { 0 } else { 1 << FRACTION };
        Parts { negative: self.is_negative(), exponent: exponent.max(1), mantissa: fraction | leading }
    }

    /// Rounds a result whose mantissa has [`EXTRA`] more bits.
    fn rounded(negative: bool, mut exponent: i32, mut mantissa: u128) -> F128 {
        let sign = if negative { SIGN } else { 0 };
        if mantissa == 0 {
            return F128(sign);
        }
        let top = FRACTION + EXTRA;
        let by = mantissa.ilog2() as i32 - top as i32;
        if by > 0 {
            mantissa = sticky_shift(mantissa, by.cast_unsigned());
        } else {
            mantissa <<= -by;
        }
        exponent += by;
        if exponent < 1 {
            mantissa = sticky_shift(mantissa, (1 - exponent).cast_unsigned());
            exponent = 1;
        }
        let lost = mantissa & ((1 << EXTRA) - 1);
        let mut kept = mantissa >> EXTRA;
        let half = 1 << (EXTRA - 1);
        kept += u128::from(lost > half || lost == half && kept & 1 == 1);
        // A carry makes the fraction 0 and the exponent one more, as it should.
        let biased = if kept >> FRACTION == 0 { 0 } else { exponent - 1 };
        let bits = (biased.cast_unsigned() as u128) << FRACTION;
        F128(sign | (bits + kept).min(INFINITY))
    }

    /// Returns it with the other sign.
    pub(super) fn negated(self) -> F128 {
        F128(self.0 ^ SIGN)
    }

    /// Returns the sum.
    pub(super) fn sum(self, other: F128) -> F128 {
        if self.is_nan() || other.is_nan() || self.is_infinite() && other == self.negated() {
            return F128(NAN);
        }
        if self.is_infinite() || other.is_infinite() {
            return if self.is_infinite() { self } else { other };
        }
        let (mut a, mut b) = (self.parts(), other.parts());
        if a.exponent < b.exponent || a.exponent == b.exponent && a.mantissa < b.mantissa {
            core::mem::swap(&mut a, &mut b);
        }
        let distance = (a.exponent - b.exponent).cast_unsigned();
        let (x, y) = (a.mantissa << EXTRA, sticky_shift(b.mantissa << EXTRA, distance));
        if a.negative == b.negative {
            return F128::rounded(a.negative, a.exponent, x + y);
        }
        // A difference that is exactly nothing is positive.
        F128::rounded(a.negative && x != y, a.exponent, x - y)
    }

    /// Returns the product.
    pub(super) fn product(self, other: F128) -> F128 {
        let negative = self.is_negative() != other.is_negative();
        let nothing = |v: F128| v.magnitude() == 0;
        if self.is_nan() || other.is_nan() {
            return F128(NAN);
        }
        if self.is_infinite() || other.is_infinite() {
            let of_zero = nothing(self) || nothing(other);
            return F128(if of_zero { NAN } else { INFINITY | u128::from(negative) << 127 });
        }
        let (a, b) = (self.parts(), other.parts());
        let (high, low) = wide_product(a.mantissa, b.mantissa);
        // The product has up to 226 bits: the upper 128 are kept, with a sticky one.
        let zeros = if high == 0 { 128 + low.leading_zeros() } else { high.leading_zeros() };
        if zeros >= 256 {
            return F128::rounded(negative, 1, 0);
        }
        let (mantissa, shifted) = match zeros {
            0 => (high | u128::from(low != 0), 128),
            1..=127 => {
                let all = high << zeros | low >> (128 - zeros);
                (all | u128::from(low << zeros != 0), 128 - zeros as i32)
            }
            _ => (low << (zeros - 128), 128 - zeros as i32),
        };
        // In units of the product, then of a mantissa with its extra bits.
        let exponent = a.exponent + b.exponent - BIAS - FRACTION as i32 + shifted + EXTRA as i32;
        F128::rounded(negative, exponent, mantissa)
    }

    /// Returns true if it is greater than another; false if one is not a number.
    pub(super) fn is_greater(self, other: F128) -> bool {
        let (a, b) = (self.magnitude(), other.magnitude());
        if self.is_nan() || other.is_nan() {
            return false;
        }
        match (self.is_negative(), other.is_negative()) {
            (false, false) => a > b,
            (true, true) => a < b,
            // Zeros are equal, whatever their signs.
            (false, true) => a | b != 0,
            (true, false) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Converts a double, whose value it keeps.
    fn f128(v: f64) -> F128 {
        let bits = v.to_bits();
        let (sign, exponent, fraction) = (bits >> 63, bits >> 52 & 0x7ff, bits & ((1 << 52) - 1));
        let (exponent, fraction) = match exponent {
            0 if fraction == 0 => (0, 0),
            0 => {
                let zeros = fraction.leading_zeros() - 11;
                (15360 + 1 - u64::from(zeros), fraction << zeros & ((1 << 52) - 1))
            }
            0x7ff => (0x7fff, fraction),
            e => (e + 15360, fraction),
        };
        F128(u128::from(sign) << 127 | u128::from(exponent) << 112 | u128::from(fraction) << 60)
    }

    /// Converts an integer, rounding to the nearest.
    fn of_int(v: i128) -> F128 {
        let magnitude = v.unsigned_abs();
        if magnitude == 0 {
            return F128(0);
        }
        let top = magnitude.ilog2();
        let (mut kept, mut exponent) = (magnitude, i128::from(top) + 0x3fff);
        if top > 112 {
            let by = top - 112;
            let (lost, half) = (magnitude & ((1 << by) - 1), 1u128 << (by - 1));
            kept = magnitude >> by;
            kept += u128::from(lost > half || lost == half && kept & 1 == 1);
            if kept >> 113 == 1 {
                kept >>= 1;
                exponent += 1;
            }
        } else {
            kept <<= 112 - top;
        }
        let sign = if v < 0 { SIGN } else { 0 };
        F128(sign | (exponent as u128) << 112 | kept & ((1 << 112) - 1))
    }

    #[test]
    fn arithmetic_is_that_of_integers_rounded_once() {
        let mut x = 0x1234_5678_9abc_def1u64;
        let mut next = |bits: u32| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            let v = (i128::from(x >> 1) * i128::from(x | 1)) >> (126 - bits);
            if x & 2 == 0 { v } else { -v }
        };
        for round in 0..20_000 {
            let (p, q) = (10 + round % 53, 10 + round / 53 % 53);
            let (a, b) = (next(p), next(q));
            // Integers have no negative zero.
            if a != 0 && b != 0 {
                assert_eq!(of_int(a).product(of_int(b)), of_int(a * b), "{a} * {b}");
            }
            let (a, b) = (next(p * 2), next(q * 2));
            // The operands are exact up to 113 bits.
            if a.unsigned_abs() >> 113 == 0 && b.unsigned_abs() >> 113 == 0 {
                assert_eq!(of_int(a).sum(of_int(b)), of_int(a + b), "{a} + {b}");
                assert_eq!(of_int(a).is_greater(of_int(b)), a > b);
            }
        }
    }

    #[test]
    fn special_values_are_ieees() {
        let values = [0.0, -0.0, 1.0, -1.5, 1e300, -1e-300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        for (a, b) in values.iter().flat_map(|a| values.iter().map(move |b| (*a, *b))) {
            let same = |got: F128, want: f64, exact: bool| {
                if want.is_nan() {
                    assert!(got.is_nan(), "{a}, {b}");
                } else if exact {
                    assert_eq!(got, f128(want), "{a}, {b}");
                }
            };
            // Results that a double holds exactly, or special ones.
            let special = |v: f64| v == 0.0 || v.is_infinite();
            let plain = |v: f64| special(v) || v.abs() < 2.0 && v.abs() > 0.5;
            same(f128(a).sum(f128(b)), a + b, plain(a) && plain(b));
            same(f128(a).product(f128(b)), a * b, plain(a) && plain(b));
            assert_eq!(f128(a).is_greater(f128(b)), a > b, "{a} > {b}");
        }
        assert_eq!(f128(1.0).sum(f128(-1.0)), F128(0), "nothing is positive");
        assert_eq!(f128(-0.0).sum(f128(-0.0)), f128(-0.0));
    }

    #[test]
    fn the_least_and_the_greatest_numbers() {
        let (least, greatest) = (F128(1), F128(INFINITY - 1));
        assert_eq!(least.sum(least), F128(2));
        assert_eq!(least.product(f128(0.5)), F128(0), "half of it goes to even");
        assert_eq!(F128(3).product(f128(0.5)), F128(2), "and so does this");
        assert_eq!(least.product(f128(0.75)), least);
        assert_eq!(greatest.sum(greatest), F128(INFINITY));
        assert_eq!(greatest.product(f128(-2.0)), F128(INFINITY | SIGN));
        // The least normal number, and the one below it.
        let normal = F128(1 << FRACTION);
        assert_eq!(normal.sum(least.negated()), F128((1 << FRACTION) - 1));
        assert_eq!(F128((1 << FRACTION) - 1).sum(least), normal);
        assert_eq!(normal.product(f128(0.5)), F128(1 << (FRACTION - 1)));
        assert_eq!(greatest.sum(least), greatest);
    }
}
