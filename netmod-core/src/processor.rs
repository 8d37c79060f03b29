//! The processor, as far as copies between cores depend on it.

use std::sync::LazyLock;

/// The known properties of processors like this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processor {
    /// AMD's: taking a line from another core's caches can take much longer than fetching it from a
    /// cache that both share, or from memory.
    Amd,
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
        if std::arch::is_x86_feature_detected!("sse4a") { Processor::Amd } else { Processor::Other }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn ask() -> Processor {
        Processor::Other
    }
}
