//! The flow of data frames, over all connections of the process.

use netmod_core::VcId;

/// The receive window, and the state of the reply back-off.
#[derive(Debug)]
pub(crate) struct Flow {
    /// This side's window in units.
    pub(crate) window: u32,
    /// DATA and SHORT frames received, modulo 2^32.
    pub(crate) taken: u32,
    /// The VC whose reply is polled for only when it may be there.
    pub(crate) awaited: Option<VcId>,
}

impl Flow {
    /// Creates the state for a window of so many units.
    pub(crate) fn new(window: u32) -> Flow {
        Flow { window, taken: 0, awaited: None }
    }
}
