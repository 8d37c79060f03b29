//! The end of the netmod's use: for good, or for a checkpoint.

use netmod_core::Time;

/// The progress of `finalize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    No,
    Until(Time),
    /// The process has dropped the netmod without finalizing it.
    Abandoned,
    Over,
}

/// The state of `finalize` and of `ckpt_shutdown`.
#[derive(Debug)]
pub(crate) struct Shutdown {
    pub(crate) ending: Ending,
    /// True between `ckpt_shutdown` and `ckpt_restart`.
    pub(crate) suspended: bool,
}

impl Shutdown {
    pub(crate) fn new() -> Shutdown {
        Shutdown { ending: Ending::No, suspended: false }
    }
}
