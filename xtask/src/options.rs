//! Options that several jobs take.

/// Options of several jobs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// What cannot run is a failure.
    pub(crate) no_skip: bool,
    /// Nothing is installed.
    pub(crate) no_install: bool,
    /// Rounds of a comparison.
    pub(crate) rounds: Option<usize>,
}
