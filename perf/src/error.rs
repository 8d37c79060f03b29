//! Why a measurement failed: one sentence for the person who started it.

use std::fmt;

/// What went wrong, and what may help.
#[derive(Debug)]
pub(crate) struct Failure(String);

/// Result of everything that can fail here.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// From a sentence.
    pub(crate) fn new(text: impl Into<String>) -> Failure {
        Failure(text.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<ch3_shim::Error> for Failure {
    fn from(e: ch3_shim::Error) -> Failure {
        Failure(e.to_string())
    }
}

/// Says what was being done when something failed.
pub(crate) trait During<T> {
    /// `what` is the object of "cannot ..".
    fn during(self, what: impl fmt::Display) -> Result<T>;
}

impl<T, E: fmt::Display> During<T> for std::result::Result<T, E> {
    fn during(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|e| Failure(format!("cannot {what}: {e}")))
    }
}
