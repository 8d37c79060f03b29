//! The processor, as far as copies between cores depend on it.

use std::sync::LazyLock;

/// The known properties of processors like this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processor {
    /// AMD's, up to family 19h (Zen 4): taking a line from another core's caches takes much longer
    /// than fetching it from a cache that both share.
    Zen4,
    /// AMD's, later than that: between cores of one L3 cache lines move as fast as within a core.
    Zen5,
    /// Any other: no such effect was found, or looked for.
    Other,
}

impl Processor {
    /// Returns this processor.
    #[inline]
    pub fn here() -> Processor {
        static HERE: LazyLock<Processor> = LazyLock::new(Processor::ask);
        *HERE
    }

    #[cfg(target_arch = "x86_64")]
    fn ask() -> Processor {
        // An instruction set of AMD processors alone.
        if !std::arch::is_x86_feature_detected!("sse4a") {
            return Processor::Other;
        }
        // AMD64 Architecture Programmer's Manual, volume 3, CPUID Fn0000_0001_EAX.
        let eax = core::arch::x86_64::__cpuid(1).eax;
        let family = (eax >> 8 & 0xf) + (eax >> 20 & 0xff);
        if family > 0x19 { Processor::Zen5 } else { Processor::Zen4 }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn ask() -> Processor {
        Processor::Other
    }
}
