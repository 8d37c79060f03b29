//! Loops in several versions: with the vectors that every processor of the architecture has, and
//! with longer ones, of which the longest that this processor has are used.
//!
//! All versions are the same code, and combine each pair of elements by the same operations, so
//! they give the same bits. Only where both elements are no numbers (NaN) may another one of them
//! be the result.

#![allow(unsafe_code)]

use super::Kernel;

/// A loop over the elements of arrays, which is compiled into the function that calls it.
pub(super) trait Loop {
    /// Sets `inout` to `input op inout`.
    fn in_place(input: &[u8], inout: &mut [u8]);
    /// Sets `result` to `left op right`.
    fn apart(left: &[u8], right: &[u8], result: &mut [u8]);
}

/// The vectors that a loop is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vectors {
    /// Those of every processor.
    Common,
    /// 32 bytes.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// 64 bytes.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Vectors {
    /// The longest vectors that this processor has.
    pub(super) fn longest() -> Vectors {
        Vectors::all().last().unwrap_or(Vectors::Common)
    }

    /// All that this processor has, the longest last.
    pub(super) fn all() -> impl Iterator<Item = Vectors> {
        #[cfg(target_arch = "x86_64")]
        let all = [(Vectors::Common, true), (Vectors::Avx2, has_avx2()), (Vectors::Avx512, has_avx512())];
        #[cfg(not(target_arch = "x86_64"))]
        let all = [(Vectors::Common, true)];
        all.into_iter().filter(|(_, is_there)| *is_there).map(|(vectors, _)| vectors)
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    has_avx2()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

/// Returns a loop with such vectors, which this processor must have.
pub(super) fn kernel<L: Loop>(vectors: Vectors) -> Kernel {
    match vectors {
        Vectors::Common => Kernel { in_place: L::in_place, apart: Some(L::apart) },
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx2 => {
            assert!(has_avx2(), "a loop with vectors that this processor does not have");
            // SAFETY: the processor has them.
            let (in_place, apart) = (
                |a: &[u8], b: &mut [u8]| unsafe { x86::avx2_in_place::<L>(a, b) },
                |a: &[u8], b: &[u8], c: &mut [u8]| unsafe { x86::avx2_apart::<L>(a, b, c) },
            );
            Kernel { in_place, apart: Some(apart) }
        }
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx512 => {
            assert!(has_avx512(), "a loop with vectors that this processor does not have");
            // SAFETY: the processor has them.
            let (in_place, apart) = (
                |a: &[u8], b: &mut [u8]| unsafe { x86::avx512_in_place::<L>(a, b) },
                |a: &[u8], b: &[u8], c: &mut [u8]| unsafe { x86::avx512_apart::<L>(a, b, c) },
            );
            Kernel { in_place, apart: Some(apart) }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Loop;

    #[target_feature(enable = "avx2")]
    pub(super) fn avx2_in_place<L: Loop>(input: &[u8], inout: &mut [u8]) {
        L::in_place(input, inout);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn avx2_apart<L: Loop>(left: &[u8], right: &[u8], result: &mut [u8]) {
        L::apart(left, right, result);
    }

    #[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn avx512_in_place<L: Loop>(input: &[u8], inout: &mut [u8]) {
        L::in_place(input, inout);
    }

    #[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn avx512_apart<L: Loop>(left: &[u8], right: &[u8], result: &mut [u8]) {
        L::apart(left, right, result);
    }
}
