//! Options that several jobs take.

/// Options of several jobs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// True if a test that cannot run is a failure.
    pub(crate) no_skip: bool,
    /// True if nothing may be installed.
    pub(crate) no_install: bool,
    /// Rounds of a comparison.
    pub(crate) rounds: Option<usize>,
}
