//! 16-bit floating point numbers, by way of `f32`.

/// Converts IEEE 754 binary16.
#[inline]
pub(super) fn f16_to_f32(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let (exponent, fraction) = (u32::from(bits >> 10 & 0x1f), u32::from(bits & 0x3ff));
    let magnitude = match exponent {
        // Zero and subnormal numbers: the fraction in units of 2^-24.
        0 => (fraction as f32 * (1.0 / 16_777_216.0)).to_bits(),
        31 => 0x7f80_0000 | fraction << 13,
        _ => (exponent + 112) << 23 | fraction << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// Rounds `value >> by` to the nearest, halves to even.
#[inline]
fn rounded_shift(value: u32, by: u32) -> u32 {
    let (kept, lost, half) = (value >> by, value & ((1 << by) - 1), 1 << (by - 1));
    kept + u32::from(lost > half || lost == half && kept & 1 == 1)
}

/// Converts to IEEE 754 binary16, rounding to the nearest.
#[inline]
pub(super) fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    let (exponent, fraction) = (magnitude >> 23, magnitude & 0x7f_ffff);
    let half = match exponent {
        255 if fraction != 0 => 0x7e00,
        // Overflow is infinite; what rounds up to 2^16 carries into the exponent below.
        143.. => 0x7c00,
        113.. => rounded_shift((exponent - 112) << 23 | fraction, 13),
        // Subnormal: units of 2^-24. Less than half of one is zero.
        102.. => rounded_shift(fraction | 0x80_0000, 126 - exponent),
        _ => 0,
    };
    sign | half as u16
}

/// Converts bfloat16.
#[inline]
pub(super) fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Converts to bfloat16, rounding to the nearest.
#[inline]
pub(super) fn f32_to_bf16(value: f32) -> u16 {
    if value.is_nan() {
        return (value.to_bits() >> 16) as u16 | 0x40;
    }
    rounded_shift(value.to_bits(), 16) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives_the_way_there_and_back() {
        for bits in 0..=u16::MAX {
            let (f, b) = (f16_to_f32(bits), bf16_to_f32(bits));
            if f.is_nan() {
                assert!(f16_to_f32(f32_to_f16(f)).is_nan());
            } else {
                assert_eq!(f32_to_f16(f), bits, "{bits:#x} is {f}");
            }
            if b.is_nan() {
                assert!(bf16_to_f32(f32_to_bf16(b)).is_nan());
            } else {
                assert_eq!(f32_to_bf16(b), bits, "{bits:#x} is {b}");
            }
        }
    }

    #[test]
    fn between_two_halves_the_nearest_is_taken_and_the_even_one_of_two() {
        for bits in 0..0x7c00u16 {
            let (low, high) = (f16_to_f32(bits), f16_to_f32(bits + 1));
            if high.is_infinite() {
                // 65504, and the first number that rounds to infinity.
                assert_eq!((low, f32_to_f16(65519.0), f32_to_f16(65520.0)), (65504.0, bits, bits + 1));
                continue;
            }
            let middle = (low + high) / 2.0;
            assert_eq!(f32_to_f16(middle), bits + (bits & 1), "{middle}");
            assert_eq!(f32_to_f16(f32::from_bits(middle.to_bits() - 1)), bits, "below {middle}");
            assert_eq!(f32_to_f16(f32::from_bits(middle.to_bits() + 1)), bits + 1, "above {middle}");
        }
        assert_eq!(f32_to_f16(-1e9), 0xfc00);
        assert_eq!(f32_to_bf16(1.0 + 1.0 / 256.0), 0x3f80);
        assert_eq!(f32_to_bf16(1.0 + 3.0 / 256.0), 0x3f82);
    }
}
